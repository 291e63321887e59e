//! `POST {base_url}/embeddings`, as OpenAI and most servers speak it.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

use super::http::{Http, retry_after};
use super::provider::{FIRST_WAIT, path, pause};
use super::{Endpoint, Wire, classify};
use crate::ModelError;
use crate::embed::{Embedder, normalized};

struct Remote {
    id: String,
    endpoint: Endpoint,
    http: OnceLock<Result<Http, ModelError>>,
}

/// An embedding model behind OpenAI's wire format.
pub fn openai_embedder(endpoint: Endpoint) -> Arc<dyn Embedder> {
    let id = format!("{}/{}", endpoint.provider, endpoint.model);
    Arc::new(Remote { id, endpoint, http: OnceLock::new() })
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Embedder for Remote {
    fn id(&self) -> &str {
        &self.id
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            if texts.is_empty() {
                return Ok(Vec::new());
            }
            let total = self.endpoint.total_timeout;
            let deadline = Instant::now() + total;
            let late = ModelError::Timeout { host: self.endpoint.provider.clone(), seconds: total.as_secs() };
            let answer = self.with_retries(texts, deadline);
            let vectors = tokio::time::timeout_at(deadline, answer).await.unwrap_or(Err(late))?;
            normalized(vectors, texts.len())
        })
    }
}

impl Remote {
    async fn with_retries(&self, texts: &[String], deadline: Instant) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 0;
        loop {
            let error = match self.attempt(texts).await {
                Ok(vectors) => return Ok(vectors),
                Err(error) => error.map_message(|message| self.endpoint.shown(message)),
            };
            tracing::warn!(provider = %self.endpoint.provider, attempt, %error, "an embedding request failed");
            let pause = pause(&error, &mut wait);
            if !error.is_transient() || attempt >= self.endpoint.retries || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let http = self.http.get_or_init(|| Http::new(Wire::OpenAi, &self.endpoint)).as_ref().map_err(Clone::clone)?;
        let url = http.url(&path(Wire::OpenAi, &self.endpoint.base_url, "embeddings"));
        let path = url.path().to_owned();
        let body = json!({"model": self.endpoint.model, "input": texts, "encoding_format": "float"});
        // The head comes only with the finished answer.
        let first_byte = self.endpoint.total_timeout;
        let mut response = http.post(url, body.to_string().into_bytes(), false, first_byte).await?;
        let status = response.status();
        if !status.is_success() {
            let after = retry_after(&response);
            let body = http.error_body(&mut response).await;
            return Err(classify::response(status.as_u16(), &path, &body, after));
        }
        let body = http.body(&mut response).await?;
        let mut answer: Answer =
            serde_json::from_str(&body).map_err(|e| ModelError::Protocol { message: format!("embeddings: {e}") })?;
        // In the order of the texts, whatever order a server answers in.
        answer.data.sort_by_key(|item| item.index);
        Ok(answer.data.into_iter().map(|item| item.embedding).collect())
    }
}
