//! The zygote as the broker sees it, and the workers it has ready.

use crate::control::{self, Exit, Order, Report, Up};
use crate::error::SandboxError;
use crate::frame::{Kind, Ready};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
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
    /// The kernel's word on its end; an error when there was no process for it.
    pub ended: oneshot::Receiver<io::Result<Exit>>,
}

type Ending = oneshot::Sender<io::Result<Exit>>;

/// The id of the worker that comes with the zygote.
const FIRST: u64 = 1;

/// One running zygote.
pub(crate) struct Zygote {
    control: OwnedFd,
    pub up: Up,
    next: AtomicU64,
    gone: AtomicBool,
    waiting: Mutex<HashMap<u64, Ending>>,
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
        let (mut early, mut waiting_for) = (VecDeque::new(), HashMap::new());
        // The first worker is ordered ahead: the zygote forks it as soon as it can.
        let first = order(&ours, FIRST, false).map_err(SandboxError::io("order of the first worker"));
        let up = match up(&ours, exe).and_then(|up| first.map(|first| (up, first))) {
            Ok((up, socket)) => {
                let (sender, ended) = oneshot::channel();
                early.push_back(Idle { id: FIRST, socket, ended });
                waiting_for.insert(FIRST, sender);
                up
            }
            Err(e) => {
                // It has nobody to serve, and ends.
                drop(ours);
                launcher.wait().map_err(SandboxError::io("wait for the launcher"))?;
                return Err(e);
            }
        };
        let zygote = Arc::new(Zygote {
            control: ours,
            up,
            next: AtomicU64::new(FIRST + 1),
            gone: AtomicBool::new(false),
            waiting: Mutex::new(waiting_for),
            idle: Mutex::new(early),
        });
        let listener = Arc::clone(&zygote);
        std::thread::Builder::new()
            .name("sandbox".to_owned())
            .spawn(move || {
                // The launcher only forks the zygote and ends; nobody has to wait for that.
                let _ = launcher.wait();
                listener.listen();
            })
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
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, ended) = oneshot::channel();
        // Known before it is ordered, so that its end cannot come first.
        lock(&self.waiting).insert(id, sender);
        match order(&self.control, id, bare) {
            Ok(socket) => Ok(Idle { id, socket, ended }),
            Err(source) => {
                lock(&self.waiting).remove(&id);
                self.gone.store(true, Ordering::Release);
                Err(SandboxError::Io { what: "order to fork a worker", source })
            }
        }
    }

    fn listen(&self) {
        while let Ok(Some((report, _))) = control::receive::<Report>(&self.control) {
            let (id, ended) = match report {
                Report::Exited { id, exit } => (id, Ok(exit)),
                Report::NotForked { id, errno } => (id, Err(io::Error::from_raw_os_error(errno))),
                Report::Up(_) | Report::Failed(_) => continue,
            };
            if let Some(waiting) = lock(&self.waiting).remove(&id) {
                // Nobody waits for a worker that ended well.
                let _ = waiting.send(ended);
            }
        }
        self.gone.store(true, Ordering::Release);
        lock(&self.waiting).clear();
        lock(&self.idle).clear();
    }
}

/// What the zygote says when it is isolated and warm.
fn up(control: &OwnedFd, exe: &Path) -> Result<Up, SandboxError> {
    match control::receive::<Report>(control).map_err(SandboxError::io("first word of the worker"))? {
        Some((Report::Up(up), _)) if up.version == env!("CARGO_PKG_VERSION") => Ok(up),
        Some((Report::Up(up), _)) => Err(SandboxError::Mismatch(up.version)),
        Some((Report::Failed(missing), _)) => Err(missing.into()),
        _ => {
            let source = io::Error::other("it ended without a word");
            Err(SandboxError::Start { exe: exe.display().to_string(), source })
        }
    }
}

/// The worker's socket.
fn order(control: &OwnedFd, id: u64, bare: bool) -> io::Result<UnixStream> {
    let (socket, theirs) = UnixStream::pair()?;
    socket.set_nonblocking(true)?;
    let theirs = OwnedFd::from(theirs);
    control::send(control, &Order::Fork { id, bare }, Some(theirs.as_fd()))?;
    Ok(socket)
}

/// The layers that hold for a worker, by its first frame.
pub(crate) fn isolated(first: Option<(Kind, Vec<u8>)>) -> Result<Vec<String>, SandboxError> {
    let ready = match first {
        Some((Kind::Ready, payload)) => serde_json::from_slice::<Ready>(&payload).ok(),
        _ => None,
    };
    match ready {
        Some(Ready { missing: Some(missing), .. }) => Err(missing.into()),
        Some(Ready { layers, missing: None }) => Ok(layers),
        None => Err(SandboxError::io("a worker ended before its job")(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// The guarded values stay whole whatever panics, so poison carries no meaning here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
