//! One file per command.

mod acp;
mod agents;
pub mod ask;
mod audit;
mod bench;
mod bench_calls;
mod bench_mcp;
mod bench_registry;
mod bench_registry_data;
mod bench_sandbox;
mod bench_serve;
mod bench_serve_world;
mod bench_turns;
mod bench_turns_meter;
mod bench_turns_world;
mod cap;
mod chat;
mod command;
mod completions;
mod config;
mod doctor;
mod mcp;
mod memory;
mod model;
mod rule;
mod sandbox;
mod secret;
mod selfext;
mod serve;
mod session;
mod skill;

use crate::cli::Common;
use crate::error::Outcome;
pub use cap::Cap;
pub use chat::words as chat_words;
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
    /// Skills: how something is done here, with instructions and scripts.
    #[command(subcommand)]
    Skill(skill::Skills),
    /// Rules: what agents may do here.
    #[command(subcommand)]
    Rule(rule::Rules),
    /// Commands: requests that are made again and again, each by its name.
    #[command(subcommand)]
    #[command(name = "command")]
    Kept(command::Commands),
    /// In editors: the Agent Client Protocol on stdin and stdout.
    Acp(acp::Acp),
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
    /// The agent over HTTP: REST, server-sent events, an endpoint in OpenAI's form.
    Serve(serve::Serve),
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
        Command::Skill(args) => skill::run(args, common),
        Command::Rule(args) => rule::run(args, common),
        Command::Kept(args) => command::run(args, common),
        Command::Acp(args) => acp::run(args, common),
        Command::Model(args) => model::run(args, common),
        Command::Mcp(args) => mcp::run(args, common),
        Command::Config(args) => config::run(args, common),
        Command::Secret(args) => secret::run(args, common),
        Command::Audit(args) => audit::run(&args, common),
        Command::Serve(args) => serve::run(args, common),
        Command::Doctor(args) => doctor::run(&args, common),
        Command::Sandbox(args) => sandbox::run(args, common),
        Command::Bench(args) => bench::run(&args, common),
        Command::Completions(args) => completions::run(&args),
    }
}
