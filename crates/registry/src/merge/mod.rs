//! What git could not merge, merged by name: entries changed on one side are taken, added ones are all kept, and only
//! what both sides changed in different ways is left to a person. The file keeps its order and new entries go to its
//! end: sorting would rewrite indexes of other tools, and git would still stumble over neighbours.

mod apply;
mod commit;
mod entry;
mod plan;

use crate::git::Git;
use plan::Sides;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which of two versions: the one that was here before the pull, or the one that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Ours,
    Theirs,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Ours => Side::Theirs,
            Side::Theirs => Side::Ours,
        }
    }
}

/// A capability that both sides changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    pub name: String,
    /// What differs.
    pub problem: String,
}

/// How far a merge has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merged {
    /// What was done, in words.
    pub done: Vec<String>,
    /// Still to be chosen.
    pub conflicts: Vec<MergeConflict>,
    /// What is left to a person.
    pub todo: Option<String>,
    /// The merge commit, once it is made.
    pub commit: Option<String>,
}

/// What was chosen so far, beside git's own notes about the merge. Of another merge, it says nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Choices {
    ours: String,
    theirs: String,
    pub made: BTreeMap<String, Side>,
    /// The blob of index.json as jarvis wrote it, to tell it from a file that a person mended.
    pub written: Option<String>,
}

const CHOICES: &str = "jarvis-merge.json";

impl Choices {
    pub fn path(git: &Git) -> PathBuf {
        git.repo().path().join(CHOICES)
    }

    fn read(git: &Git, sides: &Sides) -> Choices {
        let (ours, theirs) = (sides.ours.to_string(), sides.theirs.to_string());
        let read = std::fs::read(Self::path(git)).ok().and_then(|bytes| serde_json::from_slice::<Choices>(&bytes).ok());
        // Without it, or with one of another merge, everything is still to be chosen.
        read.filter(|c| c.ours == ours && c.theirs == theirs).unwrap_or(Choices { ours, theirs, ..Choices::default() })
    }
}
