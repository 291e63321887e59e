//! The general vocabulary of what people ask tools for: which words, in English and Chinese, speak of the same. It is
//! data (`concepts.txt`), read at the first search.

use super::terms::{Piece, hash, pieces};
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("concepts.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A thing or a subject.
    Thing,
    /// An operation that says what is wanted: translate, merge, refund.
    Operation,
    /// A verb that goes with many things and only asks: get, show, find.
    Asking,
    /// A verb that goes with many things: make, set, convert.
    Everyday,
    /// What marks small talk, plain knowledge and writing.
    Talk,
}

pub(crate) struct Concept {
    /// As a term of the index.
    pub term: u64,
    pub kind: Kind,
}

/// One way to speak of a concept.
struct Phrase {
    /// Stems after the first word, or the characters of Chinese.
    rest: Vec<u64>,
    concept: usize,
    /// Only hints at it.
    hint: bool,
    /// Only where a request or a clause begins.
    opening: bool,
}

/// A place in a text that speaks of concepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Pieces (words) or characters that it spans.
    pub len: usize,
    /// Concept, and whether it is only hinted at.
    pub concepts: Vec<(usize, bool)>,
}

pub(crate) struct Vocabulary {
    pub concepts: Vec<Concept>,
    /// By the stem of the first word.
    words: HashMap<u64, Vec<Phrase>>,
    /// By the first character.
    characters: HashMap<char, Vec<(String, usize, bool)>>,
}

pub(crate) static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::parse(TABLE));

impl Vocabulary {
    /// A line that is none is passed over; a test looks for such lines.
    fn parse(table: &'static str) -> Vocabulary {
        let mut all = Vocabulary { concepts: Vec::new(), words: HashMap::new(), characters: HashMap::new() };
        for line in table.lines() {
            let Some((kind, name, english, chinese)) = split(line) else { continue };
            all.concepts.push(Concept { term: hash(&format!("concept {name}")), kind });
            let halves = |text: &'static str| {
                let (strong, hints) = text.split_once('~').unwrap_or((text, ""));
                [(strong, false), (hints, true)]
            };
            for (phrases, hint) in halves(english) {
                phrases.split(',').for_each(|phrase| all.add(phrase, hint));
            }
            for (words, hint) in halves(chinese) {
                words.split_whitespace().for_each(|word| all.add(word, hint));
            }
        }
        all
    }

    fn add(&mut self, phrase: &str, hint: bool) {
        let concept = self.concepts.len() - 1;
        let phrase = phrase.trim();
        let opening = phrase.starts_with('^');
        let pieces = pieces(phrase);
        if let [Piece::Run { text, .. }] = pieces.as_slice() {
            if let Some(first) = text.chars().next() {
                self.characters.entry(first).or_default().push(((*text).to_owned(), concept, hint));
            }
            return;
        }
        let mut stems = pieces.iter().filter_map(Piece::stem);
        if let Some(first) = stems.next() {
            self.words.entry(first).or_default().push(Phrase { rest: stems.collect(), concept, hint, opening });
        }
    }

    /// The longest phrase that begins with the first of `pieces`; `opening`: which begin a clause.
    pub fn at_word(&self, pieces: &[Piece<'_>], opening: bool) -> Option<Mention> {
        let first = pieces.first()?.stem()?;
        let follows = |rest: &[u64]| {
            let next = pieces[1..].iter().map(Piece::stem);
            rest.len() < pieces.len() && rest.iter().zip(next).all(|(a, b)| Some(*a) == b)
        };
        let fitting: Vec<&Phrase> =
            self.words.get(&first)?.iter().filter(|p| opening || !p.opening).filter(|p| follows(&p.rest)).collect();
        let longest = fitting.iter().map(|p| p.rest.len()).max()?;
        let of_it = fitting.iter().filter(|p| p.rest.len() == longest);
        Some(Mention { len: longest + 1, concepts: of_it.map(|p| (p.concept, p.hint)).collect() })
    }

    /// The longest word that a run of Chinese begins with; its length is in bytes.
    pub fn at_character(&self, run: &str) -> Option<Mention> {
        let words = self.characters.get(&run.chars().next()?)?;
        let fitting = || words.iter().filter(|(word, ..)| run.starts_with(word.as_str()));
        let len = fitting().map(|(word, ..)| word.len()).max()?;
        let concepts = fitting().filter(|(word, ..)| word.len() == len).map(|(_, concept, hint)| (*concept, *hint));
        Some(Mention { len, concepts: concepts.collect() })
    }
}

/// Kind, name, English and Chinese of a line of the table.
fn split(line: &'static str) -> Option<(Kind, &'static str, &'static str, &'static str)> {
    let (kind, rest) = line.split_at_checked(2)?;
    let kind = match kind {
        "= " => Kind::Thing,
        "! " => Kind::Operation,
        "? " => Kind::Asking,
        ". " => Kind::Everyday,
        "- " => Kind::Talk,
        _ => return None,
    };
    let (name, rest) = rest.split_once(':')?;
    let (english, chinese) = rest.split_once('|')?;
    Some((kind, name, english, chinese))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_line_of_the_table_is_a_concept_with_both_languages() {
        let mut names = HashSet::new();
        for line in TABLE.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            let (_, name, english, chinese) = split(line).unwrap_or_else(|| panic!("{line}"));
            assert!(names.insert(name), "{name} is there twice");
            assert!(!english.trim().is_empty() && !chinese.trim().is_empty(), "{name} has one language");
        }
        assert!(names.len() > 300 && VOCABULARY.concepts.len() == names.len());
    }

    #[test]
    fn the_longest_phrase_is_meant() {
        let of = |text: &str| {
            let all = pieces(text);
            VOCABULARY.at_word(&all, true).map(|m| m.len)
        };
        assert_eq!(of("shopping carts are full"), Some(2));
        assert_eq!(of("emailed Bob"), Some(1));
        assert_eq!(of("zebra"), None);
        assert_eq!(VOCABULARY.at_character("天气预报怎么样").map(|m| m.len), Some("天气预报".len()));
    }
}
