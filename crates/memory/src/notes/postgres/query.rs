//! Finding notes on the server: by words with BM25 over its text index, by meaning with pgvector, fused here.

use super::{MemoryError, PostgresStore, server};
use crate::{
    notes::{Filter, Found, Note, NoteKind, Query, Searched, Why, fuse::fuse, similar::indexed, vectors},
    segment::query_words,
};
use std::collections::HashMap;
use std::fmt::Write;
use tokio_postgres::{GenericClient, Row, types::ToSql};

const DEPTH: i64 = 60;
const EMBEDDED_BY_A_SEARCH: usize = 256;
const BATCH: usize = 32;

/// Robertson and Zaragoza's usual values. A word counts once a note: notes are short.
const K1: f64 = 1.2;
const B: f64 = 0.75;

pub(super) const COLUMNS: &str = "n.id, n.kind, n.date, n.importance, n.tags, n.session, n.body";

pub(super) fn note(row: &Row) -> Note {
    let importance: i16 = row.get(3);
    Note {
        id: row.get(0),
        kind: NoteKind::parse(row.get(1)).unwrap_or(NoteKind::Note),
        date: row.get(2),
        importance: u8::try_from(importance).unwrap_or(1),
        tags: row.get(4),
        session: row.get(5),
        text: row.get(6),
        path: None,
    }
}

/// The words of a note for the server's index, as `'word':1 'word':2`, and how many there are. They have nothing in
/// them that would have to be escaped.
pub(super) fn lexemes(note: &Note) -> (String, i32) {
    let words = indexed(&note.text, &note.tags);
    let mut out = String::new();
    let mut count = 0_i32;
    for word in words.split(' ').filter(|w| !w.is_empty()) {
        count += 1;
        // The server counts places up to 16383, and drops further ones.
        let _ = write!(out, "'{word}':{} ", count.min(16_383));
    }
    (out, count)
}

/// As values of a statement, from `$1`: the space, then what stands in `FILTER`.
pub(super) struct Conditions {
    space: String,
    kinds: Option<Vec<String>>,
    from: Option<jiff::civil::Date>,
    to: Option<jiff::civil::Date>,
    importance: Option<i16>,
    tags: Vec<String>,
}

pub(super) const FILTER: &str = "n.space = $1 AND ($2::text[] IS NULL OR n.kind = ANY ($2)) AND ($3::date IS NULL OR n.date >= $3) \
    AND ($4::date IS NULL OR n.date <= $4) AND ($5::int2 IS NULL OR n.importance >= $5) AND n.tag_keys @> $6::text[]";

impl Conditions {
    pub fn of(space: &str, filter: &Filter) -> Self {
        let kinds: Vec<String> = filter.kinds.iter().map(|k| k.as_str().to_owned()).collect();
        Self {
            space: space.to_owned(),
            kinds: Some(kinds).filter(|k| !k.is_empty()),
            from: filter.from,
            to: filter.to,
            importance: filter.min_importance.map(i16::from),
            tags: filter.tags.iter().map(|t| t.trim().to_lowercase().replace('\0', "")).collect(),
        }
    }

    pub fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.space, &self.kinds, &self.from, &self.to, &self.importance, &self.tags]
    }
}

impl PostgresStore {
    pub(super) async fn find(&self, query: &Query) -> Result<Searched, MemoryError> {
        let text = query.text.replace('\0', " ");
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let conditions = Conditions::of(&self.inner.space, &query.filter);
        if text.trim().is_empty() {
            let found = list(self.inner.client().await?.client()?, &conditions, 0, limit).await?;
            let found = found.into_iter().map(|note| Found { note, why: Why::default() }).collect();
            return Ok(Searched { found, notices: Vec::new() });
        }
        let mut notices = Vec::new();
        let mut meaning = None;
        if let Some(embedder) = self.embedder.clone() {
            notices.extend(self.embed_missing(EMBEDDED_BY_A_SEARCH).await?.1);
            match vectors::embed(&*embedder, &[&text]).await {
                Ok(mut vector) => meaning = vector.pop(),
                Err(problem) => notices.push(format!("searched by words alone: {problem}")),
            }
        }
        let mut connected = self.inner.client().await?;
        let client = connected.client()?;
        let depth = DEPTH.max(limit);
        let mut notes: HashMap<String, Note> = HashMap::new();
        let mut by_words = Vec::new();
        for note in words(client, &conditions, &text, depth).await? {
            by_words.push(note.id.clone());
            notes.insert(note.id.clone(), note);
        }
        let mut by_meaning = Vec::new();
        if let (Some(vector), Some(embedder)) = (meaning, &self.embedder) {
            for (note, cosine) in nearest(client, &conditions, embedder.model(), &vector, depth).await? {
                by_meaning.push((note.id.clone(), cosine));
                notes.insert(note.id.clone(), note);
            }
        }
        let ids: Vec<&str> = by_words.iter().map(String::as_str).collect();
        let near: Vec<(&str, f32)> = by_meaning.iter().map(|(id, cosine)| (id.as_str(), *cosine)).collect();
        let fused = fuse(&ids, &near).into_iter().take(query.limit);
        let found = fused.filter_map(|(id, why)| Some(Found { note: notes.remove(id)?, why })).collect();
        Ok(Searched { found, notices })
    }

    /// Makes vectors for at most `limit` texts that have none; how many, and what there is to say about it.
    pub(super) async fn embed_missing(&self, limit: usize) -> Result<(usize, Vec<String>), MemoryError> {
        let Some(embedder) = self.embedder.clone() else { return Ok((0, Vec::new())) };
        let (space, model) = (&self.inner.space, embedder.model().to_owned());
        let mut made = 0;
        loop {
            let count = BATCH.min(limit - made).max(1) as i64;
            let rows = {
                let mut connected = self.inner.client().await?;
                let statement = "SELECT DISTINCT ON (n.hash) n.hash, n.body FROM jarvis_notes AS n WHERE n.space = $1 AND NOT EXISTS \
                    (SELECT 1 FROM jarvis_note_vectors AS v WHERE v.space = n.space AND v.hash = n.hash AND v.model = $2) \
                    ORDER BY n.hash LIMIT $3";
                connected.client()?.query(statement, &[space, &model, &count]).await.map_err(|e| server(&e))?
            };
            if rows.is_empty() {
                return Ok((made, Vec::new()));
            }
            if made >= limit {
                return Ok((made, vec!["not every note has a vector yet: `reindex` makes the others".to_owned()]));
            }
            let texts: Vec<&str> = rows.iter().map(|r| r.get(1)).collect();
            let vectors = match vectors::embed(&*embedder, &texts).await {
                Ok(vectors) => vectors,
                Err(problem) => return Ok((made, vec![format!("some notes are found by words alone: {problem}")])),
            };
            let mut connected = self.inner.client().await?;
            for (row, vector) in rows.iter().zip(&vectors) {
                // A note forgotten in the meantime gets none.
                let statement = "INSERT INTO jarvis_note_vectors SELECT $1, $2, $3, $4::text::vector WHERE EXISTS \
                    (SELECT 1 FROM jarvis_notes WHERE space = $1 AND hash = $2) ON CONFLICT DO NOTHING";
                let hash: Vec<u8> = row.get(0);
                let values: [&(dyn ToSql + Sync); 4] = [space, &hash, &model, &literal(vector)];
                connected.client()?.execute(statement, &values).await.map_err(|e| server(&e))?;
            }
            made += rows.len();
        }
    }
}

/// As pgvector reads it.
fn literal(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

pub(super) async fn list(
    client: &impl GenericClient,
    conditions: &Conditions,
    offset: i64,
    limit: i64,
) -> Result<Vec<Note>, MemoryError> {
    let statement = format!(
        "SELECT {COLUMNS} FROM jarvis_notes AS n WHERE {FILTER} ORDER BY n.date DESC, n.added DESC LIMIT $7 OFFSET $8"
    );
    let mut values = conditions.values();
    values.extend([&limit as &(dyn ToSql + Sync), &offset]);
    Ok(client.query(&statement, &values).await.map_err(|e| server(&e))?.iter().map(note).collect())
}

async fn words(
    client: &impl GenericClient,
    conditions: &Conditions,
    text: &str,
    limit: i64,
) -> Result<Vec<Note>, MemoryError> {
    let words = query_words(text);
    let mut values = conditions.values();
    if words.is_empty() {
        // No words, such as a face or an arrow: as it stands.
        let text = text.trim();
        let statement = format!(
            "SELECT {COLUMNS} FROM jarvis_notes AS n WHERE {FILTER} AND position($7 IN n.body) > 0
             ORDER BY n.date DESC, n.added DESC LIMIT $8"
        );
        values.extend([&text as &(dyn ToSql + Sync), &limit]);
        return Ok(client.query(&statement, &values).await.map_err(|e| server(&e))?.iter().map(note).collect());
    }
    // How rare a word is and how long a note are of the whole space, whatever the filter.
    let statement = format!(
        "WITH everything AS (
             SELECT count(*)::float8 AS notes, greatest(avg(length), 1)::float8 AS usual FROM jarvis_notes WHERE space = $1),
         asked AS (
             SELECT ('''' || word || '''')::tsquery AS query FROM unnest($7::text[]) AS word),
         weighed AS (
             SELECT query, ln(1 + (notes - n + 0.5) / (n + 0.5)) AS weight FROM everything, asked,
                 LATERAL (SELECT count(*)::float8 AS n FROM jarvis_notes WHERE space = $1 AND words @@ query) AS counted)
         SELECT {COLUMNS} FROM weighed, everything, jarvis_notes AS n WHERE {FILTER} AND n.words @@ query
         GROUP BY n.space, n.id, usual
         ORDER BY sum(weight) * {} / (1 + {K1} * (1 - {B} + {B} * n.length / usual)) DESC, n.date DESC, n.added DESC LIMIT $8",
        K1 + 1.0
    );
    values.extend([&words as &(dyn ToSql + Sync), &limit]);
    Ok(client.query(&statement, &values).await.map_err(|e| server(&e))?.iter().map(note).collect())
}

async fn nearest(
    client: &impl GenericClient,
    conditions: &Conditions,
    model: &str,
    vector: &[f32],
    limit: i64,
) -> Result<Vec<(Note, f32)>, MemoryError> {
    // Those of another length cannot be compared, and would be an error.
    let statement = format!(
        "SELECT {COLUMNS}, (1 - (v.embedding <=> $8::text::vector))::float4 FROM jarvis_notes AS n
         JOIN jarvis_note_vectors AS v ON v.space = n.space AND v.hash = n.hash AND v.model = $7
         WHERE {FILTER} AND vector_dims(v.embedding) = $9
         ORDER BY CASE WHEN vector_dims(v.embedding) = $9 THEN v.embedding <=> $8::text::vector END LIMIT $10"
    );
    let (text, dimensions) = (literal(vector), i32::try_from(vector.len()).unwrap_or(i32::MAX));
    let mut values = conditions.values();
    values.extend([&model as &(dyn ToSql + Sync), &text, &dimensions, &limit]);
    let rows = client.query(&statement, &values).await.map_err(|e| server(&e))?;
    Ok(rows.iter().map(|row| (note(row), row.get(7))).collect())
}
