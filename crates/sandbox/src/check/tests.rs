use super::*;

fn ok(code: &str) -> Checked {
    check(code, Runtime::Typescript).unwrap()
}

fn err(code: &str) -> ScriptError {
    check(code, Runtime::Typescript).unwrap_err()
}

#[test]
fn types_are_stripped_and_the_parameters_are_known() {
    let checked = ok(
        "export default async function run({ n, text = 'x' }: { n: number, text?: string }, ctx: any): Promise<string> {\n  return text.repeat(n as number);\n}",
    );
    assert_eq!(checked.params, ["n", "text"]);
    assert_eq!(checked.form, Form::Function);
    assert!(!checked.javascript.contains("number"), "{}", checked.javascript);
}

#[test]
fn the_ways_a_weak_model_writes_its_function_are_all_found() {
    for (code, params) in [
        ("function run(args) { return args.a + args.b }", vec!["a", "b"]),
        ("const run = ({ a }) => a * 2;", vec!["a"]),
        ("export const run = async function ({ a }) { return a }", vec!["a"]),
        ("export function add(args) { const { x, y } = args; return x + y }", vec!["x", "y"]),
        ("function add(a, b) { return a + b }", vec!["a", "b"]),
        ("function fib(n) { return n }", vec!["n"]),
        (
            "function gcd(a, b) { return b ? gcd(b, a % b) : a }\nfunction lcm({ x, y }) { return x * y / gcd(x, y) }",
            vec!["x", "y"],
        ),
        ("function run({ a }) { return a }\nmodule.exports = run;", vec!["a"]),
        ("module.exports = async ({ a }) => a;", vec!["a"]),
        ("function go({ a }) { return a }\nexport { go as default };", vec!["a"]),
        ("const go = ({ a }) => a;\nexport default go;", vec!["a"]),
        ("export default ({ a }) => a", vec!["a"]),
        ("export function add(a, b) { return a + b }\nexport default add;", vec!["a", "b"]),
        ("export function add(a, b) { return a + b }\nexport { add as default };", vec!["a", "b"]),
        ("export const add = (a, b) => a + b;\nexport default add;", vec!["a", "b"]),
        (
            "function add(a: string): string;\nfunction add(a: any, b: any) { return a + b }\nexport default add;",
            vec!["a", "b"],
        ),
    ] {
        let checked = ok(code);
        assert_eq!(checked.params, params, "{code}");
        assert_eq!(checked.form, Form::Function, "{code}");
    }
}

#[test]
fn statements_with_global_args_are_a_script() {
    for code in [
        "const n = args.n; console.log(n * 2);",
        "async function main() { console.log(args.n) }\nawait main();",
        "console.log(1 + 1)",
        "console.log(__workspace)",
    ] {
        assert_eq!(ok(code).form, Form::Script, "{code}");
    }
    assert_eq!(ok("const n = args.n; console.log(n * 2);").params, ["n"]);
}

#[test]
fn several_possible_entries_are_a_question_and_not_a_guess() {
    let error = err("function a(x) { return x }\nfunction b(x) { return x }");
    assert!(error.message.contains("a, b"), "{error}");
    assert!(err("export default { run() {} }").message.contains("an object"));
    assert!(err("").message.contains("no code"));
    for code in ["function add(a, b)", "interface A { n: number }", "type A = string; declare const a: A;"] {
        assert!(err(code).message.contains("nothing is left"), "{code}");
    }
}

#[test]
fn imports_are_refused_with_a_way_out_and_the_line() {
    let error = err("// first\nimport fs from 'node:fs';\nexport default () => fs.readFileSync('/etc/passwd')");
    assert_eq!((error.name.as_str(), error.line), ("ImportError", Some(2)));
    assert!(error.message.contains("ctx.read"), "{error}");
    for code in [
        "import x from '/etc/passwd'; export default () => x",
        "import x from 'https://evil.example/x.js'; export default () => x",
        "export * from 'lodash'",
        "export default async () => (await import('fs')).default",
        "export default async (a) => await import(a.name)",
        "const axios = require('axios'); export default () => axios",
    ] {
        assert_eq!(err(code).name, "ImportError", "{code}");
    }
}

#[test]
fn type_only_imports_are_stripped() {
    ok("import type { Args } from './types';\nexport default (args: Args) => 1");
}

#[test]
fn what_the_code_reaches_for_is_told_with_its_target() {
    let checked = ok(r#"export default async function run({ city }, ctx) {
  const r = await fetch(`https://api.example.com/v1?q=${city}`);
  await ctx.fetch("http://other.example:8080/x");
  await ctx.write("out.txt", await ctx.read(`in.txt`));
  await ctx.secret("TOKEN");
  await fetch(`https://${city}.example.com/`);
}"#);
    let uses: Vec<_> = checked.uses.iter().map(|u| (u.kind, u.target.as_deref(), u.line)).collect();
    assert_eq!(
        uses,
        [
            (UseKind::Fetch, Some("api.example.com"), 2),
            (UseKind::Fetch, Some("other.example:8080"), 3),
            (UseKind::Write, Some("out.txt"), 4),
            (UseKind::Read, Some("in.txt"), 4),
            (UseKind::Secret, Some("TOKEN"), 5),
            (UseKind::Fetch, None, 6),
        ]
    );
    let parts =
        ok("export default async ({ a }, { read: r, fetch }) => { await r(a); await fetch('https://h.example/') }");
    let kinds: Vec<_> = parts.uses.iter().map(|u| (u.kind, u.target.as_deref())).collect();
    assert_eq!(kinds, [(UseKind::Read, None), (UseKind::Fetch, Some("h.example"))]);
}

#[test]
fn every_written_value_is_listed() {
    let checked = ok("export default () => ['水', 1_000, 0x1F, 123456789012345678901n, `a${1.5}b`]");
    for literal in ["水", "1000", "31", "123456789012345678901", "a", "b", "1.5"] {
        assert!(checked.literals.iter().any(|l| l == literal), "{literal} in {:?}", checked.literals);
    }
}

#[test]
fn a_syntax_error_names_the_line() {
    let error = err("export default function run(args) {\n  return 1 +;\n}");
    assert_eq!((error.name.as_str(), error.line), ("SyntaxError", Some(2)));
    assert!(err("let a = 1; let a = 2; export default () => a").message.contains('a'));
}

#[test]
fn output_places_map_back_to_the_persons_lines() {
    let code =
        "interface A {\n  n: number;\n}\n\nexport default function run(args: A) {\n\n\n  throw new Error('x');\n}";
    let checked = ok(code);
    let line = checked.javascript.lines().position(|l| l.contains("throw")).unwrap() as u32 + 1;
    assert_eq!(checked.original(line, 9).map(|p| p.0), Some(8));
}

#[test]
fn python_is_left_to_python() {
    let error = check("def run(args, ctx): pass", Runtime::Python).unwrap_err();
    assert!(error.message.contains("Executor::check"));
}

#[test]
fn printed_code_is_not_much_longer_than_what_was_written() {
    let code = format!("export default () => {{ {};return 1 }}", "if(1)".repeat(13_000));
    let checked = ok(&code);
    assert!(checked.javascript.len() < 3 * code.len(), "{} bytes", checked.javascript.len());
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let n = 120_000;
    for code in [
        format!("export default () => {}1", "!".repeat(n)),
        format!("export default () => {}1{}", "(".repeat(n), ")".repeat(n)),
        format!("export default () => {}1{}", "[".repeat(n), "]".repeat(n)),
        format!("export default {}1", "a=>".repeat(n / 3)),
        format!("export default () => 1{}", "+1".repeat(n)),
        format!("export default () => a{}", ".b".repeat(n)),
        format!("export default () => {}1", "a?b:".repeat(n / 2)),
        format!("export default () => {}1", "- ".repeat(n)),
        format!("export default () => {{ {} }}", "if(1)".repeat(n / 3)),
        format!("export default () => {{ {} ; }}", "for(;;)".repeat(n / 4)),
        format!("export default () => {}1", "await ".repeat(n / 6)),
        format!("export default () => {}1", "typeof ".repeat(n / 4)),
        format!("export default () => a{}", "**a".repeat(n / 2)),
        format!("export default () => {}1", "a=".repeat(n / 2)),
        format!("export default () => {{ {} ; }}", "a:".repeat(n / 2)),
        format!("type A = {}string; export default () => 1", "keyof ".repeat(n / 4)),
        format!("type A = string{}; export default () => 1", "[]".repeat(n / 2)),
        format!("export default () => {}", "<A>".repeat(n / 3)),
        format!("export default () => {}", "`${".repeat(n / 3)),
        format!("export default () => {{ {} }}", "if(1);else ".repeat(n / 6)),
        format!("export default () => {}x", "new ".repeat(n / 4)),
        format!("export default () => x{}", "``".repeat(n / 2)),
        format!("export default () => x{}", "!".repeat(n)),
        format!("export default () => x{}", " as any".repeat(n / 4)),
    ] {
        // Either outcome is fine; a crash of the process is not.
        let _ = check(&code, Runtime::Typescript);
    }
}
