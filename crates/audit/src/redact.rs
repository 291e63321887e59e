//! Secrets are taken out before anything is written: by the shape of the text, and by the name of a field.

use regex::{Captures, Regex};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Name of the kind, and its shape. The first that matches at a place wins. Where a shape has a group `keep…`, that
/// part is no secret and stays.
const SHAPES: [(&str, &str); 20] = [
    (
        "private_key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    ("private_key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    ("anthropic_key", r"\bsk-ant-[A-Za-z0-9_-]{8,}"),
    ("api_key", r"\b(?:sk-|gsk_|xai-)[A-Za-z0-9_-]{16,}"),
    ("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})"),
    ("aws_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("slack_token", r"\b(?:xox[abceprs](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{8,}"),
    ("slack_token", r"(?P<keep_hook>\bhooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{16,}"),
    ("google_key", r"\b(?:AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})"),
    ("stripe_key", r"\b(?:[rs]k_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9]{16,})"),
    (
        "package_token",
        r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{24,}|dop_v1_[a-f0-9]{40,})",
    ),
    ("sendgrid_key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("bot_token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}"),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
    (
        "authorization",
        r#"(?P<keep_head>(?i:\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|negotiate)\s+))[^\s"',;«]+"#,
    ),
    ("maybe_authorization", r"(?P<keep_auth>(?i:\b(?:bearer|basic)\s+))[A-Za-z0-9._~+/=-]{8,}"),
    ("url_password", r"(?P<keep_url>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@"),
    (
        "password",
        r#"(?P<keep_field>(?i:["']?[a-z0-9_-]*(?:passw(?:or)?d|passphrase|passcode|secret|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|(?:auth|access|refresh|session|security|id|bot)[_-]?token)["']?\s*[=:]\s*))(?:"(?:[^"\\]|\\.)+"|'[^']+'|[^\s"',;&}«]+)"#,
    ),
    (
        "url_key",
        r#"(?P<keep_query>(?i:[?&](?:x-amz-)?(?:key|token|sig|signature|code|auth|pwd|pass)=))[^\s&#«'",]{8,}"#,
    ),
    ("password", r"(?P<keep_zh>(?:密码|口令|密钥|令牌)(?:是|为)?\s*[=:：]\s*)[^\s，。；,;«]+"),
];

/// The groups that stay.
const KEPT: [&str; 7] = ["keep_hook", "keep_head", "keep_auth", "keep_url", "keep_field", "keep_query", "keep_zh"];

static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    let shapes: Vec<String> = SHAPES.iter().enumerate().map(|(i, (_, shape))| format!("(?P<k{i}>{shape})")).collect();
    match Regex::new(&shapes.join("|")) {
        Ok(regex) => regex,
        // A constant; `every_shape_is_redacted` would fail.
        Err(e) => unreachable!("the pattern of secrets: {e}"),
    }
});

/// Names of fields whose content is a secret whatever it looks like, without `_` and `-`.
const SECRET_FIELDS: [&str; 20] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "clientsecret",
    "token",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "idtoken",
    "sessiontoken",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authorization",
    "cookie",
    "setcookie",
];

/// Endings of such names.
const SECRET_ENDINGS: [&str; 5] = ["apikey", "password", "secretkey", "accesskey", "secrettoken"];

/// `text` with each secret replaced by `«redacted:kind»`.
pub fn redact(text: &str) -> String {
    SECRET
        .replace_all(text, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |m| m.as_str());
            let kind = SHAPES
                .iter()
                .enumerate()
                .find(|(i, _)| found.name(&format!("k{i}")).is_some())
                .map_or("secret", |(_, (kind, _))| *kind);
            let keep = KEPT.iter().find_map(|group| found.name(group)).map_or("", |m| m.as_str());
            let kind = match kind {
                // "basic arithmetic" and `sk-learn-contrib-packages` are words.
                "maybe_authorization" | "api_key" if !looks_random(&whole[keep.len()..]) => return whole.to_owned(),
                "password" if is_prose(keep, &whole[keep.len()..]) => return whole.to_owned(),
                "maybe_authorization" => "authorization",
                kind => kind,
            };
            let end = if kind == "url_password" { "@" } else { "" };
            // A quoted value stays quoted, so that JSON stays JSON.
            let quote = whole[keep.len()..].chars().next().filter(|c| kind == "password" && matches!(c, '"' | '\''));
            let quote = quote.map(String::from).unwrap_or_default();
            format!("{keep}{quote}«redacted:{kind}»{quote}{end}")
        })
        .into_owned()
}

/// Words that come after "password:" in a sentence about passwords.
const PROSE: [&str; 24] = [
    "must", "is", "are", "was", "will", "should", "may", "can", "cannot", "needs", "required", "optional", "too",
    "not", "no", "the", "a", "an", "at", "it", "use", "enter", "wrong", "invalid",
];

/// A sentence about a secret, not the secret: `password: must be long`, `a name of a secret: 2 to 64 letters`.
fn is_prose(field: &str, value: &str) -> bool {
    field.ends_with(char::is_whitespace)
        && (PROSE.contains(&value.to_lowercase().as_str()) || value.chars().count() < 4)
}

/// Not a word: digits, a capital inside, or the padding of base64.
fn looks_random(text: &str) -> bool {
    let inside = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    text.bytes().any(|byte| byte.is_ascii_digit()) || text.ends_with('=') || text.as_bytes().windows(2).any(inside)
}

/// Every string of `value` redacted, names of fields too.
pub fn redact_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        Value::Array(list) => list.iter().map(redact_value).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let value = if is_secret_field(key) { blank(value) } else { redact_value(value) };
                    (redact(key), value)
                })
                .collect::<Map<_, _>>(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// All content gone, whatever its form; whether there was any stays visible.
fn blank(value: &Value) -> Value {
    match value {
        Value::String(text) if text.is_empty() => value.clone(),
        Value::String(_) | Value::Number(_) => Value::String("«redacted:field»".to_owned()),
        Value::Array(list) => list.iter().map(blank).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (redact(key), blank(value))).collect::<Map<_, _>>().into(),
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

fn is_secret_field(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace(['-', '_'], "");
    SECRET_FIELDS.contains(&key.as_str()) || SECRET_ENDINGS.iter().any(|ending| key.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sentence_about_secrets_is_left_alone_and_json_stays_json() {
        for text in ["password: must be long", "not a name of a secret: 2 to 64 letters", "Password: required"] {
            assert_eq!(redact(text).to_lowercase(), text.to_lowercase());
        }
        let json = redact(r#"{"password":"hunter22","user":"ada"}"#);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["user"], "ada");
        assert!(!json.contains("hunter22"), "{json}");
        assert!(!redact("password: correct-horse").contains("horse"));
    }

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
            (format!("gsk_{long}"), "api_key"),
            (format!("ASIA{}", "ABCDEFGH12345678"), "aws_key"),
            (format!("xoxb-{long}"), "slack_token"),
            (format!("xapp-1-{long}"), "slack_token"),
            (format!("https://hooks.slack.com/services/T0/B0/{long}"), "slack_token"),
            (format!("AIza{long}"), "google_key"),
            (format!("ya29.{long}"), "google_key"),
            (format!("sk_live_{long}"), "stripe_key"),
            (format!("rk_test_{long}"), "stripe_key"),
            (format!("whsec_{long}"), "stripe_key"),
            (format!("SG.{}.{long}", &long[..22]), "sendgrid_key"),
            (format!("123456789:AA{long}"), "bot_token"),
            (format!("glpat-{long}"), "package_token"),
            (format!("https://x.example/a?n=1&key={long}"), "url_key"),
            (format!("https://x.example/a?X-Amz-Signature={long}"), "url_key"),
            (format!("AccountKey={long}=="), "password"),
            (format!("aws_secret_access_key = {long}"), "password"),
            (format!("AGE-SECRET-KEY-1{}", long.to_uppercase()), "private_key"),
            (format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n{long}"), "private_key"),
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
        assert_eq!(redact("Authorization: Bearer onlyletters"), "Authorization: Bearer «redacted:authorization»");
        assert_eq!(redact("'authorization': 'token abc'"), "'authorization': 'token «redacted:authorization»'");
        assert_eq!(redact("-H basic dXNlcjpwYXNz"), "-H basic «redacted:authorization»");
        assert_eq!(
            redact("https://x.example/?a=b&token=abcdefghij&c=d"),
            "https://x.example/?a=b&token=«redacted:url_key»&c=d"
        );
        assert_eq!(redact("postgres://bob:hunter2@db/x"), "postgres://bob:«redacted:url_password»@db/x");
        assert_eq!(redact("password=hunter2&user=bob"), "password=«redacted:password»&user=bob");
        assert_eq!(redact(r#"{"api_key": "x y z", "n": 1}"#), r#"{"api_key": "«redacted:password»", "n": 1}"#);
        assert_eq!(redact("DB_PASSWORD='a b' run"), "DB_PASSWORD='«redacted:password»' run");
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
            // Hashes, ids and encoded data are no secrets by their look.
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "commit da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "d41d8cd98f00b204e9800998ecf8427e",
            "123e4567-e89b-12d3-a456-426614174000",
            "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
            "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "basic arithmetic operations",
            "the basic functionality, and bearer certificates",
            "pip install sk-learn-contrib-packages",
            "12345678:ABCDEF",
            "10:30:00 AAAA",
            "keyboard=qwertyuiop",
            "https://example.com/?page=2&code=404",
            "https://example.com/a?keyword=abcdefghijkl",
            "密码学: 入门",
            "EyJust words.and dots.here",
            "AKIA is a prefix",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn redacting_twice_changes_nothing() {
        for text in [
            "password=hunter2",
            "Bearer abcdefgh1jkl",
            "a://b:c@d",
            "Authorization: Bearer abcdef123456",
            "https://x.example/?token=abcdefghij",
            "密码：秘密123，谢谢",
            "hooks.slack.com/services/T00000000/B00000000/x",
        ] {
            assert_eq!(redact(&redact(text)), redact(text));
        }
    }

    #[test]
    fn fields_named_as_secrets_lose_their_text_and_grants_keep_their_names() {
        let value = json!({"args": {"Password": "x", "tokens": 3, "list": ["Bearer abcdefgh1jkl"]},
            "grants": {"secrets": ["OPENAI_API_KEY"]}, "openai_api_key": "plain"});
        assert_eq!(
            redact_value(&value),
            json!({"args": {"Password": "«redacted:field»", "tokens": 3, "list": ["Bearer «redacted:authorization»"]},
                "grants": {"secrets": ["OPENAI_API_KEY"]}, "openai_api_key": "«redacted:field»"})
        );
    }

    #[test]
    fn numbers_lists_and_objects_under_such_names_are_gone_too() {
        let value = json!({"pin": 1, "password": 1234, "apiKey": ["a", 2, {"x": "y"}], "accessToken": {"v": "z", "n": null},
            "X-Api-Key": "k", "github_password": "p", "empty": {"token": ""}, "secret": true, "tokens": 5, "secrets": ["NAME"]});
        let gone = "«redacted:field»";
        assert_eq!(
            redact_value(&value),
            json!({"pin": 1, "password": gone, "apiKey": [gone, gone, {"x": gone}], "accessToken": {"v": gone, "n": null},
                "X-Api-Key": gone, "github_password": gone, "empty": {"token": ""}, "secret": true, "tokens": 5,
                "secrets": ["NAME"]})
        );
    }
}
