//! One file per command.

mod agents;
pub mod ask;
mod audit;
mod bench;
mod bench_calls;
mod bench_mcp;
mod bench_registry;
mod bench_registry_data;
mod bench_sandbox;
mod cap;
mod chat;
mod completions;
mod config;
mod doctor;
mod mcp;
mod memory;
mod model;
mod sandbox;
mod secret;
mod selfext;
mod session;

use crate::cli::Common;
use crate::error::Outcome;
pub use cap::Cap;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// A conversation; also what `jarvis` alone is on a terminal.
    Chat(chat::Chat),
    /// Capabilities: what jarvis has learned to do.
    #[command(subcommand)]
    Cap(Cap),
    /// Conversations: kept as they happen, to go on with, copy, export.
    #[command(subcommand)]
    Session(session::Session),
    /// Notes: what is remembered beyond one conversation.
    #[command(subcommand)]
    Memory(memory::Memory),
    /// Subagents: whom a model can give a task of its own.
    #[command(subcommand)]
    Agents(agents::Agents),
    /// Models: which there are, fetching, testing, choosing.
    #[command(subcommand)]
    Model(model::Model),
    /// The Model Context Protocol: tools that others wrote, and jarvis as a server for other agents.
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    /// Settings.
    #[command(subcommand)]
    Config(config::Config),
    /// Secrets, by name: which there are, and the hosts that each may be sent to.
    #[command(subcommand)]
    Secret(secret::Secret),
    /// The record of what was meant to be done and what came of it.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Says what works here, and how to mend what does not.
    Doctor(doctor::Doctor),
    /// Code and programs by hand, in the isolation that jarvis gives everything it runs.
    #[command(subcommand)]
    Sandbox(sandbox::Sandbox),
    /// Measurements.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Completions for a shell.
    Completions(completions::Completions),
}

pub fn run(command: Command, common: &Common) -> Outcome {
    match command {
        Command::Chat(args) => chat::run(&args, common),
        Command::Cap(args) => cap::run(args, common),
        Command::Session(args) => session::run(args, common),
        Command::Memory(args) => memory::run(args, common),
        Command::Agents(args) => agents::run(args, common),
        Command::Model(args) => model::run(args, common),
        Command::Mcp(args) => mcp::run(args, common),
        Command::Config(args) => config::run(args, common),
        Command::Secret(args) => secret::run(args, common),
        Command::Audit(args) => audit::run(&args, common),
        Command::Doctor(args) => doctor::run(&args, common),
        Command::Sandbox(args) => sandbox::run(args, common),
        Command::Bench(args) => bench::run(&args, common),
        Command::Completions(args) => completions::run(&args),
    }
}
