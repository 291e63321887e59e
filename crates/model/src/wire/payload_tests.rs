//! What is sent.

use jarvis_protocol::{Image, Message, Reasoning, ToolCall, ToolSpec};
use serde_json::{Value, json};
use std::time::Duration;

use super::stream_tests::request;
use super::{ApiKey, Endpoint, Wire, build_payload};
use crate::{Constraint, Request};

pub(super) fn endpoint(base_url: &str, model: &str) -> Endpoint {
    Endpoint {
        provider: "test".into(),
        base_url: base_url.into(),
        key: ApiKey::new("sk-secret"),
        model: model.into(),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(60),
        total_timeout: Duration::from_secs(600),
        retries: 0,
        extra_headers: vec![("x-token".into(), "hidden".into())],
        extra_body: serde_json::Map::new(),
        replay_reasoning: None,
    }
}

pub(super) fn sent(wire: Wire, endpoint: &Endpoint, request: &Request) -> Value {
    serde_json::from_slice(&build_payload(wire, endpoint, request, true).unwrap()).unwrap()
}

pub(super) fn tool_round() -> Vec<Message> {
    let call = |id: &str, n: u32| ToolCall { id: id.into(), name: "f".into(), args: json!({"n": n}) };
    let mut asked = Message::assistant("");
    asked.tool_calls = vec![call("a", 1), call("b", 2)];
    asked.reasoning = Some("两次".into());
    vec![
        Message::system("Be brief."),
        Message::user("数一数"),
        asked,
        Message::tool("a", "one", false),
        Message::tool("b", "no such n", true),
    ]
}

pub(super) fn image() -> Image {
    Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00", Some("a.gif")).unwrap()
}

/// A round with images from a person and a tool, and reasoning in every form.
pub(super) fn rich_round() -> Vec<Message> {
    let mut messages = tool_round();
    messages[1].images = vec![image(), image()];
    messages[2].reasoning = Some(Reasoning {
        text: "两次".into(),
        model: "test/model".into(),
        blocks: vec![
            json!({"type": "thinking", "thinking": "两次", "signature": "Eq=="}),
            json!({"type": "redacted_thinking", "data": "xx"}),
            json!({"type": "reasoning.text", "text": "两次", "signature": "s", "index": 0}),
        ],
        calls: [("a".to_owned(), json!({"google": {"thought_signature": "g"}}))].into(),
    });
    messages[3].images = vec![image()];
    messages
}

/// Endpoints and requests with every option in every state that matters.
pub(super) fn many() -> Vec<(Endpoint, Request)> {
    let endpoints = [
        endpoint("http://localhost:11434/v1", "qwen3"),
        endpoint("https://api.openai.com/v1", "gpt-5-mini"),
        endpoint("https://api.openai.com/v1", "o3"),
        endpoint("https://api.deepseek.com", "deepseek-chat"),
        endpoint("https://api.anthropic.com", "claude"),
        Endpoint {
            extra_body: [("thinking".to_owned(), json!({"type": "enabled", "budget_tokens": 1024}))]
                .into_iter()
                .collect(),
            replay_reasoning: Some(true),
            ..endpoint("http://gateway/v1", "m")
        },
    ];
    let tool = ToolSpec { name: "f".into(), description: "数".into(), parameters: json!({"type": "object"}) };
    let constraints = [None, Some(Constraint::Gbnf("root ::= \"a\"".into()))];
    let mut out = Vec::new();
    for endpoint in &endpoints {
        for bits in 0..512u32 {
            let on = |bit: u32| bits & (1 << bit) != 0;
            for constraint in &constraints {
                let mut r = request();
                r.messages = match (on(0), on(8)) {
                    (true, true) => rich_round(),
                    (true, false) => tool_round(),
                    (false, _) => r.messages,
                };
                r.tools = if on(1) { vec![tool.clone().into()] } else { Vec::new() };
                r.temperature = on(2).then_some(0.7);
                r.seed = on(3).then_some(42);
                r.stop = if on(4) { vec!["\n\n".into(), "停".into()] } else { Vec::new() };
                r.assistant_prefix = on(5).then(|| "```\n".into());
                r.samples = if on(6) { 3 } else { 1 };
                r.stable_prefix = usize::from(on(0));
                r.note = on(7).then(|| "Monday".into());
                r.constraint = constraint.clone();
                out.push((endpoint.clone(), r));
            }
        }
    }
    out
}

#[test]
fn an_openai_request_holds_what_was_asked_for() {
    let mut r = request();
    r.messages = tool_round();
    r.tools =
        vec![ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) }.into()];
    r.temperature = Some(0.7);
    r.seed = Some(42);
    r.stop = vec!["END".into()];
    r.samples = 2;
    let body = sent(Wire::OpenAi, &endpoint("http://localhost/v1", "m"), &r);
    assert_eq!(
        body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "数一数"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}},
                    {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{\"n\":2}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "one"},
                {"role": "tool", "tool_call_id": "b", "content": "no such n"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
            "max_tokens": 4096,
            "temperature": 0.7,
            "seed": 42,
            "stop": ["END"],
            "n": 2,
            "stream": true,
        })
    );
}

#[test]
fn an_anthropic_request_holds_what_was_asked_for() {
    let mut r = request();
    r.messages = tool_round();
    r.messages.push(Message::user("and now?"));
    r.tools =
        vec![ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) }.into()];
    r.temperature = Some(1.5);
    r.stop = vec!["END".into()];
    r.stable_prefix = 1;
    r.assistant_prefix = Some("{\n".into());
    let body = sent(Wire::Anthropic, &endpoint("https://api.anthropic.com", "m"), &r);
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        body,
        json!({
            "model": "m",
            "max_tokens": 4096,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "数一数", "cache_control": cached}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {"n": 2}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "no such n", "is_error": true},
                    {"type": "text", "text": "and now?", "cache_control": cached},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "{"}]},
            ],
            "tools": [
                {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": cached},
            ],
            "temperature": 1.0,
            "stop_sequences": ["END"],
            "stream": true,
        })
    );
}

/// The places of a body that are marked to be kept, as pointers to their blocks.
pub(super) fn marks(body: &Value) -> Vec<String> {
    let blocks = |at: String| {
        let list = body.pointer(&at).and_then(Value::as_array).cloned().unwrap_or_default();
        list.into_iter()
            .enumerate()
            .filter(|(_, b)| b.get("cache_control").is_some())
            .map(move |(i, _)| format!("{at}/{i}"))
    };
    let turns = body["messages"].as_array().map_or(0, Vec::len);
    let places = std::iter::once("/system".to_owned()).chain((0..turns).map(|i| format!("/messages/{i}/content")));
    places.flat_map(blocks).collect()
}

#[test]
fn anthropic_keeps_what_ends_with_the_stable_prefix() {
    let here = endpoint("https://api.anthropic.com", "m");
    let mut r = request();
    r.messages = vec![
        Message::system("Be brief."),
        Message::user("one"),
        Message::assistant("1"),
        Message::user("two"),
        Message::assistant("2"),
        Message::user("three"),
    ];
    for (stable, expected) in [
        (0, vec!["/messages/2/content/0", "/messages/4/content/0"]),
        (1, vec!["/system/0", "/messages/2/content/0", "/messages/4/content/0"]),
        (3, vec!["/messages/1/content/0", "/messages/2/content/0", "/messages/4/content/0"]),
        // Nothing of a conversation lies behind the examples.
        (5, vec!["/messages/3/content/0"]),
        (9, vec!["/messages/4/content/0"]),
    ] {
        r.stable_prefix = stable;
        assert_eq!(marks(&sent(Wire::Anthropic, &here, &r)), expected, "{stable}");
    }
    // The note is told with the last question, which is behind the examples.
    r.stable_prefix = 3;
    r.note = Some("Monday".into());
    let body = sent(Wire::Anthropic, &here, &r);
    assert_eq!(marks(&body), ["/messages/1/content/0", "/messages/2/content/0", "/messages/4/content/0"]);
}

#[test]
fn a_note_is_told_with_the_last_question_and_leaves_what_is_before_it_as_it_was() {
    let here = endpoint("http://localhost/v1", "m");
    let mut r = request();
    let call = Message {
        tool_calls: vec![ToolCall { id: "c".into(), name: "f".into(), args: json!({}) }],
        ..Message::assistant("")
    };
    let result = Message::tool("c", "done", false);
    r.messages =
        vec![Message::system("Be brief."), Message::user("hi"), Message::assistant("yes"), Message::user("now?")];
    r.messages.extend([call, result]);
    r.stable_prefix = 1;
    for note in ["It is Monday.", "今天是星期二。"] {
        r.note = Some(note.into());
        let body = sent(Wire::OpenAi, &here, &r);
        assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be brief."}));
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "hi"}));
        assert_eq!(body["messages"][3], json!({"role": "user", "content": format!("({note})\n\nnow?")}));
        let body = sent(Wire::Anthropic, &here, &r);
        let kept = json!({"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}});
        assert_eq!(body["system"], json!([kept]));
        assert_eq!(body["messages"][0]["content"][0]["text"], "hi");
        assert_eq!(body["messages"][2]["content"][0]["text"], format!("({note})\n\nnow?"));
    }
    r.messages.truncate(1);
    let body = sent(Wire::OpenAi, &here, &r);
    assert_eq!(body["messages"][1], json!({"role": "system", "content": "今天是星期二。"}));
    assert_eq!(sent(Wire::Anthropic, &here, &r)["system"][1]["text"], "今天是星期二。");
}

#[test]
fn openai_reasoning_models_get_the_limit_under_its_newer_name() {
    let mut r = request();
    r.temperature = Some(0.2);
    for (base, model, newer) in [
        ("https://api.openai.com/v1", "o4-mini", true),
        ("https://api.openai.com/v1", "gpt-5", true),
        ("https://api.openai.com/v1", "gpt-4o", false),
        ("https://openrouter.ai/api/v1", "gpt-5", false),
        ("https://api.openai.com.evil.example/v1", "o3", false),
        ("http://localhost:11434/v1", "olmo", false),
    ] {
        let body = sent(Wire::OpenAi, &endpoint(base, model), &r);
        assert_eq!(body.get("max_completion_tokens").is_some(), newer, "{base} {model}");
        assert_eq!(body.get("max_tokens").is_none(), newer, "{base} {model}");
        assert_eq!(body.get("temperature").is_none(), newer, "{base} {model}");
    }
}

#[test]
fn what_a_provider_cannot_do_is_refused_before_it_is_sent() {
    let here = endpoint("http://localhost/v1", "m");
    let mut r = request();
    r.constraint = Some(Constraint::Gbnf("root ::= \"a\"".into()));
    let mut hot = request();
    hot.temperature = Some(f32::NAN);
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        for r in [&r, &hot] {
            let error = build_payload(wire, &here, r, true).unwrap_err();
            assert!(matches!(error, crate::ModelError::NotSent { .. }), "{error:?}");
            assert!(!error.to_string().contains("provider did not"), "nobody was asked: {error}");
        }
    }
}

#[test]
fn no_secret_is_shown_by_debug() {
    let mut endpoint = endpoint("https://user:password@host/v1", "m");
    endpoint.key = ApiKey::new("  sk-secret\n");
    let shown = format!("{endpoint:?}");
    for secret in ["sk-secret", "hidden", "password"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(ApiKey::new(" \n").is_none());
}
