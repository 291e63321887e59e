//! Over HTTP: who may come in, how much they may send, and how it ends.

use crate::common::{Home, ends_within, signal};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    pub child: Child,
    pub url: String,
    address: SocketAddr,
}

impl Server {
    pub fn start(home: &Home, flags: &[&str]) -> Server {
        let mut child = home
            .command(&[&["mcp", "serve", "--http", "127.0.0.1:0", "--quiet"], flags].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap().parse().unwrap();
        Server { child, url, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Status and the whole rest of the answer.
    fn request(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = self.connect();
        let mut head = format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let usual = [
            ("Host", self.address.to_string()),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
        ];
        let given = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        for (name, value) in usual.iter().filter(|(name, _)| !given(name)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // A server that refuses a large body closes before all of it is written.
        let _ = stream.write_all(format!("{head}\r\n").as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"));
        (status, answer)
    }

    /// Opens a session and returns its id.
    fn session(&self, headers: &[(&str, &str)]) -> String {
        let (status, answer) = self.request("POST", headers, &hello());
        assert_eq!(status, 200, "{answer}");
        let id =
            answer.lines().find_map(|line| line.to_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned));
        id.unwrap_or_else(|| panic!("{answer}"))
    }

    pub fn stop(self) {
        signal("TERM", self.child.id());
        let ran = ends_within(self.child, Duration::from_secs(20));
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
}

fn hello() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "web", "version": "1"}}})
    .to_string()
}

/// The message with this id in an event stream.
fn message(answer: &str, id: u64) -> Value {
    let data = answer.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let all = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    all.into_iter().find(|m| m["id"] == id).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_session_over_http_calls_tools_and_ends_when_it_is_deleted() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let id = server.session(&[]);
    let headers = [("Mcp-Session-Id", id.as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    let call = |id: u64, name: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
            .to_string()
    };
    let (status, answer) = server.request("POST", &headers, &call(2, "register_capability", super::host::reverse()));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(message(&answer, 2)["result"]["structuredContent"]["registered"], "reverse_text", "{answer}");
    let run = super::host::run("reverse_text", json!({"text": "你好"}));
    let (_, answer) = server.request("POST", &headers, &call(3, "execute_capability", run));
    assert_eq!(message(&answer, 3)["result"]["structuredContent"]["result"], "好你");
    let (status, answer) = server.request("DELETE", &headers, "");
    assert!(status == 202 || status == 204 || status == 200, "{answer}");
    let (status, _) = server.request("POST", &headers, &call(4, "list_capabilities", json!({"query": "x"})));
    assert_eq!(status, 404);
    server.stop();
}

#[test]
fn a_token_is_asked_for_wherever_other_machines_reach_it_and_checked_everywhere() {
    let home = Home::new();
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7000"] {
        let _ = home.run(&["mcp", "serve", "--http", addr]).failed(2, &["no token is set", "--token-env"]);
    }
    let _ = home.run(&["mcp", "serve", "--http", "0", "--token-env", "NOT_SET"]).failed(2, &["NOT_SET", "is not set"]);
    let short = Home::new().var("SHORT", "12345");
    let _ = short.run(&["mcp", "serve", "--http", "0", "--token-env", "SHORT"]).failed(2, &["too short"]);
    let _ = home.run(&["mcp", "serve", "--token-env", "X"]).failed(2, &["--http"]);
    let _ = home.run(&["mcp", "serve", "--http", "nowhere"]).failed(2, &["an address like"]);

    let home = home.var("MCP_TOKEN", "a-long-enough-token-好");
    let home = Home::var(home, "OTHER", "x");
    let server = Server::start(&home, &["--token-env", "MCP_TOKEN"]);
    for wrong in ["", "Bearer ", "Bearer a-long-enough-token", "Basic a-long-enough-token-好", "bearer x"] {
        let headers: Vec<(&str, &str)> = if wrong.is_empty() { vec![] } else { vec![("Authorization", wrong)] };
        let (status, answer) = server.request("POST", &headers, &hello());
        assert_eq!(status, 401, "{wrong}: {answer}");
        assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert_eq!(server.request("GET", &headers, "").0, 401);
        assert_eq!(server.request("DELETE", &headers, "").0, 401);
    }
    server.stop();
    let home = Home::new().var("MCP_TOKEN", "a-long-enough-token");
    let server = Server::start(&home, &["--token-env", "MCP_TOKEN"]);
    let _ = server.session(&[("Authorization", "Bearer a-long-enough-token")]);
    server.stop();
}

#[test]
fn pages_of_other_places_and_other_names_of_the_machine_are_refused() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let port = server.address.port().to_string();
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]"] {
        let (status, answer) = server.request("POST", &[("Host", host)], &hello());
        assert_eq!(status, 403, "{host}: {answer}");
    }
    let other_port = format!("http://localhost:{}", server.address.port().wrapping_add(1));
    for origin in ["http://evil.example", "null", "https://localhost", "http://localhost.evil.example", &other_port] {
        let (status, answer) = server.request("POST", &[("Origin", origin)], &hello());
        assert_eq!(status, 403, "{origin}: {answer}");
    }
    let own = format!("http://localhost:{port}");
    let _ = server.session(&[("Origin", &own), ("Host", &format!("localhost:{port}"))]);
    server.stop();
    let server = Server::start(&home, &["--host", "box.example"]);
    let _ = server.session(&[("Host", "box.example")]);
    let (status, _) = server.request("POST", &[("Host", "other.example")], &hello());
    assert_eq!(status, 403);
    server.stop();
}

#[test]
fn large_half_slow_and_wrong_requests_are_refused_and_others_do_not_notice() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let (status, _) = server.request("POST", &[], &"x".repeat(5 << 20));
    assert_eq!(status, 413);
    let (status, _) = server.request("POST", &[], "not json");
    assert!((400..500).contains(&status), "{status}");
    let (status, _) = server.request("PUT", &[], "");
    assert_eq!(status, 405);
    let (status, _) = server.request("POST", &[("Mcp-Session-Id", "invented")], &hello());
    assert!(status == 404 || status == 400, "{status}");
    // Connections that say nothing, or only a part, are closed.
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: 127").unwrap();
    let _ = server.session(&[]);
    let began = Instant::now();
    for stream in [&mut silent, &mut slow] {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    server.stop();
}

#[test]
fn sessions_are_counted_and_a_thousand_connects_leave_nothing_behind() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let files = || std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count();
    let before = files();
    let mut sessions: Vec<String> = (0..64).map(|_| server.session(&[])).collect();
    // A page of elsewhere takes nobody's place.
    assert_eq!(server.request("POST", &[("Origin", "http://evil.example")], &hello()).0, 403);
    // All are full, and the one that nobody used for longest makes room; those that are used stay.
    let used = sessions.remove(0);
    let headers = [("Mcp-Session-Id", used.as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    assert_eq!(server.request("POST", &headers, &list()).0, 200);
    sessions.push(server.session(&[]));
    let headers = [("Mcp-Session-Id", sessions[0].as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    assert_eq!(server.request("POST", &headers, &list()).0, 404, "the oldest is gone");
    let headers = [("Mcp-Session-Id", used.as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    assert_eq!(server.request("POST", &headers, &list()).0, 200, "the one that was used is there");
    sessions.push(used);
    for id in &sessions {
        let _ = server.request("DELETE", &[("Mcp-Session-Id", id)], "");
    }
    for _ in 0..1000 {
        drop(server.connect());
    }
    std::thread::sleep(Duration::from_secs(1));
    let after = files();
    assert!(after <= before + 8, "{before} descriptors before, {after} after");
    server.stop();
}

fn list() -> String {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string()
}

#[test]
fn sessions_that_somebody_listens_to_are_not_ended_for_others_and_idle_ones_end_in_time() {
    let home = Home::new().var("JARVIS_MCP_IDLE", "1");
    let server = Server::start(&home, &[]);
    let ids: Vec<String> = (0..64).map(|_| server.session(&[])).collect();
    let mut streams: Vec<TcpStream> = Vec::new();
    for id in &ids {
        let mut stream = server.connect();
        let head = format!(
            "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {id}\r\n\
             Mcp-Protocol-Version: 2025-11-25\r\n\r\n",
            server.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        streams.push(stream);
    }
    // Longer than idle ones are kept.
    std::thread::sleep(Duration::from_secs(3));
    let (status, answer) = server.request("POST", &[], &hello());
    assert!(status == 503 && answer.contains("64 sessions"), "{answer}");
    drop(streams.pop());
    let began = Instant::now();
    while server.request("POST", &[], &hello()).0 != 200 {
        assert!(began.elapsed() < Duration::from_secs(10), "a stream that was closed frees its session");
    }
    std::thread::sleep(Duration::from_secs(3));
    let headers = [("Mcp-Session-Id", ids[63].as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    assert_eq!(server.request("POST", &headers, &list()).0, 404, "it was idle for too long");
    drop(streams);
    server.stop();
}

#[test]
fn deleting_a_session_ends_what_it_does_at_once() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let id = server.session(&[]);
    let headers = [("Mcp-Session-Id", id.as_str()), ("Mcp-Protocol-Version", "2025-11-25")];
    let call = |id: u64, name: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
            .to_string()
    };
    let definition = json!({"name": "count_far", "capability": "Counts up to a number, one by one.",
        "triggers": ["counting"], "parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        "returns": {"type": "integer"}, "examples": [{"args": {"n": 3}, "returns": 3}, {"args": {"n": 5}, "returns": 5}]});
    let code =
        "export default function run({ n }: { n: number }) {\n  let i = 0;\n  while (i < n) i += 1;\n  return i;\n}\n";
    let made = call(2, "register_capability", json!({"definition": definition, "code": code}));
    let (_, answer) = server.request("POST", &headers, &made);
    assert_eq!(message(&answer, 2)["result"]["structuredContent"]["registered"], "count_far", "{answer}");
    let long = call(3, "execute_capability", super::host::run("count_far", json!({"n": 9_000_000_000_000_u64})));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.request("POST", &headers, &long));
        let outcomes = || {
            let audit = home.run(&["audit", "tail", "-n", "50", "--json"]).ok().events();
            let of = |kind: &str| audit.iter().filter(|e| e["kind"] == kind && e["subject"] == "count_far").count();
            (of("intent"), of("outcome"))
        };
        let before = outcomes().1;
        let began = Instant::now();
        while outcomes().0 <= before {
            assert!(began.elapsed() < Duration::from_secs(10), "it begins");
        }
        let began = Instant::now();
        let (status, answer) = server.request("DELETE", &headers, "");
        assert!((200..300).contains(&status), "{answer}");
        while outcomes().1 <= before {
            assert!(began.elapsed() < Duration::from_secs(2), "it goes on after {:?}", began.elapsed());
        }
        let _ = running.join();
    });
    server.stop();
}
