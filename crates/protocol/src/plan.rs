//! What the sandbox is asked to run, and what it reports.

use crate::{CapabilityName, Grants, Limits, Runtime, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whose code runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A registered version.
    Capability { name: CapabilityName, version: Version, digest: String },
    /// Code that forge is verifying and nobody has approved.
    Candidate { name: CapabilityName, digest: String },
}

impl Subject {
    pub fn name(&self) -> &CapabilityName {
        match self {
            Subject::Capability { name, .. } | Subject::Candidate { name, .. } => name,
        }
    }
}

/// Fixed sources of change, so that two runs of pure code can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    pub random_seed: u64,
    /// Milliseconds since the epoch that `Date` shows.
    pub now_ms: i64,
}

/// One execution. `code` is the person's own source; types are stripped inside the sandbox crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecPlan {
    pub subject: Subject,
    pub runtime: Runtime,
    pub code: String,
    pub args: Value,
    pub grants: Grants,
    pub limits: Limits,
    /// Packages that the code imports; see [`crate::Capability`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    #[serde(default)]
    pub fixed: Option<Fixed>,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitClass {
    Ok,
    /// Does not parse, or imports what it may not.
    Rejected,
    /// The code threw, rejected, or returned what has no form as data.
    Threw,
    Timeout,
    Memory,
    Output,
    Cancelled,
    /// The worker died or broke the protocol.
    Crashed,
}

/// An error in the person's own lines (source-mapped), 1-based.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptError {
    /// `TypeError`, `SyntaxError`, …
    pub name: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl ScriptError {
    /// An error without a place in the code.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), line: None, column: None }
    }
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.message)?;
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        Ok(())
    }
}

/// What really happened. Data: nothing in it is ever executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub exit: ExitClass,
    /// The returned value. A whole number beyond ±(2^53−1) that the code held as BigInt is a decimal string.
    pub result: Option<Value>,
    pub error: Option<ScriptError>,
    /// What the code printed, capped.
    pub printed: String,
    pub wall_us: u64,
    pub cpu_us: u64,
    pub peak_memory_kb: u64,
    /// The layers really in force, e.g. `namespaces`, `seccomp`, `landlock`, `rlimits`.
    pub isolation: Vec<String>,
    /// What left and came back, host by host; empty where nothing was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Egress>,
    /// Capabilities that it called, in the order in which they ended; theirs included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Called>,
}

/// One call of a capability by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    pub caller: CapabilityName,
    pub name: CapabilityName,
    pub version: Version,
    pub ok: bool,
    /// 1 for what the outermost code calls itself.
    pub depth: u32,
}

/// What one execution did with one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Egress {
    /// With its port, where it is not the usual one.
    pub host: String,
    pub requests: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Attempts that were refused.
    #[serde(default)]
    pub denied: u64,
}

impl Execution {
    /// Why there is no value, in one line.
    pub fn failure(&self) -> String {
        match (&self.error, self.exit) {
            (Some(error), _) => error.to_string(),
            (None, ExitClass::Timeout) => "it did not end within its time limit".to_owned(),
            (None, ExitClass::Memory) => "it needed more memory than its limit".to_owned(),
            (None, ExitClass::Output) => "its output is larger than its limit".to_owned(),
            (None, ExitClass::Cancelled) => "it was cancelled".to_owned(),
            (None, ExitClass::Crashed) => "its worker died".to_owned(),
            (None, ExitClass::Ok | ExitClass::Rejected | ExitClass::Threw) => "it ended without a result".to_owned(),
        }
    }
}
