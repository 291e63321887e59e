//! Asks a server that was just started for its tools, with the official client, and lets it go.

use jarvis_protocol::ToolSpec;
use rmcp::ServiceExt as _;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

/// Why a server did not say what it has.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("did not finish the initialisation of the protocol ({0})")]
    Initialise(String),
    #[error("did not list its tools ({0})")]
    List(String),
}

/// `from` is what the server writes, `to` what it reads. Whoever calls bounds both, and the time.
pub async fn tools_of(
    from: impl AsyncRead + Send + Unpin + 'static,
    to: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<Vec<ToolSpec>, ProbeError> {
    let client = ().serve((from, to)).await.map_err(|e| ProbeError::Initialise(short(&e)))?;
    let listed = client.list_all_tools().await.map_err(|e| ProbeError::List(short(&e)));
    // It is ended in any case; that it did not say goodbye is no fault of its tools.
    let _ = client.cancel().await;
    let told = listed?.into_iter().map(|tool| ToolSpec {
        name: tool.name.into_owned(),
        description: tool.description.map(std::borrow::Cow::into_owned).unwrap_or_default(),
        parameters: Value::Object(std::sync::Arc::unwrap_or_clone(tool.input_schema)),
    });
    Ok(told.collect())
}

/// What a server says in an error may be long.
fn short(error: &dyn std::fmt::Display) -> String {
    error.to_string().chars().take(500).collect()
}
