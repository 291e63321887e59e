//! Whether two texts say the same, by their words. What differs in a number or a `not` never does.

use super::{Found, Note, Proposal};
use crate::segment::{query_words, segment};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

/// Of the words of both, this part is common to texts that say the same.
const SAME: f64 = 0.7;
const LIKE: f64 = 0.5;

/// Notes that a new one is compared with.
pub(crate) const COMPARED: usize = 20;
/// Notes as near as this, by meaning, say something like it.
const NEAR: f32 = 0.9;

/// Stems as the segmenter writes them, and characters that turn a sentence round.
const NEGATIONS: [&str; 12] =
    ["not", "no", "never", "without", "nor", "none", "cannot", "don", "doesn", "isn", "won", "stop"];
const CHINESE_NEGATIONS: [char; 8] = ['不', '没', '無', '无', '别', '非', '勿', '未'];

/// The words of a text as hashes: enough to know it again, and no text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gist {
    pub words: BTreeSet<i64>,
    /// Numbers and negations.
    pub telling: BTreeSet<i64>,
}

/// Stable: it is stored.
fn hash(word: &str) -> i64 {
    let digest = blake3::hash(word.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    i64::from_le_bytes(first)
}

impl Gist {
    pub fn of(text: &str) -> Self {
        let words = query_words(text);
        let telling = |word: &&String| NEGATIONS.contains(&word.as_str()) || word.chars().any(char::is_numeric);
        let mut told: BTreeSet<i64> = words.iter().filter(telling).map(|w| hash(w)).collect();
        told.extend(text.chars().filter(|c| CHINESE_NEGATIONS.contains(c)).map(|c| hash(&c.to_string())));
        Self { words: words.iter().map(|w| hash(w)).collect(), telling: told }
    }

    fn common(&self, other: &Gist) -> f64 {
        let common = self.words.intersection(&other.words).count();
        let all = self.words.len() + other.words.len() - common;
        if all == 0 { 0.0 } else { common as f64 / all as f64 }
    }

    /// Whether `known` says all that this says.
    pub fn said_by(&self, known: &Gist) -> bool {
        self.telling == known.telling && self.words.is_subset(&known.words) && self.common(known) >= SAME
    }

    pub fn like(&self, other: &Gist) -> bool {
        self.common(other) >= LIKE
    }
}

pub(crate) enum Compared {
    /// This note says it already.
    Known(Note),
    /// Nothing does; these say something like it.
    Like(Vec<String>),
}

/// A text beside the notes that a search for it found.
pub(crate) fn compare(text: &str, near: Vec<Found>) -> Compared {
    let gist = Gist::of(text);
    let mut like = Vec::new();
    for found in near {
        let other = Gist::of(&found.note.text);
        if gist.said_by(&other) || same_text(text, &found.note.text) {
            return Compared::Known(found.note);
        }
        if gist.like(&other) || found.why.cosine.is_some_and(|c| c >= NEAR) {
            like.push(found.note.id);
        }
    }
    Compared::Like(like)
}

/// The proposal that says it already.
pub(crate) fn waiting(text: &str, proposals: Vec<Proposal>) -> Option<Proposal> {
    let gist = Gist::of(text);
    proposals.into_iter().find(|p| gist.said_by(&Gist::of(&p.note.text)) || same_text(text, &p.note.text))
}

/// What a note is found by, as the index has it.
pub(crate) fn indexed(text: &str, tags: &[String]) -> String {
    segment(&format!("{text}\n{}", tags.join("\n")))
}

/// Whether a note has every word of `text`, as an index would say it.
pub(crate) fn has_all(note: &Note, text: &str) -> bool {
    let words = query_words(text);
    if words.is_empty() {
        return note.text.contains(text.trim());
    }
    let indexed = indexed(&note.text, &note.tags);
    let has: HashSet<&str> = indexed.split(' ').collect();
    words.iter().all(|word| has.contains(word.as_str()))
}

/// By meaning alone, from here on a note has to do with a question.
const ABOUT: f32 = 0.7;

/// Whether a note that was found for `question` has to do with it. A search gives the best there is; here what shares a
/// mere word with a long question is left out, so that a model is not told what does not matter.
pub fn matters(question: &str, found: &Found) -> bool {
    if found.why.cosine.is_some_and(|cosine| cosine >= ABOUT) {
        return true;
    }
    let asked = query_words(question);
    let indexed = indexed(&found.note.text, &found.note.tags);
    let has: HashSet<&str> = indexed.split(' ').collect();
    let common = asked.iter().filter(|word| has.contains(word.as_str())).count();
    let fewer = asked.len().min(query_words(&found.note.text).len());
    common > 0 && (common * 2 >= asked.len() || (common >= 2 && common * 10 >= fewer * 3))
}

/// The same but for white space and case. For texts without words, too.
fn same_text(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(text: &str) -> Found {
        let draft = crate::notes::Draft::new(crate::notes::NoteKind::Fact, text);
        let note = crate::notes::types::drafted(draft, "n".to_owned()).unwrap();
        Found { note, why: crate::notes::Why::default() }
    }

    #[test]
    fn a_note_matters_where_it_shares_more_than_a_word() {
        let port = noted("The staging database listens on port 5433");
        let chinese = noted("测试数据库的端口是 5433");
        for (question, note) in [
            ("which port does the staging database have?", &port),
            ("Write a script that dumps the staging database every night and mails the log to the team", &port),
            ("the port?", &port),
            ("数据库的端口是多少？", &chinese),
        ] {
            assert!(matters(question, note), "{question}");
        }
        for (question, note) in [
            ("What is 6 times 7?", &port),
            ("Explain how a wine from Port is made and why it is sweet", &port),
            ("把这句话翻译成英文", &chinese),
            ("请写一首关于端口城市的长诗，要有海风和灯塔", &chinese),
        ] {
            assert!(!matters(question, note), "{question}");
        }
        let near = Found { why: crate::notes::Why { cosine: Some(0.8), ..Default::default() }, ..noted("x") };
        assert!(matters("something else", &near));
    }

    #[test]
    fn only_what_says_nothing_new_is_known() {
        let said = |new: &str, known: &str| Gist::of(new).said_by(&Gist::of(known));
        assert!(said("Prefers tabs over spaces", "He prefers tabs over spaces."));
        assert!(said("用户喜欢深色主题", "用户喜欢深色主题。"));
        for (new, known) in [
            ("The port of the service in production is 9090", "The port of the service in production is 8080"),
            ("I like cats in the kitchen at night", "I do not like cats in the kitchen at night"),
            ("I do not like cats in the kitchen at night", "I like cats in the kitchen at night"),
            ("用户不喜欢深色主题", "用户喜欢深色主题"),
            ("用户喜欢深色主题", "用户不喜欢深色主题"),
            ("prefers tabs", "prefers spaces"),
            ("the port", "The port of the service in production is 8080, see the wiki of the platform team"),
            ("🙂", "🙃"),
        ] {
            assert!(!said(new, known), "{new} / {known}");
        }
        assert!(Gist::of("the database port is 9090").like(&Gist::of("the database port is 8080")));
    }
}
