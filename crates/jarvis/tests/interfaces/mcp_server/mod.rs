//! `jarvis mcp serve`, the shipped binary, as hosts use it: scripted ones here, and the official clients.
#![allow(clippy::disallowed_methods, reason = "hosts and clients are started as a person would")]

mod bad;
mod grants;
mod growing;
mod host;
mod http;
mod offered;
mod peers;
