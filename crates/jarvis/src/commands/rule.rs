//! `jarvis rule`: what agents may do here, as rules that a person can read.

use crate::cli::{Common, Place, unused_model};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{run, term, workshop};
use clap::Subcommand;
use jarvis_dispatch::{Broken, KeptRules, RuleBook, RuleEntry, check_rules};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde_json::json;
use std::path::{Path, PathBuf};

const PLACES: &str = "\
Rules are YAML files in .jarvis/rules of the workspace, and in rules of jarvis's home. Deny wins over ask, ask over allow. An \
allow counts in a file of the home, or where a person said yes to just that file; it never opens what config closes. While a \
file cannot be read, everything is asked for.";

/// One of them, in a sentence.
const FILE: &str = "file of rules";

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = format!("Examples:\n  jarvis rule list\n  jarvis rule check\n\n{PLACES}")
)]
pub enum Rules {
    /// All of them, and what is broken.
    #[command(after_help = "Example:\n  jarvis rule list --json")]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// One of them, with its condition and examples.
    #[command(after_help = "Example:\n  jarvis rule show no-push")]
    Show {
        id: String,
        #[command(flatten)]
        place: Place,
    },
    /// Reads files (all that are in force, without one) and decides the examples of each rule.
    #[command(after_help = "Example:\n  jarvis rule check .jarvis/rules/no-push.yaml")]
    Check {
        files: Vec<PathBuf>,
        #[command(flatten)]
        place: Place,
    },
}

pub fn run(args: Rules, common: &Common) -> Outcome {
    let (Rules::List { place } | Rules::Show { place, .. } | Rules::Check { place, .. }) = &args;
    let home = Home::find()?;
    run::enter(place)?;
    let workspace = run::workspace()?;
    let book = run::rules(&home, &workspace).book();
    match args {
        Rules::List { .. } => list(&book, common.json),
        Rules::Show { id, .. } => show(&book, &id, common.json),
        Rules::Check { files, .. } => check(&book, files, &workspace, common.json),
    }
}

fn all(book: &RuleBook) -> impl Iterator<Item = (&KeptRules, &RuleEntry)> {
    book.files.iter().flat_map(|kept| kept.file.rules.iter().map(move |rule| (kept, rule)))
}

fn counts(kept: &KeptRules, rule: &RuleEntry) -> bool {
    kept.may_allow || rule.action.effect() != jarvis_dispatch::RuleEffect::Allow
}

fn list(book: &RuleBook, json: bool) -> Outcome {
    if json {
        let rules: Vec<_> = all(book)
            .map(|(kept, rule)| {
                json!({"id": rule.id, "effect": rule.action.effect(), "description": rule.description,
                    "condition": rule.condition, "priority": rule.priority, "path": kept.path, "counts": counts(kept, rule)})
            })
            .collect();
        return term::json(&json!({"rules": rules, "broken": book.broken}));
    }
    for (kept, rule) in all(book) {
        let word = json!(rule.action.effect());
        let not = if counts(kept, rule) { "" } else { " (does not count: nobody said yes to it here)" };
        term::line(format_args!("{}  {}{not}", word.as_str().unwrap_or_default(), term::flat(&rule.id)))?;
        term::line(format_args!("  {}", term::flat(&rule.description)))?;
    }
    if book.files.is_empty() {
        term::status("there are no rules yet");
    }
    workshop::tell(FILE, &book.broken);
    Ok(())
}

fn show(book: &RuleBook, id: &str, json: bool) -> Outcome {
    let Some((kept, rule)) = all(book).find(|(_, rule)| rule.id == id) else {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("no rule is called `{id}`"));
        return Err(Failure::from(body.hint("`jarvis rule list` shows what there is")));
    };
    if json {
        return term::json(&json!({"rule": rule, "path": kept.path, "counts": counts(kept, rule)}));
    }
    term::line(format_args!("from: {}", term::flat(&kept.path.display().to_string())))?;
    let text = std::fs::read_to_string(&kept.path).unwrap_or_default();
    term::line(text.trim_end())
}

fn check(book: &RuleBook, files: Vec<PathBuf>, workspace: &Path, json: bool) -> Outcome {
    let mut problems: Vec<Broken> = Vec::new();
    let mut fine = 0;
    if files.is_empty() {
        problems.extend(book.broken.iter().cloned());
    }
    let files = if files.is_empty() { book.files.iter().map(|kept| kept.path.clone()).collect() } else { files };
    for path in files {
        let read = std::fs::read(&path).map_err(|e| e.to_string());
        match read.and_then(|bytes| check_rules(&bytes, workspace, &run::person_or_root())) {
            Ok(file) => fine += file.rules.len(),
            Err(problem) => problems.push(Broken { path, problem }),
        }
    }
    if json {
        term::json(&json!({"fine": fine, "problems": problems}))?;
    } else {
        problems.iter().try_for_each(|broken| term::line(term::flat(&broken.told(FILE))))?;
        term::status(format!("{fine} rules are as they should be; files that are not: {}", problems.len()));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let body = ErrorBody::new(ErrorKind::Damaged, format!("files of rules that cannot be used: {}", problems.len()));
    Err(Failure::from(body.hint("mend them; see jarvis rule --help")))
}
