//! What models, files and tools say acts on no terminal, also where it gets there by way of a pipe or a file.

use crate::common::provider::{Provider, Reply};
use crate::common::workspace::Bench;
use crate::common::{Home, Ran};
use jarvis_protocol::is_deceptive;
use serde_json::{Value, json};

/// Clears the screen, writes the clipboard, colours by a C1 byte, turns the direction of text.
const ATTACK: &str = "a\u{1b}[2J\u{1b}]52;c;eA==\u{7}\u{9b}31m\u{202e}b\tc";
const SHOWN: &str = r"a\u{1b}[2J\u{1b}]52;c;eA==\u{7}\u{9b}31m\u{202e}b";

#[track_caller]
fn calm(text: &str) {
    assert!(!text.contains(is_deceptive), "{text:?}");
}

/// Nothing of it acts, and what was meant to can be seen.
#[track_caller]
fn shown(ran: &Ran) {
    calm(&ran.out);
    calm(&ran.err);
    assert!(ran.out.contains(SHOWN) && ran.out.contains('\t'), "{:?}", ran.out);
}

#[test]
fn of_an_answer_a_tool_and_a_session() {
    let script = || {
        vec![
            Reply::Call("file_read", json!({"path": "bad.txt"})),
            Reply::Call("file_read", json!({"path": ATTACK})),
            Reply::Text(ATTACK),
        ]
    };
    let bench = Bench::new();
    bench.file("bad.txt", ATTACK);
    let workspace = bench.workspace.display().to_string();
    let ask = |flags: &[&str]| {
        let provider = Provider::start(script());
        bench.home.write("config.toml", &provider.config());
        let question = format!("what is {ATTACK}?");
        bench.home.run(&[&[question.as_str(), "--workspace", &workspace], flags].concat()).ok()
    };
    let ran = ask(&[]);
    shown(&ran);
    assert!(ran.err.contains(r"\u{1b}[2J"), "the tool's result too: {:?}", ran.err);
    let ran = ask(&["--json"]);
    calm(&ran.out);
    let events = ran.events();
    assert_eq!(events.last().unwrap()["answer"], ATTACK);
    assert!(events.iter().any(|e| e["type"] == "tool.completed" && e["content"].to_string().contains("52;c;eA==")));

    let run = |args: &[&str]| bench.home.run(args).ok();
    let id = run(&["session", "list", "--all", "--json"]).json()["sessions"][0]["id"].as_str().unwrap().to_owned();
    for args in [&["session", "show", &id][..], &["session", "export", &id]] {
        shown(&run(args));
    }
    for args in [&["session", "list", "--all"][..], &["audit", "tail"], &["audit", "tail", "--json"]] {
        let ran = run(args);
        calm(&ran.out);
        assert!(ran.out.contains(r"\u{1b}[2J") || ran.out.contains(r"\u001b[2J"), "{args:?}: {:?}", ran.out);
    }
    for (name, shown) in [("out.md", SHOWN), ("out.json", r"a\u001b[2J\u001b]52;c;eA==\u0007\u009b31m\u202eb")] {
        let out = bench.home.file(name).display().to_string();
        let _ = run(&["session", "export", &id, "--out", &out]);
        let text = std::fs::read_to_string(&out).unwrap();
        calm(&text);
        assert!(text.contains(shown), "{text}");
    }
    let whole = run(&["session", "export", &id, "--format", "json"]);
    calm(&whole.out);
    let messages = &whole.json()["messages"];
    assert!(messages.as_array().unwrap().iter().any(|m| m["message"]["text"] == ATTACK), "{messages}");
}

#[test]
fn of_what_is_kept_in_folders() {
    let bench = Bench::new();
    let escaped = json!(ATTACK).to_string().replace('\u{9b}', "\\u009b").replace('\u{202e}', "\\u202e");
    bench.file(".jarvis/skills/bad/SKILL.md", &format!("---\nname: bad\ndescription: {escaped}\n---\n{ATTACK}"));
    bench.file(".jarvis/agents/bad.md", &format!("---\ndescription: x\ntools: [file_read]\n---\n{ATTACK}"));
    bench.file(
        ".jarvis/commands/bad.json",
        &json!({"name": "bad", "description": ATTACK, "prompt": ATTACK}).to_string(),
    );
    let workspace = bench.workspace.display().to_string();
    for command in ["skill", "agents", "command"] {
        let ran = bench.home.run(&[command, "show", "bad", "--workspace", &workspace]).ok();
        shown(&ran);
        let json = bench.home.run(&[command, "show", "bad", "--json", "--workspace", &workspace]).ok();
        calm(&json.out);
        let says = |key: &str| json.json()[key].as_str().is_some_and(|text| text.contains(ATTACK));
        assert!(["instructions", "prompt"].into_iter().any(says), "{}", json.out);
        let ran = bench.home.run(&[command, "list", "--workspace", &workspace]).ok();
        calm(&ran.out);
        calm(&ran.err);
    }
}

#[test]
fn of_a_conversation_by_lines() {
    let provider = Provider::start(vec![Reply::Text("one\r\ntwo\rthree"), Reply::Text(ATTACK)]);
    let home = Home::new().config(&provider.config());
    let ran = home.run_with_input(&["chat"], "a\nb\n").ok();
    // A line that ends as on Windows ends plainly; a lone return would write over the line.
    assert!(ran.out.starts_with("one\ntwo\\u{d}three\n"), "{:?}", ran.out);
    shown(&ran);
    let nothing = home.run(&["skill", "show", ATTACK]).failed(1, &[SHOWN]);
    calm(&nothing.err);
    let json = home.run(&["skill", "show", ATTACK, "--json"]);
    calm(&json.out);
    assert!(serde_json::from_str::<Value>(&json.out).is_ok(), "{:?}", json.out);
}
