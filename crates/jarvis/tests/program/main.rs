//! The program itself: arguments, settings, health, downloads, and what all sources keep to.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod config;
mod embedded;
mod fetch;
mod health;
mod layering;
mod sources;
