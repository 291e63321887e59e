//! Capabilities by the commands of the binary: kept, found, run, granted, ported, measured.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod composing;
mod crowd;
mod doctor_registry;
mod grants;
mod kills;
mod lifecycle;
mod porting;
mod registry;
mod sandbox;
mod search;
mod secrets;
