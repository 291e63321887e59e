//! `jarvis cap search` with and without embeddings, and `jarvis bench registry`.

use crate::common::Home;
use crate::common::embeddings::Embeddings;
use serde_json::{Value, json};

fn with_capabilities(home: Home) -> Home {
    let capability = |name: &str, sentence: &str, status: &str| {
        json!({"name": name, "capability": sentence, "status": status, "tool_path": format!("tools/{name}.ts"),
               "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}})
    };
    let all = [
        capability("mix_tonic", "Mixes a tonic", "active"),
        capability("balance_ledger", "Balances a ledger", "quarantined"),
        capability("get_weather", "Get the current weather of a city", "active"),
        capability("paint_fence", "Paints a fence", "disabled"),
    ];
    home.write("capabilities/index.json", &json!({"version": "1.0.0", "capabilities": all}).to_string());
    home
}

fn search(home: &Home, query: &str) -> (Vec<String>, Value, String) {
    let ran = home.run(&["cap", "search", query, "--json"]).ok();
    let hits = ran.json()["hits"].clone();
    let names = hits.as_array().unwrap().iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect();
    (names, hits, ran.err)
}

#[test]
fn quarantined_hits_are_shown_with_their_status_and_disabled_ones_never() {
    let home = with_capabilities(Home::new());
    let (names, hits, _) = search(&home, "balance the ledger");
    assert_eq!(names[0], "balance_ledger");
    assert_eq!((&hits[0]["status"], &hits[0]["fits"]), (&json!("quarantined"), &json!(true)));
    assert!(home.run(&["cap", "search", "balance the ledger"]).ok().out.contains("quarantined"));
    assert_eq!(search(&home, "明天会下雨吗").0, ["get_weather"], "a question in Chinese, a definition in English");
    assert!(!search(&home, "paint_fence").0.contains(&"paint_fence".to_owned()));
}

#[test]
fn with_an_embedder_a_capability_is_found_by_its_meaning_and_embedded_once() {
    let server = Embeddings::start();
    let home = with_capabilities(Home::new().config(&server.config()));
    let (names, _, err) = search(&home, "something with fizz");
    assert_eq!(names[0], "mix_tonic", "no word in common");
    assert_eq!(err, "");
    assert_eq!(server.asked.lock().unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [3, 1], "not the disabled one");
    let _ = search(&home, "more fizz");
    assert_eq!(server.asked.lock().unwrap().len(), 3, "the vectors were kept: only the request is embedded");
    assert_eq!(search(&home, "what's the weather in Oslo").0[0], "get_weather");
}

#[test]
fn an_embedder_that_fails_is_told_and_words_still_find() {
    let home = with_capabilities(Home::new().config(
        "[embeddings]\nmodel = \"fake/e\"\n[providers.fake]\nbase_url = \"http://127.0.0.1:1/v1\"\nretries = 0\n",
    ));
    let (names, _, err) = search(&home, "what's the weather in Oslo");
    assert_eq!(names[0], "get_weather");
    assert!(err.contains("fake/e could not be used") && err.contains("by words alone"), "{err}");
    let home = Home::new().config("[embeddings]\nmodel = \"nobody/e\"\n");
    let _ = home.run(&["cap", "search", "x"]).failed(2, &["no provider `nobody`", "embeddings.model", "hint:"]);
}

#[test]
fn the_registry_is_measured_in_homes_of_its_own() {
    let home = Home::new();
    let report = home.run(&["bench", "registry", "--entries", "50,500", "--json"]).ok().json();
    let sizes = report["sizes"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|s| s["entries"].as_u64().unwrap()).collect::<Vec<_>>(), [50, 500]);
    for size in sizes {
        for what in ["search", "list", "register"] {
            assert!(size[what]["runs"].as_u64().unwrap() >= 3 && size[what]["median_ms"].as_f64().unwrap() > 0.0);
        }
        let tokens = size["listing_tokens"].as_u64().unwrap();
        assert!((1..=700).contains(&tokens), "{tokens}");
    }
    assert!(!home.file("capabilities").exists());
    let _ = home.run(&["bench", "registry", "--entries", "0"]).failed(2, &["--entries"]);
}

#[test]
fn the_quality_of_a_labelled_file_is_measured() {
    let home = Home::new();
    home.write(
        "labelled.json",
        &json!({"capabilities": [
            {"name": "get_weather", "description": "Get the current weather of a city"},
            {"name": "send_email", "description": "Send an email", "parameters": {"type": "object", "properties": {}}}],
            "queries": [
            {"query": "will it rain in Rome?", "expect": ["get_weather"]},
            {"query": "给老板发封邮件", "expect": ["send_email"]},
            {"query": "write me a poem", "expect": []}]})
        .to_string(),
    );
    let found = home.run(&["bench", "registry", "--quality", "labelled.json", "--json"]).ok().json();
    assert_eq!(
        (&found["all"]["recall_at_5"], &found["all"]["no_match_accuracy"]),
        (&json!(1.0), &json!(1.0)),
        "{found}"
    );
    assert_eq!((&found["english"]["matching"], &found["chinese"]["matching"]), (&json!(1), &json!(1)));
    assert!(home.run(&["bench", "registry", "--quality", "labelled.json"]).ok().out.contains("recall@5"));
    home.write("wrong.json", "{\"capabilities\": [], \"queries\": [{\"query\": \"x\", \"expect\": [\"nobody\"]}]}");
    let _ = home.run(&["bench", "registry", "--quality", "wrong.json"]).failed(2, &["nobody", "hint:"]);
    home.write("wrong.json", "[]");
    let _ = home.run(&["bench", "registry", "--quality", "wrong.json"]).failed(2, &["wrong.json", "hint:"]);
}
