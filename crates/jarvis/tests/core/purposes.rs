//! One handle for everything a conversation asks a model for: chat, tools, subagent, summary, title.

use crate::bench::Bench;
use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use jarvis_agent::{AgentFolders, Mode, Record, Session, SessionParts, Strategy, TurnLimits};
use jarvis_dispatch::DenyAll;
use jarvis_memory::{NewSession, SessionQuery, SessionStore};
use jarvis_model::{ApiKey, Endpoint, ModelHandle, Price, Traits};
use jarvis_policy::Policy;
use jarvis_protocol::Purpose;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a request is for, as the provider sees it.
fn seen(request: &Value) -> &'static str {
    let messages = request["messages"].as_array().unwrap();
    let system = messages[0]["content"].as_str().unwrap_or_default();
    match system {
        s if s.starts_with("Write a title") => "title",
        s if s.starts_with("You keep the memory") => "summary",
        s if s.contains("a subagent of jarvis") => "subagent",
        _ if messages.last().unwrap()["role"] == "tool" => "tools",
        _ => "chat",
    }
}

fn all_five() -> Provider {
    Provider::answering(|request| {
        Some(match seen(request) {
            "title" => Reply::Text("\"Kürbis 与 pumpkins.\""),
            "summary" => Reply::Text("FACTS:\n- the port is 8443\nSTORY: we spoke"),
            "subagent" => Reply::Text("I looked."),
            "tools" => Reply::Text("The subagent has looked."),
            _ if request.to_string().contains("DELEGATE") && !request.to_string().contains("I looked.") => {
                Reply::Call("delegate", json!({"agent": "researcher", "task": "look around"}))
            }
            _ => Reply::Text("Well."),
        })
    })
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        provider: "nowhere-listed".into(),
        base_url: url.into(),
        key: ApiKey::new("k"),
        model: "m".into(),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(20),
        total_timeout: Duration::from_secs(60),
        retries: 0,
        extra_headers: Vec::new(),
        extra_body: serde_json::Map::new(),
        replay_reasoning: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_five_purposes_of_a_custom_provider_are_one_handles() {
    let provider = all_five();
    let bench = Bench::new();
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 32_768 };
    let price = Price { input: 1e6, output: 1e6, cached: None, cache_write: None };
    let handle = ModelHandle::new("nowhere-listed/m", traits, jarvis_model::openai(endpoint(&provider.url)));
    let handle = handle.with_price(Some(price));
    let store = SessionStore::open(&bench.home.path().join("sessions.db")).unwrap();
    let mut session = Session::new(SessionParts {
        id: "s".to_owned(),
        model: handle.clone(),
        forge: bench.forge(Policy::closed()),
        mode: Mode::Auto,
        limits: TurnLimits::STANDARD,
        strategy: Strategy::default(),
        builtins: true,
        zone: jiff::tz::TimeZone::UTC,
    })
    .with_agents(AgentFolders::new(bench.home.path(), &bench.home.path().join("agents")))
    .with_titles()
    .recorded(Record::new(store.clone(), NewSession::default()));
    let cancel = CancellationToken::new();
    for words in ["DELEGATE something", "thanks", "and now?"] {
        session.turn(words, &mut |_| (), &mut DenyAll, &cancel).await;
    }
    session.compact(&mut |_| (), &cancel).await.unwrap();
    session.finish().await;
    let mut log: BTreeMap<String, u64> = BTreeMap::new();
    for request in provider.requests.lock().unwrap().iter() {
        assert_eq!(request["model"], "m");
        *log.entry(seen(request).to_owned()).or_default() += 1;
    }
    let spent = handle.spent();
    let told: BTreeMap<String, u64> = spent.iter().map(|(purpose, spent)| (purpose.to_string(), spent.calls)).collect();
    assert_eq!(told, log);
    let five = [Purpose::Chat, Purpose::Tools, Purpose::Subagent, Purpose::Summary, Purpose::Title];
    assert!(five.iter().all(|purpose| spent.contains_key(purpose)) && spent.len() == five.len(), "{told:?}");
    // Each call is counted in the conversation and in what is kept of it, with its cost: 14 tokens, a dollar each.
    let calls: u64 = told.values().sum();
    let kept = store.list(&SessionQuery::default()).unwrap().sessions.remove(0);
    for usage in [session.usage(), kept.usage] {
        assert_eq!(usage.input_tokens + usage.output_tokens, calls * 14);
        assert!((usage.cost_usd - 14.0 * calls as f64).abs() < 1e-6, "{usage:?}");
    }
    assert_eq!(kept.title.as_deref(), Some("Kürbis 与 pumpkins"));
}

#[test]
fn a_conversation_gets_a_title_and_a_single_question_waits_for_none() {
    let provider = all_five();
    let titled = provider.config().replace("titles = false\n", "");
    let home = Home::new().config(&titled);
    let _ = home.run(&["hello"]).ok();
    assert_eq!(provider.requests.lock().unwrap().len(), 1);
    let _ = home.run_with_input(&["chat"], "hello\n").ok();
    let page = home.run(&["session", "list", "--json"]).ok().json();
    let titles: Vec<&Value> = page["sessions"].as_array().unwrap().iter().map(|s| &s["title"]).collect();
    assert_eq!(titles, [&json!("Kürbis 与 pumpkins"), &Value::Null]);
    // One that a person gave stays.
    let _ = home.run(&["session", "rename", "latest", "mine"]).ok();
    let _ = home.run_with_input(&["chat", "--continue"], "go on\n").ok();
    assert_eq!(home.run(&["session", "list", "--json"]).ok().json()["sessions"][0]["title"], "mine");
}

#[test]
fn a_title_that_does_not_come_holds_nobody_up_and_is_no_error() {
    for reply in ["hangs", "fails"] {
        let provider = Provider::answering(move |request| {
            Some(match (seen(request), reply) {
                ("title", "hangs") => Reply::Hangs,
                ("title", _) => Reply::Status("500 Internal Server Error", "no"),
                _ => Reply::Text("fine"),
            })
        });
        let home = Home::new().config(&provider.patient_config(50).replace("titles = false\n", ""));
        let started = std::time::Instant::now();
        let ran = home.run_with_input(&["chat"], "one\ntwo\n").ok();
        assert_eq!(ran.out, "fine\nfine\n", "{}", ran.err);
        assert!(!ran.err.contains("error") && started.elapsed() < Duration::from_secs(15), "{}", ran.err);
    }
}
