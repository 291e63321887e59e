//! The Model Context Protocol: jarvis as a server, and other servers as tools.

pub mod client;
pub mod probe;
pub mod server;
