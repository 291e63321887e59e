//! Judges one simple command: who is started, with which arguments.

pub(crate) mod archive;
pub(crate) mod awk;
pub(crate) mod code;
pub(crate) mod editors;
pub(crate) mod files;
pub(crate) mod find;
pub(crate) mod git;
pub(crate) mod inline;
pub(crate) mod network;
pub(crate) mod options;
pub(crate) mod outside;
pub(crate) mod packages;
pub(crate) mod pipes;
pub(crate) mod shell;
pub(crate) mod system;
pub(crate) mod variables;
pub(crate) mod wrappers;

use crate::expand::Arg;
use crate::listing::Origin;
use crate::paths::{Place, UNKNOWN};
use crate::pattern;
use crate::programs::{self, Kind};
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

/// A simple command with its words resolved.
pub(crate) struct Call<'a> {
    pub program: &'a Arg,
    pub args: &'a [Arg],
    /// Where the program's name came from, if it was computed.
    pub origin: Origin,
    /// Started by another program, for which functions of the shell do not exist.
    pub external: bool,
}

pub(crate) fn judge(w: &mut Walker, call: &Call) -> Finding {
    let text = call.program.text.as_str();
    if !call.program.known || text.contains(UNKNOWN) {
        return match call.origin {
            Origin::Plain => Finding::ask("which program runs cannot be told from the command"),
            _ => Finding::deny("which program runs is hidden (decoded or fetched text)"),
        };
    }
    if text.is_empty() {
        return Finding::ask("an empty program name");
    }
    if let Some((name, rest)) = text.split_once('[').filter(|(n, rest)| crate::tree::is_name(n) && rest.contains("]="))
    {
        w.state.lose(name);
        let value = rest.split_once("]=").map_or("", |(_, value)| value);
        let found = w.each_folder(|p, f| p.read(value, call.program.glob, f));
        return Finding::allow("sets an element of an array").or_worse(found);
    }
    if call.program.glob && !matches!(text, "[" | "[[") {
        return behind_glob(w, call);
    }
    if !text.contains('/')
        && !call.external
        && let Some(certain) = w.state.function(text).map(|f| f.certain)
        && let Some(found) = w.call(text, call.args)
    {
        return if certain { found } else { found.or_worse(by_name(w, text, call.args)) };
    }
    let name = text.rsplit('/').next().unwrap_or(text);
    if let [only] = call.args
        && matches!(only.text.as_str(), "--help" | "--version" | "-V" | "-version")
        && (!text.contains('/') || programs::group(name).is_some())
    {
        return Finding::allow("only prints its help or version");
    }
    if text.contains('/') { by_path(w, call, name) } else { by_name(w, name, call.args) }
}

/// `/bin/r?`: the worst program it can be.
fn behind_glob(w: &mut Walker, call: &Call) -> Finding {
    let name = call.program.text.rsplit('/').next().unwrap_or_default();
    for dangerous in programs::DANGEROUS {
        if pattern::matches(name, dangerous) {
            let found = by_name(w, dangerous, call.args);
            if found.verdict == Verdict::Deny {
                return Finding::deny(format!("may be {dangerous} behind a pattern; {}", found.reason));
            }
        }
    }
    Finding::ask("the program's name is a pattern, so which one runs cannot be told")
}

const PROGRAM_FOLDERS: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
    "/snap/bin",
    "/usr/games",
    "/opt/local/bin",
    "/usr/lib/git-core",
];

fn by_path(w: &mut Walker, call: &Call, name: &str) -> Finding {
    let text = call.program.text.as_str();
    let folders = w.state.folder_set();
    let mut worst = Finding::allow("");
    for folder in folders {
        let Some(path) = w.paths.absolute(text, folder.as_deref()) else {
            worst = worst.or_worse(Finding::ask("the folder of the program cannot be told"));
            continue;
        };
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if PROGRAM_FOLDERS.contains(&parent) || parent == format!("{}/.cargo/bin", w.paths.home) {
            continue;
        }
        worst = worst.or_worse(program_file(w, &path));
    }
    let named = by_name(w, name, call.args);
    // A program of the workspace may have any name; one outside is what its name says, or unknown.
    let own = w.state.folders().all(|f| w.paths.place(text, false, f) == Place::WorkspaceFile);
    if own && named.verdict != Verdict::Deny {
        return if worst.verdict == Verdict::Allow { Finding::allow("a program of the workspace") } else { worst };
    }
    named.or_worse(worst)
}

/// Starting a file as a program or script: the workspace's own may run, unless this very command made it.
pub(crate) fn program_file(w: &Walker, path: &str) -> Finding {
    match w.state.made(path) {
        Some(true) => return Finding::deny(format!("runs {path}, which this command fetched from the network")),
        Some(false) => return Finding::ask(format!("runs {path}, which this command has just made")),
        None => {}
    }
    match w.paths.place(path, false, None) {
        Place::WorkspaceFile => Finding::allow("runs a file of the workspace"),
        Place::Socket | Place::Secret => Finding::deny(format!("runs {path}")),
        _ => Finding::ask(format!("runs {path}, outside the workspace")),
    }
}

/// Judges a program by its name, whatever folder it is in.
pub(crate) fn by_name(w: &mut Walker, name: &str, args: &[Arg]) -> Finding {
    let found = by_rule(w, name, args).unwrap_or_else(|| by_group(w, name, args));
    let reads = match programs::group(name).map(|g| g.kind) {
        Some(Kind::Printer) => Finding::allow(""),
        _ => files::reads(w, name, args),
    };
    found.or_worse(reads).or_worse(outside::rule(w, name, args))
}

fn by_rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    shell::rule(w, name, args)
        .or_else(|| variables::rule(w, name, args))
        .or_else(|| wrappers::rule(w, name, args))
        .or_else(|| files::rule(w, name, args))
        .or_else(|| find::rule(w, name, args))
        .or_else(|| git::rule(w, name, args))
        .or_else(|| code::rule(w, name, args))
        .or_else(|| editors::rule(w, name, args))
        .or_else(|| archive::rule(w, name, args))
        .or_else(|| packages::rule(w, name, args))
        .or_else(|| network::rule(w, name, args))
        .or_else(|| system::rule(w, name, args))
}

fn by_group(w: &mut Walker, name: &str, args: &[Arg]) -> Finding {
    let Some(group) = programs::group(name) else {
        // Names differ only by case on some file systems, and only by drawing to a reader.
        let lower = name.to_lowercase();
        if lower != name && (programs::group(&lower).is_some() || programs::DANGEROUS.contains(&lower.as_str())) {
            let found = by_name(w, &lower, args);
            return Finding::ask(format!("`{name}` looks like `{lower}` but is not the same")).or_worse(found);
        }
        return Finding::ask(format!("`{name}` is not a program that is known"));
    };
    Finding { verdict: group.kind.verdict(), reason: group.reason.to_owned() }
}

/// The verdict of commands started by this one: they are reported by themselves, so this one is only named.
pub(crate) fn runs(what: &str) -> Finding {
    Finding::allow(format!("runs {what}, judged by itself"))
}
