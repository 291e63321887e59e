//! Images, reasoning, marks for the cache and a provider's own fields in what is sent.

use jarvis_protocol::{Message, Reasoning, Role, ToolCall, ToolSpec};
use serde_json::{Value, json};

use super::payload_tests::{endpoint, image, many, marks, rich_round, sent, tool_round};
use super::stream_tests::request;
use super::{Wire, build_payload};
use crate::{ModelError, Request};

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

fn with(messages: Vec<Message>) -> Request {
    let mut r = request();
    r.messages = messages;
    r
}

#[test]
fn openai_gets_images_as_data_addresses_and_those_of_tools_behind_all_results() {
    let body = sent(Wire::OpenAi, &endpoint(OPENAI, "m"), &with(rich_round()));
    let part = json!({"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlhAQABAAAAAA=="}});
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "数一数"}, part, part]));
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    assert_eq!(body["messages"][3]["content"], "one");
    assert_eq!(body["messages"][5]["content"], json!([{"type": "text", "text": "Returned by tool call a:"}, part]));
    let mut alone = Message::user("");
    alone.images = vec![image()];
    let body = sent(Wire::OpenAi, &endpoint(OPENAI, "m"), &with(vec![alone]));
    assert_eq!(body["messages"][0]["content"], json!([part]), "no empty text beside it");
}

#[test]
fn anthropic_gets_images_as_blocks_before_the_text_and_within_results() {
    let mut messages = rich_round();
    messages[4].images = vec![image()];
    let body = sent(Wire::Anthropic, &endpoint(ANTHROPIC, "m"), &with(messages));
    let block = json!({"type": "image", "source":
        {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhAQABAAAAAA=="}});
    let asked = &body["messages"][0]["content"];
    assert_eq!((&asked[0], &asked[1], &asked[2]["text"]), (&block, &block, &json!("数一数")));
    let results = body["messages"][2]["content"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["content"], json!([{"type": "text", "text": "one"}, block]));
    assert_eq!(results[1]["content"][1], block);
    assert!(results[1].get("is_error").is_none(), "which is refused with images");
}

#[test]
fn images_where_no_wire_has_a_place_for_them_are_not_sent() {
    for role in [Role::System, Role::Assistant] {
        let mut message = Message { role, ..Message::user("look") };
        message.images = vec![image()];
        for (wire, base) in [(Wire::OpenAi, OPENAI), (Wire::Anthropic, ANTHROPIC)] {
            let error = build_payload(wire, &endpoint(base, "m"), &with(vec![message.clone()]), true).unwrap_err();
            assert!(matches!(error, ModelError::NotSent { .. }), "{error}");
        }
    }
}

#[test]
fn signed_thinking_goes_back_unchanged_before_the_calls_and_only_to_its_model() {
    let here = endpoint(ANTHROPIC, "m");
    let body = sent(Wire::Anthropic, &here, &with(rich_round()));
    let said = body["messages"][1]["content"].as_array().unwrap();
    let kinds: Vec<_> = said.iter().map(|b| b["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "redacted_thinking", "tool_use", "tool_use"]);
    assert_eq!(said[0], json!({"type": "thinking", "thinking": "两次", "signature": "Eq=="}));
    let change = |to: &dyn Fn(&mut Reasoning)| {
        let mut messages = rich_round();
        to(messages[2].reasoning.as_mut().unwrap());
        messages
    };
    let kinds = |base: &str, messages: Vec<Message>| -> Vec<String> {
        let body = sent(Wire::Anthropic, &endpoint(base, "m"), &with(messages));
        let said = body["messages"][1]["content"].as_array().unwrap().iter();
        said.map(|b| b["type"].as_str().unwrap().to_owned()).collect()
    };
    let other = change(&|r| r.model = "other/model".into());
    assert_eq!(kinds(ANTHROPIC, other), ["tool_use", "tool_use"]);
    // Cut by the limit before its signature: Anthropic refuses it; a gateway that never signs wants it.
    let unsigned = change(&|r| r.blocks[0]["signature"] = "".into());
    assert_eq!(kinds(ANTHROPIC, unsigned.clone()), ["redacted_thinking", "tool_use", "tool_use"]);
    assert_eq!(kinds("http://gateway", unsigned), ["thinking", "redacted_thinking", "tool_use", "tool_use"]);
}

#[test]
fn reasoning_content_goes_back_to_those_who_want_it_with_every_reply_or_none() {
    let fields = |base: &str, own: Option<bool>, messages: Vec<Message>| -> Vec<Option<String>> {
        let mut here = endpoint(base, "m");
        here.replay_reasoning = own;
        let body = sent(Wire::OpenAi, &here, &with(messages));
        let said = body["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "assistant");
        said.map(|m| m.get("reasoning_content").map(|r| r.as_str().unwrap().to_owned())).collect()
    };
    let mut messages = tool_round();
    messages.push(Message::assistant("two"));
    messages.push(Message::user("next question"));
    let all = vec![Some("两次".to_owned()), Some(String::new())];
    for base in ["https://api.deepseek.com", "https://api.deepseek.com/v1", "https://api.moonshot.cn/v1"] {
        assert_eq!(fields(base, None, messages.clone()), all, "{base}");
    }
    assert_eq!(fields("http://localhost:8000/v1", Some(true), messages.clone()), all);
    for (base, own) in
        [(OPENAI, None), ("https://api.deepseek.com", Some(false)), ("https://deepseek.com.evil.example", None)]
    {
        assert_eq!(fields(base, own, messages.clone()), [None, None], "{base}");
    }
    // A model that does not think is not told of the field.
    messages[2].reasoning = None;
    assert_eq!(fields("https://api.deepseek.com", None, messages), [None, None]);
}

#[test]
fn opaque_details_and_signatures_of_calls_go_back_to_their_model() {
    let back =
        |messages: Vec<Message>| sent(Wire::OpenAi, &endpoint("https://openrouter.ai/api/v1", "m"), &with(messages));
    let body = back(rich_round());
    let said = &body["messages"][2];
    assert_eq!(
        said["reasoning_details"],
        json!([{"type": "reasoning.text", "text": "两次", "signature": "s", "index": 0}])
    );
    assert_eq!(said["tool_calls"][0]["extra_content"], json!({"google": {"thought_signature": "g"}}));
    assert!(said["tool_calls"][1].get("extra_content").is_none());
    let mut messages = rich_round();
    messages[2].reasoning.as_mut().unwrap().model = "other/model".into();
    let text = back(messages).to_string();
    assert!(!text.contains("reasoning_details") && !text.contains("extra_content"), "{text}");
}

#[test]
fn a_cache_is_marked_at_four_places_at_most_and_never_on_reasoning() {
    let mut most = 0;
    for (endpoint, request) in many() {
        let Ok(body) = build_payload(Wire::Anthropic, &endpoint, &request, true) else { continue };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let tools =
            body["tools"].as_array().map_or(0, |t| t.iter().filter(|t| t.get("cache_control").is_some()).count());
        let marks = marks(&body);
        most = most.max(marks.len() + tools);
        for mark in marks {
            let kind = body.pointer(&mark).unwrap()["type"].as_str().unwrap().to_owned();
            assert!(!kind.contains("thinking"), "{mark}");
        }
        let openai = build_payload(Wire::OpenAi, &endpoint, &request, true).unwrap_or_default();
        assert!(!String::from_utf8(openai).unwrap().contains("cache_control"));
    }
    let mut r = with(rich_round());
    r.messages.extend([Message::assistant("two"), Message::user("and now?")]);
    r.stable_prefix = 1;
    r.tools =
        vec![ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) }.into()];
    let body = sent(Wire::Anthropic, &endpoint(ANTHROPIC, "m"), &r);
    assert_eq!(marks(&body), ["/system/0", "/messages/2/content/1", "/messages/4/content/0"]);
    assert!(body["tools"][0].get("cache_control").is_some());
    assert!(most <= 4, "{most}");
}

#[test]
fn a_stable_prefix_that_ends_in_reasoning_is_marked_before_it() {
    let mut thought = Message::assistant("");
    let blocks = vec![json!({"type": "thinking", "thinking": "t", "signature": "s"})];
    thought.reasoning = Some(Reasoning { model: "test/model".into(), blocks, ..Reasoning::default() });
    let mut r = with(vec![Message::user("one"), thought, Message::user("two")]);
    r.stable_prefix = 2;
    let body = sent(Wire::Anthropic, &endpoint(ANTHROPIC, "m"), &r);
    assert_eq!(marks(&body), ["/messages/0/content/0"]);
}

#[test]
fn a_provider_gets_its_own_fields_but_not_another_request() {
    let mut here = endpoint(ANTHROPIC, "m");
    here.extra_body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2000}));
    let mut r = with(tool_round());
    r.temperature = Some(0.2);
    let body = sent(Wire::Anthropic, &here, &r);
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 2000}));
    assert_eq!(body["max_tokens"], 4096 + 2000, "the answer keeps its room");
    assert!(body.get("temperature").is_none(), "which thinking does not take");
    r.assistant_prefix = Some("{".into());
    assert!(matches!(build_payload(Wire::Anthropic, &here, &r, true), Err(ModelError::NotSent { .. })));
    here.extra_body =
        [("reasoning_effort".to_owned(), json!("low")), ("top_p".to_owned(), json!(0.9))].into_iter().collect();
    let body = sent(Wire::OpenAi, &here, &with(tool_round()));
    assert_eq!((&body["reasoning_effort"], &body["top_p"]), (&json!("low"), &json!(0.9)));
    for name in ["stream", "stream_options", "messages", "model", "tools", "system", "n"] {
        here.extra_body = [(name.to_owned(), json!(1))].into_iter().collect();
        for wire in [Wire::OpenAi, Wire::Anthropic] {
            let error = build_payload(wire, &here, &with(tool_round()), true).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}

/// What is kept in a session or a cassette is sent as if it had never left.
#[test]
fn a_conversation_read_back_is_sent_in_the_same_bytes() {
    let messages = rich_round();
    let text = serde_json::to_string(&messages).unwrap();
    let again: Vec<Message> = serde_json::from_str(&text).unwrap();
    for (wire, base) in [(Wire::OpenAi, OPENAI), (Wire::Anthropic, ANTHROPIC)] {
        let here = endpoint(base, "m");
        let first = build_payload(wire, &here, &with(messages.clone()), true).unwrap();
        assert_eq!(build_payload(wire, &here, &with(again.clone()), true).unwrap(), first);
    }
}

/// Calls keep their order and arguments beside reasoning that arrived in any form.
#[test]
fn an_answer_goes_back_as_it_came() {
    let mut said = Message::assistant("Looking.");
    said.tool_calls = vec![ToolCall { id: "t1".into(), name: "f".into(), args: json!({"b": 1, "a": 2}) }];
    said.reasoning = Some(Reasoning::from("plain"));
    let body = sent(Wire::Anthropic, &endpoint(ANTHROPIC, "m"), &with(vec![Message::user("q"), said]));
    assert_eq!(
        body["messages"][1]["content"],
        json!([{"type": "text", "text": "Looking."},
               {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}}])
    );
}
