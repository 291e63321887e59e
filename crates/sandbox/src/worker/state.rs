//! What the worker knows about its job while the engine runs.

use crate::frame::{self, Job, Kind};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The one open descriptor.
#[derive(Clone, Copy)]
pub(crate) struct Socket(pub BorrowedFd<'static>);

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket {
    pub(crate) fn send(&self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        frame::write_blocking(&mut &*self, kind, payload)
    }
}

/// Why the job was stopped from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Timeout,
    Output,
    /// The broker is gone.
    Alone,
}

#[derive(Default)]
pub(super) struct State {
    socket: Cell<Option<Socket>>,
    started: Cell<Option<Instant>>,
    deadline: Cell<Option<Instant>>,
    /// Bytes of output left.
    budget: Cell<usize>,
    /// Bytes that one frame may have.
    most: Cell<usize>,
    stop: Cell<Option<Stop>>,
}

impl State {
    pub(super) fn begin(&self, socket: &Socket, job: &Job) {
        let now = Instant::now();
        self.socket.set(Some(*socket));
        self.started.set(Some(now));
        self.deadline.set(now.checked_add(Duration::from_millis(job.timeout_ms)));
        self.most.set(frame::most(job.output_bytes));
        self.budget.set(usize::try_from(job.output_bytes).unwrap_or(usize::MAX));
    }

    /// Milliseconds since the job began.
    pub(super) fn now(&self) -> f64 {
        self.started.get().map_or(0.0, |started| started.elapsed().as_secs_f64() * 1000.0)
    }

    /// Asked by the engine again and again.
    pub(super) fn must_stop(&self) -> bool {
        if self.stop.get().is_none() && self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline) {
            self.stop.set(Some(Stop::Timeout));
        }
        self.stop.get().is_some()
    }

    pub(super) fn stopped(&self) -> Option<Stop> {
        self.must_stop();
        self.stop.get()
    }

    /// Takes so much of the output that is left; false when it is too much.
    pub(super) fn afford(&self, bytes: usize) -> bool {
        match self.budget.get().checked_sub(bytes) {
            Some(left) => {
                self.budget.set(left);
                true
            }
            None => false,
        }
    }

    /// There is more output than the job may hand out.
    pub(super) fn full(&self) {
        self.stop.set(Some(Stop::Output));
    }

    /// Sends printed text at once, so that it is kept however the job ends.
    pub(super) fn print(&self, text: &str) {
        let Some(socket) = self.socket.get() else { return };
        let text = if self.afford(text.len()) {
            text
        } else {
            self.stop.set(Some(Stop::Output));
            let most = self.budget.replace(0);
            &text[..text.floor_char_boundary(most)]
        };
        if !text.is_empty() && socket.send(Kind::Print, text.as_bytes()).is_err() {
            self.stop.set(Some(Stop::Alone));
        }
    }

    /// Asks the broker for something. An error is the most bytes that a request may have.
    pub(super) fn ask(&self, id: u32, head: &str, body: &[u8]) -> Result<(), usize> {
        let Some(socket) = self.socket.get() else { return Ok(()) };
        let most = self.most.get();
        if head.len() > frame::MOST_HEAD {
            return Err(frame::MOST_HEAD);
        }
        if head.len() + body.len() + 8 > most {
            return Err(most);
        }
        if socket.send(Kind::Call, &frame::pack(id, head, body)).is_err() {
            self.stop.set(Some(Stop::Alone));
        }
        Ok(())
    }

    /// Sleeps so long, or to the deadline. With `listen` an answer of the broker ends it and is returned.
    pub(super) fn sleep(&self, milliseconds: Option<f64>, listen: bool) -> Option<frame::Packet> {
        let socket = self.socket.get()?;
        let wanted = milliseconds.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()).unwrap_or(Duration::MAX);
        let left = self.deadline.get().map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
        let span = wanted.min(left);
        if !listen {
            std::thread::sleep(span);
            return None;
        }
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: span.subsec_nanos().into(),
        };
        let mut watched = libc::pollfd { fd: socket.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Sound: both structures outlive the call.
        if unsafe { libc::ppoll(&mut watched, 1, &time, std::ptr::null()) } <= 0 {
            return None;
        }
        let packet = match frame::read_blocking(&mut &socket) {
            Ok((Kind::Reply, payload)) => frame::unpack(payload).ok(),
            _ => None,
        };
        if packet.is_none() {
            self.stop.set(Some(Stop::Alone));
        }
        packet
    }
}
