//! The one place where errors become words and exit codes: 1 failure, 2 usage or config, 3 broken pipe, 130 cancelled,
//! 255 a bug in jarvis.

use crate::term;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::process::ExitCode;

#[derive(Debug)]
pub enum Failure {
    Body(ErrorBody),
    /// Whoever read stdout went away; nobody is left to be told.
    BrokenPipe,
    /// It has been told already; only the exit code is left to say.
    Told(u8),
}

pub type Outcome<T = ()> = Result<T, Failure>;

pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::Body(ErrorBody::new(ErrorKind::Usage, message).hint(hint))
}

pub fn config(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::Body(ErrorBody::new(ErrorKind::Config, message).hint(hint))
}

pub fn failed(kind: ErrorKind, message: impl Into<String>) -> Failure {
    Failure::Body(ErrorBody::new(kind, message))
}

impl Failure {
    /// What happened, and what to do about it, on one line.
    pub fn message(&self) -> String {
        match self {
            Failure::Body(ErrorBody { message, hint: Some(hint), .. }) => format!("{message} ({hint})"),
            Failure::Body(body) => body.message.clone(),
            Failure::BrokenPipe => "the output is closed".to_owned(),
            Failure::Told(_) => String::new(),
        }
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        Failure::Body(body)
    }
}

impl From<jarvis_registry::RegistryError> for Failure {
    fn from(error: jarvis_registry::RegistryError) -> Self {
        Failure::Body(error.body())
    }
}

impl From<jarvis_audit::AuditError> for Failure {
    fn from(error: jarvis_audit::AuditError) -> Self {
        Failure::Body(error.body())
    }
}

impl From<jarvis_model::ModelError> for Failure {
    fn from(error: jarvis_model::ModelError) -> Self {
        Failure::Body(error.body())
    }
}

impl From<jarvis_model::fetch::FetchError> for Failure {
    fn from(error: jarvis_model::fetch::FetchError) -> Self {
        Failure::Body(error.body())
    }
}

impl From<jarvis_memory::SessionError> for Failure {
    fn from(error: jarvis_memory::SessionError) -> Self {
        let body = error.body();
        Failure::Body(match &error {
            jarvis_memory::SessionError::Busy { id, .. } => body.hint(format!(
                "go on there, end that process, or go on in a copy: jarvis session fork {id}, then jarvis chat --resume"
            )),
            jarvis_memory::SessionError::NotFound(_) => body.hint("`jarvis session list --all` shows those there are"),
            _ => body,
        })
    }
}

impl From<jarvis_memory::MemoryError> for Failure {
    fn from(error: jarvis_memory::MemoryError) -> Self {
        let body = error.body();
        Failure::Body(match &error {
            jarvis_memory::MemoryError::Invalid(_) => {
                ErrorBody::new(ErrorKind::Usage, body.message).hint("`jarvis memory add --help` says what a note has")
            }
            jarvis_memory::MemoryError::NotFound(_) => {
                body.hint("`jarvis memory list` shows the notes, `jarvis memory proposals` what waits for a yes")
            }
            _ => body,
        })
    }
}

impl From<jarvis_forge::ForgeError> for Failure {
    fn from(error: jarvis_forge::ForgeError) -> Self {
        Failure::Body(error.body())
    }
}

impl From<jarvis_dispatch::CallError> for Failure {
    fn from(error: jarvis_dispatch::CallError) -> Self {
        Failure::Body(error.body().clone())
    }
}

/// A file that was named on the command line.
pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    usage(format!("{} cannot be read: {error}", path.display()), "check the path")
}

pub fn disk(path: &std::path::Path, error: &std::io::Error) -> Failure {
    failed(ErrorKind::Disk, format!("{}: {error}", path.display()))
}

pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage | ErrorKind::Config => 2,
        ErrorKind::Cancelled => 130,
        ErrorKind::Internal => 255,
        ErrorKind::NoModel
        | ErrorKind::Auth
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::ContextOverflow
        | ErrorKind::InvalidRequest
        | ErrorKind::ContentFilter
        | ErrorKind::Network
        | ErrorKind::Timeout
        | ErrorKind::Protocol
        | ErrorKind::Forge
        | ErrorKind::Sandbox
        | ErrorKind::Denied
        | ErrorKind::NotFound
        | ErrorKind::Damaged
        | ErrorKind::Disk
        | ErrorKind::Conflict
        | ErrorKind::Limit => 1,
    }
}

/// For people on stderr; with `--json` also as one object on stdout.
pub fn finish(outcome: Outcome, json: bool) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::BrokenPipe) => ExitCode::from(3),
        Err(Failure::Told(code)) => ExitCode::from(code),
        Err(Failure::Body(body)) => {
            tell(&body);
            if json && let Err(Failure::BrokenPipe) = self::json(&body) {
                return ExitCode::from(3);
            }
            ExitCode::from(exit_code(body.kind))
        }
    }
}

/// An error as a script reads it.
pub fn json(body: &ErrorBody) -> Outcome {
    term::json(&serde_json::json!({"error": clean(body)}))
}

/// Without secrets of known shapes: a message may repeat what a server, a file or a command line said.
pub fn clean(body: &ErrorBody) -> ErrorBody {
    let hint = body.hint.as_deref().map(jarvis_audit::redact);
    ErrorBody { kind: body.kind, message: jarvis_audit::redact(&body.message), hint }
}

/// What happened, and what to do about it.
pub fn tell(body: &ErrorBody) {
    let body = clean(body);
    let style = term::stderr_style();
    term::note(format!("{} {}", style.red("error:"), body.message));
    if let Some(hint) = &body.hint {
        term::note(format!(" {} {hint}", style.bold("hint:")));
    }
    if body.kind == ErrorKind::Internal {
        term::note(" this is a bug in jarvis; please report it with what you did");
    }
}
