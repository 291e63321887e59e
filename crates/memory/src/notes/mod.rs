//! Notes: what is worth knowing beyond one conversation. Proposed, shown, accepted, found, forgotten.

mod error;
mod files;
mod fuse;
mod markdown;
#[cfg(feature = "postgres")]
mod postgres;
mod similar;
mod sqlite;
mod store;
mod types;
mod vectors;

pub use error::MemoryError;
pub use markdown::Document;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use similar::matters;
pub use sqlite::SqliteStore;
pub use store::{Embed, MemoryStore};
pub use types::{
    Draft, Filter, Forget, Forgotten, Found, Note, NoteKind, Problem, Proposal, Query, Reindexed, Remembered, Searched,
    Why,
};
