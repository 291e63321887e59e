//! Commands that a model makes, through the shipped binary: expanded when they are made, and what a person types later.

use crate::common::provider::{Provider, Reply};
use crate::common::workspace::Bench;
use serde_json::{Value, json};

fn review() -> Value {
    json!({"name": "review", "description": "Reviews a file: \"closely\" — 审查",
        "prompt": "Review {{path}} for {{focus}}.", "examples": [{"path": "a.rs"}, {"path": "b.rs", "focus": "速度"}],
        "parameters": {"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
            "path": {"type": "string"}, "focus": {"type": "string", "default": "correctness"}}}})
}

/// The last message of a person in a request.
fn asked(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().rfind(|m| m["role"] == "user").unwrap()["content"].to_string()
}

#[test]
fn a_command_is_made_expanded_and_typed() {
    let bench = Bench::new();
    bench.call("create_command", review()).refused("nobody allowed it");
    let made: Value = serde_json::from_str(&bench.allowed("create_command", review()).fine()).unwrap();
    assert_eq!(made["expanded"], json!(["Review a.rs for correctness.", "Review b.rs for 速度."]));
    let workspace = bench.workspace.display().to_string();
    let place = ["--workspace", &workspace];
    let listed = bench.home.run(&[&["command", "list", "--json"], &place[..]].concat()).ok().json();
    assert_eq!(listed["commands"][0]["description"], review()["description"]);

    let provider = Provider::start(vec![Reply::Text("one"), Reply::Text("two"), Reply::Text("three")]);
    bench.home.write("config.toml", &provider.config());
    let _ =
        bench.home.run(&[&["command", "run", "review", "src/x.rs", "focus=speed and size"], &place[..]].concat()).ok();
    let typed = "/review src/a.rs\n/review\n/reviews x\n/review path={{focus}} focus=x\n";
    let ran = bench.home.run_with_input(&[&["chat"], &place[..]].concat(), typed);
    let requests = provider.requests.lock().unwrap().clone();
    let questions: Vec<String> = requests.iter().map(asked).collect();
    let expected =
        ["Review src/x.rs for speed and size.", "Review src/a.rs for correctness.", "Review {{focus}} for x."];
    assert_eq!(questions.len(), expected.len(), "{questions:?}\n{}", ran.err);
    for (question, expected) in questions.iter().zip(expected) {
        assert!(question.contains(expected), "{question} instead of {expected}");
    }
    assert!(ran.err.contains("there is no /reviews") && ran.err.contains("path"), "{}", ran.err);
    let _ = bench
        .home
        .run(&[&["command", "run", "review", "focus=x"], &place[..]].concat())
        .failed(2, &["path", "review path=…"]);
    let _ = bench.home.run(&[&["command", "run", "none"], &place[..]].concat()).failed(1, &["no command is called"]);
}

#[test]
fn what_cannot_be_expanded_or_named_is_not_made() {
    let bench = Bench::new();
    let change = |key: &str, value: Value| {
        let mut args = review();
        args[key] = value;
        ("create_command", args)
    };
    let mut calls = vec![
        change("prompt", json!("Review {{file}}.")),
        change("prompt", json!("Review {{path.")),
        change("examples", json!([{"focus": "x"}])),
        change("parameters", json!({"type": "objekt"})),
    ];
    calls.extend(["../../pwn", "/tmp/pwn", "con", "a b", "help", "exit"].map(|name| change("name", json!(name))));
    for told in bench.calls(&calls, &["--approve", "auto", "--max-turns", "50"]) {
        assert!(!told.ok, "{}", told.text);
    }
    assert_eq!(bench.all_files(), [] as [String; 0]);
    bench.allowed("create_command", review()).fine();
    bench.allowed("create_command", review()).refused("update: true");
    bench.file(".jarvis/commands/bad.json", "{");
    let workspace = bench.workspace.display().to_string();
    let shown = bench.home.run(&["command", "show", "bad", "--workspace", &workspace]);
    let _ = shown.failed(1, &["is no command", "mend"]);
}
