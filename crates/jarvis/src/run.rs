//! Wiring: one dispatch, one forge, one session, out of the settings and the flags.

use crate::cli::Common;
use crate::config::Settings;
use crate::error::{Outcome, config, failed, usage};
use crate::home::Home;
use crate::model::Choice;
use crate::term;
use futures::future::BoxFuture;
use jarvis_agent::{Mode, Session, SessionParts};
use jarvis_audit::AuditLog;
use jarvis_dispatch::{ApprovalRequest, Approver, DenyAll, Dispatch, Parts};
use jarvis_forge::Forge;
use jarvis_model::ModelHandle;
use jarvis_policy::{Approval, Policy};
use jarvis_protocol::ErrorKind;
use jarvis_registry::{Author, Registry};
use jarvis_sandbox::{Access, Executor, SandboxConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

pub fn registry(home: &Home) -> Outcome<Registry> {
    let author = Author { name: "jarvis".to_owned(), email: "jarvis@localhost".to_owned() };
    Ok(Registry::open(home.capabilities(), home.database(), author)?)
}

/// Everything a call passes through. Starts no process yet. The workspace becomes the current folder.
pub fn forge(settings: &Settings, common: &Common, home: &Home) -> Outcome<Forge> {
    if let Some(folder) = &common.workspace {
        std::env::set_current_dir(folder).map_err(|e| {
            usage(format!("--workspace {}: {e}", folder.display()), "name a folder that may be entered")
        })?;
    }
    let worker = SandboxConfig {
        worker_exe: this_program()?,
        pool: settings.sandbox.pool,
        max_workers: settings.sandbox.pool.max(1) * 4,
    };
    let workspace = std::env::current_dir()
        .map_err(|e| failed(ErrorKind::Disk, format!("the current folder cannot be used: {e}")))?;
    let executor = Executor::with_access(worker, access(home, workspace.clone())?);
    let policy = Policy {
        approval: common.approve.map_or(settings.approve, Approval::from),
        network: settings.sandbox.network,
        allowed_hosts: common.allow_net.clone(),
        ..Policy::closed()
    };
    let dispatch = Dispatch::new(Parts {
        registry: registry(home)?,
        audit: AuditLog::open(home.audit()),
        executor,
        policy,
        actor: "cli".to_owned(),
        workspace,
    });
    Ok(Forge::new(Arc::new(dispatch)))
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
    let whole = |path: &Path| {
        std::path::absolute(path).map_err(|e| failed(ErrorKind::Disk, format!("{}: {e}", path.display())))
    };
    let mut denied = vec![whole(home.root())?];
    // Other processes' memory and environment, this one's keys among them.
    denied.extend(["/proc", "/sys", "/dev"].map(PathBuf::from));
    if let Some(person) = std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute()) {
        denied.extend(PRIVATE.iter().map(|name| person.join(name)));
    }
    Ok(Access { workspace: Some(workspace), denied, secrets: None })
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

/// The model with its cassette, if one is wanted.
pub fn handle(choice: &Choice, settings: &Settings, common: &Common, home: &Home) -> Outcome<ModelHandle> {
    if let Some(file) = &common.replay {
        let backend = jarvis_model::replay(file.clone())?;
        return Ok(ModelHandle::new(choice.id.as_str(), choice.traits(settings), backend));
    }
    match &common.record {
        None => choice.handle(settings, home),
        Some(file) => {
            let backend = jarvis_model::record(choice.backend(settings, home)?, file.clone())?;
            Ok(ModelHandle::new(choice.id.as_str(), choice.traits(settings), backend))
        }
    }
}

pub fn session(
    choice: &Choice,
    model: ModelHandle,
    forge: Forge,
    settings: &Settings,
    common: &Common,
) -> Outcome<Session> {
    let mut limits = settings.limits.turn();
    limits.max_rounds = common.max_turns.unwrap_or(limits.max_rounds);
    limits.max_cost_usd = common.max_cost.or(limits.max_cost_usd);
    let price = choice.price(settings);
    if limits.max_cost_usd.is_some() && price.is_none() && !choice.is_local() {
        return Err(config(
            format!("a limit of cost is set, but no price of {} is known", choice.id),
            format!(
                "jarvis config set 'prices.\"{}\"' '{{ input = 3.0, output = 15.0 }}' (US dollars per million tokens)",
                choice.id
            ),
        ));
    }
    let mode = common.mode.map_or_else(|| choice.mode(settings), Mode::from);
    Ok(Session::new(SessionParts {
        id: session_id(),
        model,
        forge,
        mode,
        limits,
        price,
        zone: jiff::tz::TimeZone::system(),
    }))
}

fn session_id() -> String {
    format!("{:x}-{:x}", jiff::Timestamp::now().as_millisecond(), std::process::id())
}

pub fn runtime() -> Outcome<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| failed(ErrorKind::Internal, format!("the async runtime does not start: {e}")))
}

/// Ends a runtime without waiting for a thread that still reads the terminal.
pub fn stop(runtime: Runtime) {
    runtime.shutdown_timeout(Duration::from_millis(200));
}

/// The first Ctrl-C (or SIGTERM) cancels; the second ends the process at once. Must be called in a runtime.
pub fn cancel_on_interrupt(cancel: CancellationToken) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
        let mut interrupts = 0;
        loop {
            let terminated = async {
                match terminate.as_mut() {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated => {}
            }
            interrupts += 1;
            if interrupts > 1 {
                std::process::exit(130);
            }
            cancel.cancel();
        }
    })
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
            term::note(format!("{} {}", style.bold("may it?"), term::cut(&request.reason, 200)));
            for grant in crate::show::grants(&request.grants) {
                term::note(format!("  {grant}"));
            }
            term::ask(format!("allow `{}`? [y/N] ", term::cut(&request.capability, 100)));
            let (say, answer) = tokio::sync::oneshot::channel();
            // A thread of its own: a blocked read must not hold up the end of the process.
            std::thread::spawn(move || {
                let mut line = String::new();
                let read = std::io::stdin().read_line(&mut line);
                let _ = say.send(read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes" | "是" | "好"));
            });
            tokio::select! {
                answer = answer => answer.unwrap_or(false),
                () = self.cancel.cancelled() => false,
            }
        })
    }
}
