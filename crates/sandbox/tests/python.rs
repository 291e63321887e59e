//! Python capabilities through a real interpreter in the jail: arguments in, results and errors out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod jailed;
mod jails;

use jailed::{body, config, gives, permit, plan, python, run_plan, runtimes, sandbox, words};
use jarvis_protocol::{Execution, ExitClass, Fixed, Grants, Limits, Runtime};
use jarvis_sandbox::{Access, Executor, Secret, UseKind};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_function_answers_with_its_result() {
    let sandbox = sandbox();
    let done = python(
        &sandbox,
        "def run(args, ctx):\n    print('水', 1)\n    return {'sum': args['a'] + args['b']}",
        json!({"a": 2, "b": 40}),
    )
    .await;
    gives(&done, json!({"sum": 42}), "sum");
    assert_eq!(done.printed, "水 1\n");
    for layer in ["user namespace", "mount namespace", "network: none", "no new privileges", "seccomp"] {
        assert!(done.isolation.iter().any(|l| l == layer), "{layer} in {:?}", done.isolation);
    }
    assert!(!done.isolation.iter().any(|l| l.contains("looked through")), "{:?}", done.isolation);
    assert!(done.cpu_us > 0 && done.peak_memory_kb > 0 && done.wall_us > 0, "{done:?}");
}

#[tokio::test]
async fn every_accepted_form_runs() {
    let sandbox = sandbox();
    for code in [
        "def run(args, ctx): return args['a'] * args['b']",
        "def run(args): return args['a'] * args['b']",
        "def run(a, b): return a * b",
        "def run(a, b, ctx): return a * b",
        "def run(a, *, b, ctx): return a * b",
        "def run(a, b=2, c=3): return a * b",
        "def run(**values): return values['a'] * values['b']",
        "def run(a, **rest): return a * rest['b']",
        "def run(*given): return given[0]['a'] * given[0]['b']",
        "def run(data): return data['a'] * data['b']",
        "async def run(args, ctx): return args['a'] * args['b']",
        "import asyncio\nasync def run(a, b):\n    await asyncio.sleep(0.01)\n    return a * b",
        "async def run(a, b):\n    import asyncio\n    return sum(await asyncio.gather(*[one(a) for _ in range(b)]))\nasync def one(a): return a",
        "run = lambda args: args['a'] * args['b']",
        "def multiply(a, b): return a * b",
        "def helper(a): return a\ndef multiply(a, b): return helper(a) * b",
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a, **k): return f(*a, **k)\n    return g\n@twice\ndef run(a, b): return a * b",
        "if True:\n    def run(a, b): return a * b\nif __name__ == '__main__':\n    raise SystemExit(1)",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int\n    b: int\ndef run(a: int, b: int) -> int: return P(a, b).a * P(a, b).b",
    ] {
        let done = python(&sandbox, code, json!({"a": 6, "b": 7})).await;
        gives(&done, json!(42), code);
    }
    gives(&python(&sandbox, "def run(): return 1", json!({})).await, json!(1), "no parameter");
    gives(&python(&sandbox, "def run(a=5): return a", json!({})).await, json!(5), "defaults");
    gives(&python(&sandbox, "def run(ctx): return ctx.workspace", json!({})).await, json!("."), "context alone");
    let short = python(&sandbox, "def run(a, b): return a", json!({"a": 1})).await;
    assert!(words(&short).contains("missing 1 required"), "{}", words(&short));
}

#[tokio::test]
async fn arguments_are_data_whatever_they_are_called() {
    let args: Value = serde_json::from_str(
        r#"{"__class__": {"x": 1}, "self": 1, "import os": 2, "text": "\"\"\"'\u2028\\{0}%s\u0000", "水": [null, true, 1.5, -0.0, 1e300], "": {}}"#,
    )
    .unwrap();
    let done = python(&sandbox(), "def run(args, ctx): return {'same': args, 'keys': list(args)}", args.clone()).await;
    let result = done.result.clone().unwrap_or_else(|| panic!("{}", words(&done)));
    let mut same = args.clone();
    same["水"][3] = json!(0);
    assert_eq!(result["same"], same);
    assert_eq!(result["keys"], json!(["__class__", "self", "import os", "text", "水", ""]));
}

#[tokio::test]
async fn every_result_has_a_defined_form() {
    let sandbox = sandbox();
    for (expression, right) in [
        ("None", json!(null)),
        ("True", json!(true)),
        ("2.0", json!(2)),
        ("-0.0", json!(0)),
        ("0.1 + 0.2", json!(0.1 + 0.2)),
        ("1e300", json!(1e300)),
        ("2**53 - 1", json!(9007199254740991i64)),
        ("2**53", json!("9007199254740992")),
        ("-2**64", json!("-18446744073709551616")),
        ("len(str(10**6000))", json!(6001)),
        ("[10**5000][0] % 10**20 + 2**70", json!("1180591620717411303424")),
        ("(1, (2, [3]))", json!([1, [2, [3]]])),
        ("range(3)", json!([0, 1, 2])),
        ("{1: 'a', 2.5: 'b', True: 'c'}", json!({"1": "c", "2.5": "b"})),
        ("{'\\ud800': '\\udfff水'}", json!({"\u{fffd}": "\u{fffd}水"})),
        ("'\\0\\x1b\"\\\\\\u2028'", json!("\u{0}\u{1b}\"\\\u{2028}")),
        ("__import__('decimal').Decimal('1.10')", json!("1.10")),
        ("__import__('fractions').Fraction(1, 3)", json!("1/3")),
        ("__import__('uuid').UUID(int=1)", json!("00000000-0000-0000-0000-000000000001")),
        (
            "__import__('datetime').datetime(2020, 1, 2, 3, tzinfo=__import__('datetime').timezone.utc)",
            json!("2020-01-02T03:00:00+00:00"),
        ),
        ("__import__('datetime').date(2020, 1, 2)", json!("2020-01-02")),
        ("__import__('collections').OrderedDict(b=1, a=2)", json!({"b": 1, "a": 2})),
        ("__import__('collections').Counter('aab')", json!({"a": 2, "b": 1})),
        ("__import__('collections').deque([1, 2])", json!([1, 2])),
        ("__import__('collections').namedtuple('P', 'x y')(1, 2)", json!([1, 2])),
        ("__import__('enum').Enum('E', 'A B').B", json!(2)),
        ("__import__('dataclasses').make_dataclass('P', ['x', 'y'])(1, [2])", json!({"x": 1, "y": [2]})),
    ] {
        gives(&body(&sandbox, &format!("return {expression}")).await, right, expression);
    }
}

#[tokio::test]
async fn what_is_no_data_is_an_error_that_says_where() {
    let sandbox = sandbox();
    for (code, expected) in [
        ("return float('nan')", "ValueError: the result is nan"),
        ("return {'a': [1, float('inf')]}", "the result.a[1] is inf"),
        ("a = []\na.append(a)\nreturn a", "the result[0] contains itself"),
        ("return {1, 2}", "TypeError: the result is a set, which is no data: it has no order: return sorted"),
        ("return [b'x']", "the result[0] is bytes, which is no data: return text"),
        ("return len", "the result is a function"),
        ("return {'f': lambda: 1}", "the result.f is a function"),
        ("return dict", "the result is a class"),
        ("return (x for x in [1])", "a generator, which is no data: make a list of it"),
        ("return map(str, [1])", "make a list of it"),
        ("return {(1, 2): 3}", "a key that is a tuple"),
        ("return {1: 2, '1': 3}", "two keys that are both \"1\""),
        ("return ValueError('x')", "raise it instead"),
        ("return 1j", "return [x.real, x.imag]"),
        ("return object()", "a object, which is no data"),
        ("return __import__('decimal').Decimal('NaN')", "the result is NaN"),
        ("return __import__('datetime').timedelta(1)", "total_seconds"),
        ("x = []\nfor _ in range(200): x = [x]\nreturn x", "nested more than 100 levels"),
        ("async def f(): pass\nreturn [f()]", "await it"),
        ("pass", "returned nothing (None): return a value"),
        ("args['x'] = 1", "returned nothing"),
    ] {
        let done = body(&sandbox, code).await;
        assert!(
            done.exit == ExitClass::Threw && words(&done).contains(expected),
            "{code}: {:?} {}",
            done.exit,
            words(&done)
        );
        assert_eq!(done.result, None);
    }
}

#[tokio::test]
async fn errors_name_the_persons_own_line() {
    let sandbox = sandbox();
    for (code, name, line) in [
        ("def run(args):\n    x = 1\n    return args['水']", "KeyError", 3),
        ("import json\ndef run(args):\n    return json.loads('{')", "JSONDecodeError", 3),
        ("def f():\n    raise ValueError('不')\ndef run(args):\n    return f()", "ValueError", 2),
        ("x = 1 / 0\ndef run(args): return 1", "ZeroDivisionError", 1),
        ("class Own(Exception):\n    pass\ndef run(args):\n    raise Own('x')", "Own", 4),
        ("def run(args):\n    class E(Exception):\n        def __str__(self): return 1/0\n    raise E()", "E", 4),
        ("def run(args):\n    import sys\n    sys.exit(3)", "SystemExit", 3),
        ("def run(args):\n    raise KeyboardInterrupt", "KeyboardInterrupt", 2),
        ("def run(args):\n    return run(args)", "RecursionError", 2),
        ("async def run(args):\n    raise LookupError('x')", "LookupError", 2),
        ("def run(args):\n    import requests", "ModuleNotFoundError", 2),
        ("def run(args):\n    return input()", "EOFError", 2),
    ] {
        let done = python(&sandbox, code, json!({})).await;
        let error = done.error.clone().unwrap_or_else(|| panic!("{code}: {done:?}"));
        assert_eq!(
            (done.exit, error.name.as_str(), error.line),
            (ExitClass::Threw, name, Some(line)),
            "{code}: {error:?}"
        );
    }
}

#[tokio::test]
async fn what_does_not_parse_is_rejected_with_its_place() {
    let sandbox = sandbox();
    for (code, line, column) in [
        ("def run(args)\n    return 1", Some(1), Some(14)),
        ("def run(args):\n    return 水 +", Some(2), None),
        ("def run(args):\nreturn 1", Some(2), None),
        ("", None, None),
        ("x = 1", None, None),
        ("def a(): pass\ndef b(): pass", None, None),
        ("def run(args): return '\0'", None, None),
        ("async def run(args): await", Some(1), None),
    ] {
        let done = python(&sandbox, code, json!({})).await;
        let error = done.error.clone().unwrap_or_else(|| panic!("{code}: {done:?}"));
        assert_eq!(
            (done.exit, error.name.as_str(), error.line),
            (ExitClass::Rejected, "SyntaxError", line),
            "{code}: {error:?}"
        );
        assert!(column.is_none() || error.column == column, "{code}: {error:?}");
        let checked = sandbox.check(code, Runtime::Python, &[]).await.unwrap().unwrap_err();
        assert_eq!((checked.name, checked.line), (error.name, error.line), "{code}");
    }
    let deep = format!("def run(args): return {}1{}", "(".repeat(5000), ")".repeat(5000));
    let long = format!("def run(args): return {}", "1+".repeat(200_000) + "1");
    for code in [deep, long] {
        let done = python(&sandbox, &code, json!({})).await;
        assert_eq!(done.exit, ExitClass::Rejected, "{:?}", done.error);
        assert!(sandbox.check(&code, Runtime::Python, &[]).await.unwrap().is_err());
    }
}

#[tokio::test]
async fn a_check_tells_what_the_code_takes_and_reaches_for() {
    let code = r#"
"""What it is for: 99."""
import json
try:
    import numpy
except ImportError:
    numpy = None
def run(args, ctx):
    """Docs."""
    a = args["a"] + args.get("b", 7)
    ctx.fetch("https://api.example.com:8443/x")
    ctx.fetch(f"https://one.example.com/{a}")
    ctx.fetch(f"https://{a}.example.com/")
    ctx.read(path="data/x.csv")
    return ctx.secret("TOKEN") + "lit" + str(1.5)
"#;
    let sandbox = sandbox();
    let checked = sandbox.check(code, Runtime::Python, &[]).await.unwrap().unwrap();
    assert_eq!(checked.params, ["a", "b"]);
    let uses: Vec<_> = checked.uses.iter().map(|u| (u.kind, u.target.as_deref(), u.line)).collect();
    assert_eq!(
        uses,
        [
            (UseKind::Fetch, Some("api.example.com:8443"), 11),
            (UseKind::Fetch, Some("one.example.com"), 12),
            (UseKind::Fetch, None, 13),
            (UseKind::Read, Some("data/x.csv"), 14),
            (UseKind::Secret, Some("TOKEN"), 15),
        ]
    );
    assert!(["lit", "1.5", "7"].iter().all(|l| checked.literals.iter().any(|x| x == l)), "{:?}", checked.literals);
    assert!(!checked.literals.iter().any(|l| l.contains("What it is") || l.contains("Docs")));
    let named = sandbox.check("def run(x, y=1, *, ctx): return x", Runtime::Python, &[]).await.unwrap().unwrap();
    assert_eq!(
        (named.params, named.positional),
        (vec!["x".to_owned(), "y".to_owned()], vec!["x".to_owned(), "y".to_owned()])
    );
    let error = sandbox.check("def run(args):\n    import requests", Runtime::Python, &[]).await.unwrap().unwrap_err();
    assert!(
        error.line == Some(2) && error.message.contains("dependencies") && error.message.contains("ctx.fetch"),
        "{error}"
    );
    let relative =
        sandbox.check("from . import x\ndef run(args): pass", Runtime::Python, &[]).await.unwrap().unwrap_err();
    assert!(relative.message.contains("relative"), "{relative}");
    let ran =
        sandbox.check("open('/tmp/x','w')\nprint(1/0)\ndef run(args): return 1", Runtime::Python, &[]).await.unwrap();
    assert!(ran.is_ok(), "the code is read, not run");
}

fn with_files(folder: &std::path::Path) -> Executor {
    let access = Access {
        workspace: Some(folder.to_owned()),
        secrets: Some(Arc::new(|name| {
            let secret = || Secret { value: "s3cret-value".to_owned(), hosts: vec!["api.example.com".to_owned()] };
            Ok((name == "TOKEN").then(secret))
        })),
        ..Access::default()
    };
    Executor::with_runtimes(config(0), access, runtimes())
}

async fn granted(sandbox: &Executor, body: &str, grants: Grants) -> Execution {
    let mut plan = plan(Runtime::Python, &format!("{body}\n"), json!({}));
    plan.grants = grants;
    run_plan(sandbox, plan).await
}

#[tokio::test]
async fn the_broker_serves_files_and_refuses_what_is_not_granted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.txt"), "水").unwrap();
    let sandbox = with_files(folder.path());
    let grants = Grants { read: vec![".".to_owned()], write: vec!["out".to_owned()], ..Grants::default() };
    let code = "def run(args, ctx):\n    text = ctx.read('in.txt')\n    ctx.write('out', text * 2)\n    ctx.log('kept', len(text))\n    return [text, ctx.read('in.txt', bytes=True).hex(), [e['name'] for e in ctx.list()], ctx.read('out')]";
    let done = granted(&sandbox, code, grants.clone()).await;
    gives(&done, json!(["水", "e6b0b4", ["in.txt", "out"], "水水"]), code);
    assert_eq!(done.printed, "kept 1\n");
    let code = "import asyncio\nasync def run(args, ctx):\n    return len(set(await asyncio.gather(*[ctx.read('in.txt') for _ in range(40)])))";
    gives(&granted(&sandbox, code, grants.clone()).await, json!(1), code);
    let code = "async def run(args, ctx):\n    return await ctx.read('in.txt')";
    gives(&granted(&sandbox, code, grants.clone()).await, json!("水"), code);
    for (code, expected) in [
        ("ctx.read('../x')", "PermissionError"),
        ("ctx.read('/etc/passwd')", "PermissionError"),
        ("ctx.write('in.txt', 'x')", "PermissionError"),
        ("ctx.secret('TOKEN')", "PermissionError"),
        ("ctx.fetch('https://example.com/')", "PermissionError"),
        ("ctx.read('absent')", "FileNotFoundError"),
        ("ctx.read(3)", "TypeError"),
        ("ctx.write('out', 3)", "TypeError"),
        ("ctx.fetch('https://example.com/' + 'x' * 70000)", "ValueError"),
        ("ctx.write('out', b'x' * (3 << 20))", "ValueError"),
        ("ctx.call('other')", "PermissionError"),
    ] {
        let done = granted(&sandbox, &format!("def run(args, ctx):\n    return {code}"), grants.clone()).await;
        assert!(words(&done).starts_with(expected), "{code}: {}", words(&done));
    }
    let caught = "def run(args, ctx):\n    try:\n        ctx.read('/etc/passwd')\n    except PermissionError as e:\n        return 'refused'";
    gives(&granted(&sandbox, caught, grants).await, json!("refused"), caught);
}

#[tokio::test]
async fn chance_and_time_stand_still_when_they_are_fixed() {
    let sandbox = sandbox();
    let code = "import random, time, datetime\nfrom datetime import date, datetime as dt\nimport uuid\ndef run(args):\n    n = dt.now()\n    return [random.random(), random.sample(range(100), 5), time.time(), time.time_ns(), n, repr(n), dt.utcnow(), date.today(), isinstance(n, dt), isinstance(n, date), isinstance(n.date(), date), dt(2020, 1, 1) + datetime.timedelta(1), time.strftime('%Y-%m-%d'), time.gmtime().tm_hour, list({'a', 'b', 'c', 'd', 'e', 'f'}), dt.strptime('2020', '%Y').year]";
    let mut fixed = plan(Runtime::Python, code, json!({}));
    fixed.fixed = Some(Fixed { random_seed: 7, now_ms: 1_600_000_000_123 });
    let first = run_plan(&sandbox, fixed.clone()).await;
    let second = run_plan(&sandbox, fixed.clone()).await;
    assert_eq!((first.exit, &first.result), (ExitClass::Ok, &second.result), "{}", words(&first));
    let values = first.result.unwrap();
    assert_eq!(
        (&values[2], &values[5]),
        (&json!(1_600_000_000.123), &json!("datetime.datetime(2020, 9, 13, 12, 26, 40, 123000)"))
    );
    assert_eq!((&values[8], &values[9], &values[10]), (&json!(true), &json!(true), &json!(true)));
    fixed.fixed = Some(Fixed { random_seed: 8, now_ms: 1_600_000_000_123 });
    assert_ne!(run_plan(&sandbox, fixed).await.result.unwrap()[0], values[0]);
}

#[tokio::test]
async fn print_and_standard_error_are_kept_in_order() {
    let sandbox = sandbox();
    let code = "import sys\nprint('a', 'b', sep='-', end='!')\nsys.stderr.write('err ')\nsys.stdout.buffer.write(b'\\xff')\nprint('水', file=sys.stderr)\nprint('\\ud800', flush=True)\nreturn 1";
    let done = body(&sandbox, code).await;
    gives(&done, json!(1), code);
    assert_eq!(done.printed, "a-b!err \u{fffd}水\n\\ud800\n");
    let raw = body(&sandbox, "import os\nos.write(1, '低'.encode())\nos.write(2, b'level')\nreturn 1").await;
    assert!(raw.printed.contains('低') && raw.printed.contains("level"), "{:?}", raw.printed);
}

#[tokio::test]
async fn workers_that_wait_serve_one_job_each() {
    let sandbox = Executor::with_runtimes(config(1), Access::default(), runtimes());
    let code = "import builtins, sys\ndef run(n):\n    seen = getattr(builtins, 'leak', 0)\n    builtins.leak = n\n    return [n, seen]";
    for n in 1..8 {
        gives(&python(&sandbox, code, json!({"n": n})).await, json!([n, 0]), code);
        tokio::time::sleep(std::time::Duration::from_millis(40)).await;
    }
    let mut jobs = tokio::task::JoinSet::new();
    for n in 0..12 {
        let sandbox = sandbox.clone();
        jobs.spawn(async move { (n, python(&sandbox, code, json!({"n": n})).await) });
    }
    while let Some(job) = jobs.join_next().await {
        let (n, done) = job.unwrap();
        gives(&done, json!([n, 0]), code);
    }
}

#[tokio::test]
async fn without_a_python_there_is_an_error_that_says_what_to_do() {
    for path in [None, Some("/nonexistent/python3"), Some("/bin/true")] {
        let mut runtimes = runtimes();
        runtimes.python = path.map(Into::into);
        let sandbox = Executor::with_runtimes(config(0), Access::default(), runtimes);
        let plan = plan(Runtime::Python, "def run(args): return 1", json!({}));
        let error = sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap_err();
        assert!(error.hint().unwrap().contains("install Python"), "{error}");
    }
}

#[tokio::test]
async fn limits_of_nothing_or_everything_are_no_panic() {
    let sandbox = sandbox();
    for limits in [
        // What the policy lets through at most and at least.
        Limits { timeout_ms: 1, memory_mb: 1, output_bytes: 1 },
        Limits { timeout_ms: 300_000, memory_mb: 1024, output_bytes: 16 << 20 },
    ] {
        let mut plan = plan(Runtime::Python, "def run(args): return 1", json!({}));
        plan.limits = limits;
        let outcome = sandbox.run(permit(plan), &CancellationToken::new()).await;
        match outcome {
            Ok(done) => assert!(done.exit != ExitClass::Ok || limits.timeout_ms > 0, "{done:?}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn all_of_this_works_for_an_ordinary_user() {
    jails::again_as_nobody("all_of_this_works_for_an_ordinary_user");
}
