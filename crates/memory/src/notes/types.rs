//! What a note is, what is asked of notes, and what comes back.

use super::MemoryError;
use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoteKind {
    Fact,
    Preference,
    Project,
    Decision,
    Note,
}

impl NoteKind {
    pub const ALL: [NoteKind; 5] =
        [NoteKind::Fact, NoteKind::Preference, NoteKind::Project, NoteKind::Decision, NoteKind::Note];

    pub fn as_str(self) -> &'static str {
        match self {
            NoteKind::Fact => "fact",
            NoteKind::Preference => "preference",
            NoteKind::Project => "project",
            NoteKind::Decision => "decision",
            NoteKind::Note => "note",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How much a note matters when nothing is said of it, of 1 to 5.
pub(crate) const USUAL_IMPORTANCE: u8 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: NoteKind,
    pub date: Date,
    /// 1 (hardly) to 5 (very).
    pub importance: u8,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The session it was learned in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub text: String,
    /// Where it can be edited, in a store that keeps files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// A note that has no id yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    #[serde(rename = "type")]
    pub kind: NoteKind,
    pub text: String,
    /// Today, where it is not said.
    #[serde(default)]
    pub date: Option<Date>,
    #[serde(default)]
    pub importance: Option<u8>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub session: Option<String>,
}

impl Draft {
    pub fn new(kind: NoteKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), date: None, importance: None, tags: Vec::new(), session: None }
    }
}

/// A note that waits for a person's yes or no.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its id, and the note's once it is accepted.
    pub note: Note,
    /// Notes that say something like it; accepting it can replace one of them.
    #[serde(default)]
    pub similar: Vec<String>,
}

/// What became of something learned.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Remembered {
    Proposed(Proposal),
    /// This proposal is waiting already.
    Waiting(Proposal),
    /// This note says it already.
    Known(Note),
    /// A person said no to it then.
    Rejected {
        at: Timestamp,
    },
}

/// Which notes; all conditions hold together, and an empty one holds for every note.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    pub kinds: Vec<NoteKind>,
    /// Both days are part of the range.
    pub from: Option<Date>,
    pub to: Option<Date>,
    pub min_importance: Option<u8>,
    /// All of them; in any case of letters.
    pub tags: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Query {
    /// Plain text in any language: nothing in it is an operator. Empty: the newest notes.
    pub text: String,
    pub filter: Filter,
    pub limit: usize,
}

impl Query {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), filter: Filter::default(), limit: 10 }
    }
}

/// Why a note was found. Ranks count from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Why {
    /// By its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bm25: Option<usize>,
    /// By its meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<usize>,
    /// How near its meaning is, -1 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f32>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    pub note: Note,
    pub why: Why,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Searched {
    pub found: Vec<Found>,
    /// Why meaning was not, or not for every note, searched; for a person.
    pub notices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forget {
    Ids(Vec<String>),
    /// Every note and proposal that has all of these words.
    Words(String),
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Forgotten {
    pub notes: Vec<Note>,
    pub proposals: Vec<Proposal>,
    /// Files that could not be read, and so may still hold it.
    pub unread: Vec<Problem>,
    /// Another process was reading; its copy of the old bytes leaves the disk with the next write.
    pub traces: bool,
}

/// A file of the memory that is no note. It stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub path: PathBuf,
    pub problem: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Reindexed {
    pub notes: usize,
    /// Notes that got a vector now.
    pub embedded: usize,
    pub problems: Vec<Problem>,
    pub notices: Vec<String>,
}

/// Characters of a note's text. What is longer is a document, and a document is a file.
const LONGEST: usize = 100_000;
const TAGS: usize = 32;
const TAG_CHARS: usize = 64;

/// The note a draft becomes.
pub(crate) fn drafted(draft: Draft, id: String) -> Result<Note, MemoryError> {
    let invalid = |why: String| Err(MemoryError::Invalid(why));
    // No database keeps a NUL, and no person means one.
    let text = draft.text.replace('\0', "").replace("\r\n", "\n").trim().to_owned();
    if text.is_empty() {
        return invalid("it has no text".to_owned());
    }
    let length = text.chars().count();
    if length > LONGEST {
        return invalid(format!("it has {length} characters; at most {LONGEST} are kept"));
    }
    let importance = draft.importance.unwrap_or(USUAL_IMPORTANCE);
    if !(1..=5).contains(&importance) {
        return invalid(format!("importance {importance}: it is 1 to 5"));
    }
    let mut tags: Vec<String> = Vec::new();
    for tag in draft.tags {
        // One line each, as a file has them.
        let tag = tag.replace('\0', "").split_whitespace().collect::<Vec<_>>().join(" ");
        if tag.chars().count() > TAG_CHARS {
            return invalid(format!("a tag has more than {TAG_CHARS} characters"));
        }
        if !tag.is_empty() && !tags.iter().any(|t| t.to_lowercase() == tag.to_lowercase()) {
            tags.push(tag);
        }
    }
    if tags.len() > TAGS {
        return invalid(format!("it has {} tags; at most {TAGS} are kept", tags.len()));
    }
    let date = draft.date.unwrap_or_else(|| Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date());
    let session = draft.session.map(|s| s.replace('\0', "").trim().to_owned()).filter(|s| !s.is_empty());
    Ok(Note { id, kind: draft.kind, date, importance, tags, session, text, path: None })
}

/// `new` in the place of `old`.
pub(crate) fn merged(old: Note, new: Note) -> Note {
    let mut tags = old.tags;
    for tag in new.tags {
        if !tags.iter().any(|t| t.to_lowercase() == tag.to_lowercase()) {
            tags.push(tag);
        }
    }
    tags.truncate(TAGS);
    Note { id: old.id, path: old.path, tags, importance: old.importance.max(new.importance), ..new }
}
