//! Against a real OpenAI-compatible server: set `JARVIS_TEST_OPENAI_URL` to its base address (`http://…/v1`).

use jarvis_model::{Completion, Delta, Endpoint, Finish, ModelError, ModelHandle, Request, Traits, openai};
use jarvis_protocol::{Message, Role, ToolSpec};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        provider: "real".into(),
        base_url: base_url.into(),
        key: None,
        model: "local-model".into(),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(120),
        total_timeout: Duration::from_secs(300),
        retries: 1,
        extra_headers: vec![],
        extra_body: serde_json::Map::new(),
        replay_reasoning: None,
    }
}

fn request(endpoint: Endpoint, question: &str) -> Request {
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 4096 };
    let mut request = ModelHandle::new("real/local-model", traits, openai(endpoint))
        .request(vec![Message::system("Answer briefly."), Message::user(question)]);
    request.temperature = Some(0.0);
    request.max_tokens = 48;
    request
}

async fn send(request: &Request) -> (Result<Completion, ModelError>, Vec<String>) {
    let mut pieces = Vec::new();
    let mut keep = |d| {
        if let Delta::Text(t) = d {
            pieces.push(t)
        }
    };
    let result = request.send(&mut keep, &CancellationToken::new()).await;
    (result, pieces)
}

/// One test, because such a server answers one request at a time.
#[tokio::test]
async fn a_real_server_answers_in_both_modes_and_refuses_what_is_wrong() {
    let Ok(url) = std::env::var("JARVIS_TEST_OPENAI_URL") else {
        jarvis_testkit::skipped("the wire with a real server: JARVIS_TEST_OPENAI_URL names none");
        return;
    };

    let mut counting = request(endpoint(&url), "Count from 1 to 5, separated by spaces.");
    let (streamed, pieces) = send(&counting).await;
    let streamed = streamed.unwrap();
    assert!(pieces.len() > 1, "the answer came in one piece: {pieces:?}");
    assert_eq!(pieces.concat(), streamed.text);
    assert!(streamed.text.contains('3'), "{}", streamed.text);
    assert_eq!(streamed.finish, Finish::Stop);
    assert!(streamed.usage.input_tokens > 0 && streamed.usage.output_tokens > 0);

    counting.stream = false;
    let (whole, pieces) = send(&counting).await;
    let whole = whole.unwrap();
    assert_eq!(whole.text, streamed.text, "both modes send the same request");
    assert_eq!(pieces.concat(), whole.text);
    assert!(whole.usage.input_tokens > 10 && whole.usage.output_tokens >= 5, "{:?}", whole.usage);

    for stream in [true, false] {
        let mut stopped = request(endpoint(&url), "Count from 1 to 5, separated by spaces.");
        stopped.stream = stream;
        stopped.stop = vec!["3".into()];
        let text = send(&stopped).await.0.unwrap().text;
        assert!(text.contains('2') && !text.contains('3'), "{text}");

        let mut short = request(endpoint(&url), "用中文写一首长诗。");
        short.stream = stream;
        short.max_tokens = 4;
        assert_eq!(send(&short).await.0.unwrap().finish, Finish::Length);
    }

    // A whole round with a tool result goes through; whether the model calls one is not ours to test.
    let mut tools = request(endpoint(&url), "What is the weather in 北京?");
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    tools.tools =
        vec![ToolSpec { name: "get_weather".into(), description: "Weather of a city".into(), parameters }.into()];
    let called = send(&tools).await.0.unwrap();
    let mut round = Message::assistant(called.text);
    round.tool_calls = vec![jarvis_protocol::ToolCall {
        id: "call_1".into(),
        name: "get_weather".into(),
        args: json!({"city": "北京"}),
    }];
    tools.messages.extend([round, Message::tool("call_1", "sunny, 21 °C", false)]);
    assert_eq!(tools.messages.last().map(|m| m.role), Some(Role::Tool));
    send(&tools).await.0.unwrap();

    let base = url.trim_end_matches('/').trim_end_matches("/v1");
    let error = send(&request(endpoint(&format!("{base}/no/such/path")), "hi")).await.0.unwrap_err();
    assert!(matches!(error, ModelError::InvalidRequest { status: 404, .. }), "{error:?}");

    let mut long = request(endpoint(&url), &"很长的问题 ".repeat(20_000));
    // Streaming, llama-cpp-python sends a good status and closes without a word.
    long.stream = false;
    let error = send(&long).await.0.unwrap_err();
    assert!(matches!(error, ModelError::ContextOverflow { .. }), "{error:?}");
}
