//! Which requests and tunnels a grant covers, in tables: what is meant, and every disguise of what is not.

use super::*;

fn policy(grants: &[&str]) -> EgressPolicy {
    EgressPolicy::parse(grants).unwrap()
}

fn allowed(grants: &[&str], method: &str, url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| policy(grants).check(method, &url).is_ok())
}

#[test]
fn a_grant_covers_its_host_and_nothing_else() {
    for (grant, url) in [
        ("api.example.com", "https://api.example.com/x?y"),
        ("API.example.com", "https://api.EXAMPLE.com/"),
        ("https://api.example.com/", "https://api.example.com/x"),
        ("api.example.com", "https://api.example.com./"),
        ("api.example.com.", "https://api.example.com/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("xn--bcher-kva.example", "https://BÜCHER.example/"),
        ("*.bücher.example", "https://a.xn--bcher-kva.example/"),
        ("api.example.com", "https://api%2eexample.com/"),
        ("api.example.com", "https://api。example.com/"),
        ("api.example.com", "http:\\\\api.example.com\\x"),
        // A backslash is a slash to every reader of URLs here: what follows is a path.
        ("api.example.com", "https://api.example.com\\@evil.com/"),
        ("api.example.com", "https://api.example.com:443/"),
        ("api.example.com", "http://api.example.com:80/"),
    ] {
        assert!(allowed(&[grant], "GET", url), "{grant} {url}");
    }
    for url in [
        "https://example.com/",
        "https://evil.com/?api.example.com",
        "https://evil.com/#api.example.com",
        "https://api.example.com.evil.com/",
        "https://xapi.example.com/",
        "https://api.example.com:8443/",
        "https://api.example.com@evil.com/",
        "https://user@api.example.com/",
        "https://user:pw@api.example.com/",
        "https://:pw@api.example.com/",
        "https://api.example.com%40evil.com/",
        "https://evil.com\\.api.example.com/",
        "https://evil.com%23.api.example.com/",
        "https://evil.com/@api.example.com",
        "https://api.example.com../",
        "https://api..example.com/",
        "https://.api.example.com/",
        "https://apі.example.com/",
        "ftp://api.example.com/",
        "ws://api.example.com/",
        "file:///etc/passwd",
        "file://api.example.com/etc/passwd",
        "data:text/plain,api.example.com",
        "javascript:api.example.com",
        "blob:https://api.example.com/x",
    ] {
        assert!(!allowed(&["api.example.com"], "GET", url), "{url}");
    }
    assert!(!allowed(&[], "GET", "https://example.com/"));
    assert!(!allowed(&["https://api.example.com"], "GET", "http://api.example.com/"));
    assert!(!allowed(&["http://api.example.com"], "GET", "https://api.example.com/"));
}

#[test]
fn wildcards_ports_methods_and_paths() {
    assert!(allowed(&["*.example.com"], "GET", "https://a.b.example.com/"));
    assert!(allowed(&["*.example.com"], "GET", "https://a.example.com./"));
    assert!(!allowed(&["*.example.com"], "GET", "https://example.com/"));
    assert!(!allowed(&["*.example.com"], "GET", "https://badexample.com/"));
    assert!(!allowed(&["*.example.com"], "GET", "https://.example.com/"));
    assert!(allowed(&["*"], "GET", "https://anything.org/"));
    assert!(!allowed(&["*"], "GET", "https://anything.org:22/"));
    assert!(allowed(&["example.com:8443"], "GET", "https://example.com:8443/"));
    assert!(!allowed(&["example.com:8443"], "GET", "https://example.com/"));
    assert!(allowed(&["GET example.com"], "GET", "https://example.com/"));
    assert!(!allowed(&["GET example.com"], "POST", "https://example.com/"));
    assert!(allowed(&["example.com/v1"], "GET", "https://example.com/v1/x"));
    assert!(allowed(&["example.com/v1"], "GET", "https://example.com/v1"));
    assert!(allowed(&["example.com/ü"], "GET", "https://example.com/ü/x"));
    assert!(allowed(&["example.com/v1"], "GET", "https://example.com/v1/x%20y/1.5?q=..%2f;"));
    for path in [
        "",
        "v10",
        "/v1/x",
        "V1/x",
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
    for (grant, url) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("127.0.0.1:8080", "http://2130706433:8080/"),
        ("127.0.0.1:8080", "http://0x7f000001:8080/"),
        ("127.0.0.1:8080", "http://0177.1:8080/"),
        ("[::1]:8080", "http://[::1]:8080/"),
        ("[::1]:8080", "http://[0:0:0:0:0:0:0:1]:8080/"),
        ("localhost:3000", "http://localhost:3000/"),
        ("localhost:3000", "http://localhost.:3000/"),
        ("*", "http://8.8.8.8/"),
        ("8.8.8.8", "https://134744072/"),
    ] {
        assert!(allowed(&[grant], "GET", url), "{grant} {url}");
    }
    for (grant, url) in [
        ("*", "http://127.0.0.1/"),
        ("127.0.0.1", "http://127.0.0.1/"),
        ("*:8080", "http://127.0.0.1:8080/"),
        ("*:80", "http://169.254.169.254/"),
        ("localhost", "http://localhost/"),
        ("*", "http://localhost/"),
        ("*", "http://localhost./"),
        ("*.localhost:80", "http://x.localhost/"),
        ("127.0.0.1:8080", "http://127.0.0.1:9090/"),
        ("127.0.0.1:8080", "http://localhost:8080/"),
        ("localhost:8080", "http://127.0.0.1:8080/"),
        ("127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080/"),
        ("127.0.0.1:8080", "http://127.0.0.2:8080/"),
        ("*", "http://0x7f.1/"),
        ("*", "http://0177.0.0.1/"),
        ("*", "http://017700000001/"),
        ("*", "http://2130706433/"),
        ("*", "http://127.1/"),
        ("*", "http://0/"),
        ("*", "http://0.0.0.0/"),
        ("*", "http://10.0.0.1/"),
        ("*", "http://0xa000001/"),
        ("*", "http://172.16.0.1/"),
        ("*", "http://192.168.0.1/"),
        ("*", "http://100.64.0.1/"),
        ("*", "http://169.254.169.254/latest/meta-data/"),
        ("*", "http://2852039166/"),
        ("*", "http://0xa9fea9fe/"),
        ("*", "http://0251.0376.0251.0376/"),
        ("*", "http://１２７.0.0.1/"),
        ("*", "http://①②⑦.0.0.1/"),
        ("*", "http://127。0。0。1/"),
        ("*", "http://127.0.0.1./"),
        ("*", "http://168.63.129.16/"),
        ("*", "http://100.100.100.200/"),
        ("*", "http://224.0.0.1/"),
        ("*", "http://255.255.255.255/"),
        ("*", "http://203.0.113.1/"),
        ("*", "http://[::1]/"),
        ("*", "http://[::]/"),
        ("*", "http://[::127.0.0.1]/"),
        ("*", "http://[::ffff:7f00:1]/"),
        ("*", "http://[::ffff:169.254.169.254]/"),
        ("*", "http://[64:ff9b::7f00:1]/"),
        ("*", "http://[2002:7f00:1::]/"),
        ("*", "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/"),
        ("*", "http://[fd00:ec2::254]/"),
        ("*", "http://[fe80::1]/"),
        ("*", "http://[ff02::1]/"),
        ("*", "http://[2001:db8::1]/"),
    ] {
        assert!(!allowed(&[grant], "GET", url), "{grant} {url}");
    }
}

#[test]
fn a_refusal_says_what_why_and_what_to_do() {
    let told =
        |grants: &[&str], url: &str| policy(grants).check("GET", &Url::parse(url).unwrap()).unwrap_err().to_string();
    let text = told(&["api.example.com", "*.中文.example"], "https://evil.com:8443/x");
    assert!(text.contains("evil.com:8443") && text.contains("(granted: api.example.com, *.中文.example)"), "{text}");
    assert!(told(&[], "https://evil.com/").contains("(nothing is)"));
    assert!(told(&["*"], "http://169.254.169.254/").contains("`169.254.169.254:80`"));
    assert!(told(&["a.example/v1"], "https://a.example/v1/..%2fx").contains("covers no path with"));
    assert!(!told(&["b.example/v1"], "https://a.example/v1/..%2fx").contains("covers no path with"));
    assert!(told(&["a.example"], "ftp://a.example/").contains("scheme `ftp`"));
    assert!(told(&["a.example"], "https://u:p@a.example/").contains("Authorization header"));
}

#[test]
fn a_tunnel_needs_a_grant_without_method_and_path_and_its_own_port() {
    let through =
        |grant: &str, host: &str, port| policy(&[grant]).check_tunnel(&Host::parse(host).unwrap(), port).is_ok();
    for (grant, host, port) in [
        ("api.example.com", "api.example.com", 443),
        ("api.example.com", "API.example.com.", 443),
        ("https://api.example.com", "api.example.com", 443),
        ("api.example.com:22", "api.example.com", 22),
        ("*.example.com", "a.example.com", 443),
        ("127.0.0.1:5432", "127.0.0.1", 5432),
        ("localhost:5432", "localhost", 5432),
        ("*", "example.org", 443),
    ] {
        assert!(through(grant, host, port), "{grant} {host}:{port}");
    }
    for (grant, host, port) in [
        ("api.example.com", "api.example.com", 80),
        ("api.example.com", "api.example.com", 22),
        ("api.example.com", "example.com", 443),
        ("http://api.example.com", "api.example.com", 443),
        ("http://api.example.com:80", "api.example.com", 80),
        ("GET api.example.com", "api.example.com", 443),
        ("api.example.com/v1", "api.example.com", 443),
        ("*", "127.0.0.1", 443),
        ("*", "localhost", 443),
        ("*", "169.254.169.254", 443),
        ("*", "[::1]", 443),
        ("*", "[::ffff:10.0.0.1]", 443),
        ("*", "2130706433", 443),
        ("127.0.0.1:5432", "localhost", 5432),
        ("*", "example.org", 25),
    ] {
        assert!(!through(grant, host, port), "{grant} {host}:{port}");
    }
    let told = policy(&["a.example/v1"]).check_tunnel(&Host::parse("a.example").unwrap(), 443).unwrap_err();
    assert!(told.to_string().contains("no encrypted tunnel"), "{told}");
}

#[test]
fn secrets_travel_encrypted_or_to_this_machine_or_where_a_pattern_says_http() {
    let may = |grant: &str, url: &str| policy(&[grant]).check_secret("GET", &Url::parse(url).unwrap());
    assert_eq!(may("a.example", "https://a.example/"), Ok(true));
    assert_eq!(may("a.example", "http://a.example/"), Ok(false));
    assert_eq!(may("http://192.168.1.5:8123", "http://192.168.1.5:8123/"), Ok(true));
    assert_eq!(may("192.168.1.5:8123", "http://192.168.1.5:8123/"), Ok(false));
    assert_eq!(may("127.0.0.1:80", "http://127.0.0.1/"), Ok(true));
    assert_eq!(may("localhost:80", "http://localhost/"), Ok(true));
    assert!(may("a.example", "https://b.example/").is_err());
}

#[test]
fn the_dot_of_a_full_name_is_not_sent() {
    let url = without_dot(Url::parse("https://a.example.:8443/x?y#z").unwrap());
    assert_eq!(url.as_str(), "https://a.example:8443/x?y#z");
}

#[test]
fn one_grant_that_is_none_makes_all_of_them_an_error() {
    let told = EgressPolicy::parse(&["a.example", "b.example:x"]).unwrap_err();
    assert!(told.to_string().contains("`b.example:x`") && told.to_string().contains("port"), "{told}");
}

/// Pieces of URLs and grants thrown together, the same ones each time: nothing panics, and whatever is let through is
/// a host that a grant names, as another reader of URLs would see it too.
#[test]
fn whatever_is_thrown_together_only_public_or_named_places_are_let_through() {
    const PIECES: [&str; 40] = [
        "http://",
        "https://",
        "//",
        "/",
        "\\",
        "@",
        ":",
        ".",
        "..",
        "*",
        "*.",
        "?",
        "#",
        "%2e",
        "%00",
        "%",
        "[",
        "]",
        "::1",
        "::ffff:",
        "127.0.0.1",
        "0x7f",
        "2130706433",
        "169.254.169.254",
        "10.0.0.1",
        "localhost",
        "example.com",
        "a.example",
        "xn--",
        "中文",
        "。",
        "①",
        "8.8.8.8",
        "fe80::1",
        "80",
        "443",
        "0",
        "GET ",
        " ",
        "\t",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % most as u64).unwrap()
    };
    let (mut parsed, mut let_through) = (0, 0);
    for _ in 0..60_000 {
        let mut thrown = |begin: &str| {
            let pieces = 1 + next(6);
            (0..pieces).fold(begin.to_owned(), |text, _| text + PIECES[next(PIECES.len())])
        };
        let (grant, target) = (thrown(""), thrown("http://"));
        let Ok(url) = Url::parse(&target) else { continue };
        let open = policy(&["*", "*:443", "*:0080"]);
        let grants: Vec<EgressPolicy> =
            [Some(open), EgressPolicy::parse(&[&grant]).ok()].into_iter().flatten().collect();
        for (at, policy) in grants.iter().enumerate() {
            parsed += at;
            if policy.check("GET", &url).is_err() {
                continue;
            }
            let_through += 1;
            assert!(url.username().is_empty() && url.password().is_none(), "{target}");
            let host = url.host_str().unwrap().trim_matches(['[', ']', '.']);
            let named = at == 1 && !grant.contains("*");
            match host.parse::<IpAddr>() {
                Ok(address) => assert!(is_public(address) || named, "{grant} let {target} through"),
                Err(_) => assert!(!is_localhost(host) || named, "{grant} let {target} through"),
            }
        }
    }
    assert!(parsed > 500 && let_through > 500, "the pieces make sense now and then: {parsed}, {let_through}");
}
