//! Whole turns of the shipped binary, with a provider whose answers are scripted.

use crate::common::provider::{Provider, Reply, grows};
use crate::common::{Home, ends_within, signal};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn last(events: &[Value]) -> &Value {
    events.last().unwrap()
}

#[test]
fn a_question_grows_a_capability_and_a_later_process_reuses_it() {
    let mut script = grows();
    script.push(Reply::Call("execute_capability", json!({"name": "multiply_numbers", "args": {"a": 12, "b": 12}})));
    script.push(Reply::Text("It is 144."));
    let provider = Provider::start(script);
    let home = Home::new().config(&provider.config());

    let events = home.run(&["--json", "What is 6 times 7?"]).ok().events();
    assert_eq!(events[0]["type"], "turn.started");
    assert_eq!(events[0]["model"], "fake/m");
    let end = last(&events);
    assert_eq!(end["type"], "turn.completed");
    assert!(end["answer"].as_str().unwrap().contains("42"), "{end}");
    assert_eq!(end["capabilities_built"], json!(["multiply_numbers"]));
    assert_eq!(end["capabilities_used"], json!(["multiply_numbers"]));
    assert_eq!(end["stop_reason"], "end_turn");
    assert_eq!(end["usage"]["input_tokens"], 44);
    let ends =
        events.iter().filter(|e| e["type"].as_str().unwrap().starts_with("turn.") && e["type"] != "turn.started");
    assert_eq!(ends.count(), 1, "exactly one end");
    assert!(events.iter().any(|e| e["type"] == "forge" && e["step"] == "registered"));
    let ran = events.iter().find(|e| e["type"] == "tool.completed" && e["name"] == "execute_capability").unwrap();
    assert_eq!((ran["ok"].as_bool(), &ran["content"]["result"]), (Some(true), &json!(42)));

    let events = home.run(&["--json", "And 12 times 12?"]).ok().events();
    assert_eq!(last(&events)["capabilities_built"], json!([]));
    assert_eq!(last(&events)["capabilities_used"], json!(["multiply_numbers"]));

    // What was learned is there for a person too.
    assert!(home.run(&["cap", "list"]).ok().out.contains("multiply_numbers(a: integer, b: integer)"));
    assert_eq!(home.run(&["cap", "run", "multiply_numbers", "--args", "{\"a\": 5, \"b\": 5}"]).ok().out, "25\n");
    let shown = home.run(&["cap", "show", "multiply_numbers", "--code", "--json"]).ok().json();
    assert_eq!(shown["stats"]["runs"], 3);
    assert!(shown["code"].as_str().unwrap().contains("return a * b"));
    assert_eq!(
        home.run(&["cap", "history", "multiply_numbers", "--json"]).ok().json()["versions"][0]["version"],
        "1.0.0"
    );
    let hits = home.run(&["cap", "search", "multiply", "two", "numbers", "--json"]).ok().json();
    assert_eq!(hits["hits"][0]["name"], "multiply_numbers");
    assert!(home.run(&["audit", "verify"]).ok().out.contains("0 problems"));
    assert!(home.run(&["audit", "tail", "--kind", "outcome"]).ok().out.contains("multiply_numbers"));
}

#[test]
fn piped_stdout_holds_the_answer_alone() {
    let home = Home::new().config(&Provider::start(vec![Reply::Text("Good morning — 早上好!")]).config());
    let ran = home.run(&["hello"]).ok();
    assert_eq!(ran.out, "Good morning — 早上好!\n");
    let home = Home::new().config(&Provider::start(grows()).config());
    let ran = home.run(&["--quiet", "What is 6 times 7?"]).ok();
    assert_eq!(ran.err, "");
    assert!(ran.out.contains("42"));
}

#[test]
fn a_question_from_stdin_arrives_whole() {
    let provider = Provider::start(vec![Reply::Text("ok"), Reply::Text("ok")]);
    let home = Home::new().config(&provider.config());
    let _ = home.run_with_input(&["-"], "line one\n第二行\n").ok();
    let _ = home.run_with_input(&[] as &[&str], "piped").ok();
    let asked = provider.requests.lock().unwrap();
    assert!(asked[0]["messages"].to_string().contains("第二行"), "{}", asked[0]);
    assert!(asked[1]["messages"].to_string().contains("piped"));
}

#[test]
fn each_fault_of_a_provider_is_told_with_what_to_do() {
    for (reply, says, kind) in [
        (Reply::Status("401 Unauthorized", "{\"error\": {\"message\": \"bad key\"}}"), "refused the key", "auth"),
        (Reply::Status("429 Too Many Requests", "{}"), "limits the rate", "rate_limit"),
        (Reply::Status("503 Service Unavailable", "busy"), "overloaded", "overloaded"),
        (Reply::Dies, "broke off", "network"),
        (Reply::Hangs, "no answer", "timeout"),
        (Reply::Garbage, "not in the provider's format", "protocol"),
    ] {
        let home = Home::new().config(&Provider::start(vec![reply]).config());
        let started = Instant::now();
        let ran = home.run(&["--json", "hello"]).failed(1, &[says, "hint:"]);
        assert!(started.elapsed() < Duration::from_secs(20), "{says}");
        let events = ran.events();
        assert_eq!(last(&events)["type"], "turn.failed");
        assert_eq!(last(&events)["error"]["kind"], kind);
    }
    let nobody =
        Home::new().config("model = \"fake/m\"\n[providers.fake]\nbase_url = \"http://127.0.0.1:1/v1\"\nretries = 0\n");
    let _ = nobody.run(&["hello"]).failed(1, &["cannot reach", "hint:"]);
}

#[test]
fn ctrl_c_cancels_the_turn_and_says_so() {
    let provider = Provider::start(vec![Reply::Hangs]);
    let home = Home::new().config(&provider.patient_config(50));
    let child = home.command(&["--json", "hello"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    provider.was_asked(1);
    signal("INT", child.id());
    let ran = ends_within(child, Duration::from_secs(3)).failed(130, &[]);
    let events = ran.events();
    let cancelled = last(&events)["stop_reason"] == "cancelled" || last(&events)["error"]["kind"] == "cancelled";
    assert!(cancelled, "{}", last(&events));
}

#[test]
fn what_was_read_of_a_cancelled_answer_stays_said() {
    let provider = Provider::start(vec![Reply::Stalls("红楼梦的第一回 begins")]);
    let home = Home::new().config(&provider.patient_config(50));
    let mut child = home.command(&["--json", "hello"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.map(Result::unwrap) {
        if line.contains("text.delta") {
            signal("INT", child.id());
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = home.run(&["session", "export", "latest"]).ok().out;
    assert!(said.contains("红楼梦的第一回 begins\n\n(cut off: cancelled by the person)"), "{said}");
}

#[test]
fn a_bound_that_leaves_no_answer_is_a_failure_for_a_script() {
    let list = || Reply::Call("list_capabilities", json!({"query": "x"}));
    let provider = Provider::start(vec![list()]);
    let home = Home::new().config(&provider.config());
    let ran = home.run(&["--max-turns", "1", "go"]).failed(1, &["limit of rounds", "--max-turns"]);
    assert_eq!((ran.out.as_str(), ran.err.matches("limit").count()), ("", 1), "{}", ran.err);
}

#[test]
fn the_mode_decides_whether_the_model_is_offered_tools() {
    let provider = Provider::start(vec![Reply::Text("hi"), Reply::Text("chat"), Reply::Text("hi")]);
    let home = Home::new().config(&provider.config());
    let _ = home.run(&["--mode", "native", "hello"]).ok();
    let _ = home.run(&["--mode", "staged", "hello"]).ok();
    let asked = provider.requests.lock().unwrap();
    assert!(asked[0]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{}", asked[0]);
    assert!(asked[1]["tools"].is_null(), "{}", asked[1]);
}

#[test]
fn a_turn_that_has_cost_enough_stops() {
    let mut script = grows();
    script.truncate(3);
    let provider = Provider::start(script);
    // 14 tokens a call, a dollar each.
    let config = format!("{}[prices.\"fake/m\"]\ninput = 1e6\noutput = 1e6\n", provider.config());
    let home = Home::new().config(&config);
    let events = home.run(&["--json", "--max-cost", "20", "What is 6 times 7?"]).failed(1, &[]).events();
    assert_eq!(last(&events)["stop_reason"], "max_cost", "{}", last(&events));
    assert_eq!(last(&events)["usage"]["cost_usd"], 28.0);
    assert_eq!(provider.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_provider_gets_its_own_fields_with_every_request() {
    let provider = Provider::start(vec![Reply::Text("hi")]);
    let own = "body = { enable_thinking = false, top_k = 20 }\nimages = false\nretries";
    let prices = "[prices.\"fake/m\"]\ninput = 1e6\noutput = 1e6\ncached = 1e5\n";
    let home = Home::new().config(&(provider.config().replace("retries", own) + prices));
    let events = home.run(&["--json", "--mode", "native", "hello"]).ok().events();
    assert_eq!(last(&events)["usage"]["cost_usd"], 14.0);
    let asked = provider.requests.lock().unwrap();
    assert_eq!((&asked[0]["enable_thinking"], &asked[0]["top_k"]), (&json!(false), &json!(20)));
    drop(asked);
    let _ = home.run(&["config", "set", "providers.fake.body", "{ stream = false }"]).ok();
    let _ = home.run(&["--mode", "native", "hello"]).failed(1, &["not sent", "`stream`"]);
}

#[test]
fn what_was_recorded_is_replayed_without_a_server() {
    let provider = Provider::start(vec![Reply::Text("recorded words")]);
    let home = Home::new()
        .config(&provider.config().replace("retries", "api_key_env = \"FAKE_KEY\"\nretries"))
        .var("FAKE_KEY", "sk-very-secret");
    let tape = home.file("tape.jsonl").display().to_string();
    assert_eq!(home.run(&["--record", &tape, "hello"]).ok().out, "recorded words\n");
    assert!(!std::fs::read_to_string(&tape).unwrap().contains("very-secret"));
    assert_eq!(home.run(&["--replay", &tape, "hello"]).ok().out, "recorded words\n");
    assert_eq!(provider.requests.lock().unwrap().len(), 1);
    let _ = home.run(&["--replay", &tape, "something else"]).failed(1, &["cassette", "hint:"]);
    let _ = home.run(&["--replay", "nowhere.jsonl", "hello"]).failed(1, &["nowhere.jsonl"]);
}

#[test]
fn a_test_of_a_model_says_whether_it_calls_tools() {
    let provider = Provider::start(vec![Reply::Text("1 2 3 4 5"), Reply::Call("weather", json!({"city": "Lisbon"}))]);
    let home = Home::new().config(&provider.config());
    let tested = home.run(&["model", "test", "--json"]).ok().json();
    assert_eq!((&tested["native_tools"], &tested["recommended_mode"]), (&json!(true), &json!("native")));
    let provider = Provider::start(vec![Reply::Text("1 2 3 4 5"), Reply::Text("It is sunny.")]);
    let home = Home::new().config(&provider.config());
    let ran = home.run(&["model", "test"]).ok();
    assert!(ran.out.contains("staged") && ran.err.contains("providers.fake.mode staged"), "{}\n{}", ran.out, ran.err);
}
