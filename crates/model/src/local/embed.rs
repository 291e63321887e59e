//! Embeddings by the embedded engine: a GGUF embedding model in this process, loaded by the first request.

use super::{LocalConfig, load};
use crate::ModelError;
use crate::embed::{Embedder, normalized};
use futures::future::BoxFuture;
use llama_cpp_2::context::params::{LlamaContextParams, LlamaPoolingType};
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Longer texts are cut: a definition or a note says what it is about in its beginning.
const MOST_TOKENS: usize = 512;

struct Local {
    id: String,
    engine: Arc<Engine>,
}

struct Engine {
    config: LocalConfig,
    model: Mutex<Option<LlamaModel>>,
}

/// `config.context_tokens` and `config.state_dir` are not used.
pub fn local_embedder(config: LocalConfig) -> Arc<dyn Embedder> {
    let id = format!("local/{}", config.name);
    Arc::new(Local { id, engine: Arc::new(Engine { config, model: Mutex::new(None) }) })
}

impl Embedder for Local {
    fn id(&self) -> &str {
        &self.id
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            let (engine, texts) = (self.engine.clone(), texts.to_vec());
            let work = tokio::task::spawn_blocking(move || engine.embed(&texts));
            work.await.unwrap_or_else(|_| Err(fault("it stopped; see the log")))
        })
    }
}

fn fault(message: impl ToString) -> ModelError {
    ModelError::Engine { message: message.to_string() }
}

impl Engine {
    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut slot = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let model = match slot.as_mut() {
            Some(model) => model,
            None => slot.insert(load::load(&self.config, &AtomicBool::new(false))?),
        };
        let backend = load::backend().map_err(fault)?;
        let threads = self.config.threads.unwrap_or_else(load::physical_cores);
        let threads = i32::try_from(threads).unwrap_or(1);
        // A model that was not trained for embeddings names no pooling; the mean of its tokens serves.
        let pooling = match model.meta_val_str("general.architecture") {
            Ok(architecture) if architecture.contains("bert") => LlamaPoolingType::Unspecified,
            _ => LlamaPoolingType::Mean,
        };
        let most = u32::try_from(MOST_TOKENS).unwrap_or(512);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(most))
            .with_n_batch(most)
            .with_n_ubatch(most)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_embeddings(true)
            .with_pooling_type(pooling);
        let mut context = model.new_context(backend, params).map_err(fault)?;
        let vocab = model.vocab();
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let mut tokens = vocab.tokenize(text.as_bytes(), true, false);
            tokens.truncate(MOST_TOKENS);
            if tokens.is_empty() {
                return Err(ModelError::NotSent { message: "an empty text has no meaning to embed".to_owned() });
            }
            let mut batch = LlamaBatch::new(tokens.len(), 1);
            batch.add_sequence(&tokens, 0, true).map_err(fault)?;
            context.clear_kv_cache();
            context.decode(&mut batch).map_err(fault)?;
            vectors.push(context.embeddings_seq_ith(0).map_err(fault)?.to_vec());
        }
        normalized(vectors, texts.len())
    }
}
