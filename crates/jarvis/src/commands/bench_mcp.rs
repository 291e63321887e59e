//! `jarvis bench mcp`: one capability called in this process, and by a host over stdio, in turn.

use crate::cli::Common;
use crate::error::{Outcome, failed};
use crate::home::Home;
use crate::{config, run, term};
use clap::Args;
use jarvis_dispatch::DenyAll;
use jarvis_forge::{Draft, Forge};
use jarvis_protocol::{Capability, CapabilityName, ErrorKind, Example};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

pub const HELP: &str = "\
Examples:
  jarvis bench mcp
  jarvis bench mcp --runs 500 --json

In a home of its own. The calls of both ways take turns, so that what else the machine \
does meets both.";

#[derive(Debug, Args)]
pub struct BenchMcp {
    /// Calls of each way.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    runs: u32,
}

pub(super) const NAME: &str = "double";
const CODE: &str = "export default function run({ n }: { n: number }): number { return n * 2 }\n";
/// Time for the pool of workers to fill again, so that both ways find one that waits.
const PAUSE: Duration = Duration::from_millis(4);

pub fn run(args: &BenchMcp, common: &Common) -> Outcome {
    let scratch = tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no temporary folder: {e}")))?;
    let home = Home::at(scratch.path());
    let settings = config::load(&home)?;
    let forge = run::forge(&settings, &Default::default(), &home)?;
    let (mut inside, mut outside, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    run::block(async |signals| {
        let cancel = signals.work();
        register(&forge, &cancel).await?;
        let mut host = Host::start(&home)?;
        for n in 0..args.runs + 3 {
            if cancel.is_cancelled() {
                return Err(failed(ErrorKind::Cancelled, "cancelled"));
            }
            tokio::time::sleep(PAUSE).await;
            let started = Instant::now();
            let ran = forge.dispatch().run(NAME, json!({"n": n}), &mut |_| {}, &cancel).await?;
            let took = started.elapsed();
            right(&ran.value, n)?;
            tokio::time::sleep(PAUSE).await;
            let started = Instant::now();
            let answer = host.call(
                "tools/call",
                &json!({"name": "execute_capability", "arguments": {"name": NAME, "args": {"n": n}}}),
            )?;
            let took_outside = started.elapsed();
            right(&answer["structuredContent"]["result"], n)?;
            let started = Instant::now();
            host.call("ping", &json!({}))?;
            // The first calls start the workers of both.
            if n >= 3 {
                inside.push(took);
                outside.push(took_outside);
                empty.push(started.elapsed());
            }
        }
        Ok(())
    })?;
    let rows = [
        Row::of("the call, in this process", inside),
        Row::of("the same, over stdio", outside),
        Row::of("a ping, over stdio", empty),
    ];
    let added = Row {
        what: "what stdio adds to the call",
        fast_ms: rows[1].fast_ms - rows[0].fast_ms,
        median_ms: rows[1].median_ms - rows[0].median_ms,
        p99_ms: rows[1].p99_ms - rows[0].p99_ms,
    };
    if common.json {
        return term::json(&json!({"runs": args.runs, "rows": rows, "added": added}));
    }
    let table: Vec<Vec<String>> = rows
        .iter()
        .chain([&added])
        .map(|row| {
            let number = |ms: f64| format!("{ms:.2}");
            vec![row.what.to_owned(), number(row.fast_ms), number(row.median_ms), number(row.p99_ms)]
        })
        .collect();
    term::table(&["what", "fastest tenth ms", "median ms", "p99 ms"], &table)
}

#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    /// What the fastest tenth stays below: where the machine does much else, nearest to what the call itself takes.
    fast_ms: f64,
    median_ms: f64,
    p99_ms: f64,
}

impl Row {
    fn of(what: &'static str, mut times: Vec<Duration>) -> Row {
        times.sort();
        let at = |percent: usize| times.get(times.len() * percent / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        Row { what, fast_ms: at(10), median_ms: at(50), p99_ms: at(99) }
    }
}

fn right(value: &Value, n: u32) -> Outcome {
    if *value == json!(n * 2) { Ok(()) } else { Err(failed(ErrorKind::Sandbox, format!("a call answered {value}"))) }
}

/// Registers what is called, by the way of every other one.
pub(super) async fn register(forge: &Forge, cancel: &CancellationToken) -> Outcome {
    let name = CapabilityName::new(NAME).map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
    let mut capability = Capability::new(name, "Doubles a number.");
    capability.parameters = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}});
    capability.examples = vec![Example {
        returns: Some(json!(42)),
        ..serde_json::from_value(json!({"args": {"n": 21}})).map_err(|e| failed(ErrorKind::Internal, e.to_string()))?
    }];
    let draft = Draft {
        capability,
        code: CODE.to_owned(),
        request: None,
        change: "for the benchmark".to_owned(),
        instead_of: None,
        restored: false,
    };
    forge.submit(draft, &mut |_| {}, &mut DenyAll, cancel).await?;
    Ok(())
}

/// A host that waits for each answer.
struct Host {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Host {
    // A process of this same program, as a host would start it.
    #[allow(clippy::disallowed_methods)]
    fn start(home: &Home) -> Outcome<Host> {
        let broken = |what: &str| failed(ErrorKind::Internal, format!("the server {what}"));
        let program = std::env::current_exe().map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
        let mut child = Command::new(program)
            .args(["mcp", "serve", "--quiet"])
            .env("JARVIS_HOME", home.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| broken(&format!("does not start: {e}")))?;
        let input = child.stdin.take().ok_or_else(|| broken("has no input"))?;
        let output = BufReader::new(child.stdout.take().ok_or_else(|| broken("has no output"))?);
        let mut host = Host { child, input, output, id: 0 };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        host.call("initialize", &hello)?;
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(host)
    }

    fn send(&mut self, message: &Value) -> Outcome {
        let line = format!("{message}\n");
        let sent = self.input.write_all(line.as_bytes()).and_then(|()| self.input.flush());
        sent.map_err(|e| failed(ErrorKind::Protocol, format!("the server is gone: {e}")))
    }

    fn call(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        self.id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line);
            if read.map_err(|e| failed(ErrorKind::Protocol, e.to_string()))? == 0 {
                return Err(failed(ErrorKind::Protocol, "the server ended"));
            }
            let mut message: Value =
                serde_json::from_str(&line).map_err(|e| failed(ErrorKind::Protocol, format!("{e}: {line}")))?;
            if message["id"] == json!(self.id) {
                return Ok(message["result"].take());
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
