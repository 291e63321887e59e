use super::*;
use crate::{Approved, Decision, Policy, decide};
use jarvis_protocol::Capability;
use serde_json::json;
use url::{Host, Url};

fn meet(one: &str, other: &str) -> Vec<String> {
    hosts(&[one.to_owned()], &[other.to_owned()])
}

#[test]
fn hosts_are_narrowed_to_what_both_name() {
    for (one, other, met) in [
        ("*.example.com", "api.example.com", "api.example.com"),
        ("*", "*.example.com", "*.example.com"),
        ("*.example.com", "*.a.example.com", "*.a.example.com"),
        ("api.example.com", "GET https://api.example.com/v1", "GET https://api.example.com/v1"),
        ("GET api.example.com", "api.example.com/v1/x", "GET api.example.com/v1/x"),
        ("api.example.com/v1", "api.example.com/v1/x", "api.example.com/v1/x"),
        ("api.example.com:8443", "api.example.com:8443", "api.example.com:8443"),
        ("127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:8080", "[0:0:0:0:0:0:0:1]:8080", "[::1]:8080"),
        ("api.example.com", "api.example.com:443", "https://api.example.com"),
        ("api.example.com", "api.example.com:80", "http://api.example.com"),
        ("BÜCHER.example", "bücher.example", "xn--bcher-kva.example"),
    ] {
        assert_eq!((meet(one, other), meet(other, one)), (vec![met.to_owned()], vec![met.to_owned()]), "{one} {other}");
    }
    for (one, other) in [
        ("api.example.com", "other.example.com"),
        ("*.example.com", "example.com"),
        ("*.example.com", "evilexample.com"),
        ("*.example.com", "127.0.0.1"),
        ("api.example.com:8443", "api.example.com"),
        ("https://api.example.com", "http://api.example.com"),
        ("https://api.example.com", "api.example.com:80"),
        ("GET api.example.com", "POST api.example.com"),
        ("api.example.com/v1", "api.example.com/v10"),
        // The caller may reach every public host; that names no place of the machine or its network.
        ("*:8443", "127.0.0.1:8443"),
        ("*.corp.example:8443", "db.corp.example:8443"),
        ("not a host", "not a host"),
    ] {
        assert!(meet(one, other).is_empty() && meet(other, one).is_empty(), "{one} {other}: {:?}", meet(one, other));
    }
}

/// Every pattern that can be put together of these parts, every pair of them, and every request.
#[test]
fn what_both_allow_is_never_more_than_either_allows() {
    let mut patterns = Vec::new();
    for method in ["", "GET "] {
        for scheme in ["", "http://", "https://"] {
            for host in ["*", "*.b.example", "*.a.b.example", "a.b.example", "x.a.b.example", "127.0.0.1", "[::1]"] {
                for port in ["", ":80", ":443", ":8443"] {
                    for path in ["", "/v1", "/v1/x"] {
                        let text = format!("{method}{scheme}{host}{port}{path}");
                        let pattern = Pattern::parse(&text).unwrap();
                        assert_eq!(Pattern::parse(&pattern.to_string()).unwrap(), pattern, "{text}");
                        patterns.push(pattern);
                    }
                }
            }
        }
    }
    let hosts: Vec<Host<String>> = ["b.example", "a.b.example", "x.a.b.example", "y.b.example", "127.0.0.1", "[::1]"]
        .iter()
        .map(|host| Host::parse(host).unwrap())
        .collect();
    let mut requests = Vec::new();
    for host in &hosts {
        for scheme in ["http", "https"] {
            for port in ["", ":80", ":443", ":8443", ":9"] {
                for path in ["/", "/v1", "/v1/x/y", "/v10"] {
                    let url = Url::parse(&format!("{scheme}://{host}{port}{path}")).unwrap();
                    requests.push((url, host.clone()));
                }
            }
        }
    }
    let allowed = |p: &Pattern| -> Vec<bool> {
        let mut bits = Vec::new();
        for (url, host) in &requests {
            bits.extend(["GET", "POST"].map(|method| p.covers(method, url, host)));
        }
        for host in &hosts {
            bits.push(p.names(host));
            bits.extend([80, 443, 8443].map(|port| p.covers_tunnel(host, port)));
        }
        bits
    };
    let all: Vec<Vec<bool>> = patterns.iter().map(allowed).collect();
    let mut met_count = 0;
    for (one, bits) in patterns.iter().zip(&all) {
        for (other, other_bits) in patterns.iter().zip(&all) {
            let Some(met) = one.meet(other) else { continue };
            met_count += 1;
            assert_eq!(other.meet(one).as_ref(), Some(&met), "{one} and {other}: not the same both ways");
            for (at, bit) in allowed(&met).into_iter().enumerate() {
                assert!(!bit || (bits[at] && other_bits[at]), "{one} and {other} gave {met}, which allows more");
            }
        }
        assert_eq!(one.meet(one).as_ref(), Some(one));
    }
    assert!(met_count > 10_000, "{met_count}");
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

#[test]
fn paths_are_narrowed_by_whole_parts_and_secrets_by_name() {
    let read = |one: &[&str], other: &[&str]| {
        let grants = |items: &[&str]| Grants { read: list(items), ..Grants::default() };
        within(&grants(one), &grants(other), Path::new("/srv")).read
    };
    assert_eq!(read(&["/srv/data"], &["/srv/data/a", "/srv/database", "/srv"]), ["/srv/data/a", "/srv/data"]);
    assert_eq!(read(&["notes"], &["/srv/notes/today", "./notes//x"]), ["/srv/notes/today", "/srv/notes/x"]);
    assert_eq!(read(&["."], &["notes", "/etc"]), ["/srv/notes"]);
    assert_eq!(read(&["笔记"], &["笔记/今天"]), ["/srv/笔记/今天"]);
    for climbing in ["../x", "/srv/data/../../etc", "notes/.."] {
        assert!(read(&[climbing], &["/"]).is_empty() && read(&["/"], &[climbing]).is_empty(), "{climbing}");
    }
    let caller = Grants { read: list(&["/a"]), secrets: list(&["one", "two"]), ..Grants::default() };
    let callee = Grants { write: list(&["/a"]), secrets: list(&["two", "Two", "three"]), ..Grants::default() };
    let both = within(&caller, &callee, Path::new("/srv"));
    assert_eq!(both, Grants { secrets: list(&["two"]), ..Grants::default() });
}

#[test]
fn nothing_met_with_anything_is_nothing() {
    let all = Grants {
        network: list(&["*", "127.0.0.1:80"]),
        read: list(&["/"]),
        write: list(&["/"]),
        secrets: list(&["key"]),
    };
    for (one, other) in [(&all, &Grants::default()), (&Grants::default(), &all)] {
        assert!(within(one, other, Path::new("/srv")).is_empty());
    }
}

#[test]
fn a_version_is_approved_within_its_caller_for_just_that() {
    let grants = json!({"network": ["api.example.com"], "read": ["/srv/data"]});
    let capability: Capability =
        serde_json::from_value(json!({"name": "inner", "capability": "Reads.", "grants": grants})).unwrap();
    let caller = Grants { network: list(&["*.example.com"]), ..Grants::default() };
    let approved = Approved::with_version(&capability).within(&caller, Path::new("/srv"));
    let plan = |grants: Grants| jarvis_protocol::ExecPlan {
        subject: jarvis_protocol::Subject::Candidate { name: capability.name.clone(), digest: String::new() },
        runtime: capability.runtime,
        code: String::new(),
        args: json!({}),
        grants,
        limits: capability.limits,
        dependencies: Vec::new(),
        fixed: None,
    };
    let narrowed = Grants { network: list(&["api.example.com"]), ..Grants::default() };
    assert!(matches!(decide(&Policy::closed(), plan(narrowed), &approved), Decision::Permit(_)));
    assert!(matches!(decide(&Policy::closed(), plan(capability.grants.clone()), &approved), Decision::Deny(_)));
}
