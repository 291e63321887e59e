//! What a classification says: one verdict for the whole, one for each simple command found in it.

use serde::Serialize;
use std::fmt;

/// Ordered from harmless to forbidden, so the worst of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Reads, or changes things within the workspace and the temporary folder.
    Allow,
    /// Goes further, or cannot be looked into: the person decides.
    Ask,
    /// Never run.
    Deny,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        })
    }
}

/// One program start (or one redirection, whose `program` is its operator) with its own verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimpleCommand {
    /// The program's word after quotes and known variables are resolved; `…` stands for what is not known.
    pub program: String,
    /// The arguments, resolved in the same way.
    pub args: Vec<String>,
    pub verdict: Verdict,
    pub reason: String,
}

impl SimpleCommand {
    /// The command on one line, cut to 80 characters.
    fn shown(&self) -> String {
        let mut line = self.program.clone();
        for arg in &self.args {
            line.push(' ');
            line.push_str(arg);
            if line.len() > 400 {
                break;
            }
        }
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match line.char_indices().nth(80) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// The verdict on a whole command line: the worst of its simple commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// What, why, and about which simple command; for people and for the model.
    pub reason: String,
    /// Every simple command found, in the order found, however deeply wrapped.
    pub commands: Vec<SimpleCommand>,
}

impl Judgement {
    /// A verdict on the text as a whole, when there is no simple command to name.
    pub(crate) fn whole(verdict: Verdict, reason: impl Into<String>) -> Judgement {
        Judgement { verdict, reason: reason.into(), commands: Vec::new() }
    }

    pub(crate) fn of(commands: Vec<SimpleCommand>) -> Judgement {
        let mut worst: Option<&SimpleCommand> = None;
        for command in &commands {
            if worst.is_none_or(|w| command.verdict > w.verdict) {
                worst = Some(command);
            }
        }
        match worst {
            None => Judgement::whole(Verdict::Allow, "nothing to run"),
            Some(w) => Judgement { verdict: w.verdict, reason: format!("`{}`: {}", w.shown(), w.reason), commands },
        }
    }

    pub(crate) fn at_least(&mut self, verdict: Verdict, reason: String) {
        if verdict > self.verdict {
            self.verdict = verdict;
            self.reason = reason;
        }
    }
}

/// A verdict with its reason, before it is tied to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub verdict: Verdict,
    pub reason: String,
}

impl Finding {
    pub fn allow(reason: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Allow, reason: reason.into() }
    }

    pub fn ask(reason: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Ask, reason: reason.into() }
    }

    pub fn deny(reason: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Deny, reason: reason.into() }
    }

    /// The worse of two; of equals, the first that says something.
    pub fn or_worse(self, other: Finding) -> Finding {
        let silent = self.verdict == other.verdict && self.reason.is_empty();
        if other.verdict > self.verdict || silent { other } else { self }
    }

    pub fn worst(findings: impl IntoIterator<Item = Finding>) -> Option<Finding> {
        findings.into_iter().reduce(Finding::or_worse)
    }
}
