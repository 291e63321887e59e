//! Patterns of network grants: `host`, `*.host`, `host:port`, each optionally with a method before, a scheme, and a
//! path behind (`GET https://api.example.com/v1`).

use std::fmt;
use url::{Host, Url};

/// A grant that says nothing, or could be read in two ways.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{pattern}` is not a host pattern: {why}; write `api.example.com`, `*.example.com`, `host:port` or `GET host/path`"
)]
pub struct PatternError {
    pub pattern: String,
    pub why: &'static str,
}

/// What is wrong with a network grant, if anything.
pub fn check_host(grant: &str) -> Result<(), String> {
    Pattern::parse(grant).map(|_| ()).map_err(|e| e.to_string())
}

/// Whether a grant opens a place that may be this machine or its network: what names one host with its port does, whatever
/// address the name turns out to have.
pub fn may_be_private(grant: &str) -> bool {
    Pattern::parse(grant).is_ok_and(|pattern| pattern.opens_private())
}

/// The hosts of a grant, as rules see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    One(String),
    /// Every name with this ending, which begins with a dot; any name where it is empty.
    Ending(String),
}

/// Which hosts a pattern stands for.
#[derive(Debug, Clone, PartialEq)]
enum Names {
    /// Every name, and no address that is not public.
    All,
    /// Names beneath this one, which begins with a dot.
    Beneath(String),
    One(Host<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    method: Option<String>,
    scheme: Option<Scheme>,
    names: Names,
    port: Option<u16>,
    /// As a URL spells it, without a slash at its end; empty for all.
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl Pattern {
    pub fn parse(grant: &str) -> Result<Pattern, PatternError> {
        Self::read(grant.trim()).map_err(|why| PatternError { pattern: grant.chars().take(200).collect(), why })
    }

    fn read(grant: &str) -> Result<Pattern, &'static str> {
        if grant.chars().any(|c| c.is_control() || c == '\\') {
            return Err("it holds a control character or a backslash");
        }
        let (method, rest) = match grant.split_once(' ') {
            Some((method, rest)) => (Some(method_of(method)?), rest.trim_start()),
            None => (None, grant),
        };
        let (scheme, rest) = match rest.split_once("://") {
            Some((scheme, rest)) => (Some(scheme_of(scheme)?), rest),
            None => (None, rest),
        };
        if rest.contains(char::is_whitespace) {
            return Err("it holds a space");
        }
        if rest.contains(['@', '?', '#']) {
            return Err("it holds a user, a query or a fragment");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[bracket..].rfind(':') {
            Some(at) => (&authority[..bracket + at], Some(port_of(&authority[bracket + at + 1..])?)),
            None => (authority, None),
        };
        Ok(Pattern { method, scheme, names: names_of(host)?, port, path: path_of(path)? })
    }

    /// A request of this method to this URL, whose host is `host`.
    pub fn covers(&self, method: &str, url: &Url, host: &Host<String>) -> bool {
        let usual = if url.scheme() == "https" { 443 } else { 80 };
        let path_fits = self.path.is_empty()
            || (!ambiguous(url.path())
                && url.path().strip_prefix(&self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        self.fits(host)
            && url.port_or_known_default() == Some(self.port.unwrap_or(usual))
            && path_fits
            && self.method.as_ref().is_none_or(|m| m.eq_ignore_ascii_case(method))
            && self.scheme.is_none_or(|s| s.name() == url.scheme())
    }

    /// A tunnel, in which neither method nor path can be seen: only a grant that asks for neither covers it.
    pub fn covers_tunnel(&self, host: &Host<String>, port: u16) -> bool {
        self.fits(host) && port == self.port.unwrap_or(443) && !self.looks_inside() && self.scheme != Some(Scheme::Http)
    }

    /// Whether the pattern has parts that only an unencrypted request shows.
    pub fn looks_inside(&self) -> bool {
        self.method.is_some() || !self.path.is_empty()
    }

    /// Whether the pattern, whatever it says beside, is of this host.
    pub fn fits(&self, host: &Host<String>) -> bool {
        match (&self.names, host) {
            (Names::All, _) => true,
            (Names::Beneath(suffix), host) => beneath(suffix, host),
            (Names::One(one), host) => one == host,
        }
    }

    /// Whether it names exactly this place: what an address that is not public needs.
    pub fn names(&self, host: &Host<String>) -> bool {
        self.port.is_some() && matches!(&self.names, Names::One(one) if one == host)
    }

    pub fn reached(&self) -> Reached {
        match &self.names {
            Names::All => Reached::Ending(String::new()),
            Names::Beneath(ending) => Reached::Ending(ending.clone()),
            Names::One(host) => Reached::One(host.to_string().to_lowercase()),
        }
    }

    /// To name a place with its port opens addresses that are not public.
    fn opens_private(&self) -> bool {
        self.port.is_some() && matches!(self.names, Names::One(_))
    }

    pub fn has_path(&self) -> bool {
        !self.path.is_empty()
    }

    /// Whether it says `http://`, so that sending unencrypted is what was meant.
    pub fn says_http(&self) -> bool {
        self.scheme == Some(Scheme::Http)
    }

    /// `*`, `*.com`: whoever likes can have a host there.
    pub fn is_open(&self) -> bool {
        match &self.names {
            Names::All => true,
            Names::Beneath(suffix) => !suffix[1..].contains('.'),
            Names::One(_) => false,
        }
    }
}

impl Pattern {
    /// What both allow; `None` where that is nothing, or cannot be written as one pattern.
    pub fn meet(&self, other: &Pattern) -> Option<Pattern> {
        let (scheme, port) = meet_ports(both(self.scheme, other.scheme)?, self.port, other.port)?;
        let met = Pattern {
            method: both(self.method.clone(), other.method.clone())?,
            scheme,
            names: meet_names(&self.names, &other.names)?,
            port,
            path: meet_paths(&self.path, &other.path)?.to_owned(),
        };
        // Only where each does so itself.
        (!met.opens_private() || (self.opens_private() && other.opens_private())).then_some(met)
    }
}

/// What both ask for, where one that asks for nothing leaves it to the other.
fn both<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<Option<T>> {
    match (one, other) {
        (Some(one), Some(other)) => (one == other).then_some(Some(one)),
        (one, other) => Some(one.or(other)),
    }
}

/// Without a port, a pattern means the usual one of the scheme.
fn meet_ports(scheme: Option<Scheme>, one: Option<u16>, other: Option<u16>) -> Option<(Option<Scheme>, Option<u16>)> {
    match (one, other) {
        (Some(one), Some(other)) => (one == other).then_some((scheme, Some(one))),
        (None, None) => Some((scheme, None)),
        (Some(port), None) | (None, Some(port)) => {
            let usual = match port {
                443 => Scheme::Https,
                80 => Scheme::Http,
                _ => return None,
            };
            both(scheme, Some(usual)).map(|scheme| (scheme, None))
        }
    }
}

fn meet_names(one: &Names, other: &Names) -> Option<Names> {
    match (one, other) {
        (Names::All, names) | (names, Names::All) => Some(names.clone()),
        (Names::Beneath(one), Names::Beneath(other)) => {
            let longer = if one.len() >= other.len() { one } else { other };
            (longer.ends_with(one) && longer.ends_with(other)).then(|| Names::Beneath(longer.clone()))
        }
        (Names::Beneath(suffix), Names::One(host)) | (Names::One(host), Names::Beneath(suffix)) => {
            beneath(suffix, host).then(|| Names::One(host.clone()))
        }
        (Names::One(one), Names::One(other)) => (one == other).then(|| Names::One(one.clone())),
    }
}

fn meet_paths<'p>(one: &'p str, other: &'p str) -> Option<&'p str> {
    let (shorter, longer) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let rest = longer.strip_prefix(shorter)?;
    (shorter.is_empty() || rest.is_empty() || rest.starts_with('/')).then_some(longer)
}

fn beneath(suffix: &str, host: &Host<String>) -> bool {
    matches!(host, Host::Domain(name) if name.len() > suffix.len() && name.ends_with(suffix))
}

impl fmt::Display for Pattern {
    /// As it can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        if let Some(scheme) = self.scheme {
            write!(f, "{}://", scheme.name())?;
        }
        match &self.names {
            Names::All => f.write_str("*")?,
            Names::Beneath(suffix) => write!(f, "*{suffix}")?,
            Names::One(host) => write!(f, "{host}")?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

/// Those of HTTP and of WebDAV; another word before a space is a mistake.
const METHODS: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "QUERY",
    "SEARCH",
    "REPORT",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];

fn method_of(method: &str) -> Result<String, &'static str> {
    let method = method.to_ascii_uppercase();
    if METHODS.contains(&method.as_str()) { Ok(method) } else { Err("what stands before the space is no method") }
}

fn scheme_of(scheme: &str) -> Result<Scheme, &'static str> {
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok(Scheme::Http),
        "https" => Ok(Scheme::Https),
        _ => Err("only http and https can be granted"),
    }
}

fn port_of(port: &str) -> Result<u16, &'static str> {
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse() {
        Ok(number) if digits && number > 0 => Ok(number),
        _ => Err("the port is not a number from 1 to 65535"),
    }
}

fn names_of(host: &str) -> Result<Names, &'static str> {
    if host == "*" {
        return Ok(Names::All);
    }
    if host.contains('%') {
        // The URL parser would decode it; nobody would read it as what it is.
        return Err("the host holds a percent sign");
    }
    if let Some(rest) = host.strip_prefix("*.") {
        return match one(rest)? {
            Host::Domain(name) => Ok(Names::Beneath(format!(".{name}"))),
            Host::Ipv4(_) | Host::Ipv6(_) => Err("an address has no names beneath it"),
        };
    }
    one(host).map(Names::One)
}

/// One host as a URL spells it: lower case, punycode, addresses in their usual form.
fn one(host: &str) -> Result<Host<String>, &'static str> {
    if host.contains('*') {
        return Err("`*` stands only for whole names at the front, as in `*.example.com`");
    }
    match Host::parse(host).map_err(|_| "the host is no name and no address")? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            let sound = !name.is_empty() && name.len() <= 253 && name.split('.').all(|label| !label.is_empty());
            if sound { Ok(Host::Domain(name.to_owned())) } else { Err("the host has an empty part") }
        }
        address => Ok(address),
    }
}

fn path_of(path: &str) -> Result<String, &'static str> {
    let path = path.trim_end_matches(['*', '/']);
    if path.is_empty() {
        return Ok(String::new());
    }
    if path.contains('*') {
        return Err("`*` stands only at the end of a path");
    }
    if ambiguous(path) || path.contains("/./") || path.contains("//") {
        return Err("the path holds `..`, `.`, `//`, `;` or an encoded dot or slash, which no grant covers");
    }
    let url = Url::parse(&format!("http://host{path}")).map_err(|_| "the path is none of a URL")?;
    Ok(url.path().to_owned())
}

/// Whether a server could read the path as another one than it seems to be.
pub fn ambiguous(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    // `%25…`: encoded twice.
    ["..", ";", "\\", "%2e", "%2f", "%5c", "%252e", "%252f", "%255c"].iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_say_nothing_or_two_things_are_errors() {
        for grant in [
            "",
            " ",
            "*.",
            "**",
            "*example.com",
            "a.*.com",
            "*.*.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:80x",
            "example.com:+80",
            "example.com:-1",
            "user@example.com",
            "user:pw@example.com",
            "https://example.com@evil.com",
            "example.com?x=1",
            "example.com/v1?x=1",
            "example.com/v1#x",
            "example.com/v1/../admin",
            "example.com/v1/%2e%2e/x",
            "example.com/v1/%2f",
            "example.com/a*b",
            "example.com//v1",
            "example.com\\v1",
            "example.com/v1;x",
            "ftp://example.com",
            "file:///etc/passwd",
            "ws://example.com",
            "G3T example.com",
            "exa mple.com",
            "GET POST example.com",
            "example.com\n",
            "exam\nple.com",
            "a..b",
            "*.127.0.0.1",
            "*.1.1",
            "[::1",
            "::1",
            "[::1]x:80",
            "fe80::1%eth0",
            "[fe80::1%25eth0]:80",
            "exa%6dple.com",
            "1.2.3.4.5",
            "256.1.1.1",
            "http://",
            "/path",
            ":80",
        ] {
            let outcome = Pattern::parse(grant);
            // A line break at the end is white space.
            assert_eq!(outcome.is_ok(), grant == "example.com\n", "{grant:?}: {outcome:?}");
        }
        assert!(Pattern::parse("x*").unwrap_err().to_string().contains("write `api.example.com`"));
    }

    #[test]
    fn a_pattern_is_spelled_as_a_url_spells_it() {
        let same = |one: &str, other: &str| assert_eq!(Pattern::parse(one), Pattern::parse(other), "{one} {other}");
        same("BÜCHER.example", "xn--bcher-kva.example");
        same("*.bücher.example", "*.xn--bcher-kva.example");
        same("例え.jp", "xn--r8jz45g.jp");
        same("example。com", "example.com");
        same("example.com.", "example.com");
        same("2130706433:80", "127.0.0.1:80");
        same("0x7f.1:80", "127.0.0.1:80");
        same("0177.0.0.1:80", "127.0.0.1:80");
        same("[0:0:0:0:0:0:0:1]:80", "[::1]:80");
        same("get example.com/v1/*", "GET example.com/v1");
        same("HTTPS://Example.com/", "https://example.com");
        same("example.com/ü", "example.com/%C3%BC");
        same(" example.com ", "example.com");
    }

    #[test]
    fn patterns_in_which_anybody_may_have_a_host_are_known() {
        for (grant, open) in
            [("*", true), ("*:8443", true), ("*.com", true), ("*.example.com", false), ("example.com", false)]
        {
            assert_eq!(Pattern::parse(grant).unwrap().is_open(), open, "{grant}");
        }
    }
}
