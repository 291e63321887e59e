//! Capabilities on disk: `index.json` and `tools/`, versions in git, search, statistics. `index.json` is the truth;
//! git is its history; the statistics can be lost without losing a capability. All calls block.

mod approvals;
mod aside;
mod bulk;
mod bump;
mod check;
mod diff;
mod digest;
mod disk;
mod edges;
mod error;
mod export;
mod git;
mod git_tree;
pub mod health;
mod import;
mod in_use;
mod index;
mod manifest;
mod merge;
mod middle;
mod recover;
mod registry;
mod search;
mod snapshot;
mod stats;
mod tip;
mod types;
mod vectors;
mod write;

pub use bulk::{Conflict, Fate, ImportOptions, ImportReport, Imported};
pub use check::{Level, Repaired, Trouble};
pub use diff::{Diff, DiffError, FieldChange, GrantChange};
pub use digest::digest;
pub use edges::CallEdge;
pub use error::RegistryError;
pub use export::{Export, Exported, write_archive, write_folder};
pub use import::{
    Incoming, MOST_ENTRIES, ORIGINAL_NAME, Package, PackageKind, PortError, Progress, Watch, read, read_from,
    read_named,
};
pub use in_use::JUDGED_RUNS;
pub use merge::{MergeConflict, Merged, Side};
pub use middle::Middle;
pub use registry::Registry;
pub use search::{Described, FITS, Labelled, Quality, Query, SIMILAR, Shelf, Shelved, quality, similarity};
pub use types::{
    Author, Code, Damaged, FailingCall, HistoryEntry, Hit, InUse, Listing, Near, NewVersion, Registered, Run, Stats,
    Statuses,
};
pub use vectors::TextDigest;
