//! Judges a shell command before it runs: allow, ask the person, or deny.
//!
//! The command will run in a jail (workspace writable, the rest read-only, no network, secrets out of sight), so this is
//! the second wall, not the first: it exists so that a person is asked about what matters and only about that. It reads
//! nothing but its arguments. What cannot be told from the text is `Ask`.
//!
//! The order of work: `text` looks for characters that deceive, `lex`, `quote` and `heredoc` cut the command into words,
//! `grammar` gets its tree from tree-sitter, `walk` and `flow` follow the tree in the order bash would run it (folder,
//! variables and functions as they change), `expand` turns words into arguments, and `rules` judges each simple command.

mod expand;
mod flow;
mod grammar;
mod heredoc;
mod lex;
mod listing;
mod paths;
mod pattern;
mod places;
mod programs;
mod quote;
mod rules;
mod sheet;
mod state;
mod text;
mod tree;
mod verdict;
mod walk;

pub use verdict::{Judgement, SimpleCommand, Verdict};

use std::path::Path;

/// Longest command that is looked into, in bytes; a longer one is `Ask`.
pub const MAX_COMMAND_BYTES: usize = 64 * 1024;

/// Where the command would run. Both paths are absolute and without `..`.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The folder the command starts in and may change.
    pub workspace: &'a Path,
    /// The person's home folder, for `~` and `$HOME`.
    pub home: &'a Path,
}

/// Judges `command` as bash would run it. Never fails and never panics: what cannot be read is [`Verdict::Ask`].
pub fn classify(command: &str, context: &Context) -> Judgement {
    if command.len() > MAX_COMMAND_BYTES {
        return Judgement::whole(
            Verdict::Ask,
            format!("the command is longer than {} KiB, too long to look through", MAX_COMMAND_BYTES / 1024),
        );
    }
    let clean = text::clean(command);
    let mut judgement = walk::judge(&clean.text, context);
    if let Some(plain) = &clean.without_disguise {
        let other = walk::judge(plain, context);
        if other.verdict > judgement.verdict {
            judgement = other;
        }
    }
    if let Some(warning) = clean.warning {
        judgement.at_least(Verdict::Ask, warning);
    }
    judgement
}
