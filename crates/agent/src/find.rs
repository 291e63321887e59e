//! Searching the registry: by words, and by meaning too where an embedding model is set up.

use jarvis_model::Embedder;
use jarvis_registry::{Hit, Near, Registry, RegistryError, Statuses};
use std::sync::Arc;

/// Texts in one request to the embedding model.
const AT_ONCE: usize = 64;
/// Texts that one search waits for; the rest are embedded by the next ones.
const MOST: usize = 512;

#[derive(Debug)]
pub struct Finding {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Why the search was by words alone although an embedding model is set up.
    pub notice: Option<String>,
}

/// [`Registry::search_with`]; with an embedder, fused with nearness in meaning.
///
/// # Errors
/// As the registry's. An embedder that fails is no error: its notice is to be shown.
pub async fn find(
    registry: &Registry,
    embedder: Option<&Arc<dyn Embedder>>,
    query: &str,
    limit: usize,
    which: Statuses,
) -> Result<Finding, RegistryError> {
    let Some(embedder) = embedder else {
        return Ok(Finding { hits: registry.search_with(query, limit, which)?, notice: None });
    };
    match near(registry, embedder, query, which).await {
        Ok(near) => Ok(Finding { hits: registry.search_near(query, &near, limit, which)?, notice: None }),
        Err(problem) => {
            let notice = format!("{} could not be used ({problem}); the search is by words alone", embedder.id());
            Ok(Finding { hits: registry.search_with(query, limit, which)?, notice: Some(notice) })
        }
    }
}

async fn near(registry: &Registry, embedder: &Arc<dyn Embedder>, query: &str, which: Statuses) -> Result<Near, String> {
    let mut missing = registry.texts_without_vector(embedder.id(), which).map_err(|e| e.to_string())?;
    missing.truncate(MOST);
    for part in missing.chunks(AT_ONCE) {
        let texts: Vec<String> = part.iter().map(|(_, text)| text.clone()).collect();
        let vectors = embedder.embed(&texts).await.map_err(|e| e.to_string())?;
        let kept: Vec<_> = part.iter().map(|(digest, _)| *digest).zip(vectors).collect();
        registry.keep_vectors(embedder.id(), &kept).map_err(|e| e.to_string())?;
    }
    let vectors = embedder.embed(&[query.to_owned()]).await.map_err(|e| e.to_string())?;
    let vector = vectors.into_iter().next().ok_or("it gave no vector")?;
    Ok(Near { model: embedder.id().to_owned(), vector })
}
