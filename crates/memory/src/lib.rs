//! What is kept between turns and between conversations. Sessions: every message in SQLite as it happens. Notes:
//! Markdown files are the truth, SQLite finds them. Calls of sessions block; those of notes are asynchronous.

mod db;
mod segment;
mod session;

pub use session::{
    Loaded, NewSession, Parent, SessionError, SessionInfo, SessionPage, SessionQuery, SessionStore, SessionWriter, mend,
};
