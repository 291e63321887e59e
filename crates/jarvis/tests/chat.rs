//! Conversations: from a pipe, and on a terminal.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::provider::{Provider, Reply, grows};
use common::terminal::Terminal;
use common::{Home, REVERSE, ends_within, prepared, register, reverse_text, signal};
use serde_json::json;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn from_a_pipe_it_keeps_its_history_and_survives_a_failed_turn() {
    let provider = Provider::start(vec![
        Reply::Text("Hello Ann."),
        Reply::Status("401 Unauthorized", "{}"),
        Reply::Text("You are Ann."),
    ]);
    let home = Home::new().config(&provider.config());
    let input = "I am Ann\nthis one fails\nwho am I?\n/cost\n/nonsense\n/exit\nnever sent\n";
    let ran = home.run_with_input(&["chat"], input).ok();
    assert_eq!(ran.out, "Hello Ann.\nYou are Ann.\n22 tokens in (0 from a cache), 6 out, $0.0000\n");
    assert!(ran.err.contains("refused the key") && ran.err.contains("/nonsense"), "{}", ran.err);
    let asked = provider.requests.lock().unwrap();
    assert_eq!(asked.len(), 3);
    let third = asked[2]["messages"].to_string();
    assert!(third.contains("I am Ann") && !third.contains("this one fails"), "{third}");
}

#[test]
fn help_capabilities_and_model_are_told_on_stdout() {
    let home = prepared(&reverse_text(), REVERSE).config("model = \"ollama/small\"\n");
    let ran = home.run_with_input(&["chat"], "/help\n/tools\n/model\n").ok();
    assert!(ran.out.contains("/tools ") && ran.out.ends_with("\nollama/small\n"), "{}", ran.out);
    assert!(ran.err.contains("nothing is registered yet"), "{}", ran.err);
    assert_eq!(home.run_with_input(&["chat", "--quiet"], "/tools\n").ok().err, "");
    let _ = register(&home, &[]).ok();
    let ran = home.run_with_input(&["chat"], "/tools\n").ok();
    assert_eq!(ran.out, "reverse_text(text: string) — Reverses the characters of a text.\n");
    let lines = home.run_with_input(&["chat", "--json"], "/tools\n/cost\n/model\n").ok().events();
    assert_eq!(lines[0]["capabilities"][0]["name"], "reverse_text");
    assert_eq!((&lines[1]["usage"]["input_tokens"], &lines[2]), (&json!(0), &json!({"model": "ollama/small"})));
}

#[test]
fn another_model_answers_once_it_is_chosen_and_what_cannot_be_chosen_changes_nothing() {
    let provider = Provider::start(vec![Reply::Text("first"), Reply::Text("second"), Reply::Text("third")]);
    let home = Home::new().config(&provider.config());
    let input = "one\n/model fake/other\ntwo\n/model nobody/x\nthree\n";
    let ran = home.run_with_input(&["chat"], input).ok();
    assert_eq!(ran.out, "first\nsecond\nthird\n");
    assert!(
        ran.err.contains("fake/other answers from now on") && ran.err.contains("no provider `nobody`"),
        "{}",
        ran.err
    );
    let models: Vec<_> = provider.requests.lock().unwrap().iter().map(|asked| asked["model"].clone()).collect();
    assert_eq!(models, ["m", "other", "other"]);
}

#[test]
fn a_model_without_a_price_is_not_chosen_where_the_cost_is_limited() {
    let provider = Provider::start(vec![Reply::Text("still m")]);
    let prices = "[prices.\"fake/m\"]\ninput = 1.0\noutput = 1.0\n";
    let home = Home::new().config(&(provider.config() + prices));
    let ran = home.run_with_input(&["chat", "--max-cost", "1"], "/model fake/other\nhello\n").ok();
    assert!(ran.err.contains("no price of fake/other"), "{}", ran.err);
    assert_eq!((ran.out.as_str(), &provider.requests.lock().unwrap()[0]["model"]), ("still m\n", &json!("m")));
}

#[test]
#[cfg(feature = "local")]
fn a_replay_fetches_no_model_that_is_chosen_in_it() {
    let provider = Provider::start(vec![Reply::Text("recorded")]);
    let home = Home::new().config(&provider.config());
    let tape = home.file("tape.jsonl").display().to_string();
    let _ = home.run_with_input(&["chat", "--record", &tape], "hello\n").ok();
    let home = home.var("HF_ENDPOINT", "http://127.0.0.1:1").var("PIP_NO_INDEX", "1");
    let ran = home.run_with_input(&["chat", "--replay", &tape], "/model local\n").ok();
    assert!(ran.err.contains("answers from now on") && !ran.err.contains("fetching"), "{}", ran.err);
    assert!(!home.file("models").exists());
}

#[test]
fn a_message_that_the_model_cannot_read_is_refused_and_the_conversation_goes_on() {
    let provider = Provider::start(vec![Reply::Text("fine")]);
    let home = Home::new().config(&provider.config());
    let ran = home.run_with_input(&["chat"], &format!("{}\nhello\n", "why? ".repeat(200_000))).ok();
    assert!(ran.err.contains("999999 bytes, and fake/m reads 32768 tokens"), "{}", ran.err);
    assert_eq!((ran.out.as_str(), provider.requests.lock().unwrap().len()), ("fine\n", 1));
}

#[test]
fn a_request_to_end_ends_it_while_it_waits_and_while_it_answers() {
    let provider = Provider::start(vec![Reply::Hangs]);
    let home = Home::new().config(&provider.patient_config(50));
    for busy in [false, true] {
        let mut command = home.command(&["chat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        if busy {
            stdin.write_all(b"hello\n").unwrap();
            provider.was_asked(1);
        } else {
            std::thread::sleep(Duration::from_millis(700));
        }
        signal("TERM", child.id());
        let _ = ends_within(child, Duration::from_secs(3)).failed(130, &[]);
    }
}

#[test]
fn on_a_terminal_commands_work_and_a_request_to_end_leaves_it_in_order() {
    let home = Home::new().config("model = \"ollama/small\"\n");
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    let pid = terminal.pid();
    terminal.until("ollama/small");
    terminal.keys("/help\r");
    terminal.until("Ctrl-C cancels the turn");
    terminal.keys("half a mess");
    terminal.until("mess");
    signal("TERM", pid);
    assert_eq!(terminal.ended(), 130);
}

/// Asks to read files, and so for a yes.
fn asks() -> Vec<Reply> {
    let mut definition = reverse_text();
    definition["grants"] = json!({"read": ["notes"]});
    let mut script = grows();
    script[1] = Reply::Call("register_capability", json!({"definition": definition, "code": REVERSE}));
    script.truncate(2);
    script
}

#[test]
fn on_a_terminal_a_person_is_asked_and_the_answer_counts() {
    for (answer, kept) in [("y", true), ("n", false)] {
        let mut script = asks();
        script.push(Reply::Text("That is all."));
        let provider = Provider::start(script);
        let home = Home::new().config(&provider.config());
        let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
        terminal.until("fake/m");
        terminal.keys("turn my notes around\r");
        let before = terminal.until("allow `reverse_text`? [y/N]");
        assert!(before.contains("read ") && before.contains("/notes"), "{before:?}");
        terminal.keys(&format!("{answer}\r"));
        terminal.until("That is all.");
        terminal.keys("/exit\r");
        assert_eq!(terminal.ended(), 0);
        let there = home.run(&["cap", "list", "--json"]).ok().json()["capabilities"].as_array().unwrap().len();
        assert_eq!(there == 1, kept, "{answer}");
    }
}

#[test]
fn a_cancelled_question_takes_no_line_from_the_conversation() {
    let mut script = asks();
    script.push(Reply::Text("Good morning."));
    let provider = Provider::start(script);
    let home = Home::new().config(&provider.config());
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    terminal.until("fake/m");
    terminal.keys("turn my notes around\r");
    terminal.until("allow `reverse_text`? [y/N]");
    terminal.keys("\u{3}");
    terminal.until("cancelled");
    terminal.until("you");
    terminal.keys("good morning\r");
    terminal.until("Good morning.");
    terminal.keys("/exit\r");
    assert_eq!(terminal.ended(), 0);
    let asked = provider.requests.lock().unwrap();
    assert!(asked[2]["messages"].to_string().contains("good morning"), "{}", asked[2]);
}
