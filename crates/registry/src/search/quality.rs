//! How good the search is on labelled requests: the same figures for the tests and for `jarvis bench registry`.

use crate::types::{Hit, Statuses};
use crate::{FITS, Registry, RegistryError};
use jarvis_protocol::{Capability, CapabilityName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Capabilities, requests, and which of them each request is for.
#[derive(Debug, Clone, Deserialize)]
pub struct Labelled {
    pub capabilities: Vec<Described>,
    pub queries: Vec<Query>,
}

/// A capability as public collections describe one; what they leave out is empty.
#[derive(Debug, Clone, Deserialize)]
pub struct Described {
    pub name: CapabilityName,
    #[serde(alias = "capability")]
    pub description: String,
    #[serde(default)]
    pub parameters: Option<Value>,
    #[serde(default)]
    pub triggers: Vec<String>,
    #[serde(default)]
    pub suppression: Vec<String>,
    #[serde(default)]
    pub aliases: Vec<CapabilityName>,
}

impl From<Described> for Capability {
    fn from(described: Described) -> Capability {
        let mut capability = Capability::new(described.name, &described.description);
        if let Some(parameters) = described.parameters {
            capability.parameters = parameters;
        }
        capability.triggers = described.triggers;
        capability.suppression = described.suppression;
        capability.aliases = described.aliases;
        capability
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Query {
    pub query: String,
    /// Empty where nothing fits.
    pub expect: Vec<CapabilityName>,
}

/// Shares between 0 and 1.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Quality {
    /// Requests for which something fits; the next five are about them.
    pub matching: usize,
    /// The mean share of the expected capabilities that is among the first hits.
    pub recall_at_1: f64,
    pub recall_at_5: f64,
    /// The mean of 1 / the rank of the first expected one.
    pub mrr: f64,
    /// Recall among the first five, of hits alone that are said to fit.
    pub fitting_at_5: f64,
    /// Requests for which nothing fits, and the share of them for which nothing is said to fit.
    pub without_match: usize,
    pub no_match_accuracy: f64,
    /// What went wrong, a line each.
    pub faults: Vec<String>,
}

/// Hits looked at for the rank of the first expected one.
const LOOKED_AT: usize = 50;

/// Runs the requests that `which` chooses.
///
/// # Errors
/// As [`Registry::search`].
pub fn quality(
    registry: &Registry,
    queries: &[Query],
    which: impl Fn(&Query) -> bool,
) -> Result<Quality, RegistryError> {
    let mut sum = Quality::default();
    for query in queries.iter().filter(|q| which(q)) {
        let hits = registry.search_with(&query.query, LOOKED_AT, Statuses::Active)?;
        let fits = |hit: &&Hit| hit.score >= FITS && hit.suppressed_by.is_none();
        let told: Vec<String> = hits.iter().take(5).map(|h| format!("{} {:.2}", h.capability.name, h.score)).collect();
        if query.expect.is_empty() {
            sum.without_match += 1;
            match hits.iter().find(fits) {
                None => sum.no_match_accuracy += 1.0,
                Some(_) => sum.faults.push(format!("{} → {}, not nothing", query.query, told.join(", "))),
            }
            continue;
        }
        let expected = |hit: &Hit| query.expect.contains(&hit.capability.name);
        let among = |hits: &mut dyn Iterator<Item = &Hit>| {
            hits.filter(|h| expected(h)).count() as f64 / query.expect.len() as f64
        };
        let fitting = among(&mut hits.iter().take(5).filter(fits));
        sum.matching += 1;
        sum.recall_at_1 += among(&mut hits.iter().take(1));
        sum.recall_at_5 += among(&mut hits.iter().take(5));
        sum.fitting_at_5 += fitting;
        let rank = hits.iter().position(expected);
        sum.mrr += rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
        if fitting < 1.0 || rank != Some(0) {
            let names: Vec<&str> = query.expect.iter().map(CapabilityName::as_str).collect();
            sum.faults.push(format!("{} → {}; expected {}", query.query, told.join(", "), names.join(", ")));
        }
    }
    for share in [&mut sum.recall_at_1, &mut sum.recall_at_5, &mut sum.mrr, &mut sum.fitting_at_5] {
        *share /= sum.matching.max(1) as f64;
    }
    sum.no_match_accuracy /= sum.without_match.max(1) as f64;
    Ok(sum)
}
