//! `find`: what it reaches, and the programs it starts for it.

use crate::expand::Arg;
use crate::programs::Kind;
use crate::rules::files::delete;
use crate::rules::runs;
use crate::rules::wrappers::{replace, start};
use crate::verdict::Finding;
use crate::walk::Walker;

pub(crate) struct Plan {
    /// What the expression can match, as patterns: the start folders, or names inside them.
    pub reached: Vec<Arg>,
    /// Nothing but paths is printed.
    pub prints_paths: bool,
    actions: Vec<Action>,
}

enum Action {
    Delete(Vec<Arg>),
    Run(Vec<Arg>, Vec<Arg>),
    Write(Arg),
    Unclear,
}

pub(crate) fn plan(args: &[Arg]) -> Plan {
    let is_expression = |a: &Arg| a.text.starts_with('-') || matches!(a.text.as_str(), "(" | ")" | "!" | ",");
    let mut at = 0;
    while args
        .get(at)
        .is_some_and(|a| matches!(a.text.as_str(), "-H" | "-L" | "-P") || a.text.starts_with("-O") || a.text == "-D")
    {
        at += if args[at].text == "-D" { 2 } else { 1 };
    }
    let starts_end = args[at.min(args.len())..].iter().position(is_expression).map_or(args.len(), |n| at + n);
    let mut starts = args[at.min(args.len())..starts_end].to_vec();
    if starts.is_empty() {
        starts.push(Arg::new("."));
    }
    // With alternatives or negations the name test says nothing about the action.
    let simple = !args.iter().any(|a| matches!(a.text.as_str(), "-o" | "-or" | "!" | "-not" | "," | "("));
    let mut plan = Plan { reached: starts.clone(), prints_paths: true, actions: Vec::new() };
    let mut i = starts_end;
    while let Some(arg) = args.get(i) {
        i += 1;
        match arg.text.as_str() {
            "-name" | "-iname" if simple => {
                if let Some(name) = args.get(i) {
                    plan.reached = starts.iter().map(|s| join(s, name)).collect();
                }
                i += 1;
            }
            "-mindepth" => {
                if plan.reached == starts {
                    let all = Arg { text: "*".into(), known: true, glob: true, cut: false };
                    plan.reached = starts.iter().map(|s| join(s, &all)).collect();
                }
                i += 1;
            }
            "-delete" => plan.actions.push(Action::Delete(plan.reached.clone())),
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let end = args[i..].iter().position(|a| a.text == ";" || a.text == "+").map_or(args.len(), |n| i + n);
                plan.actions.push(Action::Run(args[i..end].to_vec(), plan.reached.clone()));
                plan.prints_paths = false;
                i = end + 1;
            }
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                plan.actions.extend(args.get(i).cloned().map(Action::Write));
                i += 1;
            }
            "-ls" => plan.prints_paths = false,
            "-printf" => {
                plan.prints_paths = false;
                i += 1;
            }
            "-files0-from" => plan.actions.push(Action::Unclear),
            _ if !arg.known && !arg.text.starts_with('-') => {
                // The value of a test is harmless, but it may also be an action.
                let before = i.checked_sub(2).and_then(|b| args.get(b)).map(|a| a.text.as_str()).unwrap_or_default();
                if !before.starts_with('-') || matches!(before, "-delete" | "-print" | "-print0") {
                    plan.actions.push(Action::Unclear);
                }
            }
            _ => {}
        }
    }
    plan
}

fn join(start: &Arg, name: &Arg) -> Arg {
    let text = format!("{}/{}", start.text.trim_end_matches('/'), name.text);
    Arg { text, known: start.known && name.known, glob: true, cut: false }
}

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    if !matches!(name, "find" | "gfind" | "bfs") {
        return None;
    }
    let plan = plan(args);
    let mut found = Finding::allow("only looks for files");
    let follows = args.iter().any(|a| matches!(a.text.as_str(), "-H" | "-L" | "-follow"));
    let acts = plan.actions.iter().any(|a| match a {
        Action::Delete(_) => true,
        Action::Run(command, _) => command.first().is_some_and(|c| {
            crate::programs::group(&c.text).is_none_or(|g| g.kind != Kind::Reader && g.kind != Kind::Printer)
        }),
        _ => false,
    });
    if follows && acts {
        found = Finding::ask("follows links, which may lead out of the workspace");
    }
    for action in plan.actions {
        found = found.or_worse(match action {
            Action::Delete(targets) => Finding::worst(targets.iter().map(|t| delete(w, t)))
                .unwrap_or_else(|| Finding::ask("deletes what it finds")),
            Action::Run(command, targets) => {
                for target in &targets {
                    let command: Vec<Arg> = command.iter().map(|a| replace(a, "{}", target)).collect();
                    w.apart(None, |w| start(w, &command, ""));
                }
                runs("a program for what it finds")
            }
            Action::Write(target) => w.writes(&target, false),
            Action::Unclear => Finding::ask("what find does cannot be told from the command"),
        });
    }
    Some(found)
}
