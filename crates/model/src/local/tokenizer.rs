//! The model's tokenizer without its weights, for counting.

use super::{LocalConfig, load, prompt};
use jarvis_protocol::Message;
use llama_cpp_2::model::{LlamaChatTemplate, LlamaModel};
use std::sync::atomic::AtomicBool;

pub(super) struct Tokenizer {
    model: LlamaModel,
    template: LlamaChatTemplate,
}

impl Tokenizer {
    /// `None` when the file cannot be read: counts are estimated then, and the first request says what is wrong.
    pub(super) fn load(config: &LocalConfig, stop: &AtomicBool) -> Option<Self> {
        let model = load::load_vocabulary(config, stop)
            .inspect_err(|error| tracing::warn!(%error, "no tokenizer; tokens are estimated"))
            .ok()?;
        let template = prompt::template(&model)
            .inspect_err(|error| tracing::warn!(%error, "no chat template; tokens are estimated"))
            .ok()?;
        Some(Self { model, template })
    }

    /// Of the whole prompt, as the engine would compute it.
    pub(super) fn count(&self, messages: &[Message]) -> Option<u64> {
        prompt::count(&self.model, &self.template, messages)
            .inspect_err(|error| tracing::warn!(%error, "tokens are estimated"))
            .ok()
            .map(|count| count as u64)
    }
}
