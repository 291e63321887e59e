//! From text to terms. A term is the hash of a stemmed word, or of two neighbouring characters of Chinese, Japanese or
//! Korean. Pairs rather than a dictionary's words: jieba-rs 0.11 took 0.35 s to load on a busy 2-core machine, before
//! the first search, and it cuts `身份证号` whole but `身份证|号码` in two, so the two would meet in no term.

use jarvis_protocol::Capability;
use rust_stemmers::{Algorithm, Stemmer};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

/// Words that say nothing about what is wanted.
const STOP: &str = " a an the of to in on at for from by with and or is are was were be been being am do does did what \
    what's which who whom whose how many much when where why it its it's this that these those there their they i me my \
    you your we our us he she him her can could would should will shall may might must please give tell show want need \
    like let let's help has have had if then else as so than too very just also about into out up down some any all \
    each every no not only own same such here now get make i'm i'd hey ";

/// Words of nearly every request to a tool; they count little. Stems.
const GENERIC: &str = " calcul comput find number valu text string list return result convert transform turn chang given \
    input output use user ask request determin check generat creat produc perform obtain provid specif exampl tool \
    function capabl question answer thing followi follow 计算 转换 数字 字符 符串 文本 列表 结果 返回 给定 输入 输出 \
    使用 判断 查找 数值 需要 用户 进行 问题 ";

/// Chinese words of the kind in `STOP`, the longer first: they end a run of characters.
const CHINESE_STOP: [&str; 50] = [
    "是不是",
    "有没有",
    "能不能",
    "请问",
    "帮我",
    "帮忙",
    "一下",
    "什么",
    "多少",
    "怎么",
    "怎样",
    "如何",
    "哪个",
    "哪些",
    "这段",
    "这句",
    "一段",
    "一句",
    "哪天",
    "是否",
    "这个",
    "那个",
    "这些",
    "那些",
    "之间",
    "所有",
    "一个",
    "告诉",
    "可以",
    "需要",
    "想要",
    "请",
    "我",
    "你",
    "您",
    "的",
    "了",
    "吗",
    "呢",
    "吧",
    "啊",
    "是",
    "在",
    "把",
    "给",
    "将",
    "与",
    "及",
    "或",
    "个",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// A pair of characters: the run it is in, and its place there.
    Pair {
        run: usize,
        at: usize,
    },
    /// One character of a run, for words of one character.
    Single,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token {
    pub term: u64,
    pub kind: Kind,
    pub generic: bool,
    pub has_digit: bool,
    /// Nothing but digits.
    pub number: bool,
    /// Where it begins in the text, in bytes.
    pub at: usize,
}

pub(crate) fn hash(term: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    hasher.finish()
}

static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP.split_whitespace().collect());
static GENERIC_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| GENERIC.split_whitespace().collect());

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// Cuts `text` into tokens, without stop words. `singles` adds every character of a longer run by itself.
pub(crate) fn tokens(text: &str, singles: bool) -> Vec<Token> {
    let mut cutter = Cutter { stemmer: Stemmer::create(Algorithm::English), out: Vec::new(), runs: 0, singles };
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        let len = if is_cjk(c) {
            let len = span(rest, is_cjk);
            cutter.run(&rest[..len], at);
            len
        } else if c.is_alphanumeric() {
            let mut len = span(rest, |c| !is_cjk(c) && (c.is_alphanumeric() || c == '\'' || c == '’'));
            len += span(&rest[len..], |c| c == '+' || c == '#');
            cutter.word(&rest[..len], at);
            len
        } else {
            c.len_utf8()
        };
        rest = &rest[len..];
    }
    cutter.out
}

/// Bytes of the longest beginning of `text` whose characters are all `of` a kind.
fn span(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|(_, c)| !of(*c)).map_or(text.len(), |(i, _)| i)
}

struct Cutter {
    stemmer: Stemmer,
    out: Vec<Token>,
    runs: usize,
    singles: bool,
}

impl Cutter {
    fn word(&mut self, word: &str, at: usize) {
        let word = word.replace('’', "'");
        let word = word.trim_end_matches('\'');
        self.push_word(&word.to_lowercase(), at);
        // `camelCase` is also `camel` and `case`.
        let humps: Vec<usize> = word
            .char_indices()
            .zip(word.chars().skip(1))
            .filter(|((_, a), b)| a.is_lowercase() && b.is_uppercase())
            .map(|((i, a), _)| i + a.len_utf8())
            .collect();
        let mut start = 0;
        for end in humps.iter().copied().chain((!humps.is_empty()).then_some(word.len())) {
            self.push_word(&word[start..end].to_lowercase(), at + start);
            start = end;
        }
    }

    fn push_word(&mut self, lower: &str, at: usize) {
        if STOP_WORDS.contains(lower) {
            return;
        }
        let stem = self.stemmer.stem(lower);
        // A single letter is a value or a variable, seldom a subject.
        let generic = GENERIC_WORDS.contains(&*stem) || lower.chars().count() == 1;
        let has_digit = lower.chars().any(char::is_numeric);
        let number = lower.chars().all(char::is_numeric);
        self.out.push(Token { term: hash(&stem), kind: Kind::Word, generic, has_digit, number, at });
    }

    fn run(&mut self, run: &str, at: usize) {
        let mut start = 0;
        let mut i = 0;
        while i < run.len() {
            if let Some(stop) = CHINESE_STOP.iter().find(|stop| run[i..].starts_with(**stop)) {
                self.pairs(&run[start..i], at + start);
                i += stop.len();
                start = i;
            } else {
                i += run[i..].chars().next().map_or(1, char::len_utf8);
            }
        }
        self.pairs(&run[start..], at + start);
    }

    fn pairs(&mut self, run: &str, at: usize) {
        let starts: Vec<usize> = run.char_indices().map(|(i, _)| i).chain([run.len()]).collect();
        let count = starts.len() - 1;
        self.runs += 1;
        let mut push = |from: usize, to: usize, kind: Kind| {
            let text = &run[starts[from]..starts[to]];
            let generic = kind == Kind::Single || GENERIC_WORDS.contains(text);
            self.out.push(Token {
                term: hash(text),
                kind,
                generic,
                has_digit: false,
                number: false,
                at: at + starts[from],
            });
        };
        for i in 1..count {
            push(i - 1, i + 1, Kind::Pair { run: self.runs, at: i - 1 });
        }
        if count == 1 || self.singles {
            for i in 0..count {
                push(i, i + 1, Kind::Single);
            }
        }
    }
}

/// The terms of one capability.
pub(crate) struct Terms {
    /// How much each term is spoken of: its occurrences, weighed by where they stand.
    pub bag: Vec<(u64, f32)>,
    /// The terms of the name with the sentence, and of each trigger.
    pub about: Vec<Vec<Token>>,
    pub suppression: Vec<Vec<Token>>,
}

impl Terms {
    pub fn of(capability: &Capability) -> Terms {
        let mut bag: HashMap<u64, f32> = HashMap::new();
        let mut add = |text: &str, weight: f32| {
            for token in tokens(text, true) {
                let weight = if token.kind == Kind::Single { weight * 0.3 } else { weight };
                *bag.entry(token.term).or_default() += weight;
            }
        };
        add(capability.name.as_str(), 3.0);
        // Of a name in another script the valid one keeps little.
        add(capability.extra.get(crate::ORIGINAL_NAME).and_then(Value::as_str).unwrap_or_default(), 1.0);
        add(capability.supersedes.as_deref().unwrap_or_default(), 2.0);
        add(&capability.capability, 2.0);
        for trigger in &capability.triggers {
            add(trigger, 1.5);
        }
        if let Some(Value::Object(properties)) = capability.parameters.get("properties") {
            for (name, schema) in properties {
                add(name, 0.8);
                add(schema.get("description").and_then(Value::as_str).unwrap_or_default(), 0.5);
            }
        }
        let mut bag: Vec<(u64, f32)> = bag.into_iter().collect();
        bag.sort_unstable_by_key(|(term, _)| *term);
        let first = format!("{} {}", capability.name, capability.capability);
        Terms {
            bag,
            about: about(&first, capability),
            suppression: capability.suppression.iter().map(|s| tokens(s, false)).collect(),
        }
    }
}

/// The terms of `first`, and of each trigger.
pub(crate) fn about(first: &str, capability: &Capability) -> Vec<Vec<Token>> {
    let triggers = capability.triggers.iter().map(String::as_str);
    std::iter::once(first).chain(triggers).map(|s| tokens(s, false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let terms = |text| tokens(text, false).into_iter().map(|t| t.term).collect::<Vec<_>>();
        terms(a) == terms(b)
    }

    #[test]
    fn forms_of_a_word_are_one_term() {
        assert!(same("Calculates the days", "calculating a day"));
        assert!(same("word_count", "Words counted"));
        assert!(!same("C++", "C"));
        assert!(same("the of 请问 的", ""));
    }

    #[test]
    fn camel_case_is_found_by_its_parts_and_as_a_whole() {
        let terms: Vec<u64> = tokens("JavaScript", false).iter().map(|t| t.term).collect();
        for word in ["javascript", "java", "script"] {
            assert!(terms.contains(&tokens(word, false)[0].term), "{word}");
        }
    }

    #[test]
    fn chinese_is_cut_into_pairs_between_stop_words() {
        assert!(same("请问最大公约数是什么", "最大公约数"));
        assert_eq!(tokens("最大公约数", false).len(), 4);
        assert_eq!(tokens("能被 7 整除的数", false).iter().filter(|t| matches!(t.kind, Kind::Single)).count(), 1);
    }

    #[test]
    fn any_text_can_be_cut() {
        for text in ["", "'", "é’s", "𠀀", "a𠀀b的", "🙂 ok", "ÄöÜ+#", "한국어 테스트", "\u{0}\u{feff}", "İstanbul"]
        {
            let all = tokens(text, true);
            assert!(all.iter().all(|t| text.is_char_boundary(t.at)), "{text}");
        }
    }
}
