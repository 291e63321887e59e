//! The proxy, attacked over raw sockets as a jailed process would.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use jarvis_protocol::Egress;
use jarvis_sandbox::{EgressPolicy, EgressProxy, ProxyLimits, ProxyListener, Resolver};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

struct Proxy {
    address: SocketAddr,
    proxy: EgressProxy,
    cancel: CancellationToken,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn start(grants: &[&str], limits: ProxyLimits, resolver: Option<Resolver>) -> Proxy {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let policy = EgressPolicy::parse(grants).unwrap();
    let proxy = match resolver {
        Some(resolver) => EgressProxy::with_resolver(policy, limits, resolver),
        None => EgressProxy::new(policy, limits),
    };
    let cancel = CancellationToken::new();
    let (serving, token) = (proxy.clone(), cancel.clone());
    tokio::spawn(async move { serving.serve(ProxyListener::Tcp(listener), &token).await });
    Proxy { address, proxy, cancel }
}

fn proxy(grants: &[&str]) -> Proxy {
    start(grants, ProxyLimits::STANDARD, None)
}

impl Proxy {
    /// Sends bytes, and all that comes back until the end.
    async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(bytes.as_ref()).await.unwrap();
        rest(&mut socket).await
    }

    fn of(&self, host: &str) -> Egress {
        self.proxy.egress().into_iter().find(|e| e.host == host).unwrap_or_default()
    }
}

async fn rest(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match tokio::time::timeout(Duration::from_secs(10), socket.read(&mut buffer)).await.unwrap() {
            Ok(0) | Err(_) => return String::from_utf8_lossy(&all).into_owned(),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
        }
    }
}

async fn connected(proxy: &Proxy, place: &str) -> TcpStream {
    let mut socket = TcpStream::connect(proxy.address).await.unwrap();
    socket.write_all(format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    socket
}

/// A server that keeps what it was sent and answers each connection with `answer` once it has heard `until`.
async fn server(until: &'static str, answer: &'static [u8]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let told = Arc::clone(&told);
            tokio::spawn(async move {
                let mut all = Vec::new();
                let mut buffer = vec![0; 1 << 16];
                let mut answered = false;
                while let Ok(n) = socket.read(&mut buffer).await {
                    all.extend_from_slice(&buffer[..n]);
                    let text = String::from_utf8_lossy(&all).into_owned();
                    if !answered && text.contains(until) {
                        answered = true;
                        let _ = socket.write_all(answer).await;
                        let _ = socket.shutdown().await;
                    }
                    if n == 0 {
                        break;
                    }
                }
                told.lock().unwrap().push(String::from_utf8_lossy(&all).into_owned());
            });
        }
    });
    (place, seen)
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: x\r\nX-Own: y\r\n\r\nhello";

/// What the server was sent, once it has been sent something.
async fn heard(seen: &Arc<Mutex<Vec<String>>>) -> String {
    for _ in 0..100 {
        if let Some(text) = seen.lock().unwrap().last() {
            return text.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server was sent nothing")
}

/// A ClientHello of a real TLS library for this name.
fn hello(name: &str) -> Vec<u8> {
    // Another test may have chosen already; either choice is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config =
        rustls::ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn a_request_to_a_granted_host_goes_through_and_is_counted() {
    let (place, seen) = server("\r\n\r\n", OK).await;
    let proxy = proxy(&[&place]);
    let request = format!(
        "GET http://{place}/a%20b?c=d HTTP/1.1\r\nHost: evil.example\r\nX-Mine: 1\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 2\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: websocket\r\n\r\n"
    );
    let back = proxy.say(request).await;
    assert!(back.starts_with("HTTP/1.1 200 OK\r\n") && back.ends_with("\r\n\r\nhello"), "{back}");
    assert!(back.contains("connection: close") && back.contains("x-own: y") && !back.contains("keep-alive"), "{back}");
    let sent = heard(&seen).await.to_lowercase();
    assert!(sent.starts_with("get /a%20b?c=d http/1.1\r\n") && sent.contains(&format!("host: {place}\r\n")), "{sent}");
    for gone in ["evil", "x-hop", "proxy-", "te:", "upgrade", "keep-alive"] {
        assert!(!sent.contains(gone), "{gone}: {sent}");
    }
    assert!(sent.contains("x-mine: 1"), "{sent}");
    let count = proxy.of(&place);
    assert!(
        count.requests == 1 && count.denied == 0 && count.sent_bytes > 50 && count.received_bytes > 50,
        "{count:?}"
    );
}

#[tokio::test]
async fn what_is_not_granted_is_refused_with_what_why_and_what_to_do() {
    let (place, seen) = server("\r\n\r\n", OK).await;
    let proxy = proxy(&["a.example", "*", "b.example/v1"]);
    for (line, status, says) in [
        (format!("CONNECT {place}"), 403, "is not granted"),
        (format!("GET http://{place}/"), 403, "is not granted"),
        ("CONNECT localhost:443".to_owned(), 403, "not a public address"),
        ("CONNECT 127.0.0.1:443".to_owned(), 403, "not a public address"),
        ("CONNECT 2130706433:443".to_owned(), 403, "127.0.0.1 is not a public address"),
        ("CONNECT 0x7f.0.0.1:443".to_owned(), 403, "not a public address"),
        ("CONNECT [::1]:443".to_owned(), 403, "not a public address"),
        ("CONNECT [::ffff:169.254.169.254]:443".to_owned(), 403, "not a public address"),
        ("CONNECT 169.254.169.254:443".to_owned(), 403, "not a public address"),
        ("CONNECT 10.0.0.1:443".to_owned(), 403, "not a public address"),
        ("CONNECT a.example:22".to_owned(), 403, "is not granted"),
        ("CONNECT a.example:80".to_owned(), 403, "is not granted"),
        ("GET http://169.254.169.254/latest/meta-data/".to_owned(), 403, "not a public address"),
        ("GET http://2852039166/".to_owned(), 403, "not a public address"),
        ("GET http://[64:ff9b::a9fe:a9fe]/".to_owned(), 403, "not a public address"),
        ("GET http://localhost./".to_owned(), 403, "not a public address"),
        ("GET http://user:pw@a.example/".to_owned(), 400, "Authorization header"),
        ("GET https://a.example/".to_owned(), 400, "goes through CONNECT"),
        ("GET /".to_owned(), 400, "not absolute"),
        ("CONNECT a.example".to_owned(), 400, "CONNECT takes"),
        ("CONNECT u@a.example:443".to_owned(), 400, "CONNECT takes"),
    ] {
        let back = proxy.say(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {back}");
        assert!(back.contains(says) && back.contains("what to do: "), "{line}: {back}");
    }
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(proxy.of("169.254.169.254").denied, 3, "{:?}", proxy.proxy.egress());
    assert_eq!(proxy.of("169.254.169.254").requests, 0);
}

#[tokio::test]
async fn the_reason_stands_in_the_status_line_of_a_failed_connect() {
    let back = proxy(&[]).say("CONNECT 中文.example:443 HTTP/1.1\r\n\r\n").await;
    let line = back.lines().next().unwrap();
    assert!(line.starts_with("HTTP/1.1 4") && line.is_ascii(), "{line}");
    let back = proxy(&[]).say("CONNECT evil.example:443 HTTP/1.1\r\n\r\n").await;
    let line = back.lines().next().unwrap();
    assert_eq!(line, "HTTP/1.1 403 Forbidden: jarvis: network access to evil.example:443 is not granted (nothing is)");
}

#[tokio::test]
async fn requests_cannot_be_smuggled_behind_others() {
    let (place, seen) = server("\r\n\r\n", OK).await;
    let proxy = proxy(&[&format!("GET {place}/open"), &format!("POST {place}/open")]);
    let second = format!("GET http://{place}/secret HTTP/1.1\r\nHost: {place}\r\n\r\n");
    for first in [
        format!(
            "POST http://{place}/open HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        format!("POST http://{place}/open HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 0\r\n\r\n"),
        format!("POST http://{place}/open HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        format!("POST http://{place}/open HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("POST http://{place}/open HTTP/1.1\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("GET http://{place}/open HTTP/1.1\n\n"),
        format!("GET http://{place}/open\r\n\r\n"),
    ] {
        let back = proxy.say(format!("{first}{second}")).await;
        assert!(back.starts_with("HTTP/1.1 400 "), "{first:?}: {back}");
    }
    assert!(seen.lock().unwrap().is_empty());
    // Sound requests, with another behind each: the first alone is passed on.
    for first in [
        format!("GET http://{place}/open HTTP/1.1\r\n\r\n"),
        format!("POST http://{place}/open HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"),
        format!(
            "POST http://{place}/open HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;ext=1\r\nab\r\n0\r\nTrailer: x\r\n\r\n"
        ),
    ] {
        let back = proxy.say(format!("{first}{second}")).await;
        assert_eq!(back.matches("HTTP/1.1 ").count(), 1, "{back}");
        let sent = heard(&seen).await;
        assert!(!sent.contains("/secret") && !sent.contains("Trailer"), "{sent}");
        seen.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn a_chunked_body_is_written_anew_and_a_broken_one_is_not_passed_off_as_whole() {
    let (place, seen) = server("0\r\n\r\n", OK).await;
    let proxy = proxy(&[&place]);
    let head = format!("POST http://{place}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    let back = proxy.say(format!("{head}00003;x\r\n水\r\n2\r\nab\r\n0\r\nA: b\r\n\r\n")).await;
    assert!(back.ends_with("hello"), "{back}");
    let sent = heard(&seen).await;
    assert!(sent.ends_with("\r\n\r\n3\r\n水\r\n2\r\nab\r\n0\r\n\r\n"), "{sent:?}");
    seen.lock().unwrap().clear();
    for broken in
        ["zz\r\n", "-1\r\n", "2\r\nabc\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", &"1".repeat(9000), "2 2\r\nab\r\n"]
    {
        let back = proxy.say(format!("{head}{broken}")).await;
        assert!(back.starts_with("HTTP/1.1 400 "), "{broken:.20}: {back}");
        assert!(!heard(&seen).await.ends_with("0\r\n\r\n"));
        seen.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn giant_heads_and_garbage_are_refused() {
    let proxy = proxy(&["*"]);
    for (bytes, status) in [
        (format!("GET http://a.example/{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20)).into_bytes(), 431),
        (format!("GET http://a.example/ HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(20_000)).into_bytes(), 431),
        (format!("GET http://a.example/ HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)).into_bytes(), 431),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n".to_vec(), 400),
        (b"\x00\xff\xfe\r\n\r\n".to_vec(), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), 400),
        (b"\x05\x01\x00\r\n\r\n".to_vec(), 400),
    ] {
        let back = proxy.say(&bytes).await;
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")), "{:.60?}: {back}", String::from_utf8_lossy(&bytes));
    }
}

#[tokio::test]
async fn half_requests_and_silence_end_and_do_not_fill_the_proxy() {
    let limits = ProxyLimits { connections: 2, head: Duration::from_millis(300), ..ProxyLimits::STANDARD };
    let proxy = start(&["*"], limits, None);
    let started = Instant::now();
    let mut slow = Vec::new();
    // More than may be served at a time; those beyond wait and are served in turn.
    for _ in 0..6 {
        let mut socket = TcpStream::connect(proxy.address).await.unwrap();
        socket.write_all(b"GET http://a.exa").await.unwrap();
        slow.push(socket);
    }
    for socket in &mut slow {
        let back = rest(socket).await;
        assert!(back.starts_with("HTTP/1.1 408 "), "{back}");
    }
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(proxy.say("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn a_silent_host_and_a_tunnel_without_end_are_cut() {
    let (place, _) = server("never", OK).await;
    let idle = ProxyLimits { idle: Duration::from_millis(300), ..ProxyLimits::STANDARD };
    let proxy = start(&[&place], idle, None);
    let back = proxy.say(format!("GET http://{place}/ HTTP/1.1\r\n\r\n")).await;
    assert!(back.starts_with("HTTP/1.1 504 "), "{back}");
    let mut socket = connected(&proxy, &place).await;
    assert_eq!(rest(&mut socket).await, "");
    let total = ProxyLimits { total: Duration::from_millis(500), ..ProxyLimits::STANDARD };
    let proxy = start(&[&place], total, None);
    let mut socket = connected(&proxy, &place).await;
    let started = Instant::now();
    while socket.write_all(b"drip").await.is_ok() && started.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_jail_moves_no_more_than_it_may() {
    let (place, _) = server("never", OK).await;
    let proxy = start(&[&place], ProxyLimits { bytes: 100_000, ..ProxyLimits::STANDARD }, None);
    let mut socket = connected(&proxy, &place).await;
    let mut sent = 0;
    while socket.write_all(&[b'x'; 10_000]).await.is_ok() && sent < 100_000_000 {
        sent += 10_000;
        tokio::task::yield_now().await;
    }
    drop(socket);
    let count = proxy.of(&place);
    assert!(count.sent_bytes < 200_000 && sent < 100_000_000, "{count:?}");
    let back = proxy.say(format!("CONNECT {place} HTTP/1.1\r\n\r\n")).await;
    assert!(back.starts_with("HTTP/1.1 403 ") && back.contains("all of the"), "{back}");
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_closes_by_halves() {
    let (place, seen) = server("ping", b"pong").await;
    let proxy = proxy(&[&place]);
    let mut socket = connected(&proxy, &place).await;
    socket.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    socket.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"pong");
    // The server has said all that it has to say; the client goes on.
    socket.write_all(b" and more").await.unwrap();
    socket.shutdown().await.unwrap();
    assert_eq!(rest(&mut socket).await, "");
    assert_eq!(heard(&seen).await, "ping and more");
    assert_eq!((proxy.of(&place).sent_bytes, proxy.of(&place).received_bytes), (13, 4));
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_before_the_client_says_anything() {
    let (place, _) = server("", b"220 ready").await;
    let proxy = proxy(&[&place]);
    let mut socket = connected(&proxy, &place).await;
    socket.write_all(b"x").await.unwrap();
    let mut back = [0; 9];
    socket.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"220 ready");
}

#[tokio::test]
async fn tls_for_another_host_than_the_tunnels_is_cut_before_the_host_hears_of_it() {
    let (place, seen) = server("\u{16}", b"served").await;
    let port = place.rsplit_once(':').unwrap().1.to_owned();
    let proxy = proxy(&[&format!("localhost:{port}"), &place]);
    let whole = hello("localhost");
    for (place, words, passes) in [
        (format!("localhost:{port}"), whole.clone(), true),
        (format!("LOCALHOST.:{port}"), whole.clone(), true),
        (place.clone(), hello("127.0.0.1"), true),
        (format!("localhost:{port}"), hello("front.example"), false),
        (format!("localhost:{port}"), hello("localhost.evil.example"), false),
        // Without a name.
        (format!("localhost:{port}"), hello("127.0.0.1"), false),
        (place.clone(), hello("evil.example"), false),
        // A handshake that is no hello.
        (format!("localhost:{port}"), b"\x16\x03\x01\x00\x04\x02\x00\x00\x00".to_vec(), false),
        (format!("localhost:{port}"), b"\x16GET / HTTP/1.1\r\n\r\n".to_vec(), false),
        (format!("localhost:{port}"), [&b"\x16\x03\x01\x40\x00"[..], &[1; 60_000]].concat(), false),
    ] {
        let mut socket = connected(&proxy, &place).await;
        // In pieces, as a network may cut it.
        for piece in words.chunks(100.max(words.len() / 8)) {
            if socket.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let back = rest(&mut socket).await;
        assert_eq!(back == "served", passes, "{place} {:.60?}: {back:?}", String::from_utf8_lossy(&words));
    }
    let fronts = seen.lock().unwrap().iter().filter(|text| text.contains("evil") || text.contains("front")).count();
    assert_eq!(fronts, 0);
    assert_eq!(proxy.of(&format!("localhost:{port}")).denied, 6, "{:?}", proxy.proxy.egress());
    // Half a hello, and then nothing: the host is told nothing.
    let told = seen.lock().unwrap().iter().filter(|text| !text.is_empty()).count();
    let mut socket = connected(&proxy, &format!("localhost:{port}")).await;
    socket.write_all(&whole[..whole.len() / 2]).await.unwrap();
    socket.shutdown().await.unwrap();
    assert_eq!(rest(&mut socket).await, "");
    assert_eq!(seen.lock().unwrap().iter().filter(|text| !text.is_empty()).count(), told);
}

#[tokio::test]
async fn a_name_server_that_lies_leads_nowhere_private() {
    let (place, seen) = server("\r\n\r\n", OK).await;
    let port = place.rsplit_once(':').unwrap().1.to_owned();
    for lie in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fd00:ec2::254", "64:ff9b::7f00:1"] {
        let resolver: Resolver = Arc::new(move |_| Box::pin(async move { Ok(vec![lie.parse().unwrap()]) }));
        let host = format!("rebind.example:{port}");
        let proxy = start(&[&host], ProxyLimits::STANDARD, Some(resolver));
        for line in [format!("CONNECT {host}"), format!("GET http://{host}/")] {
            let back = proxy.say(format!("{line} HTTP/1.1\r\n\r\n")).await;
            assert!(back.starts_with("HTTP/1.1 403 ") && back.contains("no public address"), "{lie}: {back}");
        }
        assert_eq!((proxy.of(&host).denied, proxy.of(&host).requests), (2, 0));
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_host_that_lies_is_not_believed() {
    for (answer, says) in [
        (&b"garbage\r\n\r\n"[..], "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "given in two ways"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "more than one"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "changes the protocol"),
        (b"HTTP/1.1 200 OK\r\nA: b", "in the middle"),
        (b"", "without an answer"),
    ] {
        let (place, _) = server("\r\n\r\n", answer).await;
        let back = proxy(&[&place]).say(format!("GET http://{place}/ HTTP/1.1\r\n\r\n")).await;
        assert!(back.starts_with("HTTP/1.1 502 ") && back.contains(says), "{says}: {back}");
    }
    let (place, _) = server(
        "\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    )
    .await;
    let back = proxy(&[&place]).say(format!("GET http://{place}/ HTTP/1.1\r\n\r\n")).await;
    assert!(back.starts_with("HTTP/1.1 200 OK") && back.ends_with("\r\n\r\n2\r\nok\r\n0\r\n\r\n"), "{back}");
    let (place, _) = server("\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
    let back = proxy(&[&place]).say(format!("GET http://{place}/ HTTP/1.1\r\n\r\n")).await;
    assert!(back.ends_with("\r\n\r\nuntil the end"), "{back}");
}

#[tokio::test]
async fn what_cannot_be_reached_is_said() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let proxy = proxy(&[&closed, "nowhere.invalid"]);
    let back = proxy.say(format!("CONNECT {closed} HTTP/1.1\r\n\r\n")).await;
    assert!(back.starts_with("HTTP/1.1 502 ") && back.contains("cannot be reached"), "{back}");
    let back = proxy.say("CONNECT nowhere.invalid:443 HTTP/1.1\r\n\r\n").await;
    assert!(back.starts_with("HTTP/1.1 502 ") && back.contains("nowhere.invalid"), "{back}");
}

#[tokio::test]
async fn it_listens_on_a_socket_file_too_and_ends_when_it_is_told() {
    let (place, _) = server("\r\n\r\n", OK).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let proxy = EgressProxy::new(EgressPolicy::parse(&[&place]).unwrap(), ProxyLimits::STANDARD);
    let (serving, cancel) = (proxy.clone(), CancellationToken::new());
    let token = cancel.clone();
    let served = tokio::spawn(async move { serving.serve(ProxyListener::Unix(listener), &token).await });
    let mut socket = tokio::net::UnixStream::connect(&path).await.unwrap();
    socket.write_all(format!("GET http://{place}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut back = String::new();
    socket.read_to_string(&mut back).await.unwrap();
    assert!(back.ends_with("hello"), "{back}");
    cancel.cancel();
    tokio::time::timeout(Duration::from_secs(2), served).await.unwrap().unwrap().unwrap();
    assert_eq!(proxy.egress().len(), 1);
}
