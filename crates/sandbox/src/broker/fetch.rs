//! `fetch` for a worker: grants and addresses are checked at every hop, names resolved once, sizes capped.

use super::{Answer, Refusal, addresses, hosts, short};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use reqwest::{Client, Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

const REDIRECTS: usize = 5;
/// What another host than the one that was asked may see: any other header may hold a key.
const FOLLOW: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE];

const CONNECT: Duration = Duration::from_secs(15);

/// These belong to the connection, not to whoever asks.
const OURS: [&str; 11] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    url: String,
    method: String,
    redirect: String,
    headers: Vec<(String, String)>,
}

/// Resolves a name once and lets only public addresses through, so that what is connected to is what was checked.
struct Checked;

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let name = name.as_str();
            if hosts::is_localhost(name) {
                // Only a grant that names it with its port leads here.
                let own: Addrs = Box::new(std::iter::once(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
                return Ok(own);
            }
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let public: Vec<SocketAddr> = found.iter().copied().filter(|a| addresses::is_public(a.ip())).collect();
            if public.is_empty() {
                return Err(format!("{name} resolves to no public address").into());
            }
            let public: Addrs = Box::new(public.into_iter());
            Ok(public)
        })
    }
}

pub(super) fn client() -> Result<Client, String> {
    // Another part of the program may have chosen already; either choice is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .dns_resolver(Arc::new(Checked))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        // Connections are not shared between capabilities.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("jarvis/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| e.to_string())
}

pub(super) async fn fetch(client: &Client, grants: &[String], wanted: Wanted, body: Vec<u8>, most: usize) -> Answer {
    let mut url = Url::parse(&wanted.url).map_err(|e| Refusal::wrong(format!("fetch: {e}")))?;
    let mut method = Method::from_bytes(wanted.method.as_bytes()).map_err(|e| Refusal::wrong(format!("fetch: {e}")))?;
    let mut headers = headers(&wanted.headers)?;
    let mut body = Some(body).filter(|body| !body.is_empty());
    for hop in 0..=REDIRECTS {
        hosts::check(grants, method.as_str(), &url)?;
        let mut request = client.request(method.clone(), url.clone()).headers(headers.clone());
        if let Some(bytes) = &body {
            request = request.body(bytes.clone());
        }
        let response = request.send().await.map_err(|e| failed(&url, &e))?;
        let next = match wanted.redirect.as_str() {
            "manual" => None,
            _ => redirect(response.status(), response.headers(), &url),
        };
        let Some(next) = next else { return answer(response, hop > 0, most).await };
        if wanted.redirect == "error" {
            return Err(Refusal::wrong(format!("fetch: {} redirects, and redirect is \"error\"", short(url.as_str()))));
        }
        let next = next?;
        let to_get = response.status() == StatusCode::SEE_OTHER && method != Method::HEAD
            || matches!(response.status(), StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND) && method == Method::POST;
        if to_get {
            method = Method::GET;
            body = None;
            headers.remove(CONTENT_TYPE);
        }
        if next.origin() != url.origin() {
            headers = headers
                .iter()
                .filter(|(name, _)| FOLLOW.contains(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
        }
        url = next;
    }
    Err(Refusal::wrong(format!("fetch: more than {REDIRECTS} redirects")))
}

/// Where to go on, if the answer is a redirect.
fn redirect(status: StatusCode, headers: &HeaderMap, from: &Url) -> Option<Result<Url, Refusal>> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(LOCATION)?;
    let target = std::str::from_utf8(location.as_bytes()).ok().and_then(|text| from.join(text).ok());
    Some(target.ok_or_else(|| Refusal::wrong("fetch: a redirect to something that is no URL")))
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            continue;
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| Refusal::wrong(format!("fetch: {e}")))?;
        let value = HeaderValue::from_str(value)
            .or_else(|_| HeaderValue::from_bytes(value.as_bytes()))
            .map_err(|e| Refusal::wrong(format!("fetch: header {name}: {e}")))?;
        headers.append(name, value);
    }
    Ok(headers)
}

async fn answer(mut response: reqwest::Response, redirected: bool, most: usize) -> Answer {
    let too_much = || Refusal { name: "RangeError", message: format!("fetch: the answer is longer than {most} bytes") };
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(too_much());
    }
    let headers: Vec<(String, String)> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let head = json!({
        "status": response.status().as_u16(),
        "status_text": response.status().canonical_reason().unwrap_or_default(),
        "url": response.url().as_str(),
        "redirected": redirected,
        "headers": headers,
    });
    let mut body = Vec::new();
    let url = response.url().clone();
    while let Some(chunk) = response.chunk().await.map_err(|e| failed(&url, &e))? {
        if body.len() + chunk.len() > most {
            return Err(too_much());
        }
        body.extend_from_slice(&chunk);
    }
    Ok((head, body))
}

/// With the whole chain of causes: the last one says what happened.
fn failed(url: &Url, error: &reqwest::Error) -> Refusal {
    let mut causes = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.dedup();
    let host = url.host_str().unwrap_or_default();
    let why = if causes.is_empty() { error.to_string() } else { causes.join(": ") };
    Refusal::wrong(format!("fetch failed: {host}: {why}"))
}
