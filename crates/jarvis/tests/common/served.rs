//! `jarvis serve` as a child, and a small client for it that can also do what no proper client does.

use super::{Home, Ran, ends_within, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

pub struct Served {
    child: Option<Child>,
    pub address: SocketAddr,
    token: Option<String>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// It has this status, and returns its JSON.
    #[track_caller]
    pub fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// An error in the one shape, which says these words.
    #[track_caller]
    pub fn refused(&self, status: u16, says: &str) -> Value {
        let error = self.is(status)["error"].clone();
        let whole = format!("{} {}", error["message"].as_str().unwrap(), error["hint"].as_str().unwrap_or_default());
        assert!(error["kind"].is_string() && whole.contains(says), "{error}");
        error
    }
}

impl Served {
    /// On a free port of loopback.
    pub fn start(home: &Home, args: &[&str]) -> Served {
        let args = [&["serve", "--json", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = home.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Ok(told) = serde_json::from_str::<Value>(&line) else {
            let ran = Ran::of(child.wait_with_output().unwrap());
            panic!("it does not serve: {line}{}", ran.err);
        };
        let address = told["listening"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        Served { child: Some(child), address, token: None }
    }

    pub fn with_token(mut self, token: &str) -> Served {
        self.token = Some(token.to_owned());
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], Some(&body.to_string()))
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
        let stream = self.begin(method, path, headers, body);
        read(&mut BufReader::new(stream))
    }

    fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> TcpStream {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let named = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !named("host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if let Some(token) = self.token.as_ref().filter(|_| !named("authorization")) {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            if !named("content-type") {
                head.push_str("Content-Type: application/json\r\n");
            }
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let mut stream = self.connect();
        let whole = format!("{head}\r\n{}", body.unwrap_or_default());
        // What is refused may be refused before all of it is sent.
        let _ = stream.write_all(whole.as_bytes());
        stream
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// A session's events.
    pub fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut reader = BufReader::new(self.begin("GET", path, headers, None));
        let (status, heads) = head(&mut reader).unwrap();
        assert_eq!(status, 200, "{heads:?}");
        Events { lines: BufReader::new(Chunks { reader, left: 0 }) }
    }

    /// A new session's id.
    pub fn session(&self, body: &Value) -> String {
        self.post("/v1/sessions", body).is(201)["id"].as_str().unwrap().to_owned()
    }

    pub fn stop(mut self) -> Ran {
        let child = self.child.take().unwrap();
        signal("TERM", child.id());
        ends_within(child, Duration::from_secs(30))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn head(reader: &mut impl BufRead) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok((status, headers));
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
}

/// An answer whose connection ends with it; status 0 where there is none.
pub fn read(reader: &mut impl BufRead) -> Answer {
    let (status, headers) = head(reader).unwrap_or_default();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let mut bytes = Vec::new();
    // A connection that is cut has said what it had to say.
    let _ = if chunked { Chunks { reader, left: 0 }.read_to_end(&mut bytes) } else { reader.read_to_end(&mut bytes) };
    Answer { status, headers, text: String::from_utf8(bytes).unwrap() }
}

struct Chunks<R> {
    reader: R,
    left: usize,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut size = String::new();
            self.reader.read_line(&mut size)?;
            if size.trim().is_empty() {
                size.clear();
                self.reader.read_line(&mut size)?;
            }
            self.left = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            if self.left == 0 {
                return Ok(0);
            }
        }
        let most = into.len().min(self.left);
        let count = self.reader.read(&mut into[..most])?;
        self.left -= count;
        Ok(count)
    }
}

pub struct Events {
    lines: BufReader<Chunks<BufReader<TcpStream>>>,
}

#[derive(Debug, Clone)]
pub struct Sent {
    pub id: String,
    pub name: String,
    pub data: Value,
}

impl Events {
    /// The next event; none at the end of the stream.
    pub fn next(&mut self) -> Option<Sent> {
        let mut sent = Sent { id: String::new(), name: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut sent.id),
                Some(("event", name)) => name.clone_into(&mut sent.name),
                Some(("data", data)) => sent.data = serde_json::from_str(data).unwrap(),
                _ if line.trim_end().is_empty() && !sent.name.is_empty() => return Some(sent),
                // A sign of life.
                _ => {}
            }
        }
    }

    /// All up to the first of this name.
    #[track_caller]
    pub fn until(&mut self, name: &str) -> Vec<Sent> {
        let mut all = Vec::new();
        loop {
            let sent = self.next().unwrap_or_else(|| panic!("no {name} came, but {all:?}"));
            all.push(sent);
            if all.last().is_some_and(|sent| sent.name == name) {
                return all;
            }
        }
    }
}
