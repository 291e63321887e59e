//! Wiring: one dispatch, one forge, one session, out of the settings and the flags.

use crate::cli::{Place, Reach, Tape, Turn};
use crate::config::{Settings, Tools, view as config_view};
use crate::error::{Outcome, config, disk, failed, usage};
use crate::home::Home;
use crate::kept::Kept;
use crate::model::Choice;
use crate::signals::Signals;
use crate::{notes, programs, pull, secrets, term, workshop};
use futures::future::BoxFuture;
use jarvis_agent::{AgentFolders, Checkpoints, External, Mode, Session, SessionParts, TurnLimits};
use jarvis_audit::{AuditLog, Kind, Record};
use jarvis_dispatch::{ApprovalRequest, Approver, DenyAll, Dispatch, Form, Parts, Rules};
use jarvis_forge::Forge;
use jarvis_mcp::client::{ServerConfigs, Servers, Setup, Store};
use jarvis_model::{Backend, Embedder, ModelHandle};
use jarvis_policy::{Approval, Policy};
use jarvis_protocol::{ErrorBody, ErrorKind};
use jarvis_registry::{Author, Registry};
use jarvis_sandbox::{Access, Executor, JailConfig, Processes, Runtimes, SandboxConfig};
use serde_json::Value;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

pub fn registry(home: &Home) -> Outcome<Registry> {
    let author = Author { name: "jarvis".to_owned(), email: "jarvis@localhost".to_owned() };
    Ok(Registry::open(home.capabilities(), home.database(), author)?)
}

/// A change of the registry that no call makes, on the audit.
pub fn record(home: &Home, subject: &str, detail: serde_json::Value) -> Outcome {
    record_as(home, Kind::Registry, subject, detail)
}

/// What a command does by itself, on the audit.
pub fn record_as(home: &Home, kind: Kind, subject: &str, detail: serde_json::Value) -> Outcome {
    let at = jiff::Timestamp::now().to_string();
    let (actor, subject) = ("cli".to_owned(), subject.to_owned());
    AuditLog::open(home.audit()).append(Record { at, actor, kind, subject, detail })?;
    Ok(())
}

/// Makes the workspace the current folder. What else was typed must have been read by then.
pub fn enter(place: &Place) -> Outcome {
    let Some(folder) = &place.workspace else { return Ok(()) };
    std::env::set_current_dir(folder)
        .map_err(|e| usage(format!("--workspace {}: {e}", folder.display()), "name a folder that may be entered"))
}

pub fn forge(settings: &Settings, reach: &Reach, home: &Home) -> Outcome<Forge> {
    Ok(Forge::new(Arc::new(dispatch(settings, reach, home)?)))
}

/// Runs permitted code. The workspace is the current folder.
pub fn executor(settings: &Settings, home: &Home) -> Outcome<Executor> {
    executor_in(settings, home, workspace()?)
}

fn executor_in(settings: &Settings, home: &Home, workspace: PathBuf) -> Outcome<Executor> {
    let worker = SandboxConfig {
        worker_exe: this_program()?,
        pool: settings.sandbox.pool,
        max_workers: settings.sandbox.pool.max(1) * 4,
    };
    let runtimes = Runtimes {
        python: programs::find(&settings.sandbox.python),
        deno: programs::find(&settings.sandbox.deno),
        cache: Some(std::path::absolute(home.packages()).map_err(|e| disk(home.root(), &e))?),
        env: std::env::vars_os().collect(),
        index: Vec::new(),
    };
    Ok(Executor::with_runtimes(worker, access(home, workspace)?, runtimes))
}

/// Runs permitted processes.
pub fn processes(home: &Home) -> Outcome<Processes> {
    processes_in(home, workspace()?)
}

fn processes_in(home: &Home, workspace: PathBuf) -> Outcome<Processes> {
    let config = JailConfig { helper_exe: this_program()?, without_namespaces: false };
    Ok(Processes::new(config, access(home, workspace)?, person()))
}

/// The person's home folder.
pub fn person() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute())
}

pub fn workspace() -> Outcome<PathBuf> {
    std::env::current_dir().map_err(|e| failed(ErrorKind::Disk, format!("the current folder cannot be used: {e}")))
}

/// Everything a call passes through, in the current folder. Starts no process yet.
pub fn dispatch(settings: &Settings, reach: &Reach, home: &Home) -> Outcome<Dispatch> {
    dispatch_in(settings, reach, home, workspace()?, "cli")
}

/// The same in any folder. `actor` is who calls, on the audit: the front end.
pub fn dispatch_in(
    settings: &Settings,
    reach: &Reach,
    home: &Home,
    workspace: PathBuf,
    actor: &str,
) -> Outcome<Dispatch> {
    let policy = Policy {
        approval: reach.approve.map_or(settings.approve, Approval::from),
        network: settings.sandbox.network,
        allowed_hosts: reach.allow_net.clone(),
        ..Policy::closed()
    };
    let (config_file, own) = (std::path::absolute(home.config()).map_err(|e| disk(home.root(), &e))?, home.clone());
    let rules = rules(home, &workspace);
    let dispatch = Dispatch::new(Parts {
        registry: registry(home)?,
        audit: AuditLog::open(home.audit()),
        executor: executor_in(settings, home, workspace.clone())?,
        processes: processes_in(home, workspace.clone())?,
        policy,
        actor: actor.to_owned(),
        workspace,
        shell: programs::find("bash").or_else(|| programs::find("sh")),
        home: person(),
        rules,
    });
    Ok(dispatch.with_view(config_file, move || config_view(&own)))
}

/// What a person lets agents do in a workspace.
pub fn rules(home: &Home, workspace: &Path) -> Rules {
    Rules::new(workspace, &home.rules())
}

/// For `~` in a command line.
pub fn person_or_root() -> PathBuf {
    person().unwrap_or_else(|| PathBuf::from("/"))
}

/// Places of keys and of other people's sessions, below the person's home: no grant reaches them.
const PRIVATE: [&str; 23] = [
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".cargo/credentials.toml",
    ".local/share/keyrings",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".bash_history",
    ".zsh_history",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".password-store",
];

/// What grants can mean here: files from the current folder on, never jarvis's own home or the person's keys.
fn access(home: &Home, workspace: PathBuf) -> Outcome<Access> {
    let mut denied = vec![std::path::absolute(home.root()).map_err(|e| disk(home.root(), &e))?];
    // Other processes' memory and environment, this one's keys among them.
    denied.extend(["/proc", "/sys", "/dev"].map(PathBuf::from));
    if let Some(person) = person() {
        denied.extend(PRIVATE.iter().map(|name| person.join(name)));
    }
    Ok(Access { workspace: Some(workspace), denied, secrets: Some(secrets::finder(home)), ..Access::default() })
}

/// On Linux by its descriptor, so that a rebuilt or replaced binary does not become the worker of an older process.
fn this_program() -> Outcome<PathBuf> {
    let by_descriptor = PathBuf::from("/proc/self/exe");
    if by_descriptor.exists() {
        return Ok(by_descriptor);
    }
    std::env::current_exe()
        .map_err(|e| failed(ErrorKind::Sandbox, format!("this program's own file is not found: {e}")))
}

/// A model that is ready to answer, and how it is led.
pub struct Answerer {
    pub handle: ModelHandle,
    pub mode: Mode,
}

/// Makes the chosen model ready, at the start of a conversation and whenever another one is chosen in it.
pub async fn answerer(
    choice: &Choice,
    settings: &Settings,
    turn: &Turn,
    home: &Home,
    cancel: &CancellationToken,
) -> Outcome<Answerer> {
    let backend = || backend(choice, settings, &turn.tape, home, cancel);
    answerer_with(choice, settings, turn, backend).await
}

/// The same with a backend that may be there already; it is asked for last, because getting one ready can take long.
pub async fn answerer_with(
    choice: &Choice,
    settings: &Settings,
    turn: &Turn,
    backend: impl AsyncFnOnce() -> Outcome<Arc<dyn Backend>>,
) -> Outcome<Answerer> {
    if limits(settings, turn).max_cost_usd.is_some() && choice.price(settings).is_none() && !choice.is_local() {
        return Err(config(
            format!("a limit of cost is set, but no price of {} is known", choice.id),
            format!(
                "jarvis config set 'prices.\"{}\"' '{{ input = 3.0, output = 15.0 }}' (US dollars per million tokens)",
                choice.id
            ),
        ));
    }
    let handle = with_backend(choice, settings, backend().await?);
    let mode = turn.lead.mode.map_or_else(|| choice.mode(settings), Mode::from);
    Ok(Answerer { handle, mode })
}

/// The model with its cassette, if one is wanted. A missing file of an embedded one is fetched, unless a cassette answers.
pub async fn handle(
    choice: &Choice,
    settings: &Settings,
    tape: &Tape,
    home: &Home,
    cancel: &CancellationToken,
) -> Outcome<ModelHandle> {
    Ok(with_backend(choice, settings, backend(choice, settings, tape, home, cancel).await?))
}

fn with_backend(choice: &Choice, settings: &Settings, backend: Arc<dyn Backend>) -> ModelHandle {
    let handle = ModelHandle::new(choice.id.as_str(), choice.traits(settings), backend);
    handle.with_images(choice.takes_images()).with_price(choice.price(settings))
}

/// What answers requests; with an embedded model it holds the engine, so all conversations of a process share it.
pub async fn backend(
    choice: &Choice,
    settings: &Settings,
    tape: &Tape,
    home: &Home,
    cancel: &CancellationToken,
) -> Outcome<Arc<dyn Backend>> {
    let backend = match &tape.replay {
        Some(file) => jarvis_model::replay(file.clone())?,
        None => {
            pull::ensure(choice, settings, home, cancel).await?;
            choice.backend(settings, home)?
        }
    };
    Ok(match &tape.record {
        Some(file) => jarvis_model::record(backend, file.clone())?,
        None => backend,
    })
}

fn limits(settings: &Settings, turn: &Turn) -> TurnLimits {
    let mut limits = settings.limits.turn();
    limits.max_rounds = turn.max_turns.unwrap_or(limits.max_rounds);
    limits.max_cost_usd = turn.max_cost.or(limits.max_cost_usd);
    limits
}

/// A conversation that is kept, with what it is told of others.
pub fn session(answerer: Answerer, forge: Forge, settings: &Settings, turn: &Turn, home: &Home, kept: Kept) -> Session {
    let model = answerer.handle.id().to_owned();
    let embedder = kept.embedder.clone();
    let memory = notes::memory(home, settings, embedder.clone(), &turn.reach);
    let workshop = workshop::workshop(home, forge.dispatch().workspace());
    let session = unkept(answerer, forge, settings, turn, embedder)
        .with_memory(memory)
        .with_workshop(workshop)
        .with_checkpoints(checkpoints(home));
    kept.record(session, &model, settings.context)
}

/// One that leaves nothing behind.
pub fn unkept(
    answerer: Answerer,
    forge: Forge,
    settings: &Settings,
    turn: &Turn,
    embedder: Option<Arc<dyn Embedder>>,
) -> Session {
    let session = Session::new(SessionParts {
        id: session_id(),
        model: answerer.handle,
        forge,
        mode: answerer.mode,
        limits: limits(settings, turn),
        strategy: settings.context,
        builtins: settings.tools == Tools::All,
        zone: jiff::tz::TimeZone::system(),
    });
    session.with_embedder(embedder)
}

/// The servers that are set up, for tools of a conversation. Starts none.
pub fn external(settings: &Settings, forge: &Forge, home: &Home) -> Outcome<Option<Arc<dyn External>>> {
    external_of(settings.mcp.servers.clone(), forge.dispatch().clone(), home)
}

/// The same of these servers.
pub fn external_of(configs: ServerConfigs, dispatch: Arc<Dispatch>, home: &Home) -> Outcome<Option<Arc<dyn External>>> {
    let servers = servers(configs, dispatch, home)?;
    Ok((!servers.is_empty()).then(|| Arc::new(servers) as Arc<dyn External>))
}

pub fn servers(configs: ServerConfigs, dispatch: Arc<Dispatch>, home: &Home) -> Outcome<Servers> {
    let workspace = dispatch.workspace().to_owned();
    let setup = Setup { dispatch, workspace, store: Some(Store::new(home.mcp())), find: Arc::new(programs::find) };
    Servers::connect(configs, setup).map_err(|e| config(e.to_string(), "see jarvis mcp add --help"))
}

/// What turns change is kept in the home, which itself is never looked at.
pub fn checkpoints(home: &Home) -> Checkpoints {
    Checkpoints::new(home.checkpoints(), vec![home.root().to_owned(), home.models().to_owned()])
}

/// Where subagents are looked for.
pub fn agents(home: &Home) -> Outcome<AgentFolders> {
    Ok(agents_in(home, &workspace()?))
}

pub fn agents_in(home: &Home, workspace: &Path) -> AgentFolders {
    AgentFolders::new(workspace, &home.agents())
}

/// Two sessions of one process and millisecond must not share an id.
fn session_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{number:x}", jiff::Timestamp::now().as_millisecond(), std::process::id())
}

/// No tokenizer makes fewer tokens than one for this many bytes of prose; what is longer cannot fit.
const BYTES_PER_TOKEN_AT_MOST: usize = 8;

/// Refuses a question that the model cannot read whole.
pub fn fits(question: &str, model: &str, context_tokens: usize) -> Outcome {
    let bytes = question.len();
    if bytes <= context_tokens.saturating_mul(BYTES_PER_TOKEN_AT_MOST) {
        return Ok(());
    }
    let message = format!(
        "the question has {bytes} bytes, and {model} reads {context_tokens} tokens (some {} bytes) at most",
        context_tokens * 4
    );
    let hint = "shorten it, or use a model with a larger context: --model PROVIDER/MODEL";
    Err(ErrorBody::new(ErrorKind::ContextOverflow, message).hint(hint).into())
}

/// Does asynchronous work to its end. The first Ctrl-C (or SIGTERM) cancels it, the second ends the process at once.
pub fn block<T>(work: impl AsyncFnOnce(&Signals) -> Outcome<T>) -> Outcome<T> {
    block_on(2, work)
}

/// The same with so many threads: what has many sessions must not stand still while one of them writes to the disk.
pub fn block_on<T>(threads: usize, work: impl AsyncFnOnce(&Signals) -> Outcome<T>) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|e| failed(ErrorKind::Internal, format!("the async runtime does not start: {e}")))?;
    let result = runtime.block_on(async { work(&Signals::listen()).await });
    // Not waited for: a thread may still read a pipe.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}

/// Asks where a person can answer; elsewhere nobody says yes.
pub fn approver(json: bool, cancel: &CancellationToken) -> Box<dyn Approver> {
    if json || !term::person_is_there() {
        Box::new(DenyAll)
    } else {
        Box::new(AskOnTerminal { cancel: cancel.clone() })
    }
}

struct AskOnTerminal {
    cancel: CancellationToken,
}

impl Approver for AskOnTerminal {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let style = term::stderr_style();
            let (_typing, _paused) = (term::typed::pause(), term::live::pause());
            term::note(format!("{} {}", style.bold("may it?"), term::cut(&request.reason, 200)));
            for line in crate::show::asked(&request.grants, request.before.as_ref(), style) {
                term::note(format!("  {line}"));
            }
            // What was typed before is no answer to this.
            term::drop_typed();
            term::ask(format!("allow `{}`? [y/N] ", term::cut(&request.capability, 100)));
            tokio::select! {
                answer = answer() => answer.is_ok_and(|line| is_yes(&line)),
                () = self.cancel.cancelled() => false,
            }
        })
    }

    fn fill<'a>(&'a mut self, form: &'a Form) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            let style = term::stderr_style();
            let (_typing, _paused) = (term::typed::pause(), term::live::pause());
            let words = term::cut(&form.message, 1000);
            term::note(format!("{} {words}", style.bold(&format!("`{}` asks:", term::flat(&form.server)))));
            term::note("  never give a password or a key here; an empty line leaves a field out");
            term::ask("answer? [y/N] ");
            if !self.line().await.is_some_and(|line| is_yes(&line)) {
                return None;
            }
            let mut filled = serde_json::Map::new();
            for (name, field) in form.schema["properties"].as_object()? {
                if let Some(value) = self.field(name, field).await? {
                    filled.insert(name.clone(), value);
                }
            }
            let filled = Value::Object(filled);
            if let Err(problem) = jarvis_dispatch::check_value(&form.schema, &filled) {
                term::note(format!("that is not what it asks for ({}); it is declined", term::flat(&problem)));
                return None;
            }
            Some(filled)
        })
    }
}

impl AskOnTerminal {
    async fn line(&self) -> Option<String> {
        tokio::select! {
            line = answer() => line.ok().filter(|line| !line.is_empty()).map(|line| line.trim().to_owned()),
            () = self.cancel.cancelled() => None,
        }
    }

    /// One field of a form, or nothing for an empty line; without an answer at all the form is given up.
    async fn field(&self, name: &str, field: &Value) -> Option<Option<Value>> {
        let about = ["title", "description"].iter().find_map(|key| field[*key].as_str()).unwrap_or_default();
        let choices = field.get("enum").map(|choices| format!(" {choices}")).unwrap_or_default();
        let kind = field["type"].as_str().unwrap_or("string");
        term::ask(format!(
            "  {} ({kind}{}) {}: ",
            term::cut(name, 60),
            term::cut(&choices, 200),
            term::cut(about, 200)
        ));
        let line = self.line().await?;
        if line.is_empty() {
            return Some(field.get("default").cloned());
        }
        // A number or true; a text where the field is one, whatever it looks like.
        let value = if kind == "string" { None } else { serde_json::from_str(&line).ok() };
        Some(Some(value.unwrap_or(Value::String(line))))
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes" | "是" | "好")
}

/// A line from the terminal. It is read only once it is there, so that nothing waits for input that is meant for
/// whatever comes after a cancelled question.
async fn answer() -> std::io::Result<String> {
    // A terminal is no pipe, but is waited for in the same way; nothing is read by it.
    let terminal = pipe::Receiver::from_owned_fd_unchecked(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    terminal.readable().await?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}
