//! A scripted host: it starts the server as a child, or has it in its hands, and speaks the protocol line by line.

use crate::common::Home;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Everything here comes sooner, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

type Person = Box<dyn FnMut(&Value) -> Value>;

pub struct Host {
    pub child: Child,
    pub input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What came that was no answer waited for.
    pub seen: Vec<Value>,
    next: u64,
    /// How the host's person answers a question; None: it cannot ask.
    answer: Option<Person>,
}

impl Host {
    pub fn start(home: &Home, flags: &[&str]) -> Host {
        let mut child = home
            .command(&[&["mcp", "serve"], flags].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its workers are found by the group.
            .process_group(0)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Host { input: child.stdin.take(), child, lines, seen: Vec::new(), next: 0, answer: None }
    }

    /// Started, and through its handshake.
    pub fn ready(home: &Home, flags: &[&str]) -> Host {
        let mut host = Host::start(home, flags);
        host.hello(json!({}));
        host
    }

    /// With a person who can be asked.
    pub fn with_person(home: &Home, flags: &[&str], answer: impl FnMut(&Value) -> Value + 'static) -> Host {
        let mut host = Host::start(home, flags);
        host.answer = Some(Box::new(answer));
        host.hello(json!({"elicitation": {}}));
        host
    }

    pub fn hello(&mut self, capabilities: Value) -> Value {
        let said = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "scripted", "version": "1"}});
        let answer = self.call("initialize", said);
        self.notify("notifications/initialized", json!({}));
        answer["result"].clone()
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).and_then(|()| input.flush()).unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    #[track_caller]
    pub fn next(&mut self) -> Value {
        self.within(SOON).unwrap_or_else(|| panic!("nothing came"))
    }

    /// Every line of the output is a message; anything else fails here.
    #[track_caller]
    pub fn within(&mut self, most: Duration) -> Option<Value> {
        let line = self.lines.recv_timeout(most).ok()?;
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    #[track_caller]
    pub fn answer_to(&mut self, id: u64) -> Value {
        let deadline = Instant::now() + SOON;
        loop {
            assert!(Instant::now() < deadline, "no answer to {id}");
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            if message["method"] == "elicitation/create" {
                let result =
                    self.answer.as_mut().unwrap_or_else(|| panic!("it asks a host that cannot"))(&message["params"]);
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            }
            self.seen.push(message);
        }
    }

    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer_to(id)
    }

    /// The result of a tool, which may be an error of the tool.
    #[track_caller]
    pub fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.call("tools/call", json!({"name": name, "arguments": arguments}));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// The value of a tool that must not fail.
    #[track_caller]
    pub fn value(&mut self, name: &str, arguments: Value) -> Value {
        let result = self.tool(name, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// What a tool that must fail says.
    #[track_caller]
    pub fn refusal(&mut self, name: &str, arguments: Value) -> String {
        let result = self.tool(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// A message without an id that matters: waits until one of this method has come.
    #[track_caller]
    pub fn hears(&mut self, method: &str) -> Value {
        if let Some(at) = self.seen.iter().position(|message| message["method"] == method) {
            return self.seen.remove(at);
        }
        let deadline = Instant::now() + SOON;
        loop {
            assert!(Instant::now() < deadline, "no {method}");
            let message = self.next();
            if message["method"] == method {
                return message;
            }
            self.seen.push(message);
        }
    }

    pub fn heard(&self, method: &str) -> Vec<&Value> {
        self.seen.iter().filter(|message| message["method"] == method).collect()
    }

    /// Closes its input and waits for the end, which must be a good one.
    #[track_caller]
    pub fn close(mut self) -> crate::common::Ran {
        drop(self.input.take());
        let ran = crate::common::ends_within(self.child, Duration::from_secs(20));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran
    }
}

/// How a host writes the definition of the capability used most here.
pub fn reverse() -> Value {
    json!({"definition": crate::common::reverse_text(), "code": crate::common::REVERSE})
}

pub fn run(name: &str, args: Value) -> Value {
    json!({"name": name, "args": args})
}

/// Runs for a long time where it is told to.
pub fn endless() -> Value {
    json!({"definition": {"name": "spin", "capability": "Counts the letters of a word, and for ever where that is the word.",
        "parameters": {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}},
        "examples": [{"args": {"word": "abc"}, "returns": 3}, {"args": {"word": "seven12"}, "returns": 7}]},
        "code": "export default function run({ word }: { word: string }) {\n  const end = Date.now() + 40000;\n  \
                 while (word === 'forever' && Date.now() < end) {}\n  return word.length;\n}\n"})
}
