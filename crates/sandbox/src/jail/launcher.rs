//! The launcher as jarvis sees it.

use super::wire::{self, End, Order, Report};
use crate::error::SandboxError;
use crate::pool::lock;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the launcher may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Launcher {
    control: OwnedFd,
    next: AtomicU64,
    gone: AtomicBool,
    waiting: Mutex<HashMap<u64, oneshot::Sender<End>>>,
}

impl Launcher {
    /// Blocking, for some milliseconds.
    pub(super) fn start(exe: &Path) -> Result<Arc<Launcher>, SandboxError> {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|e| SandboxError::io("socket pair")(e.into()))?;
        // The one place that starts the launcher: with an empty environment, on a socket alone.
        #[allow(clippy::disallowed_methods)]
        let mut command = Command::new(exe);
        command.arg0(super::JAIL_NAME).env_clear().current_dir("/");
        // Not in the terminal's group: what ends jarvis by a key ends it through the socket.
        command.process_group(0).stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let not_started = |source| SandboxError::Start { exe: exe.display().to_string(), source };
        let mut child = command.spawn().map_err(not_started)?;
        drop(command);
        let patience =
            rustix::net::sockopt::set_socket_timeout(&ours, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE));
        patience.map_err(|e| SandboxError::io("socket pair")(e.into()))?;
        let first = wire::receive::<Report>(&ours);
        let patience = rustix::net::sockopt::set_socket_timeout(&ours, rustix::net::sockopt::Timeout::Recv, None);
        patience.map_err(|e| SandboxError::io("socket pair")(e.into()))?;
        let up = match first {
            Ok(Some((Report::Up { version }, _))) if version == env!("CARGO_PKG_VERSION") => Ok(()),
            Ok(Some((Report::Up { version }, _))) => Err(SandboxError::Mismatch(version)),
            _ => Err(not_started(io::Error::other("it is not the jail's launcher, or ended without a word"))),
        };
        if let Err(e) = up {
            // It is a child of ours that does not answer.
            let _ = child.kill();
            let _ = child.wait();
            return Err(e);
        }
        let launcher = Arc::new(Launcher {
            control: ours,
            next: AtomicU64::new(1),
            gone: AtomicBool::new(false),
            waiting: Mutex::default(),
        });
        let listener = Arc::clone(&launcher);
        std::thread::Builder::new()
            .name("jail".to_owned())
            .spawn(move || listener.listen(child))
            .map_err(SandboxError::io("thread for the launcher's reports"))?;
        Ok(launcher)
    }

    pub(super) fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The word of its end comes through the receiver, which fails when the launcher is gone.
    pub(super) fn order(
        &self,
        order: impl FnOnce(u64) -> Order,
        fds: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<End>, SandboxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, ended) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        if let Err(source) = wire::send(&self.control, &order(id), fds) {
            lock(&self.waiting).remove(&id);
            self.gone.store(true, Ordering::Release);
            return Err(SandboxError::Io { what: "order to start a jail", source });
        }
        if self.gone() {
            lock(&self.waiting).remove(&id);
        }
        Ok(ended)
    }

    pub(super) fn close(&self) {
        // Its listener and the launcher itself see the end of the stream.
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
    }

    fn listen(&self, mut child: Child) {
        while let Ok(Some((report, _))) = wire::receive::<Report>(&self.control) {
            if let Report::Exited { id, end } = report
                && let Some(waiting) = lock(&self.waiting).remove(&id)
            {
                // Nobody waits for a jail that was dropped.
                let _ = waiting.send(end);
            }
        }
        self.gone.store(true, Ordering::Release);
        lock(&self.waiting).clear();
        // It ends by itself with the socket.
        let _ = child.wait();
    }
}
