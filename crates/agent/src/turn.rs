//! What one turn has used and done so far, and its bounds.

use crate::session::TurnLimits;
use jarvis_dispatch::Approver;
use jarvis_forge::Forge;
use jarvis_model::ModelHandle;
use jarvis_protocol::{Event, StopReason, Usage};
use std::time::{Duration, Instant};
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
    /// Something was run or built that the history of a led model does not show.
    pub acted: bool,
    /// What the turn had used, and when, at the last registration in it.
    last_built: (Usage, Instant),
    /// Written with the session.
    written: Usage,
    limits: TurnLimits,
}

impl Turn {
    pub fn start(limits: TurnLimits) -> Self {
        let started = Instant::now();
        Self {
            started,
            last_built: (Usage::default(), started),
            usage: Usage::default(),
            written: Usage::default(),
            built: Vec::new(),
            used: Vec::new(),
            rounds: 0,
            acted: false,
            limits,
        }
    }

    /// Counts one model call, whatever it was for. Its cost is in it.
    pub fn count(&mut self, usage: Usage) {
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

    /// What each of `among` subagents may use: a part of what is left, and not the last round, which is the answer's.
    pub fn share(&self, among: u32) -> Option<TurnLimits> {
        let among = among.max(1);
        let rounds = self.limits.max_rounds.saturating_sub(self.rounds).saturating_sub(1) / among;
        let used = self.usage.input_tokens + self.usage.output_tokens;
        let tokens = self.limits.max_tokens.saturating_sub(used) / u64::from(among);
        let cost = self.limits.max_cost_usd.map(|most| (most - self.usage.cost_usd) / f64::from(among));
        let time = self.limits.max_time.saturating_sub(self.started.elapsed());
        let left = rounds > 0 && tokens > 0 && !time.is_zero() && cost.is_none_or(|cost| cost > 0.0);
        left.then_some(TurnLimits { max_rounds: rounds, max_tokens: tokens, max_cost_usd: cost, max_time: time })
    }

    /// Counts all that a subagent's turn used and did.
    pub fn absorb(&mut self, other: &Turn) {
        self.usage.add(other.usage);
        // What its own registrations took is recorded with them.
        self.last_built.0.add(other.usage);
        self.rounds += other.rounds;
        other.built.iter().for_each(|name| self.mark_built(name));
        other.used.iter().for_each(|name| self.mark_used(name));
    }

    pub fn duration_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub fn mark_built(&mut self, name: &str) {
        if !self.built.iter().any(|n| n == name) {
            self.built.push(name.to_owned());
        }
    }

    /// What was spent since the turn began, or since this was asked last: at each registration, what building took.
    pub fn take_spent(&mut self) -> (Usage, Duration) {
        let (before, since) = std::mem::replace(&mut self.last_built, (self.usage, Instant::now()));
        (since_then(self.usage, before), since.elapsed())
    }

    /// What was spent since this was asked last: each part is written with the session once.
    pub fn take_unwritten(&mut self) -> Usage {
        let before = std::mem::replace(&mut self.written, self.usage);
        since_then(self.usage, before)
    }

    pub fn mark_used(&mut self, name: &str) {
        if !self.used.iter().any(|n| n == name) {
            self.used.push(name.to_owned());
        }
    }
}

fn since_then(now: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: now.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: now.output_tokens.saturating_sub(before.output_tokens),
        cached_tokens: now.cached_tokens.saturating_sub(before.cached_tokens),
        cache_write_tokens: now.cache_write_tokens.saturating_sub(before.cache_write_tokens),
        reasoning_tokens: now.reasoning_tokens.saturating_sub(before.reasoning_tokens),
        cost_usd: (now.cost_usd - before.cost_usd).max(0.0),
        estimated: now.estimated,
    }
}

/// A capability was registered in this turn: it is told in the end, and what building it took is kept.
pub(crate) fn built(turn: &mut Turn, forge: &Forge, name: &str, emit: &mut (dyn FnMut(Event) + Send)) {
    turn.mark_built(name);
    let (usage, took) = turn.take_spent();
    // A registration is not undone because its cost could not be kept.
    if let Err(error) = forge.record_build(name, usage, took) {
        emit(Event::Notice { message: format!("what building `{name}` took is not recorded: {error}") });
    }
}
