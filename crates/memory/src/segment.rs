//! From text to words that a full-text index can keep: English stemmed, Chinese, Japanese and Korean as pairs of
//! neighbouring characters, so that a word is found inside a sentence without a dictionary that knows it.

use rust_stemmers::{Algorithm, Stemmer};
use std::collections::HashSet;

/// Words of a query that nearly every English note has; they would cost time and say nothing.
const STOP: &str = " a an the of to in on at for from by with and or is are was were be been do does did what which who \
    how when where why it its this that these those there i me my you your we our he she they them can could would \
    should will about ";

/// The same for Chinese. Longer ones first: they end a run of characters.
const CHINESE_STOP: [&str; 16] =
    ["什么", "怎么", "哪个", "哪些", "多少", "如何", "请问", "的", "了", "吗", "呢", "吧", "是", "我", "你", "在"];

/// Words of one query that are looked for; a longer one is a document, not a question.
const QUERY_WORDS: usize = 64;
/// Characters of one word; what is longer is a key or a picture in letters.
const WORD_CHARS: usize = 64;

/// Signs between characters, such as `・`, are no part of a word.
fn is_cjk(c: char) -> bool {
    c.is_alphanumeric()
        && matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// Full-width letters and digits are the same as narrow ones.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        c => c,
    }
}

enum Piece {
    Word(String),
    Run(Vec<char>),
}

fn pieces(text: &str) -> Vec<Piece> {
    let chars: Vec<char> = text.chars().map(narrow).filter(|c| !matches!(c, '\u{300}'..='\u{36f}')).collect();
    let mut out = Vec::new();
    let mut at = 0;
    let while_in = |from: usize, of: &dyn Fn(char) -> bool| {
        chars[from..].iter().position(|c| !of(*c)).map_or(chars.len(), |n| from + n)
    };
    while at < chars.len() {
        if is_cjk(chars[at]) {
            let end = while_in(at, &is_cjk);
            out.push(Piece::Run(chars[at..end].to_vec()));
            at = end;
        } else if chars[at].is_alphanumeric() {
            let end = while_in(at, &|c| !is_cjk(c) && c.is_alphanumeric());
            // `C++` and `F#` are names.
            let end = while_in(end, &|c| c == '+' || c == '#');
            camel(&chars[at..end], &mut out);
            at = end;
        } else {
            at += 1;
        }
    }
    out
}

/// `camelCase` is also `camel` and `case`.
fn camel(word: &[char], out: &mut Vec<Piece>) {
    let mut push = |part: &[char]| {
        let lower: String = part.iter().take(WORD_CHARS).flat_map(|c| c.to_lowercase()).collect();
        // Some letters change into a letter and a mark, and a mark is no part of a word.
        out.push(Piece::Word(lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, '+' | '#')).collect()));
    };
    push(word);
    let humps: Vec<usize> = (1..word.len()).filter(|i| word[i - 1].is_lowercase() && word[*i].is_uppercase()).collect();
    let mut start = 0;
    for end in humps.iter().copied().chain((!humps.is_empty()).then_some(word.len())) {
        push(&word[start..end]);
        start = end;
    }
}

fn pair(pair: &[char]) -> String {
    pair.iter().collect()
}

/// The words of a text as one line, a space between them. Of letters, digits, `+` and `#` alone, so that nothing in it
/// has a meaning to an index.
pub(crate) fn segment(text: &str) -> String {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut out = String::with_capacity(text.len() * 2);
    let mut push = |word: &str| {
        if !word.is_empty() {
            out.push_str(word);
            out.push(' ');
        }
    };
    for piece in pieces(text) {
        match piece {
            Piece::Word(word) => push(&stemmer.stem(&word)),
            Piece::Run(run) => {
                run.windows(2).for_each(|w| push(&pair(w)));
                // By themselves for questions of one character.
                run.iter().for_each(|c| push(&pair(&[*c])));
            }
        }
    }
    out.pop();
    out
}

/// What a question looks for: each word once, without those that say nothing unless there are no others.
pub(crate) fn query_words(text: &str) -> Vec<String> {
    let stemmer = Stemmer::create(Algorithm::English);
    let (mut words, mut stops): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let run_words = |run: &[char], out: &mut Vec<String>| match run.len() {
        0 => {}
        1 => out.push(pair(run)),
        _ => out.extend(run.windows(2).map(pair)),
    };
    for piece in pieces(text) {
        match piece {
            Piece::Word(word) if word.is_empty() => {}
            Piece::Word(word) if STOP.contains(&format!(" {word} ")) => stops.push(stemmer.stem(&word).into_owned()),
            Piece::Word(word) => words.push(stemmer.stem(&word).into_owned()),
            Piece::Run(run) => {
                run_words(&run, &mut stops);
                let (mut start, mut at) = (0, 0);
                while at < run.len() {
                    let stop =
                        CHINESE_STOP.iter().map(|s| s.chars().collect::<Vec<_>>()).find(|s| run[at..].starts_with(s));
                    if let Some(stop) = stop {
                        run_words(&run[start..at], &mut words);
                        at += stop.len();
                        start = at;
                    } else {
                        at += 1;
                    }
                }
                run_words(&run[start..], &mut words);
            }
        }
    }
    let mut seen = HashSet::new();
    let mut chosen = if words.is_empty() { stops } else { words };
    chosen.retain(|word| seen.insert(word.clone()));
    chosen.truncate(QUERY_WORDS);
    chosen
}

/// An expression of FTS5 that asks for `words`; none where there is nothing to ask.
pub(crate) fn fts(words: &[String], joined_by: &str) -> Option<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(joined_by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_word_of_two_characters_is_found_inside_a_sentence() {
        let sentence = segment("昨天完成翻译文档，然后休息");
        for word in ["文档", "翻译", "休息"] {
            assert!(sentence.split(' ').any(|w| w == query_words(word)[0]), "{word}");
        }
        assert_eq!(query_words("请问文档在哪个目录？"), ["文档", "目录"]);
        assert_eq!(query_words("猫"), ["猫"]);
        assert_eq!(query_words("ジョン・スミス"), query_words("ジョン スミス"));
        assert_eq!(segment("・"), "");
        assert_eq!(query_words("什么"), ["什么"], "a question of nothing else is still asked");
    }

    #[test]
    fn forms_of_a_word_meet_and_names_stay_apart() {
        assert_eq!(query_words("The translations"), query_words("translation"));
        assert_eq!(query_words("Ｃ＋＋"), ["c++"]);
        assert_eq!(query_words("foo-bar"), ["foo", "bar"]);
        assert_eq!(segment("parseJson"), "parsejson pars json");
        assert_eq!(fts(&query_words("\"x\" AND (NEAR*"), " OR "), Some("\"x\" OR \"near\"".to_owned()));
        assert_eq!(fts(&query_words("()*&^🙂"), " OR "), None);
    }

    proptest! {
        #[test]
        fn words_have_nothing_that_means_something_to_an_index(text in "\\PC{0,80}|[\\x00-\\x7f]{0,80}|[a-z你好İßé+#'\" ]{0,60}") {
            for word in segment(&text).split(' ').chain(query_words(&text).iter().map(String::as_str)) {
                prop_assert!(word.chars().all(|c| c.is_alphanumeric() || c == '+' || c == '#'), "{word:?}");
            }
            prop_assert!(query_words(&text).iter().all(|word| !word.is_empty()));
        }
    }
}
