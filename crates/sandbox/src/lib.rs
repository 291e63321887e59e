//! Runs code that nobody trusts: checks it, hands it to a worker process without any authority, and reports what
//! really happened.

mod broker;
mod check;
mod control;
mod converse;
mod deno;
mod egress;
mod error;
mod executor;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod isolate;
mod jail;
mod outside;
mod peer;
mod pool;
mod probe;
mod process;
mod python;
mod server;
mod tool;
mod worker;
mod zygote;

pub use broker::{Access, Caller, Handed, MOST_DEPTH, Nesting, SHORTEST_SECRET, Secret, Secrets, Wanted};
pub use check::{Checked, Form, Use, UseKind, check};
pub use egress::{
    EgressDenied, EgressPolicy, EgressProxy, PatternError, ProxyLimits, ProxyListener, Resolver, check_host,
};
pub use error::SandboxError;
pub use executor::{Executor, SandboxConfig};
pub use jail::{
    FileNetwork, JAIL_HOME, Jail, JailClass, JailConfig, JailExit, JailLimits, JailNetwork, JailOutcome, JailSpec,
    JailStream, JailUser, Jailed, NetworkWish, NetworkWord, PROXY_PORT, Preset, Profile, STANDARD_PATH, SandboxFile,
    Seccomp, ServeProxy, Size, Stdin, UserText, View, jail_main, workspace_problem,
};
pub use outside::Outside;
pub use peer::{PeerRun, time_peer};
pub use probe::{Layer, probe, probe_with, start_times};
pub use process::{ProcessDone, Processes};
pub use python::packages::{DependencyError, Lock, Packages, Requirement, Wheel};
pub use python::{PythonServer, Runtimes, Served};
pub use server::{Server, ServerEnd};
pub use tool::{Match, NewFile, Placed, SearchWish, Searched, ToolDone, ToolError, ToolWork};
pub use zygote::worker_main;

/// The name of the person's code in the engine's stack traces.
const MODULE_NAME: &str = "capability.js";
