//! `jarvis acp` with peers that do it wrong: lines that are none, messages at the wrong time, pipes that are closed or
//! never read.

use crate::common::provider::{Provider, Reply};
use crate::common::{Home, ends_within, signal};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

struct Raw {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
}

fn start(home: &Home) -> (Child, ChildStdin, ChildStdout) {
    let mut command = home.command(&["acp"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, input, output)
}

impl Raw {
    fn start(home: &Home) -> Raw {
        let (child, input, output) = start(home);
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                // Whatever is no protocol on stdout ends the test.
                let value = serde_json::from_str(&line.unwrap()).unwrap_or(json!("NO PROTOCOL"));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        Raw { child, input, lines }
    }

    fn introduced(home: &Home) -> Raw {
        let mut raw = Raw::start(home);
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        raw.send(&json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}).to_string());
        assert_eq!(raw.next()["result"]["protocolVersion"], 1);
        raw
    }

    fn send(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).unwrap();
        self.input.write_all(b"\n").unwrap();
        self.input.flush().unwrap();
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    #[track_caller]
    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(line["jsonrpc"] == "2.0", "{line}");
        line
    }

    /// The answer to a request, and nothing else is looked at.
    #[track_caller]
    fn answer(&self, id: u64) -> Value {
        loop {
            let line = self.next();
            if line["id"] == id && line["method"].is_null() {
                return line;
            }
        }
    }

    #[track_caller]
    fn refused(&self, code: i64, says: &str) {
        let line = self.next();
        assert!(line["error"]["code"] == code && line["error"].to_string().contains(says), "{line}");
    }

    fn session(&mut self, home: &Home, id: u64) -> String {
        self.ask(id, "session/new", json!({"cwd": home.path(), "mcpServers": []}));
        let answer = self.answer(id);
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn prompt(&mut self, id: u64, session: &str) {
        self.ask(id, "session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}));
    }

    /// Leaves; it must be over soon, and without a word of a fault.
    fn leave(self) {
        drop(self.input);
        let ran = ends_within(self.child, Duration::from_secs(2));
        assert!(ran.code == 0 && !ran.err.contains("bug in jarvis"), "{} {}", ran.code, ran.err);
    }
}

fn home() -> Home {
    Home::new().config("model = \"ollama/small\"\n")
}

/// Bytes of memory that the process has.
fn memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn lines_that_are_no_messages_are_answered_and_the_next_one_is_heard() {
    let home = home();
    let mut raw = Raw::introduced(&home);
    raw.send("what is this?");
    raw.refused(-32700, "what is this?");
    raw.send(&"垃圾".repeat(10_000));
    let line = raw.next();
    assert!(line["error"]["code"] == -32700 && line.to_string().len() < 2000, "{line}");
    raw.send("{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\"");
    raw.refused(-32700, "");
    raw.send("[{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\"}]");
    raw.refused(-32600, "");
    raw.send("{\"id\": 1}");
    raw.refused(-32600, "");
    raw.input.write_all(b"\xff\xfe\n").unwrap();
    raw.refused(-32700, "UTF-8");
    // Nothing to answer: blank lines, answers to nothing, notifications that nobody knows.
    raw.send("");
    raw.send("  ");
    raw.send("{\"jsonrpc\": \"2.0\", \"id\": 99, \"result\": {}}");
    raw.send("{\"jsonrpc\": \"2.0\", \"method\": \"never/heard\"}");
    raw.send("{\"jsonrpc\": \"2.0\", \"method\": \"session/cancel\", \"params\": {\"sessionId\": \"none\"}}");
    raw.ask(2, "never/heard", json!({}));
    raw.refused(-32601, "never/heard");
    let _ = raw.session(&home, 3);
    raw.leave();
}

#[test]
fn a_line_of_100_mb_is_refused_with_bounded_memory() {
    let home = home();
    let mut raw = Raw::introduced(&home);
    let part = vec![b'x'; 1 << 20];
    let mut most = 0;
    for _ in 0..100 {
        raw.input.write_all(&part).unwrap();
        most = most.max(memory(&raw.child));
    }
    raw.input.write_all(b"\n").unwrap();
    raw.refused(-32600, "104857600 bytes; at most 33554432");
    assert!(most < 200 << 20, "{most} bytes");
    let _ = raw.session(&home, 3);
    raw.leave();
}

#[test]
fn messages_at_the_wrong_time_are_refused() {
    let home = home();
    let mut raw = Raw::start(&home);
    raw.ask(1, "session/new", json!({"cwd": home.path(), "mcpServers": []}));
    raw.refused(-32600, "initializ");
    raw.prompt(2, "none");
    raw.refused(-32600, "initializ");
    raw.ask(3, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    assert_eq!(raw.answer(3)["result"]["agentInfo"]["name"], "jarvis");
    raw.prompt(4, "none");
    raw.refused(-32002, "none");
    raw.ask(5, "session/new", json!({"cwd": "relative", "mcpServers": []}));
    raw.refused(-32602, "no absolute path");
    raw.ask(6, "session/new", json!({"cwd": home.file("missing"), "mcpServers": []}));
    raw.refused(-32602, "there is no folder");
    raw.ask(7, "session/prompt", json!({"sessionId": 5}));
    raw.refused(-32602, "");
    raw.ask(8, "session/load", json!({"cwd": home.path(), "mcpServers": [], "sessionId": "../../etc/passwd"}));
    raw.refused(-32002, "");
    raw.ask(9, "session/list", json!({"cursor": "x"}));
    raw.refused(-32602, "cursor");
    raw.leave();
}

#[test]
fn a_version_that_is_not_known_is_answered_with_the_one_that_is() {
    let home = home();
    let mut raw = Raw::start(&home);
    raw.ask(1, "initialize", json!({"protocolVersion": 7, "clientCapabilities": {}}));
    assert_eq!(raw.answer(1)["result"]["protocolVersion"], 1);
    raw.leave();
}

#[test]
fn an_id_that_is_used_twice_gets_two_answers_and_confuses_nothing() {
    let provider = Provider::start(vec![
        Reply::Later(Duration::from_millis(500), Box::new(Reply::Text("one"))),
        Reply::Text("two"),
    ]);
    let home = Home::new().config(&provider.patient_config(20));
    let mut raw = Raw::introduced(&home);
    let session = raw.session(&home, 1);
    raw.prompt(5, &session);
    raw.prompt(5, &session);
    let (first, second) = (raw.answer(5), raw.answer(5));
    assert!(first["error"].to_string().contains("busy"), "{first}");
    assert_eq!(second["result"]["stopReason"], "end_turn");
    raw.prompt(5, &session);
    assert_eq!(raw.answer(5)["result"]["stopReason"], "end_turn");
    raw.leave();
}

#[test]
fn half_a_message_and_then_nothing_is_an_end_like_any_other() {
    let home = home();
    let mut raw = Raw::introduced(&home);
    let _ = raw.session(&home, 1);
    raw.input.write_all(b"{\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"session/").unwrap();
    raw.leave();
    // And before a word was said.
    Raw::start(&home).leave();
}

#[test]
fn a_peer_that_is_gone_while_the_model_thinks_is_not_waited_for() {
    let provider = Provider::start(vec![Reply::Hangs]);
    let home = Home::new().config(&provider.patient_config(30));
    let mut raw = Raw::introduced(&home);
    let session = raw.session(&home, 1);
    raw.prompt(2, &session);
    provider.was_asked(1);
    raw.leave();
}

#[test]
fn a_closed_stdout_ends_it_too_and_so_does_sigterm() {
    let home = home();
    let (child, mut input, output) = start(&home);
    drop(output);
    writeln!(input, "nonsense").unwrap();
    let ran = ends_within(child, Duration::from_secs(3));
    assert!(!ran.err.contains("bug in jarvis"), "{}", ran.err);
    let raw = Raw::introduced(&home);
    signal("TERM", raw.child.id());
    let Raw { child, input: _input, lines: _lines } = raw;
    assert_eq!(ends_within(child, Duration::from_secs(2)).code, 130);
}

/// Writes `line(n)` for n from 0 on in a thread of its own; how many were taken.
fn flood(mut input: ChildStdin, most: usize, line: impl Fn(usize) -> String + Send + 'static) -> Arc<AtomicUsize> {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    std::thread::spawn(move || {
        for n in 0..most {
            if writeln!(input, "{}", line(n)).is_err() {
                return;
            }
            count.store(n + 1, Ordering::Relaxed);
        }
        // Kept open.
        std::thread::sleep(Duration::from_secs(60));
    });
    taken
}

/// Waits until no more is taken.
fn stands_still(taken: &AtomicUsize) -> usize {
    let end = Instant::now() + Duration::from_secs(20);
    let mut last = usize::MAX;
    while Instant::now() < end {
        let now = taken.load(Ordering::Relaxed);
        if now == last {
            return now;
        }
        last = now;
        std::thread::sleep(Duration::from_millis(700));
    }
    panic!("it goes on: {last}");
}

#[test]
fn a_peer_that_asks_without_end_and_reads_nothing_is_not_read_either() {
    const MOST: usize = 400_000;
    let home = home();
    for garbage in [false, true] {
        let (mut child, input, output) = start(&home);
        let line = move |n| match garbage {
            true => format!("garbage {n}"),
            false => json!({"jsonrpc": "2.0", "id": n, "method": "never/heard"}).to_string(),
        };
        let taken = stands_still(&flood(input, MOST, line));
        assert!(taken > 0 && taken < MOST, "{taken} of {MOST} were taken");
        let bytes = memory(&child);
        assert!(bytes < 150 << 20, "{bytes} bytes");
        // Once it reads, it is answered.
        let mut lines = BufReader::new(output).lines();
        for _ in 0..taken / 2 {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert!(line["error"].is_object(), "{line}");
        }
        signal("TERM", child.id());
        let end = Instant::now() + Duration::from_secs(3);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it does not end while its peer does not read");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_peer_that_reads_nothing_during_a_turn_costs_bounded_memory_and_the_turn_ends() {
    // More than a pipe holds, in pieces of 500 kB.
    let big: &'static str = Box::leak("长".repeat(170_000).into_boxed_str());
    let mut replies: Vec<Reply> = Vec::new();
    for _ in 0..20 {
        replies.push(Reply::Text(big));
    }
    let provider = Provider::start(replies);
    let home = Home::new().config(&provider.patient_config(20));
    let (child, mut input, output) = start(&home);
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    writeln!(input, "{hello}").unwrap();
    let mut lines = BufReader::new(output).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let _ = lines.next().unwrap();
    let mut sessions = Vec::new();
    for n in 1..=20 {
        let new = json!({"jsonrpc": "2.0", "id": n, "method": "session/new", "params": {"cwd": home.path(), "mcpServers": []}});
        writeln!(input, "{new}").unwrap();
        let answer = lines.find(|line| line["id"] == n).unwrap();
        sessions.push(answer["result"]["sessionId"].clone());
    }
    for (n, session) in sessions.iter().enumerate() {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
        let prompt = json!({"jsonrpc": "2.0", "id": 100 + n, "method": "session/prompt", "params": params});
        writeln!(input, "{prompt}").unwrap();
    }
    provider.was_asked(20);
    std::thread::sleep(Duration::from_secs(2));
    let bytes = memory(&child);
    assert!(bytes < 400 << 20, "{bytes} bytes");
    let mut open = 20;
    while open > 0 {
        let line = lines.next().unwrap();
        if line["id"].as_u64() >= Some(100) {
            assert_eq!(line["result"]["stopReason"], "end_turn");
            open -= 1;
        }
    }
    drop(input);
    assert_eq!(ends_within(child, Duration::from_secs(2)).code, 0);
}
