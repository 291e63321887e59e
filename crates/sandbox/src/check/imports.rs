//! A capability is one file: every import is refused, with what to use instead.

use super::at_offset;
use jarvis_protocol::ScriptError;
use oxc::ast::ast::{CallExpression, Expression, ImportExpression, Program, Statement};
use oxc::ast_visit::{Visit, walk};

pub(super) fn refuse(code: &str, program: &Program<'_>) -> Result<(), ScriptError> {
    for statement in &program.body {
        let (source, span, types_only) = match statement {
            Statement::ImportDeclaration(import) => {
                (import.source.value.as_str(), import.span, import.import_kind.is_type())
            }
            Statement::ExportAllDeclaration(export) => (export.source.value.as_str(), export.span, false),
            Statement::ExportFromDeclaration(export) => (export.source.value.as_str(), export.span, false),
            Statement::TSImportEqualsDeclaration(import) => ("", import.span, false),
            _ => continue,
        };
        if !types_only {
            return Err(refusal(code, span.start, source));
        }
    }
    let mut dynamic = Dynamic { code, found: None };
    dynamic.visit_program(program);
    dynamic.found.map_or(Ok(()), Err)
}

struct Dynamic<'c> {
    code: &'c str,
    found: Option<ScriptError>,
}

impl<'a> Visit<'a> for Dynamic<'_> {
    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        let source = match &it.source {
            Expression::StringLiteral(text) => text.value.as_str(),
            _ => "",
        };
        self.found.get_or_insert_with(|| refusal(self.code, it.span.start, source));
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::Identifier(name) = &it.callee
            && name.name == "require"
            && let Some(Expression::StringLiteral(text)) = it.arguments.first().and_then(|a| a.as_expression())
        {
            let source = text.value.as_str();
            self.found.get_or_insert_with(|| refusal(self.code, it.span.start, source));
        }
        walk::walk_call_expression(self, it);
    }
}

fn refusal(code: &str, offset: u32, source: &str) -> ScriptError {
    let what = if source.is_empty() { "an import".to_owned() } else { format!("`{source}`") };
    let message = format!("{what} cannot be imported: a capability is one file without modules; {}", instead(source));
    at_offset(code, offset as usize, "ImportError", message)
}

/// What to write instead of a module that people (and models) reach for.
fn instead(source: &str) -> &'static str {
    let bare = source.strip_prefix("node:").or_else(|| source.strip_prefix("npm:")).unwrap_or(source);
    match bare.split(['/', '@']).find(|part| !part.is_empty()).unwrap_or_default() {
        "fs" | "path" => "use ctx.read, ctx.write and ctx.list (with a grant for the path)",
        "http" | "https" | "axios" | "got" | "node-fetch" | "undici" | "request" => {
            "use fetch (with a network grant for the host)"
        }
        "crypto" => "use the global crypto (randomUUID, getRandomValues, subtle.digest)",
        "url" | "querystring" => "URL and URLSearchParams are globals",
        "buffer" => "Buffer, atob and btoa are globals",
        "util" => "TextEncoder, TextDecoder and structuredClone are globals",
        "timers" => "setTimeout is a global: await new Promise(r => setTimeout(r, ms))",
        "perf_hooks" => "performance is a global",
        "process" | "os" | "child_process" | "worker_threads" | "vm" | "cluster" => {
            "processes, the environment and the machine are out of reach; take values as arguments"
        }
        "moment" | "dayjs" | "luxon" | "date-fns" => "use Date (the time zone is UTC)",
        "bignumber.js" | "big.js" | "decimal.js" | "big-integer" | "bn.js" => "use BigInt (1n * …)",
        _ => "write what you need of it into this file",
    }
}
