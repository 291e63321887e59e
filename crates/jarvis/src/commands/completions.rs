//! `jarvis completions SHELL`.

use crate::cli::{Cli, unused_json, unused_model};
use crate::error::Outcome;
use crate::term;
use clap::{Args, CommandFactory};

#[derive(Debug, Args)]
#[command(
    arg = unused_model(),
    arg = unused_json(),
    after_help = "Example:\n  jarvis completions bash > ~/.local/share/bash-completion/completions/jarvis"
)]
pub struct Completions {
    shell: clap_complete::Shell,
}

pub fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jarvis", &mut script);
    term::text(String::from_utf8_lossy(&script))
}
