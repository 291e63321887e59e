//! Sessions: one row a message, written as it happens, so that a process that dies at any point leaves a history that
//! the next one goes on with.

mod checkpoint;
mod error;
mod export;
mod lease;
mod list;
mod mend;
mod store;
mod types;
mod wal;
mod writer;

pub use error::SessionError;
pub use mend::mend;
pub use store::SessionStore;
pub use types::{Loaded, NewSession, Parent, SessionInfo, SessionPage, SessionQuery};
pub use writer::SessionWriter;
