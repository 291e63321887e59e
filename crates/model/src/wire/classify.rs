//! What a refusal means: by the body's error code and type where it has them, else by the status. Message text decides
//! only where it is the documented form (its beginning), never by what it contains.

use serde_json::Value;
use std::time::Duration;

use crate::ModelError;

/// Characters of what a server said that are kept in the log and in the message.
const EXCERPT: usize = 500;

/// The first [`EXCERPT`] characters on one line.
pub(super) fn excerpt(text: &str) -> String {
    let mut out: String = text.trim().chars().take(EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.trim().chars().nth(EXCERPT).is_some() {
        out.push('…');
    }
    out
}

/// The error object of a body or an event, in the shapes that servers give it.
#[derive(Debug, Default, PartialEq)]
struct Refusal {
    /// `error.code` and `error.type`, whichever are there, as text.
    words: Vec<String>,
    /// A code that is a status, as OpenRouter and Gemini send it.
    status: Option<u16>,
    message: String,
}

fn refusal(body: &Value) -> Option<Refusal> {
    // Gemini wraps the object in a list; older vLLM puts its fields at the top; FastAPI says `detail`.
    let body = body.as_array().and_then(|a| a.first()).unwrap_or(body);
    let error = match body.get("error") {
        Some(Value::String(text)) => return Some(Refusal { message: text.clone(), ..Refusal::default() }),
        Some(error @ Value::Object(_)) => error,
        _ => match body.get("detail") {
            Some(Value::String(text)) => return Some(Refusal { message: text.clone(), ..Refusal::default() }),
            Some(detail) if !detail.is_null() => {
                return Some(Refusal { message: detail.to_string(), ..Refusal::default() });
            }
            _ => body,
        },
    };
    let message = error.get("message").and_then(Value::as_str)?.to_owned();
    let mut words = Vec::new();
    let mut status = None;
    for field in ["code", "type", "status"] {
        let value = error.get(field);
        let number = value.and_then(Value::as_u64).or_else(|| value?.as_str()?.parse().ok());
        match number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n)) {
            Some(number) => status = status.or(Some(number)),
            None => words.extend(value.and_then(Value::as_str).map(str::to_lowercase)),
        }
    }
    Some(Refusal { words, status, message })
}

/// A response whose status is not a success. `path` is told where it may be the mistake.
pub(super) fn response(status: u16, path: &str, body: &str, retry_after: Option<Duration>) -> ModelError {
    let parsed = serde_json::from_str::<Value>(body).ok();
    let mut refusal = parsed.as_ref().and_then(refusal).unwrap_or_default();
    if refusal.message.is_empty() {
        refusal.message = if body.trim().is_empty() { "no explanation given".to_owned() } else { body.to_owned() };
    }
    if matches!(status, 404 | 405) {
        refusal.message = format!("{path}: {}", refusal.message);
    }
    classify(status, refusal, retry_after)
}

/// An error inside a successful response: an event in mid-stream, or a body. `None` when `value` is no error.
pub(super) fn inside(value: &Value) -> Option<ModelError> {
    // OpenRouter puts what went wrong upstream into the choice; some only end it so.
    let choice = value.pointer("/choices/0").filter(|_| value.get("error").is_none_or(Value::is_null));
    if let Some(error) = choice.filter(|c| c.get("error").is_some_and(Value::is_object)) {
        return inside(error);
    }
    if choice.and_then(|c| c.get("finish_reason")).is_some_and(|r| r == "error") {
        return Some(ModelError::Broken { message: "the provider ended the answer with an error".to_owned() });
    }
    let is_error = value.get("error").is_some_and(|e| e.is_object() || e.is_string())
        || ["type", "object"].iter().any(|f| value.get(f).and_then(Value::as_str) == Some("error"));
    if !is_error {
        return None;
    }
    let refusal = refusal(value).unwrap_or_else(|| Refusal { message: value.to_string(), ..Refusal::default() });
    let status = refusal.status.or_else(|| refusal.words.iter().find_map(|w| status_of(w)));
    Some(match status {
        Some(status) => classify(status, refusal, None),
        None => special(0, &refusal).unwrap_or(ModelError::Broken { message: refusal.message }),
    })
}

/// The status that goes with an error type, for errors that come without one.
fn status_of(word: &str) -> Option<u16> {
    Some(match word {
        "invalid_request_error" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" => 402,
        "permission_error" | "permission_denied" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "resource_exhausted" => 429,
        "api_error" | "server_error" | "internal_error" | "internal" => 500,
        "unavailable" | "service_unavailable" => 503,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// Meanings that a code or a type carries whatever the status is.
fn special(status: u16, refusal: &Refusal) -> Option<ModelError> {
    let has = |words: &[&str]| refusal.words.iter().any(|w| words.contains(&w.as_str()));
    let begins = |text: &str| refusal.message.get(..text.len()).is_some_and(|m| m.eq_ignore_ascii_case(text));
    let message = refusal.message.clone();
    if has(&["context_length_exceeded", "exceed_context_size_error", "request_too_large"])
        // Anthropic, and vLLM with servers that follow it, have no code for it: these are the documented openings.
        || begins("prompt is too long")
        || begins("this model's maximum context length is")
    {
        return Some(ModelError::ContextOverflow { message });
    }
    if has(&["content_filter", "content_policy_violation", "data_inspection_failed"]) {
        return Some(ModelError::ContentFilter { message });
    }
    if has(&["insufficient_quota", "billing_error"]) {
        // Waiting does not fill an account.
        return Some(ModelError::Auth { status: if status == 0 { 402 } else { status }, message });
    }
    None
}

fn classify(status: u16, refusal: Refusal, retry_after: Option<Duration>) -> ModelError {
    if let Some(error) = special(status, &refusal) {
        return error;
    }
    let message = refusal.message;
    match status {
        401..=403 => ModelError::Auth { status, message },
        413 => ModelError::ContextOverflow { message },
        429 => ModelError::RateLimit { status, message, retry_after },
        // 408 and 409 are asked again by the providers' own clients too.
        408 | 409 | 500 | 502..=504 | 506..=599 => ModelError::Overloaded { status, message, retry_after },
        300..=399 => ModelError::Protocol { message: format!("the server redirects (status {status}): {message}") },
        _ => ModelError::InvalidRequest { status, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::ErrorKind;

    fn kind(status: u16, body: &str) -> (ErrorKind, bool) {
        let error = response(status, "/v1/chat/completions", body, None);
        (error.body().kind, error.is_transient())
    }

    #[test]
    fn the_status_decides_where_the_body_says_nothing() {
        use ErrorKind::*;
        let table = [
            (400, InvalidRequest, false),
            (401, Auth, false),
            (402, Auth, false),
            (403, Auth, false),
            (404, InvalidRequest, false),
            (413, ContextOverflow, false),
            (422, InvalidRequest, false),
            (429, RateLimit, true),
            (500, Overloaded, true),
            (501, InvalidRequest, false),
            (502, Overloaded, true),
            (503, Overloaded, true),
            (504, Overloaded, true),
            (529, Overloaded, true),
            (307, Protocol, false),
        ];
        for (status, expected, again) in table {
            for body in ["", "<html>401 429 context_length_exceeded</html>", "{}", r#"{"error":"boom 401"}"#] {
                assert_eq!(kind(status, body), (expected, again), "{status} {body}");
            }
        }
    }

    #[test]
    fn codes_and_types_are_read_in_every_shape() {
        use ErrorKind::*;
        let table = [
            (
                400,
                r#"{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_ctx":4}}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"message":"I said: prompt is too long","type":"invalid_request_error"}}"#,
                InvalidRequest,
            ),
            (400, r#"{"error":{"message":"m","code":"content_filter"}}"#, ContentFilter),
            (
                400,
                r#"{"error":{"message":"status 401, rate limit 429","type":"invalid_request_error"}}"#,
                InvalidRequest,
            ),
            (401, r#"[{"error":{"code":401,"message":"m","status":"UNAUTHENTICATED"}}]"#, Auth),
            (422, r#"{"detail":[{"msg":"field required"}]}"#, InvalidRequest),
            (413, r#"{"type":"error","error":{"type":"request_too_large","message":"m"}}"#, ContextOverflow),
            (429, r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#, Auth),
            (500, r#"{"error":{"message":"m","code":"insufficient_quota"}}"#, Auth),
        ];
        for (status, body, expected) in table {
            assert_eq!(kind(status, body).0, expected, "{status} {body}");
        }
        assert!(!kind(429, table[10].1).1, "an empty account is not asked again");
    }

    #[test]
    fn an_error_inside_a_good_response_is_told_from_an_answer() {
        let answer = serde_json::json!({"choices": [], "error": null});
        assert!(inside(&answer).is_none());
        let kind = |text: &str| inside(&serde_json::from_str(text).unwrap()).unwrap().body().kind;
        assert_eq!(
            kind(r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#),
            ErrorKind::Overloaded
        );
        assert_eq!(kind(r#"{"error":{"code":429,"message":"m"}}"#), ErrorKind::RateLimit);
        assert_eq!(kind(r#"{"error":{"code":"content_filter","message":"m"}}"#), ErrorKind::ContentFilter);
        assert_eq!(kind(r#"{"error":"the engine died"}"#), ErrorKind::Network);
        assert_eq!(kind(r#"{"object":"error","message":"m","code":500}"#), ErrorKind::Overloaded);
    }

    #[test]
    fn a_long_body_is_cut_between_characters() {
        let cut = excerpt(&"错误\n".repeat(400));
        assert_eq!(cut.chars().count(), 501);
        assert!(cut.ends_with('…') && !cut.contains('\n'));
    }
}
