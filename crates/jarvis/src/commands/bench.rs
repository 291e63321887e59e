//! `jarvis bench`.

use crate::cli::{Common, Lead, unused_model};
use crate::error::Outcome;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  jarvis bench selfext --tasks tasks.json\n  jarvis bench sandbox\n  jarvis bench registry\n  jarvis bench turns\n  jarvis bench mcp\n  jarvis bench serve"
)]
pub enum Bench {
    /// Self-extension tasks: each in a fresh process and home, reuse cases in the home of their task.
    #[command(
        after_help = "Examples:\n  jarvis bench selfext --tasks tasks.json\n  jarvis bench selfext --tasks tasks.json --only fib --json\n\n\
The file: {\"tasks\": [{\"id\", \"request\", \"answer\": REGEX}], \"reuse\": [the same], \"small_talk\": [TEXT]}\n\
Ctrl-C ends it: the task that runs is killed, and what there is so far is printed."
    )]
    Selfext(Selfext),
    /// What isolation costs, beside bare processes, bwrap, node and deno.
    #[command(arg = unused_model(), after_help = super::bench_sandbox::HELP)]
    Sandbox(super::bench_sandbox::Sandbox),
    /// How fast the registry is at several sizes, and how well it finds.
    #[command(arg = unused_model(), after_help = super::bench_registry::HELP)]
    Registry(super::bench_registry::BenchRegistry),
    /// What jarvis itself takes of a turn, one after the other and in many conversations at once.
    #[command(arg = unused_model(), after_help = super::bench_turns::HELP)]
    Turns(super::bench_turns::Turns),
    /// What a tool call by another agent, over stdio, adds to the call itself.
    #[command(arg = unused_model(), after_help = super::bench_mcp::HELP)]
    Mcp(super::bench_mcp::BenchMcp),
    /// What `jarvis serve` takes: memory, turns of many sessions at once, clients that come and go.
    #[command(arg = unused_model(), after_help = super::bench_serve::HELP)]
    Serve(super::bench_serve::BenchServe),
}

#[derive(Debug, Args)]
pub struct Selfext {
    /// The task file (JSON).
    #[arg(long, value_name = "FILE")]
    pub tasks: PathBuf,
    /// Only the tasks of this id; may be given more than once.
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,
    /// Seconds after which a task is killed and counts as wrong.
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub timeout: u64,
    /// Keep the homes of the tasks in this folder, to look at afterwards: DIR/ID of a task, DIR/talk.1 of the first small
    /// talk. One that is there already is refused.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    #[command(flatten)]
    pub lead: Lead,
}

pub fn run(args: &Bench, common: &Common) -> Outcome {
    match args {
        Bench::Selfext(args) => super::selfext::run(args, common),
        Bench::Sandbox(args) => super::bench_sandbox::run(args, common),
        Bench::Registry(args) => super::bench_registry::run(args, common),
        Bench::Turns(args) => super::bench_turns::run(args, common),
        Bench::Mcp(args) => super::bench_mcp::run(args, common),
        Bench::Serve(args) => super::bench_serve::run(args, common),
    }
}
