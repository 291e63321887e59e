//! Notes of other conversations: what fits the question is told to the model, and a model may look for more or propose
//! one. What is kept is a person's decision.

use crate::bootstrap::Did;
use jarvis_dispatch::{CallError, Dispatch};
use jarvis_memory::{Draft, Filter, Found, MemoryError, MemoryStore, NoteKind, Query, Remembered, matters};
use jarvis_model::Tool;
use jarvis_protocol::{ErrorKind, Event, ToolSpec};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

pub(crate) const REMEMBER: &str = "remember";
pub(crate) const RECALL: &str = "recall";

/// Notes told at the start of a turn.
const TOLD: usize = 5;
/// Notes that one `recall` gives.
const FOUND: usize = 8;
/// Notes looked at for them; the first by rank are not always those that matter.
const LOOKED_AT: usize = 20;
/// Characters of one note that reach a model.
const NOTE_CHARS: usize = 800;
/// Proposals that may wait for a person. Whoever makes a model propose without end gets no further.
const WAITING: usize = 100;

/// The notes of a person, or of a team.
#[derive(Clone)]
pub struct Memory {
    pub store: Arc<dyn MemoryStore>,
    /// The person said beforehand that what is proposed is kept.
    pub keeps: bool,
}

static SPECS: LazyLock<Vec<Tool>> = LazyLock::new(|| all().into_iter().map(Tool::from).collect());

pub(crate) fn specs() -> &'static [Tool] {
    &SPECS
}

fn all() -> Vec<ToolSpec> {
    let kinds: Vec<&str> = NoteKind::ALL.iter().map(|kind| kind.as_str()).collect();
    vec![
        ToolSpec {
            name: REMEMBER.to_owned(),
            description: "Propose a note for later conversations: a lasting fact, preference, project or decision of the \
                          person, in one sentence that stands by itself. The person decides whether it is kept. Not for \
                          secrets, nor for what this conversation alone needs."
                .to_owned(),
            parameters: json!({"type": "object", "required": ["text"], "additionalProperties": false, "properties": {
                "text": {"type": "string"},
                "type": {"enum": kinds},
                "importance": {"type": "integer", "minimum": 1, "maximum": 5},
                "tags": {"type": "array", "items": {"type": "string"}}}}),
        },
        ToolSpec {
            name: RECALL.to_owned(),
            description: "Search the notes from earlier conversations, by words and meaning.".to_owned(),
            parameters: json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
                "query": {"type": "string"}}}),
        },
    ]
}

impl Memory {
    /// The notes that have to do with `question`, as the model is told of them, and what went wrong.
    pub(crate) async fn told(&self, question: &str) -> (Vec<String>, Vec<String>) {
        match self.look(question, TOLD).await {
            Ok((found, notices)) => (found.iter().map(shown).collect(), notices),
            Err(error) => (Vec::new(), vec![format!("the notes of earlier conversations cannot be read: {error}")]),
        }
    }

    async fn look(&self, question: &str, most: usize) -> Result<(Vec<Found>, Vec<String>), MemoryError> {
        // Nothing is embedded for a memory that is empty.
        if self.store.list(&Filter::default(), 0, 1).await?.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let searched = self.store.search(&Query { limit: LOOKED_AT, ..Query::new(question) }).await?;
        let found = searched.found.into_iter().filter(|found| matters(question, found)).take(most).collect();
        Ok((found, searched.notices))
    }

    /// One call of a tool of the memory.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: &Value,
        session: &str,
        dispatch: &Dispatch,
        emit: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(Value, Did), CallError> {
        let spec = specs().iter().find(|spec| spec.name == tool);
        let checked = spec.map_or(Ok(()), |spec| jarvis_dispatch::check_arguments(&spec.parameters, args));
        checked.map_err(|problem| CallError::respond(ErrorKind::Usage, format!("{tool}: {problem}")))?;
        let work = async {
            match tool {
                REMEMBER => self.remember(args, session, emit).await,
                _ => self.recall(args, emit).await,
            }
            .map_err(|e| e.body())
        };
        let value = dispatch.own_tool(tool, args.clone(), work).await?;
        Ok((value, Did::Other))
    }

    async fn recall(&self, args: &Value, emit: &mut (dyn FnMut(Event) + Send)) -> Result<Value, MemoryError> {
        let (found, notices) = self.look(args["query"].as_str().unwrap_or_default(), FOUND).await?;
        notices.into_iter().for_each(|message| emit(Event::Notice { message }));
        let notes: Vec<String> = found.iter().map(shown).collect();
        if notes.is_empty() {
            return Ok(json!({"notes": [], "note": "nothing is remembered of this"}));
        }
        Ok(json!({"notes": notes}))
    }

    async fn remember(
        &self,
        args: &Value,
        session: &str,
        emit: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Value, MemoryError> {
        if !self.keeps && self.store.proposals().await?.len() >= WAITING {
            let message = format!("{WAITING} notes wait for the person already; `jarvis memory proposals` lists them");
            emit(Event::Notice { message: message.clone() });
            return Err(MemoryError::Invalid(message));
        }
        let text = args["text"].as_str().unwrap_or_default();
        let kind = args["type"].as_str().and_then(NoteKind::parse).unwrap_or(NoteKind::Note);
        let tags =
            args["tags"].as_array().map(|tags| tags.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        let draft = Draft {
            importance: args["importance"].as_u64().and_then(|n| u8::try_from(n).ok()),
            tags: tags.unwrap_or_default(),
            session: Some(session.to_owned()),
            // A key that a model has seen is no note.
            ..Draft::new(kind, jarvis_dispatch::redact(text))
        };
        let proposal = match self.store.remember(draft).await? {
            Remembered::Proposed(proposal) | Remembered::Waiting(proposal) => proposal,
            Remembered::Known(note) => return Ok(json!({"outcome": "known already", "note": note.text})),
            Remembered::Rejected { .. } => {
                return Ok(json!({"outcome": "the person has said no to this before; it is not kept"}));
            }
        };
        let (id, text) = (&proposal.note.id, one_line(&proposal.note.text));
        if self.keeps {
            self.store.accept(id, None).await?;
            emit(Event::Notice { message: format!("remembered: {text} (`jarvis memory forget {id}` undoes it)") });
            return Ok(json!({"outcome": "kept", "id": id}));
        }
        let more = if proposal.similar.is_empty() {
            String::new()
        } else {
            format!("; it is like {}", proposal.similar.join(", "))
        };
        let message = format!("proposed to be remembered: {text} (`jarvis memory accept {id}` keeps it{more})");
        emit(Event::Notice { message });
        Ok(json!({"outcome": "proposed; the person decides", "id": id}))
    }
}

/// A note as a model reads it. Whatever looks like a key stays here.
fn shown(found: &Found) -> String {
    let note = &found.note;
    let text = jarvis_dispatch::redact(&note.text);
    format!("{} ({}, {})", first_chars(&text, NOTE_CHARS), note.kind.as_str(), note.date)
}

fn one_line(text: &str) -> String {
    first_chars(&text.split_whitespace().collect::<Vec<_>>().join(" "), 200)
}

fn first_chars(text: &str, most: usize) -> String {
    let shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() { shown + "…" } else { shown }
}
