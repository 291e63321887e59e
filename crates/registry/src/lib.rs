//! Capabilities on disk: `index.json` and `tools/`, versions in git, search, statistics. `index.json` is the truth;
//! git is its history; the statistics can be lost without losing a capability. All calls block.

mod bump;
mod digest;
mod disk;
mod error;
mod git;
mod index;
mod recover;
mod registry;
mod search;
mod snapshot;
mod stats;
mod types;
mod write;

pub use digest::digest;
pub use error::RegistryError;
pub use registry::Registry;
pub use search::{FITS, SIMILAR, similarity};
pub use types::{Author, Code, Damaged, HistoryEntry, Hit, Listing, NewVersion, Registered, Run, Stats, Statuses};
