//! Runs code that nobody trusts: checks it, hands it to a worker process without any authority, and reports what
//! really happened.

mod broker;
mod check;
mod control;
mod converse;
mod error;
mod executor;
mod frame;
mod isolate;
mod pool;
mod probe;
mod worker;
mod zygote;

pub use broker::{Access, Secrets};
pub use check::{Checked, Form, MAX_CODE_BYTES, Use, UseKind, check};
pub use error::SandboxError;
pub use executor::{Executor, SandboxConfig};
pub use probe::{Layer, probe, probe_with};
pub use zygote::worker_main;

/// The name of the person's code in the engine's stack traces.
const MODULE_NAME: &str = "capability.js";
