//! What goes into the registry and what comes out of it.

use jarvis_protocol::{Capability, CapabilityName, CreatedBy, Egress, Status, Version};
use std::collections::BTreeMap;

/// Who signs the commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub email: String,
}

/// Everything in `index.json`: a damaged entry does not hide the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// In the order of the file.
    pub capabilities: Vec<Capability>,
    pub damaged: Vec<Damaged>,
}

/// An entry that cannot be used. It stays in the file as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The entry's name, or `#3` for the third where it has none.
    pub entry: String,
    pub problem: String,
}

/// The source of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub text: String,
    /// False for a file that was changed by hand, or that was never checked (an index of another tool).
    pub matches_digest: bool,
}

/// Which capabilities a search looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statuses {
    /// Those that can be run: what models see.
    Active,
    /// Quarantined ones too, for a person who looks for what was imported.
    WithQuarantined,
}

impl Statuses {
    pub(crate) fn include(self, status: Status) -> bool {
        match status {
            Status::Active => true,
            Status::Quarantined => self == Statuses::WithQuarantined,
            Status::Disabled | Status::Retired => false,
        }
    }
}

/// One answer of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub capability: Capability,
    /// 0 to 1; comparable between searches. From [`FITS`](crate::FITS) on, the capability is likely what was asked for.
    pub score: f64,
    /// The suppression that fits the query better than the triggers do.
    pub suppressed_by: Option<String>,
}

/// A definition and its code, to become the next version of `capability.name`. The version, status, digest,
/// changelog, `tool_path` and `created` of `capability` are not read: the registry works them out.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVersion {
    pub capability: Capability,
    pub code: String,
    /// One line for the changelog.
    pub change: String,
    /// Kept from the first version on; only read for a new name.
    pub created_by: CreatedBy,
    /// The model that wrote this code.
    pub model: Option<String>,
    /// RFC 3339.
    pub now: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub name: CapabilityName,
    pub version: Version,
    /// Equal to `version` when nothing differed from what was registered; then nothing was written.
    pub previous: Option<Version>,
    /// The git commit that holds it, in hexadecimal.
    pub commit: String,
}

/// One execution, to be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub version: Version,
    pub ok: bool,
    /// Wall-clock microseconds.
    pub wall_us: u64,
    /// Of a failure: `timeout`, `threw`, …
    pub error_class: Option<String>,
    /// What it did with each host.
    pub egress: Vec<Egress>,
    /// RFC 3339.
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Of all versions together.
    pub runs: u64,
    pub failures: u64,
    /// Of the version that is registered now, at most ten, the newest last: true for success.
    pub recent: Vec<bool>,
    pub mean_ms: f64,
    /// RFC 3339.
    pub last_used: Option<String>,
    /// Failures by class.
    pub errors: BTreeMap<String, u64>,
    /// By host, of all runs together; the most asked first. Without a name: hosts beyond the first fifty.
    pub egress: Vec<Egress>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    pub version: Version,
    /// RFC 3339 or a plain date.
    pub date: String,
    pub change: String,
    /// In hexadecimal; none for a version made before the workspace had a git history.
    pub commit: Option<String>,
}
