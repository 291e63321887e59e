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
mod vectors;
mod write;

pub use digest::digest;
pub use error::RegistryError;
pub use registry::Registry;
pub use search::{Described, FITS, Labelled, Quality, Query, SIMILAR, quality, similarity};
pub use types::{
    Author, Code, Damaged, HistoryEntry, Hit, Listing, Near, NewVersion, Registered, Run, Stats, Statuses,
};
pub use vectors::TextDigest;
