//! The embedded engine: a GGUF model in this process through llama.cpp. One thread owns model and context and takes
//! requests in turn; the model is loaded by the first of them.

mod context;
mod embed;
mod engine;
mod load;
mod prompt;
mod sample;
mod state;
mod text;
mod threads;
mod tokenizer;

use crate::{Backend, Completion, Constraint, Delta, ModelError, Request, Tool};
pub use embed::local_embedder;
use engine::{Engine, Fault};
use futures::FutureExt;
use futures::future::BoxFuture;
use jarvis_protocol::Message;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;
use tokenizer::Tokenizer;
use tokio::sync::{mpsc as stream, oneshot};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// A GGUF file.
    pub model_path: PathBuf,
    /// As a person knows it, e.g. `qwen2.5-coder-1.5b`.
    pub name: String,
    /// Tokens of prompt and answers together; at most what the model was trained on is used.
    pub context_tokens: usize,
    /// Default: one for each physical core.
    pub threads: Option<usize>,
    /// Layers on the GPU, where one is compiled in. Default: all.
    pub gpu_layers: Option<u32>,
    /// The computed states of stable prompt beginnings are kept here, 16 at most, a few dozen MB each.
    pub state_dir: PathBuf,
}

/// A backend that loads `config.model_path` at its first request.
pub fn local(config: LocalConfig) -> Arc<dyn Backend> {
    Arc::new(Local { stop: Arc::default(), config, tokenizer: OnceLock::new(), worker: Mutex::new(None) })
}

struct Local {
    config: LocalConfig,
    /// Set when the backend goes; breaks off loading and decoding.
    stop: Arc<AtomicBool>,
    /// Loaded by the first count; the worker may be busy with an answer then.
    tokenizer: OnceLock<Option<Tokenizer>>,
    worker: Mutex<Option<Worker>>,
}

struct Worker {
    jobs: mpsc::Sender<(Job, Reply)>,
    thread: JoinHandle<()>,
}

type Reply = oneshot::Sender<Result<Completion, ModelError>>;

/// One request as the worker sees it.
struct Job {
    messages: Vec<Message>,
    max_tokens: u32,
    temperature: Option<f32>,
    seed: Option<u32>,
    constraint: Option<Constraint>,
    samples: u8,
    stable_prefix: usize,
    note: Option<String>,
    assistant_prefix: Option<String>,
    stop: Vec<String>,
    deltas: stream::UnboundedSender<Delta>,
    cancel: CancellationToken,
    /// The backend is going.
    closing: Arc<AtomicBool>,
}

impl Job {
    fn check(&self) -> Result<(), Fault> {
        let over = self.cancel.is_cancelled() || self.closing.load(Ordering::Relaxed);
        if over { Err(Fault::Cancelled) } else { Ok(()) }
    }

    fn tell(&self, delta: Delta) {
        // Nobody listens any more: the next check ends the job.
        let _ = self.deltas.send(delta);
    }

    fn show(&self, text: &str) {
        if !text.is_empty() {
            self.tell(Delta::Text(text.to_owned()));
        }
    }
}

impl Local {
    /// Hands a job to the worker, which is started by the first.
    fn submit(&self, job: Job, reply: Reply) -> Result<(), ModelError> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = worker.as_ref().is_none_or(|worker| worker.thread.is_finished());
        if gone {
            let (jobs, queue) = mpsc::channel();
            let (config, stop) = (self.config.clone(), self.stop.clone());
            let thread = std::thread::Builder::new()
                .name("local-model".into())
                .spawn(move || work(&config, &stop, &queue))
                .map_err(|error| load::fault(&self.config.model_path, &error.to_string(), "close other programs"))?;
            *worker = Some(Worker { jobs, thread });
        }
        let sent = worker.as_ref().is_some_and(|worker| worker.jobs.send((job, reply)).is_ok());
        if sent { Ok(()) } else { Err(broke_down()) }
    }
}

impl Backend for Local {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        async move {
            if !request.tools.is_empty() {
                let message = "the embedded engine takes no tool list; it is led step by step (staged mode)".into();
                return Err(ModelError::NotSent { message });
            }
            if request.messages.iter().any(|m| !m.images.is_empty()) {
                let message = "the embedded engine reads text alone; leave the images out, or use a provider".into();
                return Err(ModelError::NotSent { message });
            }
            // Also cancelled when this future is dropped.
            let cancelled = cancel.child_token();
            let _guard = cancelled.clone().drop_guard();
            let (deltas, mut coming) = stream::unbounded_channel();
            let (reply, mut result) = oneshot::channel();
            let job = Job {
                messages: request.messages.clone(),
                max_tokens: request.max_tokens,
                temperature: request.temperature,
                seed: request.seed,
                constraint: request.constraint.clone(),
                samples: request.samples,
                stable_prefix: request.stable_prefix,
                note: request.note.clone(),
                assistant_prefix: request.assistant_prefix.clone(),
                stop: request.stop.clone(),
                deltas,
                cancel: cancelled,
                closing: self.stop.clone(),
            };
            self.submit(job, reply)?;
            loop {
                tokio::select! {
                    biased;
                    // The worker stops by itself, at its next check.
                    () = cancel.cancelled() => return Err(ModelError::Cancelled),
                    Some(delta) = coming.recv() => on_delta(delta),
                    result = &mut result => {
                        while let Ok(delta) = coming.try_recv() {
                            on_delta(delta);
                        }
                        return result.unwrap_or_else(|_| Err(broke_down()));
                    }
                }
            }
        }
        .boxed()
    }

    /// None for what it would not be sent: a list of tools, or images.
    fn count(&self, messages: &[Message], tools: &[Tool]) -> Option<u64> {
        if !tools.is_empty() || messages.iter().any(|m| !m.images.is_empty()) {
            return None;
        }
        self.tokenizer.get_or_init(|| Tokenizer::load(&self.config, &self.stop)).as_ref()?.count(messages)
    }
}

impl Drop for Local {
    /// Waits for the worker: llama.cpp must be idle when the process runs its exit handlers.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { jobs, thread }) = worker {
            drop(jobs);
            // A panic in there was already reported to the request that met it.
            let _ = thread.join();
        }
    }
}

fn broke_down() -> ModelError {
    ModelError::Engine { message: "it stopped; see the log".into() }
}

/// The worker thread. A load that fails is tried again by the next request: the file may have been fetched meanwhile.
fn work(config: &LocalConfig, stop: &Arc<AtomicBool>, jobs: &mpsc::Receiver<(Job, Reply)>) {
    while let Ok((job, reply)) = jobs.recv() {
        job.tell(Delta::Status(format!("loading {}", config.name)));
        let started = Instant::now();
        let model = match load::load(config, stop) {
            Ok(model) => model,
            Err(error) => {
                let _ = reply.send(Err(error));
                continue;
            }
        };
        let mut engine = match Engine::new(config, &model, stop.clone()) {
            Ok(engine) => engine,
            Err(message) => {
                let hint = "there may be too little memory; choose a smaller context or model";
                let _ = reply.send(Err(load::fault(&config.model_path, &message, hint)));
                continue;
            }
        };
        tracing::debug!(model = config.name, ms = started.elapsed().as_millis() as u64, "loaded");
        serve(&mut engine, job, reply);
        while let Ok((job, reply)) = jobs.recv() {
            serve(&mut engine, job, reply);
        }
    }
}

fn serve(engine: &mut Engine<'_>, job: Job, reply: Reply) {
    let result = job.check().and_then(|()| engine.answer(&job)).map_err(ModelError::from);
    // The request may have been dropped.
    let _ = reply.send(result);
}
