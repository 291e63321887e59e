//! `fetch` for a worker: grants and addresses are checked at every hop, names resolved once, sizes capped, secrets put
//! in at the last moment.

use super::secrets::Vault;
use super::unpack::unpack;
use super::{Answer, Refusal, short};
use crate::egress::{EgressPolicy, HostTally, Resolver, Tally, resolve, without_dot};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION, USER_AGENT,
};
use reqwest::{Client, Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

const REDIRECTS: usize = 5;
/// What another host than the one that was asked may see: any other header may hold a key.
const FOLLOW: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE];

const CONNECT: Duration = Duration::from_secs(15);

/// How long a server may be silent in the middle of an answer; the run's own limit stands beside it.
const SILENCE: Duration = Duration::from_secs(60);

/// What one run may ask for and move, in all.
const MOST_REQUESTS: u64 = 2000;
const MOST_BYTES: u64 = 512 << 20;

/// These belong to the connection, not to whoever asks.
const OURS: [&str; 12] = [
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
    // What comes back packed is unpacked here, within the limit of size.
    "accept-encoding",
];

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    url: String,
    method: String,
    redirect: String,
    headers: Vec<(String, String)>,
}

/// What one request is held against.
pub(super) struct Rules<'a> {
    pub client: &'a Client,
    pub policy: &'a EgressPolicy,
    pub vault: &'a Vault,
    pub tally: &'a Tally,
    /// Bytes of an answer, packed and unpacked.
    pub most: usize,
}

/// Resolves a name once and lets only public addresses through, so that what is connected to is what was checked.
pub(crate) struct Checked(pub Resolver);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let host = Host::Domain(name.as_str().to_owned());
            let found = resolve(&resolver, &host).await?;
            let found: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(found)
        })
    }
}

pub(super) fn client(resolver: &Resolver) -> Result<Client, String> {
    // Another part of the program may have chosen already; either choice is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .dns_resolver(Arc::new(Checked(Arc::clone(resolver))))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        // Connections are not shared between capabilities.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("jarvis/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| e.to_string())
}

impl Rules<'_> {
    pub(super) async fn fetch(&self, wanted: Wanted, body: Vec<u8>) -> Answer {
        let url = Url::parse(&wanted.url).map_err(|e| Refusal::wrong(format!("fetch: {e}")))?;
        let mut url = without_dot(url);
        let mut method =
            Method::from_bytes(wanted.method.as_bytes()).map_err(|e| Refusal::wrong(format!("fetch: {e}")))?;
        let mut headers = headers(&wanted.headers)?;
        self.vault.only_where_it_may_be(&url, &headers, &body)?;
        let mut body = Some(body).filter(|body| !body.is_empty());
        for hop in 0..=REDIRECTS {
            let tally = self.tally.host(&place(&url));
            let response = self.send(&tally, &method, &url, &headers, body.as_deref()).await?;
            let next = match wanted.redirect.as_str() {
                "manual" => None,
                _ => redirect(response.status(), response.headers(), &url),
            };
            let Some(next) = next else { return self.answer(response, &tally, &url, hop > 0).await };
            if wanted.redirect == "error" {
                let place = short(url.as_str());
                return Err(Refusal::wrong(format!("fetch: {place} redirects, and redirect is \"error\"")));
            }
            let next = without_dot(next?);
            let to_get = response.status() == StatusCode::SEE_OTHER && method != Method::HEAD
                || matches!(response.status(), StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND)
                    && method == Method::POST;
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

    /// One hop.
    async fn send(
        &self,
        tally: &HostTally,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Option<&[u8]>,
    ) -> Result<reqwest::Response, Refusal> {
        let checked = self.policy.check(method.as_str(), url).map_err(Refusal::from);
        let (real, filled) =
            checked.and_then(|()| self.vault.put_in(method.as_str(), url, headers)).inspect_err(|_| tally.denied())?;
        let (requests, sent, received) = self.tally.totals();
        if requests >= MOST_REQUESTS || sent.max(received) >= MOST_BYTES {
            let message = format!(
                "fetch: one run may make {MOST_REQUESTS} requests and move {} MiB each way in total",
                MOST_BYTES >> 20
            );
            return Err(Refusal { name: "RangeError".into(), message });
        }
        tally.requested();
        tally.sent(method.as_str().len() + real.as_str().len() + length(&filled) + body.map_or(0, <[u8]>::len));
        let mut request = self.client.request(method.clone(), real).headers(filled);
        if let Some(bytes) = body {
            request = request.body(bytes.to_vec());
        }
        let response = request.send().await.map_err(|e| failed(url, &e))?;
        tally.received(length(response.headers()));
        Ok(response)
    }

    async fn answer(&self, mut response: reqwest::Response, tally: &HostTally, url: &Url, redirected: bool) -> Answer {
        let most = self.most;
        let too_much =
            || Refusal { name: "RangeError".into(), message: format!("fetch: the answer is longer than {most} bytes") };
        // An answer to HEAD has a length and no body.
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_much());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| failed(url, &e))? {
            tally.received(chunk.len());
            if body.len() + chunk.len() > most {
                return Err(too_much());
            }
            body.extend_from_slice(&chunk);
        }
        let coding =
            response.headers().get(CONTENT_ENCODING).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
        if let Some(coding) = coding {
            body = unpack(&coding, body, most)?.ok_or_else(too_much)?;
        }
        let headers: Vec<(String, String)> = response
            .headers()
            .iter()
            .filter(|(name, _)| **name != CONTENT_ENCODING)
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let head = json!({
            "status": response.status().as_u16(),
            "status_text": response.status().canonical_reason().unwrap_or_default(),
            "url": url.as_str(),
            "redirected": redirected,
            "headers": headers,
        });
        Ok((head, body))
    }
}

/// The host as it is counted and named.
pub(super) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn length(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
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
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(headers)
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
