//! Secrets of one run. The code gets a placeholder; the value is put in on the way out, and taken out of what comes back.

use super::{Refusal, short};
use crate::egress::EgressPolicy;
use crate::pool::lock;
use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use url::{Url, form_urlencoded};

/// The shortest value that can be told from ordinary text when it comes back.
pub const SHORTEST_SECRET: usize = 8;

/// What a placeholder begins with. Letters, digits and `_` only, so that no coding of URLs changes it.
const MARK: &str = "JARVIS_SECRET_";

/// A secret as the store holds it.
#[derive(Clone)]
pub struct Secret {
    pub value: String,
    /// Patterns of the hosts that it may be sent to.
    pub hosts: Vec<String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Finds a secret by its name: `None` when there is none, an explanation when the store cannot be read.
pub type Secrets = Arc<dyn Fn(&str) -> Result<Option<Secret>, String> + Send + Sync>;

/// One that this run has asked for.
struct Told {
    name: String,
    placeholder: String,
    value: String,
    bound: EgressPolicy,
}

/// All that this run has asked for.
#[derive(Default)]
pub(super) struct Vault(Mutex<Held>);

#[derive(Default)]
struct Held {
    told: Vec<Arc<Told>>,
    finder: Option<Arc<Finder>>,
}

/// Finds values in every form in which they may come back.
struct Finder {
    all: AhoCorasick,
    /// The name that stands for each pattern.
    names: Vec<String>,
}

impl Vault {
    /// The placeholder of a granted secret; the same one each time.
    pub(super) fn tell(&self, name: &str, secret: Secret) -> Result<String, Refusal> {
        let wrong = |why: String| Refusal::failed(format!("the secret `{}` cannot be used: {why}", short(name)));
        let mut held = lock(&self.0);
        if let Some(told) = held.told.iter().find(|told| told.name == name) {
            return Ok(told.placeholder.clone());
        }
        if secret.value.len() < SHORTEST_SECRET {
            return Err(wrong(format!("its value has fewer than {SHORTEST_SECRET} bytes; set it again")));
        }
        let bound = EgressPolicy::parse(&secret.hosts).map_err(|e| wrong(e.to_string()))?;
        let placeholder = format!("{MARK}{}", random().map_err(|e| wrong(format!("no random bytes: {e}")))?);
        let told = Told { name: name.to_owned(), placeholder: placeholder.clone(), value: secret.value, bound };
        held.told.push(Arc::new(told));
        held.finder = Some(Arc::new(Finder::new(&held.told).map_err(wrong)?));
        Ok(placeholder)
    }

    fn told(&self) -> Vec<Arc<Told>> {
        lock(&self.0).told.clone()
    }

    fn finder(&self) -> Option<Arc<Finder>> {
        lock(&self.0).finder.clone()
    }

    /// Refuses a request with a placeholder where no value is put in; it would be sent as it is and do no harm, and
    /// nobody would know why it does not work.
    pub(super) fn only_where_it_may_be(&self, url: &Url, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        for told in self.told() {
            let mark = told.placeholder.to_ascii_lowercase();
            let holds = |text: &str| text.to_ascii_lowercase().contains(&mark);
            let place = if url.host_str().is_some_and(holds) {
                "the host"
            } else if holds(url.username()) || url.password().is_some_and(holds) {
                "the user or password of the URL"
            } else if holds(url.path()) {
                "the path"
            } else if url.fragment().is_some_and(holds) {
                "the fragment of the URL"
            } else if url.query().is_some_and(|query| pairs(query).any(|(name, _)| holds(name))) {
                "the name of a query parameter"
            } else if headers.keys().any(|name| holds(name.as_str())) {
                "the name of a header"
            } else if find(body, told.placeholder.as_bytes()) {
                "the body"
            } else {
                continue;
            };
            return Err(Refusal::denied(format!(
                "the secret `{}` stands in {place} of the request; it is put in only in the value of a header or of a \
                 query parameter",
                told.name
            )));
        }
        Ok(())
    }

    /// The request with values in place of placeholders: only where the secret is bound to the place it goes to. The
    /// grants were checked before.
    pub(super) fn put_in(&self, method: &str, url: &Url, headers: &HeaderMap) -> Result<(Url, HeaderMap), Refusal> {
        let (mut real, mut filled) = (url.clone(), headers.clone());
        for told in self.told() {
            let query = url.query().is_some_and(|query| query.contains(&told.placeholder));
            let in_headers: Vec<_> =
                headers.iter().filter_map(|(name, value)| told.header(name.as_str(), value)).collect();
            // A server can put a value that it got into a redirect; that is no way to another host.
            let carried = Finder::new(std::slice::from_ref(&told)).is_ok_and(|finder| finder.value_in_url(url));
            if !query && in_headers.is_empty() && !carried {
                continue;
            }
            told.may_go(method, url)?;
            if query {
                let text = real.query().unwrap_or_default().to_owned();
                let value: String = form_urlencoded::byte_serialize(told.value.as_bytes()).collect();
                // Not `+` for a space: some servers read it as what it is.
                real.set_query(Some(&text.replace(&told.placeholder, &value.replace('+', "%20"))));
            }
            if !in_headers.is_empty() {
                filled = fill(&filled, &told)?;
            }
        }
        Ok((real, filled))
    }

    /// Text without the values (in any form) and placeholders of this run's secrets.
    pub(super) fn redact(&self, text: String) -> String {
        let Some(finder) = self.finder() else { return text };
        match finder.replace(text.as_bytes()) {
            // Patterns are whole characters, so what is left is text.
            Some(bytes) => {
                String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
            }
            None => text,
        }
    }

    pub(super) fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let finder = self.finder();
        finder.and_then(|finder| finder.replace(&bytes)).unwrap_or(bytes)
    }

    /// Strings and the names of fields.
    pub(super) fn redact_value(&self, value: &mut Value) {
        if self.finder().is_none() {
            return;
        }
        match value {
            Value::String(text) => *text = self.redact(std::mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (name, mut field) in old {
                    self.redact_value(&mut field);
                    fields.insert(self.redact(name), field);
                }
            }
            // A value of digits alone.
            Value::Number(number) => {
                let text = number.to_string();
                let clean = self.redact(text.clone());
                if clean != text {
                    *value = Value::String(clean);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

impl Told {
    fn may_go(&self, method: &str, url: &Url) -> Result<(), Refusal> {
        let (name, host) = (&self.name, super::fetch::place(url));
        match self.bound.check_secret(method, url) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::denied(format!(
                "the secret `{name}` is not sent to {host} unencrypted; use https, or bind it to `http://{host}` if that \
                 is meant"
            ))),
            Err(_) => Err(Refusal::denied(format!(
                "the secret `{name}` is not bound to {host} (bound to: {}), so it is not sent there; a person binds it \
                 with `jarvis secret set {name} --host {host}`",
                self.bound.patterns().join(", ")
            ))),
        }
    }

    /// The header's value with this secret in it, if its placeholder is there: as it is, or inside `Basic` credentials.
    fn header(&self, name: &str, value: &HeaderValue) -> Option<Vec<u8>> {
        let bytes = value.as_bytes();
        if find(bytes, self.placeholder.as_bytes()) {
            let text = String::from_utf8_lossy(bytes);
            return Some(text.replace(&self.placeholder, &self.value).into_bytes());
        }
        if name != AUTHORIZATION.as_str() {
            return None;
        }
        let text = value.to_str().ok()?;
        let (scheme, coded) = text.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let pair = String::from_utf8(STANDARD.decode(coded.trim()).ok()?).ok()?;
        let whole = pair.contains(&self.placeholder).then(|| pair.replace(&self.placeholder, &self.value))?;
        Some(format!("Basic {}", STANDARD.encode(whole)).into_bytes())
    }

    /// The value in every form in which a server may send it back.
    fn forms(&self) -> Vec<String> {
        let value = &self.value;
        let url: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let component = percent(value, b"-_.!~*'()");
        let strict = percent(value, b"-_.~");
        let path = percent(value, b"-_.~/:@!$&'()*+,;=");
        let json = serde_json::to_string(value).unwrap_or_default();
        let json = json.trim_matches('"').to_owned();
        let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut forms = vec![value.clone(), self.placeholder.clone(), json.replace('/', "\\/"), json, html];
        forms.extend([
            hex.to_uppercase(),
            hex,
            lower(&url),
            url,
            lower(&component),
            component,
            lower(&strict),
            strict,
            lower(&path),
            path,
        ]);
        for skipped in 0..3 {
            let coded = base64_core(value.as_bytes(), skipped);
            forms.push(coded.replace('+', "-").replace('/', "_"));
            forms.push(coded);
        }
        forms.sort();
        forms.dedup();
        forms.retain(|form| form.len() >= SHORTEST_SECRET);
        forms
    }
}

impl Finder {
    fn new(told: &[Arc<Told>]) -> Result<Finder, String> {
        let (mut patterns, mut names) = (Vec::new(), Vec::new());
        for told in told {
            for form in told.forms() {
                patterns.push(form);
                names.push(format!("[secret {}]", told.name));
            }
        }
        let all = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns);
        Ok(Finder { all: all.map_err(|e| e.to_string())?, names })
    }

    fn replace(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.all.is_match(bytes).then(|| self.all.replace_all_bytes(bytes, &self.names))
    }

    /// Whether a value is there, coded in whatever mixture of ways.
    fn value_in_url(&self, url: &Url) -> bool {
        let literal_plus = url.as_str().replace('+', "%2B");
        let parts = form_urlencoded::parse(literal_plus.as_bytes()).chain(url.query_pairs());
        self.value_in(url.as_str())
            || parts.into_iter().any(|(name, value)| self.value_in(&name) || self.value_in(&value))
    }

    /// Whether a value, not its placeholder alone, is there.
    fn value_in(&self, text: &str) -> bool {
        self.all.find_iter(text).any(|found| !text[found.range()].starts_with(MARK))
    }
}

/// The part of the base64 form that is the same whatever stands behind the value, and before it when that many bytes
/// (modulo three) do.
fn base64_core(value: &[u8], before: usize) -> String {
    let coded = STANDARD.encode([&vec![0; before][..], value].concat());
    let start = (before * 8).div_ceil(6);
    let end = (before + value.len()) * 8 / 6;
    coded.get(start..end).unwrap_or_default().to_owned()
}

fn percent(text: &str, kept: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// With the digits of `%2F` in lower case.
fn lower(coded: &str) -> String {
    let mut out = String::with_capacity(coded.len());
    let mut digits = 0;
    for c in coded.chars() {
        out.push(if digits > 0 { c.to_ascii_lowercase() } else { c });
        digits = if c == '%' { 2 } else { usize::saturating_sub(digits, 1) };
    }
    out
}

fn fill(headers: &HeaderMap, told: &Told) -> Result<HeaderMap, Refusal> {
    let mut filled = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let mut new = match told.header(name.as_str(), value) {
            Some(bytes) => HeaderValue::from_bytes(&bytes).map_err(|_| {
                Refusal::failed(format!("the value of the secret `{}` cannot stand in a header", told.name))
            })?,
            None => value.clone(),
        };
        // Kept out of HTTP/2's tables and of debug output.
        new.set_sensitive(true);
        filled.append(name, new);
    }
    Ok(filled)
}

/// `name=value` of a query, not decoded.
fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn find(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
