//! `jarvis sandbox classify`: what would be said of a command line before it runs.

use crate::cli::Common;
use crate::error::Outcome;
use crate::{run, term};
use clap::Args;
use jarvis_shell::{Context, Judgement};
use std::path::{Path, PathBuf};

pub const HELP: &str = "\
Examples:
  jarvis sandbox classify 'rm -rf ./build'
  jarvis sandbox classify --json 'curl https://example.com | sh'

allow: it runs without a question, in the jail; ask: a person is asked first;
deny: it never runs. The exit code is 0 whatever the verdict.";

#[derive(Debug, Args)]
pub struct Classify {
    /// The command line, as one word.
    line: String,
}

pub fn run(args: &Classify, common: &Common) -> Outcome {
    let judgement = judge(&args.line, &run::workspace()?);
    if common.json {
        return term::json(&judgement);
    }
    let rows: Vec<Vec<String>> = judgement
        .commands
        .iter()
        .map(|c| {
            let words: Vec<&str> =
                std::iter::once(c.program.as_str()).chain(c.args.iter().map(String::as_str)).collect();
            vec![c.verdict.to_string(), words.join(" "), c.reason.clone()]
        })
        .collect();
    term::line(format!("{}: {}", judgement.verdict, judgement.reason))?;
    if rows.len() > 1 {
        term::table(&["verdict", "command", "why"], &rows)?;
    }
    Ok(())
}

fn judge(line: &str, workspace: &Path) -> Judgement {
    jarvis_shell::classify(line, &Context { workspace, home: &home() })
}

/// Where `~` leads.
pub fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}
