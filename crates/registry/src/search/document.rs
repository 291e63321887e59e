//! What the search knows of one capability.

use super::concepts::{Kind, VOCABULARY};
use super::terms::{self, Piece, Token, about, pieces, tokens_of};
use super::units::{Unit, units};
use jarvis_protocol::Capability;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Weight of a mention in the name, the sentence, a trigger, a parameter's name and its description.
const NAME: f32 = 3.0;
const SENTENCE: f32 = 2.0;
const TRIGGER: f32 = 1.5;
const PARAMETER: f32 = 0.6;
const DESCRIPTION: f32 = 0.3;

/// What the index is built from; kept for each entry.
pub(crate) struct Bag {
    /// How much each term is spoken of: its occurrences, weighed by where they stand.
    pub terms: Box<[(u64, f32)]>,
    /// The weight of its words, without that of the concepts which they stand for.
    pub length: f32,
}

impl Bag {
    pub fn of(capability: &Capability) -> Bag {
        let mut bag = Filling::default();
        bag.add(&pieces(capability.name.as_str()), NAME);
        for alias in &capability.aliases {
            bag.add(&pieces(alias.as_str()), SENTENCE);
        }
        // Of a name in another script the valid one keeps little.
        let original = capability.extra.get(crate::ORIGINAL_NAME).and_then(Value::as_str).unwrap_or_default();
        bag.add(&pieces(original), SENTENCE);
        bag.add(&pieces(capability.supersedes.as_deref().unwrap_or_default()), SENTENCE);
        bag.add(&pieces(&capability.capability), SENTENCE);
        for trigger in &capability.triggers {
            bag.add(&pieces(trigger), TRIGGER);
        }
        if let Some(Value::Object(properties)) = capability.parameters.get("properties") {
            for (name, schema) in properties {
                bag.add(&pieces(name), PARAMETER);
                let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
                bag.add(&pieces(description), DESCRIPTION);
            }
        }
        let mut terms: Box<[(u64, f32)]> = bag.terms.into_iter().collect();
        terms.sort_unstable_by_key(|(term, _)| *term);
        Bag { terms, length: bag.length }
    }
}

/// What a candidate is looked at closely by; worked out for those alone that once were candidates.
pub(crate) struct Document {
    /// The terms of the name with the sentence, and of each trigger: for near-duplicates.
    pub about: Vec<Vec<Token>>,
    pub name: Vec<Unit>,
    /// The units of the sentence, and of each trigger.
    pub sentences: Vec<Vec<Unit>>,
    pub suppression: Vec<Vec<Unit>>,
    /// The verbs of the name and of the sentence's beginning.
    pub actions: HashSet<u64>,
}

/// How many units of a sentence can hold its verb.
const OPENING: usize = 2;

impl Document {
    pub fn of(capability: &Capability) -> Document {
        let units = |text: &str| units(&pieces(text), None);
        let name = units(capability.name.as_str());
        let sentence = units(&capability.capability);
        let actions = name.iter().chain(sentence.iter().take(OPENING)).flat_map(|u| u.actions.iter().copied());
        let first = format!("{} {}", capability.name, capability.capability);
        Document {
            actions: actions.collect(),
            about: about(&first, capability),
            sentences: std::iter::once(sentence).chain(capability.triggers.iter().map(|t| units(t))).collect(),
            suppression: capability.suppression.iter().map(|s| units(s)).collect(),
            name,
        }
    }
}

#[derive(Default)]
struct Filling {
    terms: HashMap<u64, f32>,
    length: f32,
}

impl Filling {
    fn add(&mut self, pieces: &[Piece<'_>], weight: f32) {
        for token in tokens_of(pieces, true) {
            let weight = if token.kind == terms::Kind::Single { weight * 0.3 } else { weight };
            *self.terms.entry(token.term).or_default() += weight;
            self.length += weight;
        }
        // Every concept once for each text, however many of its words stand there.
        let spoken: HashSet<u64> = units(pieces, None)
            .iter()
            .flat_map(|unit| unit.terms.iter().map(|(term, _)| *term))
            .filter(|term| CONCEPTS.contains(term))
            .collect();
        for term in spoken {
            *self.terms.entry(term).or_default() += weight;
        }
    }
}

static CONCEPTS: std::sync::LazyLock<HashSet<u64>> =
    std::sync::LazyLock::new(|| VOCABULARY.concepts.iter().filter(|c| c.kind != Kind::Talk).map(|c| c.term).collect());
