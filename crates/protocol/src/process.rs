//! What the jail is asked to run: one program of the person's machine, and how much of the machine it may touch.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How much of the machine a process may touch. Keys, other people's homes and jarvis's own files are invisible in the
/// first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Everything read-only but a private `/tmp`.
    ReadOnly,
    /// The workspace can be written as well.
    #[default]
    WorkspaceWrite,
    /// Everything the person can change, but for keys and jarvis's own files. Asked for each time.
    Full,
}

impl Preset {
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::ReadOnly => "read-only",
            Preset::WorkspaceWrite => "workspace-write",
            Preset::Full => "full",
        }
    }
}

/// Bounds of one process with all its children. There is no `Default`; see [`ProcessLimits::STANDARD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Wall-clock milliseconds.
    pub timeout_ms: u64,
    /// Memory of all processes together, MiB.
    pub memory_mb: u64,
    /// Processes and threads at once.
    pub processes: u64,
    /// The largest file it may write, MiB.
    pub file_mb: u64,
    /// The private `/tmp`, MiB.
    pub disk_mb: u64,
    /// Standard output and standard error, each, bytes.
    pub output_bytes: u64,
}

impl ProcessLimits {
    pub const STANDARD: ProcessLimits = ProcessLimits {
        timeout_ms: 30_000,
        memory_mb: 2048,
        processes: 256,
        file_mb: 1024,
        disk_mb: 512,
        output_bytes: 1 << 20,
    };
}

/// One process to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessPlan {
    /// The program, then its arguments; no shell reads them.
    pub argv: Vec<String>,
    /// Where it starts; absolute.
    pub dir: PathBuf,
    pub preset: Preset,
    /// Shown beside what the preset shows, read-only; absolute.
    pub read: Vec<PathBuf>,
    /// With the preset read-only: folders that can be written all the same; absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Host patterns that the proxy lets through; none: no network at all.
    pub network: Vec<String>,
    pub limits: ProcessLimits,
}
