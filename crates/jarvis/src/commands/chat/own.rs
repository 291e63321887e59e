//! What a person's own words mean in a conversation: the commands and skills of the workspace and of the home.

use super::slash;
use crate::commands::command;
use crate::error::Outcome;
use crate::home::Home;
use crate::{term, workshop};
use jarvis_agent::{CommandFolders, SkillFolders};
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Columns of the list, where the terminal does not say.
const COLUMNS: usize = 80;
/// More are listed by `jarvis command list` and `jarvis skill list`.
const MOST: usize = 40;

pub struct Own {
    commands: CommandFolders,
    skills: SkillFolders,
}

/// One of them, as it is typed.
pub struct Word {
    /// With its `/`.
    pub name: String,
    pub arguments: Vec<String>,
    pub about: String,
}

impl Own {
    pub fn of(home: &Home, workspace: &Path) -> Own {
        Own { commands: workshop::commands(home, workspace), skills: workshop::skills(home, workspace) }
    }

    /// As they are now. A word that jarvis has itself keeps its meaning, and a command goes before a skill.
    pub fn words(&self) -> Vec<Word> {
        let commands = self.commands.load().commands.into_iter().map(|command| Word {
            name: format!("/{}", command.definition.name),
            arguments: command.definition.arguments().map(str::to_owned).collect(),
            about: command.definition.description.clone(),
        });
        let skills = self.skills.load().skills.into_iter().map(|skill| Word {
            name: format!("/{}", skill.name),
            arguments: Vec::new(),
            about: format!("skill: {}", skill.description),
        });
        let mut words: Vec<Word> = Vec::new();
        for word in commands.chain(skills) {
            let taken = slash::words().any(|own| own == &word.name[1..]) || words.iter().any(|w| w.name == word.name);
            if !taken {
                words.push(word);
            }
        }
        words
    }

    /// What is asked by a word with what stands behind it; none: it is no word of theirs.
    pub fn message(&self, word: &str, arguments: &str) -> Outcome<Option<String>> {
        let name = &word[1..];
        if let Some(command) = self.commands.load().get(name) {
            return command::expand(command, arguments).map(Some);
        }
        let skills = self.skills.load();
        Ok(skills.get(name).map(|skill| match arguments.trim() {
            "" => format!("Read the skill `{}` and do as it says.", skill.name),
            arguments => format!("Read the skill `{}` and do as it says, for this: {arguments}", skill.name),
        }))
    }

    /// For `/help`; empty where there are none.
    pub fn help(&self) -> String {
        let words = self.words();
        let left = |word: &Word| {
            let arguments: String = word.arguments.iter().map(|name| format!(" {name}=…")).collect();
            term::cut(&format!("{}{arguments}", word.name), COLUMNS / 2)
        };
        let widest = words.iter().take(MOST).map(|word| left(word).width()).max().unwrap_or(0);
        let room = term::width().unwrap_or(COLUMNS).saturating_sub(widest + 2).max(20);
        let mut text = String::new();
        for word in words.iter().take(MOST) {
            let (left, about) = (left(word), term::cut(&word.about, room));
            text += &format!("{left}{}  {about}\n", " ".repeat(widest - left.width()));
        }
        if words.len() > MOST {
            text += &format!("… and {} more: jarvis command list, jarvis skill list\n", words.len() - MOST);
        }
        text
    }
}
