//! `jarvis cap doctor`, `unify` and `stats`: what is wrong with a registry is found, settled, and undone again.

use crate::common::provider::{Provider, Reply, grows};
use crate::common::{Home, Ran};
use serde_json::{Value, json};

const GCD: &str = "export default function run({ a, b }: { a: number; b: number }): number {
  while (b !== 0) [a, b] = [b, a % b];
  return Math.abs(a);
}
";
const GCD_BY_NAMES: &str = "export default function run({ first, second }: { first: number; second: number }): number {
  let [m, n] = [Math.abs(first), Math.abs(second)];
  while (n) { const rest = m % n; m = n; n = rest; }
  return m;
}
";

fn numbers(names: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "integer"}))).collect();
    json!({"type": "object", "required": names, "properties": properties})
}

fn definition(name: &str, says: &str, parameters: Value, examples: Value) -> Value {
    json!({"name": name, "capability": says, "parameters": parameters, "examples": examples})
}

fn register(home: &Home, definition: &Value, code: &str) -> Ran {
    home.write("d.json", &definition.to_string());
    home.write("c.ts", code);
    // More than five within ten minutes are asked about.
    home.run(&["cap", "register", "--definition", "d.json", "--code", "c.ts", "--approve", "auto"])
}

fn gcd() -> Value {
    let mut of = definition(
        "gcd",
        "Greatest common divisor of two whole numbers.",
        numbers(&["a", "b"]),
        json!([{"args": {"a": 12, "b": 18}, "returns": 6}, {"args": {"a": 7, "b": 5}, "returns": 1}]),
    );
    of["triggers"] = json!(["two numbers share a divisor"]);
    of
}

fn common_divisor() -> Value {
    let mut of = definition(
        "common_divisor",
        "The greatest common divisor of two whole numbers.",
        numbers(&["a", "b"]),
        json!([{"args": {"a": 48, "b": 36}, "returns": 12}, {"args": {"a": 9, "b": 6}, "returns": 3, "held_out": true}]),
    );
    of["triggers"] = json!(["最大公约数"]);
    of
}

/// Two that are registered although they do the same: the first was off while the second came.
fn twice(first: &Value, first_code: &str, second: &Value, second_code: &str) -> Home {
    let home = Home::new();
    let name = first["name"].as_str().unwrap();
    let _ = register(&home, first, first_code).ok();
    let _ = home.run(&["cap", "disable", name]).ok();
    let _ = register(&home, second, second_code).ok();
    let _ = home.run(&["cap", "enable", name]).ok();
    home
}

fn two_gcds() -> Home {
    let code = GCD.replace("Math.abs(a)", "a < 0 ? -a : a");
    twice(&gcd(), GCD, &common_divisor(), &code)
}

#[track_caller]
fn run(home: &Home, name: &str, args: &Value) -> Value {
    home.run(&["cap", "run", name, "--args", &args.to_string(), "--json"]).ok().json()["result"].clone()
}

fn doctor(home: &Home, flags: &[&str]) -> Value {
    home.run(&[&["cap", "doctor", "--json"], flags].concat()).ok().json()
}

fn shown(home: &Home, name: &str) -> Value {
    home.run(&["cap", "show", name, "--json"]).ok().json()["capability"].clone()
}

/// Every file of the registry but git's own.
fn files(home: &Home) -> Vec<(String, Vec<u8>)> {
    let mut list = Vec::new();
    for folder in ["capabilities", "capabilities/tools"] {
        for entry in std::fs::read_dir(home.file(folder)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                list.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    list.sort();
    list
}

/// The words of a command that doctor names, without the program.
fn words(command: &Value) -> Vec<String> {
    command.as_str().unwrap().split(' ').skip(1).map(str::to_owned).collect()
}

#[test]
fn duplicates_are_found_run_on_each_others_calls_unified_by_the_named_command_and_undone() {
    let home = two_gcds();
    let report = doctor(&home, &["--run"]);
    let found = &report["duplicates"];
    assert_eq!(found.as_array().unwrap().len(), 1, "{report:#}");
    let other = &found[0]["others"][0];
    assert!(other["similarity"].as_f64().unwrap() >= 0.6, "{other}");
    assert_eq!((&other["agree"]["calls"], &other["agree"]["agreed"]), (&json!(4), &json!(4)), "{other}");
    let command = words(&found[0]["command"]);
    assert_eq!(command[..2], ["cap", "unify"]);
    let (keep, gone) = (command[2].as_str(), command[3].as_str());

    let said = home.run(&command).ok().err;
    assert!(said.contains(&format!("{keep} 1.0.1 answers for {gone} too")), "{said}");
    for name in [keep, gone] {
        assert_eq!(run(&home, name, &json!({"a": 90, "b": 24})), 6, "{name}");
    }
    let kept = shown(&home, keep);
    assert_eq!((&kept["aliases"], &kept["supersedes"]), (&json!([gone]), &json!(gone)));
    assert_eq!(kept["examples"].as_array().unwrap().len(), 4);
    assert_eq!(kept["triggers"].as_array().unwrap().len(), 2);
    assert_eq!(shown(&home, gone)["status"], "retired");
    assert!(home.run(&["cap", "show", keep]).ok().out.contains(&format!("also called{:1}{gone}", "")));
    assert_eq!(doctor(&home, &[])["duplicates"], json!([]));
    let audit = home.run(&["audit", "tail", "--subject", gone, "--json"]).ok().out;
    assert!(audit.contains("\"replaced_by\""), "{audit}");
    let _ = home.run(&["audit", "verify"]).ok();

    // Its name is taken, and comes back only from the one that has it.
    let _ = home.run(&["cap", "enable", gone]).failed(1, &["another name of", keep, "cap rollback"]);
    let mut again = if gone == "gcd" { gcd() } else { common_divisor() };
    again["capability"] = json!("Something quite different about colours.");
    let refused = register(&home, &again, GCD).failed(1, &["another name of it"]);
    assert!(refused.err.contains(keep), "{}", refused.err);

    let _ = home.run(&["cap", "rollback", keep]).ok();
    assert_eq!(shown(&home, keep)["aliases"], Value::Null);
    let _ = home.run(&["cap", "run", gone, "--args", "{\"a\": 4, \"b\": 6}"]).failed(1, &["is retired"]);
    let _ = home.run(&["cap", "enable", gone]).ok();
    assert_eq!(run(&home, gone, &json!({"a": 4, "b": 6})), 2);
    assert_eq!(run(&home, keep, &json!({"a": 4, "b": 6})), 2);
    assert_eq!(home.run(&["cap", "stats", gone, "--json"]).ok().json()["runs"], 1, "what ran before ran as the other");
}

#[test]
fn arguments_with_other_names_are_put_into_the_words_of_the_kept_one() {
    let repeat = definition(
        "repeat_text",
        "Repeats a text a number of times.",
        json!({"type": "object", "required": ["text", "times"],
            "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}}),
        json!([{"args": {"text": "ab", "times": 2}, "returns": "abab"}]),
    );
    let chinese = definition(
        "chong_fu",
        "把一段文字重复若干次。",
        json!({"type": "object", "required": ["文字", "次数"],
            "properties": {"文字": {"type": "string"}, "次数": {"type": "integer"}}}),
        json!([{"args": {"文字": "好", "次数": 3}, "returns": "好好好"}]),
    );
    let home = Home::new();
    let _ = register(&home, &repeat, "export default (args) => args.text.repeat(args.times)").ok();
    let _ = register(&home, &chinese, "export default (args) => args['文字'].repeat(args['次数'])").ok();
    let done = home.run(&["cap", "unify", "repeat_text", "chong_fu", "--json"]).ok().json();
    assert_eq!(done["arguments"], json!([{"文字": "text", "次数": "times"}]));
    assert_eq!(run(&home, "chong_fu", &json!({"文字": "早", "次数": 2})), "早早");
    assert_eq!(run(&home, "chong_fu", &json!({"text": "x", "times": 2})), "xx", "the words of now do, too");
    let _ = home.run(&["cap", "run", "repeat_text", "--args", "{\"文字\": \"早\", \"次数\": 2}"]).failed(2, &["文字"]);
    assert!(
        home.run(&["cap", "run", "chong_fu", "--args", "{\"文字\": 5, \"次数\": 2}"])
            .failed(2, &["text"])
            .out
            .is_empty()
    );

    // A later version goes on answering to the name, whoever writes it.
    let mut next = repeat.clone();
    next["triggers"] = json!(["the same words again and again"]);
    let _ = register(&home, &next, "export default ({ text, times }) => Array(times).fill(text).join('')").ok();
    assert_eq!(run(&home, "chong_fu", &json!({"文字": "早", "次数": 2})), "早早");
}

#[test]
fn two_arguments_of_a_kind_follow_from_recorded_answers_or_are_asked_for() {
    let power = |name: &str, takes: [&str; 2], examples: Value| {
        definition(name, "Raises a whole number to a power.", numbers(&takes), examples)
    };
    let keep = power("power", ["base", "exponent"], json!([{"args": {"base": 2, "exponent": 10}, "returns": 1024}]));
    let code = "export default ({ base, exponent }) => base ** exponent";
    let other_code = "export default ({ x, y }) => y ** x";
    let telling = power("raise", ["x", "y"], json!([{"args": {"x": 3, "y": 2}, "returns": 8}]));
    let home = twice(&keep, code, &telling, other_code);
    let _ = home.run(&["cap", "unify", "power", "raise"]).ok();
    assert_eq!(run(&home, "raise", &json!({"x": 2, "y": 5})), 25);

    let silent = power("raise", ["x", "y"], json!([{"args": {"x": 2, "y": 2}, "returns": 4}]));
    let home = twice(&keep, code, &silent, other_code);
    let before = files(&home);
    let _ = home.run(&["cap", "unify", "power", "raise"]).failed(1, &["is open", "--map x="]);
    let _ = home.run(&["cap", "unify", "power", "raise", "--map", "z=base"]).failed(2, &["takes `z`"]);
    let _ = home.run(&["cap", "unify", "power", "raise", "--map", "x"]).failed(2, &["--map x=base"]);
    assert_eq!(files(&home), before);
    let _ = home.run(&["cap", "unify", "power", "raise", "--map", "x=exponent", "--map", "y=base"]).ok();
    assert_eq!(run(&home, "raise", &json!({"x": 2, "y": 5})), 25);
}

#[test]
fn what_cannot_be_one_is_refused_with_the_reason_and_nothing_changes() {
    let strict = definition(
        "common_divisor",
        "The greatest common divisor of two whole numbers.",
        numbers(&["a", "b"]),
        // Of nothing and nothing it says 1.
        json!([{"args": {"a": 0, "b": 0}, "returns": 1}]),
    );
    let home = twice(&gcd(), GCD, &strict, &GCD.replace("Math.abs(a)", "Math.abs(a) || 1"));
    let (before, head) = (files(&home), home.run(&["cap", "history", "gcd"]).ok().out);
    let told = home.run(&["cap", "unify", "gcd", "common_divisor"]).failed(1, &["does not pass", "--rewrite"]).err;
    assert!(told.contains("{\"a\":0,\"b\":0}") && told.contains("expected 1"), "{told}");
    let report = doctor(&home, &["--run"]);
    let other = &report["duplicates"][0]["others"][0];
    assert_eq!(other["agree"]["differ"], json!(["{\"a\":0,\"b\":0}"]), "{report:#}");
    assert_eq!(report["duplicates"][0]["command"], Value::Null, "nothing to unify where they differ");

    let _ = register(
        &home,
        &definition("lcm", "Turns degrees.", numbers(&["a", "b", "c"]), json!([{"args": {"a": 1, "b": 2, "c": 3}}])),
        "export default ({ a, b, c }) => [a, b, c]",
    )
    .ok();
    let before_more = files(&home);
    let _ = home.run(&["cap", "unify", "gcd", "lcm"]).failed(1, &["no counterpart", "the other way round"]);
    let _ = home.run(&["cap", "unify", "gcd", "gcd"]).failed(1, &["named twice"]);
    let _ = home.run(&["cap", "unify", "gcd", "nobody"]).failed(1, &["no capability is called `nobody`"]);
    let _ = home.run(&["cap", "disable", "lcm"]).ok();
    let _ = home.run(&["cap", "unify", "lcm", "gcd"]).failed(1, &["`lcm` is disabled"]);
    let _ = home.run(&["cap", "enable", "lcm"]).ok();
    assert_eq!(files(&home), before_more);
    assert_eq!(before_more.len(), before.len() + 1);
    assert_eq!(home.run(&["cap", "history", "gcd"]).ok().out, head);
    assert_eq!(run(&home, "common_divisor", &json!({"a": 0, "b": 0})), 1);

    home.write("capabilities/tools/common_divisor.ts", &GCD.replace("Math", " Math"));
    let _ = home.run(&["cap", "unify", "gcd", "common_divisor"]).failed(1, &["changed by hand"]);
}

#[test]
fn a_model_writes_one_version_for_all_where_it_is_asked_to() {
    let strict = definition(
        "common_divisor",
        "The greatest common divisor of two whole numbers.",
        numbers(&["first", "second"]),
        json!([{"args": {"first": 0, "second": 0}, "returns": 1}, {"args": {"first": 4, "second": 6}, "returns": 2}]),
    );
    let code = GCD_BY_NAMES.replace("return m;", "return m || 1;");
    let home = twice(&gcd(), GCD, &strict, &code);
    let wrong = "```ts\nexport default function run({ a, b }) { return a % b; }\n```";
    let right = "Here it is:\n```ts\nexport default function run(args) {\n  let [m, n] = [Math.abs(args.a), Math.abs(args.b)];\n  while (n) [m, n] = [n, m % n];\n  return m || 1;\n}\n```\n";
    let provider = Provider::start(vec![Reply::Text(wrong), Reply::Text(right)]);
    let home = home.config(&provider.config());
    let maps = ["--map", "first=a", "--map", "second=b"];
    let flags = [&["cap", "unify", "gcd", "common_divisor", "--rewrite", "--json"][..], &maps].concat();
    let done = home.run(&flags).ok().json();
    assert_eq!((&done["rewritten"], &done["usage"]["input_tokens"]), (&json!(true), &json!(22)), "{done}");
    assert_eq!(run(&home, "common_divisor", &json!({"first": 0, "second": 0})), 1);
    assert_eq!(run(&home, "gcd", &json!({"a": 12, "b": 18})), 6);
    let asked = provider.requests.lock().unwrap()[0].to_string();
    assert!(asked.contains("Its argument `first` is `a` now"), "{asked}");

    let home = twice(&gcd(), GCD, &strict, &code);
    let provider = Provider::start(vec![Reply::Text(wrong), Reply::Text(wrong), Reply::Text("no idea")]);
    let home = home.config(&provider.config());
    let before = files(&home);
    let _ = home.run(&flags).failed(1, &["after 3 attempts"]);
    assert_eq!(files(&home), before);
}

#[test]
fn a_conversation_goes_on_under_the_old_name_and_cannot_give_it_away() {
    let home = two_gcds();
    let _ = home.run(&["cap", "unify", "gcd", "common_divisor"]).ok();
    let other = definition(
        "common_divisor",
        "Counts vowels in words.",
        json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}),
        json!([{"args": {"text": "abc"}, "returns": 1}]),
    );
    let provider = Provider::start(vec![
        Reply::Call("execute_capability", json!({"name": "common_divisor", "args": {"a": 21, "b": 14}})),
        Reply::Call("register_capability", json!({"definition": other, "code": "export default ({ text }) => 1"})),
        Reply::Text("It is 7."),
    ]);
    let home = home.config(&provider.config());
    let ran = home.run(&["--json", "What do 21 and 14 share?"]).ok();
    let done: Vec<Value> = ran.events().into_iter().filter(|e| e["type"] == "tool.completed").collect();
    assert_eq!(done[0]["content"], json!({"result": 7}));
    assert_eq!(done[1]["ok"], false);
    assert!(done[1]["content"].to_string().contains("another name of it"), "{}", done[1]);
    assert_eq!(shown(&home, "gcd")["aliases"], json!(["common_divisor"]));
}

fn constant(name: &str, says: &str, code: &str) -> (Value, String) {
    let of = definition(name, says, json!({"type": "object", "properties": {}}), json!([{"args": {}}]));
    (of, code.to_owned())
}

#[test]
fn what_is_too_specific_is_found_and_ordinary_constants_are_not() {
    let home = Home::new();
    let rate = |currency: &str| {
        format!(
            "export default function run({{ amount }}: {{ amount: number }}) {{\n  const table = new Map([['{currency}', 1.5]]);\n  return amount * (table.get('{currency}') ?? 0);\n}}\n"
        )
    };
    let amount = json!({"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}});
    let euros = definition(
        "usd_in_euros",
        "Turns an amount of USD into euros.",
        amount.clone(),
        json!([{"args": {"amount": 2}}]),
    );
    let _ = register(&home, &euros, &rate("USD")).ok();
    let pounds =
        definition("chf_value", "What an amount of Swiss francs is worth.", amount, json!([{"args": {"amount": 3}}]));
    let _ = register(&home, &pounds, &rate("CHF")).ok();
    let (of, code) =
        constant("city_now", "查询北京现在的时间。", "export default () => '北京' + new Date().getUTCFullYear()");
    let _ = register(&home, &of, &code).ok();
    let n = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}});
    let area = definition("circle_area", "The area of a circle with π, to 2 digits.", n, json!([{"args": {"n": 2}}]));
    let _ = register(&home, &area, "export default ({ n }) => Math.round(3.14159 * n ** 2 * 100) / 100").ok();
    let text = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
    let bytes = definition(
        "byte_count",
        "Counts the bytes of a text in utf-8.",
        text,
        json!([{"args": {"text": "é"}, "returns": 2}]),
    );
    let _ = register(
        &home,
        &bytes,
        "export default ({ text }) => ['utf-8'].map(() => new TextEncoder().encode(text).length)[0]",
    )
    .ok();

    let report = doctor(&home, &[]);
    let found: Vec<(&str, &str)> = report["over_specific"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["name"].as_str().unwrap(), f["value"].as_str().unwrap()))
        .collect();
    assert_eq!(found, [("usd_in_euros", "USD"), ("chf_value", "CHF"), ("city_now", "北京")], "{report:#}");
    let siblings = &report["siblings"];
    assert_eq!(siblings[0]["names"], json!(["usd_in_euros", "chf_value"]), "{siblings:#}");
    assert_eq!(siblings[0]["differ"], json!([["USD", "CHF"], ["USD", "CHF"]]));
    let words = home.run(&["cap", "doctor"]).ok().out;
    assert!(words.contains("too specific") && words.contains("`北京` is written into the code (sentence)"), "{words}");
}

#[test]
fn calls_are_no_values_a_circle_is_told_and_the_same_code_has_no_figure() {
    let home = Home::new();
    let n = || json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}});
    let text = || json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
    let of = |name: &str, says: &str, example: Value| definition(name, says, n(), json!([{"args": example}]));
    let calls = |name: &str| {
        format!(
            "export default async function run({{ n }}) {{ return n > 100 ? await capability('{name}', {{ n }}) : n; }}"
        )
    };
    let (ping, pong) = (of("ping", "Serves the ball.", json!({"n": 1})), of("pong", "Gives an echo.", json!({"n": 2})));
    let _ = register(&home, &ping, "export default ({ n }) => n").ok();
    let _ = register(&home, &pong, &calls("ping")).ok();
    let _ = register(&home, &ping, &calls("pong")).ok();
    let caller = of("throttle", "Keeps a speed below its limit.", json!({"n": 3}));
    let _ = register(&home, &caller, &calls("ping")).ok();
    let code = "export default ({ text }) => [...text].reverse().join('')";
    for (name, says) in [("reverse_text", "Reverses a text."), ("mirror", "把文字倒过来。")] {
        let of = definition(name, says, text(), json!([{"args": {"text": "ab"}, "returns": "ba"}]));
        let _ = register(&home, &of, code).ok();
    }
    let report = doctor(&home, &[]);
    assert_eq!((&report["siblings"], &report["over_specific"]), (&json!([]), &json!([])), "{report:#}");
    let problems: Vec<(&str, Option<&str>)> = report["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["caller"].as_str().unwrap(), c["problem"].as_str()))
        .collect();
    let told = |caller: &str| problems.iter().find(|p| p.0 == caller).unwrap().1;
    assert_eq!(told("ping"), Some("calls go round in a circle (ping → pong → ping)"), "{report:#}");
    assert_eq!(told("pong"), Some("calls go round in a circle (pong → ping → pong)"));
    assert_eq!(told("throttle"), None);
    // Which is true.
    let _ = home.run(&["cap", "run", "ping", "--args", "{\"n\": 101}"]).failed(1, &["round in a circle"]);
    let said = home.run(&["cap", "doctor"]).ok().out;
    assert!(said.contains(": the same code\n") && !said.contains("(0."), "{said}");
}

#[test]
fn unused_failing_edited_and_calling_ones_are_told_with_what_settles_them() {
    let home = Home::new();
    let n = || json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}});
    let shy = definition("root_of", "Takes a square root.", n(), json!([{"args": {"n": 4}, "returns": 2}]));
    let code = "export default ({ n }) => { if (n < 0) throw new RangeError('no'); return Math.sqrt(n); }";
    let _ = register(&home, &shy, code).ok();
    // Never three of five, so that it stays in use.
    for n in [-1, -1, 9, 9, 9, -1, -1] {
        let ran = home.run(&["cap", "run", "root_of", "--args", &json!({ "n": n }).to_string()]);
        assert_eq!(ran.code == 0, n > 0, "{}", ran.err);
    }
    let _ = register(&home, &gcd(), GCD).ok();

    assert_eq!(doctor(&home, &[])["unused"], json!([]), "younger than the 30 days of the default");
    let report = doctor(&home, &["--days", "0"]);
    assert_eq!((&report["unused"][0]["name"], &report["unused"][0]["days"]), (&json!("gcd"), &json!(0)));
    let _ = home.run(&words(&report["unused"][0]["command"])).ok();
    assert_eq!(doctor(&home, &["--days", "0"])["unused"], json!([]));
    let failing = &report["failing"][0];
    assert_eq!((&failing["name"], &failing["runs"], &failing["failures"]), (&json!("root_of"), &json!(7), &json!(4)));
    assert_eq!(failing["errors"], json!({"threw": 4}));

    home.write("capabilities/tools/root_of.ts", &code.replace("Math.sqrt(n)", "n ** 0.5"));
    let report = doctor(&home, &[]);
    assert_eq!(
        (&report["not_running"][0]["name"], &report["not_running"][0]["edited"]),
        (&json!("root_of"), &json!(true))
    );
    assert_eq!(words(&report["not_running"][0]["command"]), ["cap", "check", "root_of"], "{report:#}");
    std::fs::remove_file(home.file("capabilities/tools/root_of.ts")).unwrap();
    let report = doctor(&home, &[]);
    assert_eq!(words(&report["not_running"][0]["command"]), ["cap", "rm", "root_of"], "{report:#}");
    let _ = home.run(&["cap", "doctor", "--days", "-1"]).failed(2, &["--days"]);
    let empty = Home::new();
    assert!(empty.run(&["cap", "doctor"]).ok().out.contains("nothing to settle"));
    assert!(!empty.file("capabilities").exists(), "a look changes nothing");
}

#[test]
fn what_reuse_saved_is_what_building_took_times_the_reuses() {
    let provider = Provider::start(grows());
    let home = Home::new().config(&provider.config());
    let _ = home.run(&["What is 6 times 7?"]).ok();
    for b in [3, 4] {
        assert_eq!(run(&home, "multiply_numbers", &json!({"a": 2, "b": b})), 2 * b);
    }
    let _ = register(&home, &gcd(), GCD).ok();
    for _ in 0..2 {
        let _ = run(&home, "gcd", &json!({"a": 4, "b": 6}));
    }
    let stats = home.run(&["cap", "stats", "multiply_numbers", "--json"]).ok().json();
    assert_eq!((&stats["runs"], &stats["reuses"]), (&json!(3), &json!(2)));
    // Two replies led to the registration, of 11 tokens in and 3 out each.
    let usage = &stats["builds"][0]["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(22), &json!(6)), "{stats}");
    assert_eq!(stats["saved"]["tokens"], 56);
    let seconds = 2.0 * stats["builds"][0]["wall_ms"].as_f64().unwrap() / 1000.0;
    assert!((stats["saved"]["seconds"].as_f64().unwrap() - seconds).abs() < 1e-9);
    assert_eq!(stats["by"], json!({"cli": 3}), "verification is no run of it");
    assert_eq!(stats["versions"][0]["runs"], 3);

    let all = &home.run(&["cap", "stats", "--json"]).ok().json()["saved"];
    assert_eq!((&all["reuses"], &all["reuses_counted"], &all["tokens"]), (&json!(3), &json!(2), &json!(56)));
    assert_eq!(all["not_recorded"], json!(["gcd"]));
    assert_eq!(&doctor(&home, &[])["saved"], all);
    let said = home.run(&["cap", "stats", "gcd"]).ok().out;
    assert!(said.contains("tokens: not recorded"), "{said}");
}

#[test]
fn a_model_that_is_led_has_its_building_recorded_too() {
    let plan = "build double_it: Double a number\nn = 21";
    let code = "  return n * 2;\n}";
    let provider = Provider::start(vec![Reply::Text(plan), Reply::Text(code), Reply::Text(code), Reply::Text(code)]);
    let home = Home::new().config(&provider.config());
    let ran = home.run(&["--mode", "staged", "Double the number 21"]).ok();
    assert!(ran.out.contains("42"), "{}\n{}", ran.out, ran.err);
    let stats = home.run(&["cap", "stats", "double_it", "--json"]).ok().json();
    let asked = provider.requests.lock().unwrap().len();
    assert_eq!(stats["builds"][0]["usage"]["input_tokens"], json!(11 * asked), "{stats}");
}

#[test]
fn the_measures_of_health_are_those_worked_out_by_hand() {
    let home = two_gcds();
    let n = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}});
    let half = definition("halve", "Divides a number by two.", n, json!([{"args": {"n": 4}, "returns": 2}]));
    let _ =
        register(&home, &half, "export default ({ n }) => { if (n === 1) throw new Error('odd'); return n / 2; }").ok();
    for _ in 0..3 {
        let _ = run(&home, "gcd", &json!({"a": 4, "b": 6}));
    }
    let _ = run(&home, "halve", &json!({"n": 8}));
    let _ = home.run(&["cap", "run", "halve", "--args", "{\"n\": 1}"]).failed(1, &["odd"]);

    let health = home.run(&["cap", "stats", "--health", "--json"]).ok().json();
    // 5 runs, 2 + 1 of them after a first; 4 went well; 2 of 3 capabilities ran; 1 of 3 pairs and 1 of 3 could be one.
    assert_eq!(health["active"], 3);
    assert_eq!((&health["reuse"]["rate"], &health["reuse"]["precision"]), (&json!(0.6), &json!(0.8)));
    assert_eq!(health["reuse"]["used"], json!(2.0 / 3.0));
    assert_eq!((&health["redundancy"]["rate"], &health["redundancy"]["share"]), (&json!(1.0 / 3.0), &json!(1.0 / 3.0)));
    assert_eq!(health["regression"], json!({"stability": null, "examples": null}));
    assert_eq!((&health["safety"]["score"], &health["safety"]["pure"]), (&json!(1.0), &json!(1.0)));
    assert_eq!((&health["composition"]["share"], &health["composition"]["depth"]), (&json!(0.0), &json!(0)));

    let health = home.run(&["cap", "stats", "--health", "--run", "--json"]).ok().json();
    assert_eq!(health["regression"]["stability"], 1.0);
    assert_eq!(health["regression"]["examples"], json!({"ran": 5, "passed": 5, "not_run": 0, "failing": []}));
    // An answer that somebody wrote into the index by hand, which the code does not give.
    let index = std::fs::read_to_string(home.file("capabilities/index.json")).unwrap();
    home.write(
        "capabilities/index.json",
        &index.replace("\"returns\": 12", "\"returns\": 13").replace("\"returns\":12", "\"returns\":13"),
    );
    let health = home.run(&["cap", "stats", "--health", "--run", "--json"]).ok().json();
    assert_eq!(
        (&health["regression"]["stability"], &health["regression"]["examples"]["failing"]),
        (&json!(0.8), &json!(["common_divisor"]))
    );
    home.write("capabilities/tools/halve.ts", "export default ({ n }) => n / 3");
    let health = home.run(&["cap", "stats", "--health", "--json"]).ok().json();
    assert_eq!(health["safety"]["unchecked"], json!(["halve"]));
    assert_eq!(health["safety"]["score"], json!(2.0 / 3.0));
    let table = home.run(&["cap", "stats", "--health"]).ok().out;
    assert!(table.contains("reuse rate") && table.contains("0.600") && table.contains("not measured"), "{table}");
    let _ = home.run(&["cap", "stats", "gcd", "--health"]).failed(2, &["--health"]);
    let _ = home.run(&["cap", "stats", "nobody"]).failed(1, &["no capability is called"]);
}
