//! Secrets are taken out before anything is written: by the shape of the text, and by the name of a field.

use regex::{Captures, Regex};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Name of the kind, and its shape. The first that matches at a place wins. Where a shape has a group `keep`, that
/// part is no secret and stays.
const SHAPES: [(&str, &str); 14] = [
    ("private_key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)"),
    ("anthropic_key", r"\bsk-ant-[A-Za-z0-9_-]{8,}"),
    ("api_key", r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})"),
    ("aws_key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("slack_token", r"\bxox[abeprs]-[A-Za-z0-9-]{8,}"),
    ("google_key", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("stripe_key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{8,}"),
    (
        "package_token",
        r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{24,})",
    ),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
    ("authorization", r"(?P<keep_auth>(?i:\b(?:bearer|basic)\s+))[A-Za-z0-9._~+/=-]{8,}"),
    ("url_password", r"(?P<keep_url>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@"),
    (
        "password",
        r#"(?P<keep_field>(?i:["']?[a-z0-9_-]*(?:passw(?:or)?d|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token)["']?\s*[=:]\s*))(?:"(?:[^"\\]|\\.)+"|'[^']+'|[^\s"',;&}«]+)"#,
    ),
    ("password", r"(?P<keep_zh>(?:密码|口令|密钥)(?:是|为)?\s*[=:：]\s*)[^\s，。；,;]+"),
];

static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    let shapes: Vec<String> = SHAPES.iter().enumerate().map(|(i, (_, shape))| format!("(?P<k{i}>{shape})")).collect();
    match Regex::new(&shapes.join("|")) {
        Ok(regex) => regex,
        // A constant; `every_shape_is_redacted` would fail.
        Err(e) => unreachable!("the pattern of secrets: {e}"),
    }
});

/// Names of fields whose text is a secret whatever it looks like.
const SECRET_FIELDS: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "client_secret",
    "token",
    "access_token",
    "refresh_token",
    "auth_token",
    "api_key",
    "apikey",
    "access_key",
    "secret_key",
    "private_key",
    "authorization",
    "cookie",
];

/// `text` with each secret replaced by `«redacted:kind»`.
pub fn redact(text: &str) -> String {
    SECRET
        .replace_all(text, |found: &Captures<'_>| {
            let kind = SHAPES
                .iter()
                .enumerate()
                .find(|(i, _)| found.name(&format!("k{i}")).is_some())
                .map_or("secret", |(_, (kind, _))| *kind);
            let keep = ["keep_auth", "keep_url", "keep_field", "keep_zh"]
                .iter()
                .find_map(|group| found.name(group))
                .map_or("", |m| m.as_str());
            let end = if kind == "url_password" { "@" } else { "" };
            format!("{keep}«redacted:{kind}»{end}")
        })
        .into_owned()
}

/// Every string of `value` redacted, names of fields too.
pub(crate) fn redact_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        Value::Array(list) => list.iter().map(redact_value).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let value = match value {
                        Value::String(text) if !text.is_empty() && is_secret_field(key) => {
                            Value::String("«redacted:field»".to_owned())
                        }
                        other => redact_value(other),
                    };
                    (redact(key), value)
                })
                .collect::<Map<_, _>>(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn is_secret_field(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('-', "_");
    SECRET_FIELDS.contains(&key.as_str()) || key.ends_with("_api_key") || key.ends_with("_password")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_shape_is_redacted() {
        // Joined here, so that no scanner takes the test for a leak.
        let long = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9";
        for (secret, kind) in [
            (format!("sk-{long}"), "api_key"),
            (format!("sk-proj-{long}"), "api_key"),
            (format!("sk-ant-api03-{long}"), "anthropic_key"),
            (format!("ghp_{long}"), "github_token"),
            (format!("gho_{long}"), "github_token"),
            (format!("github_pat_{long}"), "github_token"),
            (format!("AKIA{}", "ABCDEFGH12345678"), "aws_key"),
            (format!("xoxb-{long}"), "slack_token"),
            (format!("AIza{long}"), "google_key"),
            (format!("sk_live_{long}"), "stripe_key"),
            (format!("hf_{long}"), "package_token"),
            (format!("eyJhbGciOi.eyJzdWIiOi.{long}"), "jwt"),
            (format!("-----BEGIN RSA PRIVATE KEY-----\n{long}\n-----END RSA PRIVATE KEY-----"), "private_key"),
            (format!("-----BEGIN PRIVATE KEY-----\n{long}"), "private_key"),
        ] {
            let text = redact(&format!("用 {secret}, please"));
            assert!(text.contains(&format!("«redacted:{kind}»")), "{secret} → {text}");
            assert!(!text.contains(&secret[secret.len() - 12..]), "{secret} → {text}");
            assert!(text.starts_with("用 ") && (text.ends_with(", please") || kind == "private_key"), "{text}");
        }
    }

    #[test]
    fn what_stands_before_a_secret_stays_readable() {
        assert_eq!(redact("Authorization: Bearer abcdef123456"), "Authorization: Bearer «redacted:authorization»");
        assert_eq!(redact("postgres://bob:hunter2@db/x"), "postgres://bob:«redacted:url_password»@db/x");
        assert_eq!(redact("password=hunter2&user=bob"), "password=«redacted:password»&user=bob");
        assert_eq!(redact(r#"{"api_key": "x y z", "n": 1}"#), r#"{"api_key": «redacted:password», "n": 1}"#);
        assert_eq!(redact("DB_PASSWORD='a b' run"), "DB_PASSWORD=«redacted:password» run");
        assert_eq!(redact("密码：秘密123，谢谢"), "密码：«redacted:password»，谢谢");
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "What is the 90th Fibonacci number?",
            "task-based, risk-free, sk-8",
            "the bearer of news",
            "input_tokens: 12",
            "https://example.com/a:b@c",
            "密码学是什么",
            "2880067194370816120",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn redacting_twice_changes_nothing() {
        for text in ["password=hunter2", "Bearer abcdefghijkl", "a://b:c@d"] {
            assert_eq!(redact(&redact(text)), redact(text));
        }
    }

    #[test]
    fn fields_named_as_secrets_lose_their_text_and_grants_keep_their_names() {
        let value = json!({"args": {"Password": "x", "tokens": 3, "list": ["Bearer abcdefghijkl"]},
            "grants": {"secrets": ["OPENAI_API_KEY"]}, "openai_api_key": "plain"});
        assert_eq!(
            redact_value(&value),
            json!({"args": {"Password": "«redacted:field»", "tokens": 3, "list": ["Bearer «redacted:authorization»"]},
                "grants": {"secrets": ["OPENAI_API_KEY"]}, "openai_api_key": "«redacted:field»"})
        );
    }
}
