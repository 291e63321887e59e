//! Notes that a team shares through a PostgreSQL server, with the shipped binary. `scripts/postgres.py` starts a server.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::Value;

const VARIABLE: &str = "TEAM_NOTES";

/// A home whose notes are in that space of the server.
fn member(url: &str, space: &str, rest: &str) -> Home {
    let config = format!("{rest}\n[memory]\nurl_env = \"{VARIABLE}\"\nspace = \"{space}\"\n");
    Home::new().config(&config).var(VARIABLE, url)
}

fn texts(home: &Home, args: &[&str]) -> Vec<String> {
    let found = home.run(&[&["memory", "--json"], args].concat()).ok().json();
    let notes = found["notes"].as_array().or(found["found"].as_array()).unwrap().clone();
    notes.iter().map(|note| note["text"].as_str().or(note["note"]["text"].as_str()).unwrap().to_owned()).collect()
}

#[test]
fn what_one_member_keeps_another_finds_and_is_told() {
    let Ok(url) = std::env::var("JARVIS_TEST_POSTGRES_URL") else {
        jarvis_testkit::skipped("no PostgreSQL server (JARVIS_TEST_POSTGRES_URL): notes of a team, by the binary");
        return;
    };
    let space = format!("team-{}", std::process::id());
    let provider = Provider::start(vec![Reply::Text("5433")]);
    let ann = member(&url, &space, "");
    let ben = member(&url, &space, &provider.config());
    let other = member(&url, &format!("{space}-other"), "");
    let id = ann.run(&["memory", "add", "测试数据库的端口是 5433", "--type", "fact"]).ok().out.trim().to_owned();
    assert_eq!(texts(&ben, &["search", "数据库"]), ["测试数据库的端口是 5433"]);
    assert!(texts(&other, &["list"]).is_empty(), "another team sees nothing");
    assert!(!ann.file("memory").exists(), "nothing of a team's is kept in the home");

    let events = ben.run(&["--json", "测试数据库的端口是多少？"]).ok().events();
    let context: &Value = events.iter().find(|e| e["type"] == "context").unwrap();
    assert_eq!(context["memory"], 1, "{context}");
    assert!(provider.requests.lock().unwrap()[0]["messages"].to_string().contains("5433"));

    let _ = ben.run(&["memory", "forget", &id]).ok();
    assert!(texts(&ann, &["list"]).is_empty());
}

#[test]
fn a_server_that_is_not_there_is_told_and_the_question_answered() {
    let provider = Provider::start(vec![Reply::Text("Hello.")]);
    let gone = member("postgres://u:geheim@127.0.0.1:1/notes", "t", &provider.config());
    let failed = gone.run(&["memory", "list"]).failed(1, &["shared memory"]);
    assert!(!failed.err.contains("geheim") && !failed.out.contains("geheim"), "{}", failed.err);
    let answered = gone.run(&["hi"]).ok();
    assert!(answered.out.contains("Hello.") && answered.err.contains("shared memory"), "{}", answered.err);

    let unset = Home::new().config(&format!("[memory]\nurl_env = \"{VARIABLE}\"\n"));
    let _ = unset.run(&["memory", "list"]).failed(2, &[VARIABLE, "memory.url_env"]);
}
