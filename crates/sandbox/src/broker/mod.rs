//! Does for a worker what it may not do itself: each request is checked against the grants of its permit, done, and
//! answered. The worker is not trusted.

mod addresses;
mod fetch;
mod files;
mod hosts;

use crate::frame::{self, Packet};
use crate::pool::lock;
use jarvis_protocol::{ExecPlan, Grants};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

/// The most bytes that one answer may hold, whatever the memory of the job.
const MOST_BODY: usize = 16 << 20;

/// The most bytes that one run may write to files.
const MOST_WRITTEN: usize = 64 << 20;

/// The longest message of an error, characters.
const MOST_MESSAGE: usize = 4000;

/// Finds the value of a secret by its name.
pub type Secrets = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What capabilities can be granted on this machine. Without it there are no files and no secrets to grant.
#[derive(Clone, Default)]
pub struct Access {
    /// Relative paths are meant from here.
    pub workspace: Option<PathBuf>,
    /// Never reached, even with a grant (such as jarvis's own home). Absolute.
    pub denied: Vec<PathBuf>,
    pub secrets: Option<Secrets>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("workspace", &self.workspace)
            .field("denied", &self.denied)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request {
    Fetch(fetch::Wanted),
    Read { path: String },
    Write { path: String },
    List { path: String },
    Secret { name: String },
}

/// An error as the code sees it.
#[derive(Debug, Serialize)]
struct Refusal {
    name: &'static str,
    message: String,
}

impl Refusal {
    fn denied(message: impl Into<String>) -> Self {
        Self { name: "PermissionError", message: message.into() }
    }

    fn wrong(message: impl Into<String>) -> Self {
        Self { name: "TypeError", message: message.into() }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { name: "Error", message: message.into() }
    }
}

type Answer = Result<(serde_json::Value, Vec<u8>), Refusal>;

#[derive(Default)]
pub(crate) struct Broker {
    access: Access,
    client: OnceLock<Result<reqwest::Client, String>>,
}

/// One job at the broker.
pub(crate) struct Desk<'a> {
    broker: &'a Broker,
    grants: &'a Grants,
    most_body: usize,
    /// Secrets that were handed out: value and name.
    told: Mutex<Vec<(String, String)>>,
    /// Bytes that were written, or tried to.
    written: Mutex<usize>,
}

impl Broker {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, client: OnceLock::new() }
    }

    pub(crate) fn desk<'a>(&'a self, plan: &'a ExecPlan) -> Desk<'a> {
        let memory = usize::try_from(plan.limits.memory_mb << 20).unwrap_or(usize::MAX);
        Desk {
            broker: self,
            grants: &plan.grants,
            most_body: MOST_BODY.min(memory / 4),
            told: Mutex::default(),
            written: Mutex::default(),
        }
    }
}

impl Desk<'_> {
    /// The frame's payload that answers the request.
    pub(crate) async fn answer(&self, packet: Packet) -> Vec<u8> {
        let id = packet.id;
        let (head, body) = match self.serve(packet).await {
            Ok((head, body)) => (head.to_string(), body),
            Err(mut refusal) => {
                refusal.message = cut(&refusal.message, MOST_MESSAGE).into_owned();
                (json!({ "error": refusal }).to_string(), Vec::new())
            }
        };
        frame::pack(id, &head, &body)
    }

    async fn serve(&self, packet: Packet) -> Answer {
        let request = serde_json::from_str(&packet.head)
            .map_err(|e| Refusal::wrong(format!("a request that the broker does not know: {e}")))?;
        match request {
            Request::Fetch(wanted) => self.fetch(wanted, packet.body).await,
            Request::Read { path } => {
                let (access, grants) = (self.broker.access.clone(), self.grants.read.clone());
                let most = self.most_body;
                blocking(move || files::read(&access, &grants, &path, most)).await
            }
            Request::Write { path } => {
                self.count(packet.body.len())?;
                let (access, grants) = (self.broker.access.clone(), self.grants.write.clone());
                blocking(move || files::write(&access, &grants, &path, &packet.body)).await
            }
            Request::List { path } => {
                let (access, grants) = (self.broker.access.clone(), self.grants.read.clone());
                blocking(move || files::list(&access, &grants, &path)).await
            }
            Request::Secret { name } => self.secret(name),
        }
    }

    fn count(&self, bytes: usize) -> Result<(), Refusal> {
        let mut written = lock(&self.written);
        if *written + bytes > MOST_WRITTEN {
            let message = format!("one run may write {} MiB to files in total", MOST_WRITTEN >> 20);
            return Err(Refusal { name: "RangeError", message });
        }
        *written += bytes;
        Ok(())
    }

    fn secret(&self, name: String) -> Answer {
        if !self.grants.secrets.contains(&name) {
            return Err(Refusal::denied(format!(
                "the secret `{}` is not granted ({}); declare it in grants.secrets",
                short(&name),
                granted(&self.grants.secrets)
            )));
        }
        let value = self.broker.access.secrets.as_ref().and_then(|find| find(&name));
        let value = value.ok_or_else(|| Refusal::failed(format!("there is no secret named `{name}` here")))?;
        lock(&self.told).push((value.clone(), name));
        Ok((json!({ "value": value }), Vec::new()))
    }

    async fn fetch(&self, wanted: fetch::Wanted, body: Vec<u8>) -> Answer {
        let client = self.broker.client.get_or_init(fetch::client);
        let client = client.as_ref().map_err(|e| Refusal::failed(format!("no HTTP client: {e}")))?;
        fetch::fetch(client, &self.grants.network, wanted, body, self.most_body).await
    }

    /// Text without the values of secrets that this job was told.
    pub(crate) fn redact(&self, text: String) -> String {
        let told = lock(&self.told);
        // A very short value is no secret, and would cut words apart.
        told.iter().filter(|(value, _)| value.len() >= 4).fold(text, |text, (value, name)| {
            if text.contains(value.as_str()) { text.replace(value.as_str(), &format!("[secret {name}]")) } else { text }
        })
    }

    pub(crate) fn redact_value(&self, value: &mut serde_json::Value) {
        if lock(&self.told).is_empty() {
            return;
        }
        match value {
            serde_json::Value::String(text) => *text = self.redact(std::mem::take(text)),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| self.redact_value(field)),
            _ => {}
        }
    }
}

async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(Refusal::failed(format!("the broker failed: {e}"))))
}

/// For messages: a path or name that may be as long as a request.
fn short(text: &str) -> Cow<'_, str> {
    cut(text, 200)
}

fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// For messages: what there is instead.
fn granted(list: &[String]) -> String {
    if list.is_empty() { "nothing is".to_owned() } else { format!("granted: {}", list.join(", ")) }
}
