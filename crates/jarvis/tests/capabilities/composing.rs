//! Capabilities that call capabilities, in the shipped binary: TypeScript, Python and both, and what they may not do.

use crate::common::files::{Behaviour, FileServer};
use crate::common::{Home, Ran};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Registers a capability whose only example is `args`, with more of a definition where that is due.
fn add(home: &Home, name: &str, about: &str, args: &Value, code: &str, more: &Value) -> Ran {
    let properties: Value = args.as_object().unwrap().keys().map(|key| (key.clone(), json!({}))).collect();
    let mut definition = json!({
        "name": name, "capability": about, "examples": [{"args": args}],
        "parameters": {"type": "object", "properties": properties},
    });
    for (key, value) in more.as_object().unwrap() {
        definition[key] = value.clone();
    }
    home.write("d.json", &definition.to_string());
    home.write("c", code);
    let mut line = vec!["cap", "register", "--definition", "d.json", "--code", "c", "--approve", "auto"];
    for host in more["grants"]["network"].as_array().into_iter().flatten() {
        line.extend(["--allow-net", host.as_str().unwrap()]);
    }
    home.run(&line)
}

fn run(home: &Home, name: &str, args: &Value) -> Ran {
    home.run(&["cap", "run", name, "--args", &args.to_string(), "--json"])
}

fn double(home: &Home) {
    let more = json!({"parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}},
                      "returns": {"type": "number"}, "examples": [{"args": {"n": 4}, "returns": 8}]});
    let code = "export default function run({ n }: { n: number }) { return n * 2 }";
    let _ = add(home, "double", "Doubles a number.", &json!({"n": 4}), code, &more).ok();
}

/// Calls what it is told, catches what that throws, and says so.
const RELAY: &str = "export default async function run({ name, args }: { name: string, args: object }) {
  try { return { value: await capability(name, args) } } catch (e) { return { error: e.name, message: e.message } }
}";

const RELAY_PY: &str = "def run(args, ctx):
    try:
        return {'value': ctx.call(args['name'], args['args'])}
    except Exception as e:
        return {'error': type(e).__name__, 'message': str(e)}
";

fn relays(home: &Home) {
    let args = json!({"name": "double", "args": {"n": 1}});
    let _ = add(home, "relay", "Hands a task on to somebody.", &args, RELAY, &json!({})).ok();
    let python = json!({"runtime": "python"});
    let _ = add(home, "snake", "Lets a reptile pass the parcel.", &args, RELAY_PY, &python).ok();
}

fn relayed(home: &Home, by: &str, name: &str, args: &Value) -> Value {
    run(home, by, &json!({"name": name, "args": args})).ok().json()["result"].clone()
}

fn stats(home: &Home, name: &str) -> (u64, u64) {
    let stats = home.run(&["cap", "show", name, "--json"]).ok().json()["stats"].clone();
    (stats["runs"].as_u64().unwrap(), stats["failures"].as_u64().unwrap())
}

#[test]
fn typescript_and_python_call_each_other_and_it_is_counted_shown_and_recorded() {
    let home = Home::new();
    double(&home);
    let python = json!({"runtime": "python", "examples": [{"args": {"n": 3}, "returns": 12}]});
    let code = "def run(args, ctx):\n    return ctx.call('double', {'n': capability('double', n=args['n'])})\n";
    let _ = add(&home, "fourfold", "Multiplies by four, in Python.", &json!({"n": 3}), code, &python).ok();
    let code = "export default async function run({ n }: { n: number }, ctx) {
      const [a, b] = await Promise.all([ctx.call('fourfold', { n }), capability('fourfold', { n })]);
      return a + b;
    }";
    let eight = json!({"examples": [{"args": {"n": 3}, "returns": 24}]});
    let _ = add(&home, "octuple", "Eight of the same, by two halves.", &json!({"n": 3}), code, &eight).ok();
    // What forge tried out is no use of what was called.
    assert_eq!((stats(&home, "double"), stats(&home, "fourfold")), ((0, 0), (0, 0)));

    let ran = run(&home, "octuple", &json!({"n": 5})).ok().json();
    assert_eq!(ran["result"], 40);
    let calls: Vec<_> = ran["execution"]["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["caller"].as_str().unwrap(), c["name"].as_str().unwrap(), c["depth"].as_u64().unwrap(), &c["ok"]))
        .collect();
    let count = |wanted: (&str, &str, u64, &Value)| calls.iter().filter(|call| **call == wanted).count();
    assert_eq!(count(("octuple", "fourfold", 1, &json!(true))), 2, "{calls:?}");
    assert_eq!(count(("fourfold", "double", 2, &json!(true))), 4, "{calls:?}");
    assert_eq!((stats(&home, "double"), stats(&home, "fourfold"), stats(&home, "octuple")), ((4, 0), (2, 0), (1, 0)));

    let shown = home.run(&["cap", "show", "fourfold"]).ok().out;
    assert!(shown.contains("calls       double\n") && shown.contains("called by   octuple\n"), "{shown}");
    let related = home.run(&["cap", "show", "fourfold", "--json"]).ok().json()["related"].clone();
    let edges = json!([{"caller": "fourfold", "callee": "double", "runs": 4, "failures": 0},
                       {"caller": "octuple", "callee": "fourfold", "runs": 2, "failures": 0}]);
    assert_eq!(related, json!({"calls": ["double"], "called_by": ["octuple"], "edges": edges}));

    // Every intent has its outcome, and both name the caller.
    for kind in ["intent", "outcome"] {
        let records = home.run(&["audit", "tail", "--kind", kind, "-n", "7"]).ok().out;
        assert_eq!(records.matches("\"caller\":\"fourfold\",\"depth\":2").count(), 4, "{records}");
        assert_eq!(records.matches("\"caller\":\"octuple\",\"depth\":1").count(), 2, "{records}");
    }
    let _ = home.run(&["audit", "verify"]).ok();

    // Who calls it is said before it goes.
    let removed = home.run(&["cap", "rm", "double", "--json"]).ok();
    assert!(removed.err.contains("called by fourfold"), "{}", removed.err);
    assert_eq!(removed.json()["called_by"], json!(["fourfold"]));
    let _ =
        home.run(&["cap", "run", "octuple", "--args", "{\"n\": 1}"]).failed(1, &["no capability is called `double`"]);
}

#[test]
fn what_reaches_outside_reaches_nothing_when_one_without_grants_calls_it() {
    let server = FileServer::start(Behaviour { data: b"private".to_vec(), ..Behaviour::default() });
    let host = server.url.strip_prefix("http://").unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(folder.path().join("open")).unwrap();
    std::fs::write(folder.path().join("open/a.txt"), "a note").unwrap();
    std::fs::write(folder.path().join("b.txt"), "closed").unwrap();
    let home = Home::new();
    let _ = home.run_with_input(&["secret", "set", "KEY", "--host", &host], "value-of-the-key").ok();
    double(&home);
    relays(&home);
    let fetches = "export default async ({ url }: { url: string }, ctx) => {
      const key = await ctx.secret('KEY');
      return await (await fetch(url, { headers: { 'x-key': key } })).text();
    }";
    let grants = json!({"grants": {"network": [host], "secrets": ["KEY"]}});
    let url = json!({"url": server.url});
    let _ = add(&home, "fetch_page", "Fetches a page with a key.", &url, fetches, &grants).ok();
    let grants = json!({"grants": {"read": [folder.path()], "write": [folder.path()]}});
    let reads = "export default async ({ path }: { path: string }, ctx) => await ctx.read(path)";
    let _ = add(&home, "read_note", "Reads a note.", &json!({"path": file("b.txt")}), reads, &grants).ok();
    let writes = "export default async ({ path }: { path: string }, ctx) => { await ctx.write(path, 'x'); return 1 }";
    let _ = add(&home, "keep_note", "Writes down a letter.", &json!({"path": file("w.txt")}), writes, &grants).ok();
    std::fs::remove_file(folder.path().join("w.txt")).unwrap();
    let asked = server.ranges.lock().unwrap().len();

    for by in ["relay", "snake"] {
        for (name, args, kind) in [
            ("fetch_page", &url, "secrets KEY"),
            ("read_note", &json!({"path": file("b.txt")}), "read "),
            ("keep_note", &json!({"path": file("w.txt")}), "write "),
        ] {
            let refused = relayed(&home, by, name, args);
            let message = refused["message"].as_str().unwrap_or_default();
            assert!(refused["error"] == "CapabilityError" && message.contains("PermissionError"), "{refused}");
            let why = format!("called by `{by}`, which may not: ");
            assert!(message.contains(&why) && message.contains(kind), "{message}");
            assert!(message.contains("not granted (nothing is)"), "{message}");
        }
    }
    assert_eq!(server.ranges.lock().unwrap().len(), asked, "nothing was fetched");
    assert!(!folder.path().join("w.txt").exists());
    // A failure that is its caller's lack says nothing about what was called.
    assert_eq!((stats(&home, "fetch_page"), stats(&home, "read_note")), ((0, 0), (0, 0)));

    // One with a part of the grants reaches that part.
    let part = json!({"grants": {"read": [folder.path().join("open")], "network": ["other.example.com"]}});
    let args = json!({"name": "read_note", "args": {"path": file("open/a.txt")}});
    let _ = add(&home, "clerk", "Asks an office for papers.", &args, RELAY, &part).ok();
    assert_eq!(relayed(&home, "clerk", "read_note", &args["args"]), json!({"value": "a note"}));
    let beside = relayed(&home, "clerk", "read_note", &json!({"path": file("b.txt")}));
    assert!(beside["message"].as_str().unwrap().contains("which may not: "), "{beside}");
    assert!(relayed(&home, "clerk", "fetch_page", &url)["error"] == "CapabilityError");
    // By way of one that has nothing, nothing is left of them.
    let way = json!({"name": "read_note", "args": {"path": file("open/a.txt")}});
    let lost = relayed(&home, "clerk", "relay", &way);
    assert!(lost["value"]["message"].as_str().unwrap().contains("called by `relay`"), "{lost}");
    // With all of them, all of it.
    let all = json!({"grants": {"network": [host], "secrets": ["KEY"]}});
    let args = json!({"name": "fetch_page", "args": url});
    let _ = add(&home, "envoy", "Travels with every paper.", &args, RELAY, &all).ok();
    assert_eq!(relayed(&home, "envoy", "fetch_page", &url), json!({"value": "private"}));
    assert!(!home.run(&["audit", "tail", "-n", "500"]).ok().out.contains("value-of-the-key"));
}

#[test]
fn circles_end_before_anything_runs_whatever_they_lead_through() {
    let home = Home::new();
    double(&home);
    relays(&home);
    let way =
        |names: &[&str]| names.iter().rev().fold(json!({"n": 1}), |args, name| json!({"name": name, "args": args}));
    for (first, names) in [
        ("relay", &["relay", "double"][..]),
        ("relay", &["snake", "relay", "double"]),
        ("snake", &["snake", "double"]),
        ("snake", &["relay", "snake", "double"]),
    ] {
        let ran = home.run(&["cap", "run", first, "--args", &way(names).to_string(), "--json"]).ok();
        assert!(ran.out.contains("would go round in a circle (") && ran.out.contains("PermissionError"), "{}", ran.out);
        let calls = ran.json()["execution"]["calls"].as_array().map_or(0, Vec::len);
        assert_eq!(calls, names.len() - 2, "{}", ran.out);
    }
    assert_eq!(stats(&home, "double"), (0, 0));
    let denied = home.run(&["audit", "tail", "--kind", "decision"]).ok().out;
    assert!(denied.contains("relay → snake → relay"), "{denied}");
    // By its own name, and with a name written out: said when it is registered.
    let calls = |name: &str| format!("export default async () => await capability(\"{name}\", {{}})");
    let _ = add(&home, "ouroboros", "Bites its own tail.", &json!({}), &calls("ouroboros"), &json!({}))
        .failed(1, &["calls itself"]);
    let _ = add(&home, "hopeful", "Hopes for help.", &json!({}), &calls("nobody_here"), &json!({}))
        .failed(1, &["none is registered under that name"]);
}

#[test]
fn calls_nest_eight_deep_and_no_deeper() {
    let home = Home::new();
    let about = [
        "Waters plants.",
        "Counts sheep.",
        "Paints a fence.",
        "Sings at dawn.",
        "Bakes some bread.",
        "Mends old shoes.",
        "Climbs the hill.",
        "Reads the stars.",
        "Rows a boat.",
        "Keeps the gate.",
    ];
    let last = "export default ({ next }: { next: string[] }) => next.length";
    let _ = add(&home, "last", "Closes every chain.", &json!({"next": []}), last, &json!({})).ok();
    let code = "export default async function run({ next }: { next: string[] }) {
      return await capability(next[0], { next: next.slice(1) });
    }";
    let names: Vec<String> = (1..=about.len()).map(|n| format!("link_{n}")).collect();
    for (name, about) in names.iter().zip(about) {
        let _ = add(&home, name, about, &json!({"next": ["last"]}), code, &json!({})).ok();
    }
    let chain = |links: usize| {
        let next: Vec<&str> = names[1..links].iter().map(String::as_str).chain(["last"]).collect();
        run(&home, "link_1", &json!({"next": next}))
    };
    let ran = chain(8).ok().json();
    assert_eq!((&ran["result"], ran["execution"]["calls"].as_array().unwrap().len()), (&json!(0), 8));
    let _ = chain(9).failed(1, &["calls would nest more than 8 deep", "link_1 → link_2"]);
}

#[test]
fn a_call_takes_no_more_than_what_is_left_of_its_callers_time_and_of_all_calls() {
    let home = Home::new();
    double(&home);
    relays(&home);
    let naps =
        "export default async ({ ms }: { ms: number }) => { await new Promise((f) => setTimeout(f, ms)); return ms }";
    let _ = add(&home, "nap", "Sleeps for a while.", &json!({"ms": 1}), naps, &json!({})).ok();
    let short = json!({"limits": {"timeout_ms": 1500, "memory_mb": 64, "output_bytes": 100_000}});
    let impatient = "export default async ({ ms, times }: { ms: number, times: number }) => {
      for (let i = 0; i < times; i++) { try { await capability('nap', { ms }) } catch {} }
      return ms;
    }";
    let _ = add(&home, "impatient", "Waits badly.", &json!({"ms": 1, "times": 1}), impatient, &short).ok();
    let started = Instant::now();
    let _ = run(&home, "impatient", &json!({"ms": 60_000, "times": 50})).failed(1, &["not finished after 1500 ms"]);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!(stats(&home, "nap"), (0, 0), "that its caller had no time is no failure of its own");
    let audit = home.run(&["audit", "tail", "--kind", "outcome", "-n", "2"]).ok().out;
    assert!(audit.contains("\"caller\":\"impatient\""), "{audit}");
    // One that takes too long by its own limit can be caught.
    let own = json!({"limits": {"timeout_ms": 1500, "memory_mb": 64, "output_bytes": 100_000}});
    let _ = add(&home, "short_nap", "Dozes off briefly.", &json!({"ms": 1}), naps, &own).ok();
    for by in ["relay", "snake"] {
        assert_eq!(relayed(&home, by, "short_nap", &json!({"ms": 60_000}))["error"], "TimeoutError");
    }
    assert_eq!(stats(&home, "short_nap"), (2, 2));

    let many = "export default async ({ times }: { times: number }) => {
      const seen: Record<string, number> = {};
      const one = async () => {
        try { await capability('nobody' + '_here', {}) } catch (e) { seen[e.name] = (seen[e.name] ?? 0) + 1 }
      };
      for (let i = 0; i < times; i += 50) await Promise.all(Array.from({ length: 50 }, one));
      try { await capability('double', { n: 1 }) } catch (e) { seen.last = e.message }
      return seen;
    }";
    let _ = add(&home, "chatty", "Talks a lot.", &json!({"times": 50}), many, &json!({})).ok();
    let seen = run(&home, "chatty", &json!({"times": 10_000})).ok().json()["result"].clone();
    assert_eq!((&seen["NotFoundError"], &seen["RangeError"]), (&json!(1000), &json!(9000)));
    assert!(seen["last"].as_str().unwrap().contains("1000 calls"), "{seen}");
    // A hundred at once, which are run a few at a time.
    let crowd = "export default async ({ many }: { many: number }) =>
      (await Promise.all(Array.from({ length: many }, (_, n) => capability('double', { n })))).reduce((a, b) => a + b, 0);";
    let _ = add(&home, "crowd", "Asks everybody.", &json!({"many": 3}), crowd, &json!({})).ok();
    let home = home.var("JARVIS_SANDBOX_POOL", "0");
    assert_eq!(run(&home, "crowd", &json!({"many": 100})).ok().json()["result"], 9900);
}

#[test]
fn what_may_not_run_or_is_called_wrongly_is_an_error_to_catch() {
    let home = Home::new();
    double(&home);
    relays(&home);
    let is = |got: &Value, error: &str, says: &str| {
        let message = got["message"].as_str().unwrap_or_default();
        assert!(got["error"] == error && message.contains(says), "{got}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
    };
    for by in ["relay", "snake"] {
        let missing = if by == "relay" { "NotFoundError" } else { "LookupError" };
        is(&relayed(&home, by, "double", &json!({"n": "two"})), "TypeError", "double(n: number)");
        is(&relayed(&home, by, "double", &json!({})), "TypeError", "n");
        is(&relayed(&home, by, "nobody_here", &json!({})), missing, "no capability is called `nobody_here`");
        for odd in ["", "../../etc/passwd", "\u{1b}[31mred\n\0", "__proto__", "翻倍", "DOUBLE", "double\u{202e}"] {
            is(&relayed(&home, by, odd, &json!({})), missing, "is not the name of a capability");
        }
    }
    let once = json!({"returns": {"type": "number"}, "parameters": {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["good", "bad"]}}}});
    let liar = "export default ({ kind }: { kind: string }) => kind === 'bad' ? 'text' : 1";
    let _ = add(&home, "liar", "Promises numbers.", &json!({"kind": "good"}), liar, &once).ok();
    is(&relayed(&home, "relay", "liar", &json!({"kind": "bad"})), "CapabilityError", "does not promise");

    let disabled = home.run(&["cap", "disable", "double"]).ok();
    assert!(!disabled.err.contains("called by"), "no code names it, and nobody has called it well: {}", disabled.err);
    is(&relayed(&home, "relay", "double", &json!({"n": 1})), "PermissionError", "`double` is disabled");
    let _ = home.run(&["cap", "enable", "double"]).ok();
    assert_eq!(relayed(&home, "snake", "double", &json!({"n": 2})), json!({"value": 4}));
    // The version in force when it is called runs.
    let code = "export default function run({ n }: { n: number }) { return n + n + 0 * n }";
    let _ = add(&home, "double", "Doubles a number.", &json!({"n": 5}), code, &json!({})).ok();
    let ran = run(&home, "relay", &json!({"name": "double", "args": {"n": 3}})).ok().json();
    assert_ne!(ran["execution"]["calls"][0]["version"], "1.0.0");
    // Changed by hand, it does not run.
    home.write("capabilities/tools/double.ts", "export default () => 666");
    is(&relayed(&home, "relay", "double", &json!({"n": 1})), "PermissionError", "changed by hand");
    let warned = home.run(&["cap", "rm", "double"]).ok();
    assert!(warned.err.contains("called by relay, snake"), "by what was run: {}", warned.err);
}

#[test]
fn verification_holds_the_clock_and_chance_of_what_is_called_still() {
    let home = Home::new();
    let dice = "export default () => [Math.random(), Date.now()]";
    let _ = add(&home, "dice", "Throws dice and looks at the clock.", &json!({}), dice, &json!({})).ok();
    let python = json!({"runtime": "python"});
    let code = "import random, time\ndef run(args):\n    return [random.random(), time.time()]\n";
    let _ = add(&home, "urn", "Draws a lot from an urn.", &json!({}), code, &python).ok();
    for (name, about, callee) in [("gambler", "Lives on luck.", "dice"), ("drawer", "Pulls straws.", "urn")] {
        // Twice the same within one run of the sandbox, since nothing moves.
        let code = format!(
            "export default async () => {{
               const one = await capability('{callee}'), two = await capability('{callee}');
               if (JSON.stringify(one) !== JSON.stringify(two)) throw new Error('it moved');
               return one;
             }}"
        );
        let ran = add(&home, name, about, &json!({}), &code, &json!({})).ok();
        assert!(ran.err.contains("its result depends on the time or on chance"), "{}", ran.err);
    }
    // In use, they move.
    let _ = run(&home, "gambler", &json!({})).failed(1, &["it moved"]);
}

#[test]
fn a_caller_takes_nothing_out_of_use_by_the_arguments_it_chooses() {
    let home = Home::new();
    let shy = "export default function run({ n }: { n: number }) {\n  if (n < 0) throw new RangeError('no');\n  return n + 1;\n}";
    let next = json!({"examples": [{"args": {"n": 1}, "returns": 2}]});
    let _ = add(&home, "next_number", "The number after this one.", &json!({"n": 1}), shy, &next).ok();
    let spiteful = "export default async function run({ n }: { n: number }) {
      for (let i = 0; i < 10; i++) await capability('next_number', { n: -1 }).catch(() => 0);
      return n;
    }";
    let same = json!({"examples": [{"args": {"n": 1}, "returns": 1}]});
    let _ = add(&home, "spiteful", "Gives back what it was given.", &json!({"n": 1}), spiteful, &same).ok();
    let _ = run(&home, "spiteful", &json!({"n": 5})).ok();
    assert_eq!(stats(&home, "next_number"), (10, 10), "counted all the same");
    assert_eq!(home.run(&["cap", "show", "next_number", "--json"]).ok().json()["capability"]["status"], "active");
    assert_eq!(run(&home, "next_number", &json!({"n": 5})).ok().json()["result"], 6);
}
