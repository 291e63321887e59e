//! Why an address does not let jarvis in, with what a person does about it.

use super::config::ServerConfig;
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use std::error::Error;

/// What is wrong and the way out; none for what says enough by itself.
pub(super) fn explained(name: &str, config: &ServerConfig, error: &ClientInitializeError) -> Option<(String, String)> {
    let ClientInitializeError::TransportError { error, .. } = error else { return None };
    let mut next: Option<&(dyn Error + 'static)> = Some(&*error.error);
    let mut said = String::new();
    while let Some(cause) = next {
        if let Some(needed) = cause.downcast_ref::<AuthRequiredError>() {
            return Some(unauthorized(name, config, &needed.www_authenticate_header));
        }
        if let Some(needed) = cause.downcast_ref::<InsufficientScopeError>() {
            return Some(unauthorized(name, config, &needed.www_authenticate_header));
        }
        said.push_str(&cause.to_string());
        said.push(' ');
        next = cause.source();
    }
    // The library keeps the status in its words alone.
    let status = |wanted: &[&str]| said.split(|c: char| !c.is_ascii_digit()).any(|word| wanted.contains(&word));
    if status(&["401", "403"]) {
        return Some(unauthorized(name, config, ""));
    }
    status(&["404", "405"]).then(|| {
        let message = format!(
            "it takes no POST ({}): so do servers of the old HTTP+SSE transport, which jarvis does not speak",
            super::handler::plain(said.trim())
        );
        (message, "give the address of its streamable HTTP endpoint, often …/mcp: jarvis mcp add --replace".to_owned())
    })
}

/// There is no sign-in by OAuth: a token that a person has is given as a header.
fn unauthorized(name: &str, config: &ServerConfig, challenge: &str) -> (String, String) {
    let challenge = super::handler::plain(challenge);
    let asks = if challenge.is_empty() { String::new() } else { format!(" (it asks for: {challenge})") };
    if config.brought {
        let hint = "get a token there, and have the editor send it as a header of this server".to_owned();
        return (format!("it lets nobody in without authorization{asks}"), hint);
    }
    let hint = format!(
        "jarvis signs in nowhere by itself: get a token there, keep it with `jarvis secret set TOKEN --host HOST`, and send it: \
         headers.Authorization = \"Bearer ${{secret:TOKEN}}\" in mcp.servers.{name}, or jarvis mcp add {name} --replace --url \
         URL --header 'Authorization=Bearer ${{secret:TOKEN}}'"
    );
    (format!("it lets nobody in without authorization{asks}"), hint)
}
