//! What every store of notes does, and what turns text into vectors for it.

use super::{Draft, Filter, Forget, Forgotten, MemoryError, Note, Proposal, Query, Reindexed, Remembered, Searched};
use futures::future::BoxFuture;
use jarvis_protocol::ErrorBody;

/// Texts to vectors of one length. Passed in: this crate asks nothing of the network.
pub trait Embed: Send + Sync {
    /// Vectors of different models are never compared.
    fn model(&self) -> &str;

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ErrorBody>>;
}

pub type Answer<'a, T> = BoxFuture<'a, Result<T, MemoryError>>;

pub trait MemoryStore: Send + Sync {
    /// What a person said to keep.
    fn add(&self, draft: Draft) -> Answer<'_, Note>;
    fn get<'a>(&'a self, id: &'a str) -> Answer<'a, Note>;
    /// The newest first.
    fn list<'a>(&'a self, filter: &'a Filter, offset: usize, limit: usize) -> Answer<'a, Vec<Note>>;
    /// By words and, with an embedder, by meaning; the two lists are fused by rank.
    fn search<'a>(&'a self, query: &'a Query) -> Answer<'a, Searched>;
    /// What was learned in a conversation: a proposal, unless it is known, waits already, or was rejected.
    fn remember(&self, draft: Draft) -> Answer<'_, Remembered>;
    /// The oldest first.
    fn proposals(&self) -> Answer<'_, Vec<Proposal>>;
    /// The proposal becomes a note, or takes the place of the note `replacing`, which keeps its id and its tags.
    fn accept<'a>(&'a self, id: &'a str, replacing: Option<&'a str>) -> Answer<'a, Note>;
    /// The proposal goes, and is not made again.
    fn reject<'a>(&'a self, id: &'a str) -> Answer<'a, Proposal>;
    /// From the notes, the proposals, the index and the vectors.
    fn forget<'a>(&'a self, what: &'a Forget) -> Answer<'a, Forgotten>;
    /// The index and missing vectors anew, from the notes.
    fn reindex(&self) -> Answer<'_, Reindexed>;
}
