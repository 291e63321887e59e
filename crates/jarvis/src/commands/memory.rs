//! `jarvis memory`: notes, and what is proposed to become one.

use crate::cli::{Common, unused_model};
use crate::config;
use crate::error::{Failure, Outcome, usage};
use crate::home::Home;
use crate::kept::notes;
use crate::{model, run, term};
use clap::{Args, Subcommand};
use jarvis_memory::{Draft, Filter, Forget, MemoryStore, Note, NoteKind, Proposal, Query, SqliteStore};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde_json::json;

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = "Examples:\n  jarvis memory add \"I work in UTC+8\" --type preference\n  jarvis memory search \"time zone\"\n  \
        jarvis memory proposals\n\nNotes are Markdown files in the folder `memory` of jarvis's home; edit them there. \
        An ID's beginning is enough."
)]
pub enum Memory {
    /// Notes, the newest first.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory list --type decision")]
    List(List),
    /// Notes by their words and, where `embeddings.model` is set, by their meaning.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory search \"数据库端口\"")]
    Search {
        #[arg(required = true)]
        query: Vec<String>,
        #[command(flatten)]
        list: List,
    },
    /// Keeps a note.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory add \"Staging's database listens on 5433\" --type fact --tags db,staging")]
    Add(Add),
    /// A note or a proposal.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory show 20260314-1f")]
    Show { id: String },
    /// Forgets notes and proposals: the files, the index, the vectors. Sessions they came from stay.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis memory forget 20260314-1f\n  jarvis memory forget --query \"old office\"")]
    Forget(ForgetArgs),
    /// What models propose to remember; nothing of it is used before a person's yes.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory proposals")]
    Proposals,
    /// Keeps a proposal as a note.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis memory accept 20260314-1f\n  jarvis memory accept 20260314-1f --replacing 20251002-77")]
    Accept {
        id: String,
        /// The note whose place it takes.
        #[arg(long, value_name = "ID")]
        replacing: Option<String>,
    },
    /// Drops a proposal; the same is not proposed again.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory reject 20260314-1f")]
    Reject { id: String },
    /// Makes the index anew from the files, and vectors that are missing.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis memory reindex")]
    Reindex,
}

#[derive(Debug, Args)]
pub struct List {
    /// fact, preference, project, decision or note. More than once for more.
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    kinds: Vec<NoteKind>,
    /// With this tag. More than once: with all of them.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Of this importance at least, 1 to 5.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    importance: Option<u8>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Debug, Args)]
pub struct Add {
    #[arg(required = true)]
    text: Vec<String>,
    /// fact, preference, project, decision or note.
    #[arg(long = "type", value_name = "TYPE", value_parser = kind, default_value = "note")]
    kind: NoteKind,
    /// Words to find it by, with commas between them.
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    tags: Vec<String>,
    /// 1 (hardly matters) to 5 (very much).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    importance: Option<u8>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ForgetArgs {
    ids: Vec<String>,
    /// Every note and proposal that has all of these words.
    #[arg(long, value_name = "WORDS")]
    query: Option<String>,
}

fn kind(raw: &str) -> Result<NoteKind, String> {
    NoteKind::parse(raw).ok_or_else(|| {
        let known: Vec<&str> = NoteKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("one of {}", known.join(", "))
    })
}

impl List {
    fn filter(&self) -> Filter {
        let (kinds, tags) = (self.kinds.clone(), self.tags.clone());
        Filter { kinds, tags, min_importance: self.importance, ..Filter::default() }
    }
}

pub fn run(args: Memory, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    // Only where something is searched or indexed is a model asked.
    let embeds = matches!(args, Memory::Search { .. } | Memory::Reindex);
    let embedder = if embeds { model::embedder(&settings, &home)? } else { None };
    let store = notes(&home, embedder)?;
    run::block(async |signals| {
        let cancel = signals.work();
        tokio::select! {
            done = act(args, &store, common.json) => done,
            () = cancel.cancelled() => Err(Failure::Told(130)),
        }
    })
}

/// Within a conversation: the newest notes, or those that `words` find, and whether any waits for a yes.
pub async fn look(store: &SqliteStore, words: &str, json: bool) -> Outcome {
    let list = List { kinds: Vec::new(), tags: Vec::new(), importance: None, limit: 20 };
    let searches = !words.is_empty();
    let args = if searches { Memory::Search { query: vec![words.to_owned()], list } } else { Memory::List(list) };
    act(args, store, json).await?;
    let waiting = store.proposals().await?.len();
    if waiting > 0 {
        term::status(format!("{waiting} proposed, not used before your yes: jarvis memory proposals"));
    }
    Ok(())
}

async fn act(args: Memory, store: &SqliteStore, json: bool) -> Outcome {
    match args {
        Memory::List(list) => {
            let notes = store.list(&list.filter(), 0, list.limit).await?;
            if json {
                return term::json(&json!({"notes": notes}));
            }
            table(&notes, "nothing is remembered; `jarvis memory add TEXT` keeps a note")
        }
        Memory::Search { query, list } => search(store, query.join(" "), &list, json).await,
        Memory::Add(args) => {
            let draft =
                Draft { importance: args.importance, tags: args.tags, ..Draft::new(args.kind, args.text.join(" ")) };
            let note = store.add(draft).await?;
            told(&note, json, "it is remembered")
        }
        Memory::Show { id } => {
            let id = existing(store, &id).await?;
            let note = match store.get(&id).await {
                Ok(note) => note,
                Err(error) => match proposed(store, &id).await? {
                    Some(proposal) => proposal.note,
                    None => return Err(error.into()),
                },
            };
            if json {
                return term::json(&note);
            }
            term::line(&note.text)?;
            term::status(about(&note));
            Ok(())
        }
        Memory::Forget(args) => forget(store, args, json).await,
        Memory::Proposals => {
            let proposals = store.proposals().await?;
            if json {
                return term::json(&json!({"proposals": proposals}));
            }
            let notes: Vec<Note> = proposals.into_iter().map(|proposal| proposal.note).collect();
            table(&notes, "nothing waits for a yes")?;
            if !notes.is_empty() {
                term::status("jarvis memory accept ID keeps one, jarvis memory reject ID drops it");
            }
            Ok(())
        }
        Memory::Accept { id, replacing } => {
            let id = existing(store, &id).await?;
            let replacing = match replacing {
                Some(other) => Some(existing(store, &other).await?),
                None => None,
            };
            let note = store.accept(&id, replacing.as_deref()).await?;
            told(&note, json, "it is remembered")
        }
        Memory::Reject { id } => {
            let id = existing(store, &id).await?;
            let proposal = store.reject(&id).await?;
            if json {
                return term::json(&proposal);
            }
            term::status(format!("{id} is dropped, and not proposed again"));
            Ok(())
        }
        Memory::Reindex => {
            let done = store.reindex().await?;
            if json {
                return term::json(&done);
            }
            term::status(format!("{} notes, {} new vectors", done.notes, done.embedded));
            for problem in &done.problems {
                term::note(format!("{}: {}", problem.path.display(), problem.problem));
            }
            done.notices.iter().for_each(term::note);
            Ok(())
        }
    }
}

async fn search(store: &SqliteStore, text: String, list: &List, json: bool) -> Outcome {
    let query = Query { text, filter: list.filter(), limit: list.limit };
    let searched = store.search(&query).await?;
    if json {
        return term::json(&searched);
    }
    searched.notices.iter().for_each(term::status);
    let notes: Vec<Note> = searched.found.into_iter().map(|found| found.note).collect();
    table(&notes, "nothing is remembered of this")
}

async fn forget(store: &SqliteStore, args: ForgetArgs, json: bool) -> Outcome {
    let what = match args.query {
        Some(words) => Forget::Words(words),
        None => {
            let mut ids = Vec::new();
            for id in &args.ids {
                let id = existing(store, id).await?;
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
            Forget::Ids(ids)
        }
    };
    let forgotten = store.forget(&what).await?;
    if json {
        return term::json(&forgotten);
    }
    let count = forgotten.notes.len() + forgotten.proposals.len();
    term::status(if count == 0 { "nothing has all of these words".to_owned() } else { format!("forgotten: {count}") });
    for problem in &forgotten.unread {
        term::note(format!("{} cannot be read and may still hold it: {}", problem.path.display(), problem.problem));
    }
    if forgotten.traces {
        term::note("another process was reading; its copy leaves the disk with the next write");
    }
    Ok(())
}

/// The one note or proposal whose id is `id` or begins with it.
async fn existing(store: &SqliteStore, id: &str) -> Outcome<String> {
    let notes = store.list(&Filter::default(), 0, usize::MAX).await?;
    let proposals = store.proposals().await?;
    let ids = notes.iter().map(|note| &note.id).chain(proposals.iter().map(|proposal| &proposal.note.id));
    let mut found: Vec<&String> = ids.filter(|known| !id.is_empty() && known.starts_with(id)).collect();
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        _ if found.iter().any(|known| *known == id) => Ok(id.to_owned()),
        [] => {
            let body = ErrorBody::new(ErrorKind::NotFound, format!("no note or proposal is called `{id}`"));
            Err(body
                .hint("`jarvis memory list` shows the notes, `jarvis memory proposals` what waits for a yes")
                .into())
        }
        [only] => Ok((*only).clone()),
        several => Err(usage(format!("{} notes begin with `{id}`", several.len()), "give more of the id")),
    }
}

async fn proposed(store: &SqliteStore, id: &str) -> Outcome<Option<Proposal>> {
    Ok(store.proposals().await?.into_iter().find(|proposal| proposal.note.id == id))
}

fn told(note: &Note, json: bool, what: &str) -> Outcome {
    if json {
        return term::json(note);
    }
    term::line(&note.id)?;
    term::status(what);
    Ok(())
}

fn about(note: &Note) -> String {
    let mut parts =
        vec![note.kind.as_str().to_owned(), note.date.to_string(), format!("importance {}", note.importance)];
    if !note.tags.is_empty() {
        parts.push(format!("tags: {}", note.tags.join(", ")));
    }
    parts.extend(note.session.iter().map(|session| format!("from session {session}")));
    parts.extend(note.path.iter().map(|path| path.display().to_string()));
    parts.join(" · ")
}

fn table(notes: &[Note], none: &str) -> Outcome {
    if notes.is_empty() {
        term::status(none);
        return Ok(());
    }
    let row =
        |note: &Note| vec![note.id.clone(), note.date.to_string(), note.kind.as_str().to_owned(), note.text.clone()];
    term::table(&["ID", "DATE", "TYPE", "NOTE"], &notes.iter().map(row).collect::<Vec<_>>())
}
