//! Walks the code once for what later checks need: what it reaches for, and which values are written into it.

use super::entry::{Found, key};
use super::{Use, UseKind, place};
use oxc::ast::ast::{
    Argument, BigIntLiteral, BindingPattern, CallExpression, Expression, NumericLiteral, Program,
    StaticMemberExpression, StringLiteral, TemplateElement, VariableDeclarator,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::Scoping;

/// The global that calls other capabilities.
const CAPABILITY: &str = "capability";

pub(super) struct Collector<'c> {
    code: &'c str,
    found: &'c Found,
    pub uses: Vec<Use>,
    pub literals: Vec<String>,
    /// Properties read of the parameter that holds all arguments.
    pub members: Vec<String>,
    /// The one parameter is read as an object that has a property of its own name, so it holds all arguments.
    pub vetoed: bool,
    /// `capability` is the one that calls others, and none of the code's own.
    calls: bool,
}

impl<'c> Collector<'c> {
    pub(super) fn new(code: &'c str, found: &'c Found, scoping: &Scoping) -> Self {
        let calls = scoping.root_unresolved_references().keys().any(|name| name.as_str() == CAPABILITY);
        Self { code, found, uses: Vec::new(), literals: Vec::new(), members: Vec::new(), vetoed: false, calls }
    }

    pub(super) fn visit(&mut self, program: &Program<'_>) {
        self.visit_program(program);
    }

    fn is_args(&self, expression: &Expression<'_>) -> bool {
        matches!((expression, &self.found.args_name), (Expression::Identifier(id), Some(name)) if id.name.as_str() == name)
    }

    fn member(&mut self, name: &str) {
        if self.found.args_name.as_deref() == Some(name) {
            self.vetoed = true;
        }
        if !self.members.iter().any(|m| m == name) {
            self.members.push(name.to_owned());
        }
    }

    /// `fetch`, `ctx.read`, or a name taken out of `ctx` by destructuring.
    fn used(&self, callee: &Expression<'_>) -> Option<UseKind> {
        match callee.get_inner_expression() {
            Expression::Identifier(id) => {
                let part = self.found.ctx_parts.iter().find(|(_, local)| id.name.as_str() == local);
                match part {
                    Some((name, _)) => kind_of(name),
                    None if id.name == CAPABILITY => self.calls.then_some(UseKind::Call),
                    None => (id.name == "fetch").then_some(UseKind::Fetch),
                }
            }
            Expression::StaticMemberExpression(member) => match &member.object {
                Expression::Identifier(id) if self.found.ctx_name.as_deref() == Some(id.name.as_str()) => {
                    kind_of(&member.property.name)
                }
                Expression::Identifier(id) if id.name == "globalThis" => match member.property.name.as_str() {
                    "fetch" => Some(UseKind::Fetch),
                    CAPABILITY => Some(UseKind::Call),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

fn kind_of(name: &str) -> Option<UseKind> {
    Some(match name {
        "fetch" => UseKind::Fetch,
        "read" => UseKind::Read,
        "write" => UseKind::Write,
        "list" => UseKind::List,
        "secret" => UseKind::Secret,
        "call" => UseKind::Call,
        _ => return None,
    })
}

/// The part of the first argument that is written out: a string, or the beginning of a template.
fn written(kind: UseKind, argument: Option<&Argument<'_>>) -> Option<String> {
    let (text, whole) = match argument?.as_expression()?.get_inner_expression() {
        Expression::StringLiteral(text) => (text.value.to_string(), true),
        Expression::TemplateLiteral(template) => {
            let first = template.quasis.first()?;
            (first.value.cooked.as_ref()?.to_string(), template.expressions.is_empty())
        }
        Expression::BinaryExpression(sum) => match &sum.left {
            Expression::StringLiteral(text) => (text.value.to_string(), false),
            _ => return None,
        },
        _ => return None,
    };
    if kind != UseKind::Fetch {
        return whole.then_some(text);
    }
    // `https://api.${region}.example.com` is no host: it must be written out up to the slash behind it.
    let ended = text.split_once("://").is_some_and(|(_, rest)| whole || rest.contains(['/', '?', '#']));
    let url = url::Url::parse(&text).ok().filter(|_| ended)?;
    let host = url.host_str()?.to_owned();
    Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
}

impl<'a> Visit<'a> for Collector<'_> {
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Some(kind) = self.used(&it.callee) {
            let target = written(kind, it.arguments.first());
            self.uses.push(Use { kind, target, line: place(self.code, it.span.start as usize).0 });
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        if self.is_args(&it.object) {
            self.member(&it.property.name);
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::ObjectPattern(object), Some(init)) = (&it.id, &it.init)
            && self.is_args(init.get_inner_expression())
        {
            for name in object.properties.iter().filter_map(|p| key(&p.key)) {
                self.member(&name);
            }
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_string_literal(&mut self, it: &StringLiteral<'a>) {
        self.literals.push(it.value.to_string());
    }

    fn visit_numeric_literal(&mut self, it: &NumericLiteral<'a>) {
        let raw = it.raw.as_ref().map(|raw| raw.replace('_', ""));
        let value = it.value.to_string();
        if let Some(raw) = raw.filter(|raw| *raw != value) {
            self.literals.push(raw);
        }
        self.literals.push(value);
    }

    fn visit_big_int_literal(&mut self, it: &BigIntLiteral<'a>) {
        self.literals.push(it.value.to_string());
    }

    fn visit_template_element(&mut self, it: &TemplateElement<'a>) {
        let text = it.value.cooked.as_ref().unwrap_or(&it.value.raw);
        if !text.is_empty() {
            self.literals.push(text.to_string());
        }
    }
}
