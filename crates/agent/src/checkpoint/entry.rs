//! What stands at one path, and what a turn changed: plain data, kept with the session.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a path is. Two that are equal look the same to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Entry {
    Missing,
    File {
        /// BLAKE3 of the content, under which it is kept.
        digest: String,
        mode: u32,
    },
    /// Never followed.
    Link {
        target: String,
    },
    Folder {
        mode: u32,
    },
    /// Too large to be kept: it can be seen to change, and not be brought back.
    Large {
        bytes: u64,
        changed: (i64, i64),
    },
    /// A device, a pipe, a socket, or what may not be read.
    Other,
}

impl Entry {
    /// There is nothing to bring back but what is known.
    pub fn is_known(&self) -> bool {
        !matches!(self, Entry::Large { .. } | Entry::Other)
    }
}

/// One path before the first call of a turn that changed it, and after the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub before: Entry,
    pub after: Entry,
    /// Somebody else changed it in between, so that the two are not the turn's work alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
}

/// All that one turn changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// The folder that the paths are in.
    pub workspace: PathBuf,
    pub files: BTreeMap<String, Change>,
    /// What was not seen, for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Changes {
    pub fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// A call made `before` into `after`.
    pub fn enter(&mut self, path: &str, before: Entry, after: Entry) {
        let Some(known) = self.files.get_mut(path) else {
            if before != after {
                self.files.insert(path.to_owned(), Change { before, after, mixed: false });
            }
            return;
        };
        known.mixed |= known.after != before && before != after;
        if before != after {
            known.after = after;
        }
        if known.before == known.after && !known.mixed {
            self.files.remove(path);
        }
    }

    /// Contents that undoing it needs.
    pub fn digests(&self) -> impl Iterator<Item = &str> {
        self.files.values().filter_map(|change| match &change.before {
            Entry::File { digest, .. } => Some(digest.as_str()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(digest: &str) -> Entry {
        Entry::File { digest: digest.to_owned(), mode: 0o644 }
    }

    #[test]
    fn several_changes_are_one_from_the_first_state_to_the_last() {
        let mut changes = Changes::default();
        changes.enter("a", Entry::Missing, file("1"));
        changes.enter("a", file("1"), file("2"));
        assert_eq!(changes.files["a"], Change { before: Entry::Missing, after: file("2"), mixed: false });
        changes.enter("a", file("2"), Entry::Missing);
        assert!(changes.files.is_empty(), "made and gone again");
        changes.enter("b", file("1"), file("1"));
        assert!(changes.files.is_empty());
    }

    #[test]
    fn what_somebody_else_changed_in_between_is_marked() {
        let mut changes = Changes::default();
        changes.enter("a", file("1"), file("2"));
        changes.enter("a", file("theirs"), file("theirs"));
        assert!(!changes.files["a"].mixed, "the second call left it alone: it is found when it is undone");
        changes.enter("a", file("theirs"), file("3"));
        assert_eq!(changes.files["a"], Change { before: file("1"), after: file("3"), mixed: true });
    }
}
