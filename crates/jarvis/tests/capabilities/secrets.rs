//! `jarvis secret`: values come in by stdin alone, are kept for their owner, and are shown to nobody.

use crate::common::Home;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

const VALUE: &str = "correct-horse-battery-staple";

fn set(home: &Home, name: &str, host: &str, value: &str) -> crate::common::Ran {
    home.run_with_input(&["secret", "set", name, "--host", host], value)
}

#[test]
fn a_secret_is_set_listed_and_removed_and_its_value_is_never_shown() {
    let home = Home::new();
    let ran = set(&home, "GITHUB_TOKEN", "api.github.com", &format!("{VALUE}\n")).ok();
    assert!(ran.err.contains("GITHUB_TOKEN is set") && !ran.err.contains(VALUE) && ran.out.is_empty(), "{}", ran.err);
    let _ = set(&home, "WEATHER", "*.weather.example", VALUE).ok();
    let listed = home.run(&["secret", "list"]).ok();
    assert!(listed.out.contains("GITHUB_TOKEN") && listed.out.contains("api.github.com"), "{}", listed.out);
    let listed = home.run(&["--json", "secret", "list"]).ok();
    let all = json!([{"name": "GITHUB_TOKEN", "hosts": ["api.github.com"]}, {"name": "WEATHER", "hosts": ["*.weather.example"]}]);
    assert_eq!(listed.json(), all);
    assert!(!listed.out.contains(VALUE));
    let again = home
        .run_with_input(
            &["--json", "secret", "set", "WEATHER", "--host", "w.example", "--host", "GET v.example/1"],
            VALUE,
        )
        .ok();
    assert_eq!(again.json(), json!({"name": "WEATHER", "hosts": ["w.example", "GET v.example/1"], "replaced": true}));
    let _ = home.run(&["secret", "rm", "WEATHER"]).ok();
    let _ = home.run(&["secret", "rm", "WEATHER"]).failed(1, &["there is no secret `WEATHER`", "jarvis secret list"]);
    let file = home.file("secrets.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains(VALUE));
}

#[test]
fn what_cannot_be_kept_or_sent_is_refused_and_not_repeated() {
    let home = Home::new();
    for (name, host, value, says) in [
        ("T", "api.example.com", "short", "fewer than 8"),
        ("T", "api.example.com", "", "no value was given"),
        ("T", "api.example.com", "two lines\nof value-x", "line break"),
        ("T", "api.example.com", " spaces-value-x", "begins or ends with a space"),
        ("T", "api.example.com", "\x1b[31mvalue-x", "control character"),
        ("T", "*", "long-enough-value-x", "anybody can have a host"),
        ("T", "*.com", "long-enough-value-x", "anybody can have a host"),
        ("T", "user@host", "long-enough-value-x", "not a host pattern"),
        ("T", "", "long-enough-value-x", "not a host pattern"),
        ("1T", "api.example.com", "long-enough-value-x", "not a name of a secret"),
        ("../x", "api.example.com", "long-enough-value-x", "not a name of a secret"),
        ("密钥", "api.example.com", "long-enough-value-x", "not a name of a secret"),
    ] {
        let ran = set(&home, name, host, value).failed(2, &[says, "hint"]);
        assert!(!ran.err.contains("value-x"), "{}", ran.err);
    }
    let ran = set(&home, "T", "api.example.com", &"x".repeat(9000)).failed(2, &["more than 8192"]);
    assert!(ran.err.len() < 1000);
    // There is no way to give a value as an argument.
    let _ = home
        .run(&["secret", "set", "T", "a-value-on-the-line", "--host", "a.example"])
        .failed(2, &["unexpected argument"]);
    let _ = home.run(&["secret", "set", "T"]).failed(2, &["--host"]);
    assert!(!home.file("secrets.json").exists());
}

#[test]
fn a_store_that_others_can_read_or_that_is_damaged_is_not_used() {
    let home = Home::new();
    let _ = set(&home, "T", "a.example", VALUE).ok();
    let file = home.file("secrets.json");
    for mode in [0o644, 0o640, 0o604, 0o620, 0o602] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let _ = home.run(&["secret", "list"]).failed(2, &["other users can read or change", "chmod 600"]);
        let _ = set(&home, "U", "a.example", VALUE).failed(2, &["chmod 600"]);
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let _ = home.run(&["secret", "list"]).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    for damaged in [
        format!("{{\"version\":1,\"secrets\":{{\"T\":{{\"value\":\"{VALUE}\"}}}}}}"),
        format!("{text}{VALUE}"),
        "[]".to_owned(),
        String::new(),
    ] {
        std::fs::write(&file, damaged).unwrap();
        let ran = home.run(&["secret", "list"]).failed(2, &["is damaged at line", "hint"]);
        assert!(!ran.err.contains("battery"), "{}", ran.err);
    }
    std::fs::write(&file, text.replace("\"version\": 1", "\"version\": 9")).unwrap();
    let _ = home.run(&["secret", "list"]).failed(2, &["newer jarvis"]);
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    assert_ne!(home.run(&["secret", "list"]).code, 0);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let _ = home.run(&["secret", "list"]).failed(2, &["is not a file"]);
}

#[test]
fn many_at_once_lose_none() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let home = &home;
            scope.spawn(move || set(home, &format!("T{n}"), "a.example", VALUE).ok());
        }
    });
    assert_eq!(home.run(&["--json", "secret", "list"]).ok().json().as_array().unwrap().len(), 8);
    let left = std::fs::read_dir(home.path())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tmp"))
        .count();
    assert_eq!(left, 0);
}

/// Sends back what it was sent, once; the request.
fn echo() -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", request.len());
        socket.write_all(&[head.as_bytes(), &request].concat()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (host, served)
}

#[test]
fn the_shipped_binary_sends_a_secret_to_its_host_and_tells_it_to_nobody() {
    let home = Home::new();
    let (host, served) = echo();
    let _ = set(&home, "TOKEN", &host, VALUE).ok();
    let code = format!(
        "export default async function run(args, ctx) {{ const t = await ctx.secret('TOKEN'); console.log('key', t, 'ghp_' + 'a1B2'.repeat(9)); \
         const r = await ctx.fetch('http://{host}/', {{ headers: {{ Authorization: `Bearer ${{t}}` }} }}); return (await r.text()).toLowerCase(); }}"
    );
    let file = home.write("probe.ts", &code);
    let args = ["--json", "sandbox", "run", file.to_str().unwrap(), "--allow-net", &host, "--secret", "TOKEN"];
    let ran = home.run(&args).ok();
    assert!(served.join().unwrap().contains(&format!("Bearer {VALUE}")));
    assert!(!ran.out.contains(VALUE) && !ran.err.contains(VALUE), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("bearer [secret token]") && ran.out.contains("key [secret TOKEN]"), "{}", ran.out);
    assert!(ran.out.contains("«redacted:github_token»"), "known shapes are taken out of what is printed: {}", ran.out);
    let audit: String = std::fs::read_dir(home.file("audit"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default())
        .collect();
    assert!(!audit.contains(VALUE) && audit.contains("TOKEN"), "{audit}");
    assert!(audit.contains(&format!("{{\"host\":\"{host}\",\"requests\":1,")), "{audit}");
}

#[test]
fn a_secret_goes_to_no_host_that_it_is_not_bound_to() {
    let home = Home::new();
    let _ = set(&home, "TOKEN", "api.example.com", VALUE).ok();
    let code = "export default async (args, ctx) => (await fetch('http://127.0.0.1:9/?k=' + await ctx.secret('TOKEN'))).status";
    let file = home.write("probe.ts", code);
    let args = ["sandbox", "run", file.to_str().unwrap(), "--allow-net", "127.0.0.1:9", "--secret", "TOKEN"];
    let ran =
        home.run(&args).failed(1, &["`TOKEN` is not bound to 127.0.0.1", "jarvis secret set TOKEN --host 127.0.0.1"]);
    assert!(!ran.err.contains(VALUE));
    // A store that others can read is used for nothing.
    std::fs::set_permissions(home.file("secrets.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let _ = home.run(&args).failed(1, &["other users can read or change", "chmod 600"]);
}

#[test]
fn a_link_in_the_workspace_is_not_followed_whatever_is_granted() {
    let home = Home::new();
    let work = home.file("work");
    std::fs::create_dir_all(&work).unwrap();
    std::os::unix::fs::symlink("/etc", work.join("data")).unwrap();
    let file = home.write("probe.ts", "export default async (args, ctx) => (await ctx.read('data/passwd')).length");
    let args = [
        "sandbox",
        "run",
        file.to_str().unwrap(),
        "--workspace",
        work.to_str().unwrap(),
        "--read",
        work.to_str().unwrap(),
    ];
    let _ = home.run(&args).failed(1, &["data/passwd"]);
    let data = work.join("data");
    let args = [
        "sandbox",
        "run",
        file.to_str().unwrap(),
        "--workspace",
        work.to_str().unwrap(),
        "--read",
        data.to_str().unwrap(),
    ];
    let _ = home.run(&args).failed(1, &["data/passwd"]);
}
