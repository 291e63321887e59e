//! Finding notes: by words, by meaning, or only by the filter.

use super::{
    Inner, SqliteStore,
    index::{COLUMNS, Index, note},
};
use crate::{
    notes::{Filter, Found, MemoryError, Note, Query, Searched, Why, fuse::fuse, vectors},
    segment::{fts, query_words},
};
use rusqlite::{OptionalExtension, Transaction, params_from_iter, types::Value};
use std::collections::HashSet;

/// Of each list, so many are fused.
const DEPTH: usize = 60;
/// Vectors that one search may ask for; more are made by `reindex`.
const EMBEDDED_BY_A_SEARCH: usize = 256;
/// Vectors kept by one transaction.
const BATCH: usize = 32;

impl SqliteStore {
    pub(super) async fn find(&self, query: &Query) -> Result<Searched, MemoryError> {
        let mut notices = Vec::new();
        let mut meaning = None;
        if let Some(embedder) = self.embedder.clone().filter(|_| !query.text.trim().is_empty()) {
            let (_, more) = self.embed_missing(EMBEDDED_BY_A_SEARCH).await?;
            notices.extend(more);
            match vectors::embed(&*embedder, &[&query.text]).await {
                Ok(mut vector) => meaning = vector.pop().map(|v| (embedder.model().to_owned(), v)),
                Err(problem) => notices.push(format!("searched by words alone: {problem}")),
            }
        }
        let query = query.clone();
        let found = self.blocking(move |inner, index| find(inner, index, &query, meaning)).await?;
        Ok(Searched { found, notices })
    }

    /// Makes vectors for at most `limit` notes that have none; how many it made, and what there is to say about it.
    pub(super) async fn embed_missing(&self, limit: usize) -> Result<(usize, Vec<String>), MemoryError> {
        let Some(embedder) = self.embedder.clone() else { return Ok((0, Vec::new())) };
        let mut made = 0;
        while made < limit {
            let (model, count) = (embedder.model().to_owned(), BATCH.min(limit - made));
            let missing = self.blocking(move |inner, index| missing(inner, index, &model, count)).await?;
            if missing.is_empty() {
                return Ok((made, Vec::new()));
            }
            let texts: Vec<&str> = missing.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = match vectors::embed(&*embedder, &texts).await {
                Ok(vectors) => vectors,
                Err(problem) => return Ok((made, vec![format!("some notes are found by words alone: {problem}")])),
            };
            made += missing.len();
            let model = embedder.model().to_owned();
            let rows: Vec<_> = missing.into_iter().map(|(hash, _)| hash).zip(vectors).collect();
            self.blocking(move |inner, index| keep(inner, index, &model, &rows)).await?;
        }
        let model = embedder.model().to_owned();
        let left = self.blocking(move |inner, index| missing(inner, index, &model, 1)).await?;
        let notice = "not every note has a vector yet: `reindex` makes the others".to_owned();
        Ok((made, if left.is_empty() { Vec::new() } else { vec![notice] }))
    }
}

type Missing = Vec<(Vec<u8>, String)>;

fn missing(inner: &Inner, index: &mut Index, model: &str, limit: usize) -> Result<Missing, MemoryError> {
    index.sync(inner, false)?;
    let sql = inner.sql();
    let mut statement = index
        .db
        .prepare_cached(
            "SELECT hash, text FROM notes AS n
             WHERE NOT EXISTS (SELECT 1 FROM note_vectors AS v WHERE v.hash = n.hash AND v.model = ?)
             GROUP BY hash LIMIT ?",
        )
        .map_err(&sql)?;
    let rows = statement.query_map((model, limit as i64), |r| Ok((r.get(0)?, r.get(1)?))).map_err(&sql)?;
    rows.collect::<Result<_, _>>().map_err(&sql)
}

fn keep(inner: &Inner, index: &mut Index, model: &str, rows: &[(Vec<u8>, Vec<f32>)]) -> Result<(), MemoryError> {
    let work = |tx: &Transaction<'_>| -> Result<(), rusqlite::Error> {
        for (hash, vector) in rows {
            // A note forgotten in the meantime gets none.
            tx.prepare_cached(
                "INSERT OR REPLACE INTO note_vectors (hash, model, vector)
                 SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM notes WHERE hash = ?1)",
            )?
            .execute((hash, model, vectors::to_bytes(vector)))?;
        }
        Ok(())
    };
    let tx = crate::db::write(&mut index.db).map_err(inner.sql())?;
    work(&tx).and_then(|()| tx.commit()).map_err(inner.sql())
}

fn find(
    inner: &Inner,
    index: &mut Index,
    query: &Query,
    meaning: Option<(String, Vec<f32>)>,
) -> Result<Vec<Found>, MemoryError> {
    index.sync(inner, false)?;
    let sql = inner.sql();
    if query.text.trim().is_empty() {
        let notes = list(inner, index, &query.filter, 0, query.limit)?;
        return Ok(notes.into_iter().map(|note| Found { note, why: Why::default() }).collect());
    }
    let depth = DEPTH.max(query.limit);
    let by_words = by_words(index, query, depth).map_err(&sql)?;
    let by_meaning = match meaning {
        None => Vec::new(),
        Some((model, vector)) => {
            load_vectors(index, &model).map_err(&sql)?;
            let may = allowed(index, &query.filter).map_err(&sql)?;
            index.vectors.nearest(&vector, depth, |note| may.as_ref().is_none_or(|may| may.contains(&note)))
        }
    };
    let mut fused = fuse(&by_words, &by_meaning);
    fused.truncate(query.limit);
    let mut found = Vec::with_capacity(fused.len());
    for (row, why) in fused {
        let of = index
            .db
            .prepare_cached(&format!("SELECT {COLUMNS} FROM notes WHERE row = ?"))
            .and_then(|mut s| s.query_row([row], |r| note(inner, r)).optional())
            .map_err(&sql)?;
        found.extend(of.map(|note| Found { note, why }));
    }
    Ok(found)
}

fn by_words(index: &Index, query: &Query, limit: usize) -> Result<Vec<i64>, rusqlite::Error> {
    let (condition, mut values) = condition(&query.filter);
    let statement = match fts(&query_words(&query.text), " OR ") {
        Some(asked) => {
            values.push(Value::from(asked));
            if query.filter == Filter::default() {
                "SELECT rowid FROM note_words WHERE note_words MATCH ? ORDER BY rank LIMIT ?".to_owned()
            } else {
                format!(
                    "SELECT n.row FROM note_words AS w JOIN notes AS n ON n.row = w.rowid
                     WHERE {condition} AND note_words MATCH ? ORDER BY w.rank LIMIT ?"
                )
            }
        }
        // No words, such as a face or an arrow: as it stands.
        None => {
            values.push(Value::from(query.text.trim().to_owned()));
            format!(
                "SELECT n.row FROM notes AS n WHERE {condition} AND instr(n.text, ?) ORDER BY n.date DESC, n.row DESC LIMIT ?"
            )
        }
    };
    values.push(Value::from(limit as i64));
    index.db.prepare_cached(&statement)?.query_map(params_from_iter(values), |r| r.get(0))?.collect()
}

/// The rows of notes that pass the filter; none: all do.
fn allowed(index: &Index, filter: &Filter) -> Result<Option<HashSet<i64>>, rusqlite::Error> {
    if *filter == Filter::default() {
        return Ok(None);
    }
    let (condition, values) = condition(filter);
    let mut statement = index.db.prepare_cached(&format!("SELECT n.row FROM notes AS n WHERE {condition}"))?;
    statement.query_map(params_from_iter(values), |r| r.get(0))?.collect::<Result<_, _>>().map(Some)
}

fn condition(filter: &Filter) -> (String, Vec<Value>) {
    let mut parts = vec!["1".to_owned()];
    let mut values = Vec::new();
    if !filter.kinds.is_empty() {
        let marks = vec!["?"; filter.kinds.len()].join(", ");
        parts.push(format!("n.kind IN ({marks})"));
        values.extend(filter.kinds.iter().map(|kind| Value::from(kind.as_str().to_owned())));
    }
    for (day, operator) in [(filter.from, ">="), (filter.to, "<=")] {
        if let Some(day) = day {
            parts.push(format!("n.date {operator} ?"));
            values.push(Value::from(day.to_string()));
        }
    }
    if let Some(least) = filter.min_importance {
        parts.push("n.importance >= ?".to_owned());
        values.push(Value::from(i64::from(least)));
    }
    for tag in &filter.tags {
        parts.push("EXISTS (SELECT 1 FROM note_tags AS t WHERE t.note = n.row AND t.tag = ?)".to_owned());
        values.push(Value::from(tag.trim().to_lowercase()));
    }
    (parts.join(" AND "), values)
}

pub(super) fn list(
    inner: &Inner,
    index: &Index,
    filter: &Filter,
    offset: usize,
    limit: usize,
) -> Result<Vec<Note>, MemoryError> {
    let (condition, mut values) = condition(filter);
    values.extend([limit, offset].map(|n| Value::from(i64::try_from(n).unwrap_or(i64::MAX))));
    let work = || -> Result<Vec<Note>, rusqlite::Error> {
        index
            .db
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM notes AS n WHERE {condition} ORDER BY n.date DESC, n.row DESC LIMIT ? OFFSET ?"
            ))?
            .query_map(params_from_iter(values), |r| note(inner, r))?
            .collect()
    };
    work().map_err(inner.sql())
}

/// Every note that has all of the words.
pub(super) fn with_all(inner: &Inner, index: &Index, text: &str) -> Result<Vec<Note>, MemoryError> {
    let words = fts(&query_words(text), " AND ");
    let condition = match &words {
        Some(_) => "n.row IN (SELECT rowid FROM note_words WHERE note_words MATCH ?)",
        None => "instr(n.text, ?)",
    };
    let asked = words.unwrap_or_else(|| text.trim().to_owned());
    let work = || -> Result<Vec<Note>, rusqlite::Error> {
        index
            .db
            .prepare_cached(&format!("SELECT {COLUMNS} FROM notes AS n WHERE {condition} ORDER BY n.row"))?
            .query_map([asked], |r| note(inner, r))?
            .collect()
    };
    work().map_err(inner.sql())
}

/// Brings the vectors in memory up to the index.
fn load_vectors(index: &mut Index, model: &str) -> Result<(), rusqlite::Error> {
    let state = (model.to_owned(), index.state()?, index.db.total_changes());
    if index.vectors_at.as_ref() == Some(&state) {
        return Ok(());
    }
    let same_model = index.vectors_at.as_ref().is_some_and(|(of, ..)| of == model);
    if !same_model || index.vectors.wasteful() {
        index.vectors = vectors::Vectors::default();
    }
    let notes: Vec<(i64, i64)> = index
        .db
        .prepare_cached(
            "SELECT n.row, v.row FROM notes AS n JOIN note_vectors AS v ON v.hash = n.hash AND v.model = ?",
        )?
        .query_map([model], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<Result<_, _>>()?;
    {
        let mut statement = index.db.prepare_cached("SELECT vector FROM note_vectors WHERE row = ?")?;
        for (_, stored) in &notes {
            if !index.vectors.has(*stored) {
                let bytes: Vec<u8> = statement.query_row([stored], |r| r.get(0))?;
                index.vectors.add(*stored, &bytes);
            }
        }
    }
    index.vectors.set_notes(&notes);
    index.vectors_at = Some(state);
    Ok(())
}
