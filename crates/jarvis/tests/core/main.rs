//! The assistant of the shipped binary: turns undone, images, refused messages, titles, what a provider reads again, and
//! what doctor says of the databases.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

#[path = "../growing/bench.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod bench;
#[path = "../common/mod.rs"]
mod common;

mod databases;
mod images;
mod prefix;
mod purposes;
mod refused;
mod undo;
