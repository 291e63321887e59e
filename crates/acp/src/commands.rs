//! Commands that a person types in place of a message.

use crate::agent::{Agent, Connection};
use crate::errors::told;
use crate::sessions::Attached;
use crate::tell;
use agent_client_protocol as acp;
use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, SessionId, StopReason, UnstructuredCommandInput,
};
use jarvis_agent::Undone;
use jarvis_protocol::ErrorKind;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Compact,
    Cost,
    /// Also files that were changed since.
    Undo {
        force: bool,
    },
    /// With a name: another one answers from now on.
    Model(Option<String>),
}

pub(crate) fn all() -> Vec<AvailableCommand> {
    let named = AvailableCommandInput::Unstructured(UnstructuredCommandInput::new("PROVIDER/MODEL"));
    vec![
        AvailableCommand::new("compact", "Summarise all but the last question now, so that more fits"),
        AvailableCommand::new("cost", "Tokens and dollars so far"),
        AvailableCommand::new(
            "undo",
            "Take back the last turn: its messages, and what it changed in files; --force: also what was changed since",
        ),
        AvailableCommand::new("model", "Which model answers; with a name, changes it").input(named),
    ]
}

/// The command that a text is; a text that begins like a path is none.
pub(crate) fn of(text: &str) -> Option<Command> {
    let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    let rest = rest.trim();
    match word {
        "/compact" if rest.is_empty() => Some(Command::Compact),
        "/cost" if rest.is_empty() => Some(Command::Cost),
        "/undo" if ["", "--force"].contains(&rest) => Some(Command::Undo { force: !rest.is_empty() }),
        "/model" => Some(Command::Model((!rest.is_empty()).then(|| rest.to_owned()))),
        _ => None,
    }
}

impl Agent {
    pub async fn command(
        &self,
        command: Command,
        id: &SessionId,
        attached: &Attached,
        cx: &Connection,
    ) -> acp::Result<StopReason> {
        let live = &attached.live;
        let mut undone = None;
        let done = match &command {
            Command::Compact => live.compact().await,
            Command::Model(Some(named)) => live.set_model(named).await.map(|()| 0),
            Command::Undo { force } => live.undo(*force).await.map(|did| undone.insert(did).messages),
            Command::Cost | Command::Model(None) => Ok(0),
        };
        self.settle(attached).await;
        let done = match done {
            Err(body) if body.kind == ErrorKind::Cancelled => return Ok(StopReason::Cancelled),
            done => done.map_err(told)?,
        };
        let said = match command {
            Command::Compact => match done {
                0 => "There is nothing to summarise yet.".to_owned(),
                messages => format!("{messages} earlier messages are a summary now."),
            },
            Command::Cost => tell::spent(&live.snapshot().usage),
            Command::Undo { .. } => undone.as_ref().map(said_of).unwrap_or_default(),
            Command::Model(None) => live.snapshot().model,
            Command::Model(Some(_)) => {
                self.tell_settings(id, attached, cx).await;
                format!("{} answers from now on.", live.snapshot().model)
            }
        };
        self.send(id, tell::message(&said), cx).await;
        Ok(StopReason::EndTurn)
    }
}

fn said_of(undone: &Undone) -> String {
    let line = |text: &str| jarvis_protocol::shown_line(text, 300);
    let mut said = format!("Taken back: {}", jarvis_protocol::shown_line(&undone.question, 60));
    for (path, what) in &undone.files {
        said.push_str(&format!("\n- {} {}", what.as_str(), line(path)));
    }
    for (path, why) in &undone.left {
        said.push_str(&format!("\n- not put back: {}: {}", line(path), line(why)));
    }
    undone.notes.iter().for_each(|note| said.push_str(&format!("\n- {}", line(note))));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_alone_and_a_path_is_none() {
        assert_eq!(of(" /cost \n"), Some(Command::Cost));
        assert_eq!(of("/model a/b"), Some(Command::Model(Some("a/b".to_owned()))));
        assert_eq!(of("/model"), Some(Command::Model(None)));
        assert_eq!((of("/cost of living?"), of("/usr/bin is what?"), of("费用 /cost")), (None, None, None));
    }
}
