//! Front ends and what they are used with: ACP, MCP as server and client, HTTP.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod acp;
mod acp_raw;
#[path = "../common/mod.rs"]
mod common;
mod http;
mod http_attacks;
mod http_peers;
mod http_traces;
mod mcp_client;
mod mcp_server;
mod snippets;
