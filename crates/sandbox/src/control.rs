//! Messages between the broker and the zygote, one datagram each, over a sequenced-packet socket pair.

use crate::isolate::{Lacking, Missing};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const MOST: usize = 4096;

/// Broker to zygote.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Fork a worker; its socket comes with the message.
    Fork {
        id: u64,
        /// Without the system-call filter and limits, to test what is beneath; such a worker takes no job.
        bare: bool,
    },
    Kill {
        id: u64,
    },
}

/// Zygote to broker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Up(Up),
    Failed(Missing),
    Exited {
        id: u64,
        exit: Exit,
    },
    /// The kernel gave no process: its error number.
    NotForked {
        id: u64,
        errno: i32,
    },
}

/// The zygote is isolated and warm.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Up {
    pub version: String,
    /// Layers that every worker inherits, and those that cannot be had here.
    pub layers: Vec<String>,
    pub lacking: Vec<Lacking>,
    /// What its start took, microseconds, in order.
    pub spent: Vec<(String, u64)>,
}

/// What the kernel says about a worker that is gone.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub cpu_us: u64,
    pub peak_memory_kb: u64,
}

pub(crate) fn send<T: Serialize>(socket: impl AsFd, message: &T, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() && !extra.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    loop {
        match rustix::net::sendmsg(socket.as_fd(), &[IoSlice::new(&bytes)], &mut extra, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// `None` at the end: the other side is gone.
pub(crate) fn receive<T: for<'a> Deserialize<'a>>(socket: impl AsFd) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut bytes = [0u8; MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket.as_fd(), &mut parts, &mut extra, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message.bytes,
            Err(rustix::io::Errno::INTR) => {}
            // The other side is gone without having read all that was sent.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    };
    let mut fd = None;
    for message in extra.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            fd = fds.into_iter().next().or(fd);
        }
    }
    if count == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..count])?, fd)))
}
