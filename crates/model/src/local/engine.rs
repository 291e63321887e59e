//! A loaded model and its one context: prompt in, n answers out.

use super::context::{Context, Refusal, Size};
use super::prompt::{self, Prompt};
use super::sample::{Sampler, Specials};
use super::state::States;
use super::text::Text;
use super::threads::Threads;
use super::{Job, LocalConfig};
use crate::{Completion, Constraint, Delta, Finish, ModelError};
use jarvis_protocol::Usage;
use llama_cpp_2::model::{LlamaChatTemplate, LlamaModel};
use llama_cpp_2::token::LlamaToken;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Answers decoded at once, at most.
pub(super) const MAX_SAMPLES: usize = 8;
/// Tokens of a prompt computed at once. Larger is no faster on a CPU, and cancelling waits for one such chunk.
const CHUNK: usize = 256;
/// The first chunk, from which is learnt how fast one thread is.
const FIRST_CHUNK: usize = 16;
/// Stable beginnings shorter than this are computed faster than a file is worth.
const MIN_STABLE: usize = 32;
/// Temperature of the second and later answers when none is given.
const VARIED: f32 = 0.7;
/// Prompt tokens still to compute from which on the wait is told.
const LONG_PROMPT: usize = 256;

/// Why a request failed inside the engine.
#[derive(Debug)]
pub(super) enum Fault {
    Cancelled,
    Grammar(String),
    Request(String),
    Overflow(String),
    Engine(String),
}

impl From<Fault> for ModelError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Cancelled => ModelError::Cancelled,
            Fault::Grammar(message) => {
                ModelError::NotSent { message: format!("the grammar cannot be used: {message}") }
            }
            Fault::Request(message) => ModelError::NotSent { message },
            Fault::Overflow(message) => ModelError::ContextOverflow { message },
            Fault::Engine(message) => ModelError::Engine { message },
        }
    }
}

pub(super) struct Engine<'m> {
    model: &'m LlamaModel,
    context: Context<'m>,
    threads: Threads,
    template: LlamaChatTemplate,
    specials: Specials,
    states: Option<States>,
    limit: usize,
    /// What sequence 0 holds.
    held: Vec<LlamaToken>,
}

impl<'m> Engine<'m> {
    pub(super) fn new(config: &LocalConfig, model: &'m LlamaModel, closing: Arc<AtomicBool>) -> Result<Self, String> {
        let limit = config.context_tokens.min(model.n_ctx_train() as usize);
        let size = Size { context: limit, chunk: CHUNK, sequences: MAX_SAMPLES };
        let context = Context::new(model, size, closing)
            .ok_or_else(|| format!("the engine cannot make a context of {limit} tokens"))?;
        let states = States::new(config.state_dir.clone(), &config.model_path)
            .inspect_err(|error| tracing::warn!(%error, "prompt states are not kept"))
            .ok();
        Ok(Self {
            model,
            context,
            threads: Threads::new(config.threads.unwrap_or_else(super::load::physical_cores)),
            template: prompt::template(model)?,
            specials: Specials::of(model),
            states,
            limit,
            held: Vec::new(),
        })
    }

    pub(super) fn answer(&mut self, job: &Job) -> Result<Completion, Fault> {
        let started = Instant::now();
        let samples = usize::from(job.samples).max(1);
        if samples > MAX_SAMPLES {
            return Err(Fault::Request(format!("at most {MAX_SAMPLES} answers at once, {samples} asked for")));
        }
        let grammar = job.constraint.as_ref().map(|Constraint::Gbnf(text)| text.as_str());
        let prompt = prompt::build(self.model, &self.template, job).map_err(Fault::Engine)?;
        if prompt.tokens.len() + samples > self.limit {
            return Err(Fault::Overflow(format!(
                "the prompt has {} tokens, the context {}",
                prompt.tokens.len(),
                self.limit
            )));
        }
        self.context.obey(job.cancel.clone());
        let mut answers = self.begin(job, &prompt, grammar, samples)?;
        let cached = self.prefill(job, &prompt)?;
        let read = started.elapsed();
        for answer in &answers[1..] {
            self.context.share(answer.sequence);
        }
        let decoded = self.decode(job, &mut answers, prompt.tokens.len());
        for answer in &answers[1..] {
            self.clear(answer.sequence, 0);
        }
        decoded?;
        let output: usize = answers.iter().map(|answer| answer.count).sum();
        tracing::debug!(
            prompt = prompt.tokens.len(),
            cached,
            output,
            read_ms = read.as_millis() as u64,
            total_ms = started.elapsed().as_millis() as u64,
            "answered"
        );
        let prefix = job.assistant_prefix.as_deref().unwrap_or_default();
        let finish = answers[0].finish.unwrap_or(Finish::Length);
        let mut texts = answers.iter().map(|answer| format!("{prefix}{}", answer.text.as_str()));
        Ok(Completion {
            text: texts.next().unwrap_or_default(),
            reasoning: None,
            tool_calls: Vec::new(),
            malformed_calls: Vec::new(),
            alternatives: texts.collect(),
            usage: Usage {
                input_tokens: prompt.tokens.len() as u64,
                cached_tokens: cached as u64,
                output_tokens: output as u64,
                ..Usage::default()
            },
            finish,
        })
    }

    /// One answer for each sample, none begun. A grammar that does not parse, or does not allow the given beginning, is
    /// found here, before anything is computed.
    fn begin(&self, job: &Job, prompt: &Prompt, grammar: Option<&str>, samples: usize) -> Result<Vec<Answer>, Fault> {
        let given = &prompt.tokens[prompt.tokens.len() - prompt.prefix..];
        (0..samples)
            .map(|i| {
                let temperature = job.temperature.unwrap_or(if i == 0 { 0.0 } else { VARIED });
                let seed = u64::from(job.seed.unwrap_or(0)) << 8 | i as u64;
                let mut sampler = Sampler::new(self.model, temperature, seed, grammar)?;
                if !sampler.follow(given, &self.specials)? {
                    return Err(Fault::Grammar("it does not allow the given beginning of the answer".into()));
                }
                Ok(Answer {
                    sequence: i as i32,
                    sampler,
                    text: Text::new(&job.stop),
                    count: 0,
                    next: None,
                    output: 0,
                    finish: None,
                })
            })
            .collect()
    }

    /// Computes what sequence 0 does not hold yet. Returns how many tokens came from a cache. Logits of the last token
    /// are then at the end of the batch.
    fn prefill(&mut self, job: &Job, prompt: &Prompt) -> Result<usize, Fault> {
        let tokens = &prompt.tokens;
        // The last token is always computed: its logits are needed.
        let last = tokens.len() - 1;
        let mut have = self.held.iter().zip(tokens).take_while(|(a, b)| a == b).count().min(last);
        let stable = prompt.stable.min(last);
        let worth_keeping = stable >= MIN_STABLE && have < stable;
        if worth_keeping && let Some(states) = &self.states {
            clear(&mut self.context, &mut self.held, 0);
            have = 0;
            if states.load(&mut self.context, &tokens[..stable]) {
                self.held.extend_from_slice(&tokens[..stable]);
                have = stable;
            }
        }
        self.clear(0, have);
        have = have.min(self.held.len());
        if tokens.len() - have >= LONG_PROMPT {
            job.tell(Delta::Status(format!("reading the prompt ({} tokens)", tokens.len() - have)));
        }
        if worth_keeping && have < stable {
            self.compute(job, &tokens[have..stable])?;
            if let Some(states) = &self.states
                && let Err(error) = states.save(&self.context, &tokens[..stable])
            {
                tracing::warn!(%error, "the prompt's state could not be kept; the next process computes it again");
            }
        }
        let rest = self.held.len();
        self.compute(job, &tokens[rest..])?;
        Ok(have)
    }

    /// Appends tokens to sequence 0.
    fn compute(&mut self, job: &Job, tokens: &[LlamaToken]) -> Result<(), Fault> {
        let mut rest = tokens;
        while !rest.is_empty() {
            let size = if self.threads.learning() { FIRST_CHUNK } else { CHUNK };
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            job.check()?;
            self.context.empty_batch();
            for (i, token) in chunk.iter().enumerate() {
                self.context.add(*token, self.held.len() + i, 0, i + 1 == chunk.len());
            }
            self.run()?;
            self.held.extend_from_slice(chunk);
        }
        Ok(())
    }

    fn decode(&mut self, job: &Job, answers: &mut [Answer], prompt: usize) -> Result<(), Fault> {
        let mut cells = prompt;
        let row = i32::try_from(self.context.batch_len()).unwrap_or(0) - 1;
        for answer in answers.iter_mut() {
            answer.output = row;
        }
        if let Some(prefix) = &job.assistant_prefix {
            job.tell(Delta::Text(prefix.clone()));
        }
        loop {
            job.check()?;
            for answer in answers.iter_mut().filter(|answer| answer.finish.is_none()) {
                answer.step(self.model, &self.context, &self.specials, job.max_tokens)?;
                if answer.sequence == 0 {
                    job.show(answer.text.fresh());
                }
            }
            let live = answers.iter().filter(|answer| answer.finish.is_none()).count();
            if live == 0 {
                return Ok(());
            }
            if cells + live > self.limit {
                answers.iter_mut().for_each(|answer| answer.end(Finish::Length));
                job.show(answers[0].text.fresh());
                return Ok(());
            }
            cells += live;
            self.context.empty_batch();
            for answer in answers.iter_mut().filter(|answer| answer.finish.is_none()) {
                let Some(token) = answer.next else { continue };
                answer.output = self.context.add(token, prompt + answer.count - 1, answer.sequence, true);
            }
            self.run()?;
            if answers[0].finish.is_none() {
                self.held.extend(answers[0].next);
            }
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let tokens = self.context.batch_len();
        let refusal = loop {
            let threads = self.threads.next();
            let started = Instant::now();
            let result = self.context.decode(threads, self.threads.limit(threads, tokens));
            match result {
                Ok(()) | Err(Refusal::Late) => self.threads.took(threads, tokens, started.elapsed()),
                Err(_) => {}
            }
            match result {
                Ok(()) => return Ok(()),
                // Again, with one thread: that has no limit.
                Err(Refusal::Late) => tracing::debug!(threads, tokens, "the cores are busy; going on with one thread"),
                Err(refusal) => break refusal,
            }
        };
        // Part of the batch may be in the cache.
        let have = self.held.len();
        self.clear(0, have);
        Err(match refusal {
            Refusal::Full => Fault::Overflow(format!("the context of {} tokens is full", self.limit)),
            Refusal::Cancelled | Refusal::Late => Fault::Cancelled,
            Refusal::Fault(code) => Fault::Engine(format!("llama.cpp could not compute (code {code})")),
        })
    }

    /// Forgets a sequence from a position on.
    fn clear(&mut self, sequence: i32, from: usize) {
        if sequence == 0 {
            clear(&mut self.context, &mut self.held, from);
        } else {
            // A whole sequence is always removable.
            let _ = self.context.forget(sequence, 0);
        }
    }
}

fn clear(context: &mut Context<'_>, held: &mut Vec<LlamaToken>, from: usize) {
    if context.forget(0, from) {
        held.truncate(from);
    } else {
        // Recurrent models cannot go back by a part.
        context.forget_all();
        held.clear();
    }
}

struct Answer {
    sequence: i32,
    sampler: Sampler,
    text: Text,
    /// Tokens chosen.
    count: usize,
    /// Chosen and not yet computed.
    next: Option<LlamaToken>,
    /// Where in the last batch its logits are.
    output: i32,
    finish: Option<Finish>,
}

impl Answer {
    /// Chooses the next token.
    fn step(
        &mut self,
        model: &LlamaModel,
        context: &Context<'_>,
        specials: &Specials,
        max_tokens: u32,
    ) -> Result<(), Fault> {
        if self.count >= max_tokens as usize {
            self.end(Finish::Length);
            return Ok(());
        }
        let logits = context.logits(self.output).ok_or_else(|| Fault::Engine("no logits".into()))?;
        let token = self.sampler.pick(logits, specials)?;
        self.count += 1;
        if specials.is_end(token) || self.text.push(&model.vocab().token_to_piece(token, false, None)) {
            self.end(Finish::Stop);
        } else if self.count >= max_tokens as usize {
            self.end(Finish::Length);
        } else {
            self.next = Some(token);
        }
        Ok(())
    }

    fn end(&mut self, finish: Finish) {
        if self.finish.is_none() {
            self.text.finish();
            self.finish = Some(finish);
        }
    }
}
