//! Decides on a request or a tunnel by the grants of whoever asks. Names are looked up later, and checked again then.

use super::addresses::is_public;
use super::resolve::is_localhost;
use jarvis_policy::{Pattern, PatternError, ambiguous};
use std::net::IpAddr;
use url::{Host, Url};

/// The hosts that one run, or one jail, was granted. Empty: none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EgressPolicy {
    patterns: Vec<Pattern>,
    /// As a person wrote them, for messages.
    text: Vec<String>,
}

/// Why something may not leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressDenied {
    #[error("the scheme `{0}` is not available; use https")]
    Scheme(String),
    #[error("the URL has no host")]
    NoHost,
    #[error("`{0}` is no host name: a part of it is empty")]
    Name(String),
    #[error("the URL holds a user or a password; send it in the Authorization header")]
    User,
    #[error("network access to {place} is not granted ({granted}){why}")]
    NotGranted { place: String, granted: String, why: &'static str },
    #[error("{host} is not a public address; only a grant that names it with its port (`{host}:{port}`) allows it")]
    NotPublic { host: String, port: u16 },
}

const AMBIGUOUS: &str =
    "; a grant with a path covers no path with `..`, `;`, a backslash, or an encoded dot, slash or backslash";
const INSIDE: &str = "; a grant with a method or a path covers no encrypted tunnel, in which neither can be seen";

impl EgressPolicy {
    /// All of the grants, or the first that is none: one that was dropped would say less than what was approved.
    pub fn parse<S: AsRef<str>>(grants: &[S]) -> Result<EgressPolicy, PatternError> {
        Ok(EgressPolicy {
            patterns: grants.iter().map(|grant| Pattern::parse(grant.as_ref())).collect::<Result<_, _>>()?,
            text: grants.iter().map(|grant| grant.as_ref().to_owned()).collect(),
        })
    }

    /// The patterns as they were written.
    pub fn patterns(&self) -> &[String] {
        &self.text
    }

    /// The first pattern, if any, in which anybody may have a host (`*`, `*.com`).
    pub fn open_pattern(&self) -> Option<&str> {
        self.patterns.iter().position(Pattern::is_open).map(|at| self.text[at].as_str())
    }

    /// A request of this method to this URL.
    pub fn check(&self, method: &str, url: &Url) -> Result<(), EgressDenied> {
        self.covering(method, url).map(|_| ())
    }

    /// Whether what must stay secret may be sent there: encrypted, to this machine, or where a pattern says `http://`.
    pub(crate) fn check_secret(&self, method: &str, url: &Url) -> Result<bool, EgressDenied> {
        let covering = self.covering(method, url)?;
        let here = match url.host() {
            Some(Host::Domain(name)) => is_localhost(name),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        Ok(url.scheme() == "https" || here || covering.iter().any(|pattern| pattern.says_http()))
    }

    fn covering(&self, method: &str, url: &Url) -> Result<Vec<&Pattern>, EgressDenied> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressDenied::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressDenied::User);
        }
        let host = plain(url.host().ok_or(EgressDenied::NoHost)?.to_owned())?;
        let port = url.port_or_known_default().ok_or(EgressDenied::NoHost)?;
        let covering: Vec<&Pattern> = self.patterns.iter().filter(|p| p.covers(method, url, &host)).collect();
        if covering.is_empty() {
            let shown = url.port().map_or(String::new(), |port| format!(":{port}"));
            let hidden = ambiguous(url.path()) && self.patterns.iter().any(|p| p.has_path() && p.fits(&host));
            return Err(self.not_granted(format!("{host}{shown}"), if hidden { AMBIGUOUS } else { "" }));
        }
        named_or_public(&covering, &host, port)?;
        Ok(covering)
    }

    /// A tunnel to this place, as `CONNECT` asks for it.
    pub fn check_tunnel(&self, host: &Host<String>, port: u16) -> Result<(), EgressDenied> {
        let host = plain(host.clone())?;
        let covering: Vec<&Pattern> = self.patterns.iter().filter(|p| p.covers_tunnel(&host, port)).collect();
        if covering.is_empty() {
            let inside = self.patterns.iter().any(|p| p.looks_inside() && p.fits(&host));
            return Err(self.not_granted(format!("{host}:{port}"), if inside { INSIDE } else { "" }));
        }
        named_or_public(&covering, &host, port)
    }

    fn not_granted(&self, place: String, why: &'static str) -> EgressDenied {
        let granted =
            if self.text.is_empty() { "nothing is".to_owned() } else { format!("granted: {}", self.text.join(", ")) };
        EgressDenied::NotGranted { place, granted, why }
    }
}

fn named_or_public(covering: &[&Pattern], host: &Host<String>, port: u16) -> Result<(), EgressDenied> {
    let public = match host {
        // What the name resolves to is checked when it is resolved.
        Host::Domain(name) => !is_localhost(name),
        Host::Ipv4(address) => is_public(IpAddr::V4(*address)),
        Host::Ipv6(address) => is_public(IpAddr::V6(*address)),
    };
    if public || covering.iter().any(|pattern| pattern.names(host)) {
        return Ok(());
    }
    Err(EgressDenied::NotPublic { host: host.to_string(), port })
}

/// Without the dot that ends a full name: `example.com.` is the same host.
fn plain(host: Host<String>) -> Result<Host<String>, EgressDenied> {
    match host {
        Host::Domain(name) => {
            let short = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
            if short.split('.').any(str::is_empty) {
                return Err(EgressDenied::Name(name));
            }
            Ok(Host::Domain(short))
        }
        address => Ok(address),
    }
}

/// The URL as it is sent, so that the name in `Host` and in TLS is the one that was checked.
pub(crate) fn without_dot(mut url: Url) -> Url {
    if let Some(Host::Domain(name)) = url.host()
        && let Some(short) = name.strip_suffix('.')
    {
        let short = short.to_owned();
        // A name without its dot is a name still; were it not, the URL stays and is checked as it is.
        let _ = url.set_host(Some(&short));
    }
    url
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
