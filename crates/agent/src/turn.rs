//! What one turn has used and done so far, and its bounds.

use crate::session::TurnLimits;
use jarvis_dispatch::Approver;
use jarvis_model::{ModelHandle, Price};
use jarvis_protocol::{Event, StopReason, Usage};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a turn is answered with, and whom it talks to.
pub(crate) struct Front<'a> {
    /// Date and time for a person, with the zone.
    pub now: &'a str,
    pub model: &'a ModelHandle,
    pub emit: &'a mut (dyn FnMut(Event) + Send),
    pub approver: &'a mut dyn Approver,
    pub cancel: &'a CancellationToken,
}

pub(crate) struct Turn {
    pub started: Instant,
    pub usage: Usage,
    pub built: Vec<String>,
    pub used: Vec<String>,
    pub rounds: u32,
    limits: TurnLimits,
    price: Option<Price>,
}

impl Turn {
    pub fn start(limits: TurnLimits, price: Option<Price>) -> Self {
        Self {
            started: Instant::now(),
            usage: Usage::default(),
            built: Vec::new(),
            used: Vec::new(),
            rounds: 0,
            limits,
            price,
        }
    }

    /// Counts one model call, whatever it was for.
    pub fn count(&mut self, mut usage: Usage) {
        if usage.cost_usd == 0.0
            && let Some(price) = self.price
        {
            usage.cost_usd = price.cost(&usage);
        }
        self.usage.add(usage);
    }

    /// The first bound that is reached.
    pub fn exceeded(&self) -> Option<StopReason> {
        if self.rounds >= self.limits.max_rounds {
            return Some(StopReason::MaxRounds);
        }
        if self.usage.input_tokens + self.usage.output_tokens >= self.limits.max_tokens {
            return Some(StopReason::MaxTokens);
        }
        if self.limits.max_cost_usd.is_some_and(|most| self.usage.cost_usd >= most) {
            return Some(StopReason::MaxCost);
        }
        (self.started.elapsed() >= self.limits.max_time).then_some(StopReason::MaxTime)
    }

    pub fn mark_built(&mut self, name: &str) {
        if !self.built.iter().any(|n| n == name) {
            self.built.push(name.to_owned());
        }
    }

    pub fn mark_used(&mut self, name: &str) {
        if !self.used.iter().any(|n| n == name) {
            self.used.push(name.to_owned());
        }
    }
}
