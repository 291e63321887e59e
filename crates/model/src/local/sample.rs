//! Choosing the next token: greedy or by chance, under a grammar where there is one.

use super::engine::Fault;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;
use std::cmp::Ordering;

/// Candidates looked at when sampling by chance; the tail beyond them is noise in a small quantised model.
const TOP_K: usize = 40;
const TOP_P: f32 = 0.95;
/// The grammar is first asked about this many of the likeliest tokens. Asking about all 150,000 costs more than
/// computing the token.
const GRAMMAR_FIRST: usize = 256;

/// Tokens that are never part of an answer, and those that end it.
#[derive(Debug)]
pub(super) struct Specials {
    control: Vec<LlamaToken>,
    ends: Vec<LlamaToken>,
}

impl Specials {
    pub(super) fn of(model: &LlamaModel) -> Self {
        let vocab = model.vocab();
        let ends: Vec<_> = vocab.tokens().filter(|t| vocab.is_eog(*t)).collect();
        let control = vocab.tokens().filter(|t| vocab.is_control(*t) && !vocab.is_eog(*t)).collect();
        Self { control, ends }
    }

    pub(super) fn is_end(&self, token: LlamaToken) -> bool {
        self.ends.contains(&token)
    }
}

pub(super) struct Sampler {
    temperature: f32,
    random: u64,
    grammar: Option<LlamaSampler>,
}

impl Sampler {
    /// `temperature` 0 is greedy. `grammar` is GBNF with a rule `root`.
    pub(super) fn new(model: &LlamaModel, temperature: f32, seed: u64, grammar: Option<&str>) -> Result<Self, Fault> {
        let grammar = grammar
            .map(|text| LlamaSampler::grammar(model, text, "root").map_err(|error| Fault::Grammar(error.to_string())))
            .transpose()?;
        Ok(Self { temperature, random: seed ^ 0x9e37_79b9_7f4a_7c15, grammar })
    }

    /// The next token for these logits, which the grammar has then moved past.
    pub(super) fn pick(&mut self, logits: &[f32], specials: &Specials) -> Result<LlamaToken, Fault> {
        let free = if self.temperature <= 0.0 {
            argmax(logits).filter(|token| !specials.control.contains(token))
        } else {
            self.draw(&top(logits, TOP_K, specials))
        };
        if let Some(token) = free
            && self.allows(token)
        {
            self.accept(token, specials)?;
            return Ok(token);
        }
        let mut first = top(logits, GRAMMAR_FIRST, specials);
        // The answer may be complete here, whatever the model thinks of ending.
        for end in &specials.ends {
            if !first.iter().any(|(t, _)| t == end) {
                first.push((*end, logit(logits, *end)));
            }
        }
        let mut allowed = self.allowed(&first);
        if allowed.is_empty() {
            allowed = self.allowed(&top(logits, logits.len(), specials));
        }
        let token = if self.temperature <= 0.0 { allowed.first().map(|(t, _)| *t) } else { self.draw(&allowed) }
            .ok_or_else(|| Fault::Engine("the grammar came to a point where no token is allowed".into()))?;
        self.accept(token, specials)?;
        Ok(token)
    }

    /// Moves the grammar past text that is given, not chosen. False when the grammar does not allow it.
    pub(super) fn follow(&mut self, tokens: &[LlamaToken], specials: &Specials) -> Result<bool, Fault> {
        for token in tokens {
            if !self.allows(*token) {
                return Ok(false);
            }
            self.accept(*token, specials)?;
        }
        Ok(true)
    }

    fn allows(&mut self, token: LlamaToken) -> bool {
        self.grammar.is_none() || !self.allowed(&[(token, 0.0)]).is_empty()
    }

    /// Those of `candidates` that the grammar allows, likeliest first.
    fn allowed(&mut self, candidates: &[(LlamaToken, f32)]) -> Vec<(LlamaToken, f32)> {
        let Some(grammar) = &mut self.grammar else { return candidates.to_vec() };
        let data = candidates.iter().map(|(token, logit)| LlamaTokenData::new(*token, *logit, 0.0));
        let mut array = LlamaTokenDataArray::from_iter(data, false);
        grammar.apply(&mut array);
        let mut left: Vec<_> =
            array.data.iter().map(|d| (d.id(), d.logit())).filter(|(_, logit)| *logit > f32::NEG_INFINITY).collect();
        left.sort_by(|a, b| descending(a.1, b.1));
        left
    }

    fn accept(&mut self, token: LlamaToken, specials: &Specials) -> Result<(), Fault> {
        match &mut self.grammar {
            Some(grammar) if !specials.is_end(token) => {
                grammar.try_accept(token).map_err(|error| Fault::Engine(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Draws by temperature from the nucleus of `candidates`, which are sorted likeliest first.
    fn draw(&mut self, candidates: &[(LlamaToken, f32)]) -> Option<LlamaToken> {
        let (_, best) = candidates.first()?;
        let candidates = &candidates[..candidates.len().min(TOP_K)];
        let mut total = 0.0;
        let weights: Vec<f32> = candidates.iter().map(|(_, l)| ((l - best) / self.temperature).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let nucleus = weights.iter().take_while(|w| {
            let inside = total < TOP_P * sum;
            total += **w;
            inside
        });
        let nucleus: Vec<f32> = nucleus.copied().collect();
        let mut left = self.uniform() * nucleus.iter().sum::<f32>();
        for ((token, _), weight) in candidates.iter().zip(&nucleus) {
            left -= weight;
            if left <= 0.0 {
                return Some(*token);
            }
        }
        candidates.first().map(|(token, _)| *token)
    }

    /// Splitmix64, so that a seed gives the same answer on every platform.
    fn uniform(&mut self) -> f32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 40) as f32 / (1u64 << 24) as f32
    }
}

fn descending(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}

fn logit(logits: &[f32], token: LlamaToken) -> f32 {
    usize::try_from(token.0).ok().and_then(|i| logits.get(i)).copied().unwrap_or(f32::NEG_INFINITY)
}

fn argmax(logits: &[f32]) -> Option<LlamaToken> {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, logit) in logits.iter().enumerate() {
        if *logit > best.1 {
            best = (i, *logit);
        }
    }
    i32::try_from(best.0).ok().map(LlamaToken::new)
}

/// The `n` likeliest tokens but control tokens, likeliest first.
fn top(logits: &[f32], n: usize, specials: &Specials) -> Vec<(LlamaToken, f32)> {
    let mut all: Vec<(LlamaToken, f32)> = (0..).map(LlamaToken::new).zip(logits.iter().copied()).collect();
    if n < all.len() {
        all.select_nth_unstable_by(n, |a, b| descending(a.1, b.1));
        all.truncate(n);
    }
    all.retain(|(token, _)| !specials.control.contains(token));
    all.sort_unstable_by(|a, b| descending(a.1, b.1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials(control: &[i32], ends: &[i32]) -> Specials {
        let tokens = |ids: &[i32]| ids.iter().copied().map(LlamaToken::new).collect();
        Specials { control: tokens(control), ends: tokens(ends) }
    }

    fn sampler(temperature: f32, seed: u64) -> Sampler {
        Sampler { temperature, random: seed, grammar: None }
    }

    fn ids(sampler: &mut Sampler, logits: &[f32], n: usize) -> Vec<i32> {
        (0..n).map(|_| sampler.pick(logits, &specials(&[], &[])).unwrap().0).collect()
    }

    #[test]
    fn greedy_takes_the_likeliest_that_is_no_control_token() {
        let logits = [0.0, 9.0, 5.0, 1.0];
        assert_eq!(sampler(0.0, 0).pick(&logits, &specials(&[], &[])).unwrap().0, 1);
        assert_eq!(sampler(0.0, 0).pick(&logits, &specials(&[1], &[])).unwrap().0, 2);
    }

    #[test]
    fn chance_follows_the_probabilities_and_leaves_out_the_tail() {
        // Probabilities 0.8, 0.16, 0.04: the last is outside the nucleus.
        let logits = [0.8f32.ln(), 0.16f32.ln(), 0.04f32.ln()];
        let drawn = ids(&mut sampler(1.0, 7), &logits, 10_000);
        let share = |id: i32| drawn.iter().filter(|d| **d == id).count() as f32 / 10_000.0;
        assert!((share(0) - 0.8 / 0.96).abs() < 0.02, "{}", share(0));
        assert_eq!(share(2), 0.0);
    }

    #[test]
    fn a_seed_gives_the_same_draws_again_and_another_seed_others() {
        let logits: Vec<f32> = (0..50u8).map(|i| f32::from(i % 7)).collect();
        let draws = |seed| ids(&mut sampler(0.7, seed), &logits, 20);
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
