//! The table of commands with their verdicts: what must pass, what must be asked, what must never run.

use jarvis_shell::{Context, Judgement, classify};
use std::path::Path;

pub fn judge(command: &str) -> Judgement {
    classify(command, &Context { workspace: Path::new("/home/ann/project"), home: Path::new("/home/ann") })
}

fn unescape(text: &str) -> String {
    let mut text =
        text.replace('␤', "\n").replace('␉', "\t").replace('␍', "\r").replace('␀', "\0").replace('␛', "\u{1b}");
    while let Some(at) = text.find("<U+") {
        let end = at + text[at..].find('>').unwrap_or_else(|| panic!("`<U+` is not closed: {text}"));
        let c = u32::from_str_radix(&text[at + 3..end], 16).ok().and_then(char::from_u32);
        let c = c.unwrap_or_else(|| panic!("not a code point: {text}"));
        text.replace_range(at..=end, &c.to_string());
    }
    text
}

fn table() -> Vec<(usize, String, String)> {
    let lines = include_str!("commands.tsv").lines().enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(at, line)| {
            let (verdict, command) = line.split_once('\t').unwrap_or_else(|| panic!("line {}: no tab", at + 1));
            (at + 1, verdict.to_owned(), unescape(command))
        })
        .collect()
}

#[test]
fn every_command_of_the_table_gets_its_verdict() {
    let table = table();
    let mut wrong = Vec::new();
    for (line, expected, command) in &table {
        let judgement = judge(command);
        if judgement.verdict.to_string() != *expected {
            wrong.push(format!(
                "line {line}: {command:?}\n  expected {expected}, got {}: {}",
                judgement.verdict, judgement.reason
            ));
        }
        assert!(!judgement.reason.is_empty(), "line {line}: {command:?} has no reason");
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), table.len(), wrong.join("\n"));
    let count = |verdict: &str| table.iter().filter(|(_, v, _)| v == verdict).count();
    assert!(
        table.len() >= 300 && count("allow") >= 100 && count("deny") >= 100 && count("ask") >= 50,
        "the table was cut"
    );
    let chinese = table.iter().filter(|(_, _, c)| c.chars().any(|c| ('\u{4E00}'..='\u{9FFF}').contains(&c))).count();
    assert!(chinese >= 30, "{chinese} lines with Chinese text");
}

#[test]
fn every_simple_command_has_a_reason() {
    for (line, _, command) in table() {
        for simple in judge(&command).commands {
            assert!(!simple.reason.is_empty(), "line {line}: {command:?}: {} has no reason", simple.program);
        }
    }
}
