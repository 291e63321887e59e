//! A server over HTTP, by the rules of the way out.

use super::{Desk, none};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A streamable HTTP server by hand; keeps the heads that it was sent. With `elsewhere` it redirects there.
struct Web {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn start(elsewhere: Option<String>) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, elsewhere) = (kept.clone(), elsewhere.clone());
                std::thread::spawn(move || answer(stream, &kept, elsewhere.as_deref()).ok());
            }
        });
        Web { url, heads }
    }

    fn config(&self, more: &str) -> String {
        format!("[mcp.servers.web]\nurl = \"{}\"\n{more}\n", self.url)
    }
}

/// One that lets nobody in, with this head of its answer.
fn refusing(head: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8192]);
            let _ = write!(stream, "HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    url
}

#[test]
fn an_address_that_lets_nobody_in_says_what_a_person_does_about_it() {
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata=\"https://a.example/meta\"";
    for (head, says) in [
        (challenge, &["without authorization", "a.example/meta", "jarvis secret set", "--header 'Authorization="][..]),
        ("401 Unauthorized", &["without authorization", "jarvis secret set"]),
        ("403 Forbidden\r\nWWW-Authenticate: Bearer scope=\"write\"", &["without authorization", "write"]),
        ("405 Method Not Allowed", &["old HTTP+SSE", "streamable HTTP endpoint"]),
        ("404 Not Found", &["old HTTP+SSE", "streamable HTTP endpoint"]),
    ] {
        let mut desk = Desk::bare();
        desk.config = format!("[mcp.servers.web]\nurl = \"{}\"\n", refusing(head));
        let notice = desk.calls(&[], &[]).of_kind("notice")[0]["message"].to_string();
        for part in says {
            assert!(notice.replace("\\\"", "\"").contains(part), "{head}: {part}: {notice}");
        }
        let _ = desk.home.run(&["mcp", "test", "web"]).failed(1, &says[..1]);
    }
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<String>>, elsewhere: Option<&str>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    kept.lock().unwrap().push(head.clone());
    if let Some(place) = elsewhere {
        return write!(
            stream,
            "HTTP/1.1 307 Elsewhere\r\nLocation: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}}]})
        }
        Some("tools/call") => {
            let key =
                head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:")).unwrap_or("none");
            json!({"content": [{"type": "text", "text": format!("seen 看到: {key}")}]})
        }
        _ if head.starts_with("POST") => {
            return write!(stream, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        _ => return write!(stream, "HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    };
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

#[test]
fn a_server_over_http_is_called_and_its_key_is_sent_and_never_told() {
    let web = Web::start(None);
    let mut desk = Desk::bare();
    desk.config = web.config("headers.Authorization = \"Bearer ${secret:WEB_KEY}\"");
    let host = web.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let _ = desk.home.run_with_input(&["secret", "set", "WEB_KEY", "--host", &host], "hunter2-hunter2").ok();
    let run = desk.calls(&[("web__look", none())], &[]);
    let (ok, text) = run.one();
    assert!(ok && text.starts_with("seen 看到:") && text.contains("[secret WEB_KEY]"), "{text}");
    assert!(web.heads.lock().unwrap().iter().all(|head| head.contains("Bearer hunter2-hunter2")));
    assert!(!format!("{:?}{:?}", run.events, run.requests).contains("hunter2"));
}

#[test]
fn a_redirect_to_another_server_is_not_followed() {
    let other = Web::start(None);
    let web = Web::start(Some(other.url.clone()));
    let mut desk = Desk::bare();
    desk.config = web.config("headers.X-Key = \"abcdefgh-key\"");
    let notice = desk.calls(&[], &[]).of_kind("notice")[0]["message"].to_string();
    assert!(notice.contains("redirect"), "{notice}");
    assert!(other.heads.lock().unwrap().is_empty(), "the key was sent to another server");
}

#[test]
fn a_closed_network_is_closed_for_servers_too() {
    let web = Web::start(None);
    let mut desk = Desk::bare();
    desk.config = format!("{}[sandbox]\nnetwork = \"closed\"\n", web.config(""));
    let notice = desk.calls(&[], &[]).of_kind("notice")[0]["message"].to_string();
    assert!(notice.contains("the network is closed by config"), "{notice}");
    assert!(web.heads.lock().unwrap().is_empty());
}
