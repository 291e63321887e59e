//! What an export says of itself: the digest of each file, and of all of them together.

use crate::PortError;
use serde::{Deserialize, Serialize};

pub(crate) const MANIFEST: &str = "manifest.json";
const FORMAT: &str = "jarvis-export";
const VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    format_version: u64,
    /// BLAKE3 over path, length and digest of every file, in order.
    pub digest: String,
    pub files: Vec<Listed>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub path: String,
    pub bytes: u64,
    pub blake3: String,
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl Manifest {
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>) -> Manifest {
        let files: Vec<Listed> = files
            .into_iter()
            .map(|(path, bytes)| Listed { path: path.clone(), bytes: bytes.len() as u64, blake3: hash(bytes) })
            .collect();
        Manifest { format: FORMAT.to_owned(), format_version: VERSION, digest: digest(&files), files }
    }

    /// None for a file of that name that is something else.
    pub fn parse(bytes: &[u8]) -> Result<Option<Manifest>, PortError> {
        let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else { return Ok(None) };
        if manifest.format != FORMAT {
            return Ok(None);
        }
        let wrong = |problem: String| PortError::Changed { file: MANIFEST.to_owned(), problem };
        if manifest.format_version > VERSION {
            return Err(wrong(format!("its format {} is of a newer jarvis", manifest.format_version)));
        }
        if digest(&manifest.files) != manifest.digest {
            return Err(wrong("its list of files does not have its digest".to_owned()));
        }
        Ok(Some(manifest))
    }
}

fn digest(files: &[Listed]) -> String {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(format!("{}\0{}\0{}\n", file.path, file.bytes, file.blake3).as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
