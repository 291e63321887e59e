//! jarvis as a server for other agents: capabilities are searched, registered and run over stdio or HTTP.
//!
//! Nothing is decided here. Every call goes to the same bootstrap tools a model has, and by them to dispatch; a grant
//! is asked for where the host can ask a person, and refused where it cannot.

mod ask;
mod call;
mod complete;
mod handler;
mod http;
mod lines;
mod listener;
mod progress;
mod resources;
mod sessions;
mod tools;
mod watch;

pub use http::{HttpError, HttpOptions, PATH, serve_http};

use handler::Handler;
use jarvis_agent::{Bootstrap, SkillFolders};
use jarvis_audit::AuditLog;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Of one message. A capability's code and arguments fit many times over.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// What a server serves, whatever it is reached by.
pub struct Setup {
    /// The tools of one call; the text is who asked, as the host calls itself, and becomes the writer of what is
    /// registered.
    pub bootstrap: Box<dyn Fn(&str) -> Bootstrap + Send + Sync>,
    pub audit: AuditLog,
    pub skills: SkillFolders,
    /// Each active capability is a tool of its own, beside the three.
    pub capabilities_as_tools: bool,
    /// How the server was started, so that a refusal can name the command that would allow it.
    pub started_as: String,
    pub version: String,
}

/// What all sessions of a process share.
pub(crate) struct Shared {
    pub setup: Setup,
    pub changes: watch::Changes,
}

impl Shared {
    fn new(setup: Setup, stop: &CancellationToken) -> Arc<Shared> {
        let root = (setup.bootstrap)("").dispatch().registry().root().to_owned();
        let changes = watch::Changes::new(root, setup.audit.dir().to_owned(), stop.clone());
        Arc::new(Shared { setup, changes })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the host did not begin a session: {0}")]
    Begin(String),
    #[error("the session ended by a fault of the server: {0}")]
    Broken(String),
}

/// Serves one host until it closes `input`, it is gone, or `stop` is cancelled; then its work is cancelled too.
///
/// # Errors
/// The host spoke no protocol that is understood, or the server has a fault.
pub async fn serve_stdio(
    setup: Setup,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let ended = stop.child_token();
    let shared = Shared::new(setup, &ended);
    let _ended = ended.clone().drop_guard();
    let gone = ended.child_token();
    let transport = lines::Lines::new(input, output, gone.clone());
    match Handler::new(shared, gone).serve_with_ct(transport, ended).await {
        Ok(running) => match running.waiting().await {
            Ok(_) => Ok(()),
            Err(error) => Err(ServeError::Broken(error.to_string())),
        },
        // A host that closes without a word, or a server that is told to stop, is no failure.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(ServerInitializeError::TransportError { .. }) => Ok(()),
        Err(error) => Err(ServeError::Begin(error.to_string())),
    }
}
