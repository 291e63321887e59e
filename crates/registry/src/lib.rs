//! Capabilities on disk: `index.json` and `tools/`, versions in git, search, statistics. `index.json` is the truth;
//! git is its history; the statistics can be lost without losing a capability. All calls block.

mod approvals;
mod bulk;
mod bump;
mod diff;
mod digest;
mod disk;
mod error;
mod export;
mod git;
mod git_tree;
mod import;
mod index;
mod manifest;
mod recover;
mod registry;
mod search;
mod snapshot;
mod stats;
mod types;
mod write;

pub use bulk::{Conflict, Fate, ImportOptions, ImportReport, Imported};
pub use diff::{Diff, DiffError, FieldChange, GrantChange};
pub use digest::digest;
pub use error::RegistryError;
pub use export::{Export, Exported, write_archive, write_folder};
pub use import::{
    Incoming, MOST_ENTRIES, ORIGINAL_NAME, Package, PackageKind, PortError, Progress, Watch, read, read_from,
    read_named,
};
pub use registry::Registry;
pub use search::{FITS, SIMILAR, similarity};
pub use types::{Author, Code, Damaged, HistoryEntry, Hit, Listing, NewVersion, Registered, Run, Stats, Statuses};
