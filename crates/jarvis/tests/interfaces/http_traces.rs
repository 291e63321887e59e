//! Traces of `jarvis serve`, taken by a collector that reads the protocol's own bytes.

use crate::common::Home;
use crate::common::provider::{Provider, grows};
use crate::common::served::Served;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

type Taken = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// Its address, and what it was sent.
fn collector() -> (String, Taken) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let taken = Taken::default();
    let kept = taken.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let lower = head.to_ascii_lowercase();
            assert!(lower.starts_with("post /v1/traces ") && lower.contains("application/x-protobuf"), "{head}");
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap().trim();
            let mut body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            kept.lock().unwrap().push(ExportTraceServiceRequest::decode(&body[..]).unwrap());
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    (address, taken)
}

fn spans(taken: &Taken) -> Vec<Span> {
    let taken = taken.lock().unwrap();
    let scopes = taken.iter().flat_map(|request| &request.resource_spans).flat_map(|of| &of.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|known| known.key == key)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn traced(content: bool) -> (Vec<Span>, Taken, String) {
    let (address, taken) = collector();
    let provider = Provider::start(grows());
    let config = format!("{}[telemetry]\notlp_endpoint = \"{address}\"\ncontent = {content}\n", provider.config());
    let served = Served::start(&Home::new().config(&config), &[]);
    let session = served.session(&json!({}));
    served.post(&format!("/v1/sessions/{session}/messages?wait=true"), &json!({"text": "What is 6 times 7?"})).is(200);
    assert_eq!(served.stop().code, 0);
    (spans(&taken), taken, session)
}

#[test]
fn a_turn_its_model_calls_and_its_tools_are_traced_without_what_was_said() {
    let (spans, taken, session) = traced(false);
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let turns = named("invoke_agent jarvis");
    assert_eq!(turns.len(), 1, "{:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    let turn = turns[0];
    assert_eq!(attribute(turn, "gen_ai.operation.name").as_deref(), Some("invoke_agent"));
    assert_eq!(attribute(turn, "gen_ai.conversation.id"), Some(session));
    assert_eq!(attribute(turn, "gen_ai.usage.input_tokens").as_deref(), Some("44"));
    let chats = named("chat m");
    assert_eq!(chats.len(), 4);
    for chat in &chats {
        assert_eq!((chat.parent_span_id.clone(), chat.trace_id.clone()), (turn.span_id.clone(), turn.trace_id.clone()));
        assert_eq!(attribute(chat, "gen_ai.provider.name").as_deref(), Some("fake"));
        assert_eq!(attribute(chat, "gen_ai.request.model").as_deref(), Some("m"));
        assert_eq!(attribute(chat, "gen_ai.usage.output_tokens").as_deref(), Some("3"));
        assert!(chat.end_time_unix_nano >= chat.start_time_unix_nano);
    }
    for tool in ["list_capabilities", "register_capability", "execute_capability"] {
        let tools = named(&format!("execute_tool {tool}"));
        assert_eq!(tools.len(), 1, "{tool}");
        assert_eq!(tools[0].parent_span_id, turn.span_id);
        assert_eq!(attribute(tools[0], "gen_ai.tool.name").as_deref(), Some(tool));
    }
    let resource = taken.lock().unwrap()[0].resource_spans[0].resource.clone().unwrap();
    assert!(resource.attributes.iter().any(|known| known.key == "service.name"));
    let whole = format!("{:?}", taken.lock().unwrap());
    assert!(!whole.contains("6 times 7") && !whole.contains("return a * b"), "content was not asked for");
}

#[test]
fn what_was_said_is_traced_where_it_was_asked_for() {
    let (spans, _, _) = traced(true);
    let turn = spans.iter().find(|span| span.name == "invoke_agent jarvis").unwrap();
    assert!(attribute(turn, "gen_ai.input.messages").unwrap().contains("6 times 7"));
    assert!(attribute(turn, "gen_ai.output.messages").unwrap().contains("42"));
    let tool = spans.iter().find(|span| span.name == "execute_tool execute_capability").unwrap();
    assert!(attribute(tool, "gen_ai.tool.call.arguments").unwrap().contains("multiply_numbers"));
    assert!(attribute(tool, "gen_ai.tool.call.result").unwrap().contains("42"));
}
