//! Runs through a real worker process: arguments in, results and errors out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod common;

use common::{permit, plan, run, run_plan, sandbox, value};
use jarvis_protocol::{ExitClass, Fixed, Limits};
use serde_json::{Value, json};

#[tokio::test]
async fn a_typescript_function_answers_with_its_result() {
    let sandbox = sandbox();
    let code = "export default async function run({ a, b }: { a: number; b: number }) { return { sum: a + b } }";
    let done = run(&sandbox, code, json!({"a": 2, "b": 40})).await;
    assert_eq!(done.exit, ExitClass::Ok, "{:?}", done.error);
    assert_eq!(done.result, Some(json!({"sum": 42})));
    for layer in ["no new privileges", "resource limits", "seccomp"] {
        assert!(done.isolation.iter().any(|l| l == layer), "{layer} in {:?}", done.isolation);
    }
    assert!(done.isolation.iter().any(|l| l == "namespaces" || l == "landlock"));
    assert!(done.peak_memory_kb > 0 && done.wall_us > 0);
}

#[tokio::test]
async fn every_accepted_form_runs() {
    let sandbox = sandbox();
    for code in [
        "function run(args) { return args.a * args.b }",
        "const run = ({ a, b }) => a * b;",
        "export function multiply({ a, b }) { return a * b }",
        "function multiply(a, b) { return a * b }",
        "function multiply({ a, b }) { return a * b }\nmodule.exports = multiply;",
        "export default ({ a, b }) => Promise.resolve(a * b)",
        "console.log(args.a * args.b);",
        "const { a, b } = args;\nconsole.log(JSON.stringify(a * b));",
        "async function main() { await 0; console.log(args.a * args.b) }\nmain();",
        "setTimeout(() => console.log(args.a * args.b), 5);",
    ] {
        let done = run(&sandbox, code, json!({"a": 6, "b": 7})).await;
        assert_eq!(done.result, Some(json!(42)), "{code}: {:?}", done.error);
    }
}

#[tokio::test]
async fn a_script_that_prints_text_has_that_text_as_its_result() {
    let sandbox = sandbox();
    let done = run(&sandbox, "console.log(`hello ${args.name}`); console.log('水')", json!({"name": "you"})).await;
    assert_eq!(done.result, Some(json!("hello you\n水")));
    assert_eq!(done.printed, "hello you\n水\n");
    let digits = run(&sandbox, "console.log(String(2n ** 100n) + (args.x ?? ''))", json!({})).await;
    assert_eq!(digits.result, Some(json!("1267650600228229401496703205376")));
    let lossy = run(&sandbox, "console.log(2 ** 60 + (args.x ?? 0))", json!({})).await;
    assert!(lossy.error.unwrap().message.contains("BigInt"));
    let nothing = run(&sandbox, "const x = args.x;", json!({})).await;
    assert!(nothing.error.unwrap().message.contains("printed nothing"));
}

#[tokio::test]
async fn arguments_are_data_whatever_they_are_called() {
    let sandbox = sandbox();
    let args: Value = serde_json::from_str(
        r#"{"__proto__": {"polluted": true}, "constructor": 1, "toString": 2, "text": "`${1}\"'\u2028\\", "水": [null, {"__proto__": 3}]}"#,
    )
    .unwrap();
    let code = "export default (args) => ({ same: args, own: Object.keys(args), proto: Object.getPrototypeOf(args) === Object.prototype, polluted: args.polluted === undefined && ({}).polluted === undefined })";
    let done = run(&sandbox, code, args.clone()).await;
    let result = done.result.unwrap_or_else(|| panic!("{:?}", done.error));
    assert_eq!(result["same"], args);
    assert_eq!(result["own"], json!(["__proto__", "constructor", "toString", "text", "水"]));
    assert_eq!((&result["proto"], &result["polluted"]), (&json!(true), &json!(true)));
}

#[tokio::test]
async fn whole_numbers_stay_exact_in_and_out() {
    let sandbox = sandbox();
    let args = json!({"big": 9007199254740993i64, "huge": u64::MAX, "small": -9007199254740993i64, "safe": 9007199254740991i64, "float": 1.5});
    let code = "export default (args) => [typeof args.big, typeof args.safe, typeof args.float, args.big, args.huge, args.small, args.safe, args.float, 5n, -(2n ** 70n)]";
    let done = run(&sandbox, code, args).await;
    let right = json!([
        "bigint",
        "number",
        "number",
        "9007199254740993",
        "18446744073709551615",
        "-9007199254740993",
        9007199254740991i64,
        1.5,
        5,
        "-1180591620717411303424"
    ]);
    assert_eq!(done.result, Some(right), "{:?}", done.error);
}

#[tokio::test]
async fn a_number_that_has_lost_its_digits_is_an_error_and_not_an_answer() {
    let sandbox = sandbox();
    for code in [
        "2 ** 53",
        "[1, { deep: 2432902008176640000 * 21 }]",
        "new Map([['k', 1e300]])",
        "-(2 ** 60)",
        "new Set([1e17])",
    ] {
        let done = value(&sandbox, code).await;
        let error = done.error.unwrap();
        assert_eq!((done.exit, error.name.as_str()), (ExitClass::Threw, "RangeError"), "{code}");
        assert!(error.message.contains("BigInt"), "{code}: {error}");
    }
    assert!(value(&sandbox, "{ a: [{ b: 2 ** 80 }] }").await.error.unwrap().message.contains("the result.a[0].b"));
    assert_eq!(value(&sandbox, "2 ** 53 - 1").await.result, Some(json!(9007199254740991i64)));
}

#[tokio::test]
async fn values_without_a_form_as_data_are_named() {
    let sandbox = sandbox();
    for (code, named) in [
        ("undefined", "returned nothing"),
        ("NaN", "NaN"),
        ("{ x: Infinity }", "the result.x is Infinity"),
        ("() => 1", "a function"),
        ("[Symbol('s')]", "a symbol"),
        ("(() => { const a = {}; a.self = a; return a })()", "cycle"),
        ("[Promise.resolve(1)]", "await it"),
        ("new Error('bad')", "throw it instead"),
        ("new Date('nonsense')", "invalid Date"),
        ("(function* () { yield 1 })()", "iterator"),
        ("/x/", "regular expression"),
        ("new WeakMap()", "weak"),
        ("new Map([[{}, 1]])", "keys"),
        ("new Map([[1, 'a'], ['1', 'b']])", "two keys that are both \"1\""),
        ("({ x: new Map([['\\ud800', 1], ['\\ud801', 2]]) })", "the result.x has two keys"),
        ("({ '\\ud800': 1, '\\udfff': 2 })", "two keys that are both"),
        ("(() => { let a = []; for (let i = 0; i < 200; i++) a = [a]; return a })()", "levels deep"),
    ] {
        let done = value(&sandbox, code).await;
        let message = done.error.map(|e| e.message).unwrap_or_default();
        assert_eq!(done.exit, ExitClass::Threw, "{code}: {:?}", done.result);
        assert!(message.contains(named), "{code}: {message}");
    }
}

#[tokio::test]
async fn values_with_a_form_keep_it() {
    let sandbox = sandbox();
    for (code, right) in [
        ("new Uint8Array([1, 2, 255])", json!("AQL/")),
        ("new Uint8Array([1, 2]).buffer", json!("AQI=")),
        ("new Float64Array([1.5])", json!([1.5])),
        ("[undefined, null]", json!([null, null])),
        ("{ a: undefined, b: 1 }", json!({"b": 1})),
        ("Object('text')", json!("text")),
        ("new URL('https://e.com/x')", json!("https://e.com/x")),
        ("{ toJSON: () => 'mine' }", json!("mine")),
        ("'\\ud800x'", json!("\u{fffd}x")),
        ("-0", json!(0)),
        ("Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true } })", json!({"own": 2})),
        ("JSON.parse('{\"__proto__\": 1}')", serde_json::from_str("{\"__proto__\": 1}").unwrap()),
    ] {
        let done = value(&sandbox, code).await;
        assert_eq!(done.result, Some(right), "{code}: {:?}", done.error);
    }
}

#[tokio::test]
async fn errors_name_the_persons_own_line() {
    let sandbox = sandbox();
    let code = "interface Args {\n  n: number;\n}\n\nfunction helper(n: number): number {\n\n  return (n as any).missing.deep;\n}\nexport default function run(args: Args) {\n  return helper(args.n);\n}";
    let done = run(&sandbox, code, json!({"n": 1})).await;
    let error = done.error.unwrap();
    assert_eq!((error.name.as_str(), error.line), ("TypeError", Some(7)), "{error:?}");
    let rejected = run(&sandbox, "export default () => {\n  return 1 +;\n}", json!({})).await;
    assert_eq!((rejected.exit, rejected.error.unwrap().line), (ExitClass::Rejected, Some(2)));
    let custom = run(
        &sandbox,
        "class MyError extends Error { name = 'MyError' }\nexport default () => { throw new MyError('水 failed') }",
        json!({}),
    )
    .await;
    let error = custom.error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str(), error.line), ("MyError", "水 failed", Some(2)));
    let text = run(&sandbox, "export default () => { throw 'just text' }", json!({})).await;
    assert_eq!(text.error.unwrap().message, "just text");
    let late = run(&sandbox, "export default async () => {\n  await null;\n  undefinedThing();\n}", json!({})).await;
    assert_eq!(late.error.unwrap().line, Some(3));
    let load = run(&sandbox, "const x = null;\nconst y = x.z;\nexport default () => 1", json!({})).await;
    assert_eq!((load.exit, load.error.unwrap().line), (ExitClass::Threw, Some(2)));
}

#[tokio::test]
async fn a_promise_that_never_settles_is_told_at_once() {
    let sandbox = sandbox();
    for code in ["export default () => new Promise(() => {})", "await new Promise(() => {});\nexport default () => 1"] {
        let started = std::time::Instant::now();
        let done = run(&sandbox, code, json!({})).await;
        assert!(done.error.unwrap().message.contains("never settles"), "{code}");
        assert!(started.elapsed().as_secs() < 5);
    }
}

#[tokio::test]
async fn fixed_time_and_chance_are_the_same_twice_and_otherwise_differ() {
    let sandbox = sandbox();
    let code = "export default () => [Math.random(), Math.random(), Date.now(), new Date().toISOString(), new Date(5).getTime(), new Date() instanceof Date, typeof Date()]";
    let mut fixed = plan(code, json!({}));
    fixed.fixed = Some(Fixed { random_seed: 7, now_ms: 1_700_000_000_000 });
    let first = run_plan(&sandbox, fixed.clone()).await.result.unwrap();
    assert_eq!(Some(&first), run_plan(&sandbox, fixed.clone()).await.result.as_ref());
    assert_eq!(first[2], json!(1_700_000_000_000i64));
    assert_eq!(first[3], json!("2023-11-14T22:13:20.000Z"));
    assert_eq!((&first[4], &first[5], &first[6]), (&json!(5), &json!(true), &json!("string")));
    fixed.fixed = Some(Fixed { random_seed: 8, now_ms: 1_700_000_000_000 });
    assert_ne!(first[0], run_plan(&sandbox, fixed).await.result.unwrap()[0]);
    let (a, b) = (run(&sandbox, code, json!({})).await, run(&sandbox, code, json!({})).await);
    assert_ne!(a.result.unwrap()[0], b.result.unwrap()[0]);
}

#[tokio::test]
async fn what_is_printed_reads_as_in_node() {
    let sandbox = sandbox();
    let code = r#"export default () => {
  console.log("text", 1, -0, 2n, true, null, undefined, { a: 1, b: [1, 2, { c: "x" }] }, [], {});
  console.log("%s is %d and %j%%", "x", 4.5, { a: 1 }, "rest");
  console.log(new Map([["k", 1]]), new Set(["v"]), new Date(0), /r/g, Symbol("s"), () => 1, function named() {}, class A {});
  console.log(["it's"], { "a-b": 1 }, [undefined, null], Object.create(null));
  console.error("problem"); console.warn("careful"); console.debug("detail");
  console.group("g"); console.log("in"); console.groupEnd(); console.log("out");
  const a = { n: 1 }; a.self = a; console.log(a);
  return 1;
}"#;
    let done = run(&sandbox, code, json!({})).await;
    assert_eq!(
        done.printed,
        "text 1 -0 2n true null undefined { a: 1, b: [ 1, 2, { c: 'x' } ] } [] {}\n\
         x is 4.5 and {\"a\":1}% rest\n\
         Map(1) { 'k' => 1 } Set(1) { 'v' } 1970-01-01T00:00:00.000Z /r/g Symbol(s) [Function (anonymous)] [Function: named] [class A]\n\
         [ \"it's\" ] { 'a-b': 1 } [ undefined, null ] [Object: null prototype] {}\n\
         problem\ncareful\ndetail\ng\n  in\nout\n{ n: 1, self: [Circular *1] }\n"
    );
}

#[tokio::test]
async fn python_without_an_interpreter_says_what_to_do() {
    let mut python = plan("def run(args, ctx): pass", json!({}));
    python.runtime = jarvis_protocol::Runtime::Python;
    let error = sandbox().run(permit(python), &tokio_util::sync::CancellationToken::new()).await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("install Python")), "{error}");
}

#[tokio::test]
async fn many_jobs_at_once_all_come_back() {
    let sandbox = sandbox();
    let jobs: Vec<_> = (0..100)
        .map(|n| {
            let sandbox = sandbox.clone();
            tokio::spawn(
                async move { run(&sandbox, "export default ({ n }) => n * 2", json!({ "n": n })).await.result },
            )
        })
        .collect();
    for (n, job) in jobs.into_iter().enumerate() {
        assert_eq!(job.await.unwrap(), Some(json!(n * 2)));
    }
}

#[tokio::test]
async fn a_large_argument_and_a_large_result_pass() {
    let sandbox = sandbox();
    let text = "水".repeat(200_000);
    let mut big = plan("export default ({ text }) => text", json!({ "text": text }));
    big.limits = Limits { output_bytes: 2 << 20, ..Limits::STANDARD };
    assert_eq!(run_plan(&sandbox, big).await.result, Some(json!(text)));
}
