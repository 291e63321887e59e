//! The settings as a model may read them: what is in force, with everything masked that may be a secret.

use super::load;
use crate::error::{Failure, clean};
use crate::home::Home;
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde_json::Value;

const MASKED: &str = "(masked)";

pub fn view(home: &Home) -> Result<String, ErrorBody> {
    let internal = |problem: String| ErrorBody::new(ErrorKind::Internal, problem);
    let settings = load(home).map_err(|failure| match failure {
        Failure::Body(body) => clean(&body),
        Failure::BrokenPipe | Failure::Told(_) => internal("the settings cannot be read".to_owned()),
    })?;
    let mut whole = serde_json::to_value(&settings).map_err(|e| internal(e.to_string()))?;
    for provider in whole["providers"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        // Keys stand in headers, and in fields that a provider wants in the body.
        for place in ["headers", "body"] {
            if let Some(inner) = provider.get_mut(place) {
                mask(inner);
            }
        }
        if let Some(Value::String(url)) = provider.get_mut("base_url") {
            *url = without_user(url);
        }
    }
    for server in
        whole.pointer_mut("/mcp/servers").and_then(Value::as_object_mut).into_iter().flat_map(|all| all.values_mut())
    {
        for place in ["env", "headers", "args"] {
            if let Some(inner) = server.get_mut(place) {
                mask(inner);
            }
        }
        if let Some(Value::String(url)) = server.get_mut("url") {
            *url = without_query(&without_user(url));
        }
    }
    toml::to_string(&jarvis_audit::redact_value(&whole)).map_err(|e| internal(e.to_string()))
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) => MASKED.clone_into(text),
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::Object(map) => map.values_mut().for_each(mask),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keys of servers often stand there.
fn without_query(url: &str) -> String {
    url.split_once('?').map_or_else(|| url.to_owned(), |(before, _)| format!("{before}?{MASKED}"))
}

/// An address may hold a name and a password before its host.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{MASKED}@{host}{path}"),
        None => url.to_owned(),
    }
}
