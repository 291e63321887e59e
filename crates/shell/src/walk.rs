//! Follows the tree in the order bash would run it and has every simple command judged.

use crate::Context;
use crate::expand::{Arg, Env};
use crate::flow::also;
use crate::lex;
use crate::listing::{self, Origin};
use crate::paths::Paths;
use crate::rules::{self, Call};
use crate::state::{State, Value, known};
use crate::tree::{Node, ParamOp, Piece, Redirect, Script, Simple, Word, assigns_in, scripts_in};
use crate::verdict::{Finding, Judgement, SimpleCommand, Verdict};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Simple commands judged in one classification, functions counted at each call.
const MAX_COMMANDS: usize = 5_000;
/// Commands given as text (`sh -c`, `eval`) inside one another, and functions calling functions.
pub(crate) const MAX_INNER: usize = 8;

pub(crate) fn judge(command: &str, context: &Context) -> Judgement {
    let paths = Paths::new(context);
    let script = match lex::read(command) {
        Ok(script) => script,
        Err(unreadable) => return unreadable_judgement(command, context, &unreadable.to_string()),
    };
    let mut walker = Walker::new(paths);
    walker.script(&script);
    walker.traps();
    let exhausted = walker.judged > MAX_COMMANDS;
    let mut judgement = Judgement::of(walker.out);
    if exhausted {
        judgement.at_least(Verdict::Ask, "more commands and arguments than are looked through".to_owned());
    }
    judgement
}

/// A command that cannot be parsed is at least a question; lines of it that can be, and are forbidden, still are.
fn unreadable_judgement(command: &str, context: &Context, why: &str) -> Judgement {
    let mut judgement = Judgement::whole(Verdict::Ask, format!("the command cannot be read with certainty: {why}"));
    for part in command.split(['\n', ';', '|', '&', '(', ')', '`', '{', '}']).filter(|p| !p.trim().is_empty()).take(200)
    {
        if part.len() == command.len() {
            continue;
        }
        if let Ok(script) = lex::read(part) {
            let mut walker = Walker::new(Paths::new(context));
            walker.script(&script);
            let found = Judgement::of(walker.out);
            // A piece like `*)` of a case is no command.
            let certain = |c: &SimpleCommand| c.verdict == Verdict::Deny && !c.program.contains(['*', '?', '[']);
            if found.commands.iter().any(certain) {
                judgement = found;
                break;
            }
        }
    }
    judgement
}

/// Where a command's standard input comes from.
#[derive(Debug, Clone)]
pub(crate) enum Stdin {
    /// Not given: closed in the jail.
    None,
    Text(String),
    /// A list of paths, one a line.
    Paths(Vec<Arg>),
    File(Arg),
    /// Something that cannot be told.
    Hidden(Origin),
}

pub(crate) struct Walker {
    pub paths: Paths,
    pub state: State,
    pub stdin: Stdin,
    /// Where the substitutions in the current command's words take their text from.
    pub fetched: Origin,
    pub out: Vec<SimpleCommand>,
    /// Functions being followed, outermost first, with their bodies.
    pub active: Vec<(String, Rc<Node>)>,
    /// Names made local in the functions being followed, innermost last.
    pub locals: Vec<Vec<String>>,
    /// Texts of `trap`, and all that variables and folder have been since the first.
    pub trapped: Vec<Arg>,
    pub trap_state: Option<State>,
    /// Names that start some command of the scripts read so far.
    pub called: BTreeSet<String>,
    pub inner: usize,
    pub judged: usize,
}

impl Walker {
    fn new(paths: Paths) -> Walker {
        Walker {
            state: State::new(&paths.workspace),
            paths,
            stdin: Stdin::None,
            fetched: Origin::Plain,
            out: Vec::new(),
            active: Vec::new(),
            locals: Vec::new(),
            trapped: Vec::new(),
            trap_state: None,
            called: BTreeSet::new(),
            inner: 0,
            judged: 0,
        }
    }

    pub fn env(&self) -> Env<'_> {
        Env { state: &self.state, paths: &self.paths }
    }

    pub fn script(&mut self, script: &Script) {
        let called = &mut self.called;
        listing::visit(&script.body, 0, &mut |simple| {
            called.extend(simple.words.iter().find(|w| w.as_assignment().is_none()).and_then(Word::as_literal));
        });
        self.node(&script.body);
    }

    /// Follows `text` as a command line of its own; None if it cannot be read.
    pub fn text(&mut self, text: &str) -> Result<(), Finding> {
        if self.inner >= MAX_INNER {
            return Err(Finding::ask("commands inside commands, too deep to look through"));
        }
        match lex::read(text) {
            Ok(script) => {
                self.inner += 1;
                self.script(&script);
                self.inner -= 1;
                Ok(())
            }
            Err(unreadable) => Err(Finding::ask(format!("runs text that cannot be read with certainty: {unreadable}"))),
        }
    }

    /// The verdict `text` would get as a command, without it being reported.
    pub fn try_text(&mut self, text: &str) -> Verdict {
        let mut walker = Walker {
            inner: self.inner,
            state: self.state.clone(),
            judged: self.judged,
            ..Walker::new(self.paths.clone())
        };
        let read = walker.text(text);
        walker.traps();
        self.judged = walker.judged;
        match read {
            Ok(()) if walker.judged > MAX_COMMANDS => Verdict::Ask,
            Ok(()) => walker.out.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Allow),
            Err(found) => found.verdict,
        }
    }

    /// In a shell of its own: what it does to variables and folder is forgotten.
    pub fn apart<R>(&mut self, stdin: Option<Stdin>, run: impl FnOnce(&mut Walker) -> R) -> R {
        let before = self.state.clone();
        let stdin_before = stdin.map(|s| std::mem::replace(&mut self.stdin, s));
        let result = run(self);
        let after = std::mem::replace(&mut self.state, before);
        self.state.keep_written(&after);
        if let Some(stdin) = stdin_before {
            self.stdin = stdin;
        }
        result
    }

    /// In a new process: functions and variables that are not exported are gone.
    pub fn child<R>(&mut self, run: impl FnOnce(&mut Walker) -> R) -> R {
        self.apart(None, |w| {
            w.state.become_child();
            run(w)
        })
    }

    pub fn report(&mut self, program: &str, args: &[Arg], finding: Finding) {
        self.out.push(SimpleCommand {
            program: program.to_owned(),
            args: args.iter().map(Arg::shown).collect(),
            verdict: finding.verdict,
            reason: finding.reason,
        });
    }

    pub fn node(&mut self, node: &Node) {
        if self.judged > MAX_COMMANDS {
            return;
        }
        match node {
            Node::Simple(simple) => self.simple(simple),
            Node::Sequence(statements) => self.sequence(statements),
            Node::Pipeline(commands) => self.pipeline(commands),
            Node::Subshell(inner) => self.apart(None, |w| w.node(inner)),
            Node::Branch { head, words, arms } => {
                words.iter().for_each(|w| self.substitutions(&w.pieces));
                self.node(head);
                let before = self.state.clone();
                let mut after = before.clone();
                for arm in arms {
                    self.state = before.clone();
                    self.node(arm);
                    after.join(std::mem::replace(&mut self.state, before.clone()));
                }
                self.state = after;
            }
            Node::Loop { variable, head, body } => self.repeat(variable.as_ref(), head, body),
            Node::Function { name, body } => self.define(name, body),
            Node::Redirected(inner, redirects) => {
                let stdin = self.redirects(redirects, Origin::Plain);
                let before = stdin.map(|s| std::mem::replace(&mut self.stdin, s));
                self.node(inner);
                if let Some(before) = before {
                    self.stdin = before;
                }
            }
        }
    }

    pub fn stdin_origin(&self) -> Origin {
        match self.stdin {
            Stdin::Hidden(origin) => origin,
            _ => Origin::Plain,
        }
    }

    /// Follows every `$(…)`, backtick and `<(…)` in the pieces.
    pub fn substitutions(&mut self, pieces: &[Piece]) {
        let mut scripts = Vec::new();
        scripts_in(pieces, &mut |s| scripts.push(s.clone()));
        for script in scripts {
            self.apart(None, |w| w.script(&script));
        }
        // `${x@P}` reads the value as a prompt and runs the substitutions in it.
        for piece in pieces {
            let Piece::Param(param, _) = piece else { continue };
            if !matches!(&param.op, ParamOp::Other(op) if op.as_plain().is_some_and(|op| op.contains("@P"))) {
                continue;
            }
            let values: Vec<String> =
                self.state.variable(&param.name).into_iter().flatten().flatten().map(|t| t.text.clone()).collect();
            let denied =
                values.iter().any(|v| self.try_text(&format!(": \"{}\"", v.replace('"', ""))) == Verdict::Deny);
            let what = "expands a value as a prompt, which runs the commands in it";
            self.report("${…@P}", &[], if denied { Finding::deny(what) } else { Finding::ask(what) });
        }
        let mut assigns = Vec::new();
        assigns_in(pieces, &mut |name, word| assigns.push((name.to_owned(), word.clone())));
        for (name, word) in assigns {
            let mut values = self.env().values(&word);
            values.extend(self.state.variable(&name).into_iter().flatten().cloned());
            self.state.set(&name, values);
        }
    }

    /// Judges what the redirections write; returns where input comes from, if one says so.
    fn redirects(&mut self, redirects: &[Redirect], own: Origin) -> Option<Stdin> {
        let mut stdin = None;
        for redirect in redirects {
            let mut scripts = Vec::new();
            scripts_in(&redirect.target.pieces, &mut |s| scripts.push(s.clone()));
            let from_scripts = scripts.iter().map(|s| listing::origin(&s.body)).max();
            for script in &scripts {
                let feeds = redirect.op.starts_with('>').then(|| Stdin::Hidden(own.max(self.stdin_origin())));
                self.apart(feeds, |w| w.script(script));
            }
            let reads = redirect.op.starts_with('<');
            if reads && redirect.fd.as_deref().is_none_or(|fd| fd == "0") {
                stdin = Some(self.input(redirect, from_scripts));
            }
            if redirect.op == "<<<" || matches!(redirect.target.pieces.as_slice(), [Piece::Process(_)]) {
                continue;
            }
            for target in self.env().unsplit(&redirect.target) {
                let finding = self.target(redirect, &target, own);
                if finding.verdict != Verdict::Allow {
                    self.report(redirect.op, &[target], finding);
                }
            }
        }
        stdin
    }

    fn input(&self, redirect: &Redirect, from_scripts: Option<Origin>) -> Stdin {
        let mut values = self.env().unsplit(&redirect.target).into_iter();
        let (first, more) = (values.next().unwrap_or_default(), values.next());
        match (redirect.op, from_scripts) {
            ("<<<", _) if first.known && more.is_none() => Stdin::Text(first.text),
            ("<", None) if more.is_none() => Stdin::File(first),
            (_, origin) => Stdin::Hidden(origin.unwrap_or(Origin::Plain)),
        }
    }

    fn target(&mut self, redirect: &Redirect, target: &Arg, own: Origin) -> Finding {
        let copies = redirect.op.ends_with('&')
            && (target.text == "-" || target.text.trim_end_matches('-').parse::<u32>().is_ok());
        if copies {
            return Finding::allow("copies a descriptor");
        }
        if redirect.op.starts_with('<') {
            return self.each_folder(|p, folder| p.read(&target.text, target.glob, folder));
        }
        self.writes(target, own == Origin::Network)
    }

    /// Notes and judges that a file is written; `network` if its content comes from there.
    pub fn writes(&mut self, target: &Arg, network: bool) -> Finding {
        let network = network || self.stdin_origin() == Origin::Network;
        let folders: Vec<Option<String>> = self.state.folder_set().into_iter().collect();
        for folder in &folders {
            if let Some(path) = self.paths.absolute(&target.text, folder.as_deref()) {
                self.state.wrote(path, network);
            }
        }
        self.each_folder(|p, folder| p.write(&target.text, target.glob, folder))
    }

    /// The worst finding over all folders the shell may be in.
    pub fn each_folder(&self, judge: impl Fn(&Paths, Option<&str>) -> Finding) -> Finding {
        let found = self.state.folders().map(|folder| judge(&self.paths, folder));
        Finding::worst(found).unwrap_or_else(|| Finding::ask("the folder cannot be told"))
    }

    fn simple(&mut self, simple: &Simple) {
        self.simple_command(simple);
        if self.trap_state.is_some() {
            also(&mut self.trap_state, &self.state);
        }
    }

    fn simple_command(&mut self, simple: &Simple) {
        simple.words.iter().for_each(|w| self.substitutions(&w.pieces));
        let own = listing::origin(&Node::Simple(simple.clone()));
        let stdin = self.redirects(&simple.redirects, own);
        let assigned = simple.words.iter().take_while(|w| w.as_assignment().is_some()).count();
        let (assignments, words) = simple.words.split_at(assigned);
        // In `X=1 cmd $X` the word is expanded before the assignment is made.
        let instances = if words.is_empty() { Vec::new() } else { self.env().instances(words) };
        let before = self.state.clone_variables();
        for word in assignments {
            if let Some((name, value, append)) = word.as_assignment() {
                self.assign(name, &value, append, !words.is_empty());
            }
        }
        if words.is_empty() {
            return;
        }
        for word in words.iter().filter(|w| w.pieces.iter().any(|p| matches!(p, Piece::Array(_)))) {
            self.elements("declare", word);
        }
        self.apart_stdin(stdin, |w| w.instances(words, instances));
        if !assignments.is_empty() {
            // Gone after the command; but some shells keep them after some builtins.
            self.state.join_variables(before);
        }
    }

    fn apart_stdin(&mut self, stdin: Option<Stdin>, run: impl FnOnce(&mut Walker)) {
        let before = stdin.map(|s| std::mem::replace(&mut self.stdin, s));
        run(self);
        if let Some(before) = before {
            self.stdin = before;
        }
    }

    /// Judges the command for every list of arguments it can have; the worst is reported.
    pub fn instances(&mut self, words: &[Word], instances: Vec<Vec<Arg>>) {
        let origins = words.iter().map(|w| {
            let mut worst = Origin::Plain;
            scripts_in(&w.pieces, &mut |s| worst = worst.max(listing::origin(&s.body)));
            worst
        });
        let origins: Vec<Origin> = origins.collect();
        let origin = origins.first().copied().unwrap_or(Origin::Plain);
        let before = std::mem::replace(&mut self.fetched, origins.into_iter().max().unwrap_or(Origin::Plain));
        self.each_instance(instances, origin);
        self.fetched = before;
    }

    fn each_instance(&mut self, instances: Vec<Vec<Arg>>, origin: Origin) {
        if let [args] = instances.as_slice() {
            return self.command(args, origin);
        }
        let before = self.state.clone();
        let mut worst: Option<(Verdict, Vec<SimpleCommand>)> = None;
        let mut after: Option<State> = None;
        for args in instances {
            self.state = before.clone();
            let mark = self.out.len();
            self.command(&args, origin);
            let found = self.out.split_off(mark);
            let verdict = found.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Allow);
            if worst.as_ref().is_none_or(|(w, _)| verdict > *w) {
                worst = Some((verdict, found));
            }
            let state = std::mem::replace(&mut self.state, before.clone());
            also(&mut after, &state);
        }
        self.state = after.unwrap_or(before);
        self.out.extend(worst.map(|(_, found)| found).unwrap_or_default());
    }

    /// Judges one command with its arguments, and whatever it starts in turn.
    fn command(&mut self, args: &[Arg], origin: Origin) {
        self.start(args, origin, false);
    }

    /// Judges a command that is certainly a program, not a function of the shell.
    pub fn program(&mut self, args: &[Arg]) {
        self.start(args, Origin::Plain, true);
    }

    fn start(&mut self, args: &[Arg], origin: Origin, external: bool) {
        let Some((program, rest)) = args.split_first() else { return };
        // Many arguments take as long as many commands.
        self.judged += 1 + args.len() / 16;
        if self.judged > MAX_COMMANDS {
            return self.report(&program.shown(), &[], Finding::ask("more commands than are looked through"));
        }
        let index = self.out.len();
        self.report(&program.shown(), rest, Finding::allow(""));
        let call = Call { program, args: rest, origin, external };
        let finding = rules::judge(self, &call);
        self.out[index].verdict = finding.verdict;
        self.out[index].reason = finding.reason;
    }

    /// What an assignment puts aside without being followed must not be the path of a secret.
    fn elements(&mut self, program: &str, value: &Word) {
        for element in self.env().elements(value) {
            let finding = self.each_folder(|p, f| p.read(&element.text, element.glob, f));
            if finding.verdict != Verdict::Allow {
                self.report(program, &[element], finding);
            }
        }
    }

    pub fn assign(&mut self, name: &str, value: &Word, append: bool, for_command: bool) {
        let mut values = self.env().values(value);
        if append {
            let old: Vec<Value> =
                self.state.variable(name).map_or_else(|| vec![known("")], |v| v.iter().cloned().collect());
            values = old
                .iter()
                .flat_map(|o| {
                    values
                        .iter()
                        .map(move |v| Some(known(format!("{}{}", o.as_ref()?.text, v.as_ref()?.text))).flatten())
                })
                .collect();
        }
        self.elements(&format!("{name}="), value);
        for finding in rules::variables::check(self, name, &values, for_command) {
            let shown = values.first().cloned().flatten().map_or_else(Arg::unknown, |t| Arg::new(t.text));
            if finding.verdict != Verdict::Allow {
                self.report(&format!("{name}="), &[shown], finding);
            }
        }
        self.state.set(name, values);
    }
}
