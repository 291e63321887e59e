//! What is kept between turns and between conversations. Sessions: every message in SQLite as it happens. Notes:
//! Markdown files are the truth, SQLite finds them. Calls of sessions block; those of notes are asynchronous.

mod db;
mod notes;
mod segment;
mod session;

pub use db::Examined;
#[cfg(feature = "postgres")]
pub use notes::PostgresStore;
pub use notes::{
    Document, Draft, Embed, Filter, Forget, Forgotten, Found, MemoryError, MemoryStore, Note, NoteKind, Problem,
    Proposal, Query, Reindexed, Remembered, Searched, SqliteStore, Why, matters,
};
pub use session::{
    Loaded, NewSession, Parent, SessionError, SessionInfo, SessionPage, SessionQuery, SessionStore, SessionWriter, mend,
};
