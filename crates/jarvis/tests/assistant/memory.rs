//! Notes of the shipped binary: kept by a person, told where they matter, proposed by models, forgotten.

use crate::common::Home;
use crate::common::embeddings::Embeddings;
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};

fn home_of(script: Vec<Reply>) -> (Home, Provider) {
    let provider = Provider::start(script);
    (Home::new().config(&provider.config()), provider)
}

fn sent(provider: &Provider, n: usize) -> String {
    provider.requests.lock().unwrap()[n]["messages"].to_string()
}

fn add(home: &Home, text: &str) -> String {
    home.run(&["memory", "add", text, "--type", "fact"]).ok().out.trim().to_owned()
}

fn notes(home: &Home) -> Vec<Value> {
    home.run(&["memory", "list", "--json"]).ok().json()["notes"].as_array().unwrap().clone()
}

fn proposals(home: &Home) -> Vec<Value> {
    home.run(&["memory", "proposals", "--json"]).ok().json()["proposals"].as_array().unwrap().clone()
}

fn proposes(text: &str) -> Vec<Reply> {
    vec![Reply::Call("remember", json!({"text": text, "type": "fact", "tags": ["pets"]})), Reply::Text("Noted.")]
}

#[test]
fn a_note_is_told_where_it_matters_and_nowhere_else() {
    let (home, provider) = home_of((0..4).map(|_| Reply::Text("ok")).collect());
    let _ = add(&home, "测试数据库的端口是 5433");
    let _ = add(&home, "The release manager of the billing team is Ann");
    for (n, question, told, untold) in [
        (0, "测试数据库的端口是多少？", "5433", "Ann"),
        (1, "Who is the release manager of billing?", "Ann", "5433"),
        (2, "What is 6 times 7?", "", "Notes from earlier"),
    ] {
        let events = home.run(&["--json", question]).ok().events();
        let asked = sent(&provider, n);
        assert!(asked.contains(told) && !asked.contains(untold), "{question}: {asked}");
        let context = events.iter().find(|e| e["type"] == "context").unwrap();
        assert_eq!(context["memory"], u32::from(!told.is_empty()), "{context}");
    }
    let _ = home.run(&["config", "set", "context", "window"]).ok();
    let _ = home.run(&["Who is the release manager of billing?"]).ok();
    assert!(!sent(&provider, 3).contains("Ann"), "this strategy tells no notes");
}

#[test]
fn a_proposal_is_used_only_after_a_persons_yes() {
    let mut script = proposes("The user's cat is called Mila");
    script.extend([Reply::Text("no idea"), Reply::Text("Mila")]);
    let (home, provider) = home_of(script);
    let ran = home.run(&["my cat is Mila"]).ok();
    assert!(ran.err.contains("proposed to be remembered") && ran.err.contains("memory accept"), "{}", ran.err);
    assert!(notes(&home).is_empty());
    let waiting = proposals(&home);
    let id = waiting[0]["note"]["id"].as_str().unwrap().to_owned();
    let session = home.run(&["session", "list", "--json"]).ok().json()["sessions"][0]["id"].clone();
    assert_eq!((waiting.len(), &waiting[0]["note"]["session"]), (1, &session));
    let _ = home.run(&["what is my cat called?"]).ok();
    assert!(!sent(&provider, 2).contains("Mila"));
    assert_eq!(home.run(&["memory", "accept", &id[..12]]).ok().out, format!("{id}\n"));
    assert!(proposals(&home).is_empty() && notes(&home)[0]["tags"] == json!(["pets"]));
    let _ = home.run(&["what is my cat called?"]).ok();
    assert!(sent(&provider, 3).contains("The user's cat is called Mila"));
    assert!(home.run(&["audit", "tail", "--kind", "outcome"]).ok().out.contains("remember"));
}

#[test]
fn what_was_rejected_is_not_proposed_again_and_auto_keeps_at_once() {
    let text = "The user's cat is called Mila";
    let (home, provider) = home_of((0..3).flat_map(|_| proposes(text)).collect());
    let _ = home.run(&["my cat is Mila"]).ok();
    let id = proposals(&home)[0]["note"]["id"].as_str().unwrap().to_owned();
    let _ = home.run(&["memory", "reject", &id]).ok();
    let _ = home.run(&["my cat is Mila"]).ok();
    assert!(proposals(&home).is_empty() && sent(&provider, 3).contains("said no"));
    let other = Home::new().config(&provider.config());
    let ran = other.run(&["--approve", "auto", "my cat is Mila"]).ok();
    assert!(ran.err.contains("remembered: The user's cat"), "{}", ran.err);
    assert_eq!((notes(&other).len(), proposals(&other).len()), (1, 0));
}

#[test]
fn a_model_looks_notes_up_and_no_key_goes_along() {
    let key = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz";
    let (home, provider) = home_of(vec![
        Reply::Call("recall", json!({"query": "deployment server"})),
        Reply::Call("recall", json!({"query": "holiday"})),
        Reply::Call("recall", json!({"question": "holiday"})),
        Reply::Text("done"),
    ]);
    let _ = add(&home, &format!("The deployment server is atlas, its key is {key}"));
    let events = home.run(&["--json", "go"]).ok().events();
    let calls: Vec<&Value> = events.iter().filter(|e| e["type"] == "tool.completed").collect();
    assert!(calls[0]["content"]["notes"][0].as_str().unwrap().contains("atlas"), "{}", calls[0]);
    assert_eq!(calls[1]["content"]["notes"], json!([]));
    assert_eq!(calls[2]["ok"], false, "an argument that is not known");
    for n in 0..4 {
        assert!(!sent(&provider, n).contains(key));
    }
}

#[test]
fn forgotten_is_gone_from_files_search_and_questions() {
    let (home, provider) = home_of(vec![Reply::Text("ok"), Reply::Text("ok")]);
    let id = add(&home, "办公室的门禁密码每周一更换");
    let _ = add(&home, "The bakery opens at seven");
    let shown = home.run(&["memory", "show", &id, "--json"]).ok().json();
    let file = shown["path"].as_str().unwrap().to_owned();
    assert!(std::fs::read_to_string(&file).unwrap().contains("门禁密码"));
    let question = "办公室的门禁密码什么时候更换？";
    let _ = home.run(&[question]).ok();
    assert!(sent(&provider, 0).contains("每周一"));
    let _ = home.run(&["memory", "forget", "no-such"]).failed(1, &["no note or proposal", "memory list"]);
    let _ = home.run(&["memory", "forget"]).failed(2, &["--query"]);
    let gone = home.run(&["memory", "forget", "--query", "门禁", "--json"]).ok().json();
    assert_eq!(gone["notes"][0]["id"], json!(id));
    let _ = home.run(&[question]).ok();
    assert!(!sent(&provider, 1).contains("每周一"));
    assert!(!std::path::Path::new(&file).exists() && notes(&home).len() == 1);
    assert_eq!(home.run(&["memory", "search", "门禁", "--json"]).ok().json()["found"], json!([]));
    for name in ["memory.db", "memory.db-wal"] {
        let bytes = std::fs::read(home.file(name)).unwrap_or_default();
        assert!(!bytes.windows(6).any(|w| w == "门禁".as_bytes()), "{name}");
    }
}

#[test]
fn a_file_edited_by_hand_counts_and_the_index_is_made_anew() {
    let (home, _provider) = home_of(Vec::new());
    let id = add(&home, "the standup is at nine");
    let file = home.run(&["memory", "show", &id, "--json"]).ok().json()["path"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("nine", "quarter past ten")).unwrap();
    assert!(home.run(&["memory", "search", "quarter"]).ok().out.contains("quarter past ten"));
    for name in ["memory.db", "memory.db-wal", "memory.db-shm"] {
        let _ = std::fs::remove_file(home.file(name));
    }
    assert_eq!(home.run(&["memory", "reindex", "--json"]).ok().json()["notes"], 1);
    let _ = home.run(&["memory", "add", "x", "--importance", "9"]).failed(2, &["1..=5"]);
    let _ = home.run(&["memory", "add", "x", "--type", "thought"]).failed(2, &["preference"]);
}

#[test]
fn with_an_embedder_a_note_is_told_by_its_meaning() {
    let server = Embeddings::start();
    let provider = Provider::start(vec![Reply::Text("ok"), Reply::Text("ok"), Reply::Text("ok")]);
    let home = Home::new().config(&format!("{}{}", provider.config(), server.config()));
    let _ = home.run(&["hello"]).ok();
    assert!(server.asked.lock().unwrap().is_empty(), "nothing is embedded where nothing is remembered");
    let _ = add(&home, "The tonic water is bought on Fridays");
    let _ = add(&home, "The ledger is closed in March");
    let _ = home.run(&["memory", "reindex"]).ok();
    // The server knows `tonic` and `fizz` as one subject; no word is shared.
    let _ = home.run(&["when do we get something with fizz?"]).ok();
    let asked = sent(&provider, 1);
    assert!(asked.contains("tonic water") && !asked.contains("ledger"), "{asked}");
    let found = home.run(&["memory", "search", "fizz tonic", "--json"]).ok().json();
    assert!(found["found"][0]["note"]["text"].as_str().unwrap().contains("tonic"), "{found}");
}
