//! Where values are put in, where never, and in which forms they are taken out again.

use super::*;

const VALUE: &str = "s3cret/va+lue ü\"x&y";

fn vault(hosts: &[&str]) -> (Vault, String) {
    let vault = Vault::default();
    let secret = Secret { value: VALUE.to_owned(), hosts: hosts.iter().map(|h| (*h).to_owned()).collect() };
    let placeholder = vault.tell("TOKEN", secret).unwrap();
    (vault, placeholder)
}

fn header(name: &'static str, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    headers
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn a_placeholder_says_nothing_and_is_another_one_in_each_run() {
    let (first, a) = vault(&["a.example"]);
    let (_, b) = vault(&["a.example"]);
    assert_ne!(a, b);
    assert!(a.len() > 40 && a.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{a}");
    let again = first.tell("TOKEN", Secret { value: "another value".to_owned(), hosts: Vec::new() }).unwrap();
    assert_eq!(a, again);
    assert!(!format!("{:?}", Secret { value: VALUE.to_owned(), hosts: Vec::new() }).contains("s3cret"));
}

#[test]
fn values_are_put_into_headers_and_query_values_of_bound_hosts() {
    let (vault, mark) = vault(&["a.example", "*.b.example/v1"]);
    let (real, filled) =
        vault.put_in("GET", &url("https://a.example/x"), &header("authorization", &format!("Bearer {mark}"))).unwrap();
    assert_eq!(real.as_str(), "https://a.example/x");
    assert_eq!(filled["authorization"].as_bytes(), format!("Bearer {VALUE}").as_bytes());
    assert!(filled["authorization"].is_sensitive());
    let place = url(&format!("https://x.b.example/v1?q={mark}&r=1&s=a{mark}b"));
    let (real, _) = vault.put_in("GET", &place, &HeaderMap::new()).unwrap();
    let pairs: Vec<_> = real.query_pairs().map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
    let expected = [("q", VALUE.to_owned()), ("r", "1".to_owned()), ("s", format!("a{VALUE}b"))];
    assert_eq!(pairs, expected.map(|(n, v)| (n.to_owned(), v)));
    let basic = format!("Basic {}", STANDARD.encode(format!("me:{mark}")));
    let (_, filled) = vault.put_in("GET", &url("https://a.example/"), &header("authorization", &basic)).unwrap();
    let coded = filled["authorization"].to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
    assert_eq!(STANDARD.decode(coded).unwrap(), format!("me:{VALUE}").into_bytes());
}

#[test]
fn values_go_nowhere_else() {
    let (vault, mark) = vault(&["a.example", "GET b.example/v1"]);
    let headers = header("x-key", &mark);
    for (method, place, says) in [
        ("GET", "https://evil.example/", "not bound to evil.example"),
        ("GET", "https://a.example.evil.example/", "not bound"),
        ("GET", "https://a.example:8443/", "not bound"),
        ("GET", "https://sub.a.example/", "not bound"),
        ("GET", "http://a.example/", "unencrypted"),
        ("POST", "https://b.example/v1", "not bound"),
        ("GET", "https://b.example/v2", "not bound"),
        ("GET", "https://b.example/v1/..%2fv2", "not bound"),
    ] {
        let refused = vault.put_in(method, &url(place), &headers).unwrap_err();
        assert_eq!(refused.name, "PermissionError");
        assert!(refused.message.contains(says) && refused.message.contains("TOKEN"), "{place}: {}", refused.message);
        assert!(!refused.message.contains("s3cret"), "{}", refused.message);
    }
    // A request without the secret goes where it is granted.
    let (_, filled) = vault.put_in("GET", &url("https://evil.example/"), &header("x-key", "none")).unwrap();
    assert_eq!(filled["x-key"], "none");
    // What a server put into a redirect is a value that left its place.
    for form in [percent(VALUE, b""), STANDARD.encode(VALUE), "s3cret/va+lue%20%C3%BC%22x%26y".to_owned()] {
        let carried = url(&format!("https://evil.example/?t={form}"));
        assert!(vault.put_in("GET", &carried, &HeaderMap::new()).is_err(), "{form}");
    }
}

#[test]
fn a_placeholder_where_nothing_is_put_in_is_refused() {
    let (vault, mark) = vault(&["a.example"]);
    let none = HeaderMap::new();
    let named = |place: &str, headers: &HeaderMap, body: &[u8]| {
        vault.only_where_it_may_be(&url(place), headers, body).unwrap_err().message
    };
    assert!(named(&format!("https://{mark}.a.example/"), &none, b"").contains("in the host"));
    assert!(named(&format!("https://a.example/{mark}/x"), &none, b"").contains("in the path"));
    assert!(named(&format!("https://a.example/?{mark}=1"), &none, b"").contains("query parameter"));
    assert!(named(&format!("https://a.example/#{mark}"), &none, b"").contains("fragment"));
    assert!(named(&format!("https://me:{mark}@a.example/"), &none, b"").contains("user or password"));
    assert!(named("https://a.example/", &none, format!("{{\"k\":\"{mark}\"}}").as_bytes()).contains("in the body"));
    let mut odd = HeaderMap::new();
    odd.insert(reqwest::header::HeaderName::from_bytes(mark.as_bytes()).unwrap(), HeaderValue::from_static("x"));
    assert!(named("https://a.example/", &odd, b"").contains("name of a header"));
    assert!(
        vault.only_where_it_may_be(&url(&format!("https://a.example/?k={mark}")), &header("x", &mark), b"ok").is_ok()
    );
}

#[test]
fn a_value_is_taken_out_in_every_form() {
    let (vault, mark) = vault(&["a.example"]);
    let mut forms = vec![
        VALUE.to_owned(),
        mark,
        serde_json::to_string(VALUE).unwrap().trim_matches('"').to_owned(),
        percent(VALUE, b""),
        percent(VALUE, b"-_.~"),
        lower(&percent(VALUE, b"-_.~")),
        form_urlencoded::byte_serialize(VALUE.as_bytes()).collect(),
        VALUE.bytes().map(|b| format!("{b:02x}")).collect(),
        VALUE.bytes().map(|b| format!("{b:02X}")).collect(),
        "s3cret/va+lue ü&quot;x&amp;y".to_owned(),
    ];
    for user in ["", "a", "ab", "abc", "me:", "用户:"] {
        forms.push(STANDARD.encode(format!("{user}{VALUE}")));
        forms.push(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{user}{VALUE}:x")));
    }
    for form in forms {
        let clean = vault.redact(format!("前{form}后 {form}"));
        assert!(
            clean.contains("[secret TOKEN]") && clean.starts_with('前') && clean.contains('后'),
            "{form} → {clean}"
        );
        // Two characters at each end of base64 belong to what stands beside the value.
        let core = &form[form.len() / 2 - 3..].chars().take(6).collect::<String>();
        assert!(!clean.contains(core.as_str()), "{form} → {clean}");
    }
    assert_eq!(vault.redact_bytes(b"\xff\xfe plain".to_vec()), b"\xff\xfe plain");
    let bytes = [b"\xff", VALUE.as_bytes(), b"\xfe"].concat();
    assert_eq!(vault.redact_bytes(bytes), b"\xff[secret TOKEN]\xfe");
}

#[test]
fn names_of_fields_and_numbers_are_cleaned_too_and_nothing_else_changes() {
    let vault = Vault::default();
    vault.tell("PIN", Secret { value: "1234567890".to_owned(), hosts: vec!["a.example".to_owned()] }).unwrap();
    let mut value = serde_json::json!({"a1234567890": [1_234_567_890, 42, true, null, "ok"], "z": {"n": 1.5}});
    vault.redact_value(&mut value);
    let expected = serde_json::json!({"a[secret PIN]": ["[secret PIN]", 42, true, null, "ok"], "z": {"n": 1.5}});
    assert_eq!(value, expected);
    let untouched = Vault::default();
    assert_eq!(untouched.redact("1234567890".to_owned()), "1234567890");
}

#[test]
fn a_secret_that_cannot_be_kept_is_not_told() {
    let tell = |value: &str, host: &str| {
        Vault::default().tell("T", Secret { value: value.to_owned(), hosts: vec![host.to_owned()] })
    };
    assert!(tell("short", "a.example").unwrap_err().message.contains("fewer than 8"));
    assert!(tell("long enough", "not a host").unwrap_err().message.contains("not a host pattern"));
}
