//! Conversations from a pipe.

use crate::common::provider::{Provider, Reply};
use crate::common::{Home, REVERSE, ends_within, prepared, register, reverse_text, signal};
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
    let cost = "22 tokens in (0 from a cache), 6 out, $0.0000\nFOR   CALLS  IN  OUT  COST     MODEL\nchat  2      22  6    $0.0000  fake/m\n";
    assert_eq!(ran.out, format!("Hello Ann.\nYou are Ann.\n{cost}"));
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

/// The person's messages of each request, the last one of each.
fn asked(provider: &Provider) -> Vec<String> {
    let requests = provider.requests.lock().unwrap();
    let last = |request: &serde_json::Value| {
        let messages = request["messages"].as_array().unwrap();
        messages.iter().rfind(|m| m["role"] == "user").unwrap()["content"].as_str().unwrap().to_owned()
    };
    requests.iter().map(last).collect()
}

#[test]
fn words_of_commands_in_a_message_are_a_message_and_so_is_a_path() {
    let messages = [
        "exit",
        "stop",
        "I find the REST API interesting, /exit",
        "/etc/hosts says what?",
        "/tmp is full",
        "帮我 /help",
        "/Users/Ann/A.txt",
    ];
    let provider = Provider::answering(|_| Some(Reply::Text("well")));
    let home = Home::new().config(&provider.config());
    let ran = home.run_with_input(&["chat"], &(messages.join("\n") + "\n")).ok();
    assert_eq!(ran.out, "well\n".repeat(messages.len()));
    let asked = asked(&provider);
    for (sent, message) in asked.iter().zip(messages) {
        assert!(sent.contains(message), "{sent}");
    }
}

#[test]
fn arguments_keep_their_case_and_what_takes_none_does_nothing_with_one() {
    let provider = Provider::start(vec![Reply::Text("fine")]);
    let home = Home::new().config(&provider.config());
    let ran = home.run_with_input(&["chat"], "/model fake/MiXed\n/compact now\n/EXIT\nhello\n").ok();
    assert!(
        ran.err.contains("fake/MiXed answers from now on") && ran.err.contains("/compact takes nothing"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("there is no /EXIT"), "{}", ran.err);
    assert_eq!((ran.out.as_str(), &provider.requests.lock().unwrap()[0]["model"]), ("fine\n", &json!("MiXed")));
}

#[test]
fn the_cost_is_told_for_each_model_and_purpose() {
    let provider = Provider::answering(|_| Some(Reply::Text("facts")));
    let prices = "[prices.\"fake/m\"]\ninput = 1.0\noutput = 1000.0\n";
    let home = Home::new().config(&(provider.config() + prices));
    let input = "one\ntwo\n/model fake/free\nthree\n/compact\n/cost\n";
    let lines = home.run_with_input(&["chat", "--json"], input).ok().events();
    let last = lines.last().unwrap();
    let spent = last["spent"].as_array().unwrap();
    let told: Vec<_> = spent
        .iter()
        .map(|s| (s["model"].as_str().unwrap(), s["purpose"].as_str().unwrap(), s["calls"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("fake/free", "chat", 1), ("fake/free", "summary", 1), ("fake/m", "chat", 2)]);
    let sum: u64 = spent.iter().map(|s| s["usage"]["input_tokens"].as_u64().unwrap()).sum();
    assert_eq!((sum, last["usage"]["input_tokens"].as_u64()), (44, Some(44)));
    assert!(spent[2]["usage"]["cost_usd"].as_f64().unwrap() > 0.005 && spent[0]["usage"]["cost_usd"] == 0.0, "{last}");
}

#[test]
fn another_session_is_gone_on_with_from_within() {
    let provider = Provider::answering(|_| Some(Reply::Text("noted")));
    let home = Home::new().config(&provider.config());
    let _ = home.run_with_input(&["chat"], "my cat is called Mimi\n").ok();
    let id = home.run(&["session", "list", "--json"]).ok().json()["sessions"][0]["id"].as_str().unwrap().to_owned();
    let input =
        format!("a new topic\n/resume nothing-like-it\n/resume {id}\nwhat is it called?\n/resume {id}\n/sessions\n");
    let ran = home.run_with_input(&["chat"], &input).ok();
    assert!(ran.err.contains("nothing-like-it") && ran.err.contains("going on with “my cat"), "{}", ran.err);
    assert!(ran.err.contains("that is this conversation"), "{}", ran.err);
    assert!(ran.out.contains("my cat is called Mimi") && ran.out.contains("a new topic"), "{}", ran.out);
    let requests = provider.requests.lock().unwrap();
    let last = requests.last().unwrap()["messages"].to_string();
    assert!(last.contains("Mimi") && last.contains("what is it called?") && !last.contains("a new topic"), "{last}");
}

#[test]
fn notes_agents_and_sessions_are_told_as_json_too() {
    let home = Home::new().config("model = \"ollama/small\"\n");
    let _ = home.run(&["memory", "add", "数据库的端口是 5433"]).ok();
    let _ = home.run(&["memory", "add", "the office is in Bergen"]).ok();
    let lines = home.run_with_input(&["chat", "--json"], "/memory\n/memory 端口\n/agents\n/sessions\n").ok().events();
    assert_eq!(lines[0]["notes"].as_array().unwrap().len(), 2);
    assert!(
        lines[1]["found"].to_string().contains("5433") && !lines[1]["found"].to_string().contains("Bergen"),
        "{}",
        lines[1]
    );
    assert!(lines[2]["agents"].to_string().contains("researcher") && lines[3]["sessions"].is_array());
    let ran = home.run_with_input(&["chat"], "/memory 端口\n/agents\n").ok();
    assert!(ran.out.contains("数据库的端口是 5433") && ran.out.contains("reviewer"), "{}", ran.out);
}
