//! The loop with scripted models: tools grown natively and staged, bounds, reuse; turns undone, images, refused messages,
//! titles, what a provider reads again, and what doctor says of the databases.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod bench;
mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod databases;
mod images;
mod long;
mod native;
mod prefix;
mod purposes;
mod random;
mod refusals;
mod refused;
mod reuse;
mod staged;
mod undo;
