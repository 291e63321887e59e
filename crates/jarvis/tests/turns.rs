//! Whole turns of the shipped binary, with a provider whose answers are scripted.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::Home;
use common::provider::{Provider, Reply};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn definition() -> Value {
    json!({
        "name": "multiply_numbers", "capability": "Multiplies two whole numbers.",
        "triggers": ["a product of two numbers is asked for"],
        "parameters": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        "returns": {"type": "integer"},
        "examples": [{"args": {"a": 6, "b": 7}, "returns": 42}, {"args": {"a": 3, "b": 5}, "returns": 15}],
    })
}

const CODE: &str = "export default function run({ a, b }: { a: number; b: number }) {\n  return a * b;\n}\n";

fn grows() -> Vec<Reply> {
    vec![
        Reply::Call("list_capabilities", json!({"query": "multiply two numbers"})),
        Reply::Call("register_capability", json!({"definition": definition(), "code": CODE})),
        Reply::Call("execute_capability", json!({"name": "multiply_numbers", "args": {"a": 6, "b": 7}})),
        Reply::Text("6 times 7 is 42."),
    ]
}

fn last(events: &[Value]) -> &Value {
    events.last().unwrap()
}

#[test]
fn a_question_grows_a_capability_and_a_later_process_reuses_it() {
    let mut script = grows();
    script.push(Reply::Call("execute_capability", json!({"name": "multiply_numbers", "args": {"a": 12, "b": 12}})));
    script.push(Reply::Text("It is 144."));
    let provider = Provider::start(script);
    let home = Home::new().config(&provider.config());

    let events = home.run(&["--json", "What is 6 times 7?"]).ok().events();
    assert_eq!(events[0]["type"], "turn.started");
    assert_eq!(events[0]["model"], "fake/m");
    let end = last(&events);
    assert_eq!(end["type"], "turn.completed");
    assert!(end["answer"].as_str().unwrap().contains("42"), "{end}");
    assert_eq!(end["capabilities_built"], json!(["multiply_numbers"]));
    assert_eq!(end["capabilities_used"], json!(["multiply_numbers"]));
    assert_eq!(end["stop_reason"], "end_turn");
    assert_eq!(end["usage"]["input_tokens"], 44);
    let ends =
        events.iter().filter(|e| e["type"].as_str().unwrap().starts_with("turn.") && e["type"] != "turn.started");
    assert_eq!(ends.count(), 1, "exactly one end");
    assert!(events.iter().any(|e| e["type"] == "forge" && e["step"] == "registered"));
    let ran = events.iter().find(|e| e["type"] == "tool.completed" && e["name"] == "execute_capability").unwrap();
    assert_eq!((ran["ok"].as_bool(), &ran["content"]["result"]), (Some(true), &json!(42)));

    let events = home.run(&["--json", "And 12 times 12?"]).ok().events();
    assert_eq!(last(&events)["capabilities_built"], json!([]));
    assert_eq!(last(&events)["capabilities_used"], json!(["multiply_numbers"]));

    // What was learned is there for a person too.
    assert!(home.run(&["cap", "list"]).ok().out.contains("multiply_numbers(a: integer, b: integer)"));
    assert_eq!(home.run(&["cap", "run", "multiply_numbers", "--args", "{\"a\": 5, \"b\": 5}"]).ok().out, "25\n");
    let shown = home.run(&["cap", "show", "multiply_numbers", "--code", "--json"]).ok().json();
    assert_eq!(shown["stats"]["runs"], 3);
    assert!(shown["code"].as_str().unwrap().contains("return a * b"));
    assert_eq!(
        home.run(&["cap", "history", "multiply_numbers", "--json"]).ok().json()["versions"][0]["version"],
        "1.0.0"
    );
    let hits = home.run(&["cap", "search", "multiply", "two", "numbers", "--json"]).ok().json();
    assert_eq!(hits["hits"][0]["name"], "multiply_numbers");
    assert!(home.run(&["audit", "verify"]).ok().out.contains("0 problems"));
    assert!(home.run(&["audit", "tail", "--kind", "outcome"]).ok().out.contains("multiply_numbers"));
}

#[test]
fn piped_stdout_holds_the_answer_alone() {
    let home = Home::new().config(&Provider::start(vec![Reply::Text("Good morning — 早上好!")]).config());
    let ran = home.run(&["hello"]).ok();
    assert_eq!(ran.out, "Good morning — 早上好!\n");
    let home = Home::new().config(&Provider::start(grows()).config());
    let ran = home.run(&["--quiet", "What is 6 times 7?"]).ok();
    assert_eq!(ran.err, "");
    assert!(ran.out.contains("42"));
}

#[test]
fn a_question_from_stdin_arrives_whole() {
    let provider = Provider::start(vec![Reply::Text("ok"), Reply::Text("ok")]);
    let home = Home::new().config(&provider.config());
    let _ = home.run_with_input(&["-"], "line one\n第二行\n").ok();
    let _ = home.run_with_input(&[] as &[&str], "piped").ok();
    let asked = provider.requests.lock().unwrap();
    assert!(asked[0]["messages"].to_string().contains("第二行"), "{}", asked[0]);
    assert!(asked[1]["messages"].to_string().contains("piped"));
}

#[test]
fn each_fault_of_a_provider_is_told_with_what_to_do() {
    for (reply, says, kind) in [
        (Reply::Status("401 Unauthorized", "{\"error\": {\"message\": \"bad key\"}}"), "refused the key", "auth"),
        (Reply::Status("429 Too Many Requests", "{}"), "limits the rate", "rate_limit"),
        (Reply::Status("503 Service Unavailable", "busy"), "overloaded", "overloaded"),
        (Reply::Dies, "broke off", "network"),
        (Reply::Hangs, "no answer", "timeout"),
        (Reply::Garbage, "not in the provider's format", "protocol"),
    ] {
        let home = Home::new().config(&Provider::start(vec![reply]).config());
        let started = Instant::now();
        let ran = home.run(&["--json", "hello"]).failed(1, &[says, "hint:"]);
        assert!(started.elapsed() < Duration::from_secs(20), "{says}");
        let events = ran.events();
        assert_eq!(last(&events)["type"], "turn.failed");
        assert_eq!(last(&events)["error"]["kind"], kind);
    }
    let nobody =
        Home::new().config("model = \"fake/m\"\n[providers.fake]\nbase_url = \"http://127.0.0.1:1/v1\"\nretries = 0\n");
    let _ = nobody.run(&["hello"]).failed(1, &["cannot reach", "hint:"]);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "sends the signal that a terminal sends")]
fn ctrl_c_cancels_the_turn_and_says_so() {
    let config = Provider::start(vec![Reply::Hangs]).config().replace("idle_timeout_s = 1", "idle_timeout_s = 50");
    let home = Home::new().config(&config);
    let child = home.command(&["--json", "hello"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(800));
    let started = Instant::now();
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(output.status.code(), Some(130));
    let out = String::from_utf8(output.stdout).unwrap();
    let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let cancelled = end["stop_reason"] == "cancelled" || end["error"]["kind"] == "cancelled";
    assert!(cancelled, "{end}");
}

#[test]
fn what_was_recorded_is_replayed_without_a_server() {
    let provider = Provider::start(vec![Reply::Text("recorded words")]);
    let home = Home::new()
        .config(&provider.config().replace("retries", "api_key_env = \"FAKE_KEY\"\nretries"))
        .var("FAKE_KEY", "sk-very-secret");
    let tape = home.file("tape.jsonl").display().to_string();
    assert_eq!(home.run(&["--record", &tape, "hello"]).ok().out, "recorded words\n");
    assert!(!std::fs::read_to_string(&tape).unwrap().contains("very-secret"));
    assert_eq!(home.run(&["--replay", &tape, "hello"]).ok().out, "recorded words\n");
    assert_eq!(provider.requests.lock().unwrap().len(), 1);
    let _ = home.run(&["--replay", &tape, "something else"]).failed(1, &["cassette", "hint:"]);
    let _ = home.run(&["--replay", "nowhere.jsonl", "hello"]).failed(1, &["nowhere.jsonl"]);
}

#[test]
fn a_conversation_from_a_pipe_keeps_its_history_and_survives_a_failed_turn() {
    let provider = Provider::start(vec![
        Reply::Text("Hello Ann."),
        Reply::Status("401 Unauthorized", "{}"),
        Reply::Text("You are Ann."),
    ]);
    let home = Home::new().config(&provider.config());
    let input = "I am Ann\nthis one fails\nwho am I?\n/cost\n/nonsense\n/exit\nnever sent\n";
    let ran = home.run_with_input(&["chat"], input).ok();
    assert_eq!(ran.out, "Hello Ann.\nYou are Ann.\n");
    assert!(
        ran.err.contains("refused the key") && ran.err.contains("22 tokens in") && ran.err.contains("/nonsense"),
        "{}",
        ran.err
    );
    let asked = provider.requests.lock().unwrap();
    assert_eq!(asked.len(), 3);
    let third = asked[2]["messages"].to_string();
    assert!(third.contains("I am Ann") && !third.contains("this one fails"), "{third}");
}

#[test]
fn a_test_of_a_model_says_whether_it_calls_tools() {
    let provider = Provider::start(vec![Reply::Text("1 2 3 4 5"), Reply::Call("weather", json!({"city": "Lisbon"}))]);
    let home = Home::new().config(&provider.config());
    let tested = home.run(&["model", "test", "--json"]).ok().json();
    assert_eq!((&tested["native_tools"], &tested["recommended_mode"]), (&json!(true), &json!("native")));
    let provider = Provider::start(vec![Reply::Text("1 2 3 4 5"), Reply::Text("It is sunny.")]);
    let home = Home::new().config(&provider.config());
    let ran = home.run(&["model", "test"]).ok();
    assert!(ran.out.contains("staged") && ran.err.contains("providers.fake.mode staged"), "{}\n{}", ran.out, ran.err);
}

#[test]
fn the_benchmark_runs_each_task_in_a_fresh_home_and_counts() {
    let mut script = grows();
    script.push(Reply::Call("execute_capability", json!({"name": "multiply_numbers", "args": {"a": 12, "b": 12}})));
    script.push(Reply::Text("It is 144."));
    script.push(Reply::Text("Hello!"));
    let home = Home::new().config(&Provider::start(script).config());
    home.write(
        "tasks.json",
        r#"{"tasks": [{"id": "mul", "request": "What is 6 times 7?", "answer": "(?i)\\b42\\b"}],
            "reuse": [{"id": "mul", "request": "And 12 times 12?", "answer": "\\b144\\b"}], "small_talk": ["hi there"]}"#,
    );
    let ran = home.run(&["bench", "selfext", "--tasks", "tasks.json", "--json", "--keep", "homes"]).ok();
    let totals = &ran.json()["totals"];
    for (key, value) in [
        ("tasks", 1),
        ("right", 1),
        ("built", 1),
        ("reuse_cases", 1),
        ("reused", 1),
        ("false_builds", 0),
        ("small_talk", 1),
    ] {
        assert_eq!(totals[key], value, "{key}: {totals}");
    }
    assert!(home.file("homes/mul/capabilities/tools/multiply_numbers.ts").exists());
    assert!(!home.file("capabilities").exists(), "the person's own home is not touched");
    let _ = home.run(&["bench", "selfext", "--tasks", "none.json"]).failed(2, &["none.json"]);
    home.write("tasks.json", r#"{"tasks": [{"id": "x", "request": "y", "answer": "("}]}"#);
    let _ = home.run(&["bench", "selfext", "--tasks", "tasks.json"]).failed(2, &["regular expression"]);
}
