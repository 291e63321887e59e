//! Reads the person's code: parses it, refuses imports, finds the entry, strips the types. Nothing runs here.

mod collect;
mod entry;
mod imports;
mod lines;

use collect::Collector;
use entry::Found;
use jarvis_protocol::{Runtime, ScriptError};
use lines::LineMap;
use oxc::allocator::Allocator;
use oxc::ast::ast::Program;
use oxc::codegen::{Codegen, CodegenOptions};
use oxc::diagnostics::OxcDiagnostic;
use oxc::parser::Parser;
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Longer code than this is refused; it bounds the memory and stack that parsing may take.
pub(crate) const MAX_CODE_BYTES: usize = 256 << 10;

/// How deeply brackets may nest. The parser recurses, and no capability needs more.
const MAX_NESTING: usize = 400;

/// Stack for each byte of code. A byte can open a level of nesting (`!!!!x`), and the widest level measured takes
/// less than this; see the test `deep_nesting_is_an_error_and_not_a_crash`.
const STACK_PER_BYTE: usize = 4 << 10;

/// How a capability hands over its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A function `run(args, ctx)`; what it returns is the result.
    Function,
    /// Statements that read the globals `args` and `__workspace` and print their result (a Tendril tool).
    Script,
}

/// Something the code reaches for that needs a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    pub kind: UseKind,
    /// The host for `fetch`, else the first argument, where it is written out in the code.
    pub target: Option<String>,
    /// 1-based.
    pub line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UseKind {
    Fetch,
    Read,
    Write,
    List,
    Secret,
    Call,
}

/// Code that passed.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Names of the arguments that the entry takes, when they can be told: the destructured parameter's, the plain
    /// parameters' when it takes them one by one, or the properties it reads of its one parameter.
    pub params: Vec<String>,
    /// Plain parameters of an entry that takes its arguments one by one (`function add(a, b)`). It is called that way
    /// when the arguments have those names.
    pub positional: Vec<String>,
    pub uses: Vec<Use>,
    /// Every string, number and bigint literal and every piece of template text, as the value reads.
    pub literals: Vec<String>,
    pub form: Form,
    /// The module that the engine runs; its default export is the entry (form `Function`).
    pub javascript: String,
    lines: LineMap,
}

impl Checked {
    /// The person's own line and column (1-based) of a place in `javascript`.
    pub(crate) fn original(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        self.lines.original(line, column)
    }
}

impl Checked {
    /// Code that another parser has read, as it is.
    pub(crate) fn foreign(code: &str, params: Vec<String>, positional: Vec<String>) -> Self {
        let (uses, literals, lines) = (Vec::new(), Vec::new(), LineMap::new(Vec::new()));
        Self { params, positional, uses, literals, form: Form::Function, javascript: code.to_owned(), lines }
    }
}

/// Parses and checks `code`. The error carries the person's own line.
pub fn check(code: &str, runtime: Runtime) -> Result<Checked, ScriptError> {
    match runtime {
        Runtime::Typescript | Runtime::Deno => {}
        Runtime::Python => {
            return Err(ScriptError::new("RuntimeError", "python code is read by python itself: Executor::check"));
        }
    }
    if code.len() > MAX_CODE_BYTES {
        let message = format!("the code is {} bytes long; the most is {MAX_CODE_BYTES}", code.len());
        return Err(ScriptError::new("RangeError", message));
    }
    if let Some(at) = too_deep(code) {
        return Err(at_offset(code, at, "SyntaxError", format!("nested more than {MAX_NESTING} levels deep")));
    }
    // Parser, transformer and printer recurse with the code, so they get a stack that its length cannot exhaust.
    let stack = (1 << 20) + code.len() * STACK_PER_BYTE;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("check".to_owned()).stack_size(stack);
        match thread.spawn_scoped(scope, || read(code)).map(|handle| handle.join()) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ScriptError::new("SyntaxError", "the parser failed on this code; write it more simply")),
            Err(e) => Err(ScriptError::new("InternalError", format!("no thread to parse the code on: {e}"))),
        }
    })
}

fn read(code: &str) -> Result<Checked, ScriptError> {
    let allocator = Allocator::default();
    let source_type = SourceType::ts().with_module(true);
    let parsed = Parser::new(&allocator, code, source_type).parse();
    first_error(code, parsed.diagnostics.errors())?;
    if parsed.panicked {
        return Err(ScriptError::new("SyntaxError", "the code does not parse"));
    }
    let mut program = parsed.program;
    imports::refuse(code, &program)?;

    let built = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    first_error(code, built.diagnostics.errors())?;
    let scoping = built.semantic.into_scoping();
    let found = entry::find(code, &program, &scoping)?;
    let mut collector = Collector::new(code, &found, &scoping);
    collector.visit(&program);
    let Collector { uses, literals, members, vetoed, .. } = collector;
    let Found { form, append, destructured, positional, .. } = found;
    let positional = if vetoed { Vec::new() } else { positional };
    let params = match () {
        _ if !destructured.is_empty() => destructured,
        _ if !positional.is_empty() && members.is_empty() => positional.clone(),
        _ => members,
    };

    let options = TransformOptions::default();
    let transformed =
        Transformer::new(&allocator, Path::new("capability.ts"), &options).build_with_scoping(scoping, &mut program);
    first_error(code, transformed.diagnostics.errors())?;
    let (mut javascript, lines) = print(&program);
    if javascript.trim().is_empty() {
        let message =
            format!("nothing is left to run: there are only types, or functions without a body; {}", entry::HOW);
        return Err(ScriptError::new("SyntaxError", message));
    }
    javascript.push_str(&append);
    Ok(Checked { params, positional, uses, literals, form, javascript, lines })
}

fn print(program: &Program<'_>) -> (String, LineMap) {
    let options = CodegenOptions {
        source_map_path: Some(PathBuf::from("capability.ts")),
        // Nobody reads it, and indentation of deeply nested statements grows with the square of their depth.
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    let spans = printed.map.iter().flat_map(|map| map.get_tokens()).map(|token| lines::Span {
        out: (token.get_dst_line(), token.get_dst_col()),
        source: (token.get_src_line(), token.get_src_col()),
    });
    (printed.code, LineMap::new(spans.collect()))
}

fn first_error<'a>(code: &str, mut errors: impl Iterator<Item = &'a OxcDiagnostic>) -> Result<(), ScriptError> {
    let Some(error) = errors.next() else { return Ok(()) };
    let mut message = error.message.to_string();
    if let Some(help) = &error.help {
        message.push_str(&format!(" ({help})"));
    }
    let at = error.labels.first().map(|label| label.offset());
    Err(match at {
        Some(offset) => at_offset(code, offset as usize, "SyntaxError", message),
        None => ScriptError::new("SyntaxError", message),
    })
}

/// An error at a byte offset of the person's code.
fn at_offset(code: &str, offset: usize, name: &str, message: impl Into<String>) -> ScriptError {
    let (line, column) = place(code, offset);
    ScriptError { line: Some(line), column: Some(column), ..ScriptError::new(name, message) }
}

/// Line and column, 1-based, the column in characters.
fn place(code: &str, offset: usize) -> (u32, u32) {
    let before = &code[..code.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line as u32, column as u32)
}

/// Where the brackets nest too deeply, if they do. Brackets inside strings count as well: nobody writes 400 there.
fn too_deep(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests;
