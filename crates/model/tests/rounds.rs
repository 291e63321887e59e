//! A tool round over HTTP: what a model thought and signed goes back with its call, byte for byte, and to it alone.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use jarvis_model::{Completion, Endpoint, ModelHandle, Traits, Wire, anthropic, openai, record, replay};
use jarvis_protocol::Message;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn handle(wire: Wire, id: &str, base_url: String, tape: Option<&Path>) -> ModelHandle {
    let endpoint = Endpoint {
        provider: "test".into(),
        base_url,
        key: None,
        model: "m".into(),
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(5),
        total_timeout: Duration::from_secs(20),
        retries: 0,
        extra_headers: vec![],
        extra_body: serde_json::Map::new(),
        replay_reasoning: None,
    };
    let backend = match wire {
        Wire::OpenAi => openai(endpoint),
        Wire::Anthropic => anthropic(endpoint),
    };
    let backend = tape.map_or(backend.clone(), |file| record(backend, file.to_owned()).unwrap());
    ModelHandle::new(id, Traits { native_tools: true, grammar: false, context_tokens: 100_000 }, backend)
}

async fn ask(handle: &ModelHandle, messages: &[Message]) -> Completion {
    handle.request(messages.to_vec()).send(&mut |_| {}, &CancellationToken::new()).await.unwrap()
}

/// As a turn loop keeps a reply with its call, and the call's result.
fn keep(messages: &mut Vec<Message>, reply: Completion) {
    let mut said = Message::assistant(reply.text);
    said.tool_calls = reply.tool_calls;
    said.reasoning = reply.reasoning;
    let id = said.tool_calls[0].id.clone();
    messages.extend([said, Message::tool(id, "done", false)]);
}

async fn server(stream: &'static str) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_raw(stream, "text/event-stream");
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    server
}

/// The reply as it went back, of the request after it.
async fn sent_back(server: &MockServer, at: usize) -> Value {
    let asked = server.received_requests().await.unwrap();
    let body: Value = serde_json::from_slice(&asked[at].body).unwrap();
    body["messages"].as_array().unwrap().iter().find(|m| m["role"] == "assistant").unwrap().clone()
}

#[tokio::test]
async fn anthropic_gets_its_signed_blocks_back_also_from_a_cassette() {
    let dir = tempfile::tempdir().unwrap();
    let tape = dir.path().join("run.jsonl");
    let server = server(include_str!("streams/anthropic/thinking_signed_before_a_call.sse")).await;
    let model = handle(Wire::Anthropic, "a/m", server.uri(), Some(&tape));
    let mut messages = vec![Message::user("看一看")];
    let reply = ask(&model, &messages).await;
    keep(&mut messages, reply);
    ask(&model, &messages).await;
    let expected = json!([
        {"type": "thinking", "thinking": "想", "signature": "Eq=="},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"n": 1}},
    ]);
    assert_eq!(sent_back(&server, 1).await["content"], expected);

    // The same conversation out of the cassette makes the same requests, or they would not be found.
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 100_000 };
    let replayed = ModelHandle::new("a/m", traits, replay(tape).unwrap());
    let mut again = vec![Message::user("看一看")];
    let reply = ask(&replayed, &again).await;
    keep(&mut again, reply);
    assert_eq!(again, messages);
    ask(&replayed, &again).await;

    // Another model of the same wire is told the conversation without them.
    ask(&handle(Wire::Anthropic, "b/m", server.uri(), None), &messages).await;
    let kinds: Vec<String> = sent_back(&server, 2).await["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["text", "tool_use"]);
}

#[tokio::test]
async fn openrouter_gets_its_details_and_gemini_its_signatures_back() {
    for (stream, field, expected) in [
        (
            include_str!("streams/openai/openrouter_reasoning_details.sse"),
            "/reasoning_details",
            json!([
                {"type": "reasoning.text", "text": "想一想", "format": "anthropic-claude-v1", "index": 0, "signature": "Eq=="},
                {"type": "reasoning.encrypted", "data": "xx", "id": "r1", "format": "anthropic-claude-v1", "index": 1},
            ]),
        ),
        (
            include_str!("streams/openai/gemini_thought_signature.sse"),
            "/tool_calls/0/extra_content/google/thought_signature",
            json!("s1"),
        ),
    ] {
        let server = server(stream).await;
        let model = handle(Wire::OpenAi, "o/m", server.uri(), None);
        let mut messages = vec![Message::user("hi")];
        let reply = ask(&model, &messages).await;
        keep(&mut messages, reply);
        ask(&model, &messages).await;
        assert_eq!(sent_back(&server, 1).await.pointer(field), Some(&expected));
        // A conversation that moved to another wire leaves them behind.
        ask(&handle(Wire::Anthropic, "a/m", server.uri(), None), &messages).await;
        let text = sent_back(&server, 2).await.to_string();
        assert!(!text.contains("reasoning.") && !text.contains("signature"), "{text}");
    }
}
