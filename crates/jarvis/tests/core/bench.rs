//! What every test here starts from.

use jarvis_agent::{Mode, Session, SessionParts, TurnEnd, TurnLimits};
use jarvis_audit::AuditLog;
use jarvis_dispatch::{Approver, DenyAll, Dispatch, Parts};
use jarvis_forge::Forge;
use jarvis_policy::Policy;
use jarvis_protocol::{Event, ForgeStep, Message};
use jarvis_registry::{Author, Registry};
use jarvis_sandbox::{Access, Executor, JailConfig, Processes, SandboxConfig};
use jarvis_testkit::ScriptedModel;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub type Replies = Vec<Result<jarvis_model::Completion, jarvis_model::ModelError>>;

pub struct Bench {
    pub home: tempfile::TempDir,
}

pub struct Turned {
    pub end: TurnEnd,
    pub events: Vec<Event>,
    pub model: Arc<ScriptedModel>,
    pub history: Vec<Message>,
}

impl Bench {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub fn root(&self) -> std::path::PathBuf {
        self.home.path().join("capabilities")
    }

    pub fn registry(&self) -> Registry {
        let author = Author { name: "test".to_owned(), email: "test@localhost".to_owned() };
        Registry::open(self.root(), self.home.path().join("jarvis.db"), author).unwrap()
    }

    pub fn forge(&self, policy: Policy) -> Forge {
        let executor = Executor::new(
            SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis").into(), pool: 1, max_workers: 4 },
            Access::default(),
        );
        Forge::new(Arc::new(Dispatch::new(Parts {
            registry: self.registry(),
            audit: AuditLog::open(self.home.path().join("audit")),
            executor,
            processes: Processes::new(
                JailConfig { helper_exe: env!("CARGO_BIN_EXE_jarvis").into(), without_namespaces: false },
                Access::default(),
                None,
            ),
            policy,
            actor: "test".to_owned(),
            workspace: self.home.path().to_owned(),
            shell: None,
            home: None,
            rules: jarvis_dispatch::Rules::new(self.home.path(), &self.home.path().join("rules")),
        })))
    }

    pub fn session(&self, native: bool, replies: Replies, limits: TurnLimits) -> (Session, Arc<ScriptedModel>) {
        let model = ScriptedModel::new(replies);
        let session = Session::new(SessionParts {
            id: "s1".to_owned(),
            model: model.handle(native),
            forge: self.forge(Policy::closed()),
            mode: Mode::Auto,
            limits,
            strategy: jarvis_agent::Strategy::default(),
            builtins: false,
            zone: jiff::tz::TimeZone::UTC,
        });
        (session, model)
    }

    /// One turn in a new session, as a new process would have it.
    pub async fn turn(&self, native: bool, question: &str, replies: Replies) -> Turned {
        self.turn_with(native, question, replies, TurnLimits::STANDARD, &mut DenyAll, &CancellationToken::new()).await
    }

    pub async fn turn_with(
        &self,
        native: bool,
        question: &str,
        replies: Replies,
        limits: TurnLimits,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Turned {
        let (mut session, model) = self.session(native, replies, limits);
        let mut events = Vec::new();
        let end = session.turn(question, &mut |event| events.push(event), approver, cancel).await;
        let ends =
            events.iter().filter(|e| matches!(e, Event::TurnCompleted { .. } | Event::TurnFailed { .. })).count();
        assert_eq!(ends, 1, "a turn ends once: {events:?}");
        Turned { end, events, model, history: session.history().to_vec() }
    }
}

impl Turned {
    pub fn answer(&self) -> &str {
        match &self.end {
            TurnEnd::Completed { answer, .. } => answer,
            TurnEnd::Failed(error) => panic!("the turn failed: {error:?}; {:#?}", self.events),
        }
    }

    pub fn built_and_used(&self) -> (Vec<String>, Vec<String>) {
        self.events
            .iter()
            .find_map(|e| match e {
                Event::TurnCompleted { capabilities_built, capabilities_used, .. } => {
                    Some((capabilities_built.clone(), capabilities_used.clone()))
                }
                _ => None,
            })
            .unwrap_or_default()
    }

    pub fn steps(&self) -> Vec<ForgeStep> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::Forge { step, .. } => Some(*step),
                _ => None,
            })
            .collect()
    }

    /// What the model was told after its `n`th reply.
    pub fn told(&self, n: usize) -> String {
        self.model.asked()[n].last().unwrap().text.clone()
    }
}

/// Every file below `root` but git's own, with its bytes.
pub fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut list = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                if entry.file_name() != ".git" {
                    open.push(path);
                }
            } else {
                list.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    list.sort();
    list
}

pub fn definition(name: &str, parameters: Value, examples: Value) -> Value {
    json!({"name": name, "capability": format!("Do {}", name.replace('_', " ")), "parameters": parameters, "examples": examples})
}

pub fn number_param(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": "number"}}, "required": [name]})
}

pub const FIBONACCI: &str = "export default function run({ n }: { n: number }) {
  let [a, b] = [0n, 1n];
  for (let i = 0; i < n; i++) [a, b] = [b, a + b];
  return a;
}
";
