//! Does for a worker what it may not do itself: each request is checked against the grants of its permit, done, and
//! answered. The worker is not trusted.

mod calls;
pub(crate) mod fetch;
mod files;
mod handed;
mod kept;
mod secrets;
mod unpack;

pub use calls::{Caller, MOST_DEPTH, Nesting, Wanted};
pub use handed::Handed;
pub use secrets::{SHORTEST_SECRET, Secret, Secrets};

use crate::egress::{EgressDenied, EgressPolicy, PatternError, Resolver, Tally, system};
use crate::frame::{self, Packet};
use crate::pool::lock;
pub(crate) use files::Files;
use files::Linked;
use jarvis_protocol::{Egress, ExecPlan, Grants};
use secrets::Vault;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The most bytes that one answer may hold, whatever the memory of the job.
const MOST_BODY: usize = 16 << 20;

/// The most bytes that one run may write to files.
const MOST_WRITTEN: usize = 64 << 20;

/// The longest message of an error, characters.
const MOST_MESSAGE: usize = 4000;

/// What capabilities can be granted on this machine. Without it there are no files and no secrets to grant.
#[derive(Clone, Default)]
pub struct Access {
    /// Relative paths are meant from here.
    pub workspace: Option<PathBuf>,
    /// Never reached, even with a grant (such as jarvis's own home). Absolute.
    pub denied: Vec<PathBuf>,
    pub secrets: Option<Secrets>,
    /// How names of hosts are looked up; as the machine does it where nothing is given.
    pub resolver: Option<Resolver>,
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
    Call { name: String },
}

/// An error as the code sees it.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    pub(crate) name: Cow<'static, str>,
    pub(crate) message: String,
}

impl Refusal {
    fn denied(message: impl Into<String>) -> Self {
        Self { name: "PermissionError".into(), message: message.into() }
    }

    fn wrong(message: impl Into<String>) -> Self {
        Self { name: "TypeError".into(), message: message.into() }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { name: "Error".into(), message: message.into() }
    }
}

impl From<EgressDenied> for Refusal {
    fn from(denied: EgressDenied) -> Self {
        match denied {
            EgressDenied::Scheme(_) | EgressDenied::NoHost | EgressDenied::Name(_) | EgressDenied::User => {
                Self::wrong(format!("fetch: {denied}"))
            }
            EgressDenied::NotGranted { .. } => Self::denied(format!("{denied}; declare it in grants.network")),
            EgressDenied::NotPublic { .. } => Self::denied(denied.to_string()),
        }
    }
}

pub(crate) type Answer = Result<(serde_json::Value, Vec<u8>), Refusal>;

#[derive(Default)]
pub(crate) struct Broker {
    access: Arc<Access>,
    client: OnceLock<Result<reqwest::Client, String>>,
}

/// One job at the broker.
pub(crate) struct Desk<'a> {
    broker: &'a Broker,
    grants: &'a Grants,
    policy: EgressPolicy,
    most_body: usize,
    vault: Vault,
    tally: Tally,
    /// Files beneath denied places that have more than one name.
    linked: Linked,
    /// Bytes that were written, or tried to.
    written: Mutex<usize>,
    nesting: Option<Nesting<'a>>,
    time: Duration,
    /// When the job was sent.
    begun: OnceLock<Instant>,
}

impl Broker {
    pub(crate) fn secret_hosts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(find) = &self.access.secrets else { return Ok(None) };
        Ok(find(name)?.map(|secret| secret.hosts))
    }

    pub(crate) fn new(access: Access) -> Self {
        Self { access: Arc::new(access), client: OnceLock::new() }
    }

    /// Fails where a grant is none: a run with less than what was approved would be a silent wrong.
    pub(crate) fn desk<'a>(&'a self, plan: &'a ExecPlan) -> Result<Desk<'a>, PatternError> {
        let memory = usize::try_from(plan.limits.memory_mb << 20).unwrap_or(usize::MAX);
        let time = Duration::from_millis(plan.limits.timeout_ms);
        self.desk_for(&plan.grants, MOST_BODY.min(memory / 4), time)
    }

    /// The same for what is no plan of code; `most_body`: the most bytes of one answer.
    pub(crate) fn desk_for<'a>(
        &'a self,
        grants: &'a Grants,
        most_body: usize,
        time: Duration,
    ) -> Result<Desk<'a>, PatternError> {
        Ok(Desk {
            broker: self,
            grants,
            policy: EgressPolicy::parse(&grants.network)?,
            most_body,
            vault: Vault::default(),
            tally: Tally::default(),
            linked: Linked::default(),
            written: Mutex::default(),
            nesting: None,
            time,
            begun: OnceLock::new(),
        })
    }

    /// Files of one kind of grant.
    pub(crate) fn files_of(&self, grants: Vec<String>) -> Files {
        Files { access: Arc::clone(&self.access), grants, linked: Linked::default() }
    }
}

impl<'a> Desk<'a> {
    /// At which capabilities can be called.
    pub(crate) fn among(mut self, nesting: Option<Nesting<'a>>) -> Self {
        self.nesting = nesting;
        self
    }
}

impl Desk<'_> {
    /// The job is about to be sent: its time runs from now on.
    pub(crate) fn begin(&self) {
        let _ = self.begun.set(Instant::now());
    }

    fn left(&self) -> Duration {
        self.begun.get().map_or(self.time, |begun| self.time.saturating_sub(begun.elapsed()))
    }

    /// The frame's payload that answers the request.
    pub(crate) async fn answer(&self, packet: Packet) -> Vec<u8> {
        let id = packet.id;
        let (head, body) = match self.serve(packet).await {
            Ok((head, body)) => (head.to_string(), body),
            Err(mut refusal) => {
                refusal.message = cut(&self.redact(refusal.message), MOST_MESSAGE).into_owned();
                (json!({ "error": refusal }).to_string(), Vec::new())
            }
        };
        frame::pack(id, &head, &body)
    }

    pub(crate) async fn serve(&self, packet: Packet) -> Answer {
        let request = serde_json::from_str(&packet.head)
            .map_err(|e| Refusal::wrong(format!("a request that the broker does not know: {e}")))?;
        match request {
            Request::Fetch(wanted) => self.fetch(wanted, packet.body).await,
            Request::Read { path } => {
                let most = self.most_body;
                self.files(&self.grants.read, move |files| files.read(&path, most)).await
            }
            Request::Write { path } => {
                self.count(packet.body.len())?;
                self.files(&self.grants.write, move |files| files.write(&path, &packet.body)).await
            }
            Request::List { path } => self.files(&self.grants.read, move |files| files.list(&path)).await,
            Request::Secret { name } => self.secret(&name).await,
            Request::Call { name } => self.call(name, &packet).await,
        }
    }

    /// Work on files, where it may block.
    async fn files(&self, grants: &[String], work: impl FnOnce(&Files) -> Answer + Send + 'static) -> Answer {
        let files = Files { linked: self.linked.clone(), ..self.broker.files_of(grants.to_vec()) };
        blocking(move || work(&files)).await
    }

    fn count(&self, bytes: usize) -> Result<(), Refusal> {
        let mut written = lock(&self.written);
        if *written + bytes > MOST_WRITTEN {
            let message = format!("one run may write {} MiB to files in total", MOST_WRITTEN >> 20);
            return Err(Refusal { name: "RangeError".into(), message });
        }
        *written += bytes;
        Ok(())
    }

    /// A placeholder: the value itself is never told.
    async fn secret(&self, name: &str) -> Answer {
        if !self.grants.secrets.iter().any(|granted| granted == name) {
            return Err(Refusal::denied(format!(
                "the secret `{}` is not granted ({}); declare it in grants.secrets",
                short(name),
                granted(&self.grants.secrets)
            )));
        }
        // Of the same kind as a refusal: it is for a person to give, and no fault of the code.
        let missing = || {
            Refusal::denied(format!(
                "there is no secret named `{name}` here; a person sets it with `jarvis secret set {name} --host HOST`"
            ))
        };
        let find = self.broker.access.secrets.clone().ok_or_else(missing)?;
        let asked = name.to_owned();
        let found = tokio::task::spawn_blocking(move || find(&asked)).await;
        let found = found.map_err(|e| Refusal::failed(format!("the broker failed: {e}")))?;
        let secret = found.map_err(|e| Refusal::failed(format!("the secret `{name}` cannot be read: {e}")))?;
        let placeholder = self.vault.tell(name, secret.ok_or_else(missing)?)?;
        Ok((json!({ "value": placeholder }), Vec::new()))
    }

    async fn fetch(&self, wanted: fetch::Wanted, body: Vec<u8>) -> Answer {
        let client =
            self.broker.client.get_or_init(|| fetch::client(self.broker.access.resolver.as_ref().unwrap_or(&system())));
        let client = client.as_ref().map_err(|e| Refusal::failed(format!("no HTTP client: {e}")))?;
        let (policy, vault, tally) = (&self.policy, &self.vault, &self.tally);
        let rules = fetch::Rules { client, policy, vault, tally, most: self.most_body };
        let (mut head, body) = rules.fetch(wanted, body).await?;
        self.vault.redact_value(&mut head);
        Ok((head, self.vault.redact_bytes(body)))
    }

    /// What left and came back so far, host by host.
    pub(crate) fn egress(&self) -> Vec<Egress> {
        self.tally.egress()
    }

    /// Text without the values of secrets that this job was told of.
    pub(crate) fn redact(&self, text: String) -> String {
        self.vault.redact(text)
    }

    pub(crate) fn redact_value(&self, value: &mut serde_json::Value) {
        self.vault.redact_value(value);
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

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
