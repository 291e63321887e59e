//! The store's operations on Markdown files and their index.

use super::{
    Inner, SqliteStore,
    index::{COLUMNS, Index, note, remove, remove_vectors},
    pending::PROPOSALS,
    search,
};
use crate::{
    db,
    notes::{
        Draft, Filter, Forget, Forgotten, MemoryError, MemoryStore, Note, Proposal, Query, Reindexed, Remembered,
        Searched,
        markdown::Document,
        similar::{COMPARED, Compared, Gist, compare, has_all, waiting},
        store::Answer,
        types::{drafted, merged},
    },
};
use rusqlite::OptionalExtension;

impl MemoryStore for SqliteStore {
    fn add(&self, draft: Draft) -> Answer<'_, Note> {
        Box::pin(self.blocking(move |inner, index| {
            let lock = inner.folder.lock()?;
            let note = drafted(draft, fresh_id(inner, index)?)?;
            write_new(inner, index, note, &lock)
        }))
    }

    fn get<'a>(&'a self, id: &'a str) -> Answer<'a, Note> {
        let id = id.to_owned();
        Box::pin(self.blocking(move |inner, index| {
            index.sync(inner, false)?;
            find(inner, index, &id)?.ok_or(MemoryError::NotFound(id))
        }))
    }

    fn list<'a>(&'a self, filter: &'a Filter, offset: usize, limit: usize) -> Answer<'a, Vec<Note>> {
        let filter = filter.clone();
        Box::pin(self.blocking(move |inner, index| {
            index.sync(inner, false)?;
            search::list(inner, index, &filter, offset, limit)
        }))
    }

    fn search<'a>(&'a self, query: &'a Query) -> Answer<'a, Searched> {
        Box::pin(self.find(query))
    }

    fn remember(&self, draft: Draft) -> Answer<'_, Remembered> {
        Box::pin(async move {
            // Also says early what cannot be a note.
            let text = drafted(draft.clone(), String::new())?.text;
            let near = self.find(&Query { limit: COMPARED, ..Query::new(text) }).await?.found;
            self.blocking(move |inner, index| {
                let lock = inner.folder.lock()?;
                let note = drafted(draft, fresh_id(inner, index)?)?;
                let gist = Gist::of(&note.text);
                let similar = match compare(&note.text, near) {
                    Compared::Known(note) => return Ok(Remembered::Known(note)),
                    Compared::Like(ids) => ids,
                };
                if let Some(proposal) = waiting(&note.text, inner.read_proposals()?) {
                    return Ok(Remembered::Waiting(proposal));
                }
                if let Some(at) = inner.rejected(&gist)? {
                    return Ok(Remembered::Rejected { at });
                }
                inner.write_proposal(Proposal { note, similar }, &lock).map(Remembered::Proposed)
            })
            .await
        })
    }

    fn proposals(&self) -> Answer<'_, Vec<Proposal>> {
        Box::pin(self.blocking(|inner, _| inner.read_proposals()))
    }

    fn accept<'a>(&'a self, id: &'a str, replacing: Option<&'a str>) -> Answer<'a, Note> {
        let (id, replacing) = (id.to_owned(), replacing.map(str::to_owned));
        Box::pin(self.blocking(move |inner, index| {
            let lock = inner.folder.lock()?;
            let proposal = inner.read_proposal(&id)?.ok_or_else(|| MemoryError::NotFound(id.clone()))?;
            let note = match replacing {
                None => write_new(inner, index, proposal.note, &lock)?,
                Some(other) => {
                    index.sync(inner, true)?;
                    let old = find(inner, index, &other)?.ok_or(MemoryError::NotFound(other))?;
                    let name = name_of(inner, &old);
                    let bytes = inner.folder.read(&name)?.unwrap_or_default();
                    // It is in the index, so it could be read a moment ago.
                    let document = Document::parse(&String::from_utf8_lossy(&bytes)).map_err(MemoryError::Invalid)?;
                    let note = merged(old, proposal.note);
                    inner.folder.write(&name, &document.with(&note), &lock)?;
                    index.take_one(inner, &name)?;
                    note
                }
            };
            inner.remove_proposal(&id, &lock)?;
            Ok(note)
        }))
    }

    fn reject<'a>(&'a self, id: &'a str) -> Answer<'a, Proposal> {
        let id = id.to_owned();
        Box::pin(self.blocking(move |inner, _| {
            let lock = inner.folder.lock()?;
            let proposal = inner.read_proposal(&id)?.ok_or(MemoryError::NotFound(id))?;
            inner.write_rejected(Gist::of(&proposal.note.text), &lock)?;
            inner.remove_proposal(&proposal.note.id, &lock)?;
            Ok(proposal)
        }))
    }

    fn forget<'a>(&'a self, what: &'a Forget) -> Answer<'a, Forgotten> {
        let what = what.clone();
        Box::pin(self.blocking(move |inner, index| forget(inner, index, &what)))
    }

    fn reindex(&self) -> Answer<'_, Reindexed> {
        Box::pin(async move {
            let (notes, problems) = self
                .blocking(|inner, index| {
                    index.rebuild(inner)?;
                    let notes: i64 =
                        index.db.query_row("SELECT count(*) FROM notes", [], |r| r.get(0)).map_err(inner.sql())?;
                    Ok((usize::try_from(notes).unwrap_or(0), index.problems(inner)?))
                })
                .await?;
            let (embedded, notices) = self.embed_missing(usize::MAX).await?;
            Ok(Reindexed { notes, embedded, problems, notices })
        })
    }
}

fn fresh_id(inner: &Inner, index: &Index) -> Result<String, MemoryError> {
    let day = jiff::Timestamp::now().strftime("%Y%m%d").to_string();
    db::random(&index.db, 5).map(|tail| format!("{day}-{tail}")).map_err(inner.sql())
}

fn find(inner: &Inner, index: &Index, id: &str) -> Result<Option<Note>, MemoryError> {
    index
        .db
        .prepare_cached(&format!("SELECT {COLUMNS} FROM notes WHERE id = ?"))
        .and_then(|mut s| s.query_row([id], |r| note(inner, r)).optional())
        .map_err(inner.sql())
}

/// Its file's name below the folder.
fn name_of(inner: &Inner, note: &Note) -> String {
    let below = note.path.as_deref().and_then(|p| p.strip_prefix(inner.folder.root()).ok());
    below.map(|p| p.to_string_lossy().into_owned()).unwrap_or_default()
}

fn write_new(
    inner: &Inner,
    index: &mut Index,
    mut note: Note,
    lock: &crate::notes::files::FolderLock,
) -> Result<Note, MemoryError> {
    let name = format!("{}/{}.md", note.kind.as_str(), note.id);
    inner.folder.write(&name, &Document::default().with(&note), lock)?;
    index.take_one(inner, &name)?;
    note.path = Some(inner.folder.path(&name));
    Ok(note)
}

fn forget(inner: &Inner, index: &mut Index, what: &Forget) -> Result<Forgotten, MemoryError> {
    let lock = inner.folder.lock()?;
    index.sync(inner, true)?;
    let mut forgotten = Forgotten::default();
    match what {
        Forget::Ids(ids) => {
            for id in ids {
                let note = find(inner, index, id)?;
                let proposal = inner.read_proposal(id)?;
                if note.is_none() && proposal.is_none() {
                    // Nothing is forgotten yet.
                    return Err(MemoryError::NotFound(id.clone()));
                }
                forgotten.notes.extend(note);
                forgotten.proposals.extend(proposal);
            }
        }
        Forget::Words(text) if text.trim().is_empty() => {
            return Err(MemoryError::Invalid("no words were given, and not everything is to be forgotten".to_owned()));
        }
        Forget::Words(text) => {
            forgotten.notes = search::with_all(inner, index, text)?;
            forgotten.proposals = inner.read_proposals()?.into_iter().filter(|p| has_all(&p.note, text)).collect();
        }
    }
    inner.folder.remove_unfinished(PROPOSALS, &lock)?;
    for kind in crate::notes::NoteKind::ALL {
        inner.folder.remove_unfinished(kind.as_str(), &lock)?;
    }
    for proposal in &forgotten.proposals {
        inner.remove_proposal(&proposal.note.id, &lock)?;
    }
    // The truth first: if the rest fails, the next look at the folder takes it out of the index.
    let names: Vec<String> = forgotten.notes.iter().map(|note| name_of(inner, note)).collect();
    for name in &names {
        inner.folder.remove(name, &lock)?;
    }
    index.sync(inner, true)?;
    let sql = inner.sql();
    let tx = db::write(&mut index.db).map_err(&sql)?;
    let work = || -> Result<(), rusqlite::Error> {
        let mut orphans = Vec::new();
        for name in &names {
            remove(&tx, name, &mut orphans)?;
        }
        remove_vectors(&tx, &orphans)
    };
    work().map_err(&sql)?;
    tx.commit().map_err(&sql)?;
    // Vectors of it are in memory, too.
    index.vectors = crate::notes::vectors::Vectors::default();
    index.vectors_at = None;
    forgotten.traces = !db::empty_wal(&index.db).map_err(&sql)?;
    forgotten.unread = index.problems(inner)?;
    Ok(forgotten)
}
