//! What a text speaks of, unit by unit: a word, a phrase of the vocabulary or a pair of Chinese characters, each with the
//! terms by which a capability can speak of the same.

use super::concepts::{Concept, Kind, Mention, VOCABULARY};
use super::terms::{self, Piece, tokens_of};

/// How well a capability meets a unit by another of its concept's words, by a concept that is only hinted at, and by
/// one word of a phrase.
const CONCEPT: f32 = 0.9;
const HINT: f32 = 0.75;
const PART: f32 = 0.6;

#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Terms, and how well each of them meets the unit.
    pub terms: Vec<(u64, f32)>,
    /// The most telling kind of the concepts that it speaks of; none for a word outside the vocabulary.
    pub kind: Option<Kind>,
    /// It only hints at its concepts.
    pub hint: bool,
    /// Verbs that it can be: terms of concepts.
    pub actions: Vec<u64>,
    /// One of them changes something.
    pub changes: bool,
    pub generic: bool,
    pub has_digit: bool,
    pub number: bool,
    /// Begins with a capital letter that is not the text's first.
    pub capital: bool,
    /// The stretch of Chinese that a pair is in, and its place there.
    pub pair: Option<(usize, usize)>,
    /// Where it begins and ends in the text, in bytes.
    pub at: usize,
    pub end: usize,
    pub chinese: bool,
}

impl Unit {
    fn at(at: usize, end: usize, chinese: bool) -> Unit {
        Unit {
            terms: Vec::new(),
            kind: None,
            hint: false,
            actions: Vec::new(),
            changes: false,
            generic: false,
            has_digit: false,
            number: false,
            capital: false,
            pair: None,
            at,
            end,
            chinese,
        }
    }

    fn speaks_of(&mut self, mention: &Mention, hints: bool) {
        let known = mention.concepts.iter().filter(|(_, hint)| hints || !hint);
        let known: Vec<(&Concept, bool)> = known.map(|(i, hint)| (&VOCABULARY.concepts[*i], *hint)).collect();
        let rank = |kind: Kind| match kind {
            Kind::Asking | Kind::Everyday => 0,
            Kind::Thing => 1,
            Kind::Operation => 2,
            Kind::Talk => 3,
        };
        self.hint = !known.is_empty() && known.iter().all(|(_, hint)| *hint);
        let telling = known.iter().filter(|(_, hint)| *hint == self.hint);
        self.kind = telling.map(|(concept, _)| concept.kind).max_by_key(|kind| rank(*kind));
        for (concept, hint) in known {
            self.terms.push((concept.term, if hint { HINT } else { CONCEPT }));
            if !hint && matches!(concept.kind, Kind::Asking | Kind::Everyday | Kind::Operation) {
                self.actions.push(concept.term);
                self.changes |= concept.kind != Kind::Asking;
            }
        }
    }
}

/// Where a text is a request, hints count, and clauses begin at its beginning and at `borders`.
pub(crate) fn units(pieces: &[Piece<'_>], request: Option<&[usize]>) -> Vec<Unit> {
    let borders = request;
    let request = request.is_some();
    let mut out: Vec<Unit> = Vec::new();
    let mut stretches = 0;
    let mut i = 0;
    while let Some(piece) = pieces.get(i) {
        i += 1;
        match piece {
            Piece::Run { text, at } => run(text, *at, request, &mut stretches, &mut out),
            Piece::Word { at, capital, .. } => {
                let opening = borders.is_none_or(|borders| {
                    let before = pieces[..i - 1].last().map(Piece::at);
                    let after = borders.iter().any(|b| *b <= *at && before.is_none_or(|before| before < *b));
                    before.is_none() || after
                });
                let known = VOCABULARY.at_word(&pieces[i - 1..], opening);
                let known = known.filter(|m| request || m.concepts.iter().any(|(_, hint)| !hint));
                let len = known.as_ref().map_or(1, |m| m.len);
                let tokens = tokens_of(&pieces[i - 1..i - 1 + len], false);
                i += len - 1;
                let end = pieces[i - 1].end();
                let mut unit = Unit::at(*at, end, false);
                if let Some(mention) = &known {
                    unit.speaks_of(mention, request);
                }
                for token in &tokens {
                    unit.terms.push((token.term, if len == 1 { 1.0 } else { PART }));
                }
                // A stop word that is no concept says nothing.
                if unit.terms.is_empty() {
                    continue;
                }
                // `text` is in every request, but not where it is the verb.
                let verb =
                    |m: &Mention| m.concepts.iter().any(|(i, _)| VOCABULARY.concepts[*i].kind == Kind::Operation);
                unit.generic = len == 1 && !known.as_ref().is_some_and(verb) && tokens.iter().any(|t| t.generic);
                unit.has_digit = tokens.iter().any(|t| t.has_digit);
                unit.number = !tokens.is_empty() && tokens.iter().all(|t| t.number);
                unit.capital = *capital && *at > 0;
                out.push(unit);
            }
        }
    }
    out
}

fn run(text: &str, at: usize, request: bool, stretches: &mut usize, out: &mut Vec<Unit>) {
    let mut stretch = |from: usize, to: usize, out: &mut Vec<Unit>| {
        for token in tokens_of(&[Piece::Run { text: &text[from..to], at: at + from }], false) {
            let mut unit = Unit::at(token.at, token.at, true);
            unit.terms.push((token.term, 1.0));
            unit.generic = token.generic;
            unit.pair = match token.kind {
                terms::Kind::Pair { run, at } => Some((*stretches + run, at)),
                terms::Kind::Word | terms::Kind::Single => None,
            };
            out.push(unit);
        }
        *stretches += to - from;
    };
    let (mut start, mut i) = (0, 0);
    while i < text.len() {
        let known = VOCABULARY.at_character(&text[i..]);
        match known.filter(|m| request || m.concepts.iter().any(|(_, hint)| !hint)) {
            None => i += text[i..].chars().next().map_or(1, char::len_utf8),
            Some(mention) => {
                stretch(start, i, out);
                let word = &text[i..i + mention.len];
                let mut unit = Unit::at(at + i, at + i + mention.len, true);
                unit.speaks_of(&mention, request);
                let tokens = tokens_of(&[Piece::Run { text: word, at: at + i }], false);
                unit.terms.extend(tokens.iter().map(|t| (t.term, 0.95)));
                unit.generic = terms::is_generic(word);
                out.push(unit);
                i += mention.len;
                start = i;
            }
        }
    }
    stretch(start, text.len(), out);
}
