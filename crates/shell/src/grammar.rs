//! The statement tree: tree-sitter-bash over the stand-ins of `lex`, turned into `tree`.
//!
//! Every stand-in must come back exactly once, so nothing that was read can be lost between the two.

use crate::lex::{MAX_DEPTH, Reading, refuse};
use crate::sheet::{Redirects, hole_index};
use crate::tree::{Joint, Node, Redirect, Simple, Word};
use std::ops::ControlFlow;
use std::rc::Rc;
use tree_sitter::{Node as Syntax, ParseOptions, ParseState, Point};

/// Steps of the parser, each about a hundred of its operations.
const MAX_STEPS: usize = 5_000;

pub(crate) fn tree(text: &str, holes: Vec<Word>, redirects: &Redirects) -> Reading<Node> {
    let mut parser = tree_sitter::Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return refuse("the shell grammar cannot be loaded");
    }
    // Recovery from errors can take long on texts made to be slow.
    let mut steps = 0usize;
    let mut progress = |_: &ParseState| {
        steps += 1;
        if steps > MAX_STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = text.as_bytes();
    let mut read = |at: usize, _: Point| bytes.get(at..).unwrap_or_default();
    let Some(parsed) = parser.parse_with_options(&mut read, None, Some(options)) else {
        return refuse("the command takes too long to parse");
    };
    let root = parsed.root_node();
    if root.has_error() {
        return refuse("not shell syntax that can be read with certainty");
    }
    let mut build = Build { text, holes: holes.into_iter().map(Some).collect(), redirects, depth: 0 };
    let node = build.sequence(children(root))?;
    if build.holes.iter().any(Option::is_some) {
        return refuse("a structure that cannot be read with certainty");
    }
    Ok(node)
}

fn children<'t>(node: Syntax<'t>) -> Vec<Syntax<'t>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

struct Build<'a> {
    text: &'a str,
    holes: Vec<Option<Word>>,
    redirects: &'a Redirects,
    depth: usize,
}

impl Build<'_> {
    fn source(&self, node: Syntax) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn word(&mut self, node: Syntax) -> Reading<Word> {
        let index = hole_index(self.source(node).trim());
        match index.and_then(|i| self.holes.get_mut(i)).and_then(Option::take) {
            Some(word) => Ok(word),
            None => refuse("a word where none can be"),
        }
    }

    /// A command is words and redirections; anything else in its text means that the grammar joined two.
    fn is_sound(&self, node: Syntax) -> bool {
        let mut tokens = self.source(node).split_whitespace();
        tokens.all(|t| hole_index(t).is_some() || t.trim_start_matches(|c: char| c.is_ascii_digit()) == ">")
    }

    /// Statements among `nodes`, with their joints; keywords are passed over.
    fn sequence(&mut self, nodes: Vec<Syntax>) -> Reading<Node> {
        let mut statements = Vec::new();
        let mut joint = Joint::Then;
        for node in nodes {
            if node.is_named() {
                let statement = self.statement(node)?;
                statements.push((std::mem::replace(&mut joint, Joint::Then), statement));
            } else {
                match node.kind() {
                    "&" => joint = Joint::Beside,
                    ";;" | ";&" | ";;&" => return refuse("`;;` outside a case"),
                    _ => {}
                }
            }
        }
        if joint == Joint::Beside {
            // So that it can be seen that the last one runs in the background too.
            statements.push((joint, Node::Sequence(Vec::new())));
        }
        Ok(Node::Sequence(statements))
    }

    fn statement(&mut self, node: Syntax) -> Reading<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse("nested too deeply to look through");
        }
        let result = self.statement_of_kind(node);
        self.depth -= 1;
        result
    }

    fn statement_of_kind(&mut self, node: Syntax) -> Reading<Node> {
        let parts = children(node);
        match node.kind() {
            "command" if !self.is_sound(node) => refuse("a command that cannot be read with certainty"),
            "command" => {
                let mut simple = Simple::default();
                for part in parts {
                    match part.kind() {
                        "command_name" => simple.words.push(self.word(part)?),
                        "file_redirect" => {
                            let (redirect, more) = self.redirect(part)?;
                            simple.redirects.push(redirect);
                            simple.words.extend(more);
                        }
                        _ => simple.words.push(self.word(part)?),
                    }
                }
                Ok(Node::Simple(simple))
            }
            "redirected_statement" => {
                let mut body = None;
                let (mut redirects, mut surplus) = (Vec::new(), Vec::new());
                for part in parts {
                    match part.kind() {
                        "file_redirect" => {
                            let (redirect, more) = self.redirect(part)?;
                            redirects.push(redirect);
                            surplus.extend(more);
                        }
                        _ if body.is_none() => body = Some(self.statement(part)?),
                        _ => return refuse("a redirection that cannot be read with certainty"),
                    }
                }
                attach(body.unwrap_or_else(|| Node::Simple(Simple::default())), redirects, surplus)
            }
            "list" => self.list(node),
            "pipeline" => self.pipeline(parts),
            "negated_command" | "compound_statement" | "do_group" => self.sequence(parts),
            "subshell" => Ok(Node::Subshell(Box::new(self.sequence(parts)?))),
            "if_statement" | "elif_clause" => self.branch(parts),
            "else_clause" => self.sequence(parts),
            "case_statement" => self.case(parts),
            "while_statement" => {
                let (body, head): (Vec<_>, Vec<_>) = parts.into_iter().partition(|p| p.kind() == "do_group");
                let head = Box::new(self.sequence(head)?);
                Ok(Node::Loop { variable: None, head, body: Box::new(self.sequence(body)?) })
            }
            "for_statement" => {
                let (mut name, mut values, mut body) = (String::new(), Vec::new(), Vec::new());
                for part in parts.into_iter().filter(Syntax::is_named) {
                    match part.kind() {
                        "variable_name" => name = self.source(part).to_owned(),
                        "do_group" | "compound_statement" => body.push(part),
                        _ => values.push(self.word(part)?),
                    }
                }
                let head = Box::new(Node::Sequence(Vec::new()));
                Ok(Node::Loop { variable: Some((name, values)), head, body: Box::new(self.sequence(body)?) })
            }
            "function_definition" => {
                let (mut name, mut body, mut redirects) = (None, None, Vec::new());
                for part in parts.into_iter().filter(Syntax::is_named) {
                    match part.kind() {
                        "word" if name.is_none() => name = Some(self.word(part)?),
                        "file_redirect" => {
                            let (redirect, more) = self.redirect(part)?;
                            if !more.is_empty() {
                                return refuse("words after a function");
                            }
                            redirects.push(redirect);
                        }
                        _ => body = Some(self.statement(part)?),
                    }
                }
                let (Some(name), Some(body)) = (name, body) else { return refuse("a function without a body") };
                let body = if redirects.is_empty() { body } else { Node::Redirected(Box::new(body), redirects) };
                Ok(Node::Function { name, body: Rc::new(body) })
            }
            other => refuse(format!("a shell construct that is not followed ({other})")),
        }
    }

    /// `a | b`. Where a redirection stands before the `|`, the grammar takes `x && a > f` for the first command, and a
    /// pipeline for the last one of another: both are put right.
    fn pipeline(&mut self, parts: Vec<Syntax>) -> Reading<Node> {
        let mut statements = Vec::new();
        let mut joint = Joint::Then;
        let mut commands = Vec::new();
        for part in parts.into_iter().filter(Syntax::is_named) {
            match self.statement(part)? {
                Node::Pipeline(inner) => commands.extend(inner),
                Node::Sequence(list) if is_list(&list) => {
                    for (i, (next, command)) in list.into_iter().enumerate() {
                        if i > 0 {
                            let before = one_or_pipeline(std::mem::take(&mut commands));
                            statements.push((std::mem::replace(&mut joint, next), before));
                        }
                        match command {
                            Node::Pipeline(inner) => commands.extend(inner),
                            command => commands.push(command),
                        }
                    }
                }
                command => commands.push(command),
            }
        }
        let last = one_or_pipeline(commands);
        if statements.is_empty() {
            return Ok(last);
        }
        statements.push((joint, last));
        Ok(Node::Sequence(statements))
    }

    /// `a && b || c`: the tree leans left as deep as the list is long, so it is walked, not recursed into.
    fn list(&mut self, node: Syntax) -> Reading<Node> {
        let mut spine = Vec::new();
        let mut left = node;
        while left.kind() == "list" {
            let parts = children(left);
            let [first, op, right] = parts.as_slice() else {
                return refuse("a list that cannot be read with certainty");
            };
            spine.push((if op.kind() == "&&" { Joint::And } else { Joint::Or }, *right));
            left = *first;
        }
        let mut statements = match self.statement(left)? {
            Node::Sequence(list) if is_list(&list) => list,
            first => vec![(Joint::Then, first)],
        };
        for (joint, right) in spine.into_iter().rev() {
            statements.push((joint, self.statement(right)?));
        }
        Ok(Node::Sequence(statements))
    }

    fn branch(&mut self, parts: Vec<Syntax>) -> Reading<Node> {
        let then = parts.iter().position(|p| p.kind() == "then").unwrap_or(parts.len());
        let (head, rest) = parts.split_at(then);
        let (others, body): (Vec<_>, Vec<_>) =
            rest.iter().copied().partition(|p| matches!(p.kind(), "elif_clause" | "else_clause"));
        let head = Box::new(self.sequence(head.to_vec())?);
        let mut arms = vec![self.sequence(body)?];
        for other in others {
            arms.push(self.statement(other)?);
        }
        Ok(Node::Branch { head, words: Vec::new(), arms })
    }

    fn case(&mut self, parts: Vec<Syntax>) -> Reading<Node> {
        let (mut words, mut arms) = (Vec::new(), Vec::new());
        for part in parts.into_iter().filter(Syntax::is_named) {
            if part.kind() != "case_item" {
                words.push(self.word(part)?);
                continue;
            }
            let inner = children(part);
            let close = inner.iter().position(|p| p.kind() == ")").unwrap_or(0);
            for pattern in inner[..close].iter().filter(|p| p.is_named()) {
                words.push(self.word(*pattern)?);
            }
            let body = inner[close..].iter().copied().filter(|p| !matches!(p.kind(), ";;" | ";&" | ";;&"));
            arms.push(self.sequence(body.collect())?);
        }
        Ok(Node::Branch { head: Box::new(Node::Sequence(Vec::new())), words, arms })
    }

    /// A redirection and the words the grammar takes for further targets, which are the command's.
    fn redirect(&mut self, node: Syntax) -> Reading<(Redirect, Vec<Word>)> {
        if !self.is_sound(node) {
            return refuse("a redirection that cannot be read with certainty");
        }
        let targets: Vec<Syntax> = children(node).into_iter().filter(Syntax::is_named).collect();
        let Some((target, more)) = targets.split_first() else { return refuse("a redirection without its file") };
        let Some((op, fd)) = hole_index(self.source(*target).trim()).and_then(|hole| self.redirects.get(&hole)) else {
            return refuse("a redirection that cannot be read");
        };
        let redirect = Redirect { op, fd: fd.clone(), target: self.word(*target)? };
        let mut words = Vec::new();
        for word in more {
            words.push(self.word(*word)?);
        }
        Ok((redirect, words))
    }
}

/// Only `a && b` and `a || b` themselves; a group around them is a sequence of one.
fn is_list(statements: &[(Joint, Node)]) -> bool {
    statements.iter().any(|(joint, _)| matches!(joint, Joint::And | Joint::Or))
}

fn one_or_pipeline(mut commands: Vec<Node>) -> Node {
    match commands.pop() {
        Some(one) if commands.is_empty() => one,
        last => {
            commands.extend(last);
            Node::Pipeline(commands)
        }
    }
}

/// The grammar hangs the redirections of a list's last command on the list.
fn attach(mut node: Node, redirects: Vec<Redirect>, surplus: Vec<Word>) -> Reading<Node> {
    match &mut node {
        Node::Simple(simple) => {
            simple.redirects.extend(redirects);
            simple.words.extend(surplus);
            return Ok(node);
        }
        Node::Pipeline(commands) => {
            if let Some(last) = commands.pop() {
                commands.push(attach(last, redirects, surplus)?);
            }
            return Ok(node);
        }
        // A group's own sequence is redirected as a whole.
        Node::Sequence(statements) if is_list(statements) => {
            if let Some((joint, last)) = statements.pop() {
                statements.push((joint, attach(last, redirects, surplus)?));
            }
            return Ok(node);
        }
        _ => {}
    }
    if !surplus.is_empty() {
        return refuse("words after a redirected group");
    }
    Ok(Node::Redirected(Box::new(node), redirects))
}
