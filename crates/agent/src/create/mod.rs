//! What a model makes for later turns: tools, skills, MCP servers, rules, commands. Each is used before success is said, and a failure
//! leaves nothing.

mod command;
mod mcp;
pub(crate) mod name;
mod rule;
mod skill;
mod tool;

pub(crate) use tool::TOOL as CREATE_TOOL;

use crate::bootstrap::{Bootstrap, Did};
use crate::commands::CommandFolders;
use crate::skills::SkillFolders;
use futures::future::BoxFuture;
use jarvis_dispatch::{Approver, CallError, Dispatch, check_arguments};
use jarvis_model::Tool;
use jarvis_protocol::{ErrorBody, ErrorKind, Event, ToolSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Asks an MCP server that was started for its tools. Whoever knows the protocol implements it.
pub trait ServerProbe: Send + Sync {
    /// `from` is what the server writes, `to` what it reads. The error is for the model.
    fn tools(
        &self,
        from: Box<dyn AsyncRead + Send + Unpin>,
        to: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> BoxFuture<'static, Result<Vec<ToolSpec>, String>>;
}

/// Where things are made, and what they are tried with.
#[derive(Clone)]
pub struct Workshop {
    pub(crate) skills: SkillFolders,
    commands: CommandFolders,
    /// Names that mean something else in a conversation.
    taken: Vec<String>,
    probe: Option<Arc<dyn ServerProbe>>,
}

impl Workshop {
    /// Without a probe no MCP server is made, for none could be tried.
    pub fn new(
        skills: SkillFolders,
        commands: CommandFolders,
        taken: Vec<String>,
        probe: Option<Arc<dyn ServerProbe>>,
    ) -> Self {
        Self { skills, commands, taken, probe }
    }
}

static SPECS: LazyLock<[Tool; 5]> =
    LazyLock::new(|| [tool::spec(), skill::spec(), rule::spec(), command::spec(), mcp::spec()].map(Tool::from));

pub(crate) fn specs(workshop: Option<&Workshop>) -> &'static [Tool] {
    match workshop {
        None => &SPECS[..1],
        Some(Workshop { probe: None, .. }) => &SPECS[..4],
        Some(_) => &SPECS[..],
    }
}

pub(crate) fn is_one(tool: &str) -> bool {
    [tool::TOOL, skill::TOOL, mcp::TOOL, rule::TOOL, command::TOOL].contains(&tool)
}

/// With whom one thing is made.
pub(crate) struct Maker<'a> {
    pub bootstrap: &'a Bootstrap,
    pub workshop: Option<&'a Workshop>,
    pub emit: &'a mut (dyn FnMut(Event) + Send),
    pub approver: &'a mut dyn Approver,
    pub cancel: &'a CancellationToken,
}

impl Maker<'_> {
    pub async fn call(&mut self, name: &str, args: &Value) -> Result<(Value, Did), CallError> {
        let Some(spec) = specs(self.workshop).iter().find(|spec| spec.name == name) else {
            return Err(CallError::respond(ErrorKind::NotFound, format!("{name} is not offered here")));
        };
        check_arguments(&spec.parameters, args)
            .map_err(|problem| CallError::respond(ErrorKind::Usage, format!("{name}: {problem}")))?;
        let made = match (name, self.workshop) {
            (skill::TOOL, Some(workshop)) => skill::make(self, workshop, read(args)?).await?,
            (mcp::TOOL, Some(workshop)) => mcp::make(self, workshop, read(args)?).await?,
            (command::TOOL, Some(workshop)) => command::make(self, workshop, read(args)?).await?,
            (rule::TOOL, Some(_)) => rule::make(self, read(args)?).await?,
            _ => return tool::call(self.bootstrap, args, self.emit, self.approver, self.cancel).await,
        };
        Ok((made, Did::Other))
    }

    fn dispatch(&self) -> &Dispatch {
        self.bootstrap.dispatch()
    }

    fn status(&mut self, message: &str) {
        (self.emit)(Event::Status { message: message.to_owned() });
    }

    /// Nothing that is there is replaced unless that was said.
    fn free(&self, place: &str, update: bool) -> Result<bool, CallError> {
        let exists = self.dispatch().is_made(place);
        if exists && !update {
            let body = ErrorBody::new(ErrorKind::Usage, format!(".jarvis/{place} exists already"));
            return Err(CallError::RespondToModel(body.hint("choose another name, or say update: true to replace it")));
        }
        Ok(exists)
    }
}

fn read<T: DeserializeOwned>(args: &Value) -> Result<T, CallError> {
    serde_json::from_value(args.clone()).map_err(|e| usage(format!("arguments: {e}")))
}

fn usage(message: impl Into<String>) -> CallError {
    CallError::respond(ErrorKind::Usage, message)
}

/// One line without control characters, or why not.
fn one_line(what: &str, text: &str, most: usize) -> Result<String, CallError> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(usage(format!("{what} is empty")));
    }
    if line.chars().any(char::is_control) {
        return Err(usage(format!("{what} has control characters")));
    }
    let count = line.chars().count();
    if count > most {
        return Err(usage(format!("{what} has {count} characters; {most} is the most")));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_what_is_dispatched() {
        let nowhere = std::path::Path::new("/nonexistent/jarvis");
        let workshop =
            Workshop::new(SkillFolders::new(nowhere, nowhere), CommandFolders::new(nowhere, nowhere), Vec::new(), None);
        for spec in specs(Some(&workshop)) {
            assert!(is_one(&spec.name), "{}", spec.name);
        }
        assert_eq!(specs(None).len(), 1, "without a place to make them only capabilities are made");
    }
}
