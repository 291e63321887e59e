//! Who may ask: the host that is named, the page that asks, the token, how often. Closed by default, on loopback too:
//! any page in a browser can reach that.

use crate::app::App;
use crate::error::ApiError;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use jarvis_protocol::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use subtle::ConstantTimeEq;

/// Who may come in.
#[derive(Clone, Default)]
pub struct Access {
    /// Wanted of every request but `/healthz`; none: whoever reaches the address.
    pub token: Option<String>,
    /// Names by which the server may be called, beside addresses and `localhost`.
    pub hosts: Vec<String>,
}

pub(crate) struct Guard {
    access: Access,
    rate: DefaultKeyedRateLimiter<IpAddr>,
    seen: AtomicU64,
}

/// After so many requests, addresses that are quiet are forgotten.
const FORGET_EVERY: u64 = 4096;

impl Guard {
    pub fn new(access: Access, rate: u32) -> Self {
        let second = NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(rate.saturating_mul(4)).unwrap_or(NonZeroU32::MIN);
        let rate = RateLimiter::keyed(Quota::per_second(second).allow_burst(burst));
        Self { access, rate, seen: AtomicU64::new(0) }
    }

    fn not_too_often(&self, peer: IpAddr) -> Result<(), ApiError> {
        if self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(FORGET_EVERY) {
            self.rate.retain_recent();
            self.rate.shrink_to_fit();
        }
        self.rate.check_key(&peer).map_err(|_| {
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorKind::RateLimit, "too many requests from this address")
                .hint("wait a second; `serve.rate` is how many are taken")
        })
    }

    /// A page of another site whose name was made to lead here (DNS rebinding) names itself as the host. A name that
    /// leads elsewhere can be anybody's, an address cannot.
    fn host(&self, headers: &HeaderMap, uri: &Uri) -> Result<String, ApiError> {
        let mut named = headers.get_all(header::HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => host.to_str().ok().map(str::to_owned),
            _ => None,
        };
        let host = host.ok_or_else(|| ApiError::usage("the request names no host, or two"))?;
        if uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(&host)) {
            return Err(ApiError::usage("the request names two hosts"));
        }
        let name = host_name(&host).ok_or_else(|| ApiError::usage("the host of the request cannot be read"))?;
        let known = name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.access.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
        if known {
            return Ok(host);
        }
        let name: String = name.chars().take(100).collect();
        let error = ApiError::new(StatusCode::MISDIRECTED_REQUEST, ErrorKind::Denied, format!("this is not {name}"));
        Err(error.hint("call it by its address, or name it in the settings: serve.hosts"))
    }

    /// Only pages that came from here may ask from a browser; programs send no origin.
    fn origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
        let foreign = || {
            let message = "a page of another site may not use jarvis";
            Err(ApiError::new(StatusCode::FORBIDDEN, ErrorKind::Denied, message))
        };
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let at = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !at.is_some_and(|at| at.eq_ignore_ascii_case(host)) {
                return foreign();
            }
        }
        match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => foreign(),
        }
    }

    fn token(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(token) = &self.access.token else { return Ok(()) };
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let bearer = match (given.next(), given.next()) {
            (Some(value), None) => value.as_bytes().split_at_checked(7),
            _ => None,
        };
        let right = bearer.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.trim_ascii().ct_eq(token.as_bytes()))
        });
        right.then_some(()).ok_or_else(|| {
            ApiError::new(StatusCode::UNAUTHORIZED, ErrorKind::Auth, "the token is missing or wrong")
                .hint("send it as Authorization: Bearer TOKEN")
        })
    }

    fn admit(&self, request: &Request) -> Result<(), ApiError> {
        if let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>() {
            self.not_too_often(peer.ip().to_canonical())?;
        }
        let host = self.host(request.headers(), request.uri())?;
        self.origin(request.headers(), &host)?;
        // Says nothing but that it lives.
        if request.uri().path() == "/healthz" && matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(());
        }
        self.token(request.headers())
    }
}

/// Without its port.
fn host_name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(name, port)| (name, port.strip_prefix(':').unwrap_or(port)))?,
        None => host.split_once(':').unwrap_or((host, "")),
    };
    (!name.is_empty() && port.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

/// Sent with every answer: nothing of it is to be run, framed, kept or guessed at by a browser.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Around every request, those that are refused included.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match app.guard.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn guard() -> Guard {
        Guard::new(Access { token: Some("kept".to_owned()), hosts: vec!["jarvis.lan".to_owned()] }, 10)
    }

    #[test]
    fn only_addresses_and_known_names_are_this_host() {
        let guard = guard();
        let asked = |host: &str| guard.host(&headers(&[("host", host)]), &Uri::from_static("/"));
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:80", "192.168.1.2", "Jarvis.LAN:8"] {
            assert!(asked(host).is_ok(), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "127.0.0.1:80@evil", "", ":80", "[::1"]
        {
            assert!(asked(host).is_err(), "{host}");
        }
        assert!(guard.host(&HeaderMap::new(), &Uri::from_static("/")).is_err());
        let there = Uri::from_static("http://evil.example/");
        assert!(guard.host(&headers(&[("host", "localhost")]), &there).is_err());
    }

    #[test]
    fn only_pages_from_here_may_ask() {
        let guard = guard();
        let asked = |of: &[(&'static str, &str)]| guard.origin(&headers(of), "127.0.0.1:80").is_ok();
        assert!(asked(&[]));
        assert!(asked(&[("origin", "http://127.0.0.1:80"), ("sec-fetch-site", "same-origin")]));
        for origin in ["http://127.0.0.1:81", "http://evil.example", "null", "http://127.0.0.1:80.evil.example", ""] {
            assert!(!asked(&[("origin", origin)]), "{origin}");
        }
        assert!(!asked(&[("sec-fetch-site", "cross-site")]));
        assert!(!asked(&[("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn the_token_is_wanted_whole() {
        let guard = guard();
        let asked = |value: &str| guard.token(&headers(&[("authorization", value)])).is_ok();
        assert!(asked("Bearer kept") && asked("bearer kept"));
        for value in ["Bearer kep", "Bearer kept1", "Bearer ", "Basic kept", "kept", "Bearerkept"] {
            assert!(!asked(value), "{value}");
        }
        assert!(guard.token(&HeaderMap::new()).is_err());
    }
}
