//! Network grants: `host`, `*.host`, `host:port`, each optionally with a method before and a path behind
//! (`GET api.example.com/v1`).

use super::{Refusal, addresses, granted};
use std::net::IpAddr;
use url::{Host, Url};

/// Whether one of the grants covers the request. Addresses that are not public need a grant that names the address
/// and the port.
pub(super) fn check(grants: &[String], method: &str, url: &Url) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::wrong(format!("fetch: the scheme `{}` is not available; use https", url.scheme())));
    }
    let Some(host) = url.host() else { return Err(Refusal::wrong("fetch: the URL has no host")) };
    let patterns: Vec<Pattern<'_>> = grants.iter().filter_map(|grant| Pattern::parse(grant)).collect();
    let mut covering = patterns.iter().filter(|pattern| pattern.covers(method, url, &host)).peekable();
    if covering.peek().is_none() {
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        let why = if ambiguous(url.path()) && patterns.iter().any(|pattern| !pattern.path.is_empty()) {
            "; a grant with a path covers no path with `..`, `;`, a backslash, or an encoded dot, slash or backslash"
        } else {
            ""
        };
        return Err(Refusal::denied(format!(
            "network access to {host}{port} is not granted ({}); declare it in grants.network{why}",
            granted(grants)
        )));
    }
    if public(&host) || covering.any(|pattern| pattern.port.is_some() && pattern.host == host.to_string()) {
        return Ok(());
    }
    Err(Refusal::denied(format!(
        "{host} is not a public address; only a grant that names it with its port (`{host}:{}`) allows it",
        url.port_or_known_default().unwrap_or_default()
    )))
}

/// Whether a server could read the path as another one than it seems to be.
fn ambiguous(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    // `%25…`: encoded twice.
    ["..", ";", "\\", "%2e", "%2f", "%5c", "%252e", "%252f", "%255c"].iter().any(|part| path.contains(part))
}

/// The name stands for the machine itself, as browsers treat it, and is never looked up.
pub(super) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

fn public(host: &Host<&str>) -> bool {
    match host {
        // What the name resolves to is checked when it is resolved.
        Host::Domain(name) => !is_localhost(name),
        Host::Ipv4(address) => addresses::is_public(IpAddr::V4(*address)),
        Host::Ipv6(address) => addresses::is_public(IpAddr::V6(*address)),
    }
}

#[derive(Debug, PartialEq)]
struct Pattern<'g> {
    method: Option<&'g str>,
    scheme: Option<&'g str>,
    /// Lower case; brackets around an IPv6 address as in a URL.
    host: String,
    port: Option<u16>,
    path: &'g str,
}

impl<'g> Pattern<'g> {
    fn parse(grant: &'g str) -> Option<Pattern<'g>> {
        let grant = grant.trim();
        let (method, rest) = match grant.split_once(' ') {
            Some((method, rest)) => (Some(method), rest.trim_start()),
            None => (None, grant),
        };
        let (scheme, rest) = match rest.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, rest),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(at) => (&authority[..bracket + at], Some(authority[bracket + at + 1..].parse().ok()?)),
            None => (authority, None),
        };
        let host = host.to_ascii_lowercase();
        let plain = host.strip_prefix("*.").unwrap_or(&host);
        let sound = host == "*" || (!plain.is_empty() && !plain.contains(['*', '@', '?', '#']));
        // As the URL will spell it.
        let host = match host.starts_with('*') || !sound {
            true => host,
            false => Host::parse(&host).ok()?.to_string(),
        };
        sound.then_some(Pattern { method, scheme, host, port, path: path.trim_end_matches(['*', '/']) })
    }

    fn covers(&self, method: &str, url: &Url, host: &Host<&str>) -> bool {
        let name = host.to_string();
        let host_fits = match self.host.strip_prefix('*') {
            Some("") => true,
            Some(suffix) => matches!(host, Host::Domain(_)) && name.len() > suffix.len() && name.ends_with(suffix),
            None => name == self.host,
        };
        let usual = if url.scheme() == "https" { 443 } else { 80 };
        let port_fits = url.port_or_known_default() == Some(self.port.unwrap_or(usual));
        let path_fits = self.path.is_empty()
            || (!ambiguous(url.path())
                && url.path().strip_prefix(self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        host_fits
            && port_fits
            && path_fits
            && self.method.is_none_or(|m| m.eq_ignore_ascii_case(method))
            && self.scheme.is_none_or(|s| s == url.scheme())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(grants: &[&str], method: &str, url: &str) -> bool {
        let grants: Vec<String> = grants.iter().map(|g| (*g).to_owned()).collect();
        check(&grants, method, &Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn a_grant_covers_its_host_and_nothing_else() {
        assert!(allowed(&["api.example.com"], "GET", "https://api.example.com/x?y"));
        assert!(allowed(&["API.example.com"], "GET", "https://api.EXAMPLE.com/"));
        assert!(allowed(&["https://api.example.com/"], "GET", "https://api.example.com/x"));
        for url in [
            "https://example.com/",
            "https://evil.com/?api.example.com",
            "https://api.example.com.evil.com/",
            "https://xapi.example.com/",
            "https://api.example.com:8443/",
            "https://api.example.com@evil.com/",
            "ftp://api.example.com/",
            "file:///etc/passwd",
        ] {
            assert!(!allowed(&["api.example.com"], "GET", url), "{url}");
        }
        assert!(!allowed(&[], "GET", "https://example.com/"));
        assert!(!allowed(&[""], "GET", "https://example.com/"));
        assert!(!allowed(&["https://api.example.com"], "GET", "http://api.example.com/"));
    }

    #[test]
    fn wildcards_ports_methods_and_paths() {
        assert!(allowed(&["*.example.com"], "GET", "https://a.b.example.com/"));
        assert!(!allowed(&["*.example.com"], "GET", "https://example.com/"));
        assert!(!allowed(&["*.example.com"], "GET", "https://badexample.com/"));
        assert!(!allowed(&["*example.com"], "GET", "https://badexample.com/"));
        assert!(allowed(&["*"], "GET", "https://anything.org/"));
        assert!(allowed(&["example.com:8443"], "GET", "https://example.com:8443/"));
        assert!(!allowed(&["example.com:8443"], "GET", "https://example.com/"));
        assert!(allowed(&["GET example.com"], "GET", "https://example.com/"));
        assert!(!allowed(&["GET example.com"], "POST", "https://example.com/"));
        assert!(allowed(&["example.com/v1"], "GET", "https://example.com/v1/x"));
        assert!(allowed(&["example.com/v1"], "GET", "https://example.com/v1/x%20y/1.5?q=..%2f;"));
        for path in [
            "v10",
            "v1/../admin",
            "v1/%2e%2e/admin",
            "v1/..%2fadm",
            "v1/..%2Fadm",
            "v1/%2e%2e%2fadm",
            "v1/.%2E%2fadm",
            "v1/..;/adm",
            "v1/;x/adm",
            "v1//..%5cadm",
            "v1/..\\adm",
            "v1/x%5Cadm",
            "v1/%252e%252e%252fadm",
        ] {
            let url = format!("https://example.com/{path}");
            assert!(!allowed(&["example.com/v1"], "GET", &url), "{url}");
        }
        assert!(allowed(&["example.com"], "GET", "https://example.com/a%2Fb;c"));
    }

    #[test]
    fn addresses_that_are_not_public_need_the_address_and_the_port() {
        assert!(allowed(&["127.0.0.1:8080"], "GET", "http://127.0.0.1:8080/"));
        assert!(allowed(&["127.0.0.1:8080"], "GET", "http://2130706433:8080/"));
        assert!(allowed(&["[::1]:8080"], "GET", "http://[::1]:8080/"));
        assert!(allowed(&["localhost:3000"], "GET", "http://localhost:3000/"));
        for (grant, url) in [
            ("*", "http://127.0.0.1/"),
            ("127.0.0.1", "http://127.0.0.1/"),
            ("*:8080", "http://127.0.0.1:8080/"),
            ("*:80", "http://169.254.169.254/"),
            ("localhost", "http://localhost/"),
            ("*", "http://localhost/"),
            ("*.localhost:80", "http://x.localhost/"),
            ("127.0.0.1:8080", "http://127.0.0.1:9090/"),
            ("*", "http://0x7f.1/"),
            ("*", "http://[::ffff:7f00:1]/"),
            ("*", "http://[64:ff9b::7f00:1]/"),
        ] {
            assert!(!allowed(&[grant], "GET", url), "{grant} {url}");
        }
    }
}
