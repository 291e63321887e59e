//! The notes: in this home, or on the server that a team shares.

use crate::cli::Reach;
use crate::config::Settings;
use crate::error::{Outcome, config};
use crate::home::Home;
use crate::term;
use futures::future::BoxFuture;
use jarvis_agent::Memory;
use jarvis_memory::{Embed, MemoryStore, SqliteStore};
use jarvis_model::Embedder;
use jarvis_policy::Approval;
use jarvis_protocol::ErrorBody;
use std::sync::Arc;

pub fn open(home: &Home, settings: &Settings, embedder: Option<Arc<dyn Embedder>>) -> Outcome<Arc<dyn MemoryStore>> {
    let embedder = embedder.map(|embedder| Arc::new(Adapted(embedder)) as Arc<dyn Embed>);
    let Some(variable) = settings.memory.url_env.as_deref() else {
        return Ok(Arc::new(SqliteStore::open(&home.memory(), &home.memory_index(), embedder)?));
    };
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty()).ok_or_else(|| {
        config(
            format!("the notes are on a server, and {variable} is not set (memory.url_env)"),
            format!("export {variable}=postgres://USER:PASSWORD@HOST/DATABASE, or take memory.url_env out: jarvis config edit"),
        )
    })?;
    shared(&url, &settings.memory.space, embedder)
}

#[cfg(feature = "postgres")]
fn shared(url: &str, space: &str, embedder: Option<Arc<dyn Embed>>) -> Outcome<Arc<dyn MemoryStore>> {
    Ok(Arc::new(jarvis_memory::PostgresStore::new(url, space, embedder)?))
}

#[cfg(not(feature = "postgres"))]
fn shared(_: &str, _: &str, _: Option<Arc<dyn Embed>>) -> Outcome<Arc<dyn MemoryStore>> {
    Err(config(
        "memory.url_env is set, and this build has no shared memory",
        "build with `--features postgres`, or take memory.url_env out: jarvis config edit",
    ))
}

/// The notes of a conversation. One that cannot be had is told, and the question is answered without it.
pub fn memory(home: &Home, settings: &Settings, embedder: Option<Arc<dyn Embedder>>, reach: &Reach) -> Option<Memory> {
    let approval = reach.approve.map_or(settings.approve, Approval::from);
    match open(home, settings, embedder) {
        Ok(store) => Some(Memory { store, keeps: approval == Approval::Auto }),
        Err(failure) => {
            term::note(format!("note: nothing is remembered: {}", failure.message()));
            None
        }
    }
}

/// The model's embedder for the notes, which know nothing of models.
struct Adapted(Arc<dyn Embedder>);

impl Embed for Adapted {
    fn model(&self) -> &str {
        self.0.id()
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ErrorBody>> {
        Box::pin(async move { self.0.embed(texts).await.map_err(|error| error.body()) })
    }
}
