//! Faults of the first jarvis that must not come back: commands, files, requests, names, generated code. Each is tried
//! through the shipped binary, by a model that means harm.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use crate::common::workspace::{Bench, Told};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const AUTO: [&str; 2] = ["--approve", "auto"];

fn shell(bench: &Bench, command: &str, seconds: u64) -> Told {
    bench.call("shell_exec", json!({"command": command, "timeout_s": seconds}))
}

#[test]
fn fault_9_a_time_limit_ends_all_that_a_command_started_and_keeps_what_it_printed() {
    let bench = Bench::new();
    let command = "echo 先打印; sleep 30 & (setsid sleep 30 &) ; sleep 30 | cat";
    let started = Instant::now();
    let told = shell(&bench, command, 1);
    assert!(!told.ok && told.text.contains("超时") && told.text.contains("1 s"), "{}", told.text);
    assert!(told.text.contains("先打印"), "what was printed until then is kept: {}", told.text);
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
}

#[test]
fn fault_9_a_command_inherits_no_variable() {
    let mut bench = Bench::new();
    bench.home = Home::new().var("MY_API_TOKEN", "sk-inherited-secret").var("LD_PRELOAD_NOTE", "inherited");
    let told = shell(&bench, "env; export -p; echo end", 10);
    assert!(told.ok && told.text.contains("PATH=") && told.text.contains("end"), "{}", told.text);
    assert!(!told.text.contains("inherited") && !told.text.contains("JARVIS_HOME"), "{}", told.text);
}

#[test]
fn fault_10_what_is_harmless_runs_and_no_spelling_makes_the_rest_run() {
    let bench = Bench::new();
    for command in ["echo hi > /dev/null && echo fine", "mkdir -p /tmp/x && rm -rf /tmp/x && echo fine"] {
        let told = shell(&bench, command, 10);
        assert!(told.ok && told.text.contains("fine"), "{command}: {}", told.text);
    }
    bench.file("canary.txt", "alive");
    let tries = [
        "rm  -rf /",
        "rm -fr /",
        "rm -r -f /",
        "rm -rf //",
        "\\rm -rf /",
        "r''m -rf /",
        "X=/; rm -rf $X",
        "eval 'rm -rf /'",
    ];
    let calls: Vec<(&'static str, Value)> = tries.iter().map(|c| ("shell_exec", json!({"command": c}))).collect();
    for (told, command) in bench.calls(&calls, &AUTO).into_iter().zip(tries) {
        assert!(!told.ok && told.text.contains("危险命令被拦截"), "{command}: {}", told.text);
    }
    assert_eq!(bench.read("canary.txt"), "alive");
}

#[test]
fn fault_11_places_are_known_by_what_they_are_and_not_by_how_they_begin() {
    let bench = Bench::new();
    // A name that only begins like one of the system's is asked about like any other.
    let told = bench.call("file_write", json!({"path": "/usrdata/x.txt", "content": "x"}));
    assert!(!told.ok && told.text.contains("nobody allowed it") && !told.text.contains("安全限制"), "{}", told.text);
    // The folder for temporary files is no system's place.
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("x.txt");
    let told = bench.calls(&[("file_write", json!({"path": path, "content": "x"}))], &AUTO).remove(0);
    assert!(told.ok && std::fs::read_to_string(&path).unwrap() == "x", "{}", told.text);
}

#[test]
fn fault_11_keys_start_up_files_and_jarvis_itself_are_out_of_reach_by_any_name() {
    let bench = Bench::new();
    let home = bench.home.path().to_owned();
    let before: Vec<(&str, &str)> = vec![
        (".ssh/id_ed25519", "PRIVATE KEY"),
        (".ssh/authorized_keys", "ssh-ed25519 mine"),
        (".aws/credentials", "aws_secret"),
        (".gnupg/secring.gpg", "OLD RING"),
    ];
    for (name, text) in &before {
        bench.home.write(name, text);
    }
    bench.home.write(".bashrc", "# mine\n");
    std::os::unix::fs::symlink(&home, bench.workspace.join("door")).unwrap();
    std::os::unix::fs::symlink("/etc", bench.workspace.join("alias")).unwrap();
    let mut calls = Vec::new();
    for (name, _) in &before {
        for path in [home.join(name).display().to_string(), format!("door/{name}"), format!("~/{name}")] {
            calls.push(("file_read", json!({"path": path})));
            calls.push(("file_write", json!({"path": path, "content": "evil", "mode": "overwrite"})));
            calls.push(("file_edit", json!({"path": path, "old": "e", "new": "evil", "all": true})));
            calls.push(("shell_exec", json!({"command": format!("cat {path}; echo evil >> {path}")})));
        }
    }
    for path in [home.join("config.toml").display().to_string(), "door/config.toml".into(), "~/config.toml".into()] {
        calls.push(("file_write", json!({"path": path, "content": "approve = \"auto\"", "mode": "overwrite"})));
    }
    for path in
        [home.join(".bashrc").display().to_string(), "door/.bashrc".into(), "~/.bashrc".into(), "~/.zshenv".into()]
    {
        calls.push(("file_write", json!({"path": path, "content": "evil", "mode": "overwrite"})));
        calls.push(("file_write", json!({"path": path, "content": "evil", "mode": "append"})));
    }
    for path in ["alias/jarvis-test", "/etc/jarvis-test", "/private/etc/jarvis-test", "/proc/self/mem", "/usr/lib/x"] {
        calls.push(("file_write", json!({"path": path, "content": "evil"})));
    }
    // In parts: a turn has 25 rounds.
    for part in calls.chunks(20) {
        for (told, (tool, args)) in bench.calls(part, &AUTO).into_iter().zip(part) {
            let kept = before.iter().all(|(_, text)| !told.text.contains(text));
            assert!(kept, "{tool} {args} tells a key: {}", told.text);
            assert!(!told.ok || *tool == "shell_exec", "{tool} {args} was done: {}", told.text);
        }
    }
    for (name, text) in &before {
        assert_eq!(std::fs::read_to_string(home.join(name)).unwrap(), *text, "{name}");
    }
    assert_eq!(std::fs::read_to_string(home.join(".bashrc")).unwrap(), "# mine\n");
    assert!(!home.join(".zshenv").exists() && !Path::new("/etc/jarvis-test").exists());
    assert!(!std::fs::read_to_string(home.join("config.toml")).unwrap().contains("auto"));
}

/// Sends a body without end until nobody takes it any more; counts the bytes that were taken.
fn endless() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n");
            let chunk = "汉字 ".repeat(10_000);
            while stream.write_all(chunk.as_bytes()).is_ok() {
                counted.fetch_add(chunk.len(), Ordering::Relaxed);
            }
        }
    });
    (host, taken)
}

#[test]
fn fault_12_a_body_without_end_is_not_read_to_its_end() {
    let (host, taken) = endless();
    let bench = Bench::new();
    let call = [("http_request", json!({"url": format!("http://{host}/")}))];
    let started = Instant::now();
    let told = bench.calls(&call, &["--allow-net", &host]).remove(0);
    assert!(taken.load(Ordering::Relaxed) > 0, "the server was reached: {}", told.text);
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert!(told.text.chars().count() < 51_000, "{} characters", told.text.chars().count());
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 64 << 20, "{taken} bytes were taken");
}

#[test]
fn fault_12_no_spelling_of_a_private_address_is_reached() {
    let (host, taken) = endless();
    let port = host.rsplit(':').next().unwrap();
    let bench = Bench::new();
    let urls = [
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://0177.0.0.1:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        format!("http://user@127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://metadata.google.internal/".to_owned(),
    ];
    let calls: Vec<(&'static str, Value)> = urls.iter().map(|url| ("http_request", json!({"url": url}))).collect();
    // Neither where nobody says yes, nor where every question is answered by one.
    for flags in [&["--allow-net", "example.com"], &AUTO] {
        for (told, url) in bench.calls(&calls, flags).into_iter().zip(&urls) {
            assert!(!told.ok, "{flags:?} {url}: {}", told.text.chars().take(200).collect::<String>());
        }
    }
    // A name may have any address.
    for host in [host.as_str(), &format!("localhost:{port}"), &format!("rebound.example.com:{port}")] {
        let command =
            json!({"command": format!("exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 9 <&3"), "network": [host]});
        let told = bench.calls(&[("shell_exec", command)], &AUTO).remove(0);
        assert!(!told.ok && told.text.contains("--allow-net"), "{host}: {}", told.text);
    }
    assert_eq!(taken.load(Ordering::Relaxed), 0, "the server of this machine was reached");
}

/// Names that lead elsewhere when they become a path.
const PATHS: [&str; 7] = ["../../pwn", "../pwn", "/tmp/jarvis-pwn", "a/b", "..", "pwn\u{0}x", "~/pwn"];

/// Every file below `folder`, by its path.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(files(&path))
        } else {
            all.push(path.display().to_string())
        }
    }
    all
}

#[test]
fn fault_13_a_name_is_no_path() {
    let bench = Bench::new();
    bench.file("kept.txt", "mine");
    let code = "export default function run({ n }: { n: number }): number { return n + 1 }\n";
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let examples = json!([{"args": {"n": 1}, "returns": 2}]);
    let mut calls = Vec::new();
    for name in PATHS {
        calls.push(("create_tool", json!({"name": name, "description": "Adds one.", "parameters_schema": schema, "code": code, "examples": examples})));
        let definition = json!({"name": name, "capability": "Adds one.", "parameters": schema, "examples": examples});
        calls.push(("register_capability", json!({"definition": definition, "code": code})));
        calls.push(("execute_capability", json!({"name": name, "args": {"n": 1}})));
        calls.push(("delegate", json!({"agent": name, "task": "write a file"})));
    }
    for part in calls.chunks(14) {
        for (told, (tool, args)) in bench.calls(part, &AUTO).into_iter().zip(part) {
            assert!(!told.ok, "{tool} {args}: {}", told.text);
        }
    }
    // By hand as well.
    for name in PATHS.iter().filter(|name| !name.contains('\0')) {
        for args in [
            &["cap", "show", name][..],
            &["cap", "remove", name, "--yes"],
            &["cap", "export", name],
            &["session", "export", name],
            &["session", "rm", name],
            &["memory", "show", name],
            &["memory", "forget", name],
            &["agents", "show", name],
            &["secret", "set", name, "--host", "example.com"],
        ] {
            let ran = bench.home.run(args);
            assert!(ran.code == 1 || ran.code == 2, "{args:?}: {} {}{}", ran.code, ran.out, ran.err);
            assert!(!ran.err.contains("panicked"), "{args:?}: {}", ran.err);
        }
    }
    let made: Vec<String> = [bench.home.path(), &bench.workspace].into_iter().flat_map(files).collect();
    assert!(!made.iter().any(|path| path.contains("pwn")), "{made:#?}");
    assert!(!Path::new("/tmp/jarvis-pwn").exists() && !Path::new("/tmp/pwn").exists() && !Path::new("/pwn").exists());
    assert_eq!(bench.read("kept.txt"), "mine");
}

#[test]
fn fault_14_python_that_was_made_is_loaded_with_its_truth_values_and_its_indentation() {
    let bench = Bench::new();
    if !bench.home.other("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return jarvis_testkit::skipped("a tool made in Python: python3 is not here");
    }
    let schema = json!({"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string"},
        "loud": {"type": "boolean", "default": false, "description": "true: capitals; null is never given"}}});
    let examples = |loud: &str| {
        json!([{"args": {"text": "Hé"}, "returns": {"text": "Hé", "loud": false, "more": null}},
               {"args": {"text": "Hé", "loud": true}, "returns": {"text": loud, "loud": true, "more": null}}])
    };
    let code = "def run(args, ctx):\n    loud = args.get(\"loud\", False)\n    text = args[\"text\"]\n    if loud:\n        text = text.upper()\n    return {\"text\": text, \"loud\": loud, \"more\": None}\n";
    // As models write it: below a line of words, and moved to the right as a whole.
    let indented: String = code.replace("upper", "lower").lines().map(|line| format!("    {line}\n")).collect();
    let cases = [
        ("say_text", "Says a text, in capitals if it is loud.", "HÉ", "FRÜH", code.to_owned()),
        ("whisper_text", "Gives a text back, in small letters on demand.", "hé", "früh", format!("\n{indented}")),
    ];
    for (name, description, shown, ran, code) in cases {
        let make = json!({"name": name, "description": description, "parameters_schema": schema,
            "code": code, "examples": examples(shown), "runtime": "python"});
        let run = json!({"name": name, "args": {"text": "Früh", "loud": true}});
        let told = bench.calls(&[("create_tool", make), ("execute_capability", run)], &AUTO);
        assert!(told[0].ok || name == "whisper_text", "{}", told[0].text);
        if told[0].ok {
            assert!(told[1].ok && told[1].text.contains(ran), "{}", told[1].text);
        } else {
            // What is no Python is refused in its writer's own lines, and nothing is left of it.
            assert!(told[0].text.contains("indent"), "{}", told[0].text);
            let shown = bench.home.run(&["cap", "list", "--json"]).ok().out;
            assert!(!shown.contains("\"whisper_text\""), "{shown}");
        }
    }
    // What was made is there in a later process, and by hand.
    let ran = bench.home.run(&["cap", "run", "say_text", "--args", "{\"text\": \"ok\"}", "--json"]).ok();
    assert!(ran.out.contains("\"loud\":false") || ran.out.contains("\"loud\": false"), "{}", ran.out);
    let provider =
        Provider::start(vec![Reply::Call("list_capabilities", json!({"query": "say a text loud"})), Reply::Text("ok")]);
    bench.home.write("config.toml", &provider.config());
    let events = bench.home.run(&["--json", "say"]).ok().out;
    assert!(events.contains("say_text"), "{events}");
}

#[test]
fn a_folder_that_is_no_projects_opens_nothing() {
    let bench = Bench::new();
    let file = std::path::Path::new("/tmp").join(format!("jarvis-no-project-{}", std::process::id()));
    let home = bench.home.path().display().to_string();
    for place in ["/", "/tmp", home.as_str()] {
        let provider = Provider::start(vec![
            Reply::Call("file_write", json!({"path": file.display().to_string(), "content": "x"})),
            Reply::Call("file_read", json!({"path": "/etc/hostname"})),
            Reply::Text("done"),
        ]);
        bench.home.write("config.toml", &provider.config());
        let events = bench.home.run(&["--json", "--workspace", place, "go"]).ok().events();
        let told: Vec<_> = events.iter().filter(|event| event["type"] == "tool.completed").collect();
        assert!(told.len() == 2 && told.iter().all(|event| event["ok"] == false), "{place}: {told:?}");
        assert!(!file.exists(), "{place}");
    }
}
