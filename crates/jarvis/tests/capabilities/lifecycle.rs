//! The life of a capability after it was registered: failing, quarantined, set back, mended, retired.

use crate::common::provider::{Provider, Reply};
use crate::common::{Home, Ran, prepared, register};
use serde_json::{Value, json};

const NAME: &str = "first_word";

/// Fails where there is no word.
const CODE: &str =
    "export default function run({ text }: { text: string }) {\n  return text.match(/\\S+/)![0].toLowerCase();\n}\n";
const MENDED: &str = "export default function run({ text }: { text: string }) {\n  return (text.match(/\\S+/)?.[0] ?? '').toLowerCase();\n}\n";

fn definition() -> Value {
    json!({
        "name": NAME, "capability": "Gives the first word of a text in lower case.",
        "triggers": ["the first word of a text", "文字的第一个词"],
        "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "returns": {"type": "string"},
        "examples": [{"args": {"text": "Deep blue"}, "returns": "deep"}, {"args": {"text": "早上 好"}, "returns": "早上"}],
    })
}

fn home() -> Home {
    let home = prepared(&definition(), CODE);
    let _ = register(&home, &[]).ok();
    home
}

fn call(home: &Home, text: &str) -> Ran {
    home.run(&["cap", "run", NAME, "--args", &json!({"text": text}).to_string(), "--json"])
}

fn shown(home: &Home) -> Value {
    home.run(&["cap", "show", NAME, "--json"]).ok().json()
}

fn status(home: &Home) -> String {
    shown(home)["capability"]["status"].as_str().unwrap().to_owned()
}

fn version(home: &Home) -> String {
    shown(home)["capability"]["version"].as_str().unwrap().to_owned()
}

/// Three calls that fail.
fn quarantined(home: &Home) -> Ran {
    let _ = call(home, " ").failed(1, &["TypeError"]);
    let _ = call(home, "  ").failed(1, &["TypeError"]);
    call(home, "").failed(1, &["quarantined"])
}

fn changes(home: &Home) -> Vec<String> {
    let audit = home.run(&["audit", "tail", "--kind", "registry", "--json"]).ok().events();
    audit.iter().map(|entry| entry["detail"]["change"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn three_failures_among_the_last_five_runs_quarantine_with_an_event_and_on_the_audit() {
    let home = home();
    let _ = call(&home, "One").ok();
    let _ = call(&home, " ").failed(1, &["TypeError"]);
    let _ = call(&home, "Two").ok();
    let _ = call(&home, "  ").failed(1, &["TypeError"]);
    assert_eq!(status(&home), "active");
    let third = call(&home, "").failed(1, &["jarvis cap repair first_word"]);
    let told = third.json();
    assert_eq!(told["events"][0]["type"], "capability");
    assert_eq!((&told["events"][0]["name"], &told["events"][0]["status"]), (&json!(NAME), &json!("quarantined")));
    assert!(told["events"][0]["detail"].as_str().unwrap().contains("3 of its last 5 runs failed"), "{told}");
    assert_eq!(status(&home), "quarantined");
    assert_eq!(changes(&home), ["quarantine"]);
    // Not found and not run any more, and it says why.
    let _ = call(&home, "One").failed(1, &["is quarantined", "jarvis cap repair first_word"]);
    let found = home.run(&["cap", "search", "first word of a text", "--json"]).ok().json();
    assert_eq!((&found["hits"][0]["status"], &found["hits"][0]["runnable"]), (&json!("quarantined"), &json!(false)));
    // The calls are there to be looked at, the newest first; removing it removes them.
    let failing = shown(&home)["failing_calls"].clone();
    let args: Vec<&Value> = failing.as_array().unwrap().iter().map(|call| &call["args"]["text"]).collect();
    assert_eq!(args, ["", "  ", " "]);
    let words = home.run(&["cap", "show", NAME]).ok().out;
    assert!(
        words.contains("failed") && words.contains("TypeError") && words.contains("jarvis cap repair first_word"),
        "{words}"
    );
    let _ = home.run(&["cap", "rm", NAME]).ok();
    let _ = register(&home, &[]).ok();
    assert_eq!(shown(&home)["failing_calls"], json!([]));
}

#[test]
fn what_is_not_the_codes_own_fault_does_not_count() {
    let home = home();
    for _ in 0..6 {
        let _ = home.run(&["cap", "run", NAME, "--args", "{\"text\": 5}"]).failed(2, &["text"]);
        let _ = home.run(&["cap", "run", NAME, "--args", "{\"txt\": \"a\"}"]).failed(2, &["txt"]);
    }
    assert_eq!(status(&home), "active");
    assert_eq!(shown(&home)["stats"]["runs"], 0);

    // A secret that was taken away is missed by every call, and no other code would get it.
    let home = Home::new();
    let mut needs = definition();
    needs["grants"] = json!({"network": ["api.example.com"], "secrets": ["KEY"]});
    home.write("d.json", &needs.to_string());
    let code = "export default async function run({ text }: { text: string }, ctx) {\n  \
        if (text.length === 1) await ctx.secret('KEY');\n  return text.split(' ')[0].toLowerCase();\n}\n";
    home.write("c.ts", code);
    let set = ["secret", "set", "KEY", "--host", "api.example.com"];
    let _ = home.run_with_input(&set, "0123456789abcdef0123").ok();
    let _ = register(&home, &["--approve", "auto"]).ok();
    let _ = home.run(&["secret", "rm", "KEY"]).ok();
    for _ in 0..4 {
        let _ = call(&home, "x").failed(1, &["KEY"]);
    }
    assert_eq!(status(&home), "active");
    let stats = shown(&home)["stats"].clone();
    assert_eq!((&stats["runs"], &stats["failures"], &stats["recent"]), (&json!(4), &json!(4), &json!([])));
}

#[test]
fn no_secret_of_a_failing_call_is_kept() {
    let home = home();
    let key = format!("sk-{}", "a1B2".repeat(10));
    let code =
        CODE.replace("text.match", "if (text.includes('sk-')) throw new Error('bad ' + text);\n  return text.match");
    home.write("c.ts", &code.replace("return if", "if"));
    let _ = register(&home, &[]).ok();
    let ran = call(&home, &format!("key {key}"));
    assert_eq!(ran.code, 1);
    assert!(!ran.out.contains(&key) && !ran.err.contains(&key), "{}{}", ran.out, ran.err);
    let call = shown(&home)["failing_calls"][0].clone();
    assert_eq!(call["exact"], false, "{call}");
    assert!(!call.to_string().contains(&key), "{call}");
    let database = std::fs::read(home.file("jarvis.db")).unwrap();
    let log = std::fs::read(home.file("jarvis.db-wal")).unwrap_or_default();
    for bytes in [database, log] {
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    }
}

#[test]
fn a_version_that_does_worse_in_use_is_set_back_by_itself() {
    let home = home();
    for text in ["One", "Two", "Three", "Four", "Five"] {
        let _ = call(&home, text).ok();
    }
    let worse = CODE.replace("return", "if (text.length === 5) throw new Error('five');\n  return");
    home.write("c.ts", &worse);
    assert!(register(&home, &[]).ok().err.contains("1.0.1 is registered"));
    let _ = call(&home, "Seven").failed(1, &["five"]);
    let _ = call(&home, "Eight").failed(1, &["five"]);
    let third = call(&home, "Three").failed(1, &["version 1.0.0 is back as 1.0.2"]).json();
    assert_eq!((&third["events"][0]["type"], &third["events"][0]["status"]), (&json!("capability"), &json!("active")));
    assert_eq!((status(&home).as_str(), version(&home).as_str()), ("active", "1.0.2"));
    assert_eq!(call(&home, "Three").ok().json()["result"], "three");
    assert_eq!(changes(&home), ["quarantine", "rollback", "registered"]);
    let history = home.run(&["cap", "history", NAME]).ok().out;
    assert!(history.contains("rolled back to 1.0.0: version 1.0.1 failed 3 of its first 3 runs"), "{history}");
}

#[test]
fn a_version_before_that_reaches_further_does_not_come_back_by_itself() {
    let home = Home::new();
    let mut wide = definition();
    wide["grants"] = json!({"read": ["notes"]});
    home.write("d.json", &wide.to_string());
    home.write("c.ts", CODE);
    let _ = register(&home, &["--approve", "auto"]).ok();
    for text in ["One", "Two", "Three", "Four", "Five"] {
        let _ = call(&home, text).ok();
    }
    home.write("d.json", &definition().to_string());
    home.write("c.ts", &CODE.replace("return", "if (text.length === 5) throw new Error('five');\n  return"));
    let _ = register(&home, &[]).ok();
    for text in ["Seven", "Eight"] {
        let _ = call(&home, text).failed(1, &["five"]);
    }
    let third = call(&home, "Three").failed(1, &["only you can bring it back: jarvis cap rollback first_word 1.0.0"]);
    assert_eq!(third.json()["events"][0]["status"], "quarantined");
    assert_eq!(
        (status(&home).as_str(), shown(&home)["capability"]["grants"]["read"].clone()),
        ("quarantined", json!([]))
    );
}

fn mends(code: &str) -> Reply {
    Reply::Call("register_capability", json!({"definition": definition(), "code": code}))
}

fn with_model(script: Vec<Reply>) -> (Home, Provider) {
    let provider = Provider::start(script);
    let home = prepared(&definition(), CODE).config(&provider.config());
    let _ = register(&home, &[]).ok();
    (home, provider)
}

#[test]
fn a_model_mends_it_and_the_failing_calls_become_examples() {
    let (home, provider) = with_model(vec![mends(MENDED), Reply::Text("It had no word to take.")]);
    let _ = quarantined(&home);
    let repaired = home.run(&["cap", "repair", NAME, "--json"]).ok().json();
    assert_eq!((&repaired["version"], &repaired["status"]), (&json!("1.0.1"), &json!("active")));
    assert!(repaired["events"].as_array().unwrap().iter().any(|e| e["type"] == "capability"), "{repaired}");
    let asked = provider.requests.lock().unwrap()[0].to_string();
    for part in ["text.match", "TypeError", "first_word", "Failed calls"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let capability = shown(&home)["capability"].clone();
    let examples = capability["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 5);
    assert!(examples.iter().any(|e| e["args"]["text"] == "" && e["origin"] == "request"), "{capability}");
    assert_eq!(call(&home, "").ok().json()["result"], "");
    assert!(home.run(&["cap", "test", NAME]).ok().out.matches("expected").count() == 5);
}

#[test]
fn a_repair_that_breaks_what_was_recorded_or_still_fails_is_not_registered() {
    let shouting = MENDED.replace("toLowerCase", "toUpperCase");
    let (home, provider) = with_model(vec![mends(&shouting), mends(CODE), Reply::Text("I cannot.")]);
    let _ = quarantined(&home);
    let _ = home.run(&["cap", "repair", NAME]).failed(1, &["is not repaired", "TypeError"]);
    let told = provider.requests.lock().unwrap()[1].to_string();
    assert!(told.contains("expected"), "{told}");
    assert_eq!((status(&home).as_str(), version(&home).as_str()), ("quarantined", "1.0.0"));
}

#[test]
fn what_a_person_expects_of_a_call_is_required_of_the_repair() {
    let (home, _provider) = with_model(vec![
        mends(MENDED),
        Reply::Text("done"),
        mends(&MENDED.replace("?? ''", "?? 'NONE'")),
        Reply::Text("done"),
    ]);
    let _ = quarantined(&home);
    let repair = ["cap", "repair", NAME, "--example", "{\"args\": {\"text\": \"\"}, \"returns\": \"none\"}"];
    let _ = home.run(&repair).failed(1, &["expected", "none"]);
    let _ = home.run(&repair).ok();
    assert_eq!(call(&home, "").ok().json()["result"], "none");
    let _ = home.run(&["cap", "repair", NAME, "--example", "{\"arg\": 1}"]).failed(2, &["no key `arg`"]);
}

#[test]
fn a_repair_that_changes_more_than_the_code_is_a_proposal() {
    let mut other = definition();
    other["returns"] = json!({});
    let (home, _provider) = with_model(vec![
        Reply::Call("register_capability", json!({"definition": other, "code": MENDED})),
        Reply::Text("done"),
    ]);
    let _ = quarantined(&home);
    let refused = home.run(&["cap", "repair", NAME]).failed(1, &["nobody approved", "--approve auto"]);
    assert!(refused.err.contains("proposed for `first_word`") && refused.err.contains("returns: "), "{}", refused.err);
    assert_eq!((status(&home).as_str(), version(&home).as_str()), ("quarantined", "1.0.0"));
}

#[test]
fn a_led_model_mends_it_too() {
    let body = "export default function run({ text }: { text: string }) {\n  return (text.match(/\\S+/)?.[0] ?? '').toLowerCase();\n}";
    let fenced =
        format!("Here is the corrected function:\n\n```typescript\n{body}\n```\nIt copes with no word at all.");
    let anew = body.replace("{ text }: { text: string }", "args: { text: string }").replace("(text.", "(args.text.");
    let rest = "```typescript\n  return (text.match(/\\S+/)?.[0] ?? '').toLowerCase();\n}\n```\n".to_owned();
    // Gone on where the reply was begun for it, or begun anew, as servers do that know no beginnings.
    for body in [body.to_owned(), fenced, anew, rest] {
        let body: &'static str = body.leak();
        let (home, provider) = with_model(vec![Reply::Text(body), Reply::Text(body), Reply::Text(body)]);
        let _ = quarantined(&home);
        let _ = home.run(&["cap", "repair", NAME, "--mode", "staged"]).ok();
        let asked = provider.requests.lock().unwrap()[0].to_string();
        assert!(asked.contains("That fails: called with") && asked.contains("text.match"), "{asked}");
        assert_eq!((status(&home).as_str(), version(&home).as_str()), ("active", "1.0.1"));
        assert_eq!(call(&home, "").ok().json()["result"], "");
        // Written once by each of two samples; nothing had to be repaired.
        assert!(provider.requests.lock().unwrap().len() <= 2, "{body}");
    }
}

#[test]
fn a_turn_hears_of_the_quarantine_and_mends_it() {
    let run = |text: &str| Reply::Call("execute_capability", json!({"name": NAME, "args": {"text": text}}));
    let (home, provider) = with_model(vec![run("  "), mends(MENDED), run("  "), Reply::Text("There is none.")]);
    let _ = call(&home, " ").failed(1, &["TypeError"]);
    let _ = call(&home, "").failed(1, &["TypeError"]);
    let events = home.run(&["--json", "the first word of two spaces"]).ok().events();
    let became: Vec<&Value> = events.iter().filter(|e| e["type"] == "capability").map(|e| &e["status"]).collect();
    assert_eq!(became, ["quarantined", "active"]);
    let told = provider.requests.lock().unwrap()[1].to_string();
    assert!(told.contains("is quarantined now") && told.contains("register_capability"), "{told}");
    assert_eq!(events.last().unwrap()["capabilities_used"], json!([NAME]));
    assert_eq!((status(&home).as_str(), version(&home).as_str()), ("active", "1.0.1"));
}

#[test]
fn without_anything_to_mend_it_says_what_to_do() {
    let home = home();
    let _ = home.run(&["cap", "repair", NAME, "--model", "local"]).failed(1, &["no call", "--example"]);
    let _ = home.run(&["cap", "repair", "nobody"]).failed(1, &["no capability is called"]);
    let _ = home.run(&["cap", "retire", NAME]).ok();
    let _ = home.run(&["cap", "repair", NAME]).failed(1, &["retired", "cap enable"]);
}

#[test]
fn a_retired_one_is_kept_and_neither_found_nor_run_until_it_is_enabled() {
    let home = home();
    let _ = home.run(&["cap", "retire", NAME]).ok();
    let _ = call(&home, "One").failed(1, &["is retired"]);
    let _ = home.run(&["cap", "test", NAME]).failed(1, &["is retired"]);
    assert!(
        home.run(&["cap", "search", "first word of a text", "--json"]).ok().json()["hits"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(version(&home), "1.0.0");
    let _ = home.run(&["cap", "enable", NAME]).ok();
    assert_eq!(call(&home, "One").ok().json()["result"], "one");
    let audit = home.run(&["audit", "tail", "--kind", "registry", "--json"]).ok().events();
    let to: Vec<&Value> = audit.iter().map(|entry| &entry["detail"]["status"]).collect();
    assert_eq!(to, ["retired", "active"]);
}

#[test]
fn what_was_enabled_is_not_taken_out_again_at_its_next_failure() {
    let home = home();
    let _ = quarantined(&home);
    let _ = home.run(&["cap", "enable", NAME]).ok();
    let _ = call(&home, " ").failed(1, &["TypeError"]);
    assert_eq!(status(&home), "active");
}

#[test]
fn a_file_changed_by_hand_becomes_a_version_once_it_is_checked() {
    let home = home();
    let file = "capabilities/tools/first_word.ts";
    home.write(file, &CODE.replace(".toLowerCase()", ""));
    let _ = call(&home, "One").failed(1, &["changed by hand", "jarvis cap check"]);
    let wrong = home.run(&["cap", "check", NAME]);
    assert!(wrong.code == 1 && wrong.out.contains("expected \"deep\""), "{}", wrong.out);
    assert_eq!(version(&home), "1.0.0");
    home.write(file, MENDED);
    let checked = home.run(&["cap", "check", NAME, "--json"]).ok().json();
    let first = &checked["capabilities"][0];
    assert_eq!((&first["became"], &first["version"]), (&json!("registered"), &json!("1.0.1")));
    assert_eq!(call(&home, " ").ok().json()["result"], "");
    assert!(home.run(&["cap", "history", NAME]).ok().out.contains("changed by hand"));
    // Looked at again it is what was verified.
    assert!(home.run(&["cap", "check", "--all"]).ok().out.contains("1.0.1 passes"));
}

/// Changes the entry in `index.json`, as an editor does.
fn edit(home: &Home, change: impl FnOnce(&mut Value)) {
    let path = "capabilities/index.json";
    let mut index: Value = serde_json::from_str(&std::fs::read_to_string(home.file(path)).unwrap()).unwrap();
    change(&mut index["capabilities"][0]);
    home.write(path, &serde_json::to_string_pretty(&index).unwrap());
}

#[test]
fn a_grant_written_in_by_hand_is_asked_for_and_moves_the_number_as_a_grant_does() {
    let home = home();
    edit(&home, |entry| entry["grants"]["network"] = json!(["api.example.com"]));
    let refused = home.run(&["cap", "check", NAME]);
    assert!(refused.code == 1 && refused.out.contains("it asks for network api.example.com"), "{}", refused.out);
    let _ = call(&home, "One").failed(1, &["changed by hand"]);
    let _ = home.run(&["cap", "check", NAME, "--approve", "auto"]).ok();
    assert_eq!(version(&home), "2.0.0");
    assert_eq!(call(&home, "One").ok().json()["result"], "one");
}

#[test]
fn a_quarantined_one_comes_back_by_passing_what_it_failed_at_and_not_before() {
    let home = home();
    let _ = quarantined(&home);
    let still = home.run(&["cap", "check", NAME]);
    assert!(still.code == 1 && still.out.contains("TypeError"), "{}", still.out);
    assert_eq!(status(&home), "quarantined");
    home.write("capabilities/tools/first_word.ts", MENDED);
    let checked = home.run(&["cap", "check", NAME, "--json"]).ok().json();
    assert!(checked["events"].as_array().unwrap().iter().any(|e| e["status"] == "active"), "{checked}");
    assert_eq!((status(&home).as_str(), version(&home).as_str()), ("active", "1.0.1"));
    assert_eq!(shown(&home)["capability"]["examples"].as_array().unwrap().len(), 5);
}

#[test]
fn a_quarantined_one_from_elsewhere_that_reaches_outside_needs_a_yes() {
    let home = Home::new();
    let mut wide = definition();
    wide["grants"] = json!({"read": ["notes"]});
    home.write("d.json", &wide.to_string());
    home.write("c.ts", CODE);
    let _ = register(&home, &["--approve", "auto"]).ok();
    edit(&home, |entry| entry["status"] = json!("quarantined"));
    let refused = home.run(&["cap", "check", NAME]);
    assert!(refused.code == 1 && refused.out.contains("nobody approved"), "{}", refused.out);
    let _ = home.run(&["cap", "enable", NAME]).failed(1, &["nobody approved"]);
    let _ = call(&home, "One").failed(1, &["is quarantined"]);
    let _ = home.run(&["cap", "check", NAME, "--approve", "auto"]).ok();
    assert_eq!(call(&home, "One").ok().json()["result"], "one");
}

#[test]
fn testing_shows_each_example_and_changes_nothing() {
    let home = home();
    let before = std::fs::read(home.file("capabilities/index.json")).unwrap();
    let tested = home.run(&["cap", "test", "--all", "--json"]).ok().json();
    let examples = tested["capabilities"][0]["examples"].as_array().unwrap();
    assert_eq!(
        (&examples[0]["returns"], &examples[0]["got"], &examples[0]["ok"]),
        (&json!("deep"), &json!("deep"), &json!(true))
    );
    assert!(examples[0]["ms"].as_f64().unwrap() > 0.0);
    assert_eq!(shown(&home)["stats"]["runs"], 0);
    edit(&home, |entry| entry["examples"][0]["returns"] = json!("blue"));
    let failed = home.run(&["cap", "test", NAME]);
    assert!(failed.code == 1 && failed.out.contains("expected \"blue\", got deep"), "{}", failed.out);
    home.write("capabilities/index.json", std::str::from_utf8(&before).unwrap());
    let _ = home.run(&["cap", "test", NAME]).ok();
    let _ = home.run(&["cap", "test"]).failed(2, &["NAME"]);
}

#[test]
fn of_two_processes_that_see_the_third_failure_one_takes_it_out() {
    let home = home();
    let _ = call(&home, " ").failed(1, &["TypeError"]);
    let _ = call(&home, "  ").failed(1, &["TypeError"]);
    let args = ["cap", "run", NAME, "--args", "{\"text\": \"\"}", "--json"];
    let mut children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = home.command(&args);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ended: Vec<Ran> = children.drain(..).map(|child| Ran::of(child.wait_with_output().unwrap())).collect();
    assert!(ended.iter().all(|ran| ran.code == 1));
    let told = ended.iter().filter(|ran| ran.out.contains("\"type\":\"capability\"")).count();
    assert_eq!(told, 1, "{:?}", ended.iter().map(|ran| &ran.out).collect::<Vec<_>>());
    assert_eq!(changes(&home), ["quarantine"]);
    let _ = home.run(&["audit", "verify"]).ok();
}

#[test]
fn a_burst_of_registrations_is_an_alarm_that_is_told_and_audited() {
    let home = Home::new();
    let mut last = None;
    for (index, word) in ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"].iter().enumerate() {
        let definition = json!({
            "name": format!("{word}_{word}"), "capability": format!("Computes the {word} {word} {word}."), "triggers": [*word],
            "parameters": {"type": "object", "required": [*word], "properties": {*word: {"type": "integer"}}},
            "examples": [{"args": {*word: 1}, "returns": index + 1}],
        });
        home.write("d.json", &definition.to_string());
        home.write("c.ts", &format!("export default ({{ {word} }}: any) => {word} + {index};\n"));
        last = Some(register(&home, &[]));
    }
    let _ = last.unwrap().failed(1, &["alarm: 5 capabilities were registered within 10 minutes", "nobody approved"]);
    let audit = home.run(&["audit", "tail", "--kind", "forge", "--json"]).ok().events();
    let alarm = audit.iter().find(|entry| entry["detail"]["alarm"].is_string());
    assert_eq!(alarm.unwrap()["subject"], "zeta_zeta");
}
