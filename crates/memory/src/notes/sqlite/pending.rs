//! Proposals, each a file like a note's, and what was rejected: kept as hashes of its words, to know it again.

use super::Inner;
use crate::notes::{
    MemoryError, Note, Proposal,
    files::FolderLock,
    markdown::{Document, valid_id},
    similar::Gist,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Hidden, so that they are no notes.
pub(super) const PROPOSALS: &str = ".proposals";
const REJECTED: &str = ".rejected";

#[derive(Serialize, Deserialize)]
struct Rejected {
    at: Timestamp,
    #[serde(flatten)]
    gist: Gist,
}

impl Inner {
    /// The oldest first. A proposal that cannot be read is passed over, and stays.
    pub fn read_proposals(&self) -> Result<Vec<Proposal>, MemoryError> {
        let mut found = Vec::new();
        for name in self.folder.names(PROPOSALS)? {
            let Some(id) = name.strip_suffix(".md").filter(|id| valid_id(id)) else { continue };
            if let Some(proposal) = self.read_proposal(id)? {
                found.push(proposal);
            }
        }
        Ok(found)
    }

    pub fn read_proposal(&self, id: &str) -> Result<Option<Proposal>, MemoryError> {
        if !valid_id(id) {
            return Ok(None);
        }
        let name = proposal_file(id);
        let Some(bytes) = self.folder.read(&name)? else { return Ok(None) };
        let Ok(document) = Document::parse(&String::from_utf8_lossy(&bytes)) else { return Ok(None) };
        let (Ok(parsed), Ok(similar)) = (document.note(), document.list("similar")) else { return Ok(None) };
        let note = Note {
            id: id.to_owned(),
            kind: parsed.kind,
            date: parsed.date.unwrap_or_default(),
            importance: parsed.importance,
            tags: parsed.tags,
            session: parsed.session,
            text: parsed.text,
            path: Some(self.folder.path(&name)),
        };
        Ok(Some(Proposal { note, similar }))
    }

    pub fn write_proposal(&self, mut proposal: Proposal, lock: &FolderLock) -> Result<Proposal, MemoryError> {
        let text = Document::with_similar(&proposal.similar).with(&proposal.note);
        let name = proposal_file(&proposal.note.id);
        self.folder.write(&name, &text, lock)?;
        proposal.note.path = Some(self.folder.path(&name));
        Ok(proposal)
    }

    pub fn remove_proposal(&self, id: &str, lock: &FolderLock) -> Result<(), MemoryError> {
        self.folder.remove(&proposal_file(id), lock)
    }

    pub fn write_rejected(&self, gist: Gist, lock: &FolderLock) -> Result<(), MemoryError> {
        let line = serde_json::to_string(&Rejected { at: Timestamp::now(), gist });
        self.folder.add_line(REJECTED, &line.map_err(|e| MemoryError::Invalid(e.to_string()))?, lock)
    }

    /// When a person said no to the same.
    pub fn rejected(&self, gist: &Gist) -> Result<Option<Timestamp>, MemoryError> {
        let bytes = self.folder.read_whole(REJECTED)?.unwrap_or_default();
        // A line that was cut off in writing is no reason to propose anything; the others still hold.
        let lines = bytes.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice::<Rejected>(l).ok());
        Ok(lines.filter(|r| gist.said_by(&r.gist)).map(|r| r.at).max())
    }
}

fn proposal_file(id: &str) -> String {
    format!("{PROPOSALS}/{id}.md")
}
