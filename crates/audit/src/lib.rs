//! The record of what jarvis meant to do and what came of it: append-only, hash-chained, without secrets.
//!
//! A line is `{"hash":"…",…}`; the hash is BLAKE3 over the previous line's hash and all bytes after its own. Changed,
//! removed, reordered and inserted lines are found by it; lines missing at the end by `head.json`, which names the
//! last one. It shows damage and clumsy tampering; whoever can rewrite every file can rewrite the chain.

mod chain;
mod head;
mod log;
mod record;
mod redact;
mod verify;

pub use log::AuditLog;
pub use record::{AuditError, Entry, Filter, Kind, Record, Tail};
pub use redact::redact;
pub use verify::{Problem, Verify};
