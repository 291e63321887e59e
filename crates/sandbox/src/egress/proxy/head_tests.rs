//! Requests that two readers could read in two ways, and what they are answered.

use super::*;

fn told(request: &str) -> String {
    match parse(request.as_bytes()) {
        Ok(head) => format!("{:?}", head.target),
        Err(problem) => format!("{} {}", problem.status, problem.what),
    }
}

#[test]
fn tunnels_and_absolute_urls_are_understood() {
    for (line, target) in [
        ("CONNECT a.example:443 HTTP/1.1", "Tunnel { host: Domain(\"a.example\"), port: 443 }"),
        ("CONNECT A.EXAMPLE.:443 HTTP/1.1", "Tunnel { host: Domain(\"a.example\"), port: 443 }"),
        ("CONNECT 2130706433:80 HTTP/1.1", "Tunnel { host: Ipv4(127.0.0.1), port: 80 }"),
        ("CONNECT 0x7f.1:80 HTTP/1.1", "Tunnel { host: Ipv4(127.0.0.1), port: 80 }"),
        ("CONNECT [::ffff:127.0.0.1]:80 HTTP/1.0", "Tunnel { host: Ipv6(::ffff:127.0.0.1), port: 80 }"),
    ] {
        assert_eq!(told(&format!("{line}\r\n\r\n")), target, "{line}");
    }
    let head = parse(b"GET http://a.example.:8080/x?y HTTP/1.1\r\nHost: other\r\nA: b\r\n\r\n").unwrap();
    assert_eq!(head.target, Target::Url(Url::parse("http://a.example:8080/x?y").unwrap()));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let get = "GET http://a.example/ HTTP/1.1\r\n";
    for (request, says) in [
        ("CONNECT a.example HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT a.example: HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT a.example:0 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT a.example:+1 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT a.example:99999 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT u@a.example:443 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT http://a.example:443 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT a%2eexample:443 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT :443 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT ::1:443 HTTP/1.1\r\n\r\n".to_owned(), "400 CONNECT takes"),
        ("CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 4\r\n\r\n".to_owned(), "400 CONNECT has a body"),
        ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "not absolute"),
        ("OPTIONS * HTTP/1.1\r\n\r\n".to_owned(), "not absolute"),
        ("GET https://a.example/ HTTP/1.1\r\n\r\n".to_owned(), "goes through CONNECT"),
        ("GET ftp://a.example/ HTTP/1.1\r\n\r\n".to_owned(), "scheme `ftp`"),
        ("GET a.example HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET http:// HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET http://a.example/ HTTP/2.0\r\n\r\n".to_owned(), "400 the request is not HTTP"),
        ("G ET http://a.example/ HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("\u{16}\u{3}\u{1} hello\r\n\r\n".to_owned(), "400 the request is not HTTP"),
        (format!("{get}Host: a\r\nHost: b\r\n\r\n"), "more than one Host"),
        (format!("{get} folded: x\r\n\r\n"), "400 the request is not HTTP"),
        (format!("{get}A: x\r\n folded\r\n\r\n"), "400 the request is not HTTP"),
        (format!("{get}Content-Length : 4\r\n\r\n"), "400 the request is not HTTP"),
        (format!("{get}A\0: 4\r\n\r\n"), "400 the request is not HTTP"),
        (format!("{get}A: \0\r\n\r\n"), "400 the request is not HTTP"),
        (format!("{get}{}\r\n", "a: b\r\n".repeat(200)), "431 there are more than 100"),
    ] {
        assert!(told(&request).contains(says), "{request:?}: {}", told(&request));
    }
}

#[test]
fn a_body_has_one_length() {
    let of = |headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec())).collect();
        framing(&headers).map_err(|problem| problem.what)
    };
    assert_eq!(of(&[]), Ok(Framing::Length(0)));
    assert_eq!(of(&[("content-length", " 5 ")]), Ok(Framing::Length(5)));
    assert_eq!(of(&[("transfer-encoding", "Chunked")]), Ok(Framing::Chunked));
    for headers in [
        &[("content-length", "5"), ("transfer-encoding", "chunked")][..],
        &[("content-length", "5"), ("content-length", "5")],
        &[("content-length", "5, 5")],
        &[("content-length", "+5")],
        &[("content-length", "-5")],
        &[("content-length", "0x5")],
        &[("content-length", "")],
        &[("content-length", "99999999999999999999")],
        &[("transfer-encoding", "chunked, chunked")],
        &[("transfer-encoding", "gzip, chunked")],
        &[("transfer-encoding", "xchunked")],
        &[("transfer-encoding", "chunked"), ("transfer-encoding", "identity")],
    ] {
        assert!(of(headers).is_err(), "{headers:?}");
    }
}

#[tokio::test]
async fn lines_end_in_both_characters_and_heads_are_bounded() {
    async fn read_of(bytes: &[u8]) -> String {
        match read(&mut &bytes[..]).await {
            Ok(Some((_, rest))) => format!("read, and {} more", rest.len()),
            Ok(None) => "nothing".to_owned(),
            Err(problem) => format!("{} {}", problem.status, problem.what),
        }
    }
    assert_eq!(read_of(b"GET http://a.example/ HTTP/1.1\r\nA: b\r\n\r\nGET").await, "read, and 3 more");
    assert_eq!(read_of(b"").await, "nothing");
    assert!(read_of(b"GET http://a.example/ HTTP/1.1\nA: b\r\n\r\n").await.contains("CR LF"));
    assert!(read_of(b"GET http://a.example/ HTTP/1.1\r\nA: b\rC: d\r\n\r\n").await.contains("CR LF"));
    assert!(
        read_of(b"GET http://a.example/ HTTP/1.1\r\nA: b\n\nGET http://b.example/ HTTP/1.1\r\n\r\n")
            .await
            .contains("CR LF")
    );
    assert!(read_of(b"GET http://a.example/ HT").await.contains("in the middle"));
    let long = format!("GET http://a.example/{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    assert!(read_of(long.as_bytes()).await.starts_with("431"));
    assert!(read_of("x".repeat(100_000).as_bytes()).await.starts_with("431"));
}
