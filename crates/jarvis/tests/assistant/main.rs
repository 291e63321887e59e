//! The assistant: turns, tools, memory, subagents, sessions, chat, and what create_* makes.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod chat;
mod chat_terminal;
#[path = "../common/mod.rs"]
mod common;
mod create_command;
mod create_mcp;
mod create_rule;
mod create_skill;
mod escapes;
mod faults;
mod faults_tools;
mod folders;
mod memory;
mod scenes;
mod sessions;
mod shared_memory;
mod subagents;
mod tools;
mod turns;
