//! Vectors of texts in the home's SQLite file, by model and digest of the text: a text is embedded once.

use crate::RegistryError;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, digest)) WITHOUT ROWID";

/// BLAKE3 of a text.
pub type TextDigest = [u8; 32];

pub(crate) struct Vectors {
    path: PathBuf,
    /// The model that was last asked for, and its vectors.
    read: Mutex<Option<(String, Known)>>,
}

pub(crate) type Known = Arc<HashMap<TextDigest, Vec<f32>>>;

impl Vectors {
    pub fn new(path: PathBuf) -> Vectors {
        Vectors { path, read: Mutex::new(None) }
    }

    /// All of one model. What another process adds is seen when this one lacks something and writes it.
    pub fn of(&self, model: &str) -> Result<Known, RegistryError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, known)) = &*read
            && of == model
        {
            return Ok(known.clone());
        }
        let known: Known = Arc::new(self.load(model).map_err(|e| self.error(&e))?);
        *read = Some((model.to_owned(), known.clone()));
        Ok(known)
    }

    pub fn keep(&self, model: &str, vectors: &[(TextDigest, Vec<f32>)]) -> Result<(), RegistryError> {
        let write = || -> Result<(), rusqlite::Error> {
            let mut db = Connection::open(&self.path)?;
            db.busy_timeout(Duration::from_secs(5))?;
            db.execute_batch(SCHEMA)?;
            let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for (digest, vector) in vectors {
                let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
                tx.prepare_cached("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)")?.execute(params![
                    model,
                    digest.as_slice(),
                    bytes
                ])?;
            }
            tx.commit()
        };
        write().map_err(|e| self.error(&e))?;
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    fn load(&self, model: &str) -> Result<HashMap<TextDigest, Vec<f32>>, rusqlite::Error> {
        if !self.path.exists() {
            return Ok(HashMap::new());
        }
        let db = Connection::open(&self.path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        let there = db.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'vectors'", [], |_| Ok(())).optional()?;
        if there.is_none() {
            return Ok(HashMap::new());
        }
        let mut rows = db.prepare("SELECT digest, vector FROM vectors WHERE model = ?")?;
        let rows = rows.query_map([model], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let mut known = HashMap::new();
        for row in rows {
            let (digest, bytes) = row?;
            // One that was cut short is embedded again.
            if let Ok(digest) = TextDigest::try_from(digest)
                && !bytes.is_empty()
                && bytes.len() % 4 == 0
            {
                let number = |b: &[u8]| <[u8; 4]>::try_from(b).map_or(0.0, f32::from_le_bytes);
                known.insert(digest, bytes.chunks_exact(4).map(number).collect());
            }
        }
        Ok(known)
    }

    fn error(&self, error: &rusqlite::Error) -> RegistryError {
        RegistryError::Statistics { path: self.path.clone(), message: error.to_string() }
    }
}
