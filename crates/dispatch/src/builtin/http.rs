//! http_request: one request through the broker, with its rules for addresses, redirects and sizes.

use super::{Call, capped, told};
use crate::CallError;
use jarvis_policy::Reach;
use jarvis_protocol::ErrorKind;
use jarvis_sandbox::{EgressPolicy, ToolWork};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use url::Url;

const MOST_CHARS: usize = 50_000;
/// Headers of an answer that tell a model something.
const TOLD: [&str; 6] = ["content-type", "content-length", "location", "last-modified", "etag", "retry-after"];

#[derive(Deserialize)]
pub(super) struct Request {
    url: String,
    #[serde(default = "get")]
    method: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
}

fn get() -> String {
    "GET".to_owned()
}

pub(super) async fn request(call: &mut Call<'_>, args: Request) -> Result<Value, CallError> {
    let wrong = |problem: String| CallError::respond(ErrorKind::Usage, format!("http_request: {problem}"));
    let url = Url::parse(&args.url).map_err(|e| wrong(format!("{}: {e}", args.url)))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("the scheme `{}` is not http or https", url.scheme())));
    }
    let Some(name) = url.host_str() else { return Err(wrong("the URL has no host".to_owned())) };
    let host = url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
    let allowed = EgressPolicy::parse(&call.dispatch.policy().allowed_hosts)
        .is_ok_and(|policy| policy.check(&args.method, &url).is_ok());
    call.seen(&host, (&args.method, &url), allowed)?;
    let permit = call.permit(Reach::Fetch { host, method: args.method.clone(), allowed }).await?;
    let work = ToolWork::Fetch {
        url: url.to_string(),
        method: args.method,
        headers: args.headers.into_iter().collect(),
        body: args.body.into_bytes(),
    };
    let done = call.work(permit, work).await?.map_err(|e| told(&e))?;
    let mut text = format!("HTTP {} {}", done.head["status"], done.head["status_text"].as_str().unwrap_or_default());
    for header in done.head["headers"].as_array().into_iter().flatten() {
        let (name, value) = (header[0].as_str().unwrap_or_default(), header[1].as_str().unwrap_or_default());
        if TOLD.contains(&name) {
            text.push_str(&format!("\n{name}: {value}"));
        }
    }
    match String::from_utf8(done.body) {
        Ok(body) => text.push_str(&format!("\n\n{}", capped(&body, MOST_CHARS))),
        Err(e) => text.push_str(&format!("\n\n[{} bytes that are no UTF-8 text]", e.as_bytes().len())),
    }
    Ok(Value::String(text))
}
