//! Is the log what was written? Every byte of every file is looked at.

use crate::chain::{self, START};
use crate::head::{Head, files};
use crate::log::AuditLog;
use crate::record::{AuditError, Kind};
use serde::Serialize;
use std::fs;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Verify {
    /// Entries that were read.
    pub records: u64,
    /// What cannot have come about by a crash.
    pub problems: Vec<Problem>,
    /// What a killed process leaves: a torn last line, in place or recorded.
    pub notes: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub file: String,
    /// From 1; 0 for the file as a whole.
    pub line: u64,
    pub what: String,
}

impl AuditLog {
    /// # Errors
    /// A file cannot be read. Damage is no error but a problem in the answer.
    pub fn verify(&self) -> Result<Verify, AuditError> {
        // The head first: an append in the meantime may only make the log longer than it says.
        let head = Head::read(self.dir())?;
        let mut verify = Verify::default();
        let mut last = Head::start();
        let mut head_seen = false;
        let names = files(self.dir())?;
        for name in &names {
            let path = self.dir().join(name);
            let bytes = fs::read(&path).map_err(|e| AuditError::io("read", &path, e))?;
            let mut rest = bytes.as_slice();
            let mut number = 0;
            while !rest.is_empty() {
                number += 1;
                let at = |what: String| Problem { file: name.clone(), line: number, what };
                let Some(end) = rest.iter().position(|b| *b == b'\n') else {
                    let torn =
                        at(format!("half a line ({} bytes) at the end, of a write that was cut off", rest.len()));
                    // Only the very last line can be cut off by a crash.
                    if names.last() == Some(name) {
                        verify.notes.push(torn)
                    } else {
                        verify.problems.push(torn)
                    }
                    break;
                };
                let line = &rest[..end];
                rest = &rest[end + 1..];
                let read = match chain::read(&last.hash, line) {
                    Ok(read) => read,
                    Err(what) => {
                        verify.problems.push(at(what));
                        continue;
                    }
                };
                verify.records += 1;
                let seq = read.entry.seq;
                if seq != last.seq + 1 {
                    verify.problems.push(at(format!("record {seq} follows record {}", last.seq)));
                } else if !read.follows {
                    let what = format!("record {seq} does not match its hash: it, or the one before, was changed");
                    verify.problems.push(at(what));
                }
                if read.entry.record.kind == Kind::Audit {
                    self.recorded(&read.entry.record.detail, at, &mut verify);
                }
                if let Some(Ok(head)) = &head {
                    head_seen |= head.seq == seq && head.hash == read.entry.hash;
                }
                last = Head { seq, hash: read.entry.hash, file: name.clone(), bytes: 0 };
            }
        }
        let about_head = |what: String| Problem { file: "head.json".to_owned(), line: 0, what };
        match head {
            None if last.seq > 0 => verify.problems.push(about_head("it is missing".to_owned())),
            None => {}
            Some(Err(problem)) => verify.problems.push(about_head(format!("it is damaged: {problem}"))),
            Some(Ok(head)) if head.seq > last.seq => {
                let what = format!("records {} to {} are missing at the end", last.seq + 1, head.seq);
                verify.problems.push(Problem { file: head.file, line: 0, what });
            }
            Some(Ok(head)) if head.hash != START && !head_seen => {
                verify.problems.push(about_head(format!("it names a record {} that is not in the log", head.seq)));
            }
            Some(Ok(_)) => {}
        }
        Ok(verify)
    }

    /// What the log found wrong about itself at an earlier append.
    fn recorded(&self, detail: &serde_json::Value, at: impl Fn(String) -> Problem, verify: &mut Verify) {
        for (key, what) in [
            ("lines_missing_at_end", "records were missing at the end when this was appended"),
            ("foreign_lines_at_end", "lines that jarvis did not write stood before this"),
            ("head_damaged", "head.json was damaged when this was appended"),
            ("head_missing", "head.json was missing when this was appended: records before this may be missing too"),
        ] {
            let present = |v: &serde_json::Value| v.get(key).is_some_and(|v| *v != serde_json::Value::Bool(false));
            if present(detail) || detail.get("end").is_some_and(present) {
                verify.problems.push(at(what.to_owned()));
            }
        }
        let torn = detail.get("torn_line").or_else(|| detail.get("end").and_then(|e| e.get("torn_line")));
        if torn.is_some() {
            verify.notes.push(at("half a line of a killed process was taken off and kept in this record".to_owned()));
        }
    }
}
