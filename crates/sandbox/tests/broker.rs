//! What a capability reaches through the broker: only what its permit grants.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod common;

use common::{permit, plan};
use jarvis_protocol::{Execution, ExitClass, Grants};
use jarvis_sandbox::{Access, Executor, SandboxConfig};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn executor(workspace: Option<&Path>, denied: &[&Path]) -> Executor {
    let config = SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis-worker-test").into(), pool: 1, max_workers: 4 };
    let access = Access {
        workspace: workspace.map(Path::to_owned),
        denied: denied.iter().map(|d| (*d).to_owned()).collect(),
        ..Access::default()
    };
    Executor::new(config, access)
}

async fn run(executor: &Executor, body: &str, grants: Grants) -> Execution {
    let mut plan = plan(&format!("export default async function run(args, ctx) {{ {body} }}"), json!({}));
    plan.grants = grants;
    executor.run(permit(plan), &CancellationToken::new()).await.unwrap()
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|i| (*i).to_owned()).collect()
}

fn network(hosts: &[&str]) -> Grants {
    Grants { network: list(hosts), ..Grants::default() }
}

fn files(read: &[&str], write: &[&str]) -> Grants {
    Grants { read: list(read), write: list(write), ..Grants::default() }
}

fn message(done: &Execution) -> String {
    done.error.as_ref().map(|e| e.to_string()).unwrap_or_default()
}

/// Answers each request by its path; the port.
async fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                let mut buffer = [0; 4096];
                loop {
                    let n = socket.read(&mut buffer).await.unwrap_or(0);
                    seen.extend_from_slice(&buffer[..n]);
                    let text = String::from_utf8_lossy(&seen).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else {
                        if n == 0 {
                            return;
                        }
                        continue;
                    };
                    let length = head
                        .to_lowercase()
                        .lines()
                        .find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok());
                    if body.len() < length.unwrap_or(0) && n > 0 {
                        continue;
                    }
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    let answer = match path {
                        "/json" => reply(200, "content-type: application/json\r\n", "{\"ok\":\"水\"}"),
                        "/echo" => reply(200, "x-one: 1\r\n", &text),
                        _ if path.starts_with("/to/") => {
                            reply(307, &format!("location: http://127.0.0.1:{}/echo\r\n", &path[4..]), "")
                        }
                        "/missing" => reply(404, "", "no"),
                        "/there" => reply(302, "location: /json\r\n", ""),
                        "/away" => reply(302, "location: http://127.0.0.1:9/\r\n", ""),
                        "/meta" => reply(302, "location: http://169.254.169.254/latest/meta-data/\r\n", ""),
                        "/file" => reply(302, "location: file:///etc/passwd\r\n", ""),
                        "/loop" => reply(302, "location: /loop\r\n", ""),
                        "/big" => reply(200, "", &"x".repeat(20 << 20)),
                        "/slow" => {
                            tokio::time::sleep(Duration::from_secs(20)).await;
                            String::new()
                        }
                        _ => "garbage that is not HTTP".to_owned(),
                    };
                    let _ = socket.write_all(answer.as_bytes()).await;
                    return;
                }
            });
        }
    });
    port
}

fn reply(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

#[tokio::test]
async fn a_granted_host_is_fetched() {
    let port = server().await;
    let executor = executor(None, &[]);
    let host = format!("127.0.0.1:{port}");
    let base = format!("const base = 'http://{host}';");
    let body = format!(
        "{base} const r = await fetch(base + '/json'); return [r.status, r.ok, r.headers.get('Content-Type'), await r.json(), r.redirected];"
    );
    let done = run(&executor, &body, network(&[&host])).await;
    assert_eq!(done.result, Some(json!([200, true, "application/json", {"ok": "水"}, false])), "{}", message(&done));

    let body = format!(
        "{base} const r = await ctx.fetch(base + '/echo', {{ method: 'POST', headers: {{ 'X-Mine': 'yes', Host: 'evil', 'Content-Type': 'application/json' }}, body: JSON.stringify({{ a: '水' }}) }}); return await r.text();"
    );
    let done = run(&executor, &body, network(&[&host])).await;
    let seen = done.result.unwrap().as_str().unwrap().to_lowercase();
    assert!(
        seen.starts_with("post /echo") && seen.contains("x-mine: yes") && seen.ends_with("{\"a\":\"水\"}"),
        "{seen}"
    );
    assert!(seen.contains(&format!("host: {host}")) && !seen.contains("evil"), "{seen}");

    let body = format!("{base} const r = await fetch(base + '/missing'); return [r.status, r.ok, await r.text()];");
    assert_eq!(run(&executor, &body, network(&[&host])).await.result, Some(json!([404, false, "no"])));
    let body = format!(
        "{base} const r = await fetch(base + '/there'); return [r.redirected, new URL(r.url).pathname, (await r.json()).ok];"
    );
    assert_eq!(run(&executor, &body, network(&[&host])).await.result, Some(json!([true, "/json", "水"])));
    let body = format!(
        "{base} return (await Promise.all(Array.from({{ length: 20 }}, () => fetch(base + '/json').then(r => r.json())))).length;"
    );
    assert_eq!(run(&executor, &body, network(&[&host])).await.result, Some(json!(20)));
}

#[tokio::test]
async fn what_is_not_granted_is_not_fetched_not_even_by_a_redirect() {
    let port = server().await;
    let executor = executor(None, &[]);
    let host = format!("127.0.0.1:{port}");
    for (path, grants, named) in [
        ("/json", vec![], "is not granted"),
        ("/json", vec!["127.0.0.1"], "is not granted"),
        ("/json", vec!["*"], "is not granted"),
        ("/json", vec!["example.com"], "is not granted"),
        ("/away", vec![host.as_str()], "is not granted"),
        ("/meta", vec![host.as_str(), "*"], "not a public address"),
        ("/file", vec![host.as_str()], "scheme `file`"),
        ("/loop", vec![host.as_str()], "more than 5 redirects"),
        ("/big", vec![host.as_str()], "longer than"),
        ("/nonsense", vec![host.as_str()], "fetch failed"),
    ] {
        let body = format!("return (await fetch('http://{host}{path}')).status;");
        let done = run(&executor, &body, network(&grants)).await;
        assert!(message(&done).contains(named), "{path} {grants:?}: {:?} {}", done.result, message(&done));
    }
    let done =
        run(&executor, "return (await fetch('http://localhost.example.invalid/')).status", network(&["*"])).await;
    assert!(message(&done).contains("fetch failed"), "{}", message(&done));
}

#[tokio::test]
async fn keys_in_headers_do_not_follow_a_redirect_to_another_host() {
    let (first, second) = (server().await, server().await);
    let executor = executor(None, &[]);
    let hosts = [format!("127.0.0.1:{first}"), format!("127.0.0.1:{second}")];
    for (to, follows) in [(second, false), (first, true)] {
        let body = format!(
            "const headers = {{ 'X-Api-Key': 'k1', Authorization: 'k2', Cookie: 'k3', Accept: 'text/plain', 'Accept-Language': 'zh', 'User-Agent': 'mine', 'Content-Type': 'text/x' }}; return await (await fetch('http://{}/to/{to}', {{ headers }})).text();",
            hosts[0]
        );
        let done = run(&executor, &body, network(&[&hosts[0], &hosts[1]])).await;
        let seen = done.result.as_ref().and_then(Value::as_str).unwrap_or_default().to_lowercase();
        for header in ["accept: text/plain", "accept-language: zh", "user-agent: mine", "content-type: text/x"] {
            assert!(seen.contains(header), "{header}: {seen} {}", message(&done));
        }
        for key in ["k1", "k2", "k3"] {
            assert_eq!(seen.contains(key), follows, "{key}: {seen}");
        }
    }
}

#[tokio::test]
async fn a_permission_error_can_be_caught_by_its_name() {
    let executor = executor(None, &[]);
    let body = "try { await fetch('https://example.com/') } catch (e) { return [e.name, e instanceof Error] }";
    assert_eq!(run(&executor, body, Grants::default()).await.result, Some(json!(["PermissionError", true])));
}

#[tokio::test]
async fn a_slow_answer_can_be_aborted_and_ends_with_the_time_limit() {
    let port = server().await;
    let executor = executor(None, &[]);
    let host = format!("127.0.0.1:{port}");
    let body = format!(
        "try {{ await fetch('http://{host}/slow', {{ signal: AbortSignal.timeout(50) }}) }} catch (e) {{ return e.name }}"
    );
    assert_eq!(run(&executor, &body, network(&[&host])).await.result, Some(json!("TimeoutError")));

    let mut plan = plan(&format!("export default async () => {{ await fetch('http://{host}/slow') }}"), json!({}));
    plan.grants = network(&[&host]);
    plan.limits.timeout_ms = 200;
    let started = Instant::now();
    let done = executor.run(permit(plan), &CancellationToken::new()).await.unwrap();
    assert_eq!(done.exit, ExitClass::Timeout);
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn granted_files_are_read_written_and_listed() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("data")).unwrap();
    std::fs::write(home.path().join("data/in.txt"), "水 in").unwrap();
    let executor = executor(Some(home.path()), &[]);
    let body = "await ctx.write('out/deep/x.txt', (await ctx.read('data/in.txt')) + '!'); await ctx.write('out/raw', new Uint8Array([1, 2])); return [await ctx.list('data'), [...await ctx.read('./data/in.txt', { bytes: true })].length];";
    let done = run(&executor, body, files(&["data"], &["out/"])).await;
    assert_eq!(done.result, Some(json!([[{"name": "in.txt", "kind": "file", "size": 6}], 6])), "{}", message(&done));
    assert_eq!(std::fs::read_to_string(home.path().join("out/deep/x.txt")).unwrap(), "水 in!");
    assert_eq!(std::fs::read(home.path().join("out/raw")).unwrap(), [1, 2]);
    assert_eq!(std::fs::read_dir(home.path().join("out")).unwrap().count(), 2, "no temporary file is left");
    // One file alone, and by its absolute path.
    let absolute = home.path().join("data/in.txt");
    let absolute = absolute.to_str().unwrap();
    let body = format!("return await ctx.read({absolute:?})");
    assert_eq!(run(&executor, &body, files(&[absolute], &[])).await.result, Some(json!("水 in")));
    assert_eq!(run(&executor, &body, files(&["data/in.txt"], &[])).await.result, Some(json!("水 in")));
}

#[tokio::test]
async fn no_path_leads_out_of_what_is_granted() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    for dir in ["data", "private", "out"] {
        std::fs::create_dir(root.join(dir)).unwrap();
    }
    std::fs::write(root.join("private/key"), "private").unwrap();
    std::fs::write(root.join("data-2"), "private").unwrap();
    std::os::unix::fs::symlink("../private/key", root.join("data/link")).unwrap();
    std::os::unix::fs::symlink("../private", root.join("data/dir")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("etc")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", root.join("out/link")).unwrap();
    std::process::Command::new("mkfifo").arg(root.join("data/pipe")).status().unwrap();
    let key = root.join("private/key");
    let executor = executor(Some(root), &[&root.join("private")]);
    let read = |path: &str| format!("return await ctx.read({path:?})");
    let absolute = |paths: &[&str]| {
        let read = paths.iter().map(|path| root.join(path).to_str().unwrap().to_owned()).collect();
        Grants { read, ..Grants::default() }
    };
    let writing = |paths: &[&str]| Grants { write: absolute(paths).read, ..Grants::default() };
    for (body, grants) in [
        (read("private/key"), files(&["data"], &[])),
        (read(key.to_str().unwrap()), files(&["data"], &[])),
        (read("data/../private/key"), files(&["data"], &[])),
        (read("../../../../etc/passwd"), files(&["data"], &[])),
        (read("/etc/passwd"), files(&["data", "."], &[])),
        (read("/proc/self/environ"), files(&["."], &[])),
        (read("data-2"), files(&["data"], &[])),
        (read("data/link"), files(&["data"], &[])),
        (read("data/dir/key"), files(&["data"], &[])),
        (read("etc/passwd"), files(&["etc"], &[])),
        (read("etc/passwd"), files(&["."], &[])),
        (read("data/pipe"), files(&["data"], &[])),
        (read("data"), files(&["data"], &[])),
        (read("data/nothing"), files(&["data"], &[])),
        (read("data/a\0b"), files(&["data"], &[])),
        // The same by absolute grants, as they are after approval.
        (read("data/link"), absolute(&["data"])),
        (read("data/dir/key"), absolute(&["data"])),
        (read("data/dir/key"), absolute(&["data/dir"])),
        (read("data/link"), absolute(&["data/link"])),
        (read("etc/passwd"), absolute(&["etc"])),
        (read("etc/passwd"), absolute(&["."])),
        ("return await ctx.list('etc')".to_owned(), absolute(&["etc"])),
        ("return await ctx.list('data/dir')".to_owned(), absolute(&["data/dir"])),
        ("await ctx.write('etc/new', 'x')".to_owned(), writing(&["etc"])),
        ("await ctx.write('out/link', 'x')".to_owned(), writing(&["out"])),
        // Denied whatever is granted.
        (read("private/key"), files(&["."], &[])),
        (read("private/key"), files(&["private"], &[])),
        ("await ctx.write('private/new', 'x')".to_owned(), files(&[], &["."])),
        // Reading is not writing.
        ("await ctx.write('data/new', 'x')".to_owned(), files(&["data"], &["out"])),
        (read("out/x"), files(&["data"], &["out"])),
        ("await ctx.write('out/../data/new', 'x')".to_owned(), files(&[], &["out"])),
        ("await ctx.write('etc/new', 'x')".to_owned(), files(&[], &["etc", "."])),
        ("await ctx.write('out/link', 'x')".to_owned(), files(&[], &["out"])),
        ("await ctx.write('out', 'x')".to_owned(), files(&[], &["out"])),
        ("return await ctx.list('/')".to_owned(), files(&["data"], &[])),
        ("return await ctx.list('data/dir')".to_owned(), files(&["data"], &[])),
    ] {
        let done = run(&executor, &body, grants.clone()).await;
        assert_eq!(done.exit, ExitClass::Threw, "{body} {grants:?}: {:?}", done.result);
    }
    assert!(!root.join("data/new").exists() && !root.join("private/new").exists());
}

#[tokio::test]
async fn what_is_run_later_is_not_written_and_nothing_written_can_be_run() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join(".jarvis/work");
    std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
    std::fs::write(root.join("tool.sh"), "#!/bin/sh").unwrap();
    std::fs::set_permissions(root.join("tool.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(root.join("own"), "x").unwrap();
    std::fs::set_permissions(root.join("own"), PermissionsExt::from_mode(0o600)).unwrap();
    let executor = executor(Some(&root), &[]);
    for path in [".git/hooks/pre-commit", ".GIT/config", "sub/.git", ".jarvis/x", "tool.sh"] {
        let done = run(&executor, &format!("await ctx.write('{path}', 'x')"), files(&[], &[".", ".git"])).await;
        assert_eq!(done.error.as_ref().map(|e| e.name.as_str()), Some("PermissionError"), "{path}: {}", message(&done));
    }
    let absolute = root.join(".git");
    let body = format!("await ctx.write({:?}, 'x')", absolute.join("config").to_str().unwrap());
    let done = run(&executor, &body, files(&[], &[absolute.to_str().unwrap()])).await;
    assert!(message(&done).contains("no capability may reach"), "{}", message(&done));
    assert_eq!(std::fs::read_to_string(root.join("tool.sh")).unwrap(), "#!/bin/sh");
    let body = "await ctx.write('new', 'x'); await ctx.write('own', 'y'); return 1";
    assert_eq!(run(&executor, body, files(&[], &["."])).await.exit, ExitClass::Ok);
    let mode = |name: &str| std::fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("new") & 0o133, mode("own")), (0, 0o600));
}

#[tokio::test]
async fn one_run_cannot_fill_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let executor = executor(Some(home.path()), &[]);
    let code = "export default async (args, ctx) => { const part = new Uint8Array(1 << 20); let n = 0; try { for (; n < 100; n++) await ctx.write('x', part); } catch (e) { return [n, e.name, e.message]; } }";
    let mut plan = plan(code, json!({}));
    plan.grants = files(&[], &["x"]);
    plan.limits.timeout_ms = 60_000;
    let done = executor.run(permit(plan), &CancellationToken::new()).await.unwrap();
    let told = "one run may write 64 MiB to files in total";
    assert_eq!(done.result, Some(json!([64, "RangeError", told])), "{}", message(&done));
}

#[tokio::test]
async fn many_requests_at_once_are_all_answered_while_the_code_prints() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("x"), vec![b'x'; 300_000]).unwrap();
    let executor = executor(Some(home.path()), &[]);
    let body = "const all = Array.from({ length: 400 }, () => ctx.read('x', { bytes: true }).then(b => b.length)); console.log('y'.repeat(900000)); return (await Promise.all(all)).reduce((a, b) => a + b);";
    let done = run(&executor, body, files(&["x"], &[])).await;
    assert_eq!(done.result, Some(json!(120_000_000)), "{}", message(&done));
}

#[tokio::test]
async fn a_request_by_a_very_long_name_is_refused_in_a_short_message() {
    let executor = executor(None, &[]);
    let done = run(&executor, "await ctx.read('水'.repeat(10000))", Grants::default()).await;
    assert!(message(&done).contains("水…") && message(&done).chars().count() < 400, "{}", message(&done));
    let done = run(&executor, "await ctx.read('x'.repeat(100000))", Grants::default()).await;
    assert!(message(&done).contains("more than 65536 bytes"), "{}", message(&done));
}

#[tokio::test]
async fn a_request_that_is_too_large_is_an_error_the_code_can_see() {
    let home = tempfile::tempdir().unwrap();
    let executor = executor(Some(home.path()), &[]);
    let done = run(&executor, "await ctx.write('x', 'y'.repeat(3 << 20))", files(&[], &["x"])).await;
    assert_eq!((done.exit, done.error.unwrap().name.as_str()), (ExitClass::Threw, "RangeError"));
    let done = run(&executor, "await ctx.write('x', { a: 1 })", files(&[], &["x"])).await;
    assert!(message(&done).contains("JSON.stringify"), "{}", message(&done));
}

#[tokio::test]
async fn an_unknown_request_is_refused() {
    let executor = executor(None, &[]);
    let done = run(&executor, "return await ctx.call('other', {})", Grants::default()).await;
    assert!(message(&done).contains("nothing can be called here"));
    let nothing: Option<Value> = done.result;
    assert_eq!(nothing, None);
}

/// A workspace with a folder `data` in it.
fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("data")).unwrap();
    home
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_granted_place_outside_the_workspace_is_itself_and_not_where_a_link_leads() {
    let (home, other) = (workspace(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(other.path().join("real/deep")).unwrap();
    std::fs::write(other.path().join("real/deep/x"), "there").unwrap();
    std::os::unix::fs::symlink(other.path().join("real"), other.path().join("link")).unwrap();
    let executor = executor(Some(home.path()), &[]);
    let reading = |grant: &Path, path: &Path| {
        let body = format!("return await ctx.read({:?})", text(path));
        (body, Grants { read: vec![text(grant)], ..Grants::default() })
    };
    let (body, grants) = reading(&other.path().join("real"), &other.path().join("real/deep/x"));
    assert_eq!(run(&executor, &body, grants).await.result, Some(json!("there")));
    for (grant, path) in [("link", "link/deep/x"), ("link/deep", "link/deep/x"), ("", "link/deep/x")] {
        let (body, grants) = reading(&other.path().join(grant), &other.path().join(path));
        let done = run(&executor, &body, grants).await;
        assert!(message(&done).contains("grant the place that it leads to"), "{grant}: {}", message(&done));
    }
}

#[tokio::test]
async fn a_denied_place_is_reached_by_no_other_name() {
    let home = workspace();
    let root = home.path();
    std::fs::create_dir_all(root.join("keys/deep")).unwrap();
    std::fs::write(root.join("keys/deep/id"), "private").unwrap();
    std::fs::write(root.join("own"), "mine").unwrap();
    std::fs::hard_link(root.join("keys/deep/id"), root.join("data/innocent")).unwrap();
    std::fs::hard_link(root.join("own"), root.join("data/own")).unwrap();
    std::os::unix::fs::symlink(root.join("keys"), root.join("data/keys")).unwrap();
    let executor = executor(Some(root), &[&root.join("keys")]);
    let grants = Grants { read: vec![text(root)], write: vec![text(root)], ..Grants::default() };
    for path in ["keys/deep/id", "data/innocent", "data/keys/deep/id", "/proc/self/root/etc/passwd"] {
        let done = run(&executor, &format!("return await ctx.read({path:?})"), grants.clone()).await;
        assert_eq!(done.error.as_ref().map(|e| e.name.as_str()), Some("PermissionError"), "{path}: {:?}", done.result);
    }
    // A file with two names, neither of them denied.
    assert_eq!(run(&executor, "return await ctx.read('data/own')", grants.clone()).await.result, Some(json!("mine")));
    // What is written is a new file: the other name keeps the old one.
    assert_eq!(run(&executor, "await ctx.write('data/innocent', 'x'); return 1", grants).await.result, Some(json!(1)));
    assert_eq!(std::fs::read_to_string(root.join("keys/deep/id")).unwrap(), "private");
}

#[tokio::test]
async fn pipes_devices_and_sockets_are_not_opened_and_huge_files_are_not_read() {
    let home = workspace();
    let root = home.path();
    std::process::Command::new("mkfifo").arg(root.join("data/pipe")).status().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("data/socket")).unwrap();
    std::fs::File::create(root.join("data/sparse")).unwrap().set_len(1 << 40).unwrap();
    let executor = executor(Some(root), &[]);
    let grants = files(&["data", "/dev", "/proc"], &["data"]);
    let started = Instant::now();
    for (path, says) in [
        ("data/pipe", "is not a file"),
        ("data/socket", "is not a file"),
        ("/dev/zero", "is not a file"),
        ("/dev/tty", "is not a file"),
        ("data/sparse", "is longer than"),
    ] {
        let done = run(&executor, &format!("return await ctx.read({path:?})"), grants.clone()).await;
        assert!(message(&done).contains(says), "{path}: {}", message(&done));
    }
    for path in ["data/pipe", "data/socket"] {
        let done = run(&executor, &format!("await ctx.write({path:?}, 'x')"), grants.clone()).await;
        assert!(message(&done).contains("is not a file"), "{path}: {}", message(&done));
    }
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn odd_names_are_names() {
    use std::os::unix::ffi::OsStrExt;
    let home = workspace();
    let executor = executor(Some(home.path()), &[]);
    let body = "for (const n of ['a\\nb', '水 文件', '-rf', '%2e%2e', \"'; rm\", 'x'.repeat(255)]) { await ctx.write('data/' + n, n); if (await ctx.read('data/' + n) !== n) throw new Error(n); } return (await ctx.list('data')).map(e => e.name).length";
    let done = run(&executor, body, files(&["data"], &["data"])).await;
    assert_eq!(done.result, Some(json!(6)), "{}", message(&done));
    let broken = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    std::fs::write(home.path().join("data").join(broken), "x").unwrap();
    let body = "return (await ctx.list('data')).filter(e => e.kind === 'other').length";
    assert_eq!(run(&executor, body, files(&["data"], &[])).await.result, Some(json!(1)));
    for name in ["x".repeat(256), "a/".repeat(3000)] {
        let done = run(&executor, &format!("return await ctx.read('data/{name}')"), files(&["data"], &[])).await;
        assert_eq!(done.exit, ExitClass::Threw);
    }
}

#[tokio::test]
async fn start_up_files_stay_as_they_are_inside_a_writable_grant() {
    let home = workspace();
    std::fs::create_dir_all(home.path().join(".git/hooks")).unwrap();
    let executor = executor(Some(home.path()), &[]);
    let grants = Grants { write: vec![text(home.path())], ..Grants::default() };
    for path in
        [".bashrc", ".config/fish/config.fish", ".vscode/tasks.json", "sub/.envrc", ".git/hooks/x", ".Git/config"]
    {
        let done = run(&executor, &format!("await ctx.write('{path}', 'x')"), grants.clone()).await;
        assert!(message(&done).contains("no capability may reach"), "{path}: {}", message(&done));
    }
    assert!(!home.path().join("sub").exists(), "no folder is made for what is refused");
}

/// One thread swaps a folder for a link to another place, again and again, while the code reads and writes.
#[tokio::test]
async fn a_link_that_is_swapped_in_meanwhile_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (home, out) = (workspace(), tempfile::tempdir().unwrap());
    let root = home.path().to_owned();
    std::fs::write(out.path().join("x"), "outside").unwrap();
    std::fs::create_dir(root.join("data/here")).unwrap();
    std::fs::write(root.join("data/here/x"), "inside").unwrap();
    std::os::unix::fs::symlink(out.path(), root.join("data/link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (here, link, stop) = (root.join("data/here"), root.join("data/link"), Arc::clone(&stop));
        std::thread::spawn(move || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &here, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                std::thread::yield_now();
            }
        })
    };
    let executor = executor(Some(&root), &[]);
    let body = "const seen = {}; for (let i = 0; i < 3000; i++) { let what; try { if (i % 10 === 0) { await ctx.write('data/here/new', 'w'); what = 'written'; } else what = await ctx.read('data/here/x'); } catch (e) { what = e.name; } seen[what] = (seen[what] ?? 0) + 1; } return seen";
    let done =
        run(&executor, body, Grants { read: vec![text(&root)], write: vec![text(&root)], ..Grants::default() }).await;
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    let seen = done.result.unwrap_or_default();
    assert!(seen.get("outside").is_none() && !out.path().join("new").exists(), "{seen}");
    assert!(seen["inside"].as_u64() > Some(0) && seen["PermissionError"].as_u64() > Some(0), "both were met: {seen}");
}

#[tokio::test]
async fn a_network_grant_that_is_none_is_an_error_of_the_run() {
    let executor = executor(None, &[]);
    let done = run(&executor, "return 1", network(&["a.example", "b.example:x"])).await;
    assert_eq!(done.exit, ExitClass::Rejected);
    assert!(message(&done).contains("`b.example:x` is not a host pattern"), "{}", message(&done));
}
