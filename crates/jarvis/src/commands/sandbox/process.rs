//! `jarvis sandbox exec`.

use crate::cli::{ApproveArg, Common, Place, Reach};
use crate::error::{Failure, Outcome, failed, usage};
use crate::home::Home;
use crate::{config, programs, run, term};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{ArgAction, ArgGroup, Args, ValueEnum};
use jarvis_dispatch::{CommandView, ProcessRequest};
use jarvis_protocol::{ErrorBody, ErrorKind, Preset, ProcessLimits, ProcessPlan};
use jarvis_sandbox::{JailClass, JailStream, ProcessDone, Stdin};
use serde_json::json;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

pub const HELP: &str = "\
Examples:
  jarvis sandbox exec -- python3 -c 'print(open(\"/etc/hostname\").read())'
  jarvis sandbox exec --preset read-only -- sh -c 'echo x > file'
  jarvis sandbox exec --allow-net pypi.org -- curl -s https://pypi.org/simple/
  jarvis sandbox exec --shell 'grep -c fn src/*.rs | sort'

The presets:
  read-only        sees the system, can write only to a private /tmp
  workspace-write  can write in the workspace (the current folder, or --workspace)
                   as well, but for .git and what editors and shells run unasked
  full             can see and change all that you can, but for the keys in your home
                   and what is jarvis's own; asked for each time
In the first two: no home, so no keys and nobody else's files. In all of them: no \
network but the hosts of --allow-net; a clean environment; everything it starts \
ends with it.

The exit code is the program's: 124 when a limit ended it, 128 and the signal when a \
signal did.";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["command", "shell"]))]
pub struct Exec {
    /// How much of the machine it may touch.
    #[arg(long, value_name = "PRESET", default_value = "workspace-write")]
    preset: PresetArg,
    /// A command line, read by bash; it is classified first, as that of a model would be.
    #[arg(long, value_name = "LINE", conflicts_with = "command")]
    shell: Option<String>,
    /// The program and its arguments, after --.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Set a variable of its environment; NAME alone hands on yours. May be given more than once.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// A file or folder that it may see beside the system and the workspace, such as a toolchain. May be given more than
    /// once.
    #[arg(long, value_name = "PATH", value_parser = PathBufValueParser::new().try_map(std::path::absolute::<PathBuf>))]
    read: Vec<PathBuf>,
    /// Wall-clock milliseconds.
    #[arg(long, value_name = "MS", default_value_t = ProcessLimits::STANDARD.timeout_ms)]
    timeout: u64,
    /// Memory of all its processes, MiB.
    #[arg(long, value_name = "MIB", default_value_t = ProcessLimits::STANDARD.memory_mb)]
    memory: u64,
    /// Processes and threads at once.
    #[arg(long, value_name = "N", default_value_t = ProcessLimits::STANDARD.processes)]
    processes: u64,
    /// The largest file it may write, MiB.
    #[arg(long, value_name = "MIB", default_value_t = ProcessLimits::STANDARD.file_mb)]
    file: u64,
    /// Its private /tmp, MiB.
    #[arg(long, value_name = "MIB", default_value_t = ProcessLimits::STANDARD.disk_mb)]
    disk: u64,
    /// Standard output and standard error, each, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ProcessLimits::STANDARD.output_bytes)]
    output: u64,
    /// Give it the standard input (up to 16 MiB); without, it reads nothing.
    #[arg(long)]
    stdin: bool,
    /// A host that it may reach, by a proxy that is its only way out; may be given more than once.
    #[arg(long, value_name = "HOST", action = ArgAction::Append)]
    allow_net: Vec<String>,
    /// What to do where a yes is due: for the preset full, and for what --shell is asked about.
    #[arg(long, value_name = "WHAT")]
    approve: Option<ApproveArg>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PresetArg {
    ReadOnly,
    WorkspaceWrite,
    Full,
}

/// The most that is read from standard input, bytes.
const MOST_INPUT: u64 = 16 << 20;

pub fn run(args: &Exec, common: &Common) -> Outcome {
    let home = Home::find()?;
    for host in &args.allow_net {
        jarvis_dispatch::check_host(host).map_err(|problem| usage(problem, "for example api.example.com"))?;
    }
    let env = environment(&args.env)?;
    let stdin = if args.stdin { Stdin::Bytes(input()?) } else { Stdin::Closed };
    run::enter(&args.place)?;
    let settings = config::load(&home)?;
    let dir = run::workspace()?;
    let (argv, command) = match &args.shell {
        Some(line) => {
            // Classified as bash reads it; where there is none, sh understands no more than that.
            let shell = if programs::find("bash").is_some() { "bash" } else { "sh" };
            let argv = [shell, "-c", line].map(str::to_owned).to_vec();
            (argv, jarvis_dispatch::command_view(line, &dir, &super::classify::home()))
        }
        None => (args.command.clone(), CommandView::Harmless),
    };
    let program = program(&argv)?;
    let plan = ProcessPlan {
        argv,
        dir,
        preset: preset(args.preset),
        read: args.read.clone(),
        write: Vec::new(),
        network: args.allow_net.clone(),
        limits: ProcessLimits {
            timeout_ms: args.timeout,
            memory_mb: args.memory,
            processes: args.processes,
            file_mb: args.file,
            disk_mb: args.disk,
            output_bytes: args.output,
        },
    };
    let reach = Reach { approve: args.approve, allow_net: args.allow_net.clone(), place: Place::default() };
    let dispatch = run::dispatch(&settings, &reach, &home)?;
    let done = run::block(async |signals| {
        let cancel = signals.work();
        let mut approver = run::approver(common.json, &cancel);
        let mut live = Live::new(common.json, cancel.clone());
        let request = ProcessRequest { plan, program, command, env, stdin };
        let done = dispatch.exec(request, approver.as_mut(), &cancel, |stream, part| live.show(stream, part)).await;
        live.end();
        // Where nobody takes the output, that is what ended it.
        match live.broken {
            Some(failure) => Err(failure),
            None => Ok(done?),
        }
    })?;
    finish(&done, common.json)
}

fn preset(preset: PresetArg) -> Preset {
    match preset {
        PresetArg::ReadOnly => Preset::ReadOnly,
        PresetArg::WorkspaceWrite => Preset::WorkspaceWrite,
        PresetArg::Full => Preset::Full,
    }
}

fn program(argv: &[String]) -> Outcome<PathBuf> {
    let name = argv.first().map(String::as_str).unwrap_or_default();
    programs::find(name).ok_or_else(|| {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("there is no program `{}`", term::flat(name)));
        Failure::from(body.hint("check the spelling, or give its path"))
    })
}

fn environment(wanted: &[String]) -> Outcome<Vec<(String, String)>> {
    wanted
        .iter()
        .map(|word| match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            Some(_) => Err(usage(format!("--env {word}: a name is missing"), "write --env NAME=VALUE")),
            None => std::env::var(word)
                .map(|value| (word.clone(), value))
                .map_err(|_| usage(format!("--env {word}: this variable is not set here"), "write --env NAME=VALUE")),
        })
        .collect()
}

fn input() -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MOST_INPUT + 1).read_to_end(&mut bytes);
    read.map_err(|e| failed(ErrorKind::Disk, format!("stdin cannot be read: {e}")))?;
    if bytes.len() as u64 > MOST_INPUT {
        return Err(usage("more than 16 MiB on stdin", "put it into a file of the workspace"));
    }
    Ok(bytes)
}

/// Output as it comes: byte for byte into a pipe or file, harmless where a person watches.
struct Live {
    json: bool,
    /// Bytes of a character that has not come whole, of each stream.
    rest: [Vec<u8>; 2],
    /// Stops the program when its output has nowhere to go.
    cancel: CancellationToken,
    broken: Option<Failure>,
}

impl Live {
    fn new(json: bool, cancel: CancellationToken) -> Self {
        Self { json, rest: [Vec::new(), Vec::new()], cancel, broken: None }
    }

    fn show(&mut self, stream: JailStream, part: &[u8]) {
        if self.json {
            return;
        }
        let terminal = match stream {
            JailStream::Stdout => std::io::stdout().is_terminal(),
            JailStream::Stderr => std::io::stderr().is_terminal(),
        };
        if !terminal {
            return self.write(stream, part);
        }
        let rest = &mut self.rest[usize::from(stream == JailStream::Stderr)];
        rest.extend_from_slice(part);
        let whole = match std::str::from_utf8(rest) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            _ => rest.len(),
        };
        let text: Vec<u8> = rest.drain(..whole).collect();
        self.write(stream, term::safe(&String::from_utf8_lossy(&text)).as_bytes());
    }

    fn end(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        for (stream, rest) in [JailStream::Stdout, JailStream::Stderr].into_iter().zip(rest) {
            if !rest.is_empty() {
                self.write(stream, "\u{fffd}".as_bytes());
            }
        }
    }

    fn write(&mut self, stream: JailStream, bytes: &[u8]) {
        let written = match stream {
            JailStream::Stdout => std::io::stdout().lock().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            // A closed stderr is no reason to stop.
            JailStream::Stderr => return drop(std::io::stderr().lock().write_all(bytes)),
        };
        if let Err(e) = written {
            self.cancel.cancel();
            self.broken.get_or_insert(match e.kind() {
                std::io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
                _ => failed(ErrorKind::Disk, format!("stdout cannot be written: {e}")),
            });
        }
    }
}

fn finish(done: &ProcessDone, json: bool) -> Outcome {
    let exit = &done.outcome.exit;
    if json {
        term::json(&json!({
            "exit": exit, "stdout": done.outcome.stdout_text(), "stderr": done.outcome.stderr_text(),
            "isolation": done.outcome.layers, "egress": done.egress,
        }))?;
    }
    if let Some(what) = ended_by(exit.class) {
        term::note(format!("{} {what}", term::stderr_style().bold("stopped:")));
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let (ms, mib) = (exit.wall_us as f64 / 1e3, exit.peak_memory_kb as f64 / 1024.0);
    if !json {
        let about = format!("{ms:.1} ms, {mib:.1} MiB; {}", done.outcome.layers.join(", "));
        term::status(term::stderr_style().dim(&about));
    }
    let code = match (exit.class, exit.code, exit.signal) {
        (JailClass::Ok, _, _) => return Ok(()),
        (JailClass::Failed, Some(code), _) => u8::try_from(code).unwrap_or(1),
        (JailClass::Killed, _, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        (JailClass::Failed | JailClass::Killed, ..) => 1,
        _ => 124,
    };
    Err(Failure::Told(code))
}

fn ended_by(class: JailClass) -> Option<&'static str> {
    match class {
        JailClass::Timeout => Some("it was not finished in time (--timeout)"),
        JailClass::Cpu => Some("it used up its processor time (--timeout)"),
        JailClass::Memory => Some("it needed more memory than its limit (--memory)"),
        JailClass::Processes => Some("it started more processes than its limit (--processes)"),
        JailClass::Output => Some("it printed more than its limit (--output)"),
        JailClass::Killed => Some("a signal ended it"),
        JailClass::Ok | JailClass::Failed | JailClass::Cancelled => None,
    }
}
