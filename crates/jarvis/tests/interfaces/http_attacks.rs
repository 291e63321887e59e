//! `jarvis serve` attacked: by pages of other sites, without a token, with broken and endless requests, by peers that go
//! away or stop reading. Others do not notice, and nothing is left behind.

use crate::common::provider::{Provider, Reply};
use crate::common::served::{Answer, Served, read};
use crate::common::{Home, signal};
use serde_json::{Value, json};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn headers_are_there(answer: &Answer) {
    let wanted = [
        ("content-security-policy", "default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ];
    for (name, value) in wanted {
        assert!(answer.header(name).contains(value), "{name}: {answer:?}");
    }
    // Nothing lets a page of another site read an answer.
    assert_eq!(answer.header("access-control-allow-origin"), "");
}

#[test]
fn pages_of_other_sites_and_other_names_are_refused() {
    let served = Served::start(&Home::new(), &[]);
    let port = served.address.port();
    let own = format!("http://127.0.0.1:{port}");
    let asked = |headers: &[(&str, &str)]| served.send("GET", "/v1/sessions", headers, None);
    asked(&[]).is(200);
    asked(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]).is(200);
    asked(&[("Host", &format!("localhost:{port}"))]).is(200);
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1", "file://"] {
        let answer = asked(&[("Origin", origin)]);
        answer.refused(403, "another site");
        headers_are_there(&answer);
    }
    asked(&[("Sec-Fetch-Site", "cross-site")]).refused(403, "another site");
    asked(&[("Host", "evil.example")]).refused(421, "serve.hosts");
    asked(&[("Host", "127.0.0.1.evil.example")]).refused(421, "serve.hosts");
    // A form of another site, which a browser sends without asking.
    let form = [("Content-Type", "text/plain"), ("Origin", "http://evil.example")];
    served.send("POST", "/v1/sessions", &form, Some("{}")).refused(403, "another site");
    served.send("POST", "/v1/sessions", &[("Content-Type", "text/plain")], Some("{}")).refused(415, "application/json");
    let preflight = served.send("OPTIONS", "/v1/sessions", &[("Origin", "http://evil.example")], None);
    assert_eq!(preflight.status, 403);
    assert_eq!(served.get("/v1/sessions").is(200)["unkept"], json!([]));

    let home = Home::new().config("[serve]\nhosts = [\"jarvis.lan\"]\n");
    let named = Served::start(&home, &[]);
    named.send("GET", "/v1/sessions", &[("Host", "jarvis.lan")], None).is(200);
}

#[test]
fn without_the_token_nothing_is_told() {
    let home = Home::new().var("TOKEN", "a-token-of-some-length");
    let served = Served::start(&home, &["--token-env", "TOKEN"]);
    let health = served.get("/healthz");
    assert_eq!(health.is(200)["status"], "ok");
    headers_are_there(&health);
    for path in ["/v1/sessions", "/metrics", "/openapi.json", "/v1/models", "/v1/audit", "/nowhere"] {
        let answer = served.get(path);
        answer.refused(401, "Bearer");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        headers_are_there(&answer);
    }
    for wrong in
        ["Bearer a-token-of-some-lengt", "Bearer a-token-of-some-length1", "Basic a-token-of-some-length", "Bearer"]
    {
        served.send("GET", "/v1/sessions", &[("Authorization", wrong)], None).refused(401, "Bearer");
    }
    served.send("GET", "/v1/sessions?access_token=a-token-of-some-length", &[], None).refused(401, "Bearer");
    served.with_token("a-token-of-some-length").get("/v1/sessions").is(200);
}

#[test]
fn tricks_with_paths_lead_nowhere_and_every_error_has_one_shape() {
    let home = Home::new();
    home.write("secret.txt", "not to be told");
    let served = Served::start(&home, &[]);
    for path in [
        "/v1/sessions/../../secret.txt",
        "/v1/sessions/..%2f..%2fsecret.txt",
        "/v1/sessions/%2e%2e/history",
        "/v1/sessions/%00",
        "/v1/sessions/%ff%fe",
        "/v1/sessions/a%2Fb/export",
        "/v1/capabilities/..%2F..%2Findex.json",
        "/v1/capabilities/%E6%97%A9",
        "//v1/sessions",
        "/v1/sessions/",
        "/V1/sessions",
        "/../secret.txt",
    ] {
        let answer = served.get(path);
        answer.refused(404, "");
        headers_are_there(&answer);
        assert!(!answer.text.contains("not to be told"));
    }
    let wrong = served.send("PUT", "/v1/sessions", &[], Some("{}"));
    wrong.refused(405, "Allow");
    assert!(wrong.header("allow").contains("POST"), "{wrong:?}");
    for body in ["", "{", "[]", "{\"workspace\": 7}", "{\"unknown\": 1}", "\u{0}", "null"] {
        served.send("POST", "/v1/sessions", &[], Some(body)).refused(400, "openapi");
    }
    served.post("/v1/sessions", &json!({"workspace": "/nowhere/at/all"})).refused(400, "/nowhere/at/all");
    served.post("/v1/sessions", &json!({"workspace": "../.."})).refused(400, "absolute");
    served.post("/v1/sessions", &json!({"resume": "20200101-nope"})).refused(404, "nope");
    served.get("/v1/sessions?limit=0").refused(400, "limit");
    served.get("/v1/sessions?limit=x").refused(400, "query");
    let deep = format!("{{\"args\": {}{}}}", "{\"a\":".repeat(5000), "}".repeat(5000));
    served.send("POST", "/v1/capabilities/x_y/run", &[], Some(&deep)).refused(400, "");
}

#[test]
fn bodies_without_end_and_broken_requests_cost_nobody_else_anything() {
    let served = Served::start(&Home::new(), &[]);
    // Said to be too large: refused before it comes.
    let mut stream = served.connect();
    let head = format!("POST /v1/sessions HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", served.address);
    stream.write_all(format!("{head}Content-Length: 100000000\r\n\r\n{{").as_bytes()).unwrap();
    read(&mut BufReader::new(stream)).refused(413, "MiB");
    // And one that does not say how large it is.
    let mut stream = served.connect();
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 1 << 20], b"\r\n"].concat();
    let sent = (0..100).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!((60..100).contains(&sent), "{sent} MiB were taken");
    // A head without end, fields without end, no HTTP at all, two lengths.
    let broken = [
        format!("GET /{} HTTP/1.1\r\n", "a".repeat(200_000)),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "x: y\r\n".repeat(500)),
        "\u{16}\u{3}\u{1}\u{2}garbage\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".to_owned(),
        format!("{head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"),
        format!("{head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
    ];
    for request in broken {
        let mut stream = served.connect();
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = read(&mut BufReader::new(stream));
        assert!(answer.status == 0 || (400..500).contains(&answer.status), "{answer:?} to {request:.60}");
        served.get("/healthz").is(200);
    }
}

#[test]
fn slow_peers_are_let_go_and_do_not_take_the_place_of_others() {
    let home = Home::new().config("[serve]\nmax_connections = 8\n");
    let served = Served::start(&home, &[]);
    let mut slow: Vec<_> = (0..8).map(|_| served.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").unwrap();
    }
    let began = Instant::now();
    // All places are taken; it waits for one, and gets it when the slow ones are given up.
    served.get("/healthz").is(200);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(40), "{took:?}");
    for stream in &mut slow {
        let mut rest = Vec::new();
        // Ended by the other side, with or without a word.
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    }
}

#[test]
fn too_many_requests_are_told_to_wait() {
    let served = Served::start(&Home::new().config("[serve]\nrate = 2\n"), &[]);
    let statuses: Vec<u16> = (0..30).map(|_| served.get("/healthz").status).collect();
    assert!(statuses[..8].iter().all(|status| *status == 200), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    std::thread::sleep(Duration::from_millis(1200));
    served.get("/healthz").is(200);
}

fn kib(pid: u32, of: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(of)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_peer_that_stops_reading_holds_up_nobody_and_costs_little() {
    let long: &'static str = Box::leak("很长的回答 ".repeat(40_000).into_boxed_str());
    let provider = Provider::answering(move |_| Some(Reply::Text(long)));
    let home = Home::new().config(&provider.patient_config(60));
    let served = Served::start(&home, &[]);
    let session = served.session(&json!({"keep": false}));
    let path = format!("/v1/sessions/{session}");
    let _stopped: Vec<_> = (0..20).map(|_| served.follow(&format!("{path}/events"), &[])).collect();
    let mut before = 0;
    for turn in 0..12 {
        served.post(&format!("{path}/messages?wait=true"), &json!({"text": "again"})).is(200);
        if turn == 3 {
            before = kib(served.pid(), "VmRSS:");
        }
    }
    // Eight more turns of some 700 KB: the history has them, the twenty that do not read have not.
    let grown = kib(served.pid(), "VmRSS:").saturating_sub(before);
    assert!(grown < 120 << 10, "{grown} KiB");
    // Whoever comes now is told that the beginning is gone.
    assert_eq!(served.follow(&format!("{path}/events"), &[]).next().unwrap().name, "missed");
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn children(pid: u32) -> usize {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap().split_whitespace().count()
}

/// Waits until `is` holds.
#[track_caller]
fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_thousand_clients_that_come_and_go_leave_nothing_behind() {
    let provider = Provider::answering(|_| Some(Reply::Later(Duration::from_secs(20), Box::new(Reply::Text("late")))));
    let home = Home::new().config(&format!("{}[serve]\nrate = 100000\n", provider.patient_config(60)));
    let served = Served::start(&home, &[]);
    let kept = served.session(&json!({}));
    served.get("/v1/sessions").is(200);
    let (files, processes) = (descriptors(served.pid()), children(served.pid()));
    for round in 0..1000 {
        match round % 4 {
            // Gone without a word, in the middle of a head, out of a stream, out of an answer that was not there yet.
            0 => drop(served.connect()),
            1 => served.connect().write_all(b"GET /v1/ses").unwrap(),
            2 => drop(served.follow(&format!("/v1/sessions/{kept}/events"), &[])),
            _ => {
                let body = json!({"model": "jarvis", "messages": [{"role": "user", "content": "hello"}], "stream": round % 8 == 3}).to_string();
                let head = format!(
                    "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                served.connect().write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        }
    }
    let unkept = || served.get("/v1/sessions").is(200)["unkept"].as_array().unwrap().len();
    soon("sessions are left", || unkept() == 1);
    soon("descriptors are left", || descriptors(served.pid()) <= files + 4);
    assert!(children(served.pid()) <= processes + 3, "processes are left");
    // The worker that waits for the next call is not what is counted.
    assert_eq!(served.post(&format!("/v1/sessions/{kept}/close"), &json!({})).is(200)["closed"], true);
    assert_eq!(served.stop().code, 0);
}

#[test]
fn hundreds_who_come_in_one_moment_are_all_heard() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if most.trim().parse::<u32>().unwrap() < 512 {
        jarvis_testkit::skipped("connections that wait: the system lets no 512 of them wait");
        return;
    }
    let served = Served::start(&Home::new(), &[]);
    // Whatever it does just then: it takes nobody, and they wait. One that is turned away tries again only after a second.
    signal("STOP", served.pid());
    let all: Vec<_> =
        (0..400).map(|_| TcpStream::connect_timeout(&served.address, Duration::from_millis(500))).collect();
    signal("CONT", served.pid());
    let refused = all.iter().filter(|connected| connected.is_err()).count();
    assert_eq!(refused, 0, "of 400 connections");
    served.get("/v1/sessions").is(200);
}

#[test]
fn two_hundred_sessions_at_once_lose_nothing() {
    // Every session calls the capability with its own number and answers with what came back.
    let provider = Provider::answering(|request| {
        let messages = request["messages"].as_array()?;
        let last = messages.last()?;
        if last["role"] == "tool" {
            return Some(Reply::Text("Done."));
        }
        let said = last["content"].as_str()?.lines().last()?.to_owned();
        Some(Reply::Call("execute_capability", json!({"name": "reverse_text", "args": {"text": said}})))
    });
    let home = crate::common::prepared(&crate::common::reverse_text(), crate::common::REVERSE);
    let _ = crate::common::register(&home, &[]).ok();
    let home = home.config(&format!("{}[serve]\nrate = 100000\n", provider.patient_config(120)));
    let served = Served::start(&home, &[]);
    let sessions: Vec<String> = (0..200).map(|_| served.session(&json!({"keep": false}))).collect();
    let mut streams: Vec<_> =
        sessions.iter().map(|id| served.follow(&format!("/v1/sessions/{id}/events"), &[])).collect();
    for (number, id) in sessions.iter().enumerate() {
        served.post(&format!("/v1/sessions/{id}/messages"), &json!({"text": format!("号{number}")})).is(202);
    }
    for (number, events) in streams.iter_mut().enumerate() {
        let all = events.until("turn.completed");
        let result =
            all.iter().find(|sent| sent.name == "tool.completed").map(|sent| sent.data["content"]["result"].clone());
        let turned: String = format!("号{number}").chars().rev().collect();
        assert_eq!(result, Some(Value::from(turned)));
        let numbers: Vec<u64> = all.iter().map(|sent| sent.id.rsplit('-').next().unwrap().parse().unwrap()).collect();
        assert!(numbers.iter().zip(1..).all(|(number, wanted)| *number == wanted), "{numbers:?}");
    }
    assert!(served.get("/metrics").text.contains("jarvis_turns_total{what=\"end_turn\"} 200"));
}

#[test]
fn runs_without_a_session_share_workers_that_wait_for_the_next_one() {
    let home = crate::common::prepared(&crate::common::reverse_text(), crate::common::REVERSE);
    let _ = crate::common::register(&home, &[]).ok();
    let served = Served::start(&home, &[]);
    served.get("/v1/sessions").is(200);
    let before = descriptors(served.pid());
    let run = || {
        let ran = served.post("/v1/capabilities/reverse_text/run", &json!({"args": {"text": "计算"}})).is(200);
        assert_eq!(ran["result"], "算计");
        // Long enough for what belongs to one run alone to be gone.
        std::thread::sleep(Duration::from_millis(500));
        descriptors(served.pid())
    };
    let first = run();
    assert!(first > before, "no worker waits: {before} descriptors, then {first}");
    for _ in 0..5 {
        let now = run();
        assert!(now <= first + 1, "each run leaves something: {first} descriptors, then {now}");
    }
}

#[test]
fn an_idle_server_is_small() {
    let home = Home::new().config("model = \"fake/m\"\n[providers.fake]\nbase_url = \"http://127.0.0.1:9/v1\"\n");
    let served = Served::start(&home, &[]);
    served.get("/v1/sessions").is(200);
    std::thread::sleep(Duration::from_millis(500));
    let (whole, own) = (kib(served.pid(), "VmRSS:"), kib(served.pid(), "RssAnon:"));
    println!("idle: {} KiB resident, {} KiB of them its own", whole, own);
    assert!(own < 45 << 10, "{own} KiB");
}
