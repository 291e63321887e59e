//! What tokens cost.

use jarvis_protocol::Usage;
use serde::{Deserialize, Serialize};

/// US dollars per million tokens, as providers print them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Of input served from a cache; as `input` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    /// Of input written to a cache (Anthropic charges a quarter more); as `input` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let fresh = usage.input_tokens.saturating_sub(usage.cached_tokens).saturating_sub(usage.cache_write_tokens);
        let parts = [
            (fresh, self.input),
            (usage.cached_tokens, self.cached.unwrap_or(self.input)),
            (usage.cache_write_tokens, self.cache_write.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
        let micro: f64 = parts.iter().map(|(tokens, rate)| *tokens as f64 * rate).sum();
        micro / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_token_has_its_rate() {
        let mut usage = Usage { input_tokens: 1_000_000, output_tokens: 100_000, ..Usage::default() };
        let plain = Price { input: 3.0, output: 15.0, cached: None, cache_write: None };
        assert!((plain.cost(&usage) - 4.5).abs() < 1e-12);
        usage.cached_tokens = 600_000;
        usage.cache_write_tokens = 300_000;
        // Reasoning is part of the output.
        usage.reasoning_tokens = 50_000;
        assert!((plain.cost(&usage) - 4.5).abs() < 1e-12);
        let full = Price { cached: Some(0.3), cache_write: Some(3.75), ..plain };
        assert!((full.cost(&usage) - (0.3 + 0.18 + 1.125 + 1.5)).abs() < 1e-12);
        // A provider that counts its cached tokens beside the input.
        usage.input_tokens = 0;
        assert!(full.cost(&usage) > 0.0);
    }
}
