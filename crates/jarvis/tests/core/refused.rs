//! A message that is refused poisons no later turn.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const FILTERED: &str = r#"{"error": {"message": "The response was filtered", "code": "content_filter"}}"#;

/// Refuses every request in which the word stands, wherever.
fn refusing() -> Provider {
    Provider::answering(|request| {
        let said = request["messages"].to_string();
        Some(if said.contains("FORBIDDEN") || said.contains("禁词") {
            Reply::Status("400 Bad Request", FILTERED)
        } else {
            Reply::Text("fine")
        })
    })
}

#[test]
fn a_refused_message_is_taken_back_and_the_next_one_works() {
    let provider = refusing();
    let home = Home::new().config(&provider.config());
    let ran = home.run_with_input(&["chat"], "hello\nFORBIDDEN\nand now?\n这里有禁词\n还好吗？\n").ok();
    assert_eq!(ran.out, "fine\nfine\nfine\n");
    assert_eq!(ran.err.matches("the message is not part of the conversation").count(), 2, "{}", ran.err);
    let kept = home.run(&["session", "show", "latest", "--json"]).ok().json();
    let texts: Vec<&str> = kept["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["hello", "fine", "and now?", "fine", "还好吗？", "fine"]);
    // The first message of a session, too.
    let home = Home::new().config(&provider.config());
    let _ = home.run(&["FORBIDDEN"]).failed(1, &["filtered"]);
    assert_eq!(home.run(&["--continue", "hello"]).ok().out, "fine\n");
}

#[test]
fn after_kill_9_it_is_gone_as_well() {
    let provider = refusing();
    let home = Home::new().config(&provider.config());
    let mut chat = home.command(&["chat", "--json"]);
    let mut child = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hello\nFORBIDDEN\n").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("turn.failed")));
    child.kill().unwrap();
    let _ = child.wait();
    assert_eq!(home.run_with_input(&["chat", "--resume"], "go on\n").ok().out, "fine\n");
    let last = provider.requests.lock().unwrap().last().unwrap()["messages"].clone();
    let roles: Vec<&str> = last.as_array().unwrap().iter().filter_map(|m| m["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"], "{last:#}");
}

#[test]
fn a_turn_in_which_something_ran_stays_and_is_closed() {
    let mut calls = vec![
        Reply::Call("file_list", json!({})),
        Reply::Status("400 Bad Request", FILTERED),
        Reply::Text("I listed them."),
    ];
    calls.reverse();
    let provider = Provider::answering(move |_| calls.pop());
    let home = Home::new().config(&provider.config());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let ran = home.run_with_input(&["chat", "--workspace", &place], "list\nwhat did you do?\n").ok();
    assert_eq!(ran.out, "I listed them.\n");
    let asked = provider.requests.lock().unwrap();
    let roles: Vec<&str> = asked[2]["messages"].as_array().unwrap().iter().filter_map(|m| m["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    assert!(asked[2]["messages"][4]["content"].as_str().unwrap().contains("the turn failed"));
}
