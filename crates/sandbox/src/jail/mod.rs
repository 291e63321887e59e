//! The jail for processes: new namespaces, a root of its own with only what was asked for, no rights, bounded, and gone
//! with jarvis. Made by system calls alone; nothing has to be installed.

mod cgroup;
mod check;
mod client;
mod file;
mod filter;
mod first;
mod fix;
mod guard;
mod kept;
mod landlock;
mod launcher;
mod lists;
mod oci;
mod placeholder;
mod plan;
mod program;
mod root;
mod run;
mod server;
mod settle;
mod spec;
mod strict;
mod watch;
mod wire;
mod without;

pub use client::{Jail, JailClass, JailConfig, JailExit, Jailed};
pub use file::{FileNetwork, NetworkWish, NetworkWord, SandboxFile, Size, UserText};
pub use filter::Seccomp;
pub(crate) use kept::{KEPT_NAMES, KEPT_PAIRS, same_name};
pub use lists::STANDARD_PATH;
pub use oci::Profile;
pub use run::{JailOutcome, JailStream};
pub use server::jail_main;
pub use settle::workspace_problem;
pub use spec::{JAIL_HOME, JailLimits, JailNetwork, JailSpec, JailUser, Preset, ServeProxy, Stdin, View};

/// Where the proxy listens, inside.
pub const PROXY_PORT: u16 = 3128;

/// The name under which the binary is the launcher.
pub(crate) const JAIL_NAME: &str = "jarvis-jail";
