//! The record of what jarvis meant to do and what came of it: append-only, hash-chained, without secrets.
//!
//! A line is `{"hash":"…",…}`; the hash is BLAKE3 over the previous line's hash and all bytes after its own. Changed,
//! removed, reordered and inserted lines are found by it; lines missing at the end by `head.json`, which names the
//! last one; without it, a log with records has been tampered with, for the head is made first.
//!
//! What is not found: there is no key, so whoever can write every file can write the whole chain and its head anew, cut
//! the end and write a head that fits, or delete the folder. Only a copy (or the last hash) kept elsewhere shows that.

mod chain;
mod head;
mod log;
mod private;
mod queue;
mod record;
mod redact;
mod verify;

pub use log::AuditLog;
pub use queue::Duty;
pub use record::{AuditError, Entry, Filter, Kind, Record, Tail};
pub use redact::{redact, redact_value};
pub use verify::{Problem, Verify};
