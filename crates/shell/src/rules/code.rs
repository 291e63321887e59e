//! Interpreters: scripts of the workspace run; code in the arguments or on standard input is looked into.

use crate::expand::Arg;
use crate::rules::inline::{self, inline};
use crate::rules::options::Options;
use crate::rules::shell::{hidden_stdin, script_file};
use crate::rules::{by_name, outside, packages};
use crate::verdict::{Finding, Verdict};
use crate::walk::{MAX_INNER, Stdin, Walker};

struct Interpreter {
    names: &'static [&'static str],
    /// Options whose value is code.
    code: &'static [&'static str],
    valued: &'static [&'static str],
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "python2", "python3", "pypy", "pypy3", "ipython"],
        code: &["-c"],
        valued: &["-W", "-X", "-Q"],
    },
    Interpreter { names: &["perl"], code: &["-e", "-E"], valued: &["-I", "-M", "-m"] },
    Interpreter { names: &["ruby"], code: &["-e"], valued: &["-I", "-r", "-C", "-E"] },
    Interpreter {
        names: &["node", "nodejs"],
        code: &["-e", "-p", "--eval", "--print", "-pe"],
        valued: &["-r", "--require", "--import", "--loader", "-C"],
    },
    Interpreter { names: &["php"], code: &["-r", "-B", "-R", "-E"], valued: &["-d", "-c", "-S", "-t", "-z"] },
    Interpreter { names: &["lua", "luajit", "lua5.1", "lua5.3", "lua5.4"], code: &["-e"], valued: &["-l"] },
    Interpreter { names: &["Rscript", "R"], code: &["-e"], valued: &[] },
    Interpreter { names: &["osascript"], code: &["-e"], valued: &["-l"] },
    Interpreter {
        names: &[
            "tclsh", "wish", "guile", "racket", "sbcl", "clisp", "swipl", "julia", "groovy", "scala", "jshell",
            "elixir", "erl", "ghci", "ocaml", "expect",
        ],
        code: &["-e", "-c", "--eval", "-eval", "-E", "--expression"],
        valued: &[],
    },
    Interpreter { names: &["deno"], code: &[], valued: &[] },
    Interpreter { names: &["java", "dart"], code: &[], valued: &["-cp", "-classpath", "--class-path", "-jar"] },
];

/// Libraries of perl and ruby that only compute.
const LIBRARIES: &[&str] = &[
    "strict",
    "warnings",
    "utf8",
    "feature",
    "List::Util",
    "Data::Dumper",
    "Time::HiRes",
    "Time::Piece",
    "Text::Wrap",
    "Scalar::Util",
    "JSON",
    "JSON::PP",
    "POSIX",
    "Encode",
    "MIME::Base64",
    "Digest::MD5",
    "Digest::SHA",
    "bigint",
    "bignum",
    "open",
    "5.010",
    "json",
    "set",
    "date",
    "time",
    "pp",
    "csv",
    "yaml",
    "bigdecimal",
    "ostruct",
    "digest",
    "erb",
    "securerandom",
    "benchmark",
    "prime",
    "matrix",
    "English",
    "strscan",
];

fn interpreter(name: &str) -> Option<&'static Interpreter> {
    let base = name.strip_prefix("python3.").or_else(|| name.strip_prefix("python2.")).map_or(name, |_| "python3");
    INTERPRETERS.iter().find(|i| i.names.contains(&base))
}

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    if matches!(name, "deno") {
        return None;
    }
    let interpreter = interpreter(name)?;
    let valued: Vec<&str> = interpreter.code.iter().chain(interpreter.valued).copied().chain(["-m"]).collect();
    let python = interpreter.names.contains(&"python");
    // The first operand is the script; what follows is its own.
    let (options, rest) = Options::leading(args, if python { &valued } else { &valued[..valued.len() - 1] });
    let mut found = Finding::allow("starts an interpreter");
    for loaded in options
        .values(&["-r", "--require", "--import", "--loader"])
        .filter(|_| name.starts_with("node"))
        .cloned()
        .collect::<Vec<_>>()
    {
        found = found.or_worse(Finding::ask(format!("loads {} first", loaded.shown())));
    }
    if let Some(module) = options.value(&["-m"]).filter(|_| python).cloned() {
        // All that follows the module is its own, also what looks like an option.
        let at = args.iter().position(|a| *a == module || a.text.starts_with('-') && a.text.ends_with(&module.text));
        let own = at.map_or(rest, |at| &args[at + 1..]);
        return Some(found.or_worse(python_module(w, &module, own)));
    }
    // `-run`, `-MExtUtils::Command`: libraries that make programs of words.
    let libraries = options.values(&["-r", "-M", "-m"]).filter(|_| matches!(name, "perl" | "ruby"));
    let unknown = libraries.map(|l| l.text.clone()).find(|l| {
        let name = l.split(['=', ' ']).next().unwrap_or_default().trim_start_matches('-');
        !LIBRARIES.contains(&name) && !name.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    });
    if let Some(library) = unknown {
        found = found.or_worse(Finding::ask(format!("loads {library} first, which may do anything")));
        let words: Vec<Arg> = options.values(&["-e"]).chain(rest).cloned().collect();
        if let Some((command, rest)) = words.split_first().filter(|(c, _)| c.known && !c.text.contains(' ')) {
            let command = command.text.replace("rm_rf", "rm").replace("rm_f", "rm");
            if w.inner < MAX_INNER {
                w.inner += 1;
                found = found.or_worse(by_name(w, &command, rest));
                w.inner -= 1;
            }
        }
    }
    // `perl -ne`, `ruby -ane`: the code is the value of the last letter.
    let codes: Vec<Arg> = options.values(interpreter.code).cloned().collect();
    if !codes.is_empty() {
        let code = Arg {
            text: codes.iter().map(|c| c.text.as_str()).collect::<Vec<_>>().join("\n"),
            known: codes.iter().all(|c| c.known),
            glob: false,
            cut: false,
        };
        found = found.or_worse(if python && code.known && inline::only_prints(&code.text) {
            match inline(w, &code) {
                f if f.verdict == Verdict::Deny => Finding::ask("code that prints a dangerous text"),
                f => f,
            }
        } else {
            inline(w, &code)
        });
        if options.has(&["-i"]) && matches!(name, "perl" | "ruby") {
            found = rest.iter().map(|f| w.writes(f, false)).fold(found, Finding::or_worse);
        }
        return Some(found);
    }
    if options.has(&["-i"]) && python {
        found = found.or_worse(Finding::ask("an interpreter that waits for input"));
    }
    if options.has(&["--test", "--check", "-v", "-V", "--version", "--help", "-h", "-l"])
        && rest
            .iter()
            .all(|a| w.state.folders().all(|f| w.paths.place(&a.text, a.glob, f) == crate::paths::Place::WorkspaceFile))
    {
        return Some(found);
    }
    if name == "java" {
        return Some(found.or_worse(match options.value(&["-jar"]).cloned() {
            Some(jar) => script_file(w, &jar),
            None => Finding::allow("runs a class of the workspace"),
        }));
    }
    Some(found.or_worse(match rest.first() {
        Some(file) if file.text != "-" => script_file(w, file),
        _ => match w.stdin.clone() {
            Stdin::Text(text) => inline(w, &Arg::new(text)),
            Stdin::File(file) => script_file(w, &file),
            stdin => hidden_stdin(&stdin),
        },
    }))
}

fn python_module(w: &mut Walker, module: &Arg, rest: &[Arg]) -> Finding {
    match module.text.as_str() {
        "pip" | "pip3" => packages::rule(w, "pip", rest).unwrap_or_else(|| Finding::ask("installs software")),
        "pytest" | "unittest" | "doctest" | "venv" | "json.tool" | "compileall" | "py_compile" | "mypy" | "ruff"
        | "black" | "isort" | "flake8" | "pylint" | "coverage" | "build" | "tokenize" | "ast" | "dis" | "calendar"
        | "timeit" | "cProfile" | "trace" | "sphinx" | "pyright" | "tabnanny" => {
            // `timeit` and the profilers take code or a script of their own.
            let code = matches!(module.text.as_str(), "timeit")
                .then(|| rest.iter().filter(|a| !a.text.starts_with('-')).cloned().collect::<Vec<_>>());
            let found = code.unwrap_or_default().iter().map(|c| inline(w, c)).reduce(Finding::or_worse);
            let venv = (module.text == "venv")
                .then(|| {
                    rest.iter()
                        .filter(|a| !a.text.starts_with('-'))
                        .map(|a| w.writes(a, false))
                        .reduce(Finding::or_worse)
                })
                .flatten();
            // The same program by its own name.
            let named = crate::programs::group(&module.text).map(|_| by_name(w, &module.text, rest));
            let outputs = crate::rules::files::outputs(w, rest);
            let arguments =
                rest.iter().map(|a| outside::argument(w, a, !a.text.starts_with('-'))).reduce(Finding::or_worse);
            Finding::worst([found, venv, named, Some(outputs), arguments].into_iter().flatten())
                .filter(|f| f.verdict > Verdict::Allow)
                .unwrap_or_else(|| Finding::allow("builds or tests what is in the workspace"))
        }
        name if w.paths.place(name, false, None) == crate::paths::Place::Unknown && !name.contains('.') => {
            Finding::ask(format!("runs the module {name}, which is not known"))
        }
        name => Finding::ask(format!("runs the module {name}, which is not known")),
    }
}
