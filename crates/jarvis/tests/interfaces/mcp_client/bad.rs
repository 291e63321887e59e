//! Servers that do what none should.

use super::{Desk, none};
use crate::common::provider::{Provider, Reply};
use crate::common::{ends_within, signal};
use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_call_is_answered_recorded_and_its_server_ends_with_the_run() {
    let Some(desk) = Desk::with("good", "") else { return };
    let run = desk.calls(&[("hand__act", json!({"text": "你好"}))], &[]);
    let (ok, text) = run.one();
    assert!(ok && text.starts_with("done by act"), "{text}");
    let sent = run.requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(sent.contains("<data from=\\\"hand__act\\\">"), "{sent}");
    let audit = desk.audit();
    let kinds: Vec<String> =
        audit.iter().filter(|r| r.to_string().contains("\"subject\":\"hand/act\"")).map(|r| r.to_string()).collect();
    assert_eq!(kinds.len(), 2, "{audit:#?}");
    assert!(kinds[0].contains("intent") && kinds[1].contains("outcome"), "{kinds:?}");
    let server = audit.iter().filter(|r| r.to_string().contains("\"kind\":\"server\"")).count();
    assert_eq!(server, 2, "its start and its end: {audit:#?}");
    let left = std::process::Command::new("pgrep").args(["-f", &desk.workspace.display().to_string()]).output();
    assert!(left.is_ok_and(|left| left.stdout.is_empty()), "a process is left");
}

#[test]
fn one_that_crashes_says_how_and_is_started_again() {
    let Some(desk) = Desk::with("crash", "") else { return };
    let run = desk.calls(&[("hand__act", none()), ("hand__fine", none())], &[]);
    let told = run.told();
    assert!(!told[0].0 && told[0].1.contains("exit code 3") && told[0].1.contains("boom: the last words"), "{told:?}");
    assert_eq!(told[1], (true, "done by fine".to_owned()));
}

#[test]
fn one_that_crashes_again_and_again_is_left_alone_for_a_while() {
    let Some(desk) = Desk::with("crash", "") else { return };
    let calls: Vec<_> = (0..7).map(|n| ("hand__act", json!({"text": n.to_string()}))).collect();
    let run = desk.calls(&calls, &[]);
    let last = run.told().pop().unwrap();
    assert!(!last.0 && last.1.contains("is not started again before"), "{:?}", run.told());
    assert!(last.1.contains("exit code 3"), "{last:?}");
}

#[test]
fn one_that_does_not_start_is_told_and_the_turn_goes_on_without_it() {
    let Some(desk) = Desk::with("dies at once", "") else { return };
    let run = desk.calls(&[], &[]);
    let notices = run.of_kind("notice");
    assert!(notices.iter().any(|n| n["message"].as_str().unwrap().contains("I need a key in KEY")), "{notices:?}");
    assert!(!run.offered().iter().any(|name| name.starts_with("hand")));
}

#[test]
fn one_that_hangs_is_given_up_and_told_so() {
    let Some(desk) = Desk::with("hang", "timeout_s = 1") else { return };
    let since = Instant::now();
    let run = desk.calls(&[("hand__act", none())], &[]);
    let (ok, text) = run.one();
    assert!(!ok && text.contains("did not answer within 1 s") && text.contains("timeout_s"), "{text}");
    assert!(since.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_answer_that_comes_too_late_is_no_answer_to_another_call() {
    let Some(desk) = Desk::with("late", "timeout_s = 1") else { return };
    let run = desk.calls(&[("hand__act", none()), ("hand__fine", none()), ("hand__fine", none())], &[]);
    let told = run.told();
    assert!(!told[0].0 && told[0].1.contains("did not answer"), "{told:?}");
    // The server is busy for a while yet; what it says then answers nothing that was asked later.
    assert!(told[1..].iter().all(|(ok, text)| text == "done by fine" || (!ok && text.contains("did not answer"))));
    assert!(told.iter().all(|(_, text)| !text.contains("done by act")), "{told:?}");
    let given_up = desk.heard().into_iter().any(|message| message["method"] == "notifications/cancelled");
    assert!(given_up, "{:?}", desk.heard());
}

#[test]
fn an_answer_of_ten_megabytes_is_cut_between_characters() {
    let Some(desk) = Desk::with("long", "") else { return };
    let run = desk.calls(&[("hand__act", none())], &[]);
    let (ok, text) = run.one();
    assert!(ok && text.starts_with("字字字"), "{}", text.len());
    assert!(text.contains("cut after 60000 of 3500000 characters"), "{}", &text[text.len() - 100..]);
    let sent = run.requests[1].to_string();
    assert!(sent.len() < 400_000, "{}", sent.len());
}

#[test]
fn a_message_without_an_end_ends_the_server_and_not_the_memory() {
    let Some(desk) = Desk::with("endless", "") else { return };
    let run = desk.calls(&[("hand__act", none()), ("hand__fine", none())], &[]);
    let told = run.told();
    assert!(!told[0].0 && told[0].1.contains("more than 16 MiB"), "{told:?}");
    assert!(told[1].0, "{told:?}");
}

#[test]
fn lines_that_are_no_messages_are_passed_over() {
    let Some(desk) = Desk::with("garbage", "") else { return };
    let (ok, text) = desk.calls(&[("hand__act", none())], &[]).one();
    assert!(ok && text.starts_with("done by act"), "{text}");
}

#[test]
fn progress_is_told_and_moves_the_end() {
    let Some(desk) = Desk::with("progress", "timeout_s = 3") else { return };
    let run = desk.calls(&[("hand__act", none())], &[]);
    assert!(run.one().0, "{:?}", run.told());
    let told: String = run.of_kind("tool.output").iter().map(|e| e["text"].as_str().unwrap()).collect();
    assert_eq!(told, "1/3: 第 1 步\n2/3: 第 2 步\n3/3: 第 3 步\n");
}

#[test]
fn an_error_of_a_tool_is_an_error_for_the_model() {
    let Some(desk) = Desk::with("error", "") else { return };
    let (ok, text) = desk.calls(&[("hand__act", none())], &[]).one();
    assert!(!ok && text.contains("没有这个文件 (no such file)"), "{text}");
}

#[test]
fn what_may_change_something_is_asked_for_by_its_definition() {
    let Some(desk) = Desk::with("good", "") else { return };
    // Nobody is there to be asked.
    let (ok, text) = desk.calls(&[("hand__write", none())], &[]).one();
    assert!(!ok && text.contains("nobody allowed it") && text.contains("hand"), "{text}");
    assert!(desk.calls(&[("hand__write", none())], &["--approve", "auto"]).one().0);
    // What a flag allowed was for that run alone.
    assert!(!desk.calls(&[("hand__write", none())], &[]).one().0);
    let Some(allowed) = Desk::with("good", "tools.write = \"allow\"\ntools.act = \"deny\"") else { return };
    let run = allowed.calls(&[("hand__write", none()), ("hand__act", none())], &["--approve", "deny"]);
    assert!(run.told()[0].0 && !run.told()[1].0, "{:?}", run.told());
    assert!(!run.offered().contains(&"hand__act".to_owned()), "what is denied is not offered");
}

#[test]
fn a_list_that_changes_is_read_again_and_a_changed_definition_needs_another_yes() {
    let Some(desk) = Desk::with("changing", "") else { return };
    let provider = Provider::start(vec![
        Reply::Call("hand__write", none()),
        Reply::Text("one"),
        Reply::Call("hand__fresh", none()),
        Reply::Text("two"),
    ]);
    desk.set(&provider);
    let workspace = desk.workspace.display().to_string();
    let args = ["chat", "--json", "--approve", "auto", "--workspace", &workspace];
    let ran = desk.home.run_with_input(&args, "first\nsecond\n").ok();
    let requests = provider.requests.lock().unwrap();
    let names = |at: usize| requests[at]["tools"].to_string();
    assert!(!names(0).contains("hand__fresh"), "{}", names(0));
    assert!(names(2).contains("hand__fresh") && names(2).contains("something else now"), "{}", names(2));
    assert!(ran.out.contains("done by fresh"), "{}", ran.out);
}

#[test]
fn nothing_of_the_person_is_reached_from_the_jail() {
    let Some(mut desk) = Desk::with("escape", "") else { return };
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("private"), "x").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let secret = desk.home.write("config.toml", "").display().to_string();
    desk.config.push_str(&format!(
        "env = {{ PORT = \"{port}\", OUTSIDE = \"{}\", SECRET_FILE = \"{secret}\" }}\n",
        outside.path().display()
    ));
    let (ok, text) = desk.calls(&[("hand__act", none())], &[]).one();
    assert!(ok && text.starts_with("workspace: 你好, workspace"), "{text}");
    assert_eq!(text.matches("refused").count(), 7, "{text}");
    assert!(!desk.workspace.join("escaped.txt").exists());
}

#[test]
fn a_description_that_gives_orders_is_told_as_the_servers_and_acts_on_no_terminal() {
    let Some(desk) = Desk::with("evil", "") else { return };
    let run = desk.calls(&[], &[]);
    let tools = run.requests[0]["tools"].to_string();
    assert!(tools.contains("[of the server `hand`] Echo.") && tools.contains("IGNORE ALL"), "{tools}");
    assert!(!tools.contains("\\u001b") && !tools.contains('\u{202e}'), "{tools}");
    let workspace = desk.workspace.display().to_string();
    let ran = desk.home.run(&["mcp", "test", "hand", "--workspace", &workspace]).ok();
    assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{:?}", ran.out);
}

#[test]
fn a_server_that_asks_back_gets_no_answer_from_nobody() {
    let Some(desk) = Desk::with("asks", "") else { return };
    let (ok, text) = desk.calls(&[("hand__act", none())], &[]).one();
    assert!(ok, "{text}");
    let answers: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answers[0]["action"], "decline", "{answers}");
    assert!(answers[1]["message"].as_str().unwrap().contains("nobody allowed it"), "{answers}");
    let root = answers[2]["roots"][0]["uri"].as_str().unwrap();
    assert_eq!(root, format!("file://{}/", desk.workspace.display()));
}

#[test]
fn an_answer_of_the_model_is_given_to_a_server_that_may_and_counted() {
    let Some(desk) = Desk::with("asks", "") else { return };
    let script = || vec![Reply::Call("hand__act", none()), Reply::Text("Hello, I am the model."), Reply::Text("done")];
    let run = desk.turn(script(), &["--approve", "auto"]);
    let answers: serde_json::Value = serde_json::from_str(&run.one().1).unwrap();
    assert_eq!(answers[1]["content"]["text"], "Hello, I am the model.", "{answers}");
    assert_eq!(answers[1]["model"], "fake/m");
    assert_eq!(run.requests.len(), 3);
    assert!(run.requests[1]["messages"].to_string().contains("Say hello, sampled."), "{}", run.requests[1]);
    assert_eq!(run.requests[1].get("tools"), None, "no tools for a server's question");
    // 11 in and 3 out for each of the three requests.
    assert_eq!(run.events.last().unwrap()["usage"]["input_tokens"], 33);
    let audit = desk.audit();
    let sampled = audit.iter().filter(|r| r.to_string().contains("hand/sampling/createMessage")).count();
    assert_eq!(sampled, 2, "{audit:#?}");
}

#[test]
fn a_person_fills_in_a_form_and_a_yes_is_remembered() {
    let Some(desk) = Desk::with("asks", "") else { return };
    let again = || vec![Reply::Call("hand__act", none()), Reply::Text("Hello."), Reply::Text("done")];
    let provider = Provider::start(again().into_iter().chain(again()).collect());
    desk.set(&provider);
    let workspace = desk.workspace.display().to_string();
    for (round, asks) in [(0, true), (1, false)] {
        let args = ["--workspace", workspace.as_str(), "go"];
        let Some(mut terminal) = crate::common::terminal::Terminal::start(&desk.home, &args) else { return };
        terminal.until("`hand` asks:");
        terminal.until("answer? [y/N]");
        terminal.keys("y\n");
        terminal.until("name (string");
        terminal.keys("小明\n");
        terminal.until("age (integer");
        terminal.keys("42\n");
        if asks {
            terminal.until("sampling/createMessage");
            terminal.until("[y/N]");
            terminal.keys("y\n");
        }
        terminal.until("done");
        assert_eq!(terminal.ended(), 0);
        let requests = provider.requests.lock().unwrap();
        let last = requests[round * 3 + 2]["messages"].to_string();
        assert!(last.contains("小明") && last.contains("42") && last.contains("accept"), "{last}");
    }
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server() {
    let Some(desk) = Desk::with("hang", "") else { return };
    let provider = Provider::start(vec![Reply::Call("hand__act", none()), Reply::Text("done")]);
    desk.set(&provider);
    let workspace = desk.workspace.display().to_string();
    let mut command = desk.home.command(&["--json", "--workspace", &workspace, "go"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !desk.heard().iter().any(|message| message["method"] == "tools/call") {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("INT", child.id());
    let ran = ends_within(child, Duration::from_secs(10));
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert_eq!(ran.events().last().unwrap()["stop_reason"], "cancelled");
}

#[test]
fn a_secret_is_handed_where_it_may_be_and_never_told() {
    let Some(mut desk) = Desk::with("secret", "env.KEY = \"${secret:HAND_KEY}\"") else { return };
    let fails = desk.calls(&[], &[]);
    let notice = fails.of_kind("notice")[0]["message"].to_string();
    assert!(notice.contains("there is no secret `HAND_KEY`") && notice.contains("jarvis secret set"), "{notice}");
    let set = ["secret", "set", "HAND_KEY", "--host", "api.example.com"];
    let _ = desk.home.run_with_input(&set, "hunter2-hunter2").ok();
    let run = desk.calls(&[("hand__act", none())], &[]);
    assert_eq!(run.one(), (true, "the key is [secret HAND_KEY]!".to_owned()));
    assert!(!format!("{:?}{:?}", run.events, run.requests).contains("hunter2"));
    // It could take it to a host that the secret is not for.
    desk.config = desk.config.replace("sandbox.write", "sandbox.network = [\"evil.example\"]\nsandbox.write");
    let refused = desk.calls(&[], &[]).of_kind("notice")[0]["message"].to_string();
    assert!(refused.contains("HAND_KEY") && refused.contains("evil.example"), "{refused}");
}
