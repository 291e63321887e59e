//! Which function of the code is the capability.

use super::{Form, at_offset};
use jarvis_protocol::ScriptError;
use oxc::ast::ast::{
    AssignmentTarget, BindingPattern, Declaration, ExportDefaultDeclarationKind, Expression, FormalParameters,
    Function, ModuleExportName, Program, PropertyKey, Statement, VariableDeclaration,
};
use oxc::semantic::Scoping;
use oxc::span::Span;

/// The entry and how it takes its arguments.
pub(super) struct Found {
    pub form: Form,
    /// Goes behind the printed module, so that its default export is the entry.
    pub append: String,
    pub destructured: Vec<String>,
    pub positional: Vec<String>,
    /// Name of the one parameter that holds all arguments.
    pub args_name: Option<String>,
    /// Name of the second parameter.
    pub ctx_name: Option<String>,
    /// Names bound by destructuring the second parameter: (property, local name).
    pub ctx_parts: Vec<(String, String)>,
}

struct Candidate<'p, 'a> {
    name: String,
    params: &'p FormalParameters<'a>,
    exported: bool,
}

/// Names a single parameter has when it stands for all arguments at once.
const WHOLE: [&str; 14] = [
    "args",
    "_args",
    "arguments",
    "params",
    "parameters",
    "input",
    "inputs",
    "options",
    "opts",
    "props",
    "payload",
    "request",
    "req",
    "_",
];
const CONTEXT: [&str; 6] = ["ctx", "_ctx", "context", "_context", "env", "_env"];

pub(super) const HOW: &str = "write `export default function run(args, ctx) { … }`";

pub(super) fn find(code: &str, program: &Program<'_>, scoping: &Scoping) -> Result<Found, ScriptError> {
    let mut candidates = candidates(program);
    let mut exported_names: Vec<String> = Vec::new();
    for statement in &program.body {
        match statement {
            Statement::ExportDefaultDeclaration(export) => {
                return default_export(code, &candidates, &export.declaration, export.span);
            }
            Statement::ExportNamedDeclaration(export) => {
                for specifier in &export.specifiers {
                    let local = export_name(&specifier.local);
                    if export_name(&specifier.exported) == "default" {
                        return Ok(function(params_named(&candidates, &local), String::new()));
                    }
                    exported_names.push(local);
                }
            }
            _ => {}
        }
    }
    for candidate in &mut candidates {
        candidate.exported |= exported_names.contains(&candidate.name);
    }
    if let Some(value) = module_exports(program) {
        let params = match value {
            Expression::Identifier(name) => params_named(&candidates, &name.name),
            other => params_of(other),
        };
        return Ok(function(params, "\nexport default module.exports;\n".to_owned()));
    }
    if free(scoping, "args") || free(scoping, "__workspace") {
        return Ok(script());
    }
    match choose(&candidates, scoping) {
        Ok(Some(chosen)) => Ok(function(Some(chosen.params), format!("\nexport {{ {} as default }};\n", chosen.name))),
        Ok(None) if program.body.is_empty() => Err(ScriptError::new("SyntaxError", format!("there is no code: {HOW}"))),
        Ok(None) => Ok(script()),
        Err(names) => {
            let message = format!("which function is the capability: {}? {HOW} for it", names.join(", "));
            Err(ScriptError::new("SyntaxError", message))
        }
    }
}

/// Every function that is declared at the top, by its name.
fn candidates<'p, 'a>(program: &'p Program<'a>) -> Vec<Candidate<'p, 'a>> {
    let mut all = Vec::new();
    for statement in &program.body {
        match statement {
            Statement::FunctionDeclaration(it) => declared(it, false, &mut all),
            Statement::VariableDeclaration(it) => functions_of(it, false, &mut all),
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::FunctionDeclaration(it) => declared(it, true, &mut all),
                Declaration::VariableDeclaration(it) => functions_of(it, true, &mut all),
                _ => {}
            },
            _ => {}
        }
    }
    all
}

/// One without a body is an overload's signature.
fn declared<'p, 'a>(function: &'p Function<'a>, exported: bool, out: &mut Vec<Candidate<'p, 'a>>) {
    if let (Some(id), Some(_)) = (&function.id, &function.body) {
        out.push(Candidate { name: id.name.to_string(), params: &function.params, exported });
    }
}

fn params_named<'p, 'a>(candidates: &[Candidate<'p, 'a>], name: &str) -> Option<&'p FormalParameters<'a>> {
    candidates.iter().find(|c| c.name == name).map(|c| c.params)
}

fn choose<'c, 'p, 'a>(
    candidates: &'c [Candidate<'p, 'a>],
    scoping: &Scoping,
) -> Result<Option<&'c Candidate<'p, 'a>>, Vec<String>> {
    if let Some(run) = candidates.iter().find(|c| c.name == "run") {
        return Ok(Some(run));
    }
    let exported: Vec<_> = candidates.iter().filter(|c| c.exported).collect();
    let pool = if exported.is_empty() { candidates.iter().collect() } else { exported };
    match pool.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            // Helpers are called by others; the one that nobody calls is the capability.
            let uncalled: Vec<_> = several.iter().filter(|c| !referenced(scoping, &c.name)).collect();
            match uncalled.as_slice() {
                [only] => Ok(Some(only)),
                _ => Err(several.iter().map(|c| c.name.clone()).collect()),
            }
        }
    }
}

fn referenced(scoping: &Scoping, name: &str) -> bool {
    scoping.get_root_binding(name.into()).is_some_and(|symbol| !scoping.symbol_is_unused(symbol))
}

/// Whether the code reads a global of this name.
fn free(scoping: &Scoping, name: &str) -> bool {
    scoping.root_unresolved_references().contains_key(name)
}

fn script() -> Found {
    Found {
        form: Form::Script,
        append: String::new(),
        destructured: Vec::new(),
        positional: Vec::new(),
        args_name: Some("args".to_owned()),
        ctx_name: Some("ctx".to_owned()),
        ctx_parts: Vec::new(),
    }
}

fn default_export(
    code: &str,
    candidates: &[Candidate<'_, '_>],
    declaration: &ExportDefaultDeclarationKind<'_>,
    span: Span,
) -> Result<Found, ScriptError> {
    let refuse = |what: &str| {
        let message = format!("the default export is {what}, not a function: {HOW}");
        Err(at_offset(code, span.start as usize, "SyntaxError", message))
    };
    match declaration {
        ExportDefaultDeclarationKind::FunctionDeclaration(it) => Ok(function(Some(&it.params), String::new())),
        ExportDefaultDeclarationKind::ClassDeclaration(_) => refuse("a class"),
        ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => refuse("an interface"),
        other => match other.as_expression().map(|e| e.get_inner_expression()) {
            Some(Expression::ObjectExpression(_)) => refuse("an object"),
            Some(Expression::ClassExpression(_)) => refuse("a class"),
            Some(Expression::Identifier(name)) => Ok(function(params_named(candidates, &name.name), String::new())),
            Some(expression) => Ok(function(params_of(expression), String::new())),
            None => refuse("no value"),
        },
    }
}

fn function(params: Option<&FormalParameters<'_>>, append: String) -> Found {
    let mut found = Found { form: Form::Function, append, args_name: None, ctx_name: None, ..script() };
    let Some(params) = params else { return found };
    let patterns: Vec<&BindingPattern<'_>> = params.items.iter().map(|item| inner(&item.pattern)).collect();
    match patterns.first() {
        Some(BindingPattern::ObjectPattern(object)) => {
            found.destructured = object.properties.iter().filter_map(|p| key(&p.key)).collect();
        }
        Some(BindingPattern::BindingIdentifier(id)) => found.args_name = Some(id.name.to_string()),
        _ => {}
    }
    let context = match patterns.get(1) {
        Some(BindingPattern::ObjectPattern(object)) => {
            for property in &object.properties {
                if let (Some(name), BindingPattern::BindingIdentifier(local)) =
                    (key(&property.key), inner(&property.value))
                {
                    found.ctx_parts.push((name, local.name.to_string()));
                }
            }
            true
        }
        Some(BindingPattern::BindingIdentifier(id)) => {
            let name = id.name.as_str();
            found.ctx_name = Some(name.to_owned());
            CONTEXT.contains(&name)
        }
        _ => false,
    };
    let end = if context { 1 } else { patterns.len() };
    let names: Option<Vec<String>> = patterns[..end.min(patterns.len())]
        .iter()
        .map(|pattern| match pattern {
            BindingPattern::BindingIdentifier(id) => Some(id.name.to_string()),
            _ => None,
        })
        .collect();
    found.positional = match names {
        Some(names) if params.rest.is_none() && !names.iter().any(|n| WHOLE.contains(&n.as_str())) => names,
        _ => Vec::new(),
    };
    found
}

fn inner<'p, 'a>(pattern: &'p BindingPattern<'a>) -> &'p BindingPattern<'a> {
    match pattern {
        BindingPattern::AssignmentPattern(assignment) => inner(&assignment.left),
        other => other,
    }
}

pub(super) fn key(key: &PropertyKey<'_>) -> Option<String> {
    match key {
        PropertyKey::StaticIdentifier(id) => Some(id.name.to_string()),
        PropertyKey::StringLiteral(text) => Some(text.value.to_string()),
        _ => None,
    }
}

fn functions_of<'p, 'a>(variables: &'p VariableDeclaration<'a>, exported: bool, out: &mut Vec<Candidate<'p, 'a>>) {
    for declarator in &variables.declarations {
        if let BindingPattern::BindingIdentifier(id) = &declarator.id
            && let Some(params) = declarator.init.as_ref().and_then(params_of)
        {
            out.push(Candidate { name: id.name.to_string(), params, exported });
        }
    }
}

fn params_of<'p, 'a>(expression: &'p Expression<'a>) -> Option<&'p FormalParameters<'a>> {
    match expression.get_inner_expression() {
        Expression::ArrowFunctionExpression(arrow) => Some(&arrow.params),
        Expression::FunctionExpression(function) => Some(&function.params),
        _ => None,
    }
}

fn export_name(name: &ModuleExportName<'_>) -> String {
    match name {
        ModuleExportName::IdentifierName(id) => id.name.to_string(),
        ModuleExportName::IdentifierReference(id) => id.name.to_string(),
        ModuleExportName::StringLiteral(text) => text.value.to_string(),
    }
}

/// The value of a top-level `module.exports = …`.
fn module_exports<'p, 'a>(program: &'p Program<'a>) -> Option<&'p Expression<'a>> {
    program.body.iter().find_map(|statement| {
        let Statement::ExpressionStatement(statement) = statement else { return None };
        let Expression::AssignmentExpression(assignment) = statement.expression.get_inner_expression() else {
            return None;
        };
        let AssignmentTarget::StaticMemberExpression(member) = &assignment.left else { return None };
        let is_module = matches!(&member.object, Expression::Identifier(id) if id.name == "module");
        let value = assignment.right.get_inner_expression();
        let is_function = params_of(value).is_some() || matches!(value, Expression::Identifier(_));
        (is_module && member.property.name == "exports" && is_function).then_some(value)
    })
}
