//! All servers of a conversation, as tools of its agent. Nothing is started before it is needed.

use super::config::{ConfigError, ServerConfigs};
use super::definition::Definition;
use super::one::One;
use super::store::Store;
use futures::future::{BoxFuture, join_all};
use jarvis_agent::{Around, External, ExternalTool};
use jarvis_dispatch::{CallError, Dispatch, ToolRule};
use jarvis_protocol::{ErrorKind, Event, ToolSpec};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// So long a turn waits for servers of which nothing is known yet.
const FIRST: Duration = Duration::from_secs(20);
/// Names of tools, as all providers take them.
const MOST_NAME: usize = 64;

/// Finds a program: a name on PATH, or a file.
pub type FindProgram = Arc<dyn Fn(&str) -> Option<PathBuf> + Send + Sync>;

/// What servers are started and called with.
pub struct Setup {
    pub dispatch: Arc<Dispatch>,
    /// Absolute; what a program may read, and its root.
    pub workspace: PathBuf,
    /// None: nothing is kept, each yes is for this conversation's process and asked for again.
    pub store: Option<Store>,
    pub find: FindProgram,
}

/// Servers that are set up.
pub struct Servers {
    all: Vec<Arc<One>>,
    /// The name that a model calls, with the server and the name that it has there.
    names: Mutex<HashMap<String, (usize, String)>>,
    /// What was told of servers that are not there.
    told: Mutex<HashMap<String, ErrorKind>>,
}

/// What came of trying a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// How it calls itself.
    pub server: Option<String>,
    pub tools: Vec<Definition>,
    /// Tools that no model could call.
    pub left_out: usize,
    pub ready_ms: u64,
    /// The isolation that is really in force.
    pub layers: Vec<String>,
    /// The last of what it said beside its answers.
    pub said: Vec<String>,
}

impl Servers {
    /// Those that are enabled. Starts nothing.
    ///
    /// # Errors
    /// The first one that is not set up right.
    pub fn connect(configs: ServerConfigs, setup: Setup) -> Result<Servers, ConfigError> {
        configs.iter().try_for_each(|(name, config)| config.check(name))?;
        let setup = Arc::new(setup);
        let enabled = configs.into_iter().filter(|(_, config)| config.enabled);
        let all = enabled.map(|(name, config)| Arc::new(One::new(name, config, setup.clone()))).collect();
        Ok(Servers { all, names: Mutex::default(), told: Mutex::default() })
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Starts one, and reads its list.
    ///
    /// # Errors
    /// Why it is not there, with its last words.
    pub async fn test(&self, name: &str, cancel: &CancellationToken) -> Result<Tested, CallError> {
        let one = self.all.iter().find(|one| one.name == name);
        let one = one.ok_or_else(|| CallError::respond(ErrorKind::NotFound, format!("there is no server `{name}`")))?;
        let since = Instant::now();
        let live = one.live(cancel).await?;
        Ok(Tested {
            server: live.calls_itself(),
            tools: live.tools().to_vec(),
            left_out: *live.left_out.lock().unwrap_or_else(PoisonError::into_inner),
            ready_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
            layers: live.layers().to_vec(),
            said: live.last_words(),
        })
    }

    /// What is missing is told once, and again when there is another reason.
    fn tell(&self, name: &str, error: &CallError, emit: &mut (dyn FnMut(Event) + Send)) {
        let message = format!("the tools of `{name}` are missing: {error}");
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // The same again is no news, whatever its numbers are.
        let kind = error.body().kind;
        if told.insert(name.to_owned(), kind) != Some(kind) {
            emit(Event::Notice { message });
        }
    }

    async fn listed(&self, emit: &mut (dyn FnMut(Event) + Send), cancel: &CancellationToken) -> Vec<ExternalTool> {
        let mut known = join_all(self.all.iter().map(|one| one.known())).await;
        let new: Vec<usize> = (0..known.len()).filter(|at| known[*at].is_none()).collect();
        if !new.is_empty() {
            let names: Vec<&str> = new.iter().map(|at| self.all[*at].name.as_str()).collect();
            emit(Event::Status { message: format!("starting the MCP servers {}", names.join(", ")) });
            let starting = new.iter().map(|at| async {
                let one = self.all[*at].clone();
                let cancel = cancel.clone();
                // In a task of its own: one that is slow goes on, and is there for the next turn.
                let starting = tokio::spawn(async move { one.live(&cancel).await.map(|live| live.tools()) });
                (*at, tokio::time::timeout(FIRST, starting).await)
            });
            for (at, started) in join_all(starting).await {
                let name = &self.all[at].name;
                match started {
                    Ok(Ok(Ok(tools))) => known[at] = Some(tools),
                    Ok(Ok(Err(_))) if cancel.is_cancelled() => {}
                    Ok(Ok(Err(error))) => self.tell(name, &error, emit),
                    Ok(Err(_)) | Err(_) => {
                        let message = format!("it is not ready after {} s", FIRST.as_secs());
                        self.tell(name, &CallError::respond(ErrorKind::Timeout, message), emit);
                    }
                }
            }
        }
        let mut names = HashMap::new();
        let mut tools = Vec::new();
        for (at, (one, known)) in self.all.iter().zip(known).enumerate() {
            let may = |tool: &&Definition| one.config.rule(&tool.name) != Some(ToolRule::Deny);
            for tool in known.iter().flat_map(|known| known.iter()).filter(may) {
                let name = called(&one.name, &tool.name, |name| names.contains_key(name));
                names.insert(name.clone(), (at, tool.name.clone()));
                let spec =
                    ToolSpec { name, description: tool.description.clone(), parameters: tool.parameters.clone() };
                tools.push(ExternalTool {
                    server: one.name.clone(),
                    tool: tool.name.clone(),
                    spec,
                    read_only: tool.read_only,
                });
            }
        }
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        tools
    }
}

impl External for Servers {
    fn serves(&self, server: &str) -> bool {
        self.all.iter().any(|one| one.name == server)
    }

    fn prompt<'a>(
        &'a self,
        server: &'a str,
        name: &'a str,
        said: &'a str,
        around: Around<'a>,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let Some(one) = self.all.iter().find(|one| one.name == server) else {
                return Err(CallError::respond(ErrorKind::NotFound, format!("there is no server `{server}`")));
            };
            let value = one.prompt(name, said, around).await?;
            Ok(value.as_str().unwrap_or_default().to_owned())
        })
    }

    fn tools<'a>(
        &'a self,
        emit: &'a mut (dyn FnMut(Event) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Vec<ExternalTool>> {
        Box::pin(self.listed(emit, cancel))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        args: &'a Value,
        around: Around<'a>,
    ) -> BoxFuture<'a, Result<Value, CallError>> {
        Box::pin(async move {
            let found = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
            let Some((at, own)) = found else {
                return Err(CallError::respond(ErrorKind::NotFound, format!("there is no tool `{tool}`")));
            };
            self.all[at].call(&own, args, around).await
        })
    }
}

/// `server__tool`, in letters that all providers take, and unlike all others.
fn called(server: &str, tool: &str, taken: impl Fn(&str) -> bool) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let whole: String = format!("{server}__{tool}").chars().map(plain).take(MOST_NAME).collect();
    if !taken(&whole) {
        return whole;
    }
    let numbered = |number: usize| {
        let end = format!("_{number}");
        let kept: String = whole.chars().take(MOST_NAME - end.len()).collect();
        kept + &end
    };
    (2..).map(numbered).find(|name| !taken(name)).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_providers_take_and_no_other_has() {
        assert_eq!(called("files", "read.file", |_| false), "files__read_file");
        let long = called("files", &"字".repeat(100), |_| false);
        assert_eq!(long.len(), MOST_NAME);
        let second = called("files", &"字".repeat(100), |name| name == long);
        assert!(second.len() == MOST_NAME && second.ends_with("_2"), "{second}");
    }
}
