//! What the clones of one handle share: what was spent for what, and how the provider's counts differ from the estimate.

use crate::{Request, Spent, estimate};
use jarvis_protocol::{Purpose, Usage};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shorter prompts say little: a provider's own framing weighs as much as they do.
const TELLING: f64 = 200.0;
/// A count further off than that, either way, is not one of these tokens (a server that reports 0 or 1, or bytes).
const PLAUSIBLE: f64 = 3.0;
/// How much of what was learned before each new count leaves.
const KEPT: f64 = 0.7;

#[derive(Default)]
pub(crate) struct Account(Mutex<State>);

#[derive(Default)]
struct State {
    spent: BTreeMap<Purpose, Spent>,
    /// Of prompts so far, the older the less they weigh.
    estimated: f64,
    counted: f64,
}

impl Account {
    /// Takes in one answered request.
    pub fn enter(&self, request: &Request, usage: &Usage) {
        let estimated = told(request, usage);
        let mut state = self.state();
        let spent = state.spent.entry(request.purpose).or_default();
        spent.calls += 1;
        spent.usage.add(*usage);
        if let Some(estimated) = estimated {
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
            let counted = usage.input_tokens as f64;
            state.estimated = state.estimated * KEPT + estimated;
            state.counted = state.counted * KEPT + counted;
        }
    }

    pub fn spent(&self) -> BTreeMap<Purpose, Spent> {
        self.state().spent.clone()
    }

    /// An estimate in the provider's tokens, as far as they are known.
    pub fn corrected(&self, estimate: u64) -> u64 {
        let state = self.state();
        if state.estimated == 0.0 {
            return estimate;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small"
        )]
        let corrected = (estimate as f64 * state.counted / state.estimated).ceil() as u64;
        corrected
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The estimate for a request whose provider's count can be compared with it.
fn told(request: &Request, usage: &Usage) -> Option<f64> {
    // Several answers of Anthropic are several requests; images are counted too differently.
    if usage.estimated || request.samples > 1 || request.messages.iter().any(|m| !m.images.is_empty()) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
    let (estimated, counted) = (estimate::request(request) as f64, usage.input_tokens as f64);
    let plausible = counted > estimated / PLAUSIBLE && counted < estimated * PLAUSIBLE;
    (estimated >= TELLING && plausible).then_some(estimated)
}
