//! Programs that start the program in their arguments.

use crate::expand::Arg;
use crate::rules::options::Options;
use crate::rules::shell::run_text;
use crate::rules::{runs, variables};
use crate::state::known;
use crate::tree::is_name;
use crate::verdict::Finding;
use crate::walk::{Stdin, Walker};

/// Options with a value, and operands before the program.
fn shape(name: &str) -> Option<(&'static [&'static str], usize)> {
    Some(match name {
        "nohup" | "setsid" | "time" | "unbuffer" | "fakeroot" | "caffeinate" | "catchsegv" | "eatmydata"
        | "chronic" | "ts" | "dbus-run-session" | "linux32" | "linux64" | "tini" | "dumb-init" | "catatonit"
        | "rlwrap" | "xvfb-run" | "choom" => (&["-f", "-o", "-n", "-s", "-t", "-w", "--format", "--output"], 0),
        "timeout" | "gtimeout" => (&["-s", "-k", "--signal", "--kill-after"], 1),
        "nice" => (&["-n", "--adjustment"], 0),
        "ionice" => (&["-c", "-n", "-p", "--class", "--classdata"], 0),
        "stdbuf" => (&["-i", "-o", "-e", "--input", "--output", "--error"], 0),
        "chrt" | "taskset" => (&["-T", "-P", "-D"], 1),
        "strace" | "ltrace" => (
            &[
                "-o", "-e", "-p", "-s", "-a", "-O", "-S", "-u", "-P", "-E", "-b", "-I", "-X", "-n", "-l", "-x", "-A",
                "-w",
            ],
            0,
        ),
        "valgrind" => (&[], 0),
        "setarch" | "faketime" => (&[], 1),
        "prlimit" | "numactl" | "systemd-inhibit" => {
            (&["-p", "-m", "-N", "-C", "--who", "--why", "--what", "--mode"], 0)
        }
        "cgexec" => (&["-g"], 0),
        "busybox" | "toybox" => (&[], 0),
        "proxychains" | "proxychains4" | "torsocks" => (&["-f"], 0),
        // Refused by name, but what they start is shown.
        "sudo" | "doas" => {
            (&["-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-r", "-t", "-U", "--user", "--group"], 0)
        }
        "chroot" => (&["--userspec", "--groups"], 1),
        "unshare" | "nsenter" => (&["-t", "-S", "-G", "-w", "--target", "--wd"], 0),
        _ => return None,
    })
}

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" {
        let (_, rest) = Options::leading(args, &["--library-path", "--preload", "--audit", "--argv0"]);
        let found = start(w, rest, "a program through the loader");
        return Some(found.or_worse(Finding::ask("starts a program through the loader")));
    }
    if name == "builtin" {
        return Some(start_here(w, args, "a builtin"));
    }
    if let Some((valued, operands)) = shape(name) {
        let (options, rest) = Options::leading(args, valued);
        let rest = rest.get(operands..).unwrap_or_default();
        // Options decide where the program starts, so they must be known.
        let unclear = args.iter().take(args.len() - rest.len()).any(|a| !a.known);
        let found = if options.has(&["-c"]) && matches!(name, "sudo" | "doas") {
            runs("a command")
        } else {
            start(w, rest, "another program")
        };
        let own =
            crate::programs::group(name).map(|g| Finding { verdict: g.kind.verdict(), reason: g.reason.to_owned() });
        let writes = matches!(name, "strace" | "ltrace" | "time")
            .then(|| options.value(&["-o", "--output"]).cloned())
            .flatten()
            .map(|file| w.writes(&file, false));
        let attaches = (matches!(name, "strace" | "ltrace") && options.has(&["-p"]))
            .then(|| Finding::ask("watches a process that runs already"));
        let found = Finding::worst([Some(found), own, writes, attaches].into_iter().flatten())?;
        return Some(if unclear { found.or_worse(Finding::ask("what it starts cannot be told")) } else { found });
    }
    Some(match name {
        "env" => env(w, args),
        "command" => {
            let (options, rest) = Options::leading(args, &[]);
            if options.has(&["-v", "-V"]) {
                Finding::allow("only looks a program up")
            } else {
                start_here(w, rest, "another program")
            }
        }
        "exec" => {
            let (_, rest) = Options::leading(args, &["-a"]);
            start(w, rest, "another program in its place")
        }
        "coproc" => {
            // `coproc NAME command` and `coproc command` look alike.
            let found = start(w, args, "another program beside");
            if args.len() > 1 {
                found.or_worse(Finding::ask("a coprocess whose program cannot be told"))
            } else {
                found
            }
        }
        "xargs" => xargs(w, args),
        "parallel" => parallel(w, args),
        "watch" => {
            let (_, rest) = Options::leading(args, &["-n", "--interval", "-s"]);
            joined(w, rest, "a command again and again")
        }
        "hyperfine" | "entr" => {
            let options = Options::read(
                args,
                &[
                    "-w",
                    "-m",
                    "-M",
                    "-r",
                    "-p",
                    "-P",
                    "-s",
                    "-S",
                    "-n",
                    "-i",
                    "--warmup",
                    "--runs",
                    "--prepare",
                    "--setup",
                    "--cleanup",
                    "--shell",
                    "--export-json",
                    "--export-markdown",
                    "--export-csv",
                ],
            );
            if name == "entr" {
                let (_, rest) = Options::leading(args, &[]);
                return Some(start(w, rest, "a program at each change"));
            }
            let texts: Vec<Arg> = options
                .operands
                .iter()
                .map(|a| (*a).clone())
                .chain(options.values(&["-p", "-s", "--prepare", "--setup", "--cleanup"]).cloned())
                .collect();
            let outputs: Vec<Arg> =
                options.values(&["--export-json", "--export-markdown", "--export-csv"]).cloned().collect();
            let found = texts
                .iter()
                .map(|t| run_text(w, t, "a measured command"))
                .reduce(Finding::or_worse)
                .unwrap_or_else(|| runs("nothing"));
            outputs.iter().map(|o| w.writes(o, false)).fold(found, Finding::or_worse)
        }
        "script" => {
            let options = Options::read(args, &["-c", "--command", "-m", "-E", "-o", "-B", "-I", "-O", "-T"]);
            let code = options.value(&["-c", "--command"]).cloned();
            let file = options.operands.first().map(|f| (*f).clone());
            let found = match code {
                Some(code) => run_text(w, &code, "a recorded command"),
                None => Finding::ask("starts an interactive shell"),
            };
            file.map(|f| w.writes(&f, false)).into_iter().fold(found, Finding::or_worse)
        }
        "flock" => {
            let (options, rest) = Options::leading(args, &["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"]);
            let _ = options;
            match rest.split_first() {
                None => Finding::ask("a lock without its command"),
                Some((lock, rest)) => {
                    let written = w.writes(lock, false);
                    let found = match rest {
                        [flag, code, ..] if matches!(flag.text.as_str(), "-c" | "--command") => {
                            run_text(w, code, "a command under a lock")
                        }
                        [] => Finding::allow("locks a file"),
                        rest => start(w, rest, "another program"),
                    };
                    found.or_worse(written)
                }
            }
        }
        "su" => {
            let options =
                Options::read(args, &["-c", "--command", "-s", "-g", "-G", "-w", "--shell", "--session-command"]);
            if let Some(code) = options.value(&["-c", "--command", "--session-command"]).cloned() {
                run_text(w, &code, "a command of another person");
            }
            return None;
        }
        "perf" => {
            let (_, rest) = Options::leading(args, &[]);
            match rest.split_first() {
                Some((sub, rest)) if matches!(sub.text.as_str(), "stat" | "record" | "trace") => {
                    let (_, rest) = Options::leading(rest, &["-e", "-o", "-F", "-r", "-g", "--call-graph", "-C", "-c"]);
                    start(w, rest, "a measured program")
                }
                _ => Finding::allow("shows measurements"),
            }
        }
        "run-parts" | "start-stop-daemon" => Finding::ask("starts programs that cannot be told from the command"),
        "tmux" | "screen" | "ssh" => return None,
        _ => return None,
    })
}

/// Judges `rest` as a command of its own, in a process of its own.
pub(crate) fn start(w: &mut Walker, rest: &[Arg], what: &str) -> Finding {
    w.apart(None, |w| start_here(w, rest, what))
}

/// Judges `rest` as a command of this shell: builtins act on it, functions are passed over.
fn start_here(w: &mut Walker, rest: &[Arg], what: &str) -> Finding {
    if rest.is_empty() {
        return Finding::allow("starts nothing");
    }
    w.program(rest);
    runs(what)
}

/// Judges the arguments, joined by blanks, as a command line.
pub(crate) fn joined(w: &mut Walker, rest: &[Arg], what: &str) -> Finding {
    if rest.is_empty() {
        return Finding::allow("starts nothing");
    }
    let texts: Vec<&str> = rest.iter().map(|a| a.text.as_str()).collect();
    let code = Arg { text: texts.join(" "), known: rest.iter().all(|a| a.known), glob: false, cut: false };
    run_text(w, &code, what)
}

fn env(w: &mut Walker, args: &[Arg]) -> Finding {
    let valued = ["-u", "--unset", "-C", "--chdir", "-S", "--split-string", "-P", "--argv0", "-a"];
    let (options, mut rest) = Options::leading(args, &valued);
    let split = options.value(&["-S", "--split-string"]).cloned();
    let mut found = Vec::new();
    w.apart(None, |w| {
        if let Some(folder) = options.value(&["-C", "--chdir"]) {
            let folders: Vec<Option<String>> =
                w.state.folders().map(|f| w.paths.absolute(&folder.text, f).filter(|_| folder.known)).collect();
            w.state.go(folders);
        }
        while let Some((first, more)) = rest.split_first() {
            let Some((name, value)) = first.text.split_once('=') else { break };
            if is_name(name) {
                let value = if first.known { known(value) } else { None };
                found.extend(variables::check(w, name, &[value], true));
            }
            rest = more;
        }
        if let Some(split) = split {
            let texts: Vec<&str> = std::iter::once(&split).chain(rest).map(|a| a.text.as_str()).collect();
            let code = Arg {
                text: texts.join(" "),
                known: split.known && rest.iter().all(|a| a.known),
                glob: false,
                cut: false,
            };
            found.push(run_text(w, &code, "a command split from text"));
        } else if args.iter().take(args.len() - rest.len()).any(|a| !a.known && !a.text.contains('=')) {
            found.push(Finding::ask("what it starts cannot be told"));
        } else {
            found.push(start(w, rest, "another program"));
        }
    });
    Finding::worst(found).unwrap_or_else(|| Finding::allow("shows the environment"))
}

fn xargs(w: &mut Walker, args: &[Arg]) -> Finding {
    let valued = [
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-E",
        "-s",
        "-a",
        "--replace",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--delimiter",
        "--arg-file",
        "--max-chars",
        "-J",
        "-R",
    ];
    let (options, rest) = Options::leading(args, &valued);
    if rest.is_empty() {
        return Finding::allow("prints its input");
    }
    let from_file = options.has(&["-a", "--arg-file"]);
    let inputs: Vec<Arg> = match (&w.stdin, from_file) {
        (Stdin::Text(text), false) => {
            text.split(|c: char| c.is_whitespace() || c == '\0').filter(|t| !t.is_empty()).map(Arg::new).collect()
        }
        (Stdin::Paths(paths), false) => paths.clone(),
        _ => vec![Arg::unknown()],
    };
    let mark = options
        .value(&["-I", "--replace", "-J"])
        .map(|m| m.text.clone())
        .or_else(|| options.has(&["-i"]).then(|| "{}".to_owned()));
    let command: Vec<Arg> = match mark.filter(|m| !m.is_empty()) {
        Some(mark) => {
            let inputs = if inputs.is_empty() { vec![Arg::new("")] } else { inputs };
            for input in inputs.iter().take(20) {
                let command: Vec<Arg> = rest.iter().map(|a| replace(a, &mark, input)).collect();
                w.apart(Some(Stdin::None), |w| start(w, &command, ""));
            }
            if inputs.len() > 20 {
                return Finding::ask("starts a program for more arguments than are looked through");
            }
            return runs("a program for each argument");
        }
        None => rest.iter().cloned().chain(inputs).collect(),
    };
    w.apart(Some(Stdin::None), |w| start(w, &command, "a program with arguments from its input"))
}

/// `arg` with every `mark` replaced by `input`.
pub(crate) fn replace(arg: &Arg, mark: &str, input: &Arg) -> Arg {
    if !arg.text.contains(mark) {
        return arg.clone();
    }
    Arg {
        text: arg.text.replace(mark, &input.text),
        known: arg.known && input.known,
        glob: arg.glob || input.glob,
        cut: arg.cut || input.cut,
    }
}

fn parallel(w: &mut Walker, args: &[Arg]) -> Finding {
    let (_, rest) = Options::leading(
        args,
        &[
            "-j",
            "--jobs",
            "-a",
            "--arg-file",
            "-S",
            "--sshlogin",
            "-n",
            "-N",
            "-I",
            "--timeout",
            "--joblog",
            "--results",
            "--delay",
            "-C",
            "--colsep",
            "-d",
        ],
    );
    let split = rest.iter().position(|a| matches!(a.text.as_str(), ":::" | "::::" | ":::+" | "::::+"));
    let (command, inputs) = match split {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &[][..]),
    };
    let from_args = split.is_some_and(|at| rest[at].text == ":::");
    let inputs: Vec<Arg> = match (from_args, &w.stdin) {
        (true, _) => inputs.to_vec(),
        (false, Stdin::Text(text)) => text.lines().map(Arg::new).collect(),
        (false, Stdin::Paths(paths)) => paths.clone(),
        _ => vec![Arg::unknown()],
    };
    if inputs.len() > 20 {
        return Finding::ask("starts a program for more arguments than are looked through");
    }
    for input in &inputs {
        let mut words: Vec<Arg> = command.iter().map(|a| replace(a, "{}", input)).collect();
        if words == command {
            words.push(input.clone());
        }
        joined(w, &words, "a command for each argument");
    }
    if inputs.iter().any(|i| !i.known) && command.is_empty() {
        return Finding::ask("runs commands that cannot be told");
    }
    if inputs.is_empty() { joined(w, command, "a command") } else { runs("a command for each argument") }
}
