//! The tables of the shared memory. All names begin with `jarvis_`: the database may have others in it.

use super::{MemoryError, server};
use tokio_postgres::Client;

/// The steps from one version to the next. Only ever added to.
const STEPS: &[&str] = &["
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE jarvis_notes (
        space text NOT NULL, id text NOT NULL, added bigint GENERATED ALWAYS AS IDENTITY, kind text NOT NULL,
        date date NOT NULL, importance smallint NOT NULL, tags text[] NOT NULL, tag_keys text[] NOT NULL, session text,
        body text NOT NULL, words tsvector NOT NULL, length integer NOT NULL, hash bytea NOT NULL,
        PRIMARY KEY (space, id));
    CREATE INDEX jarvis_notes_words ON jarvis_notes USING gin (words);
    CREATE INDEX jarvis_notes_date ON jarvis_notes (space, date DESC, added DESC);
    CREATE INDEX jarvis_notes_hash ON jarvis_notes (space, hash);
    -- Of texts: a note that is written anew with the same text asks for none again.
    CREATE TABLE jarvis_note_vectors (
        space text NOT NULL, hash bytea NOT NULL, model text NOT NULL, embedding vector NOT NULL,
        PRIMARY KEY (space, hash, model));
    CREATE TABLE jarvis_proposals (
        space text NOT NULL, id text NOT NULL, made bigint GENERATED ALWAYS AS IDENTITY, proposal text NOT NULL,
        PRIMARY KEY (space, id));
    CREATE TABLE jarvis_rejected (
        space text NOT NULL, at timestamptz NOT NULL DEFAULT now(), words bigint[] NOT NULL, telling bigint[] NOT NULL);
    CREATE INDEX jarvis_rejected_space ON jarvis_rejected (space);"];

/// A number of our own, so that two that begin at once do not both make the tables.
const LOCK: i64 = 0x6a61_7276_6973;

pub(super) async fn migrate(client: &mut Client) -> Result<(), MemoryError> {
    let tx = client.transaction().await.map_err(|e| server(&e))?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(|e| server(&e))?;
    let known = "SELECT to_regclass('jarvis_memory_version') IS NOT NULL";
    let known: bool = tx.query_one(known, &[]).await.map_err(|e| server(&e))?.get(0);
    if !known {
        tx.batch_execute("CREATE TABLE jarvis_memory_version (version integer NOT NULL); INSERT INTO jarvis_memory_version VALUES (0)")
            .await
            .map_err(|e| server(&e))?;
    }
    let found: i32 =
        tx.query_one("SELECT version FROM jarvis_memory_version", &[]).await.map_err(|e| server(&e))?.get(0);
    let found = usize::try_from(found).unwrap_or(0);
    if found > STEPS.len() {
        let message = format!("its tables have version {found}; this jarvis knows up to {}", STEPS.len());
        return Err(MemoryError::Server(message));
    }
    for step in &STEPS[found..] {
        tx.batch_execute(step).await.map_err(|e| server(&e))?;
    }
    let version = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
    tx.execute("UPDATE jarvis_memory_version SET version = $1", &[&version]).await.map_err(|e| server(&e))?;
    tx.commit().await.map_err(|e| server(&e))
}
