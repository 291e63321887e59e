//! Attacks from inside Python code, through the real interpreter in the jail in its default configuration.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod jailed;
mod jails;

use jailed::{body, gives, indented, permit, plan, python, run_plan, sandbox, words};
use jarvis_protocol::{Execution, ExitClass, Limits, Runtime};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const SHORT: Limits = Limits { timeout_ms: 1000, memory_mb: 64, output_bytes: 10_000 };

async fn short(body: &str) -> Execution {
    let mut plan = plan(Runtime::Python, &format!("def run(args, ctx):\n{}", indented(body)), json!({}));
    plan.limits = SHORT;
    let started = Instant::now();
    let done = run_plan(&sandbox(), plan).await;
    assert!(started.elapsed() < Duration::from_secs(8), "{body} took {:?}", started.elapsed());
    done
}

/// What the host has and the code must not see; the name of each comes back when it was reached.
const FILES: &str = r#"
import os, sys
found = []
tries = ["/etc/shadow", "/etc/hostname", "/etc/machine-id", "/etc/ssh", "/root", "/home", "/var", "/run", "/sys", "/boot", "/proc/1/root/etc/hostname",
  "/proc/self/root/etc/hostname", "/proc/self/cwd/etc/hostname", "/proc/1/environ", "/proc/kcore", "/proc/kmsg",
  "/dev/sda", "/dev/mem", "/dev/kmsg", "/dev/tty", "/var/run/docker.sock", "../../../../etc/hostname", "/tmp/../etc/hostname",
  "/usr/../etc/hostname", "/bin/../etc/shadow", "/proc/self/fd/4", "/proc/self/fd/5"] + args["paths"]
for path in tries:
    for name in (path, os.path.join(os.getcwd(), path)):
        try:
            # The interpreter's own place shows, and nothing beside it.
            own = (os.path.realpath(sys.base_prefix) + "/", "/var/tmp/")
            seen = [one for one in os.listdir(name) if not any(o.startswith(os.path.join(os.path.realpath(name), one) + "/") for o in own)] \
                if os.path.isdir(name) else open(name, "rb").read(4)
            if seen: found.append(name)
        except OSError: pass
os.symlink("/etc/hostname", "/tmp/link")
try:
    open("/tmp/link").read(); found.append("link")
except OSError: pass
for call in (lambda: os.link("/etc/passwd", "/tmp/hard"), lambda: os.mknod("/tmp/dev", 0o60600, os.makedev(8, 0)),
             lambda: os.chroot("/tmp"), lambda: os.mkdir("/x"), lambda: open("/usr/x", "w"), lambda: open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/x"), lambda: open(os.__file__, "a"),
             lambda: os.remove(os.__file__), lambda: os.chmod(os.__file__, 0o777), lambda: os.rename(os.__file__, "/tmp/os.py"),
             lambda: open(__import__("sys").executable, "r+b")):
    try:
        call(); found.append("call")
    except OSError: pass
found += [x for x in os.environ if x not in ("LANG", "TZ", "HOME", "TMPDIR", "LC_CTYPE")]
return found
"#;

#[tokio::test]
async fn no_file_of_the_host_can_be_seen_or_changed() {
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("secret"), "x").unwrap();
    let here = std::env::current_dir().unwrap();
    let paths = json!([secret.path(), secret.path().join("secret"), here, here.join("Cargo.toml")]);
    let done = python(&sandbox(), &format!("def run(args, ctx):\n{}", indented(FILES)), json!({"paths": paths})).await;
    gives(&done, json!([]), "files");
}

#[tokio::test]
async fn what_a_run_writes_is_gone_with_it() {
    let sandbox = sandbox();
    let code = "import os\nseen = os.listdir('/tmp')\nopen('/tmp/left', 'w').write('x')\nreturn [s for s in seen if s != 'home']";
    for _ in 0..2 {
        gives(&body(&sandbox, code).await, json!([]), code);
    }
    assert!(!std::path::Path::new("/tmp/left").exists());
}

#[tokio::test]
async fn descriptors_beside_the_channel_are_closed() {
    let held = std::fs::File::open("/etc/passwd").unwrap();
    let code = "import os\nopen_ones = []\nfor fd in range(256):\n    try:\n        os.fstat(fd); open_ones.append(fd)\n    except OSError: pass\nreturn open_ones";
    gives(&body(&sandbox(), code).await, json!([0, 1, 2, 3]), code);
    drop(held);
}

/// Each statement must raise, or do nothing that counts; `reached` is the only failure.
#[tokio::test]
async fn there_is_no_network() {
    let sandbox = sandbox();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for code in [
        format!("socket.create_connection(('127.0.0.1', {port}), 2)"),
        format!("socket.create_connection(('localhost', {port}), 2)"),
        format!("socket.create_connection(('::1', {port}), 2)"),
        "socket.create_connection(('1.1.1.1', 53), 2)".to_owned(),
        "socket.create_connection(('169.254.169.254', 80), 2)".to_owned(),
        "socket.create_connection((2130706433, 80), 2)".to_owned(),
        "socket.getaddrinfo('example.com', 80)".to_owned(),
        "socket.gethostbyname('example.com')".to_owned(),
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))".to_owned(),
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)".to_owned(),
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)".to_owned(),
        "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).bind(('hash', 'sha256'))".to_owned(),
        "socket.socket(40, socket.SOCK_STREAM).connect((2, 22))".to_owned(),
        "socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket')".to_owned(),
        "socket.socket(socket.AF_UNIX).connect('\\0/tmp/.X11-unix/X0')".to_owned(),
        "__import__('urllib.request').request.urlopen('http://example.com/', timeout=2)".to_owned(),
    ] {
        let done = body(&sandbox, &format!("import socket\n{code}\nreturn 'reached'")).await;
        assert!(done.exit != ExitClass::Ok, "{code}: {done:?}");
    }
    let done = body(&sandbox, "import urllib.request\nurllib.request.urlopen('http://example.com/')\nreturn 1").await;
    assert!(words(&done).contains("use ctx.fetch"), "{}", words(&done));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody came");
}

#[tokio::test]
async fn no_system_call_leads_out() {
    let sandbox = sandbox();
    // The number of a call on this machine, and three arguments; -1 is the only right answer.
    let calls: Vec<(&str, i64, [i64; 3])> = vec![
        ("ptrace", libc::SYS_ptrace, [16, 1, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0]),
        ("unshare user", libc::SYS_unshare, [0x1000_0000, 0, 0]),
        ("unshare net", libc::SYS_unshare, [0x4000_0000, 0, 0]),
        ("setns", libc::SYS_setns, [3, 0, 0]),
        ("pivot_root", libc::SYS_pivot_root, [0, 0, 0]),
        ("bpf", libc::SYS_bpf, [0, 0, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, [0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, [0, -3, 1]),
        ("add_key", libc::SYS_add_key, [0, 0, 0]),
        ("kexec_load", libc::SYS_kexec_load, [0, 0, 0]),
        ("reboot", libc::SYS_reboot, [0, 0, 0]),
        ("swapon", libc::SYS_swapon, [0, 0, 0]),
        ("init_module", libc::SYS_init_module, [0, 0, 0]),
        ("setuid of another", libc::SYS_setuid, [12345, 0, 0]),
        ("open_tree", libc::SYS_open_tree, [-100, 0, 1]),
        ("fsopen", libc::SYS_fsopen, [0, 0, 0]),
        ("clone into a user namespace", libc::SYS_clone, [0x1000_0011, 0, 0]),
        ("syslog", libc::SYS_syslog, [3, 0, 0]),
        ("acct", libc::SYS_acct, [0, 0, 0]),
    ];
    let table: Vec<_> = calls.iter().map(|(name, number, args)| json!([name, number, args])).collect();
    let code = "import ctypes\ndef run(calls):\n    libc = ctypes.CDLL(None, use_errno=True)\n    libc.syscall.restype = ctypes.c_long\n    return [name for name, number, args in calls if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, args), ctypes.c_long(0), ctypes.c_long(0)) != -1]";
    let done = python(&sandbox, code, json!({"calls": table})).await;
    gives(&done, json!([]), "system calls");
}

#[tokio::test]
async fn other_processes_cannot_be_reached_or_started() {
    let sandbox = sandbox();
    let me = std::process::id();
    for code in [
        format!("os.kill({me}, 9)"),
        format!("os.kill({me}, 0)"),
        "os.setuid(12345)".to_owned(),
        "os.setgroups([0])".to_owned(),
        "os.setpriority(os.PRIO_PROCESS, 0, -20)".to_owned(),
        "subprocess.run(['/nonexistent'], check=True)".to_owned(),
        "subprocess.run(['sudo', 'id'], check=True)".to_owned(),
        "__import__('resource').setrlimit(__import__('resource').RLIMIT_NOFILE, (10**6, 10**6))".to_owned(),
        "os.open('/proc/1/mem', os.O_RDWR)".to_owned(),
        "__import__('fcntl').ioctl(0, 0x5412, b'x')".to_owned(),
    ] {
        let done = body(&sandbox, &format!("import os, subprocess\n{code}\nreturn 'reached'")).await;
        assert!(done.exit != ExitClass::Ok, "{code}: {done:?}");
    }
    // The first process of the jail is all there is beside itself.
    let done = body(&sandbox, "import os\nreturn sorted(int(p) for p in os.listdir('/proc') if p.isdigit()) if os.path.isdir('/proc/1') else [1]").await;
    assert!(done.result.as_ref().and_then(|r| r.as_array()).is_some_and(|all| all.len() <= 2), "{done:?}");
}

#[tokio::test]
async fn bombs_are_stopped() {
    for (code, allowed) in [
        ("while True: pass", &[ExitClass::Timeout][..]),
        ("import time\ntime.sleep(1e6)", &[ExitClass::Timeout]),
        ("try:\n    while True: pass\nfinally:\n    while True: pass", &[ExitClass::Timeout]),
        (
            "import signal\n[signal.signal(s, signal.SIG_IGN) for s in (2, 15, 24)]\nwhile True: pass",
            &[ExitClass::Timeout],
        ),
        ("return 10**(10**9)", &[ExitClass::Timeout, ExitClass::Memory]),
        ("import re\nreturn re.match('(a+)+$', 'a' * 40 + 'b')", &[ExitClass::Timeout]),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", &[ExitClass::Memory]),
        ("return len(bytearray(1 << 31) + b'x')", &[ExitClass::Memory]),
        ("return len('x' * (1 << 40))", &[ExitClass::Memory]),
        ("import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1", &[ExitClass::Memory]),
        (
            "try:\n    x = []\n    while True: x.append(' ' * 10**6)\nexcept MemoryError:\n    x.append(bytearray(1 << 30))",
            &[ExitClass::Memory],
        ),
        ("while True: print('水' * 100)", &[ExitClass::Output]),
        ("import os\nwhile True: os.write(1, b'x' * 1000)", &[ExitClass::Output]),
        ("import os\nwhile True: os.write(2, b'x' * 1000)", &[ExitClass::Output]),
        ("return 'x' * 20000", &[ExitClass::Output]),
        ("print('x' * 6000)\nreturn 'x' * 6000", &[ExitClass::Output]),
        (
            "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
            &[ExitClass::Timeout, ExitClass::Memory, ExitClass::Crashed],
        ),
        (
            "import threading\nwhile True:\n    try: threading.Thread(target=lambda: __import__('time').sleep(1e6)).start()\n    except RuntimeError: pass",
            &[ExitClass::Timeout, ExitClass::Memory, ExitClass::Crashed],
        ),
        (
            "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
            &[ExitClass::Threw, ExitClass::Crashed, ExitClass::Memory],
        ),
        (
            "import os\ni = 0\nwhile True:\n    open(f'/tmp/{i}', 'w').close()\n    i += 1",
            &[ExitClass::Threw, ExitClass::Timeout],
        ),
        ("import os\nfds = []\nwhile True: fds.append(os.dup(0))", &[ExitClass::Threw]),
    ] {
        let done = short(code).await;
        assert!(allowed.contains(&done.exit), "{code}: {:?} {}", done.exit, words(&done));
        assert!(done.printed.len() <= 10_000 && done.result.is_none(), "{code}");
        assert!(done.peak_memory_kb < 400 << 10, "{code}: {} KiB", done.peak_memory_kb);
    }
}

#[tokio::test]
async fn crashes_and_early_ends_are_told_as_such() {
    for (code, exit, expected) in [
        ("import os\nos._exit(3)", ExitClass::Crashed, "exit code 3"),
        ("import os\nos._exit(0)", ExitClass::Crashed, "before it returned"),
        ("import os\nos.abort()", ExitClass::Crashed, "signal 6"),
        ("import os\nos.kill(os.getpid(), 9)", ExitClass::Crashed, "signal 9"),
        ("import ctypes\nctypes.string_at(1)", ExitClass::Crashed, "not its own"),
        (
            "import sys\nsys.setrecursionlimit(10**9)\nf = lambda x: repr(x)\nclass A:\n    def __repr__(self): return repr(self)\nreturn repr(A())",
            ExitClass::Crashed,
            "died",
        ),
        ("import sys\nsys.exit(0)", ExitClass::Threw, "sys.exit"),
        ("raise SystemExit", ExitClass::Threw, "sys.exit"),
        ("import os\nos.close(3)", ExitClass::Crashed, "died"),
        ("import os, signal\nos.kill(0, signal.SIGKILL)", ExitClass::Crashed, "died"),
    ] {
        let done = short(code).await;
        assert!(
            done.exit == exit
                || exit == ExitClass::Crashed && done.exit == ExitClass::Memory && code.contains("recursion"),
            "{code}: {:?} {}",
            done.exit,
            words(&done)
        );
        assert!(words(&done).contains(expected) || done.exit == ExitClass::Memory, "{code}: {}", words(&done));
    }
}

#[tokio::test]
async fn nothing_survives_the_last_word() {
    let marker = "jarvis-survivor-test";
    for code in [
        // It tells that it lives and what it is called before the run ends.
        format!(
            "import os, time, ctypes\nr, w = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        try:\n            os.close(3)\n            ctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)\n            os.write(w, b'x')\n            time.sleep(600)\n        finally:\n            os._exit(0)\n    os._exit(0)\nreturn len(os.read(r, 1))",
            &marker[..15]
        ),
        "import atexit, time\natexit.register(lambda: time.sleep(600))\nreturn 1".to_owned(),
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nreturn 1".to_owned(),
        "class A:\n    def __del__(self):\n        while True: pass\nglobal keep\nkeep = A()\nreturn 1".to_owned(),
        "import sys\nsys.excepthook = sys.unraisablehook = print\nimport gc\ngc.callbacks.append(lambda *a: 1/0)\nreturn 1".to_owned(),
    ] {
        let started = Instant::now();
        let done = short(&code).await;
        gives(&done, json!(1), &code);
        assert!(started.elapsed() < Duration::from_secs(3), "{code}");
    }
    let alive = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|p| std::fs::read_to_string(p.path().join("comm")).is_ok_and(|c| c.trim() == &marker[..15]));
    assert!(!alive, "a daemon lives on");
}

#[tokio::test]
async fn frames_written_by_hand_break_only_the_run_that_writes_them() {
    const HEAD: &str = "import os, json, struct\ndef frame(kind, data): os.write(3, struct.pack('<IB', len(data) + 1, kind) + data)\ndone = lambda **k: frame(7, json.dumps({'exit': 'ok', 'fault': None, 'cpu_us': 1, 'peak_memory_kb': 1, **k}).encode())\n";
    for (code, exits) in [
        ("os.write(3, b'\\xff\\xff\\xff\\xff\\x03garbage')\nimport time; time.sleep(5)", &[ExitClass::Crashed][..]),
        ("os.write(3, b'\\0\\0\\0\\0\\x03')", &[ExitClass::Crashed]),
        ("os.write(3, b'GET / HTTP/1.1\\r\\n\\r\\n')", &[ExitClass::Crashed]),
        ("frame(99, b'x')", &[ExitClass::Crashed]),
        ("frame(2, b'{}')", &[ExitClass::Crashed]),
        ("frame(5, b'{}')", &[ExitClass::Crashed]),
        ("frame(1, b'{}')", &[ExitClass::Crashed]),
        ("frame(8, b'open a file')", &[ExitClass::Crashed]),
        ("frame(4, b'\\1')", &[ExitClass::Crashed]),
        ("frame(4, b'\\1\\0\\0\\0\\xff\\xff\\xff\\xff')", &[ExitClass::Crashed]),
        ("frame(6, b'{not json')", &[ExitClass::Crashed]),
        ("frame(6, b'1'); frame(6, b'2')", &[ExitClass::Crashed]),
        ("frame(6, b'[' * 4000 + b']' * 4000); done()", &[ExitClass::Crashed]),
        ("done()", &[ExitClass::Crashed]),
        ("frame(7, b'{}')", &[ExitClass::Crashed]),
        ("done(exit='great')", &[ExitClass::Crashed]),
        ("os.write(3, b'\\x10\\0\\0\\0\\x03half')\nimport time; time.sleep(5)", &[ExitClass::Timeout]),
        ("while True: frame(3, b'x' * 900)", &[ExitClass::Output]),
        ("while True: frame(3, b'')", &[ExitClass::Timeout]),
        (
            "while True: frame(4, struct.pack('<II', 1, 35) + b'{\"op\":\"read\",\"path\":\"/etc/passwd\"}  ')",
            &[ExitClass::Timeout],
        ),
        ("frame(6, b'\"' + b'x' * 20000 + b'\"'); done()", &[ExitClass::Output]),
        ("done(exit='timeout', fault={'name': 'x', 'message': 'y', 'stack': '99999999999:x'})", &[ExitClass::Timeout]),
    ] {
        let done = short(&format!("{HEAD}{code}\nreturn 'mine'")).await;
        assert!(exits.contains(&done.exit) && done.result.is_none(), "{code}: {:?} {}", done.exit, words(&done));
    }
    // A forged answer is only its own; what it cost is the kernel's word.
    let done = short(&format!("{HEAD}x = sum(range(3000000))\nframe(6, b'\"forged\"')\ndone()\nreturn 1")).await;
    gives(&done, json!("forged"), "forged");
    assert!(done.cpu_us > 1000 && done.peak_memory_kb > 1000, "{done:?}");
    // Requests go through the same checks however they are written.
    let code = "frame(4, struct.pack('<II', 7, 34) + b'{\"op\":\"read\",\"path\":\"/etc/passwd\"}')\nreturn os.read(3, 4096)[13:].decode()";
    let done = short(&format!("{HEAD}{code}")).await;
    assert!(done.result.unwrap().as_str().unwrap().contains("PermissionError"));
}

#[tokio::test]
async fn spoiling_the_interpreter_does_not_spoil_the_result() {
    let code = "import builtins, json, sys, gc\nbuiltins.isinstance = lambda *a: False\nbuiltins.str = builtins.float = builtins.len = None\nbuiltins.enumerate = lambda *a: []\njson.dumps = lambda *a: '\"forged\"'\nsys.modules.clear()\nsys.stdout = None\nreturn {'list': [1, 2], 'text': 'x'}";
    gives(&short(code).await, json!({"list": [1, 2], "text": "x"}), code);
}

#[tokio::test]
async fn a_cancelled_run_ends_soon_and_keeps_what_it_printed() {
    let sandbox = sandbox();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let code = "def run(args):\n    print('on')\n    while True: pass";
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        stop.cancel();
    });
    let started = Instant::now();
    let done = sandbox.run(permit(plan(Runtime::Python, code, json!({}))), &cancel).await.unwrap();
    assert_eq!((done.exit, done.printed.as_str()), (ExitClass::Cancelled, "on\n"));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn all_of_this_holds_for_an_ordinary_user() {
    jails::again_as_nobody("all_of_this_holds_for_an_ordinary_user");
}
