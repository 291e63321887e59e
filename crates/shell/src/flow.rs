//! The order of things: lists, pipelines, loops, functions and traps, with what each may leave behind.

use crate::expand::Arg;
use crate::listing;
use crate::rules;
use crate::state::{State, Value};
use crate::tree::{Joint, Node, Word};
use crate::verdict::{Finding, Verdict};
use crate::walk::{MAX_INNER, Stdin, Walker};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Commands of one pipeline through which text is followed.
const MAX_FOLLOWED_PIPES: usize = 8;

/// Adds `state` to what `all` may be.
pub(crate) fn also(all: &mut Option<State>, state: &State) {
    match all {
        Some(all) => all.join(state.clone()),
        None => *all = Some(state.clone()),
    }
}

impl Walker {
    pub fn sequence(&mut self, statements: &[(Joint, Node)]) {
        // All the points at which a chain of `&&` and `||` may have ended.
        let mut reached: Option<State> = None;
        let mut folders = self.state.folder_set();
        for (i, (joint, node)) in statements.iter().enumerate() {
            match joint {
                Joint::Then | Joint::Beside => {
                    if let Some(reached) = reached.take() {
                        self.state.join(reached);
                    }
                    // A `cd` may have failed.
                    self.state.join_folders(folders);
                    folders = self.state.folder_set();
                }
                Joint::And => also(&mut reached, &self.state),
                Joint::Or => {
                    // It runs when what came before failed, at whatever point.
                    also(&mut reached, &self.state);
                    self.state.join_folders(folders.clone());
                    if let Some(reached) = reached.clone() {
                        self.state.join(reached);
                    }
                }
            }
            let stops = *joint == Joint::Or && rules::shell::stops(node);
            if matches!(statements.get(i + 1), Some((Joint::Beside, _))) {
                // In the background nothing it sets comes back.
                self.apart(None, |w| w.node(node));
            } else if stops {
                // `cd x || exit`: what follows runs only where the first part worked.
                self.apart(None, |w| w.node(node));
                if let Some(reached) = reached.take() {
                    folders = reached.folder_set();
                    self.state = reached;
                }
            } else {
                self.node(node);
                if matches!(node, Node::Sequence(list) if list.len() > 1) {
                    // A chain has seen to its own failures.
                    folders = self.state.folder_set();
                }
                if *joint == Joint::Or
                    && let Some(reached) = reached.clone()
                {
                    self.state.join(reached);
                }
            }
        }
        if let Some(reached) = reached {
            self.state.join(reached);
        }
        self.state.join_folders(folders);
    }

    pub fn pipeline(&mut self, commands: &[Node]) {
        let mut own = self.stdin_origin();
        for (i, command) in commands.iter().enumerate() {
            let (before, env) = (&commands[..i], self.env());
            let stdin = if let Some(last) = before.last() {
                own = own.max(listing::origin(last));
                // In a long pipeline text is no longer followed.
                let short = i <= MAX_FOLLOWED_PIPES;
                if let Some(text) = short.then(|| listing::piped(before, env)).flatten() {
                    Some(Stdin::Text(text))
                } else if let Some(paths) = short.then(|| listing::paths(before, env)).flatten() {
                    Some(Stdin::Paths(paths))
                } else {
                    Some(Stdin::Hidden(own))
                }
            } else {
                None
            };
            self.apart(stdin, |w| w.node(command));
        }
        rules::pipes::check(self, commands);
    }

    pub fn repeat(&mut self, variable: Option<&(String, Vec<Word>)>, head: &Node, body: &Node) {
        let before = self.state.clone();
        let changes = rules::shell::changes(&[head, body]);
        if changes.anything {
            self.state.lose_everything();
        }
        if changes.arguments {
            self.state.arguments = None;
        }
        if changes.folder {
            self.state.lose_folder();
        }
        changes.variables.iter().for_each(|name| self.state.lose(name));
        if let Some((name, words)) = variable {
            words.iter().for_each(|w| self.substitutions(&w.pieces));
            let mut values: BTreeSet<Value> = BTreeSet::new();
            for word in words {
                for arg in self.env().alternatives(word).into_iter().flatten() {
                    values.insert(rules::shell::value_of(&arg));
                }
            }
            if words.is_empty() {
                // `for x; do` goes over the arguments.
                match &self.state.arguments {
                    Some(arguments) => values.extend(arguments.iter().cloned()),
                    None => values.extend([None]),
                }
            }
            self.state.set(name, values);
        }
        if rules::shell::is_endless(head) && rules::shell::multiplies(body, false, &|_| true) {
            self.report("while", &[], Finding::deny("starts processes without end (fork bomb)"));
        }
        self.node(head);
        self.node(body);
        self.state.join(before);
    }

    pub fn define(&mut self, name: &Word, body: &Rc<Node>) {
        let Some(name) = name.as_literal() else {
            let found = Finding::ask("defines a function whose name cannot be told");
            return self.report("function", &[], found);
        };
        if rules::shell::multiplies(body, true, &|called| called == name) {
            let found = Finding::deny("a function that starts copies of itself without end (fork bomb)");
            self.report(&format!("{name}()"), &[], found);
        }
        self.state.define(&name, body.clone());
        // The definition counts, with arguments and folder that may be anything.
        let mark = self.out.len();
        self.active.push((name.clone(), body.clone()));
        self.locals.push(Vec::new());
        self.apart(None, |w| {
            w.state.lose_folder();
            w.node(body);
        });
        self.locals.pop();
        self.active.pop();
        if self.called.contains(&name) {
            // Each call is followed with its real arguments; what is forbidden with any stays.
            let found = self.out.split_off(mark);
            self.out.extend(found.into_iter().filter(|c| c.verdict == Verdict::Deny));
        }
    }

    /// Follows a call of a function defined before; None if there is no such function.
    pub fn call(&mut self, name: &str, args: &[Arg]) -> Option<Finding> {
        let bodies = self.state.function(name)?.bodies.clone();
        if self.active.iter().any(|(active, _)| active == name) {
            let is_active = |called: &str| self.active.iter().any(|(active, _)| active == called);
            let multiplies = self.active.iter().any(|(_, body)| rules::shell::multiplies(body, true, &is_active));
            return Some(if multiplies {
                Finding::deny("functions that start copies of each other without end (fork bomb)")
            } else {
                Finding::allow("a function that calls itself")
            });
        }
        if self.active.len() >= MAX_INNER || bodies.len() > MAX_INNER {
            return Some(Finding::ask("functions calling functions, too deep to look through"));
        }
        self.locals.push(Vec::new());
        let arguments = Some(args.iter().map(rules::shell::value_of).collect());
        let before = std::mem::replace(&mut self.state.arguments, arguments.clone());
        let start = self.state.clone();
        let mut after: Option<State> = None;
        for body in bodies {
            self.state = start.clone();
            self.active.push((name.to_owned(), body.clone()));
            self.node(&body);
            self.active.pop();
            let state = std::mem::replace(&mut self.state, start.clone());
            also(&mut after, &state);
        }
        let variables = start.clone_variables();
        let uses_local = self.locals.pop().unwrap_or_default();
        self.state = after.unwrap_or(start);
        self.state.arguments = before;
        for name in uses_local {
            // The local one is gone, and what was there before is back; unless it was set outside of the branch.
            self.state.join_variable(&name, &variables);
        }
        Some(Finding::allow("a function of this command, looked into"))
    }

    /// A trap runs at a time of its own, at the latest at the end.
    pub fn set_trap(&mut self, code: &Arg) {
        if self.trapped.len() < MAX_INNER {
            self.trapped.push(code.clone());
            also(&mut self.trap_state, &self.state);
        }
    }

    /// Follows the traps once more, with whatever was set after them.
    pub fn traps(&mut self) {
        if let Some(state) = self.trap_state.take() {
            self.state = state;
            for code in std::mem::take(&mut self.trapped) {
                let mark = self.out.len();
                if let Err(found) = self.text(&code.text) {
                    self.report("trap", &[code], found);
                }
                // What was already said when the trap was set is not said again.
                let found = self.out.split_off(mark);
                self.out.extend(found.into_iter().filter(|c| c.verdict > Verdict::Allow));
            }
        }
    }
}
