//! One line of the log, and how it hangs on the one before.

use crate::record::{Entry, Record};
use serde::Serialize;

/// What the first line hangs on.
pub(crate) const START: &str = "";
const OPEN: &str = "{\"hash\":\"";
const HASH: usize = 64;

#[derive(Serialize)]
struct Body<'a> {
    seq: u64,
    #[serde(flatten)]
    record: &'a Record,
}

/// The line, with its line break, and its hash.
pub(crate) fn line(previous: &str, seq: u64, record: &Record) -> Result<(String, String), serde_json::Error> {
    let body = serde_json::to_string(&Body { seq, record })?;
    // `{"seq":…}` loses its brace: the hash goes in front of it.
    let rest = format!("\",{}", &body[1..]);
    let hash = hash(previous, &rest);
    Ok((format!("{OPEN}{hash}{rest}\n"), hash))
}

fn hash(previous: &str, rest: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous.as_bytes());
    hasher.update(b"\n");
    hasher.update(rest.as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// A line as it was read, without its line break.
pub(crate) struct Read {
    pub entry: Entry,
    /// Does it hang on `previous`?
    pub follows: bool,
}

/// `Err` says why the line is no entry.
pub(crate) fn read(previous: &str, line: &[u8]) -> Result<Read, String> {
    let text = std::str::from_utf8(line).map_err(|e| format!("not UTF-8: {e}"))?;
    let after = text.strip_prefix(OPEN).ok_or("does not begin with a hash")?;
    let stated = after.get(..HASH).ok_or("its hash is cut off")?;
    let entry: Entry = serde_json::from_str(text).map_err(|e| format!("not an entry: {e}"))?;
    Ok(Read { follows: hash(previous, &after[HASH..]) == stated, entry })
}
