//! `jarvis mcp`: servers of the Model Context Protocol.

mod serve;

use crate::cli::{Common, unused_model};
use crate::error::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
#[command(arg = unused_model(), after_help = "Examples:\n  jarvis mcp serve\n  claude mcp add jarvis -- jarvis mcp serve")]
pub enum Mcp {
    /// Serves capabilities to another agent: searched, written, proved and run there as here.
    #[command(after_help = serve::HELP)]
    Serve(serve::Serve),
}

pub fn run(args: Mcp, common: &Common) -> Outcome {
    match args {
        Mcp::Serve(args) => serve::run(&args, common),
    }
}
