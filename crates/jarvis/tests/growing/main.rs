//! Turns with a scripted model, the real checks, the real sandbox (the shipped binary as worker) and a real home.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod bench;
mod bounds;
mod long;
mod native;
mod random;
mod refusals;
mod reuse;
mod staged;
