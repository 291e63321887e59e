//! `runtime: "deno"` with the person's own Deno in the jail. `JARVIS_TEST_DENO` names the binary.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod jailed;

use jailed::{config, gives, permit, plan, run_plan, runtimes, words};
use jarvis_protocol::{Execution, ExitClass, Fixed, Grants, Limits, Runtime};
use jarvis_sandbox::{Access, Executor};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn sandbox() -> Option<Executor> {
    let runtimes = runtimes();
    if runtimes.deno.is_none() {
        jarvis_testkit::skipped("the deno runtime: JARVIS_TEST_DENO names no deno (npm install --prefix DIR deno)");
        return None;
    }
    Some(Executor::with_runtimes(config(0), Access::default(), runtimes))
}

async fn run(sandbox: &Executor, code: &str, args: Value) -> Execution {
    run_plan(sandbox, plan(Runtime::Deno, code, args)).await
}

#[tokio::test]
async fn a_capability_runs_in_deno_as_in_the_embedded_engine() {
    let Some(sandbox) = sandbox() else { return };
    for (code, right) in [
        (
            "export default function run({ a, b }: { a: number, b: number }) { console.log('水'); return { product: a * b } }",
            json!({"product": 42}),
        ),
        ("function multiply(a, b) { return a * b }", json!(42)),
        ("console.log(args.a * args.b);", json!(42)),
        ("setTimeout(() => console.log(args.a * args.b), 5);", json!(42)),
        (
            "export default async (args, ctx) => { await new Promise(r => setTimeout(r, 5)); return [typeof args.big, args.big, new Date(0), new Map([[1, 2]])] }",
            json!(["bigint", "9007199254740993", "1970-01-01T00:00:00.000Z", {"1": 2}]),
        ),
        (
            "export default () => new Intl.NumberFormat('de-DE', { style: 'currency', currency: 'EUR' }).format(1234.5)",
            json!("1.234,50\u{a0}€"),
        ),
        ("export default () => ['张', '李', '王'].sort(new Intl.Collator('zh').compare)", json!(["李", "王", "张"])),
    ] {
        let done = run(&sandbox, code, json!({"a": 6, "b": 7, "big": 9007199254740993i64})).await;
        gives(&done, right, code);
    }
    let done = run(&sandbox, "export default () => { console.log('水', 1); return 1 }", json!({})).await;
    assert_eq!(done.printed, "水 1\n");
    for layer in ["mount namespace", "network: none", "seccomp"] {
        assert!(done.isolation.iter().any(|l| l == layer), "{:?}", done.isolation);
    }
}

#[tokio::test]
async fn errors_name_the_persons_own_line() {
    let Some(sandbox) = sandbox() else { return };
    for (code, name, line) in [
        (
            "interface A { x: number }\nexport default function run(args: A) {\n  return args.x.y.z;\n}",
            "TypeError",
            Some(3),
        ),
        ("class Own extends Error { name = 'Own' }\nexport default () => {\n  throw new Own('x');\n}", "Own", Some(3)),
        ("export default async () => {\n\n  await Promise.reject(new RangeError('x'));\n}", "RangeError", Some(3)),
        ("export default () => new Promise(() => {})", "Error", None),
        (
            "export default () => { Promise.reject(new EvalError('x')); return new Promise(r => setTimeout(r, 50)) }",
            "EvalError",
            Some(1),
        ),
        ("export default () => undefined", "TypeError", None),
        ("export default () => NaN", "RangeError", None),
        ("export default () => { const a = []; a.push(a); return a }", "TypeError", None),
    ] {
        let done = run(&sandbox, code, json!({})).await;
        let error = done.error.clone().unwrap_or_else(|| panic!("{code}: {done:?}"));
        assert_eq!((done.exit, error.name.as_str()), (ExitClass::Threw, name), "{code}: {error:?}");
        assert!(line.is_none() || error.line == line, "{code}: {error:?}");
    }
    let done = run(&sandbox, "export default () => {", json!({})).await;
    assert_eq!(done.exit, ExitClass::Rejected);
}

#[tokio::test]
async fn the_broker_serves_deno_and_refuses_what_is_not_granted() {
    if sandbox().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.txt"), "水").unwrap();
    let access = Access { workspace: Some(folder.path().to_owned()), ..Access::default() };
    let sandbox = Executor::with_runtimes(config(0), access, runtimes());
    let code = "export default async (args, ctx) => { await ctx.write('out', 'x'); return [await ctx.read('in.txt'), (await ctx.list()).length, (await Promise.all(Array.from({ length: 30 }, () => ctx.read('in.txt')))).length, await ctx.read('/etc/passwd').catch(e => e.name), await fetch('https://example.com/').catch(e => e.name), await ctx.write('out', new Uint8Array([230, 176, 180])), await ctx.read('out')] }";
    let mut plan = plan(Runtime::Deno, code, json!({}));
    plan.grants = Grants { read: vec![".".to_owned()], write: vec!["out".to_owned()], ..Grants::default() };
    gives(
        &run_plan(&sandbox, plan).await,
        json!(["水", 2, 30, "PermissionError", "PermissionError", null, "水"]),
        code,
    );
}

#[tokio::test]
async fn deno_has_no_permission_and_no_way_out() {
    let Some(sandbox) = sandbox() else { return };
    let harmless = "const load = new Function('s', 'return import(s)');\nexport default async () => (await load('node:path')).basename('/a/b')";
    gives(&run(&sandbox, harmless, json!({})).await, json!("b"), "what needs no permission works");
    for code in [
        "(await import('node:fs')).readFileSync('/etc/hostname')",
        "(await import('node:fs')).readdirSync('/')",
        "(await import('node:child_process')).execSync('id')",
        "(await import('node:child_process')).spawnSync('/bin/sh', ['-c', 'id']).error && (() => { throw 1 })()",
        "(await import('node:net')).connect(80, '1.1.1.1') && await new Promise((_, no) => setTimeout(no, 500))",
        "(await import('node:os')).hostname()",
        "(await import('node:process')).env.HOME",
        "(await import('node:fs')).writeFileSync('/tmp/x', 'x')",
        "await import('https://example.com/x.js')",
        "await import('npm:left-pad')",
        "await import('jsr:@std/path')",
        "await import('file:///etc/passwd')",
        "await (0, eval)(\"import('/etc/passwd')\")",
        "new Worker('data:text/javascript,Deno.readTextFileSync(\"/etc/passwd\")', { type: 'module', deno: { permissions: 'inherit' } }) && await new Promise((_, no) => setTimeout(no, 300))",
        "new WebSocket('ws://127.0.0.1:1/') && await new Promise((_, no) => setTimeout(no, 300))",
        "Deno.readTextFileSync('/etc/passwd')",
        "process.env.PATH",
    ] {
        let indirect = code.replace("import(", "load(");
        let code = format!(
            "const load = new Function('s', 'return import(s)');\nexport default async () => {{ const x = {indirect}; return 'reached' }}"
        );
        let mut plan = plan(Runtime::Deno, &code, json!({}));
        plan.limits.timeout_ms = 5000;
        let done = run_plan(&sandbox, plan).await;
        assert!(done.exit != ExitClass::Ok, "{code}: {done:?}");
    }
}

#[tokio::test]
async fn bombs_in_deno_are_stopped() {
    let Some(sandbox) = sandbox() else { return };
    for (code, allowed) in [
        ("export default () => { console.log('on'); for (;;); }", &[ExitClass::Timeout][..]),
        (
            "export default () => { console.log('on'); return /^(a+)+$/.test('a'.repeat(40) + 'b') }",
            &[ExitClass::Timeout],
        ),
        (
            "export default () => { console.log('on'); const a = []; for (;;) a.push(new Array(10000).fill(1)) }",
            &[ExitClass::Memory],
        ),
        (
            "export default () => { console.log('on'); const a = []; for (;;) a.push(new Uint8Array(1 << 24).fill(1)) }",
            &[ExitClass::Memory, ExitClass::Threw],
        ),
        ("export default () => { for (;;) console.log('on'); }", &[ExitClass::Output]),
        ("export default () => { console.log('on'); return 'x'.repeat(20000) }", &[ExitClass::Output]),
        ("export default () => { console.log('on'); const f = (n) => f(n + 1) + 1; return f(0) }", &[ExitClass::Threw]),
    ] {
        let mut plan = plan(Runtime::Deno, code, json!({}));
        plan.limits = Limits { timeout_ms: 3000, memory_mb: 64, output_bytes: 10_000 };
        let started = Instant::now();
        let done = run_plan(&sandbox, plan).await;
        assert!(
            allowed.contains(&done.exit) && done.printed.starts_with("on\n"),
            "{code}: {:?} {}",
            done.exit,
            words(&done)
        );
        assert!(started.elapsed() < Duration::from_secs(8), "{code}");
    }
}

#[tokio::test]
async fn chance_and_time_stand_still_when_they_are_fixed() {
    let Some(sandbox) = sandbox() else { return };
    let mut plan = plan(
        Runtime::Deno,
        "export default () => [Math.random(), Date.now(), new Date(), new Date(5).getTime()]",
        json!({}),
    );
    plan.fixed = Some(Fixed { random_seed: 7, now_ms: 1_600_000_000_123 });
    let (first, second) = (run_plan(&sandbox, plan.clone()).await, run_plan(&sandbox, plan).await);
    assert_eq!((first.exit, &first.result), (ExitClass::Ok, &second.result), "{}", words(&first));
    assert_eq!(
        first.result.unwrap().as_array().unwrap()[1..],
        [json!(1_600_000_000_123i64), json!("2020-09-13T12:26:40.123Z"), json!(5)]
    );
}

#[tokio::test]
async fn without_a_deno_there_is_an_error_that_says_how_to_get_it() {
    let mut none = runtimes();
    none.deno = None;
    let sandbox = Executor::with_runtimes(config(0), Access::default(), none);
    let plan = plan(Runtime::Deno, "export default () => 1", json!({}));
    let error = sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap_err();
    assert!(error.hint().unwrap().contains("npm install -g deno"), "{error}");
}
