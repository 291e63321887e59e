//! Assignments that change what later programs do, and the builtins that assign.

use crate::expand::Arg;
use crate::paths::inside;
use crate::state::{Value, known};
use crate::tree::is_name;
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

/// Loaded into every program, or run by every shell.
const INJECTS: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_FORCE_FLAT_NAMESPACE",
    "BASH_ENV",
    "PROMPT_COMMAND",
    "PS0",
    "SHELLOPTS",
    "BASHOPTS",
    "LD_PROFILE_OUTPUT",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LD_DEBUG_OUTPUT",
    "PYTHONSTARTUP",
    "PERL5DB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
];

/// Where programs and libraries are looked for, or options of interpreters.
const STEERS: &[&str] = &[
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "ENV",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_PATH",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "all_proxy",
    "RUSTC_WRAPPER",
    "RUSTC",
    "CARGO_HOME",
    "npm_config_script_shell",
    "GOFLAGS",
    "SSLKEYLOGFILE",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "GIT_SSL_NO_VERIFY",
    "KUBECONFIG",
    "DOCKER_HOST",
    "HOME",
    "FPATH",
    "CDPATH",
    "GLOBIGNORE",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ALLOW_PROTOCOL",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "PYTHONBREAKPOINT",
    "PYTHONHOME",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "RIPGREP_CONFIG_PATH",
    "LESSKEY",
    "LESSKEYIN",
    "XDG_CONFIG_HOME",
    "FZF_DEFAULT_COMMAND",
    "CONFIG_SHELL",
];

/// Their value is a file or folder that programs write to or delete.
const WRITTEN: &[&str] = &[
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_INSTALL_ROOT",
    "GOBIN",
    "GOCACHE",
    "PYTHONPYCACHEPREFIX",
    "COVERAGE_FILE",
    "NODE_V8_COVERAGE",
    "LLVM_PROFILE_FILE",
    "GCOV_PREFIX",
    "DESTDIR",
];

/// Endings of names whose value is a command.
const COMMAND_ENDINGS: &[&str] =
    &["_PAGER", "_EDITOR", "_RUNNER", "_LINKER", "_WRAPPER", "_LAUNCHER", "_ASKPASS", "_SSH_COMMAND"];

/// Their value is a command that another program runs.
const COMMANDS: &[&str] = &[
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "GIT_PROXY_COMMAND",
    "RSYNC_RSH",
    "TAR_OPTIONS",
    "FCEDIT",
    "MAKEFLAGS",
    "SHELL",
    "CC",
    "CXX",
    "AR",
    "LD",
];

const HISTORY: &[&str] = &["HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE"];

/// Findings on `name=value`; `for_command` when it is set only for the command after it.
pub(crate) fn check(w: &mut Walker, name: &str, values: &[Value], for_command: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if INJECTS.contains(&name) {
        found.push(Finding::deny(format!("{name} runs code inside every program started after it")));
    } else if STEERS.contains(&name) {
        found.push(Finding::ask(format!("{name} changes what later programs load or whom they trust")));
    } else if HISTORY.contains(&name) {
        found.push(Finding::deny("keeps commands out of the history"));
    } else if name == "IFS" {
        w.state.splits_strangely |= !for_command;
    } else if name == "PATH" {
        found.extend(values.iter().map(|v| path(w, v)));
    } else if name == "NODE_OPTIONS" {
        let plain = |v: &Value| {
            v.as_ref().is_some_and(|t| {
                t.text
                    .split_whitespace()
                    .all(|o| o.starts_with("--max-old-space-size=") || o == "--experimental-vm-modules")
            })
        };
        if !values.iter().all(plain) {
            found.push(Finding::ask("NODE_OPTIONS can load code into every node started after it"));
        }
    } else if WRITTEN.contains(&name) || name.starts_with("GIT_TRACE") || name.starts_with("GIT_REDIRECT") {
        for value in values {
            let target = value.as_ref().map_or_else(Arg::unknown, |t| Arg::new(t.text.clone()));
            found.push(w.writes(&target, false));
        }
    } else if name.starts_with("GIT_CONFIG_") && !matches!(name, "GIT_CONFIG_NOSYSTEM") {
        found.push(Finding::ask(format!("{name} is a setting of git, and may name programs")));
    } else if COMMANDS.contains(&name) || COMMAND_ENDINGS.iter().any(|e| name.ends_with(e)) {
        for value in values {
            match value {
                Some(t) if t.text.is_empty() || is_tool(&t.text) => {}
                Some(t)
                    if name == "MAKEFLAGS" && t.text.trim_start_matches("-j").bytes().all(|b| b.is_ascii_digit()) => {}
                Some(t) => match w.try_text(t.text.trim_start_matches(['|', '-', ' '])) {
                    // A file of the workspace is what this command, or one before, may have made.
                    Verdict::Allow if t.text.contains('/') => {
                        found.push(Finding::ask(format!("{name} makes other programs run `{}`", t.text)));
                    }
                    Verdict::Allow => {}
                    Verdict::Ask => found.push(Finding::ask(format!("{name} is a command that other programs run"))),
                    Verdict::Deny => found.push(Finding::deny(format!("{name} makes other programs run `{}`", t.text))),
                },
                None => {
                    found.push(Finding::ask(format!("{name} is a command that other programs run, and cannot be told")))
                }
            }
        }
    }
    if matches!(name, "PS1" | "PS2" | "PS3" | "PS4")
        && values.iter().flatten().any(|t| t.text.contains("$(") || t.text.contains('`'))
    {
        let denied =
            values.iter().flatten().any(|t| w.try_text(&format!(": \"{}\"", t.text.replace('"', ""))) == Verdict::Deny);
        found.push(if denied {
            Finding::deny("a prompt that runs a forbidden command")
        } else {
            Finding::ask("a prompt that runs a command")
        });
    }
    // bash runs `$(…)` inside the index of a value that it takes for a number.
    if values.iter().flatten().any(|t| t.text.contains('[') && (t.text.contains("$(") || t.text.contains('`'))) {
        found.push(Finding::ask("a value that runs a command when it is used as a number"));
    }
    found
}

/// Compilers and shells named without options.
fn is_tool(text: &str) -> bool {
    matches!(
        text,
        "gcc"
            | "g++"
            | "cc"
            | "c++"
            | "clang"
            | "clang++"
            | "ar"
            | "ld"
            | "lld"
            | "/bin/bash"
            | "/bin/sh"
            | "bash"
            | "true"
            | "vim"
            | "vi"
            | "nano"
    )
}

fn path(w: &Walker, value: &Value) -> Finding {
    let home_bins = [".cargo/bin", ".local/bin", "go/bin", ".npm-global/bin", ".deno/bin", ".bun/bin"];
    let system = [
        "/bin",
        "/sbin",
        "/usr/bin",
        "/usr/sbin",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/opt/homebrew/bin",
        "/snap/bin",
        "/usr/local/go/bin",
    ];
    let safe = |entry: &str| {
        let Some(entry) = w.paths.absolute(entry, w.state.folders().next().flatten()).filter(|_| !entry.is_empty())
        else {
            return false;
        };
        system.contains(&entry.as_str())
            || inside(&entry, &w.paths.home).is_some_and(|rest| home_bins.contains(&rest))
            || (inside(&entry, &w.paths.workspace).is_some() && entry.ends_with("bin"))
    };
    match value {
        Some(value) if value.text.split(':').all(safe) => Finding::allow(""),
        _ => Finding::ask("PATH decides which program a name stands for"),
    }
}

/// `export`, `declare`, `read` and the like, and `cd`.
pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    match name {
        "export" | "declare" | "typeset" | "local" | "readonly" => {
            let nameref = args.iter().any(|a| a.text.starts_with('-') && a.text.contains('n')) && name != "export";
            let is_local = matches!(name, "local" | "declare" | "typeset");
            let before = w.state.clone_variables();
            for arg in args.iter().filter(|a| !a.text.starts_with('-')) {
                if is_local && let Some(names) = w.locals.last_mut() {
                    names.push(arg.text.split(['=', '+']).next().unwrap_or_default().to_owned());
                }
                match arg.text.split_once('=') {
                    Some((name, value)) if is_name(name.trim_end_matches('+')) && !name.ends_with('+') => {
                        let value = if arg.known { known(value) } else { None };
                        if name != "PATH" {
                            let found = check(w, name, std::slice::from_ref(&value), false);
                            if let Some(found) = Finding::worst(found).filter(|f| f.verdict > Verdict::Allow) {
                                return Some(found);
                            }
                        } else if value.as_ref().is_some_and(|_| path(w, &value).verdict > Verdict::Allow) {
                            return Some(path(w, &value));
                        }
                        w.state.set(name, [value]);
                    }
                    Some((name, _)) => w.state.lose(name.trim_end_matches('+')),
                    None if !arg.known => w.state.lose_everything(),
                    None => {
                        // `export X` keeps its value; `local X` unsets it.
                        if name == "local" {
                            w.state.set(&arg.text, [known(""), None]);
                        }
                    }
                }
            }
            if nameref {
                w.state.lose_everything();
            }
            // Outside of a function `local` fails and sets nothing.
            if name == "local" && w.locals.is_empty() {
                w.state.join_variables(before);
            }
            Some(Finding::allow("sets variables"))
        }
        "read" | "mapfile" | "readarray" => {
            args.iter().filter(|a| !a.text.starts_with('-')).for_each(|a| w.state.lose(&a.text));
            Some(Finding::allow("reads into variables"))
        }
        "unset" => {
            if args.iter().any(|a| HISTORY.contains(&a.text.as_str())) {
                return Some(Finding::deny("keeps commands out of the history"));
            }
            args.iter().filter(|a| is_name(&a.text)).for_each(|a| w.state.set(&a.text, [known("")]));
            w.state.doubt_functions();
            Some(Finding::allow("unsets variables"))
        }
        "printf" if args.first().is_some_and(|a| a.text.starts_with("-v")) => {
            let name = args.first()?.text.strip_prefix("-v").filter(|n| !n.is_empty());
            let name = name.map(str::to_owned).or_else(|| args.get(1).map(|a| a.text.clone()))?;
            w.state.lose(&name);
            Some(Finding::allow("prints into a variable"))
        }
        "let" | "getopts" => {
            args.iter()
                .filter_map(|a| a.text.split(['=', '+', '-']).next().map(str::to_owned))
                .for_each(|n| w.state.lose(&n));
            Some(Finding::allow("sets a number"))
        }
        "cd" | "pushd" => Some(cd(w, args)),
        "popd" => {
            w.state.lose_folder();
            Some(Finding::allow("changes the folder"))
        }
        _ => None,
    }
}

fn cd(w: &mut Walker, args: &[Arg]) -> Finding {
    let target = args.iter().find(|a| !matches!(a.text.as_str(), "-P" | "-L" | "-e" | "-@" | "--"));
    let home = Arg::new(w.paths.home.clone());
    let target = target.unwrap_or(&home);
    let folders: Vec<Option<String>> = w
        .state
        .folders()
        .map(|folder| {
            let certain = target.known && !target.glob && target.text != "-" && !target.text.starts_with('+');
            if certain { w.paths.absolute(&target.text, folder) } else { None }
        })
        .collect();
    w.state.go(folders);
    Finding::allow("changes the folder")
}
