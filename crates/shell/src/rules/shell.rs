//! Shells and the builtins that run text: `sh -c`, `eval`, `source`, `trap`, `alias`.

use crate::expand::Arg;
use crate::listing::{self, Origin};
use crate::rules::options::Options;
use crate::rules::wrappers::start;
use crate::rules::{program_file, runs};
use crate::state::{Text, Value, known};
use crate::tree::{Joint, Node, Word, assigns_in};
use crate::verdict::{Finding, Verdict};
use crate::walk::{Stdin, Walker};
use std::collections::BTreeSet;

pub(crate) fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash"
            | "dash"
            | "zsh"
            | "ksh"
            | "ksh93"
            | "mksh"
            | "ash"
            | "fish"
            | "tcsh"
            | "csh"
            | "rbash"
            | "yash"
            | "elvish"
            | "nu"
            | "pwsh"
            | "powershell"
    )
}

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    Some(match name {
        _ if is_shell(name) => shell(w, args),
        "eval" => eval(w, args),
        "source" | "." => match args.first() {
            Some(file) => source(w, file),
            None => Finding::allow("runs nothing"),
        },
        "trap" => match args.iter().find(|a| a.text != "--") {
            Some(code) if args.len() > 1 && !matches!(code.text.as_str(), "-" | "-l" | "-p") => trap(w, code, args),
            _ => Finding::allow("shows or clears traps"),
        },
        "alias" => {
            let bodies: Vec<Arg> = args.iter().filter_map(|a| Some(a.with(a.text.split_once('=')?.1))).collect();
            bodies
                .iter()
                .map(|b| run_here(w, b, "the alias"))
                .reduce(Finding::or_worse)
                .unwrap_or_else(|| Finding::allow("shows aliases"))
        }
        "fc" if !args.iter().any(|a| a.text.starts_with("-l")) => Finding::ask("runs a command of the history again"),
        "compgen" if args.iter().any(|a| matches!(a.text.as_str(), "-C" | "-F" | "-W" | "-X")) => {
            Finding::ask("runs or expands the text it is given")
        }
        "jobs" if args.first().is_some_and(|a| a.text == "-x") => start(w, &args[1..], "another program"),
        "mapfile" | "readarray" if args.iter().any(|a| a.text.starts_with("-C")) => {
            let at = args.iter().position(|a| a.text.starts_with("-C")).unwrap_or(0);
            let attached = args[at].text.strip_prefix("-C").filter(|c| !c.is_empty()).map(|c| args[at].with(c));
            let found = Finding::ask("runs a command for each line");
            match attached.or_else(|| args.get(at + 1).cloned()) {
                Some(code) => run_here(w, &code, "a command for each line").or_worse(found),
                None => found,
            }
        }
        // An index is an expression, and bash runs the substitutions in it even when they were quoted.
        "[" | "[[" | "test" | "printf" | "read" | "unset" | "declare" | "typeset" | "local" | "export" | "readonly"
        | "let" | "wait" | "getopts"
            if args.iter().any(|a| a.text.contains('[') && (a.text.contains("$(") || a.text.contains('`'))) =>
        {
            let texts: Vec<&str> = args.iter().map(|a| a.text.as_str()).filter(|t| t.contains('[')).collect();
            match w.try_text(&format!(": \"{}\"", texts.join(" ").replace('"', ""))) {
                Verdict::Deny => Finding::deny("an index that runs a forbidden command"),
                _ => Finding::ask("an index that runs a command"),
            }
        }
        "bind" | "complete" | "enable" | "hash" | "fc" if args.len() > 1 => {
            Finding::ask("changes what the shell runs later")
        }
        "bind" | "complete" | "enable" | "hash" | "fc" => Finding::allow("shows settings of the shell"),
        "set" => {
            if args.iter().any(|a| a.text == "history") {
                return Some(Finding::deny("keeps commands out of the history"));
            }
            let dashes = args.iter().position(|a| a.text == "--");
            let operands =
                dashes.map(|at| at + 1).or_else(|| args.iter().position(|a| !a.text.starts_with(['-', '+'])));
            if let Some(at) = operands.filter(|_| !args.first().is_some_and(|a| matches!(a.text.as_str(), "-o" | "+o")))
            {
                w.state.arguments = Some(args[at..].iter().map(value_of).collect());
            } else if args.iter().any(|a| !a.known) {
                w.state.arguments = None;
            }
            Finding::allow("changes settings of this shell")
        }
        "shift" => {
            let count = args.first().map_or(Some(1), |a| a.text.parse::<usize>().ok().filter(|_| a.known));
            w.state.arguments = w.state.arguments.take().zip(count).map(|(all, n)| all.into_iter().skip(n).collect());
            Finding::allow("drops an argument")
        }
        "history" => match args.first() {
            None => Finding::allow("shows the history"),
            Some(a) if a.text.parse::<u32>().is_ok() => Finding::allow("shows the history"),
            Some(_) => Finding::deny("rewrites the history of commands"),
        },
        _ => return None,
    })
}

fn shell(w: &mut Walker, args: &[Arg]) -> Finding {
    let valued = ["-O", "--init-file", "--rcfile", "-o"];
    // `+x` switches an option off; it changes nothing here, and may stand anywhere before the command.
    let leading = args.iter().take_while(|a| a.text.starts_with(['-', '+']) || a.text == "pipefail").count();
    let args: Vec<Arg> = args
        .iter()
        .enumerate()
        .filter(|(i, a)| *i >= leading || !(a.text.starts_with('+') && a.text.len() > 1))
        .map(|(_, a)| a.clone())
        .collect();
    let (options, rest) = Options::leading(&args, &valued);
    if options.has(&["--init-file", "--rcfile"]) {
        return Finding::ask("the shell reads a start-up file of the command's choice");
    }
    if options.has(&["-c", "--command", "-Command", "-EncodedCommand"]) || options.flags.iter().any(|(f, _)| f == "-c")
    {
        let Some(code) = rest.first() else { return Finding::ask("a shell without its command") };
        let arguments = rest.iter().skip(2).map(value_of).collect();
        let zero = rest.get(1).map(value_of);
        return w.child(|w| {
            w.state.arguments = Some(arguments);
            if let Some(zero) = zero {
                w.state.set("0", [zero]);
            }
            run_here(w, code, "a command in a shell")
        });
    }
    match rest.first() {
        Some(file) if !options.has(&["-s"]) && file.text != "-" => script_file(w, file),
        _ => from_stdin(w),
    }
}

/// An argument as the value of `$1` and the like.
pub(crate) fn value_of(arg: &Arg) -> Value {
    known(&arg.text).filter(|_| arg.known).map(|t| Text { glob: arg.glob, ..t })
}

/// Text that another program runs by a shell of its own.
pub(crate) fn run_text(w: &mut Walker, code: &Arg, what: &str) -> Finding {
    w.child(|w| run_here(w, code, what))
}

/// Text that this shell runs as a command: followed if it is known, else by where it comes from.
fn run_here(w: &mut Walker, code: &Arg, what: &str) -> Finding {
    if code.known {
        return match w.text(&code.text) {
            Ok(()) => runs(what),
            Err(found) => found,
        };
    }
    // The known part may already be enough to refuse it.
    if w.try_text(&code.text) == Verdict::Deny {
        return Finding::deny(format!("{what} is partly hidden, and what is seen is forbidden"));
    }
    match w.fetched {
        Origin::Plain => Finding::ask(format!("{what} cannot be told from the text")),
        origin => hidden_stdin(&Stdin::Hidden(origin)),
    }
}

fn trap(w: &mut Walker, code: &Arg, args: &[Arg]) -> Finding {
    w.set_trap(code);
    // It may run at any time, or never.
    let before = w.state.clone();
    let found = run_here(w, code, "the trap");
    w.state.join(before);
    let between = args.iter().any(|a| matches!(a.text.as_str(), "DEBUG" | "ERR" | "RETURN"));
    let sets = code.text.contains('=')
        || ["cd ", "read ", "eval ", "unset ", "source ", "shift", "set ", "pushd "]
            .iter()
            .any(|c| code.text.contains(c));
    if between && (sets || !code.known) {
        return found.or_worse(Finding::ask("changes variables between any two commands"));
    }
    found
}

fn eval(w: &mut Walker, args: &[Arg]) -> Finding {
    let text: Vec<&str> = args.iter().map(|a| a.text.as_str()).filter(|t| *t != "--").collect();
    let code = Arg { text: text.join(" "), known: args.iter().all(|a| a.known), glob: false, cut: false };
    run_here(w, &code, "evaluated text")
}

/// A script given as a file.
pub(crate) fn script_file(w: &mut Walker, file: &Arg) -> Finding {
    if !file.known || file.glob {
        return Finding::ask("which script runs cannot be told from the command");
    }
    if file.text.starts_with("/dev/fd/") || matches!(file.text.as_str(), "/dev/stdin" | "/proc/self/fd/0") {
        return if file.text.starts_with("/dev/fd/") && w.fetched != Origin::Plain {
            hidden_stdin(&Stdin::Hidden(w.fetched))
        } else {
            from_stdin(w).or_worse(Finding::ask("runs the output of another command"))
        };
    }
    let folders = w.state.folder_set();
    let found = folders.iter().map(|folder| match w.paths.absolute(&file.text, folder.as_deref()) {
        Some(path) => program_file(w, &path),
        None => Finding::ask("the folder of the script cannot be told"),
    });
    Finding::worst(found).unwrap_or_else(|| Finding::ask("the folder cannot be told"))
}

fn source(w: &mut Walker, file: &Arg) -> Finding {
    let path = w.paths.absolute(&file.text, None).unwrap_or_default();
    let usual = [".cargo/env", ".nvm/nvm.sh", ".sdkman/bin/sdkman-init.sh"]
        .iter()
        .any(|f| path == format!("{}/{f}", w.paths.home));
    let found = if usual { Finding::allow("reads the settings of an installed tool") } else { script_file(w, file) };
    // It may set anything.
    w.state.lose_everything();
    found
}

/// A shell or interpreter that reads what it runs from standard input.
fn from_stdin(w: &mut Walker) -> Finding {
    match w.stdin.clone() {
        Stdin::Text(text) => run_text(w, &Arg::new(text), "text given to a shell"),
        Stdin::File(file) => script_file(w, &file),
        stdin => hidden_stdin(&stdin),
    }
}

/// The verdict on running what comes from an input that cannot be looked into.
pub(crate) fn hidden_stdin(stdin: &Stdin) -> Finding {
    match stdin {
        Stdin::Hidden(Origin::Network) => Finding::deny("runs what comes from the network"),
        Stdin::Hidden(Origin::Decoder) => Finding::deny("runs text that was hidden (decoded before it is run)"),
        Stdin::None => Finding::ask("a shell or interpreter that waits for input"),
        _ => Finding::ask("runs the output of another command"),
    }
}

/// What statements change, for loops whose later rounds start with it.
pub(crate) struct Changes {
    pub variables: BTreeSet<String>,
    pub folder: bool,
    /// `$1` and the like.
    pub arguments: bool,
    pub anything: bool,
}

pub(crate) fn changes(nodes: &[&Node]) -> Changes {
    let mut changes = Changes { variables: BTreeSet::new(), folder: false, arguments: false, anything: false };
    for node in nodes {
        loops(node, &mut changes.variables);
        listing::visit(node, 0, &mut |simple| {
            for word in &simple.words {
                assigns_in(&word.pieces, &mut |name, _| changes.variables.extend([name.to_owned()]));
            }
            let mut words = simple.words.iter();
            for word in words.by_ref().take_while(|w| w.as_assignment().is_some()) {
                changes.variables.extend(word.as_assignment().map(|(name, ..)| name.to_owned()));
            }
            let program = simple.words.iter().find(|w| w.as_assignment().is_none());
            match program.map(|p| p.as_literal().unwrap_or_default()) {
                None => {}
                Some(name) => match name.as_str() {
                    "cd" | "pushd" | "popd" => changes.folder = true,
                    "shift" | "set" => changes.arguments = true,
                    // Also what is not known by name may be one of them.
                    "eval" | "source" | "." | "builtin" | "command" | "" => changes.anything = true,
                    "read" | "mapfile" | "readarray" | "export" | "declare" | "typeset" | "local" | "readonly"
                    | "unset" | "let" | "getopts" | "printf" => {
                        for word in &simple.words {
                            let text = word.as_literal().or_else(|| word.as_assignment().map(|(n, ..)| n.to_owned()));
                            changes.variables.extend(text.and_then(|t| t.split(['=', '+']).next().map(str::to_owned)));
                        }
                    }
                    _ => {}
                },
            }
        });
    }
    changes.variables.retain(|name| crate::tree::is_name(name));
    changes
}

/// The variables of loops inside.
fn loops(node: &Node, names: &mut BTreeSet<String>) {
    match node {
        Node::Loop { variable, head, body } => {
            names.extend(variable.as_ref().map(|(name, _)| name.clone()));
            loops(head, names);
            loops(body, names);
        }
        Node::Sequence(statements) => statements.iter().for_each(|(_, n)| loops(n, names)),
        Node::Pipeline(nodes) => nodes.iter().for_each(|n| loops(n, names)),
        Node::Branch { head, arms, .. } => {
            loops(head, names);
            arms.iter().for_each(|n| loops(n, names));
        }
        Node::Subshell(inner) | Node::Redirected(inner, _) => loops(inner, names),
        Node::Function { body, .. } => loops(body, names),
        Node::Simple(_) => {}
    }
}

/// `while true`, `while :`, `while ((1))`, `for ((;;))`.
pub(crate) fn is_endless(head: &Node) -> bool {
    match head {
        Node::Sequence(statements) => matches!(statements.as_slice(), [(_, one)] if is_endless(one)),
        Node::Simple(simple) => {
            matches!(
                simple.words.first().and_then(Word::as_literal).as_deref(),
                Some("true" | ":" | crate::lex::ENDLESS)
            )
        }
        _ => false,
    }
}

/// `exit` and the like: nothing after it runs.
pub(crate) fn stops(node: &Node) -> bool {
    match node {
        Node::Simple(simple) => {
            matches!(simple.words.first().and_then(Word::as_literal).as_deref(), Some("exit" | "return"))
        }
        Node::Sequence(statements) => {
            statements.last().is_some_and(|(joint, last)| *joint == Joint::Then && stops(last))
        }
        _ => false,
    }
}

/// Whether a command that `is_copy` knows is started beside another one: in the background, or (`pipes`) in a pipeline.
pub(crate) fn multiplies(node: &Node, pipes: bool, is_copy: &dyn Fn(&str) -> bool) -> bool {
    let starts = |node: &Node| {
        let mut found = false;
        listing::visit(node, 0, &mut |s| {
            found |= s.words.first().and_then(Word::as_literal).is_some_and(|name| is_copy(&name))
        });
        found
    };
    match node {
        Node::Simple(_) | Node::Function { .. } => false,
        Node::Pipeline(commands) => pipes && commands.len() > 1 && commands.iter().any(starts),
        Node::Sequence(statements) => statements.iter().enumerate().any(|(i, (_, n))| {
            let beside = matches!(statements.get(i + 1), Some((Joint::Beside, _)));
            (beside && starts(n)) || multiplies(n, pipes, is_copy)
        }),
        Node::Subshell(inner) | Node::Redirected(inner, _) => multiplies(inner, pipes, is_copy),
        Node::Branch { head, arms, .. } => {
            multiplies(head, pipes, is_copy) || arms.iter().any(|a| multiplies(a, pipes, is_copy))
        }
        Node::Loop { head, body, .. } => multiplies(head, pipes, is_copy) || multiplies(body, pipes, is_copy),
    }
}
