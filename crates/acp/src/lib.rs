//! The Agent Client Protocol: jarvis in editors. Requests become operations of hosted sessions, their events become
//! updates; questions, cancelling and the audit are those of every front end.

mod agent;
mod ask;
mod commands;
mod desk;
mod errors;
mod plan;
mod prompt;
mod replay;
mod sessions;
mod settings;
mod tell;
mod tools;
mod turn;
mod wire;

use agent::Agent;
use jarvis_host::Host;
use jarvis_protocol::ErrorBody;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// How long turns may take to end once the editor is gone.
const ENDING: Duration = Duration::from_millis(1200);
/// How long what was answered last may take to be written.
const WRITING: Duration = Duration::from_millis(300);

/// What the binary knows and the protocol tells.
pub struct Options {
    pub version: String,
    /// `provider/model` of those that can be chosen; another one can be, too, by its name.
    pub models: Vec<String>,
    /// What keeps the usual model from answering for want of a key; looked at again whenever a client asks.
    pub lacks_key: Arc<dyn Fn() -> Option<ErrorBody> + Send + Sync>,
}

#[derive(Debug, thiserror::Error)]
pub enum AcpError {
    #[error("the connection with the editor ended: {0}")]
    Connection(String),
}

/// Serves one editor until it is gone or `stop` is cancelled; then every turn is cancelled and every session let go.
pub async fn serve(
    host: Host,
    options: Options,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: &CancellationToken,
) -> Result<(), AcpError> {
    let wire = wire::Wire::start(input, output);
    let (flow, gone, _over) = (wire.flow.clone(), wire.gone.clone(), wire.over);
    let connection = Arc::new(Agent::new(host.clone(), options, flow.clone())).connect(wire.channel);
    // The connection goes on meanwhile, so that what was asked is still answered.
    let ending = async {
        tokio::select! {
            () = gone.cancelled() => {}
            () = stop.cancelled() => {}
        }
        if tokio::time::timeout(ENDING, host.shut(Duration::ZERO)).await.is_err() {
            tracing::warn!("a turn did not end when it was cancelled");
        }
        // Nobody may be there to read it.
        let _ = tokio::time::timeout(WRITING, flow.answered()).await;
    };
    tokio::select! {
        ended = connection => ended.map_err(|error| AcpError::Connection(error.message)),
        () = ending => Ok(()),
    }
}
