//! All live sessions of a process: opened, found, closed, and let go when nobody uses them.

use crate::live::{Called, Live};
use crate::make::{Maker, Open};
use jarvis_dispatch::DenyAll;
use jarvis_memory::SessionStore;
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorBody, ErrorKind, Event};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sessions open at the same time.
    pub sessions: usize,
    /// A session that nobody used for so long is closed; it can be opened again by its id.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 1000, idle: Duration::from_secs(1800) }
    }
}

/// Sees every event of every session as it happens, for counting; it must not block.
pub type Tap = Arc<dyn Fn(&Event) + Send + Sync>;

/// Cheap to clone; the clones are one host.
#[derive(Clone)]
pub struct Host(Arc<Shared>);

struct Shared {
    maker: Arc<dyn Maker>,
    limits: Limits,
    tap: OnceLock<Tap>,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// What sessions that were let go did where a yes was due, the newest at the end: one that is opened again does the
    /// same, and not what is usual here, which may be less careful.
    before: Mutex<VecDeque<(String, Approval)>>,
    /// Sessions that are being made, so that the limit holds for them too.
    making: Mutex<usize>,
    tasks: TaskTracker,
    /// No new sessions.
    shutting: CancellationToken,
    closing: CancellationToken,
}

/// Takes a session off the list once its task is over, however that ended.
struct Gone {
    host: Weak<Shared>,
    live: Arc<Live>,
    /// It can be opened again.
    kept: bool,
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade() {
            if self.kept {
                host.remember(self.live.id(), self.live.snapshot().approval);
            }
            lock(&host.live).remove(self.live.id());
        }
        self.live.ended();
    }
}

/// Sessions of which is known what they did where a yes was due.
const REMEMBERED: usize = 10_000;

impl Shared {
    fn remember(&self, id: &str, approval: Approval) {
        let mut before = lock(&self.before);
        before.retain(|(known, _)| known != id);
        before.push_back((id.to_owned(), approval));
        if before.len() > REMEMBERED {
            before.pop_front();
        }
    }

    /// With what the session did before, where nothing else is said.
    fn as_before(&self, open: &Open) -> Open {
        let before = lock(&self.before);
        let known = open.resume.as_ref().and_then(|id| before.iter().find(|(known, _)| known == id));
        Open { approval: open.approval.or(known.map(|(_, approval)| *approval)), ..open.clone() }
    }
}

/// Gives a place back, however making a session ended.
struct Place<'a>(&'a Mutex<usize>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *lock(self.0) -= 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cancelled() -> ErrorBody {
    ErrorBody::new(ErrorKind::Cancelled, "cancelled")
}

impl Host {
    pub fn new(maker: Arc<dyn Maker>, limits: Limits) -> Self {
        Self(Arc::new(Shared {
            maker,
            limits,
            tap: OnceLock::new(),
            live: Mutex::default(),
            before: Mutex::default(),
            making: Mutex::default(),
            tasks: TaskTracker::new(),
            shutting: CancellationToken::new(),
            closing: CancellationToken::new(),
        }))
    }

    /// From now on `tap` sees the events of sessions that are opened; the first one stays.
    pub fn tap(&self, tap: Tap) {
        // A second one would count everything twice.
        let _ = self.0.tap.set(tap);
    }

    /// A new session, or one that was kept; one that is live already is given as it is.
    ///
    /// # Errors
    /// `Limit` where too many are open, `Conflict` where another process has it, whatever making it says.
    pub async fn open(&self, open: &Open, cancel: &CancellationToken) -> Result<Arc<Live>, ErrorBody> {
        if self.0.shutting.is_cancelled() {
            return Err(ErrorBody::new(ErrorKind::Conflict, "jarvis is being stopped"));
        }
        if let Some(live) = open.resume.as_deref().and_then(|id| self.get(id)) {
            if !live.is_closing() {
                return Ok(live);
            }
            // What it holds (its lock on disk) is free then.
            cancel.run_until_cancelled(live.gone()).await.ok_or_else(cancelled)?;
        }
        self.sweep();
        let _place = self.place()?;
        let open = &self.0.as_before(open);
        let made = self.0.maker.make(open, cancel).await?;
        let closing = self.0.closing.child_token();
        let tap = self.0.tap.get().cloned();
        let (live, task) = Live::start(made, self.0.maker.clone(), open, closing, tap);
        lock(&self.0.live).insert(live.id().to_owned(), live.clone());
        let gone = Gone { host: Arc::downgrade(&self.0), live: live.clone(), kept: !open.unkept };
        self.0.tasks.spawn(async move {
            let _gone = gone;
            task.await;
        });
        Ok(live)
    }

    /// Runs a capability that no session asked for; nobody is asked anything.
    pub async fn execute(&self, name: &str, args: Value, cancel: &CancellationToken) -> Result<Called, ErrorBody> {
        let dispatch = self.0.maker.usual_dispatch()?;
        let mut emit = |event: Event| {
            if let Some(tap) = self.0.tap.get() {
                tap(&event);
            }
        };
        crate::live::call(&dispatch, name, args, &mut emit, &mut DenyAll, cancel).await
    }

    fn place(&self) -> Result<Place<'_>, ErrorBody> {
        let mut making = lock(&self.0.making);
        if lock(&self.0.live).len() + *making >= self.0.limits.sessions {
            let message = format!("{} sessions are open, no more are taken", self.0.limits.sessions);
            return Err(ErrorBody::new(ErrorKind::Limit, message).hint("close one, or try again later"));
        }
        *making += 1;
        Ok(Place(&self.0.making))
    }

    /// A session that is live.
    pub fn get(&self, id: &str) -> Option<Arc<Live>> {
        let live = lock(&self.0.live).get(id).cloned();
        live.inspect(|live| live.touch())
    }

    /// The same, only looked at: that is no use of it.
    pub fn peek(&self, id: &str) -> Option<Arc<Live>> {
        lock(&self.0.live).get(id).cloned()
    }

    /// All that are live, by id.
    pub fn live(&self) -> Vec<Arc<Live>> {
        let mut all: Vec<_> = lock(&self.0.live).values().cloned().collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// Cancels what it does and lets it go; false where it is not live. Its history stays on disk.
    pub fn close(&self, id: &str) -> bool {
        let live = lock(&self.0.live).get(id).cloned();
        live.inspect(|live| live.close()).is_some()
    }

    /// The same, and waits until it is gone: what it held (its lock on disk) is free then.
    pub async fn end(&self, id: &str) -> bool {
        let live = lock(&self.0.live).get(id).cloned();
        let Some(live) = live else { return false };
        live.close();
        live.gone().await;
        true
    }

    /// Closes sessions that nobody used for long. Done at every opening; whoever runs long calls it now and then.
    pub fn sweep(&self) {
        let now = Instant::now();
        for live in self.live() {
            if live.idle_since().is_some_and(|since| now.duration_since(since) >= self.0.limits.idle) {
                live.close();
            }
        }
    }

    /// The sessions that were kept.
    pub fn store(&self) -> Result<SessionStore, ErrorBody> {
        self.0.maker.store()
    }

    /// No new sessions; turns that run may end by themselves within `grace`, then they are cancelled. Returns when
    /// every session is closed, and gives the number of turns that were cancelled.
    pub async fn shut(&self, grace: Duration) -> usize {
        self.0.shutting.cancel();
        let busy = || self.live().iter().filter(|live| live.snapshot().busy).count();
        let until = Instant::now() + grace;
        while busy() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let cancelled = busy();
        self.0.closing.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        cancelled
    }
}
