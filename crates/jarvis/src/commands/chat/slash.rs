//! What a line that begins with `/` does: one table, which the doing, `/help` and completion all read.

use super::Conversation;
use crate::error::Outcome;
use crate::term;
use futures::future::LocalBoxFuture;
use std::path::Path;
use unicode_width::UnicodeWidthStr;

pub enum Flow {
    Stay,
    Leave,
}

/// What is offered for the argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Nothing,
    Models,
    Sessions,
}

type Run = for<'a, 'c> fn(&'a mut Conversation<'c>, &'a str) -> LocalBoxFuture<'a, Outcome<Flow>>;

pub struct Slash {
    pub name: &'static str,
    /// Empty: it takes none.
    pub argument: &'static str,
    pub about: &'static str,
    pub offer: Offer,
    run: Run,
}

/// In the order in which they are shown.
pub const ALL: &[Slash] = &[
    Slash {
        name: "/model",
        argument: "[PROVIDER/MODEL]",
        about: "which model answers; with a name, changes it",
        offer: Offer::Models,
        run: |chat, named| Box::pin(async move { chat.model(named).await.map(stay) }),
    },
    Slash {
        name: "/cost",
        argument: "",
        about: "tokens and dollars so far, by model and purpose",
        offer: Offer::Nothing,
        run: |chat, _| Box::pin(async move { chat.cost().map(stay) }),
    },
    Slash {
        name: "/compact",
        argument: "",
        about: "summarise all but the last question, so that more fits",
        offer: Offer::Nothing,
        run: |chat, _| Box::pin(async move { chat.compact().await.map(stay) }),
    },
    Slash {
        name: "/undo",
        argument: "[--force]",
        about: "take back the last message and its changes to files",
        offer: Offer::Nothing,
        run: |chat, argument| Box::pin(async move { chat.undo(argument).await.map(stay) }),
    },
    Slash {
        name: "/sessions",
        argument: "",
        about: "conversations of this folder",
        offer: Offer::Nothing,
        run: |chat, _| Box::pin(async move { chat.sessions().map(stay) }),
    },
    Slash {
        name: "/resume",
        argument: "ID",
        about: "go on with another one of them",
        offer: Offer::Sessions,
        run: |chat, id| Box::pin(async move { chat.resume(id).await.map(stay) }),
    },
    Slash {
        name: "/memory",
        argument: "[WORDS]",
        about: "what is remembered; with words, what they find",
        offer: Offer::Nothing,
        run: |chat, words| Box::pin(async move { chat.memory(words).await.map(stay) }),
    },
    Slash {
        name: "/agents",
        argument: "",
        about: "the subagents a model can give tasks to",
        offer: Offer::Nothing,
        run: |chat, _| Box::pin(async move { chat.agents().map(stay) }),
    },
    Slash {
        name: "/tools",
        argument: "",
        about: "the capabilities there are",
        offer: Offer::Nothing,
        run: |chat, _| Box::pin(async move { chat.tools().map(stay) }),
    },
    Slash {
        name: "/help",
        argument: "",
        about: "this list",
        offer: Offer::Nothing,
        run: |chat, _| Box::pin(async move { chat.help().map(stay) }),
    },
    Slash {
        name: "/exit",
        argument: "",
        about: "leave (Ctrl-D too)",
        offer: Offer::Nothing,
        run: |_, _| Box::pin(async { Ok(Flow::Leave) }),
    },
];

fn stay((): ()) -> Flow {
    Flow::Stay
}

const KEYS: &str = "\
Tab completes; Ctrl-R searches what was typed before
Alt-Enter, or a backslash before Enter: a new line
Ctrl-C cancels the turn that runs, else clears the line
What is typed while a turn runs is sent when it is over
Anything else is a message";

/// What `/help` shows; `own` are lines of the person's commands and skills.
pub fn help(own: &str) -> String {
    let left = |slash: &Slash| format!("{} {}", slash.name, slash.argument).trim_end().to_owned();
    let widest = ALL.iter().map(|slash| left(slash).width()).max().unwrap_or(0);
    let mut text = String::new();
    for slash in ALL {
        text += &format!("{:widest$}  {}\n", left(slash), slash.about);
    }
    text + own + KEYS
}

/// The names, for the help of the command line.
pub fn names() -> String {
    ALL.iter().map(|slash| slash.name).collect::<Vec<_>>().join(" ")
}

/// The words that mean something here, without the `/`.
pub fn words() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|slash| &slash.name[1..]).chain(["quit"])
}

/// What a line is.
pub enum Line<'a> {
    Nothing,
    Command(&'static Slash, &'a str),
    /// It was meant as a command.
    Unknown(&'a str),
    Message(&'a str),
}

/// The letter case of arguments is kept, and a path is a message: `/etc/hosts` has a second slash, `/tmp` is there.
pub fn read(line: &str) -> Line<'_> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word_is = |name: &str| word == name || (word == "/quit" && name == "/exit");
    if line.is_empty() {
        return Line::Nothing;
    }
    match ALL.iter().find(|slash| word_is(slash.name)) {
        Some(slash) => Line::Command(slash, rest.trim()),
        None if word.starts_with('/') && !word[1..].contains('/') && !Path::new(word).exists() => Line::Unknown(word),
        None => Line::Message(line),
    }
}

impl Slash {
    pub async fn run(&self, chat: &mut Conversation<'_>, argument: &str) -> Outcome<Flow> {
        if self.argument.is_empty() && !argument.is_empty() {
            term::note(format!("{} takes nothing behind it, and did nothing", self.name));
            return Ok(Flow::Stay);
        }
        // What a command cannot do is told; the conversation goes on.
        match (self.run)(chat, argument).await {
            Ok(flow) => Ok(flow),
            Err(failure) => super::keep_on(failure).map(stay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_message_and_arguments_keep_their_case() {
        assert!(matches!(read("/etc/hosts says what?"), Line::Message("/etc/hosts says what?")));
        assert!(matches!(read("/tmp is full"), Line::Message(_)));
        assert!(matches!(read("  /model  Fake/ABC "), Line::Command(Slash { name: "/model", .. }, "Fake/ABC")));
        assert!(matches!(read("/Model x"), Line::Unknown("/Model")));
        assert!(matches!(read("/quit"), Line::Command(Slash { name: "/exit", .. }, "")));
        assert!(matches!(read("/模型"), Line::Unknown("/模型")));
        assert!(matches!(read(" \n"), Line::Nothing));
        assert!(matches!(read("a /cost"), Line::Message(_)));
    }

    #[test]
    fn every_command_is_told_once_on_one_line() {
        let help = help("/own  mine\n");
        for slash in ALL {
            assert_eq!(help.lines().filter(|line| line.split(' ').next() == Some(slash.name)).count(), 1, "{help}");
        }
        assert!(help.lines().all(|line| line.width() <= 80), "{help}");
    }
}
