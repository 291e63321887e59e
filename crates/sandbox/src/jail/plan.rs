//! The checked form of a [`super::JailSpec`] that the first process of a jail carries out.

use super::spec::JailLimits;
use super::wire::Raw;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub program: Raw,
    pub args: Vec<Raw>,
    /// `NAME=value`.
    pub env: Vec<Raw>,
    pub dir: Raw,
    /// The person's whole tree instead of a new root.
    pub whole: bool,
    /// In this order.
    pub mounts: Vec<Mount>,
    pub devices: Vec<Raw>,
    pub read_only_root: bool,
    pub limits: Limits,
    pub filter: Choice,
    pub proxy: bool,
    pub best_effort: bool,
}

/// Paths are absolute and without symbolic links; the same outside and inside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Mount {
    /// What is at this path outside.
    Show { path: Raw, write: bool },
    /// A symbolic link, when nothing is there yet.
    Link { path: Raw, target: Raw },
    /// A small file of our own.
    File { path: Raw, text: String },
    /// Read-only from here on, inside of something writable. `may_go`: no failure when it is not there any more.
    Protect { path: Raw, may_go: bool },
    /// Stays where it is, and is otherwise as it was.
    Pin { path: Raw },
    /// Nobody can look into it.
    Hide { path: Raw },
}

/// The filter of system calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Choice {
    Default,
    Strict {
        sockets: bool,
    },
    /// One program after the other; each instruction is one number.
    Programs(Vec<Vec<u64>>),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Limits {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub memory_mb: u64,
    pub pids: u32,
    pub file_mb: u64,
    pub disk_mb: u64,
    pub open_files: u64,
}

impl From<JailLimits> for Limits {
    fn from(l: JailLimits) -> Limits {
        Limits {
            wall_ms: l.wall_ms,
            cpu_ms: l.cpu_ms,
            memory_mb: l.memory_mb,
            pids: l.pids,
            file_mb: l.file_mb,
            disk_mb: l.disk_mb,
            open_files: l.open_files,
        }
    }
}
