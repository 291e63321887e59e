//! What a session makes for later ones is made here: the folders, and the client that MCP servers are tried with.

use crate::error::Failure;
use crate::home::Home;
use crate::term;
use futures::future::BoxFuture;
use jarvis_agent::{Broken, CommandFolders, ServerProbe, SkillFolders, Workshop};
use jarvis_protocol::{ErrorBody, ErrorKind, ToolSpec};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

struct OfficialClient;

impl ServerProbe for OfficialClient {
    fn tools(
        &self,
        from: Box<dyn AsyncRead + Send + Unpin>,
        to: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> BoxFuture<'static, Result<Vec<ToolSpec>, String>> {
        Box::pin(async move { jarvis_mcp::probe::tools_of(from, to).await.map_err(|e| e.to_string()) })
    }
}

pub fn workshop(home: &Home, workspace: &Path) -> Workshop {
    let taken = crate::commands::chat_words().map(str::to_owned).collect();
    Workshop::new(skills(home, workspace), commands(home, workspace), taken, Some(Arc::new(OfficialClient)))
}

/// Where skills are looked for.
pub fn skills(home: &Home, workspace: &Path) -> SkillFolders {
    SkillFolders::new(workspace, &home.skills())
}

/// Where commands are looked for.
pub fn commands(home: &Home, workspace: &Path) -> CommandFolders {
    CommandFolders::new(workspace, &home.commands())
}

/// What lies there and is none of these, such as a `skill`.
pub fn tell(what: &str, broken: &[Broken]) {
    broken.iter().for_each(|broken| term::note(term::flat(&broken.told(what))));
}

/// There is none of this name, or it is broken. `command` is the one that lists them.
pub fn missing(command: &str, what: &str, name: &str, broken: &[Broken]) -> Failure {
    Failure::from(match broken.iter().find(|broken| broken.is_called(name)) {
        Some(broken) => ErrorBody::new(ErrorKind::Damaged, term::flat(&broken.told(what)))
            .hint(format!("mend the file; see jarvis {command} --help")),
        None => ErrorBody::new(ErrorKind::NotFound, format!("no {what} is called `{name}`"))
            .hint(format!("`jarvis {command} list` shows what there is")),
    })
}
