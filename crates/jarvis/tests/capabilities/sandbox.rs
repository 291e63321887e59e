//! `jarvis sandbox`: the shipped binary, in its default configuration, against code and programs that want out.

use crate::common::{Home, Ran};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const SECRET: &str = "the-neighbours-diary-8842";

/// A person's home folder with something to steal, beside the workspace `ws`; jarvis's own home is elsewhere.
struct Person {
    jarvis: Home,
    dir: TempDir,
}

impl Person {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.jarvis.command(args);
        command.current_dir(self.file("ws"));
        command
    }
}

fn prepared() -> Person {
    let dir = tempfile::tempdir().unwrap();
    let jarvis =
        Home::new().var("OPENAI_API_KEY", "sk-not-for-anybody-else-123456").var("HOME", dir.path().to_str().unwrap());
    let person = Person { jarvis, dir };
    person.write("private/diary.txt", SECRET);
    person.write(".ssh/id_ed25519", SECRET);
    person.write("ws/data/a.txt", "public");
    std::os::unix::fs::symlink(person.file("private/diary.txt"), person.file("ws/data/link.txt")).unwrap();
    std::os::unix::fs::symlink(person.file("private"), person.file("ws/linked")).unwrap();
    std::fs::hard_link(person.file(".ssh/id_ed25519"), person.file("ws/data/hard.txt")).unwrap();
    person
}

fn in_workspace(home: &Person, args: &[&str]) -> Ran {
    Ran::of(home.command(args).output().unwrap())
}

/// What the code could not do: it failed, and nothing of the secret came out by any way.
#[track_caller]
fn denied(ran: &Ran, what: &str) {
    let all = format!("{}{}", ran.out, ran.err);
    assert!(!all.contains(SECRET) && !all.contains("sk-not-for"), "{what}: leaked\n{all}");
    assert!(!all.contains("ESCAPED"), "{what}\n{all}");
    assert!(!all.contains("panicked") && !all.contains("bug in jarvis"), "{what}\n{all}");
}

fn code(home: &Person, name: &str, text: &str, flags: &[&str]) -> Ran {
    home.write(&format!("ws/{name}"), text);
    in_workspace(home, &[&["sandbox", "run", name][..], flags].concat())
}

#[test]
fn typescript_reaches_nothing_that_was_not_granted() {
    let home = prepared();
    let diary = home.file("private/diary.txt");
    let diary = diary.to_str().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let attacks = [
        format!("import d from '{diary}' with {{ type: 'text' }}; export default () => d"),
        format!("import '{diary}'; export default () => 'ESCAPED'"),
        format!("export default async () => (await import('{diary}')).default"),
        "import fs from 'node:fs'; export default () => fs.readFileSync('/etc/passwd', 'utf8') + 'ESCAPED'".to_owned(),
        "export default () => require('fs').readFileSync('/etc/passwd') + 'ESCAPED'".to_owned(),
        "export default () => Deno.readTextFileSync('/etc/passwd') + 'ESCAPED'".to_owned(),
        "export default () => process.env.OPENAI_API_KEY + 'ESCAPED'".to_owned(),
        format!("export default async (a, ctx) => await ctx.read('{diary}')"),
        "export default async (a, ctx) => await ctx.read('../private/diary.txt')".to_owned(),
        "export default async (a, ctx) => await ctx.read('data/link.txt')".to_owned(),
        "export default async (a, ctx) => await ctx.read('/proc/self/environ') + 'ESCAPED'".to_owned(),
        "export default async (a, ctx) => await ctx.read('/proc/self/root/etc/passwd') + 'ESCAPED'".to_owned(),
        "export default async (a, ctx) => (await ctx.list('/')).join() + 'ESCAPED'".to_owned(),
        "export default async (a, ctx) => { await ctx.write('evil.txt', 'x'); return 'ESCAPED' }".to_owned(),
        "export default async (a, ctx) => await ctx.secret('GITHUB_TOKEN') + 'ESCAPED'".to_owned(),
        format!("export default async () => (await fetch('http://127.0.0.1:{port}/')).status + 'ESCAPED'"),
        format!("export default async () => (await fetch('http://2130706433:{port}/')).status + 'ESCAPED'"),
        format!("export default async () => (await fetch('http://[::ffff:127.0.0.1]:{port}/')).status + 'ESCAPED'"),
        format!("export default async () => (await fetch('http://localhost:{port}/')).status + 'ESCAPED'"),
        "export default async () => (await fetch('http://169.254.169.254/latest/meta-data')).status + 'ESCAPED'".to_owned(),
        "export default async () => (await fetch('file:///etc/passwd')).text() + 'ESCAPED'".to_owned(),
        "export default () => new Function('return this')().constructor.constructor('return process')().env + 'ESCAPED'"
            .to_owned(),
        "export default () => { let a = []; for (;;) a.push(new Uint8Array(1 << 20)); }".to_owned(),
        "export default () => { const f = () => f() + 1; return f(); }".to_owned(),
        "export default () => /^(a+)+$/.test('a'.repeat(40) + '!') + 'ESCAPED'".to_owned(),
        "export default () => { for (;;) console.log('x'.repeat(1e5)); }".to_owned(),
        "export default async () => { for (;;) await Promise.all(Array.from({ length: 1e4 }, async () => 1)); }".to_owned(),
        "export default () => new Promise(() => {})".to_owned(),
    ];
    for attack in &attacks {
        let ran = code(&home, "attack.ts", attack, &["--timeout", "1500"]);
        assert_eq!(ran.code, 1, "{attack}\n{}{}", ran.out, ran.err);
        denied(&ran, attack);
    }
    assert!(!home.file("ws/evil.txt").exists());
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
}

#[test]
fn a_grant_opens_what_it_names_and_nothing_beside_it() {
    let home = prepared();
    let read = |path: &str| format!("export default async (a, ctx) => await ctx.read('{path}')");
    let granted = code(&home, "read.ts", &read("data/a.txt"), &["--read", "data"]).ok();
    assert_eq!(granted.out, "public\n");
    for path in ["data/link.txt", "data/../../private/diary.txt", "linked/diary.txt", "data/hard.txt"] {
        let ran = code(&home, "read.ts", &read(path), &["--read", "data"]);
        // The hard link is to a key, which no name makes readable.
        denied(&ran, path);
        assert_eq!(ran.code, 1, "{path}");
    }
    let ran = code(&home, "read.ts", &read("linked/diary.txt"), &["--read", "linked"]);
    denied(&ran, "a folder that is a link");
    let hook = "export default async (a, ctx) => { await ctx.write('.git/hooks/pre-commit', 'x'); return 'ESCAPED' }";
    let ran = code(&home, "hook.ts", hook, &["--write", "."]);
    denied(&ran, "a git hook");
}

#[test]
fn python_reaches_nothing_that_was_not_granted() {
    let home = prepared();
    let diary = home.file("private/diary.txt");
    let diary = diary.to_str().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = |text: &str| format!("def run(args, ctx):\n    {text}\n");
    let attacks = [
        body(&format!("return open('{diary}').read()")),
        body("return open('../private/diary.txt').read()"),
        body("import os; return os.environ['OPENAI_API_KEY'] + 'ESCAPED'"),
        body("import os; return open('/proc/%d/environ' % os.getppid()).read() + 'ESCAPED'"),
        body(&format!("import os; return str(os.listdir('{}')) + 'ESCAPED'", home.dir.path().display())),
        body("open('/usr/evil', 'w').write('x'); return 'ESCAPED'"),
        body(&format!("import socket; socket.create_connection(('127.0.0.1', {port}), 1); return 'ESCAPED'")),
        body("import socket; socket.getaddrinfo('example.com', 80); return 'ESCAPED'"),
        body(
            "import urllib.request as u; return str(u.urlopen('http://169.254.169.254/', timeout=1).status) + 'ESCAPED'",
        ),
        body("import os, signal; os.kill(-1, signal.SIGKILL); return 'ESCAPED'"),
        body("import os; os.setuid(0) or os.mount; return open('/etc/shadow').read() + 'ESCAPED'"),
        body("import ctypes; r = ctypes.CDLL(None).ptrace(16, 1, 0, 0); assert r == 0; return 'ESCAPED'"),
        body("import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0; return 'ESCAPED'"),
        body("return 'x' * (1 << 33)"),
        body("\n    while True: pass"),
        body("\n    while True: print('x' * 100000)"),
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\ndef run(args, ctx): return f(0)\n"
            .to_owned(),
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\ndef run(args, ctx): return 'ESCAPED'\n"
            .to_owned(),
        body("import os; os.write(3, b'\\xff' * 100); return 1"),
        body("import os; os._exit(0)"),
        body("return float('nan')"),
        body("a = []; a.append(a); return a"),
        "def run(args, ctx)\n    return 1\n".to_owned(),
        "import no_such_package\ndef run(args, ctx): return 'ESCAPED'\n".to_owned(),
    ];
    for attack in &attacks {
        let ran = code(&home, "attack.py", attack, &["--timeout", "2000"]);
        assert_eq!(ran.code, 1, "{attack}\n{}{}", ran.out, ran.err);
        denied(&ran, attack);
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
    let fine =
        code(&home, "fine.py", "def run(args, ctx):\n    return {'水': args['n'] * 2}\n", &["--args", "{\"n\": 21}"]);
    assert_eq!(fine.ok().out, "{\"水\":42}\n");
}

fn exec(home: &Person, flags: &[&str], script: &str) -> Ran {
    in_workspace(home, &[&["sandbox", "exec"], flags, &["--", "sh", "-c", script]].concat())
}

#[test]
fn a_program_in_the_jail_reaches_nothing_but_its_workspace() {
    let home = prepared();
    let diary = home.file("private/diary.txt");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for attack in [
        format!("cat {}", diary.display()),
        "cat ../private/diary.txt".to_owned(),
        "cat data/link.txt".to_owned(),
        "cat ~/.ssh/id_ed25519; cat $HOME/.ssh/id_ed25519; ls ~root/.ssh && echo ESCAPED".to_owned(),
        format!("cat {}/.ssh/id_ed25519", home.dir.path().display()),
        "env; cat /proc/1/environ; cat /proc/$PPID/environ".to_owned(),
        "echo x > /etc/evil && echo ESCAPED".to_owned(),
        "echo x > /usr/evil && echo ESCAPED".to_owned(),
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit && echo ESCAPED".to_owned(),
        "echo x > .envrc && echo ESCAPED".to_owned(),
        "mv .git .git2 && echo ESCAPED".to_owned(),
        "cat /etc/shadow && echo ESCAPED".to_owned(),
        format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo ESCAPED"),
        format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 1); print(\"ESC\" + \"APED\")'"
        ),
        "test -S /run/docker.sock && echo ESCAPED".to_owned(),
        "mount -t tmpfs none /mnt && echo ESCAPED".to_owned(),
        "unshare -r id && echo ESCAPED".to_owned(),
        "kill -9 1; kill -9 -1; echo still".to_owned(),
        "chroot / id && echo ESCAPED".to_owned(),
        "mknod d b 8 0 && echo ESCAPED".to_owned(),
        "sudo -n id && echo ESCAPED; su -c id && echo ESCAPED".to_owned(),
        ":(){ :|:& };:".to_owned(),
        "while :; do echo yes; done".to_owned(),
        "cat /dev/zero > big".to_owned(),
        "cat /dev/zero > /tmp/big && echo ESCAPED".to_owned(),
        "trap '' TERM INT HUP; sleep 100".to_owned(),
        "(setsid sleep 321 &) ; sleep 0.2".to_owned(),
    ] {
        let ran = exec(&home, &["--timeout", "3000", "--processes", "64", "--file", "8", "--disk", "8"], &attack);
        denied(&ran, &attack);
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
    assert!(!home.file("ws/.git/hooks/pre-commit").exists());
    assert!(std::fs::metadata(home.file("ws/big")).map_or(0, |m| m.len()) <= 8 << 20);
    let left = home.jarvis.other("pgrep").args(["-f", "sleep 321"]).output().unwrap();
    assert!(left.stdout.is_empty(), "a process outlived its jail");
}

#[test]
fn the_presets_and_limits_are_what_they_say() {
    let home = prepared();
    let wrote = exec(&home, &[], "echo 水 > out.txt && cat out.txt && echo t > /tmp/t && cat /tmp/t").ok();
    assert_eq!(wrote.out, "水\nt\n");
    assert_eq!(std::fs::read_to_string(home.file("ws/out.txt")).unwrap(), "水\n");
    assert!(!home.file("ws/.envrc").exists(), "what protects a name is gone afterwards");
    let refused = exec(&home, &["--preset", "read-only"], "echo no > out.txt").failed(2, &["Read-only"]);
    assert!(refused.out.is_empty());
    let ran = exec(&home, &["--timeout", "500"], "echo part; sleep 60");
    assert_eq!((ran.code, ran.out.as_str()), (124, "part\n"));
    assert!(ran.err.contains("not finished in time"), "{}", ran.err);
    let ran = exec(&home, &["--output", "1000"], "yes");
    assert_eq!((ran.code, ran.out.len()), (124, 1000));
    assert_eq!(exec(&home, &[], "exit 7").code, 7);
    assert_eq!(exec(&home, &[], "kill -9 $$").code, 137);
    // Nobody is there to be asked.
    let _ = exec(&home, &["--preset", "full"], "true").failed(1, &["all your files", "--approve auto"]);
    let _ = exec(&home, &["--preset", "full", "--approve", "auto"], "true").ok();
    let _ = exec(&home, &["--timeout", "0"], "true").failed(1, &["limit timeout_ms = 0"]);
    let _ = exec(&home, &["--memory", "99999999999"], "true").failed(1, &["limit memory_mb"]);
    let _ = exec(&home, &["--allow-net", "a b c"], "true").failed(2, &["not a host pattern"]);
    let _ = in_workspace(&home, &["sandbox", "exec", "--", "no-such-program"]).failed(1, &["there is no program"]);
    let _ = in_workspace(&home, &["sandbox", "exec"]).failed(2, &["--shell"]);
    let input = Ran::of({
        let mut child = home
            .command(&["sandbox", "exec", "--stdin", "--", "wc", "-c"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"12345").unwrap();
        child.wait_with_output().unwrap()
    });
    assert_eq!(input.ok().out.trim(), "5");
    let env = exec(
        &home,
        &["--env", "GREETING=你好", "--env", "OPENAI_API_KEY"],
        "echo $GREETING; test -n \"$OPENAI_API_KEY\"",
    );
    assert_eq!(env.ok().out, "你好\n");
}

#[test]
fn each_run_is_on_the_audit_with_the_isolation_it_had() {
    let home = prepared();
    let _ = exec(&home, &[], "true").ok();
    let _ = code(&home, "one.ts", "export default () => 1", &[]).ok();
    let tail = home.jarvis.run(&["audit", "tail", "--json"]).ok();
    let entries: Vec<Value> = tail
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .flat_map(|line| line["entries"].as_array().cloned().unwrap_or_else(|| vec![line]))
        .collect();
    let outcomes: Vec<&Value> = entries.iter().filter(|e| e["kind"] == "outcome").collect();
    assert_eq!(outcomes.len(), 2, "{entries:?}");
    for outcome in outcomes {
        let layers = outcome["detail"]["isolation"].as_array().unwrap();
        assert!(layers.contains(&json!("seccomp")), "{layers:?}");
    }
    let json = in_workspace(&home, &["sandbox", "exec", "--json", "--", "echo", "水"]).ok().json();
    assert_eq!(json["stdout"], "水\n");
    assert!(json["isolation"].as_array().unwrap().contains(&json!("network: none")), "{json}");
}

#[test]
fn a_host_that_was_allowed_is_reached_by_the_proxy_and_counted() {
    let home = prepared();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::Read;
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").unwrap();
    });
    let fetch = |url: &str| format!("import urllib.request as u; print(u.urlopen('{url}', timeout=3).read().decode())");
    let allowed = format!("127.0.0.1:{port}");
    // The real one, where a version manager's script is first on PATH, and all that belongs to it.
    let told =
        home.jarvis.other("python3").args(["-c", "import sys; print(sys.executable); print(sys.prefix)"]).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    let (python, prefix) = told.trim().split_once('\n').unwrap();
    let flags = ["sandbox", "exec", "--json", "--allow-net", &allowed];
    let run = |url: &str| {
        let shown = if prefix == "/usr" { vec![] } else { vec!["--read", prefix] };
        in_workspace(&home, &[&flags[..], &shown, &["--", python, "-c", &fetch(url)]].concat())
    };
    let got = run(&format!("http://127.0.0.1:{port}/")).ok().json();
    server.join().unwrap();
    assert_eq!(got["stdout"], "hello\n", "{got}");
    assert_eq!(got["egress"][0]["requests"], 1, "{got}");
    let other = run("http://127.0.0.1:9/").json();
    assert_ne!(other["exit"]["code"], 0, "{other}");
    assert!(other["stderr"].as_str().unwrap().contains("403"), "{other}");
}

#[test]
fn what_goes_on_for_ever_is_not_read_as_code_or_arguments() {
    let home = prepared();
    home.write("ws/one.ts", "export default () => 1");
    std::os::unix::fs::symlink("/dev/zero", home.file("ws/zero.ts")).unwrap();
    assert!(home.jarvis.other("mkfifo").arg(home.file("ws/pipe.ts")).status().unwrap().success());
    for file in ["/dev/zero", "zero.ts", "pipe.ts", "/dev"] {
        let _ = in_workspace(&home, &["sandbox", "run", file]).failed(2, &[file]);
        let at = format!("@{file}");
        let _ = in_workspace(&home, &["sandbox", "run", "one.ts", "--args", &at]).failed(2, &[file]);
        let _ = in_workspace(&home, &["cap", "register", "--definition", file, "--code", "one.ts"]).failed(2, &[file]);
    }
    home.write("ws/long.ts", &"x".repeat(17 << 20));
    let _ = in_workspace(&home, &["sandbox", "run", "long.ts"]).failed(2, &["longer than 16 MiB"]);
}
