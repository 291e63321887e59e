//! Programs that are harmless in the workspace but may write: no argument of theirs may lead out of it unasked.

use crate::expand::Arg;
use crate::paths::Place;
use crate::programs::{self, Kind};
use crate::rules::files;
use crate::rules::options::Options;
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

/// Build tools that `packages` judges by their subcommand.
const BUILD_TOOLS: &str = "cargo go npm pnpm yarn bun deno composer mix dotnet cabal stack swift rebar3 make gmake just task mage \
    invoke rake poetry uv pdm rye hatch";

/// They only look at the files they are given, whatever those are; what they write is named by an option.
const CHECKERS: &str = "shellcheck hadolint yamllint jsonlint mypy pyright flake8 pylint pyflakes cppcheck ffprobe pkg-config pkgconf \
    markdownlint typos scc cloc dot";

const COMPILERS: &str = "gcc g++ cc c++ clang clang++ ld lld gold as nasm rustc rustdoc javac protoc zig swiftc cppcheck clang-tidy \
    flex bison m4 ghc cmake nim ocamlc ocamlopt";

/// Options that only name where to look for something.
const LOOKS: &[&str] = &["-I", "-L", "-isystem", "-iquote", "-idirafter", "--sysroot", "-Wl,", "-D", "-B", "-F"];

fn listed(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|n| n == name)
}

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Finding {
    let kind = programs::group(name).map(|g| g.kind);
    // Short options of readers are flags, or known to their rules in `files`.
    if kind == Some(Kind::Reader) {
        let long: Vec<Arg> = args.iter().filter(|a| a.text.starts_with("--out")).cloned().collect();
        return files::outputs(w, &long);
    }
    if kind != Some(Kind::Builder) && !listed(BUILD_TOOLS, name) {
        return Finding::allow("");
    }
    // What follows `--` belongs to the program that is run.
    let own = match args.iter().position(|a| a.text == "--") {
        Some(at) if listed("cargo npm pnpm yarn bun", name) => &args[..at],
        _ => args,
    };
    let mut found = emptied(w, name, own);
    found = found.or_worse(files::outputs(w, own));
    let compiles = listed(COMPILERS, name);
    let mut looks = false;
    for arg in own {
        let skip = std::mem::replace(&mut looks, compiles && LOOKS.contains(&arg.text.as_str()));
        let only_looks = compiles && LOOKS.iter().any(|l| arg.text.starts_with(l)) && !arg.text.contains("OUTPUT");
        if skip || only_looks {
            continue;
        }
        found = found.or_worse(argument(w, arg, !listed(CHECKERS, name) && !arg.text.starts_with('-')));
    }
    found
}

/// An argument of a program that may write: a question if it leads out of the workspace, refused (`rewrites`) where a
/// start-up file or a secret could be rewritten.
pub(crate) fn argument(w: &Walker, arg: &Arg, rewrites: bool) -> Finding {
    let mut found = Finding::allow("");
    if arg.cut {
        found = Finding::ask(format!("where {} leads cannot be told", arg.shown()));
    }
    for path in candidates(&arg.text) {
        found = found.or_worse(w.each_folder(|p, folder| match p.place(path, arg.glob, folder) {
            Place::Unknown | Place::Temporary | Place::TemporaryFile | Place::HarmlessDevice => Finding::allow(""),
            Place::Workspace | Place::WorkspaceFile | Place::WorkspaceSecret | Place::GitInternal | Place::GitRuns => {
                Finding::allow("")
            }
            Place::Startup | Place::Secret | Place::History | Place::Device | Place::Socket if rewrites => {
                Finding::deny(format!("gives {path} to a program that may rewrite it"))
            }
            _ => Finding::ask(format!("gives {path}, outside the workspace, to a program that may write")),
        }));
    }
    found
}

/// The argument itself if it is no option, and the value of `--opt=VALUE`, `key=VALUE` and `-oVALUE`.
fn candidates(text: &str) -> Vec<&str> {
    let value = text.split_once('=').map(|(_, v)| v);
    let mut found = Vec::new();
    if text.starts_with('-') {
        found.extend(value.filter(|v| !v.contains("://")));
        let at = if value.is_some() { None } else { text.find(['/', '~']).into_iter().chain(text.find("..")).min() };
        found.extend(at.map(|at| &text[at..]));
    } else if !text.contains("://") {
        found.push(text);
        found.extend(value.filter(|v| v.starts_with(['/', '~']) || v.contains("../")));
    }
    found.retain(|p| !p.is_empty() && p.len() < 4096);
    found
}

/// Options whose folder is emptied before it is used.
fn emptied(w: &Walker, name: &str, args: &[Arg]) -> Finding {
    if !matches!(name, "pytest" | "py.test") {
        return Finding::allow("");
    }
    let options = Options::read(args, &["--basetemp"]);
    options.values(&["--basetemp"]).fold(Finding::allow(""), |found, folder| {
        let deleted = files::delete(w, folder);
        let reason = format!("empties {} first: {}", folder.shown(), deleted.reason);
        found.or_worse(match deleted.verdict {
            Verdict::Allow => deleted,
            Verdict::Ask => Finding::ask(reason),
            Verdict::Deny => Finding::deny(reason),
        })
    })
}

/// Whether `folder` may be another than one of the workspace or the temporary folder.
pub(crate) fn leaves(w: &Walker, folder: &Arg) -> bool {
    argument(w, &folder.with(folder.text.clone()), false).verdict > Verdict::Allow || !folder.known
}
