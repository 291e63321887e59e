//! Code that calls other code by name: what reaches whoever runs it, what comes back, and what ends it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::{permit, plan};
use futures::future::BoxFuture;
use jarvis_protocol::{ExecPlan, Execution, ExitClass, Limits, Runtime, ScriptError};
use jarvis_sandbox::{Access, Caller, Executor, MOST_DEPTH, Nesting, Runtimes, SandboxConfig, Wanted};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn deno() -> Option<PathBuf> {
    std::env::var_os("JARVIS_TEST_DENO").map(PathBuf::from)
}

fn executor(max_workers: usize) -> Executor {
    let config = SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis-worker-test").into(), pool: 1, max_workers };
    let env = ["PATH", "HOME"].iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?))).collect();
    let runtimes = Runtimes { python: find("python3"), deno: deno(), env, ..Runtimes::default() };
    Executor::with_runtimes(config, Access::default(), runtimes)
}

/// Answers by name, and notes what it saw.
#[derive(Default)]
struct Fake {
    seen: Mutex<Vec<Wanted>>,
    running: AtomicUsize,
    most: AtomicUsize,
    dropped: AtomicUsize,
}

struct Guard<'a>(&'a Fake, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.fetch_add(usize::from(!self.1), Ordering::SeqCst);
    }
}

impl Caller for Fake {
    fn call(&self, wanted: Wanted) -> BoxFuture<'_, Result<Value, ScriptError>> {
        Box::pin(async move {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let mut guard = Guard(self, false);
            self.seen.lock().unwrap().push(wanted.clone());
            let answer = match wanted.name.as_str() {
                "slow" => {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok(Value::Null)
                }
                "fails" => Err(ScriptError::new("CapabilityError", "`fails` failed: RangeError: 水")),
                "missing" => Err(ScriptError::new("NotFoundError", "no capability is called `missing`")),
                "denied" => Err(ScriptError::new("PermissionError", "denied")),
                "large" => Ok(json!("x".repeat(17 << 20))),
                _ => {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    Ok(json!({"args": wanted.args, "__proto__": {"hidden": 1}}))
                }
            };
            guard.1 = true;
            answer
        })
    }
}

async fn run_as(runtime: Runtime, code: &str, limits: Limits, caller: &dyn Caller) -> Execution {
    run_on(&executor(4), ExecPlan { runtime, limits, ..plan(code, json!({})) }, caller, &CancellationToken::new()).await
}

async fn run_on(executor: &Executor, plan: ExecPlan, caller: &dyn Caller, cancel: &CancellationToken) -> Execution {
    executor.run_among(permit(plan), Some(Nesting { caller, depth: 0 }), cancel).await.unwrap()
}

const LIMITS: Limits = Limits { timeout_ms: 10_000, ..Limits::STANDARD };

async fn typescript(body: &str) -> Execution {
    let code = format!("export default async function run(args, ctx) {{ {body} }}");
    run_as(Runtime::Typescript, &code, LIMITS, &Fake::default()).await
}

#[tokio::test]
async fn what_another_one_returned_comes_back_in_every_runtime() {
    let ts = "export default async function run(args, ctx) {
        const one = await capability('one', { n: 1, text: '水', list: [1, { a: null }], when: new Date(0) });
        const two = await ctx.call('two');
        return [one.args, two.args, Object.keys(one).length, one.hidden === undefined];
    }";
    let expected =
        json!([{"n": 1, "text": "水", "list": [1, {"a": null}], "when": "1970-01-01T00:00:00.000Z"}, {}, 2, true]);
    let mut runtimes = vec![Runtime::Typescript];
    match deno() {
        Some(_) => runtimes.push(Runtime::Deno),
        None => jarvis_testkit::skipped("calls in Deno: JARVIS_TEST_DENO names no deno"),
    }
    for runtime in runtimes {
        let done = run_as(runtime, ts, LIMITS, &Fake::default()).await;
        assert_eq!(done.result, Some(expected.clone()), "{runtime:?}: {}", done.failure());
    }
    for code in [
        "def run(args, ctx):\n    one = ctx.call('one', {'n': 1}, text='水')\n    return [one['args'], capability('two')['args']]",
        "async def run(args, ctx):\n    one = await ctx.call('one', {'n': 1, 'text': '水'})\n    return [one['args'], (await capability('two'))['args']]",
        "import asyncio\nasync def run(args, ctx):\n    a, b = await asyncio.gather(capability('one', {'n': 1, 'text': '水'}), capability('two'))\n    return [a['args'], b['args']]",
        "ONE = capability('one', {'n': 1, 'text': '水'})\ndef run():\n    return [ONE['args'], {}]",
    ] {
        let done = run_as(Runtime::Python, code, LIMITS, &Fake::default()).await;
        assert_eq!(done.result, Some(json!([{"n": 1, "text": "水"}, {}])), "{code}: {}", done.failure());
    }
}

#[tokio::test]
async fn a_call_that_fails_is_an_error_that_can_be_caught_by_its_name() {
    let ts = "export default async function run() {
        const out = [];
        for (const name of ['fails', 'missing', 'denied']) {
            try { await capability(name, {}); } catch (e) { out.push([e.name, e.message, e instanceof Error]); }
        }
        return out;
    }";
    let expected = json!([
        ["CapabilityError", "`fails` failed: RangeError: 水", true],
        ["NotFoundError", "no capability is called `missing`", true],
        ["PermissionError", "denied", true],
    ]);
    let done = run_as(Runtime::Typescript, ts, LIMITS, &Fake::default()).await;
    assert_eq!(done.result, Some(expected), "{}", done.failure());
    let python = "def run(args, ctx):
    out = []
    for name in ('fails', 'missing', 'denied'):
        try:
            ctx.call(name)
        except (CapabilityError, LookupError, PermissionError) as e:
            out.append([type(e).__name__, str(e)])
    return out";
    let done = run_as(Runtime::Python, python, LIMITS, &Fake::default()).await;
    let expected = json!([
        ["CapabilityError", "`fails` failed: RangeError: 水"],
        ["LookupError", "no capability is called `missing`"],
        ["PermissionError", "denied"],
    ]);
    assert_eq!(done.result, Some(expected), "{}", done.failure());
    // Where nobody catches it, the line is the call's own.
    let code = "export default async function run() {\n  const a = 1;\n  return await capability('fails');\n}";
    let error = run_as(Runtime::Typescript, code, LIMITS, &Fake::default()).await.error.unwrap();
    assert_eq!((error.name.as_str(), error.line), ("CapabilityError", Some(3)), "{error}");
}

#[tokio::test]
async fn arguments_that_are_no_data_never_leave_the_worker() {
    for (call, expected) in [
        ("capability()", "the name must be text"),
        ("capability({ toString: () => 'one' })", "the name must be text"),
        ("capability('one', null)", "must be an object"),
        ("capability('one', [1])", "must be an object"),
        ("capability('one', 'text')", "must be an object"),
        ("capability('one', { f: () => 1 })", "an argument.f is a function"),
        ("capability('one', { n: NaN })", "an argument.n is NaN"),
        ("(() => { const a = {}; a.a = a; return capability('one', a); })()", "contains itself"),
        (
            "(() => { let a = {}; for (let i = 0; i < 200; i++) a = { a }; return capability('one', a); })()",
            "nested more than",
        ),
        ("capability('one', { text: 'x'.repeat(2 << 20) })", "more than 1114112 bytes"),
        ("capability('x'.repeat(70000), {})", "more than 65536 bytes"),
        ("capability('large')", "fit into the memory"),
    ] {
        let done = typescript(&format!("return await {call}")).await;
        let error = done.error.map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(expected) && done.exit == ExitClass::Threw, "{call}: {:?} {error}", done.exit);
    }
    for (call, expected) in [
        ("capability()", "TypeError"),
        ("capability(3)", "the name must be text"),
        ("capability('one', [1])", "must be a dict"),
        ("capability('one', {'f': print})", "an argument.f is"),
        ("capability('one', text='x' * (2 << 20))", "ValueError"),
    ] {
        let code = format!("def run(args, ctx):\n    return {call}");
        let done = run_as(Runtime::Python, &code, LIMITS, &Fake::default()).await;
        let error = done.error.map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{call}: {error}");
    }
    // What is given away is no output.
    let limits = Limits { output_bytes: 1000, ..LIMITS };
    let code = "export default async function run() { await capability('one', { t: 'x'.repeat(20000) }); return 1 }";
    assert_eq!(run_as(Runtime::Typescript, code, limits, &Fake::default()).await.result, Some(json!(1)));
}

#[tokio::test]
async fn tampering_with_the_language_harms_nobody_but_the_code_itself() {
    for (trick, expected) in [
        ("globalThis.capability = () => 'mine'; return await capability('one')", json!("mine")),
        ("ctx.call = 1; return 2", Value::Null),
        (
            "JSON.parse = () => ({ error: undefined }); JSON.stringify = () => 'x'; return (await capability('one')).args",
            json!({}),
        ),
        ("Object.prototype.toJSON = () => 1; return (await capability('one', { a: [1] })).args", Value::Null),
        (
            "Object.prototype.op = 'secret'; Object.prototype.name = 'KEY'; return (await capability('one')).args",
            json!({}),
        ),
        (
            "Object.defineProperty(Object.prototype, 'error', { value: { name: 'x', message: 'y' } }); return (await capability('one')).args",
            Value::Null,
        ),
        ("Array.prototype.push = () => 1; return (await capability('one', { a: 1 })).args", Value::Null),
    ] {
        let caller = Fake::default();
        let code = format!("export default async function run(args, ctx) {{ {trick} }}");
        let done = run_as(Runtime::Typescript, &code, Limits { timeout_ms: 2000, ..LIMITS }, &caller).await;
        if expected.is_null() {
            assert_ne!(done.exit, ExitClass::Crashed, "{trick}");
        } else {
            assert_eq!(done.result, Some(expected), "{trick}: {}", done.failure());
        }
        assert!(caller.seen.lock().unwrap().iter().all(|wanted| wanted.name == "one"), "{trick}");
    }
}

#[tokio::test]
async fn a_hundred_calls_at_once_are_a_few_at_a_time() {
    let ts = "export default async function run() {
        const all = await Promise.all(Array.from({ length: 100 }, (_, n) => capability('one', { n })));
        return all.map((one) => one.args.n);
    }";
    let expected = json!((0..100).collect::<Vec<_>>());
    let caller = Fake::default();
    let done = run_as(Runtime::Typescript, ts, LIMITS, &caller).await;
    assert_eq!(done.result, Some(expected.clone()), "{}", done.failure());
    assert!((2..=8).contains(&caller.most.load(Ordering::SeqCst)), "{}", caller.most.load(Ordering::SeqCst));
    let python = "import asyncio\nasync def run():\n    all = await asyncio.gather(*[capability('one', {'n': n}) for n in range(100)])\n    return [one['args']['n'] for one in all]";
    let caller = Fake::default();
    let done = run_as(Runtime::Python, python, LIMITS, &caller).await;
    assert_eq!(done.result, Some(expected), "{}", done.failure());
    assert!((2..=8).contains(&caller.most.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn what_was_called_ends_with_its_caller() {
    // It does not wait, its time is over, it throws, it is cancelled, it dies.
    for (body, exit) in [
        ("capability('slow'); await capability('one'); return 1", ExitClass::Ok),
        ("return await capability('slow')", ExitClass::Timeout),
        ("capability('slow'); await capability('one'); for (;;) {}", ExitClass::Timeout),
        ("capability('slow'); await capability('one'); throw new Error('no')", ExitClass::Threw),
        (
            "capability('slow'); await capability('one'); const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length)",
            ExitClass::Memory,
        ),
    ] {
        let caller = Fake::default();
        let code = format!("export default async function run() {{ {body} }}");
        let started = Instant::now();
        let limits = Limits { timeout_ms: 1000, memory_mb: 32, ..LIMITS };
        let done = run_as(Runtime::Typescript, &code, limits, &caller).await;
        assert_eq!(done.exit, exit, "{body}: {}", done.failure());
        assert_eq!((caller.dropped.load(Ordering::SeqCst), caller.running.load(Ordering::SeqCst)), (1, 0), "{body}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    let (caller, cancel) = (Fake::default(), CancellationToken::new());
    let waiting = plan("export default async () => await capability('slow')", json!({}));
    let executor = executor(4);
    let stop = async {
        while caller.running.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (done, ()) = tokio::join!(run_on(&executor, waiting, &caller, &cancel), stop);
    assert_eq!((done.exit, caller.dropped.load(Ordering::SeqCst)), (ExitClass::Cancelled, 1));
}

#[tokio::test]
async fn a_call_is_told_what_is_left_of_its_callers_time() {
    let code = "export default async function run() { await new Promise((f) => setTimeout(f, 300)); await capability('one'); return 1 }";
    let caller = Fake::default();
    let done = run_as(Runtime::Typescript, code, Limits { timeout_ms: 2000, ..LIMITS }, &caller).await;
    assert_eq!(done.exit, ExitClass::Ok, "{}", done.failure());
    let left = caller.seen.lock().unwrap()[0].left;
    assert!(left <= Duration::from_millis(1700) && left > Duration::from_millis(200), "{left:?}");
}

/// Runs the same code one level deeper for each call, as dispatch would.
struct Deeper<'a> {
    executor: &'a Executor,
    depth: usize,
    runtimes: &'a [Runtime],
}

impl Caller for Deeper<'_> {
    fn call(&self, wanted: Wanted) -> BoxFuture<'_, Result<Value, ScriptError>> {
        Box::pin(async move {
            let depth = self.depth + 1;
            let inner = Deeper { depth, ..*self };
            let runtime = self.runtimes[depth % self.runtimes.len()];
            let plan = deeper(runtime, depth, wanted.args);
            let nesting = Nesting { caller: &inner, depth };
            let done = self.executor.run_among(permit(plan), Some(nesting), &CancellationToken::new()).await.unwrap();
            done.result.clone().ok_or_else(|| ScriptError::new("CapabilityError", done.failure()))
        })
    }
}

/// Adds up what two calls of the next level give, down to the deepest.
fn deeper(runtime: Runtime, depth: usize, args: Value) -> ExecPlan {
    let wide = if depth < 2 { 3 } else { 1 };
    let code = match (runtime, depth >= MOST_DEPTH) {
        (Runtime::Python, true) => "def run(args, ctx):\n    return 1".to_owned(),
        (Runtime::Python, false) => {
            format!("def run(args, ctx):\n    return sum(ctx.call('next') for _ in range({wide}))")
        }
        (_, true) => "export default () => 1".to_owned(),
        (_, false) => format!(
            "export default async () => (await Promise.all(Array.from({{ length: {wide} }}, () => capability('next')))).reduce((a, b) => a + b)"
        ),
    };
    ExecPlan { runtime, limits: Limits { timeout_ms: 60_000, ..LIMITS }, ..plan(&code, args) }
}

#[tokio::test]
async fn with_a_single_turn_for_workers_calls_of_every_depth_come_to_an_end() {
    for runtimes in [&[Runtime::Typescript][..], &[Runtime::Python, Runtime::Typescript]] {
        let executor = executor(1);
        let caller = Deeper { executor: &executor, depth: 0, runtimes };
        let top = deeper(runtimes[0], 0, json!({}));
        let cancel = CancellationToken::new();
        let one = || run_on(&executor, top.clone(), &caller, &cancel);
        // Two outermost runs beside each other, as well.
        let both = async { tokio::join!(one(), one()) };
        let (first, second) = tokio::time::timeout(Duration::from_secs(100), both).await.expect("no deadlock");
        assert_eq!(first.result, Some(json!(9)), "{runtimes:?}: {}", first.failure());
        assert_eq!(second.result, Some(json!(9)));
    }
}
