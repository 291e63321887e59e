//! The zygote as the broker sees it, and the workers it has ready.

use crate::control::{self, Exit, Order, Report};
use crate::error::SandboxError;
use crate::isolate::Lacking;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The name under which the binary is its own worker.
pub(crate) const WORKER_NAME: &str = "jarvis-worker";

/// A forked worker nobody has given a job yet.
pub(crate) struct Idle {
    pub id: u64,
    pub socket: UnixStream,
    /// The kernel's word on its end.
    pub ended: oneshot::Receiver<Exit>,
}

/// One running zygote.
pub(crate) struct Zygote {
    control: OwnedFd,
    /// Layers that every worker inherits, and those that cannot be had here.
    pub layers: Vec<String>,
    pub lacking: Vec<Lacking>,
    next: AtomicU64,
    gone: AtomicBool,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Exit>>>,
    idle: Mutex<VecDeque<Idle>>,
}

impl Zygote {
    /// Starts the process and waits until it is isolated and warm. Blocking.
    pub(crate) fn start(exe: &Path) -> Result<Arc<Zygote>, SandboxError> {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|e| SandboxError::io("socket pair")(e.into()))?;
        // The one place that starts a worker: with an empty environment, on a socket alone.
        #[allow(clippy::disallowed_methods)]
        let mut command = Command::new(exe);
        command.arg0(WORKER_NAME).env_clear().env("TZ", "UTC0").current_dir("/");
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut launcher =
            command.spawn().map_err(|source| SandboxError::Start { exe: exe.display().to_string(), source })?;
        drop(command);
        let first = control::receive::<Report>(&ours);
        // The launcher only forks the zygote and ends.
        launcher.wait().map_err(SandboxError::io("wait for the launcher"))?;
        let (layers, lacking) = match first.map_err(SandboxError::io("first word of the worker"))? {
            Some((Report::Up { version, layers, lacking }, _)) if version == env!("CARGO_PKG_VERSION") => {
                (layers, lacking)
            }
            Some((Report::Up { version, .. }, _)) => return Err(SandboxError::Mismatch(version)),
            Some((Report::Failed(missing), _)) => {
                return Err(SandboxError::Isolation { missing: missing.missing, fix: missing.fix });
            }
            Some((Report::Exited { .. }, _)) | None => {
                let source = io::Error::other("it ended without a word");
                return Err(SandboxError::Start { exe: exe.display().to_string(), source });
            }
        };
        let zygote = Arc::new(Zygote {
            control: ours,
            layers,
            lacking,
            next: AtomicU64::new(1),
            gone: AtomicBool::new(false),
            waiting: Mutex::default(),
            idle: Mutex::default(),
        });
        let listener = Arc::clone(&zygote);
        std::thread::Builder::new()
            .name("sandbox".to_owned())
            .spawn(move || listener.listen())
            .map_err(SandboxError::io("thread for the worker's reports"))?;
        Ok(zygote)
    }

    pub(crate) fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A worker that is ready, or else one that is being forked.
    pub(crate) fn take(&self) -> Result<Idle, SandboxError> {
        match lock(&self.idle).pop_front() {
            Some(idle) => Ok(idle),
            None => self.fork(false),
        }
    }

    /// Forks until `wanted` are ready.
    pub(crate) fn refill(&self, wanted: usize) -> Result<(), SandboxError> {
        while lock(&self.idle).len() < wanted {
            let idle = self.fork(false)?;
            lock(&self.idle).push_back(idle);
        }
        Ok(())
    }

    pub(crate) fn kill(&self, id: u64) {
        // A zygote that is gone has taken its workers along.
        let _ = control::send(&self.control, &Order::Kill { id }, None);
    }

    pub(crate) fn close(&self) {
        // Its listener and the zygote itself see the end of the stream.
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
    }

    pub(crate) fn fork(&self, bare: bool) -> Result<Idle, SandboxError> {
        let (ours, theirs) = UnixStream::pair().map_err(SandboxError::io("socket pair"))?;
        ours.set_nonblocking(true).map_err(SandboxError::io("socket pair"))?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, ended) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        let theirs = OwnedFd::from(theirs);
        let sent = control::send(&self.control, &Order::Fork { id, bare }, Some(std::os::fd::AsFd::as_fd(&theirs)));
        if let Err(source) = sent {
            lock(&self.waiting).remove(&id);
            self.gone.store(true, Ordering::Release);
            return Err(SandboxError::Io { what: "order to fork a worker", source });
        }
        Ok(Idle { id, socket: ours, ended })
    }

    fn listen(&self) {
        while let Ok(Some((report, _))) = control::receive::<Report>(&self.control) {
            if let Report::Exited { id, exit } = report
                && let Some(waiting) = lock(&self.waiting).remove(&id)
            {
                // Nobody waits for a worker that ended well.
                let _ = waiting.send(exit);
            }
        }
        self.gone.store(true, Ordering::Release);
        lock(&self.waiting).clear();
        lock(&self.idle).clear();
    }
}

/// The guarded values stay whole whatever panics, so poison carries no meaning here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
