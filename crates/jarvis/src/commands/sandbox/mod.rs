//! `jarvis sandbox`: code and programs by hand, in the same isolation that jarvis gives everything it runs.

mod classify;
mod code;
mod process;

use crate::cli::{Common, unused_model};
use crate::error::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = "Examples:\n  jarvis sandbox run hello.ts --args '{\"name\": \"Ada\"}'\n  jarvis sandbox run --runtime python hello.py\n  jarvis sandbox exec --preset read-only -- ls /\n  jarvis sandbox classify 'rm -rf ./build'"
)]
pub enum Sandbox {
    /// Runs a file of code once, as a capability would run, and registers nothing.
    #[command(after_help = code::HELP)]
    Run(code::Run),
    /// Runs a program in the jail that tools, servers and scripts run in.
    #[command(after_help = process::HELP)]
    Exec(process::Exec),
    /// Says what a command line would do before it runs: allow, ask or deny.
    #[command(after_help = classify::HELP)]
    Classify(classify::Classify),
}

pub fn run(args: Sandbox, common: &Common) -> Outcome {
    match args {
        Sandbox::Run(args) => code::run(&args, common),
        Sandbox::Exec(args) => process::run(&args, common),
        Sandbox::Classify(args) => classify::run(&args, common),
    }
}
