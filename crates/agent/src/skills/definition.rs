//! `SKILL.md` in the public format of agent skills: a YAML head with name and description, then instructions.

use jarvis_dispatch::Origin;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Characters of a description, by the format.
pub(crate) const MOST_DESCRIPTION: usize = 1024;

/// What jarvis needs of the head; a skill of other agents may say more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub name: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub origin: Origin,
    /// Its folder.
    pub path: PathBuf,
    /// The other files in it, relative.
    pub files: Vec<String>,
    pub instructions: String,
}

/// The file that says this.
pub(crate) fn render(head: &Head, instructions: &str) -> Result<String, String> {
    let yaml = serde_saphyr::to_string(head).map_err(|e| format!("the head cannot be written as YAML: {e}"))?;
    Ok(format!("---\n{}\n---\n\n{}\n", yaml.trim_end(), instructions.trim()))
}

/// Head and instructions.
pub(crate) fn parse(text: &str) -> Result<(Head, String), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let rest = text.strip_prefix("---\n").ok_or("it does not begin with a head between two lines of `---`")?;
    let (head, body) = match rest.split_once("\n---\n") {
        Some(parts) => parts,
        None => (rest.strip_suffix("\n---").ok_or("the `---` that ends its head is missing")?, ""),
    };
    let head: Head =
        serde_saphyr::from_str(head).map_err(|e| format!("its head is no YAML of a skill: {}", first_line(&e)))?;
    if head.description.trim().is_empty() {
        return Err("its description is empty".to_owned());
    }
    let body = body.trim();
    if body.is_empty() {
        return Err("it has no instructions below its head".to_owned());
    }
    Ok((head, body.to_owned()))
}

fn first_line(error: &impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for description in [
            "plain",
            "Use when: the day begins",
            "say \"hi\" # not a comment",
            "'quoted' and \\ back",
            "每日站会：收集提交",
            "- a list?",
            "{a: b}",
            "true",
            "2024-01-01",
            "null",
            "a\nsecond line: x\n---\nthird",
            "  spaces around  ",
            "&anchor *alias !tag %x @y `z",
            "emoji 🚀 and \u{85}",
        ] {
            for instructions in ["# Steps\n\n1. do: it\n---\n2. end", "步骤\n\n```sh\nls\n```"] {
                let head = Head { name: "a-b".to_owned(), description: description.to_owned() };
                let text = render(&head, instructions).unwrap();
                let read = parse(&text).unwrap_or_else(|e| panic!("{e}:\n{text}"));
                assert_eq!(read, (head, instructions.to_owned()), "{text}");
            }
        }
    }

    #[test]
    fn a_broken_file_says_what_is_wrong() {
        for (text, part) in [
            ("no head", "does not begin"),
            ("---\nname: x\n", "is missing"),
            ("---\nname: x\n---\nbody", "description"),
            ("---\nname: x\ndescription: [\n---\nbody", "YAML"),
            ("---\nname: x\ndescription: ''\n---\nbody", "empty"),
            ("---\nname: x\ndescription: y\n---\n", "no instructions"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let foreign = "---\nname: x\ndescription: >-\n  folded\n  text\nlicense: MIT\nallowed-tools: [Bash]\nmetadata: {version: 1}\n---\nbody";
        assert_eq!(parse(foreign).unwrap().0.description, "folded text");
    }
}
