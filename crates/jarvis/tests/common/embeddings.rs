//! An embeddings server that keeps what it was asked.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Answers `/v1/embeddings` with a vector by the texts' subject; keeps what it was asked.
pub struct Embeddings {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Embeddings {
    pub fn start() -> Embeddings {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut length = 0;
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                    if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
                        length = n.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let request: Value = serde_json::from_slice(&body).unwrap();
                let texts: Vec<String> = serde_json::from_value(request["input"].clone()).unwrap();
                let subject = |text: &str| match () {
                    () if text.contains("tonic") || text.contains("fizz") => json!([1.0, 0.1, 0.0]),
                    () if text.contains("ledger") => json!([0.0, 1.0, 0.0]),
                    () => json!([0.0, 0.1, 1.0]),
                };
                let data: Vec<Value> =
                    texts.iter().enumerate().map(|(i, t)| json!({"index": i, "embedding": subject(t)})).collect();
                kept.lock().unwrap().push(texts);
                let body = json!({"data": data}).to_string();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
                let _ = write!(stream, "{head}{}\r\n\r\n{body}", body.len());
            }
        });
        Embeddings { url, asked }
    }

    pub fn config(&self) -> String {
        format!("[embeddings]\nmodel = \"emb/e\"\n[providers.emb]\nbase_url = \"{}\"\nretries = 0\n", self.url)
    }
}
