//! A chat completions server that answers from a script and keeps what it was asked.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub enum Reply {
    Text(&'static str),
    Call(&'static str, Value),
    /// Several in one reply: id, name, arguments.
    Calls(Vec<(&'static str, &'static str, Value)>),
    /// After a pause.
    Later(Duration, Box<Reply>),
    /// A status with a body.
    Status(&'static str, &'static str),
    /// A stream as it is given here, to the byte.
    Raw(String),
    /// The beginning of a stream, then the connection is closed.
    Dies,
    /// Headers, then nothing.
    Hangs,
    /// 200 and a page.
    Garbage,
}

pub struct Provider {
    pub url: String,
    pub requests: Arc<Mutex<Vec<Value>>>,
}

/// What answers a request; none: the script is over.
type Script = dyn FnMut(&Value) -> Option<Reply> + Send;

/// What a capable model says to grow `multiply_numbers` and answer with it.
pub fn grows() -> Vec<Reply> {
    let definition = json!({
        "name": "multiply_numbers", "capability": "Multiplies two whole numbers.",
        "triggers": ["a product of two numbers is asked for"],
        "parameters": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        "returns": {"type": "integer"},
        "examples": [{"args": {"a": 6, "b": 7}, "returns": 42}, {"args": {"a": 3, "b": 5}, "returns": 15}],
    });
    let code = "export default function run({ a, b }: { a: number; b: number }) {\n  return a * b;\n}\n";
    vec![
        Reply::Call("list_capabilities", json!({"query": "multiply two numbers"})),
        Reply::Call("register_capability", json!({"definition": definition, "code": code})),
        Reply::Call("execute_capability", json!({"name": "multiply_numbers", "args": {"a": 6, "b": 7}})),
        Reply::Text("6 times 7 is 42."),
    ]
}

impl Provider {
    /// Requests beyond the script get status 500.
    pub fn start(script: Vec<Reply>) -> Provider {
        let mut script = VecDeque::from(script);
        Self::answering(move |_| script.pop_front())
    }

    /// Several conversations at once, each with a script of its own: the one whose mark stands in the first message of a
    /// person. In a script, requests are answered in order.
    pub fn by_mark(scripts: Vec<(&'static str, Vec<Reply>)>) -> Provider {
        let mut scripts: Vec<_> = scripts.into_iter().map(|(mark, script)| (mark, VecDeque::from(script))).collect();
        Self::answering(move |request| {
            let messages = request["messages"].as_array()?;
            let first = messages.iter().find(|m| m["role"] == "user")?["content"].as_str()?;
            // What is told of the time holds words of its own.
            let first: Vec<&str> = first.lines().filter(|line| !line.contains("It is now ")).collect();
            let first = first.join("\n");
            scripts.iter_mut().find(|(mark, _)| first.contains(mark))?.1.pop_front()
        })
    }

    /// Answers each request by what it asks.
    pub fn answering(script: impl FnMut(&Value) -> Option<Reply> + Send + 'static) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, script) = (kept.clone(), script.clone());
                // A client that goes away in the middle is part of the tests.
                std::thread::spawn(move || answer(stream, &kept, &script).ok());
            }
        });
        Provider { url, requests }
    }

    /// Waits until it has been asked `n` times.
    #[track_caller]
    pub fn was_asked(&self, n: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.requests.lock().unwrap().len() < n {
            assert!(Instant::now() < deadline, "it was not asked {n} times");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `[providers.fake]` with this server, one attempt, and a short patience.
    pub fn config(&self) -> String {
        self.patient_config(1)
    }

    /// The same with another patience, in seconds. No titles: a script has no reply for them.
    pub fn patient_config(&self, idle: u32) -> String {
        format!(
            "model = \"fake/m\"\ntitles = false\n[providers.fake]\nbase_url = \"{}\"\nretries = 0\nidle_timeout_s = {idle}\n",
            self.url
        )
    }
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<Value>>, script: &Mutex<Script>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    kept.lock().unwrap().push(request.clone());
    let reply =
        (script.lock().unwrap())(&request).unwrap_or(Reply::Status("500 Internal Server Error", "script is over"));
    let reply = match reply {
        Reply::Later(pause, reply) => {
            std::thread::sleep(pause);
            *reply
        }
        reply => reply,
    };
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    match reply {
        Reply::Text(text) => {
            write!(stream, "{events}")?;
            let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            for part in [&text[..middle], &text[middle..]] {
                event(&mut stream, &json!({"choices": [{"index": 0, "delta": {"content": part}}]}))?;
            }
            end(&mut stream, "stop")
        }
        Reply::Call(name, args) => {
            write!(stream, "{events}")?;
            let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": args.to_string()}});
            event(&mut stream, &json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))?;
            end(&mut stream, "tool_calls")
        }
        Reply::Calls(calls) => {
            write!(stream, "{events}")?;
            let calls: Vec<Value> = (calls.iter().enumerate())
                .map(|(index, (id, name, args))| {
                    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": args.to_string()}})
                })
                .collect();
            event(&mut stream, &json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}))?;
            end(&mut stream, "tool_calls")
        }
        Reply::Raw(stream_text) => write!(stream, "{events}{stream_text}"),
        // Only one pause is made.
        Reply::Later(..) => Ok(()),
        Reply::Status(status, body) => {
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        }
        Reply::Dies => {
            write!(stream, "{events}")?;
            event(&mut stream, &json!({"choices": [{"index": 0, "delta": {"content": "The answer is"}}]}))
        }
        Reply::Hangs => {
            write!(stream, "{events}")?;
            stream.flush()?;
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        Reply::Garbage => {
            let page = "<html><body>Welcome to the hotel's network</body></html>";
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            )
        }
    }
}

fn event(stream: &mut TcpStream, value: &Value) -> std::io::Result<()> {
    write!(stream, "data: {value}\n\n")
}

fn end(stream: &mut TcpStream, reason: &str) -> std::io::Result<()> {
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
    event(stream, &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}))?;
    write!(stream, "data: [DONE]\n\n")
}
