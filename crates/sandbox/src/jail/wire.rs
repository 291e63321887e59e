//! Messages between jarvis, the launcher and the first process of a jail.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Descriptors that go with one message.
const MOST_FDS: usize = 6;

/// A path or an argument, which need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Raw {
    Text(String),
    Bytes(Vec<u8>),
}

impl Raw {
    pub(super) fn as_os(&self) -> &OsStr {
        match self {
            Raw::Text(text) => OsStr::new(text),
            Raw::Bytes(bytes) => OsStr::from_bytes(bytes),
        }
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Raw {
    fn from(text: &T) -> Raw {
        match text.as_ref().to_str() {
            Some(text) => Raw::Text(text.to_owned()),
            None => Raw::Bytes(text.as_ref().as_bytes().to_owned()),
        }
    }
}

/// To the launcher. With it come the jail's socket, its plan, its standard streams and perhaps its channel.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub id: u64,
    pub memory_mb: u64,
    pub pids: u32,
    /// Hundredths of a processor.
    pub cpu_percent: Option<u64>,
    /// Filled in by the launcher: whether it can be had.
    pub cpu_limited: bool,
    pub best_effort: bool,
    /// Whose rights the jail has.
    pub uid: u32,
    pub gid: u32,
    /// They are not jarvis's own.
    pub change_user: bool,
    /// To see what holds without them.
    pub without_namespaces: bool,
}

impl Order {
    pub(super) fn cpu(&self) -> Option<bool> {
        self.cpu_percent.map(|_| self.cpu_limited)
    }
}

/// From the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Up {
        version: String,
    },
    /// All processes of the jail are gone.
    Exited {
        id: u64,
        end: End,
    },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct End {
    /// The signal that ended the first process.
    pub signal: Option<i32>,
    pub cpu_us: u64,
    pub peak_memory_kb: u64,
    /// The kernel killed a process for its memory.
    pub out_of_memory: bool,
    /// The jail never came to be.
    pub failed: Option<Failure>,
}

/// Why there is no jail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Failure {
    /// This isolation cannot be had here.
    Isolation { missing: String, fix: String },
    /// What was asked for does not work out.
    Spec { what: String, fix: String },
    /// The program does not start.
    Program { errno: i32 },
}

/// From the first process of the jail.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// With it comes the proxy's listener, if there is one. The program waits until it is told to go on.
    Listening,
    Started {
        layers: Vec<String>,
    },
    Failed(Failure),
    /// The program's end. With `all`, what all processes used; they are gone then, and this one is about to.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        stopped: Option<Stopped>,
        all: Option<Used>,
    },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Used {
    pub cpu_us: u64,
    pub peak_memory_kb: u64,
    /// The kernel killed a process for its memory.
    pub out_of_memory: bool,
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stopped {
    Wall,
    Cpu,
    Memory,
    Processes,
}

pub(super) fn send<T: Serialize>(socket: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    send_bytes(socket, &bytes, fds, SendFlags::NOSIGNAL).map(|_| ())
}

pub(super) fn send_bytes(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut extra = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !extra.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("no room for descriptors"));
    }
    loop {
        match rustix::net::sendmsg(socket.as_fd(), &[IoSlice::new(bytes)], &mut extra, flags) {
            Ok(count) => return Ok(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// `None` at the end: the other side is gone.
pub(super) fn receive<T: for<'a> Deserialize<'a>>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = [0u8; 8192];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket.as_fd(), &mut parts, &mut extra, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    let mut fds = Vec::new();
    for message in extra.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    if count == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..count])?, fds)))
}
