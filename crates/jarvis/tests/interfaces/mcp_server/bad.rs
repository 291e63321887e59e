//! Hosts that send nonsense, too much, too early, or that go away.

use super::host::{Host, endless, reverse, run};
use crate::common::{Home, ends_within, signal};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn garbage_is_answered_and_the_session_goes_on() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    host.write(b"hello?\n");
    assert_eq!(host.next()["error"]["code"], -32700);
    host.write(b"\xff\xfe\x00\n");
    assert_eq!(host.next()["error"]["code"], -32700);
    host.write(format!("{}\n", "[".repeat(100_000)).as_bytes());
    assert_eq!(host.next()["error"]["code"], -32700);
    host.write(b"[]\n");
    let batch = host.next();
    assert!(batch["error"]["message"].as_str().unwrap().contains("no batches"), "{batch}");
    host.write(b"{\"jsonrpc\":\"1.0\",\"id\":77,\"method\":\"ping\"}\n");
    let version = host.next();
    assert_eq!((&version["error"]["code"], &version["id"]), (&json!(-32600), &json!(77)), "{version}");
    host.write(b"\n\r\n   \n");
    let answer = host.call("nobody/knows", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    for (method, params) in [
        ("tools/call", json!({"arguments": {}})),
        ("tools/call", json!({"name": 7})),
        ("resources/read", json!({})),
        ("prompts/get", json!({"name": []})),
        ("logging/setLevel", json!({"level": "loud"})),
    ] {
        let answer = host.call(method, params);
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    // Answers to nothing, and a notification nobody knows.
    host.send(&json!({"jsonrpc": "2.0", "id": 4711, "result": {}}));
    host.send(&json!({"jsonrpc": "2.0", "id": 4711, "error": {"code": 1, "message": "x"}}));
    host.notify("$/nonsense", json!({"a": 1}));
    host.notify("notifications/cancelled", json!({"requestId": 999}));
    // Half a frame, then the rest of it.
    host.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"half\",");
    std::thread::sleep(Duration::from_millis(200));
    host.write(b"\"method\":\"ping\"}\n");
    assert_eq!(host.next(), json!({"jsonrpc": "2.0", "id": "half", "result": {}}));
    let again = host.call(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "again", "version": "1"}}),
    );
    assert_eq!(again["error"]["code"], -32600, "{again}");
    let _ = host.value("register_capability", reverse());
    let ran = host.close();
    assert_eq!(ran.err, "");
}

#[test]
fn what_comes_before_initialize_is_refused_and_initialize_still_works() {
    let home = Home::new();
    let mut host = Host::start(&home, &[]);
    assert_eq!(host.call("ping", json!({}))["result"], json!({}));
    let early = host.call("tools/call", json!({"name": "list_capabilities", "arguments": {"query": "x"}}));
    assert!(early["error"]["message"].as_str().unwrap().contains("initialize"), "{early}");
    host.notify("notifications/initialized", json!({}));
    host.notify("notifications/cancelled", json!({"requestId": 1}));
    host.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    host.write(b"garbage\n");
    assert_eq!(host.next()["error"]["code"], -32700);
    let _ = host.hello(json!({}));
    assert_eq!(host.value("list_capabilities", json!({"query": "x"}))["capabilities"], json!([]));
    let _ = host.close();
}

/// Resident, MiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn a_message_of_100_mb_is_refused_without_being_kept() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let before = memory(host.child.id());
    let chunk = vec![b'x'; 1 << 20];
    host.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"");
    for _ in 0..100 {
        host.write(&chunk);
    }
    assert!(host.next()["error"]["message"].as_str().unwrap().contains("bytes"));
    let during = memory(host.child.id());
    assert!(during < before + 32, "{before} MiB before, {during} MiB with 100 MB sent");
    host.write(b"\"}}\n");
    assert_eq!(host.call("ping", json!({}))["result"], json!({}));
    let _ = host.close();
}

#[test]
fn the_same_id_twice_and_too_many_at_once_are_refused() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let _ = host.value("register_capability", endless());
    let spin = json!({"name": "execute_capability", "arguments": run("spin", json!({"word": "forever"}))});
    let id = host.ask("tools/call", spin.clone());
    host.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    let twice = host.next();
    assert!(twice["error"]["message"].as_str().unwrap().contains("still being answered"), "{twice}");
    assert_eq!(twice.get("id"), None);
    let more: Vec<u64> = (0..70).map(|_| host.ask("tools/call", spin.clone())).collect();
    let busy: Vec<Value> = (0..7).map(|_| host.next()).collect();
    assert!(busy.iter().all(|answer| answer["error"]["code"] == -32000), "{busy:?}");
    for id in std::iter::once(id).chain(more) {
        host.notify("notifications/cancelled", json!({"requestId": id}));
    }
    assert_eq!(host.call("ping", json!({}))["result"], json!({}));
    let _ = host.close();
}

#[test]
fn a_host_that_reads_nothing_is_read_no_further_and_loses_nothing() {
    let home = Home::new();
    let mut child = home
        .command(&["mcp", "serve"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}});
    writeln!(input, "{hello}").unwrap();
    // Each answer is some kilobytes, so the pipe is soon full.
    const COUNT: u64 = 20_000;
    let writer = std::thread::spawn(move || {
        for id in 1..=COUNT {
            writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).unwrap();
        }
        input
    });
    std::thread::sleep(Duration::from_secs(3));
    assert!(!writer.is_finished(), "everything was read although nobody reads the answers");
    let most = memory(child.id());
    assert!(most < 128, "{most} MiB");
    // It reads again, and everything is there.
    let mut answered = 0;
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    for line in std::io::BufRead::lines(output).map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        assert!(message.get("error").is_none() || message["error"]["code"] == -32000, "{line}");
        answered += u64::from(message["id"].as_u64().is_some_and(|id| id > 0));
        if answered == COUNT {
            break;
        }
    }
    assert_eq!(answered, COUNT);
    drop(writer.join().unwrap());
    assert_eq!(ends_within(child, Duration::from_secs(20)).code, 0);
}

/// The other processes of this server's group: those of the sandbox.
fn workers(pid: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let name = entry.file_name().to_string_lossy().into_owned();
        if after.split_whitespace().nth(2) == Some(&pid.to_string()) && name != pid.to_string() {
            found.push(name);
        }
    }
    found
}

/// Still there, and not just waiting to be collected by its parent.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

#[test]
fn a_host_that_vanishes_in_mid_run_takes_its_work_with_it() {
    for by_signal in [false, true] {
        let home = Home::new();
        let mut host = Host::ready(&home, &[]);
        let _ = host.value("register_capability", endless());
        let _ = host.ask(
            "tools/call",
            json!({"name": "execute_capability", "arguments": run("spin", json!({"word": "forever"}))}),
        );
        std::thread::sleep(Duration::from_millis(700));
        let began = Instant::now();
        let workers = workers(host.child.id());
        assert!(!workers.is_empty());
        if by_signal {
            signal("TERM", host.child.id());
        } else {
            drop(host.input.take());
        }
        let _ = ends_within(host.child, Duration::from_secs(10));
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Some(left) = workers.iter().find(|pid| runs(pid)) {
            assert!(Instant::now() < deadline, "{left} is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
        let last = home.run(&["audit", "tail", "--json", "--kind", "outcome", "-n", "1"]).ok().events();
        let detail = &last[0]["detail"];
        assert!(detail["exit"] == "cancelled" || detail["error"].is_string(), "{last:?}");
    }
}

#[test]
fn requests_that_were_piped_in_are_answered_before_the_end() {
    let home = Home::new();
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let ran = home.run_with_input(&["mcp", "serve"], &input).ok();
    let mut ids: Vec<u64> = ran.events().iter().map(|m| m["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    // Nothing at all is no failure either.
    assert_eq!(home.run_with_input(&["mcp", "serve"], "").ok().out, "");
}
