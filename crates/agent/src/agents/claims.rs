//! Which files an answer speaks of, and of which it says that it wrote them. Words alone prove nothing: what is found here
//! is compared with what was done.

/// A file that an answer names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// As it is written. Chinese has no spaces, so the word before a name may stand in it: see [`Named::readings`].
    pub word: String,
    /// The answer says that it was written.
    pub written: bool,
}

/// Names looked at in one answer.
const MOST_NAMES: usize = 60;

/// Endings by which a bare name is known to be a file: `os.path` and `3.14` are none.
const ENDINGS: [&str; 72] = [
    "rs", "toml", "lock", "md", "txt", "py", "pyi", "js", "mjs", "cjs", "ts", "tsx", "jsx", "json", "jsonl", "yaml",
    "yml", "html", "htm", "css", "scss", "csv", "tsv", "xml", "svg", "sql", "sh", "bash", "zsh", "fish", "c", "h",
    "cc", "cpp", "hpp", "go", "java", "kt", "swift", "rb", "php", "lua", "pl", "r", "ini", "cfg", "conf", "env", "log",
    "tex", "rst", "ipynb", "proto", "vue", "svelte", "dart", "scala", "ex", "exs", "zig", "nix", "png", "jpg", "jpeg",
    "gif", "pdf", "docx", "xlsx", "zip", "gz", "wasm", "patch",
];

/// What looks like a file and is the name of something else.
const NO_FILES: [&str; 7] = ["node.js", "vue.js", "next.js", "react.js", "d3.js", "three.js", "express.js"];

/// "Wrote" in many words, as stems.
const WROTE: [&str; 34] = [
    "wrote",
    "written",
    "creat",
    "saved",
    "saving",
    "updat",
    "chang",
    "added",
    "edit",
    "modif",
    "generat",
    "fixed",
    "made",
    "implement",
    "refactor",
    "renam",
    "append",
    "replac",
    "produc",
    "stored",
    "写",
    "创建",
    "新建",
    "保存",
    "修改",
    "更新",
    "生成",
    "添加",
    "新增",
    "改",
    "建立",
    "存入",
    "产生",
    "输出到",
];

/// Before a name: it is not, or not yet, written.
const NOT_BEFORE: [&str; 18] = [
    " not ", "n't ", " no ", "never", "without", "cannot", "could ", "should ", "would ", "没", "未", "不", "无",
    "建议", "可以", "应该", "需要", "缺",
];

/// Anywhere: it is not there, or is as it was.
const NOT_AROUND: [&str; 14] = [
    "unchanged",
    "missing",
    "delet",
    "remov",
    "not exist",
    "not found",
    " is not ",
    " was not ",
    "isn't",
    "wasn't",
    "不存在",
    "删除",
    "未改",
    "找不到",
];

/// The files that `answer` names, each once. A clause that says what is not, or what should be, claims nothing.
pub(crate) fn named(answer: &str) -> Vec<Named> {
    let mut all: Vec<Named> = Vec::new();
    for clause in clauses(answer) {
        let names = names_in(clause);
        let around = format!(" {} ", clause.to_lowercase());
        if names.is_empty() || NOT_AROUND.iter().any(|not| around.contains(not)) {
            continue;
        }
        // The verb is looked for outside of the names: `updates.txt` is none. Chinese stands against the name.
        let rest = names.iter().fold(around, |rest, name| rest.replace(&name.to_lowercase(), " "));
        let inside = |name: &str| WROTE.iter().any(|verb| !verb.is_ascii() && name.contains(verb));
        let written = WROTE.iter().any(|verb| rest.contains(verb)) || names.iter().any(|name| inside(name));
        for word in names {
            let before = clause.find(&word).map_or("", |at| &clause[..at]);
            let before = format!(" {}", before.to_lowercase());
            if NOT_BEFORE.iter().any(|not| before.contains(not)) {
                continue;
            }
            if let Some(known) = all.iter_mut().find(|n| n.word == word) {
                known.written |= written;
            } else if all.len() < MOST_NAMES {
                all.push(Named { word, written });
            }
        }
    }
    all
}

impl Named {
    /// What the name may be: the word, and without each beginning of it in a script that is written without spaces.
    pub fn readings(&self) -> impl Iterator<Item = &str> {
        let cuts = self.word.char_indices().filter(|(_, c)| !c.is_ascii()).map(|(at, c)| at + c.len_utf8());
        [0].into_iter()
            .chain(cuts)
            .map(|at| &self.word[at..])
            .filter(|reading| !reading.starts_with('.') || reading.len() > 5)
    }
}

/// At the ends of sentences and lines; a dot inside a name ends none.
fn clauses(text: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut from = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let space_next = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = matches!(c, '\n' | ';' | '。' | '；' | '！' | '？') || (matches!(c, '.' | '!' | '?') && space_next);
        if ends {
            clauses.push(&text[from..at]);
            from = at + c.len_utf8();
        }
    }
    clauses.push(&text[from..]);
    clauses
}

fn names_in(clause: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '~' | '+' | '@' | ':');
    let words = clause.split(|c: char| !is_part(c));
    words.filter_map(file_name).collect()
}

fn file_name(word: &str) -> Option<String> {
    // An address, or a line behind a name.
    if word.contains("://") || word.contains('@') {
        return None;
    }
    let word = word.split(':').next().unwrap_or_default().trim_end_matches(['.', '/', '-']);
    let word = word.strip_prefix("./").unwrap_or(word);
    let last = word.rsplit('/').next()?;
    let (stem, ending) = last.rsplit_once('.')?;
    // What is written against its end, in a script without spaces.
    let after = ending.find(|c: char| !c.is_ascii()).map_or("", |at| &ending[at..]);
    let (word, ending) = (word.strip_suffix(after)?, ending.strip_suffix(after)?);
    let known = ENDINGS.contains(&ending.to_lowercase().as_str());
    let like = (1..=8).contains(&ending.len()) && ending.chars().all(|c| c.is_ascii_alphanumeric());
    let lettered = ending.starts_with(|c: char| c.is_ascii_alphabetic());
    let fine = !stem.is_empty() && like && lettered && (known || word.contains('/') && !word.starts_with("www."));
    // A host with a path is no file: `example.com/a.html`.
    let host = word
        .split('/')
        .next()
        .is_some_and(|first| word.contains('/') && first.contains('.') && !first.starts_with('.'));
    (fine && !host && !NO_FILES.contains(&word.to_lowercase().as_str())).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(answer: &str) -> Vec<(String, bool)> {
        named(answer).into_iter().map(|n| (n.word, n.written)).collect()
    }

    #[test]
    fn files_are_found_in_sentences_of_both_languages() {
        for (answer, word, written) in [
            ("I wrote the report to `out/report.md`.", "out/report.md", true),
            ("Created ./a.py and ran it.", "a.py", true),
            ("See src/main.rs:12 for the cause.", "src/main.rs", false),
            ("The result is in updates.txt.", "updates.txt", false),
            ("- **hello.txt** (created)", "hello.txt", true),
            ("结果已保存到 结果.csv。", "结果.csv", true),
            ("Done. File: notes.txt", "notes.txt", false),
            ("I wrote out.txt, which should work.", "out.txt", true),
        ] {
            assert_eq!(claimed(answer), [(word.to_owned(), written)], "{answer}");
        }
        let joined = named("已写入报告.md文件");
        assert!(joined[0].written && joined[0].readings().any(|r| r == "报告.md"), "{joined:?}");
    }

    #[test]
    fn what_is_no_file_or_no_claim_is_left_alone() {
        for answer in [
            "Pi is 3.14, e.g. in os.path or Node.js.",
            "See https://example.com/a.html and example.com/b.html, or mail me@example.com.",
            "I did not write out.txt.",
            "没有修改 config.toml。",
            "config.toml was not touched.",
            "config.toml is unchanged; removed old.txt.",
            "You should create setup.py next.",
            "It reads/writes and/or waits.",
        ] {
            assert_eq!(claimed(answer), [], "{answer}");
        }
    }
}
