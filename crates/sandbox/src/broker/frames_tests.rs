//! Every byte that a worker is sent, looked through for the value of a secret.

use super::*;
use crate::check::check;
use crate::converse::{Talk, converse};
use crate::frame::{Kind, pack, unpack};
use jarvis_protocol::{CapabilityName, Limits, Runtime, Subject};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

const VALUE: &str = "the/very secret+value";

fn plan(host: &str) -> ExecPlan {
    ExecPlan {
        subject: Subject::Candidate { name: CapabilityName::new("probe").unwrap(), digest: String::new() },
        runtime: Runtime::Typescript,
        code: "export default () => 1".to_owned(),
        args: json!({"a": 1}),
        grants: Grants { network: vec![host.to_owned()], secrets: vec!["TOKEN".to_owned()], ..Grants::default() },
        limits: Limits { timeout_ms: 5000, memory_mb: 16, output_bytes: 100_000 },
        fixed: None,
        dependencies: Vec::new(),
    }
}

/// A server that sends back what it was sent, as text, as base64 and in a header; the requests it has seen.
async fn echo() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    tokio::spawn(async move {
        use base64::Engine as _;
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(socket.read_u8().await.unwrap());
            }
            let coded = base64::engine::general_purpose::STANDARD.encode(&request);
            let text = String::from_utf8(request).unwrap();
            let line = text.lines().next().unwrap();
            let answer = format!("HTTP/1.1 200 {line}\r\nx-line: {line}\r\nset-cookie: t={VALUE}\r\n\r\n{text}{coded}");
            lock(&told).push(text.clone());
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    (host, seen)
}

/// The worker's side: asks, and keeps every byte of what it is told.
struct Worker {
    socket: DuplexStream,
    heard: Vec<u8>,
    last: u32,
}

impl Worker {
    async fn frame(&mut self) -> Vec<u8> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head).await.unwrap();
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize - 1;
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload).await.unwrap();
        self.heard.extend_from_slice(&payload);
        payload
    }

    async fn ask(&mut self, head: serde_json::Value, body: &[u8]) -> (serde_json::Value, Vec<u8>) {
        self.last += 1;
        let call = frame::encode(Kind::Call, &pack(self.last, &head.to_string(), body)).unwrap();
        self.socket.write_all(&call).await.unwrap();
        let packet = unpack(self.frame().await).unwrap();
        assert_eq!(packet.id, self.last);
        (serde_json::from_str(&packet.head).unwrap(), packet.body)
    }

    async fn fetch(&mut self, url: String, headers: serde_json::Value, body: &[u8]) -> serde_json::Value {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let asked = json!({"op": "fetch", "url": url, "method": method, "redirect": "follow", "headers": headers});
        let (head, body) = self.ask(asked, body).await;
        json!({"head": head, "body": String::from_utf8_lossy(&body)})
    }
}

#[tokio::test]
async fn no_frame_that_a_worker_is_sent_holds_the_value_of_a_secret() {
    let (host, seen) = echo().await;
    let hosts = vec![host.clone()];
    let secret =
        move |name: &str| Ok((name == "TOKEN").then(|| Secret { value: VALUE.to_owned(), hosts: hosts.clone() }));
    let broker = Broker::new(Access { secrets: Some(Arc::new(secret)), ..Access::default() });
    let plan = plan(&host);
    let desk = broker.desk(&plan).unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let place = host.clone();
    let worker = tokio::spawn(async move {
        let mut worker = Worker { socket: theirs, heard: Vec::new(), last: 0 };
        worker.frame().await; // the job
        let (told, _) = worker.ask(json!({"op": "secret", "name": "TOKEN"}), b"").await;
        let mark = told["value"].as_str().unwrap().to_owned();
        let echoed = worker
            .fetch(format!("http://{place}/?k={mark}"), json!([["authorization", format!("Bearer {mark}")]]), b"")
            .await;
        assert!(echoed["body"].as_str().unwrap().contains("Bearer [secret TOKEN]"), "{echoed}");
        // Refusals, and requests that only a liar makes.
        for (url, headers, body) in [
            (format!("http://{place}/{mark}"), json!([]), &b""[..]),
            ("http://other.example/".to_owned(), json!([["x", mark]]), b""),
            (format!("http://{place}/"), json!([]), mark.as_bytes()),
        ] {
            assert!(worker.fetch(url, headers, body).await["head"]["error"].is_object());
        }
        for head in
            [json!({"op": "secret", "name": "OTHER"}), json!({"op": "secrets"}), json!({"op": "secret"}), json!(7)]
        {
            assert!(worker.ask(head, b"").await.0["error"].is_object());
        }
        let done = json!({"exit": "ok", "fault": null, "cpu_us": 1, "peak_memory_kb": 1}).to_string();
        let last = [
            frame::encode(Kind::Result, json!({mark.as_str(): VALUE}).to_string().as_bytes()).unwrap(),
            frame::encode(Kind::Done, done.as_bytes()).unwrap(),
        ];
        worker.socket.write_all(&last.concat()).await.unwrap();
        worker.heard
    });
    let checked = check(&plan.code, plan.runtime).unwrap();
    let mut talk = Talk::default();
    converse(ours, &mut talk, &plan, &checked, &desk, &CancellationToken::new()).await;
    let heard = worker.await.unwrap();
    let text = String::from_utf8_lossy(&heard).into_owned();
    assert!(text.contains("JARVIS_SECRET_") && text.contains("[secret TOKEN]") && text.len() > 1000, "{text}");
    for form in [VALUE, "the%2Fvery", "the/very", "dGhlL3Zlcnkgc2VjcmV0K3ZhbHVl", "secret+value", "secret%2Bvalue"] {
        assert!(!text.contains(form), "{form}: {text}");
    }
    let seen = lock(&seen).clone();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].contains("/?k=the%2Fvery%20secret%2Bvalue") && seen[0].contains(&format!("Bearer {VALUE}")));
    // And what the worker says goes out without it, whatever it knows.
    let mut result = talk.result.unwrap();
    desk.redact_value(&mut result);
    assert_eq!(result, json!({"[secret TOKEN]": "[secret TOKEN]"}));
}

#[tokio::test]
async fn one_run_moves_no_more_than_it_may() {
    let (host, seen) = echo().await;
    let broker = Broker::new(Access::default());
    let plan = plan(&host);
    let head =
        json!({"op": "fetch", "url": format!("http://{host}/"), "method": "GET", "redirect": "follow", "headers": []});
    let packet = || Packet { id: 1, head: head.to_string(), body: Vec::new() };
    for (requests, bytes) in [(2000, 0), (0, 512 << 20)] {
        let desk = broker.desk(&plan).unwrap();
        let tally = desk.tally.host(&host);
        (0..requests).for_each(|_| tally.requested());
        tally.received(bytes);
        let answer = String::from_utf8(desk.answer(packet()).await[8..].to_vec()).unwrap();
        assert!(answer.contains("RangeError") && answer.contains("in total"), "{answer}");
    }
    assert!(lock(&seen).is_empty());
}
