//! What `jarvis bench serve` measures with: a model that answers as it is told, a client, and the server as the system
//! sees it.

use super::bench_mcp;
use crate::config;
use crate::error::{Outcome, disk, failed};
use crate::home::Home;
use crate::run;
use jarvis_protocol::ErrorKind;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// In front of the number of a question, by which its replies are known.
const MARK: &str = "number ";
/// The kernel's unit of processor time, on every machine that Linux runs on.
const TICK: Duration = Duration::from_millis(10);

fn broken(what: &str) -> impl Fn(std::io::Error) -> crate::error::Failure {
    move |error| failed(ErrorKind::Network, format!("{what}: {error}"))
}

/// Speaks as OpenAI does: a call for a question, an answer for a result.
pub struct Model {
    address: SocketAddr,
    /// Milliseconds of a reply.
    takes: AtomicU64,
    /// What its replies took, by the number of the question.
    spent: Mutex<HashMap<u64, Duration>>,
}

impl Model {
    pub async fn start() -> Outcome<Arc<Model>> {
        let listener =
            crate::listen::listen(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(broken("no port for the model"))?;
        let address = listener.local_addr().map_err(broken("no port for the model"))?;
        let model = Arc::new(Model { address, takes: AtomicU64::new(0), spent: Mutex::default() });
        let serving = Arc::clone(&model);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let model = Arc::clone(&serving);
                // One that is cut off is a turn that is lost.
                tokio::spawn(async move { drop(model.serve(stream).await) });
            }
        });
        Ok(model)
    }

    pub fn takes(&self, time: Duration) {
        self.takes.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn spent(&self) -> MutexGuard<'_, HashMap<u64, Duration>> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        loop {
            let Some(length) = head(&mut stream).await? else { return Ok(()) };
            let began = Instant::now();
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            let number = number(&request);
            let text = reply(&request, number);
            let takes = Duration::from_millis(self.takes.load(Ordering::Relaxed));
            if !takes.is_zero() {
                tokio::time::sleep(takes.saturating_sub(began.elapsed())).await;
            }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ";
            // Counted before the other side can have it.
            *self.spent().entry(number).or_default() += began.elapsed();
            stream.get_mut().write_all(format!("{head}{}\r\n\r\n{text}", text.len()).as_bytes()).await?;
        }
    }
}

/// The length of the body that follows; `None` at the end.
async fn head(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<usize>> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                return Ok(Some(length));
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
}

/// Of the last question.
fn number(request: &Value) -> u64 {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = messages.iter().rev().filter(|message| message["role"] == "user");
    let mut marks = said.filter_map(|message| {
        let text = message["content"].as_str()?;
        let digits = &text[text.rfind(MARK)? + MARK.len()..];
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    marks.next().unwrap_or(0)
}

fn reply(request: &Value, number: u64) -> String {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (delta, reason) = if messages.last().is_some_and(|message| message["role"] == "tool") {
        (json!({"content": "Done."}), "stop")
    } else {
        let args = json!({"name": bench_mcp::NAME, "args": {"n": number}}).to_string();
        let function = json!({"name": "execute_capability", "arguments": args});
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
        (json!({"tool_calls": [call]}), "tool_calls")
    };
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
    let said = json!({"choices": [{"index": 0, "delta": delta}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage});
    format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

/// `jarvis serve` in a home of its own, killed when this is dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    _home: tempfile::TempDir,
}

impl Server {
    pub async fn start(model: &Model) -> Outcome<Server> {
        let folder = tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no temporary folder: {e}")))?;
        let home = Home::at(folder.path());
        let settings = format!(
            "model = \"bench/scripted\"\ntitles = false\n[providers.bench]\nbase_url = \"http://{}/v1\"\n\
             idle_timeout_s = 120\n[serve]\nrate = 100000\n",
            model.address
        );
        std::fs::write(home.config(), settings).map_err(|e| disk(&home.config(), &e))?;
        let forge = run::forge(&config::load(&home)?, &Default::default(), &home)?;
        bench_mcp::register(&forge, &CancellationToken::new()).await?;
        drop(forge);
        let child = spawn(&home)?;
        let mut server = Server { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), _home: folder };
        server.address = server.told()?;
        Ok(server)
    }

    /// Where it says that it listens.
    fn told(&mut self) -> Outcome<SocketAddr> {
        let none = || failed(ErrorKind::Internal, "the server does not say where it listens");
        let mut line = String::new();
        let output = self.child.stdout.take().ok_or_else(none)?;
        std::io::BufReader::new(output).read_line(&mut line).map_err(broken("the server"))?;
        let told: Value = serde_json::from_str(&line).map_err(|_| none())?;
        let address = told["listening"].as_str().and_then(|url| url.strip_prefix("http://"));
        address.and_then(|address| address.parse().ok()).ok_or_else(none)
    }

    pub fn client(&self) -> Client {
        Client { address: self.address }
    }

    fn file(&self, name: &str) -> Outcome<String> {
        let path = PathBuf::from(format!("/proc/{}/{name}", self.child.id()));
        std::fs::read_to_string(&path).map_err(|e| disk(&path, &e))
    }

    /// MiB that are in memory, and of those the pages of no file.
    pub fn memory(&self) -> Outcome<(f64, f64)> {
        let status = self.file("status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim_start_matches(':').trim().split(' ').next()?.parse::<f64>().ok());
            kib.unwrap_or(0.0) / 1024.0
        };
        Ok((field("VmRSS"), field("RssAnon")))
    }

    pub fn descriptors(&self) -> Outcome<usize> {
        let path = PathBuf::from(format!("/proc/{}/fd", self.child.id()));
        Ok(std::fs::read_dir(&path).map_err(|e| disk(&path, &e))?.count())
    }

    pub fn processes(&self) -> Outcome<usize> {
        Ok(self.group()?.len())
    }

    /// Of it and its workers, also of those that are gone.
    pub fn cpu(&self) -> Outcome<Duration> {
        let ticks: u64 = self.group()?.iter().sum();
        Ok(TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
    }

    /// The processor time of each process of its group, in ticks, with that of children that ended.
    fn group(&self) -> Outcome<Vec<u64>> {
        let folder = PathBuf::from("/proc");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(|e| disk(&folder, &e))?.flatten() {
            // Others end while they are looked at.
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            // Behind the name, which may hold anything: state, parent, group, …; 11 to 14 are times.
            let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
            let fields: Vec<&str> = rest.split(' ').collect();
            if fields.get(2).and_then(|group| group.parse().ok()) == Some(self.child.id()) {
                let times = fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok());
                found.push(times.sum());
            }
        }
        Ok(found)
    }
}

// This same program, as a person would start it; in a group of its own, by which its workers are found.
#[allow(clippy::disallowed_methods)]
fn spawn(home: &Home) -> Outcome<Child> {
    let program = std::env::current_exe().map_err(|e| failed(ErrorKind::Internal, e.to_string()))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    Command::new(program)
        .args(["serve", "--json", "--listen", "127.0.0.1:0"])
        .env_clear()
        .envs([("PATH", path.as_os_str()), ("HOME", home.root().as_os_str()), ("JARVIS_HOME", home.root().as_os_str())])
        .current_dir(home.root())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(broken("the server does not start"))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A turn that ended with the right result.
#[derive(Debug, Clone, Copy)]
pub struct Turned {
    /// By the server's clock.
    pub server_ms: f64,
    pub model_ms: f64,
    pub tool_ms: f64,
    /// From the question to the last event, by the client's.
    pub wall_ms: f64,
}

#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
}

pub struct Events(BufReader<TcpStream>);

impl Client {
    async fn connect(&self) -> Outcome<TcpStream> {
        TcpStream::connect(self.address).await.map_err(broken("the server takes no connection"))
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Outcome<Value> {
        let gone = broken("the server gave no answer");
        let mut stream = self.connect().await?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.map_err(&gone)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(&gone)?;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
        if !head.starts_with("HTTP/1.1 20") {
            return Err(failed(ErrorKind::Protocol, format!("{method} {path}: {answer}")));
        }
        Ok(serde_json::from_str(text).unwrap_or_default())
    }

    /// A session that is not kept on disk.
    pub async fn open(&self) -> Outcome<String> {
        let opened = self.ask("POST", "/v1/sessions", Some(&json!({"keep": false}))).await?;
        let id = opened["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| failed(ErrorKind::Protocol, format!("a session without an id: {opened}")))
    }

    pub async fn close(&self, session: &str) -> Outcome {
        self.ask("POST", &format!("/v1/sessions/{session}/close"), None).await.map(|_| ())
    }

    /// Those that are open.
    pub async fn sessions(&self) -> Outcome<usize> {
        let listed = self.ask("GET", "/v1/sessions", None).await?;
        Ok(listed["unkept"].as_array().map_or(0, Vec::len))
    }

    pub async fn follow(&self, session: &str) -> Outcome<Events> {
        let gone = broken("no stream of events");
        let mut stream = BufReader::new(self.connect().await?);
        let head = format!("GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.get_mut().write_all(head.as_bytes()).await.map_err(&gone)?;
        let mut line = String::new();
        while stream.read_line(&mut line).await.map_err(&gone)? > 2 {
            line.clear();
        }
        Ok(Events(stream))
    }

    /// One question, to the end of its turn.
    pub async fn turn(&self, session: &str, events: &mut Events, model: &Model, number: u64) -> Outcome<Turned> {
        let started = Instant::now();
        let asked = json!({"text": format!("What is twice the {MARK}{number}?")});
        self.ask("POST", &format!("/v1/sessions/{session}/messages"), Some(&asked)).await?;
        let (mut tool_ms, mut right, mut line) = (0.0, false, String::new());
        loop {
            line.clear();
            if events.0.read_line(&mut line).await.map_err(broken("the stream of events"))? == 0 {
                return Err(failed(ErrorKind::Protocol, "the stream of events ended"));
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let event: Value = serde_json::from_str(data).unwrap_or_default();
            let ms = event["duration_ms"].as_f64().unwrap_or(0.0);
            match event["type"].as_str() {
                Some("tool.completed") => {
                    tool_ms += ms;
                    right = event["content"]["result"].as_f64() == Some(number as f64 * 2.0);
                }
                Some("turn.completed") if right => {
                    let model_ms = model.spent().remove(&number).unwrap_or_default().as_secs_f64() * 1e3;
                    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
                    return Ok(Turned { server_ms: ms, model_ms, tool_ms, wall_ms });
                }
                Some("turn.completed" | "turn.failed") => {
                    return Err(failed(ErrorKind::Protocol, format!("a turn ended with {event}")));
                }
                _ => {}
            }
        }
    }

    /// Comes, and is gone without a word.
    pub async fn leave(&self, session: &str, how: u64) -> Outcome {
        let gone = broken("a connection");
        let body = json!({"model": "jarvis", "messages": [{"role": "user", "content": "hello"}]}).to_string();
        let sent = match how {
            0 => return self.connect().await.map(drop),
            1 => return self.follow(session).await.map(drop),
            2 => "GET /v1/ses".to_owned(),
            _ => format!(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        };
        self.connect().await?.write_all(sent.as_bytes()).await.map_err(gone)
    }
}
