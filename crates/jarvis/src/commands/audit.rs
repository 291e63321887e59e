//! `jarvis audit`.

use crate::cli::{Common, unused_model};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::term;
use clap::{Subcommand, ValueEnum};
use jarvis_audit::{AuditLog, Filter, Kind};
use jarvis_protocol::value_text;

#[derive(Debug, Subcommand)]
#[command(arg = unused_model(), after_help = "Examples:\n  jarvis audit tail -n 50\n  jarvis audit verify")]
pub enum Audit {
    /// The last records, the oldest first.
    #[command(after_help = "Example:\n  jarvis audit tail -n 50 --kind outcome")]
    Tail {
        /// How many.
        #[arg(short, default_value_t = 20)]
        n: usize,
        #[arg(long)]
        kind: Option<KindArg>,
        /// Only what is about this capability.
        #[arg(long, value_name = "NAME")]
        subject: Option<String>,
    },
    /// Reads every byte and finds any that was changed, removed or added; exit code 1 if there is one.
    ///
    /// The chain of hashes has no key. Somebody who can write every file of the audit folder can write the whole chain
    /// and its head anew, cut the end and write a head that fits, or delete the folder: that is not found. Keep a copy,
    /// or the last hash, where they cannot write.
    #[command(after_help = "Example:\n  jarvis audit verify --json")]
    Verify,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KindArg {
    Intent,
    Outcome,
    Decision,
    Forge,
    Registry,
    Audit,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Intent => Kind::Intent,
            KindArg::Outcome => Kind::Outcome,
            KindArg::Decision => Kind::Decision,
            KindArg::Forge => Kind::Forge,
            KindArg::Registry => Kind::Registry,
            KindArg::Audit => Kind::Audit,
        }
    }
}

pub fn run(args: &Audit, common: &Common) -> Outcome {
    let log = AuditLog::open(Home::find()?.audit());
    match args {
        Audit::Tail { n, kind, subject } => {
            let filter = Filter { kind: kind.map(Kind::from), subject: subject.clone(), ..Filter::default() };
            let tail = log.tail(*n, &filter)?;
            if tail.unreadable > 0 {
                term::note(format!("{} lines are no records; `jarvis audit verify` says where", tail.unreadable));
            }
            if common.json {
                return tail.entries.iter().try_for_each(term::json);
            }
            let rows: Vec<Vec<String>> = tail
                .entries
                .iter()
                .map(|entry| {
                    let record = &entry.record;
                    let kind = serde_json::to_value(record.kind).map(|k| value_text(&k)).unwrap_or_default();
                    vec![
                        entry.seq.to_string(),
                        record.at.clone(),
                        record.actor.clone(),
                        kind,
                        record.subject.clone(),
                        record.detail.to_string(),
                    ]
                })
                .collect();
            term::table(&["seq", "at", "actor", "kind", "subject", "detail"], &rows)
        }
        Audit::Verify => {
            let verify = log.verify()?;
            if common.json {
                term::json(&verify)?;
            } else {
                for note in &verify.notes {
                    term::line(format!("note: {}:{}: {}", note.file, note.line, note.what))?;
                }
                for problem in &verify.problems {
                    term::line(format!("problem: {}:{}: {}", problem.file, problem.line, problem.what))?;
                }
                term::line(format!("{} records, {} problems", verify.records, verify.problems.len()))?;
            }
            if verify.problems.is_empty() { Ok(()) } else { Err(Failure::Told(1)) }
        }
    }
}
