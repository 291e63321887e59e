//! What can be looked at in a conversation without asking the model.

use super::{Conversation, slash};
use crate::commands::{agents, memory, session};
use crate::error::Outcome;
use crate::{kept, notes, run, term};
use jarvis_model::{ModelHandle, Spent};
use jarvis_protocol::Purpose;
use serde_json::json;
use std::collections::BTreeMap;

impl Conversation<'_> {
    pub(super) fn help(&self) -> Outcome {
        let help = slash::help(&self.own()?.help());
        if self.common.json {
            // Among JSON lines it would be none.
            term::note(help);
            return Ok(());
        }
        term::line(help)
    }

    pub(super) fn which_model(&self) -> Outcome {
        let id = self.session.model().id();
        if self.common.json { term::json(&json!({"model": id})) } else { term::line(id) }
    }

    /// The total of the session, and what this process spent of it on which model for what.
    pub(super) fn cost(&self) -> Outcome {
        let usage = self.session.usage();
        let spent = self.spent();
        if self.common.json {
            let spent: Vec<_> = spent
                .iter()
                .map(|((model, purpose), spent)| {
                    json!({"model": model, "purpose": purpose, "calls": spent.calls, "usage": spent.usage})
                })
                .collect();
            return term::json(&json!({"usage": usage, "spent": spent}));
        }
        term::line(format!(
            "{} tokens in ({} from a cache), {} out, ${:.4}",
            usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.cost_usd
        ))?;
        if spent.is_empty() {
            return Ok(());
        }
        let row = |((model, purpose), spent): (&(String, Purpose), &Spent)| {
            let usage = &spent.usage;
            let counts = [spent.calls, usage.input_tokens, usage.output_tokens].map(|count| count.to_string());
            let mut row = vec![purpose.to_string()];
            row.extend(counts);
            row.push(format!("${:.4}", usage.cost_usd));
            row.push(model.clone());
            row
        };
        let rows: Vec<Vec<String>> = spent.iter().map(row).collect();
        term::table(&["FOR", "CALLS", "IN", "OUT", "COST", "MODEL"], &rows)
    }

    fn spent(&self) -> BTreeMap<(String, Purpose), Spent> {
        let mut all: BTreeMap<(String, Purpose), Spent> = BTreeMap::new();
        for handle in self.earlier.iter().chain([self.session.model()]) {
            for (purpose, spent) in ModelHandle::spent(handle) {
                let sum = all.entry((handle.id().to_owned(), purpose)).or_default();
                sum.calls += spent.calls;
                sum.usage.add(spent.usage);
            }
        }
        all
    }

    pub(super) fn tools(&self) -> Outcome {
        let listed = run::registry(&self.home)?.list()?.capabilities;
        if self.common.json {
            return term::json(&json!({"capabilities": listed}));
        }
        if listed.is_empty() {
            term::status("nothing is registered yet");
        }
        listed.iter().try_for_each(|c| term::line(term::flat(&format!("{} — {}", c.signature(), c.capability))))
    }

    pub(super) fn sessions(&self) -> Outcome {
        session::here(&kept::sessions(&self.home)?, self.common.json)
    }

    pub(super) async fn memory(&self, words: &str) -> Outcome {
        let embedder = if words.is_empty() { None } else { self.embedder()? };
        memory::look(notes::open(&self.home, &self.settings, embedder)?.as_ref(), words, self.common.json).await
    }

    pub(super) fn agents(&self) -> Outcome {
        agents::list(&run::agents(&self.home)?.load(), self.common.json)
    }
}
