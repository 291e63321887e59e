//! Sessions of the shipped binary: written as they happen, gone on with after anything, copied, exported, found.

use crate::common::provider::{Provider, Reply, grows};
use crate::common::{Home, ends_within};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

fn home_of(script: Vec<Reply>) -> (Home, Provider) {
    let provider = Provider::start(script);
    (Home::new().config(&provider.config()), provider)
}

/// The messages of request `n`, as one text.
fn sent(provider: &Provider, n: usize) -> String {
    provider.requests.lock().unwrap()[n]["messages"].to_string()
}

fn listed(home: &Home, flags: &[&str]) -> Vec<Value> {
    let page = home.run(&[&["session", "list", "--json"], flags].concat()).ok().json();
    page["sessions"].as_array().unwrap().clone()
}

fn exported(home: &Home, id: &str) -> Value {
    home.run(&["session", "export", id, "--format", "json"]).ok().json()
}

#[test]
fn a_question_goes_on_from_the_last_one_of_its_folder() {
    let (home, provider) = home_of(vec![Reply::Text("Hello Ann."), Reply::Text("You are Ann."), Reply::Text("New.")]);
    let _ = home.run(&["--continue", "I am Ann"]).failed(1, &["this folder has no session yet", "session list --all"]);
    let _ = home.run(&["I am Ann"]).ok();
    assert_eq!(home.run(&["--continue", "who am I?"]).ok().out, "You are Ann.\n");
    assert!(sent(&provider, 1).contains("I am Ann") && sent(&provider, 1).contains("Hello Ann."));
    let all = listed(&home, &[]);
    assert_eq!((all.len(), &all[0]["messages"], &all[0]["opening"]), (1, &json!(4), &json!("I am Ann")));
    assert_eq!(all[0]["usage"]["input_tokens"], 22, "both questions are counted");
    // Another folder has its own; a question without the flag begins anew.
    std::fs::create_dir(home.file("other")).unwrap();
    let _ = home.run(&["--continue", "--workspace", "other", "x"]).failed(1, &["no session"]);
    let _ = home.run(&["--workspace", "other", "hello"]).ok();
    assert!(!sent(&provider, 2).contains("Ann"));
    assert_eq!((listed(&home, &[]).len(), listed(&home, &["--all"]).len()), (1, 2));
}

#[test]
fn killed_in_the_middle_of_a_call_it_goes_on_with_a_valid_history() {
    let call = Reply::Call("shell_exec", json!({"command": "echo begun; sleep 60", "timeout_s": 100}));
    let (home, provider) = home_of(vec![call, Reply::Text("It may have run.")]);
    // The jail does not see what lies in the home.
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let mut command = home.command(&["--json", "--workspace", &place, "run it"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = lines.map(Result::unwrap).any(|line| line.contains("tool.output") && line.contains("begun"));
    assert!(running, "the call is running");
    child.kill().unwrap();
    let _ = child.wait();
    let ran = home.run_with_input(&["chat", "--workspace", &place, "--resume"], "what happened?\n").ok();
    assert_eq!(ran.out, "It may have run.\n");
    assert!(ran.err.contains("going on with “run it”") && ran.err.contains("1 calls had been cut off"), "{}", ran.err);
    let asked = provider.requests.lock().unwrap();
    let messages = asked[1]["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().filter_map(|m| m["role"].as_str()).filter(|r| *r != "system").collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"], "{messages:#?}");
    let result = messages.iter().find(|m| m["role"] == "tool").unwrap();
    assert!(result["tool_call_id"] == "call_1" && result["content"].as_str().unwrap().starts_with("interrupted"));
}

#[test]
fn killed_while_the_model_answers_the_question_is_kept() {
    let (home, provider) = home_of(vec![Reply::Hangs, Reply::Text("here")]);
    home.write("config.toml", &provider.patient_config(50));
    let mut child = home.command(&["first words 第一句"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    provider.was_asked(1);
    child.kill().unwrap();
    let _ = child.wait();
    assert_eq!(listed(&home, &[])[0]["messages"], 1);
    let _ = home.run(&["--continue", "again"]).ok();
    let asked = sent(&provider, 1);
    assert!(asked.contains("第一句") && asked.contains("(the process ended before an answer)"), "{asked}");
}

#[test]
fn a_second_process_is_refused_and_offered_a_copy() {
    let (home, provider) = home_of(vec![Reply::Text("one"), Reply::Text("in the copy"), Reply::Text("two")]);
    let mut command = home.command(&["chat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("第一个问题\n".as_bytes()).unwrap();
    provider.was_asked(1);
    // The answer is written before it is shown.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let id = listed(&home, &[])[0]["id"].as_str().unwrap().to_owned();
    for args in [&["chat", "--resume"][..], &["chat", "--resume", &id[..14]], &["--continue", "x"]] {
        let process = format!("process {}", child.id());
        let _ = home.run(args).failed(1, &["open in another place", &process, "session fork"]);
    }
    let _ = home.run(&["session", "rm", &id]).failed(1, &["open in another place"]);
    let fork = home.run(&["session", "fork", "latest"]).ok().out.trim().to_owned();
    let _ = home.run_with_input(&["chat", "--resume", &fork], "go on\n").ok();
    assert!(sent(&provider, 1).contains("第一个问题"));
    stdin.write_all(b"and on\n").unwrap();
    drop(stdin);
    let _ = ends_within(child, Duration::from_secs(20)).ok();
    assert!(!sent(&provider, 2).contains("go on"), "the two are apart");
    let of = |id: &str| exported(&home, id)["messages"].as_array().unwrap().len();
    assert_eq!((of(&id), of(&fork)), (4, 4));
}

#[test]
fn a_fork_ends_where_it_is_told_and_parts_no_call_from_its_result() {
    let (home, provider) = home_of(grows().into_iter().chain([Reply::Text("again")]).collect());
    let _ = home.run(&["6 times 7"]).ok();
    let whole = listed(&home, &[])[0].clone();
    assert_eq!(whole["messages"], 8);
    for (at, kept) in [("0", 0), ("2", 1), ("3", 3), ("99", 8)] {
        let fork = home.run(&["session", "fork", whole["id"].as_str().unwrap(), "--at", at, "--json"]).ok().json();
        assert_eq!((&fork["messages"], &fork["parent"]["id"]), (&json!(kept), &whole["id"]), "{at}");
    }
    let fork = listed(&home, &[]).into_iter().find(|s| s["messages"] == 3).unwrap();
    let _ = home.run_with_input(&["chat", "--resume", fork["id"].as_str().unwrap()], "something else\n").ok();
    let asked = sent(&provider, 4);
    assert!(asked.contains("<data from") && !asked.contains("multiply_numbers"), "{asked}");
    let _ = home.run(&["session", "fork", "nothing"]).failed(1, &["no session is called `nothing`", "session list"]);
}

#[test]
fn what_is_exported_is_imported_whole() {
    let (home, provider) = home_of(grows().into_iter().chain([Reply::Text("noch einmal")]).collect());
    let _ = home.run(&["6 times 7, 谢谢"]).ok();
    let _ = home.run(&["session", "rename", "latest", "数字 and numbers"]).ok();
    let _ = home.run(&["session", "export", "latest", "--out", "talk.json"]).ok();
    let _ = home.run(&["session", "export", "latest", "--out", "talk.json"]).failed(2, &["not overwritten"]);
    let there = Home::new().config(&provider.config());
    let file = home.file("talk.json").display().to_string();
    let id = there.run(&["session", "import", &file]).ok().out.trim().to_owned();
    let (mut before, mut after) = (exported(&home, "latest"), exported(&there, &id));
    assert_eq!(before["messages"].as_array().unwrap().len(), 8);
    assert_ne!(before["session"]["id"], after["session"]["id"]);
    for side in [&mut before, &mut after] {
        let session = side["session"].as_object_mut().unwrap();
        session.remove("id");
        session.remove("updated");
    }
    assert_eq!(before, after);
    // It is gone on with there, as it would be here.
    let _ = there.run_with_input(&["chat", "--resume", &id], "again\n").ok();
    assert!(sent(&provider, 4).contains("谢谢") && sent(&provider, 4).contains("6 times 7 is 42."));
    let markdown = home.run(&["session", "export", "latest"]).ok().out;
    assert!(markdown.starts_with("# 数字 and numbers\n") && markdown.contains("Call of `execute_capability`"));
    home.write("bad.json", "{\"jarvis_session\": 1");
    let _ = home.run(&["session", "import", "bad.json"]).failed(1, &["no exported session"]);
    assert_eq!(listed(&home, &["--all"]).len(), 1, "what cannot be imported changes nothing");
}

#[test]
fn sessions_are_found_by_chinese_and_english_words_and_leave_for_good() {
    let (home, _provider) = home_of(vec![Reply::Text("端口是 5433"), Reply::Text("Bake it for 40 minutes")]);
    let _ = home.run(&["测试数据库的端口是多少？"]).ok();
    let _ = home.run(&["How long does the bread take?"]).ok();
    let found = |words: &str| -> Vec<String> {
        let all = listed(&home, &["--search", words]);
        all.iter().map(|s| s["opening"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("数据库"), ["测试数据库的端口是多少？"]);
    assert_eq!(found("端口 5433"), ["测试数据库的端口是多少？"]);
    assert_eq!(found("baking minutes"), ["How long does the bread take?"]);
    assert!(found("没有的词").is_empty() && found("\" OR *").is_empty());
    let _ = home.run(&["session", "rm", "--older-than", "1h"]).ok();
    assert_eq!(listed(&home, &[]).len(), 2, "neither is old");
    let id = listed(&home, &["--search", "数据库"])[0]["id"].as_str().unwrap().to_owned();
    let _ = home.run(&["session", "rm", &id]).ok();
    assert!(found("数据库").is_empty() && listed(&home, &[]).len() == 1);
    for file in ["sessions.db", "sessions.db-wal"] {
        let bytes = std::fs::read(home.file(file)).unwrap_or_default();
        assert!(!bytes.windows(9).any(|w| w == "测试数".as_bytes()), "{file}");
    }
}

#[test]
fn a_summary_is_kept_with_its_session() {
    let summary = "FACTS:\n- the budget is 4,200 euro\nSTORY: planning";
    let (home, provider) =
        home_of(vec![Reply::Text("noted"), Reply::Text("yes"), Reply::Text(summary), Reply::Text("4,200 euro")]);
    let _ = home.run_with_input(&["chat"], "our budget is 4,200 euro\nok?\n/compact\n").ok();
    let _ = home.run(&["--continue", "what is the budget?"]).ok();
    let asked = sent(&provider, 3);
    assert!(asked.contains("Earlier in this conversation") && asked.contains("the budget is 4,200 euro"), "{asked}");
    assert!(!asked.contains("our budget is"), "told by the summary alone");
}

#[test]
fn a_home_that_cannot_keep_sessions_still_answers_and_says_so() {
    let (home, _provider) = home_of(vec![Reply::Text("fine")]);
    home.write("sessions.db", &"no database at all ".repeat(300));
    let ran = home.run(&["hello"]).ok();
    assert_eq!(ran.out, "fine\n");
    assert!(ran.err.contains("this conversation is not kept"), "{}", ran.err);
    let _ = home.run(&["session", "list"]).failed(1, &["sessions.db"]);
    assert!(std::fs::read_to_string(home.file("sessions.db")).unwrap().starts_with("no database"), "left as it was");
}
