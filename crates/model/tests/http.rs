//! Providers over real sockets: statuses, retries, hangs, broken streams, wrong keys, cancelling.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use jarvis_model::{
    ApiKey, Completion, Delta, Endpoint, Finish, ModelError, ModelHandle, Request, Traits, Wire, anthropic, openai,
};
use jarvis_protocol::{ErrorKind, Message, Purpose};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wiremock::matchers::{body_partial_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const KEY: &str = "sk-very-secret-key";

fn endpoint(base_url: String) -> Endpoint {
    Endpoint {
        provider: "test".into(),
        base_url,
        key: ApiKey::new(KEY),
        model: "m".into(),
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_millis(400),
        total_timeout: Duration::from_secs(20),
        retries: 2,
        extra_headers: vec![],
        extra_body: serde_json::Map::new(),
        replay_reasoning: None,
    }
}

fn request(wire: Wire, endpoint: Endpoint) -> Request {
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 1 << 17 };
    let backend = match wire {
        Wire::OpenAi => openai(endpoint),
        Wire::Anthropic => anthropic(endpoint),
    };
    ModelHandle::new("test/m", traits, backend).request(vec![Message::user("hi")])
}

async fn send(request: &Request) -> (Result<Completion, ModelError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let result = request.send(&mut |d| deltas.push(d), &CancellationToken::new()).await;
    (result, deltas)
}

fn texts(deltas: &[Delta]) -> String {
    deltas.iter().filter_map(|d| if let Delta::Text(t) = d { Some(t.as_str()) } else { None }).collect()
}

fn statuses(deltas: &[Delta]) -> usize {
    deltas.iter().filter(|d| matches!(d, Delta::Status(_))).count()
}

fn answer(text: &str) -> Value {
    json!({
        "id": "c", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
    })
}

fn stream(text: &str) -> ResponseTemplate {
    let piece = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let body = piece(json!({"content": text}), Value::Null) + &piece(json!({}), json!("stop")) + "data: [DONE]\n\n";
    ResponseTemplate::new(200).set_body_raw(body, "text/event-stream")
}

/// A server that sends `parts` with pauses and then either closes or hangs; it counts its connections.
async fn raw_server(
    parts: Vec<(u64, &'static str)>,
    hang: bool,
) -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let parts = parts.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let _ = socket.read(&mut buffer).await;
                for (pause, part) in parts {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    if socket.write_all(part.as_bytes()).await.is_err() {
                        return;
                    }
                }
                if hang {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
            });
        }
    });
    (address, count)
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const LONG_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n";
const HELLO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

#[tokio::test]
async fn both_modes_of_openai_answer_alike() {
    let server = MockServer::start().await;
    let asked = |on: bool| {
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .and(header("authorization", format!("Bearer {KEY}").as_str()))
            .and(body_partial_json(json!({"stream": on, "model": "m"})))
    };
    asked(false).respond_with(ResponseTemplate::new(200).set_body_json(answer("你好"))).mount(&server).await;
    asked(true).respond_with(stream("你好")).mount(&server).await;
    let mut r = request(Wire::OpenAi, endpoint(format!("{}/v1/", server.uri())));
    let (streamed, deltas) = send(&r).await;
    let streamed = streamed.unwrap();
    assert_eq!((streamed.text.as_str(), streamed.finish, texts(&deltas).as_str()), ("你好", Finish::Stop, "你好"));
    assert!(streamed.usage.input_tokens > 0 && streamed.usage.output_tokens > 0, "estimated where none is sent");
    r.stream = false;
    let (whole, deltas) = send(&r).await;
    let whole = whole.unwrap();
    assert_eq!((whole.text.as_str(), texts(&deltas).as_str()), ("你好", "你好"));
    assert_eq!((whole.usage.input_tokens, whole.usage.output_tokens, whole.usage.cached_tokens), (7, 2, 3));
}

#[tokio::test]
async fn a_server_that_ignores_the_stream_flag_is_understood_both_ways() {
    let server = MockServer::start().await;
    let asked = |on: bool| Mock::given(method("POST")).and(body_partial_json(json!({"stream": on})));
    asked(true).respond_with(ResponseTemplate::new(200).set_body_json(answer("whole"))).mount(&server).await;
    asked(false).respond_with(stream("streamed")).mount(&server).await;
    let mut r = request(Wire::OpenAi, endpoint(server.uri()));
    assert_eq!(send(&r).await.0.unwrap().text, "whole");
    r.stream = false;
    assert_eq!(send(&r).await.0.unwrap().text, "streamed");
}

#[tokio::test]
async fn anthropic_answers_whole_with_its_headers_and_samples_one_by_one() {
    let server = MockServer::start().await;
    let body = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "t1", "name": "now", "input": {}}],
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 2},
    });
    Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", KEY))
        .and(header("anthropic-version", "2023-06-01"))
        .and(header("x-extra", "1"))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(5)
        .mount(&server)
        .await;
    for base in [server.uri(), format!("{}/v1", server.uri())] {
        let mut endpoint = endpoint(base);
        endpoint.extra_headers.push(("X-Extra".into(), "1".into()));
        let mut r = request(Wire::Anthropic, endpoint);
        r.stream = false;
        let got = send(&r).await.0.unwrap();
        assert_eq!((got.text.as_str(), got.reasoning.unwrap().text.as_str()), ("Looking.", "hm"));
        assert_eq!((got.tool_calls[0].name.as_str(), &got.tool_calls[0].args), ("now", &json!({})));
        assert_eq!((got.usage.input_tokens, got.usage.cached_tokens, got.finish), (9, 4, Finish::ToolCalls));
    }
    let mut endpoint = endpoint(server.uri());
    endpoint.extra_headers.push(("X-Extra".into(), "1".into()));
    let mut r = request(Wire::Anthropic, endpoint);
    r.stream = false;
    r.samples = 3;
    let got = send(&r).await.0.unwrap();
    assert_eq!((got.alternatives.len(), got.usage.output_tokens), (2, 6));
}

#[tokio::test]
async fn each_status_has_its_kind_and_only_transient_ones_are_asked_again() {
    use ErrorKind::*;
    for (status, kind, attempts) in [
        (400, InvalidRequest, 1),
        (401, Auth, 1),
        (403, Auth, 1),
        (404, InvalidRequest, 1),
        (422, InvalidRequest, 1),
        (429, RateLimit, 3),
        (500, Overloaded, 3),
        (503, Overloaded, 3),
        (529, Overloaded, 3),
    ] {
        let server = MockServer::start().await;
        let refusal = ResponseTemplate::new(status)
            .insert_header("retry-after-ms", "20")
            .set_body_json(json!({"error": {"message": format!("wrong {KEY} (401, 429)"), "type": "x"}}));
        Mock::given(method("POST")).respond_with(refusal).expect(attempts).mount(&server).await;
        let (result, deltas) = send(&request(Wire::OpenAi, endpoint(server.uri()))).await;
        let error = result.unwrap_err();
        assert_eq!(error.body().kind, kind, "{status}");
        assert!(!error.to_string().contains(KEY) && error.to_string().contains("wrong [key]"), "{error}");
        assert_eq!(statuses(&deltas), attempts as usize - 1, "each wait is told");
        assert!(!format!("{deltas:?}").contains(KEY));
    }
}

#[tokio::test]
async fn no_part_of_a_key_is_shown_where_a_long_message_is_cut() {
    for before in 480..502 {
        let server = MockServer::start().await;
        let refusal = ResponseTemplate::new(401).set_body_string(format!("{}{KEY} and more", "x".repeat(before)));
        Mock::given(method("POST")).respond_with(refusal).mount(&server).await;
        let error = send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap_err();
        assert!(!error.to_string().contains("sk-"), "{before}: {error}");
    }
}

#[tokio::test]
async fn an_account_without_quota_is_not_asked_again() {
    let server = MockServer::start().await;
    let body = json!({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}});
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(429).set_body_json(body))
        .expect(1)
        .mount(&server)
        .await;
    let error = send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Auth { status: 429, .. }), "{error:?}");
}

#[tokio::test]
async fn a_rate_limit_passes_after_the_time_the_provider_names() {
    let server = MockServer::start().await;
    let limit = ResponseTemplate::new(429).insert_header("retry-after", "1").set_body_string("slow down");
    Mock::given(method("POST")).respond_with(limit).up_to_n_times(1).mount(&server).await;
    Mock::given(method("POST")).respond_with(stream("ok")).mount(&server).await;
    let begun = Instant::now();
    let (result, deltas) = send(&request(Wire::OpenAi, endpoint(server.uri()))).await;
    assert_eq!(result.unwrap().text, "ok");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(matches!(&deltas[0], Delta::Status(s) if s.contains("1.0 s")), "{deltas:?}");
}

#[tokio::test]
async fn a_wait_past_the_total_limit_is_not_begun() {
    let server = MockServer::start().await;
    let limit = ResponseTemplate::new(429).insert_header("retry-after", "3600");
    Mock::given(method("POST")).respond_with(limit).expect(1).mount(&server).await;
    let begun = Instant::now();
    let error = send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap_err();
    assert!(matches!(error, ModelError::RateLimit { retry_after: Some(d), .. } if d.as_secs() == 3600), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_hanging_server_is_a_timeout_and_is_asked_once_more() {
    for parts in [vec![], vec![(0, HEAD)]] {
        let (url, count) = raw_server(parts, true).await;
        let (result, deltas) = send(&request(Wire::OpenAi, endpoint(url))).await;
        let error = result.unwrap_err();
        assert_eq!(error.body().kind, ErrorKind::Timeout, "{error}");
        assert_eq!((count.load(std::sync::atomic::Ordering::SeqCst), statuses(&deltas)), (2, 1));
    }
}

#[tokio::test]
async fn the_total_limit_ends_a_stream_that_drips() {
    let drip = std::iter::repeat_n((100, ": still here\n\n"), 100);
    let (url, _) = raw_server(std::iter::once((0, HEAD)).chain(drip).collect(), true).await;
    let mut endpoint = endpoint(url);
    endpoint.total_timeout = Duration::from_secs(1);
    let begun = Instant::now();
    let error = send(&request(Wire::OpenAi, endpoint)).await.0.unwrap_err();
    assert_eq!(error.body().kind, ErrorKind::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_stream_that_dies_after_text_was_shown_is_broken_and_not_repeated() {
    for head in [HEAD, LONG_HEAD] {
        let (url, count) = raw_server(vec![(0, head), (20, HELLO)], false).await;
        let (result, deltas) = send(&request(Wire::OpenAi, endpoint(url))).await;
        let error = result.unwrap_err();
        assert!(matches!(error, ModelError::Broken { .. }), "{error:?}");
        assert_eq!((texts(&deltas).as_str(), count.load(std::sync::atomic::Ordering::SeqCst)), ("Hello", 1));
    }
}

#[tokio::test]
async fn a_stream_that_dies_before_any_text_is_asked_for_again() {
    let (url, count) = raw_server(vec![(0, LONG_HEAD), (10, ": hi\n\n")], false).await;
    let error = send(&request(Wire::OpenAi, endpoint(url))).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Broken { .. }), "{error:?}");
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_finished_answer_counts_though_the_connection_hangs_or_dies() {
    for hang in [true, false] {
        let (url, _) = raw_server(vec![(0, LONG_HEAD), (0, HELLO), (0, FINISH)], hang).await;
        assert_eq!(send(&request(Wire::OpenAi, endpoint(url))).await.0.unwrap().text, "Hello");
    }
}

#[tokio::test]
async fn garbage_with_a_good_status_is_a_protocol_error_that_shows_it() {
    for (kind, body) in [
        ("text/html", "<html>Log in first</html>"),
        ("application/json", "{\"hello\":1} Log in"),
        ("text/plain", "Log in"),
        ("application/json", "{\"Log in\":1}"),
    ] {
        let server = MockServer::start().await;
        let page = ResponseTemplate::new(200).set_body_raw(body, kind);
        Mock::given(method("POST")).respond_with(page).expect(2).mount(&server).await;
        let mut r = request(Wire::OpenAi, endpoint(server.uri()));
        for on in [true, false] {
            r.stream = on;
            let error = send(&r).await.0.unwrap_err();
            assert_eq!(error.body().kind, ErrorKind::Protocol, "{body} {error}");
            assert!(error.to_string().contains("Log in"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_error_with_a_good_status_has_its_kind() {
    let server = MockServer::start().await;
    let body = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(200).set_body_json(body)).mount(&server).await;
    let error = send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap_err();
    assert_eq!(error.body().kind, ErrorKind::ContextOverflow);
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let other = MockServer::start().await;
    Mock::given(method("GET")).respond_with(stream("stolen")).expect(0).mount(&other).await;
    let server = MockServer::start().await;
    let away = ResponseTemplate::new(302).insert_header("location", other.uri().as_str());
    Mock::given(method("POST")).respond_with(away).mount(&server).await;
    let error = send(&request(Wire::Anthropic, endpoint(server.uri()))).await.0.unwrap_err();
    assert_eq!(error.body().kind, ErrorKind::Protocol);
}

#[tokio::test]
async fn nobody_listening_is_a_network_error_that_names_the_host() {
    let mut endpoint = endpoint("http://127.0.0.1:9/v1".into());
    endpoint.retries = 1;
    let (result, deltas) = send(&request(Wire::OpenAi, endpoint.clone())).await;
    let error = result.unwrap_err();
    assert!(
        matches!(&error, ModelError::Network { host, message } if host == "127.0.0.1:9" && message.contains("refused")),
        "{error}"
    );
    assert_eq!(statuses(&deltas), 1);
    endpoint.base_url = "http://no-such-host.invalid/v1".into();
    endpoint.retries = 0;
    assert_eq!(send(&request(Wire::OpenAi, endpoint)).await.0.unwrap_err().body().kind, ErrorKind::Network);
}

#[tokio::test]
async fn settings_that_cannot_work_say_so() {
    for (url, key) in [("api.openai.com/v1", "k"), ("ftp://x/v1", "k"), ("", "k"), ("http://localhost/v1", "a\nb")] {
        let mut endpoint = endpoint(url.into());
        endpoint.key = ApiKey::new(key);
        let error = send(&request(Wire::OpenAi, endpoint)).await.0.unwrap_err();
        assert!(error.body().hint.is_some() && matches!(error, ModelError::Load { .. }), "{error}");
    }
}

#[tokio::test]
async fn cancelling_works_at_every_point_within_a_tenth_of_a_second() {
    let busy = MockServer::start().await;
    let limit = ResponseTemplate::new(429).insert_header("retry-after", "10");
    Mock::given(method("POST")).respond_with(limit).mount(&busy).await;
    let (silent, _) = raw_server(vec![], true).await;
    let (headed, _) = raw_server(vec![(0, HEAD)], true).await;
    let (talking, _) = raw_server(vec![(0, HEAD), (0, HELLO)], true).await;
    for (url, stream) in [(busy.uri(), true), (silent.clone(), true), (silent, false), (headed, true), (talking, true)]
    {
        let mut endpoint = endpoint(url);
        endpoint.idle_timeout = Duration::from_secs(30);
        let mut r = request(Wire::OpenAi, endpoint);
        r.stream = stream;
        let cancel = CancellationToken::new();
        let later = cancel.clone();
        let at = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            later.cancel();
            Instant::now()
        });
        let result = r.send(&mut |_| {}, &cancel).await;
        let ended = Instant::now();
        assert_eq!(result, Err(ModelError::Cancelled));
        assert!(ended - at.await.unwrap() < Duration::from_millis(100));
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let r = request(Wire::OpenAi, endpoint("http://127.0.0.1:9".into()));
    assert_eq!(r.send(&mut |_| {}, &cancel).await, Err(ModelError::Cancelled));
}

#[tokio::test]
async fn a_date_and_milliseconds_are_waited_for_too() {
    let soon = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(3));
    for (name, value, least, most) in [
        ("retry-after", soon.as_str(), 1.0, 4.0),
        ("retry-after-ms", "700", 0.7, 1.5),
        ("retry-after", "0.6", 0.6, 1.5),
    ] {
        let server = MockServer::start().await;
        let busy = ResponseTemplate::new(503).insert_header(name, value);
        Mock::given(method("POST")).respond_with(busy).up_to_n_times(1).mount(&server).await;
        Mock::given(method("POST")).respond_with(stream("ok")).mount(&server).await;
        let begun = Instant::now();
        assert_eq!(send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap().text, "ok");
        let took = begun.elapsed().as_secs_f64();
        assert!((least..most).contains(&took), "{name}: {value}: {took}");
    }
}

#[tokio::test]
async fn nonsense_in_retry_after_is_no_reason_to_wait_long() {
    for value in ["-5", "soon", "NaN", "1e300", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let server = MockServer::start().await;
        let busy = ResponseTemplate::new(429).insert_header("retry-after", value);
        Mock::given(method("POST")).respond_with(busy).up_to_n_times(1).mount(&server).await;
        Mock::given(method("POST")).respond_with(stream("ok")).mount(&server).await;
        let begun = Instant::now();
        assert_eq!(send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap().text, "ok", "{value}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{value}");
    }
}

/// Waits double and are never the same for all clients.
#[tokio::test]
async fn waits_differ_from_client_to_client_and_grow() {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(500)).mount(&server).await;
    let waits = futures::future::join_all((0..6).map(|_| async {
        let (_, deltas) = send(&request(Wire::OpenAi, endpoint(server.uri()))).await;
        let seconds = |d: &Delta| match d {
            Delta::Status(s) => s.rsplit(' ').nth(1).and_then(|n| n.parse::<f64>().ok()),
            _ => None,
        };
        deltas.iter().filter_map(seconds).collect::<Vec<f64>>()
    }))
    .await;
    assert!(
        waits.iter().all(|w| w.len() == 2 && (0.2..=0.8).contains(&w[0]) && (0.5..=1.5).contains(&w[1])),
        "{waits:?}"
    );
    assert!(waits.iter().any(|w| *w != waits[0]), "{waits:?}");
}

#[tokio::test]
async fn nothing_is_asked_again_once_text_or_reasoning_was_shown() {
    let thought = "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
    let overloaded = "data: {\"error\":{\"code\":529,\"message\":\"busy\"}}\n\n";
    for shown in [HELLO, thought] {
        let (url, count) = raw_server(vec![(0, HEAD), (20, shown), (20, overloaded)], false).await;
        let (result, deltas) = send(&request(Wire::OpenAi, endpoint(url))).await;
        assert_eq!(result.unwrap_err().body().kind, ErrorKind::Overloaded);
        assert_eq!((count.load(std::sync::atomic::Ordering::SeqCst), statuses(&deltas)), (1, 0));
    }
    let (url, count) = raw_server(vec![(0, HEAD), (20, overloaded)], false).await;
    assert!(send(&request(Wire::OpenAi, endpoint(url))).await.0.is_err());
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 3, "before that, it is");
}

#[tokio::test]
async fn a_packed_answer_says_what_is_wrong() {
    let server = MockServer::start().await;
    let packed = ResponseTemplate::new(200)
        .insert_header("content-encoding", "gzip")
        .set_body_raw(vec![0x1f, 0x8b, 8, 0, 0, 0], "text/event-stream");
    Mock::given(method("POST")).respond_with(packed).expect(1).mount(&server).await;
    let error = send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap_err();
    assert!(matches!(&error, ModelError::Protocol { message } if message.contains("gzip")), "{error}");
    let asked = server.received_requests().await.unwrap();
    assert!(asked[0].headers.get("accept-encoding").is_none(), "it was not asked for");
}

/// Collects what is logged, as text.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<String>>);

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        *self.0.lock().unwrap() += &format!("{field}={value:?} ");
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("jarvis")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

#[tokio::test]
async fn the_log_holds_the_first_500_characters_of_a_refusal_and_no_key() {
    let server = MockServer::start().await;
    let detail = format!("{KEY} {}", "错".repeat(600));
    let body = json!({"error": {"message": "short", "type": "invalid_request_error"}, "detail": detail});
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(400).set_body_json(body)).mount(&server).await;
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let error = send(&request(Wire::OpenAi, endpoint(server.uri()))).await.0.unwrap_err();
    drop(guard);
    assert!(error.to_string().ends_with("short"), "{error}");
    let text = log.0.lock().unwrap().clone();
    assert!(text.contains("\"detail\"") && text.contains("[key] 错") && text.contains("status=400"), "{text}");
    assert!(!text.contains(KEY));
    let kept = text.matches('错').count();
    assert!((400..500).contains(&kept) && text.contains("错…"), "{kept} of 600 characters");
}

/// A provider that no list knows serves all that a conversation needs, by one handle.
#[tokio::test]
async fn a_custom_provider_answers_every_purpose_with_the_same_settings() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/llm/v9/chat/completions"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer("ok")))
        .mount(&server)
        .await;
    let mut here = endpoint(format!("{}/llm/v9", server.uri()));
    here.provider = "homemade".into();
    here.model = "own-model:1".into();
    here.extra_headers = vec![("x-tenant".into(), "7".into())];
    here.extra_body = [("enable_thinking".to_owned(), json!(false))].into_iter().collect();
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 9000 };
    let handle = ModelHandle::new("homemade/own-model:1", traits, openai(here));
    let purposes = [Purpose::Chat, Purpose::Tools, Purpose::Subagent, Purpose::Summary, Purpose::Title];
    for purpose in purposes {
        let clone = handle.clone();
        assert_eq!(clone.id(), handle.id());
        let mut request = clone.request(vec![Message::user(purpose.as_str())]);
        request.purpose = purpose;
        assert_eq!(send(&request).await.0.unwrap().text, "ok");
    }
    let asked = server.received_requests().await.unwrap();
    assert_eq!(asked.len(), 5);
    for (request, purpose) in asked.iter().zip(purposes) {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["messages"].take(), json!([{"role": "user", "content": purpose.as_str()}]));
        assert_eq!(
            body,
            json!({"model": "own-model:1", "messages": null, "max_tokens": 4096, "enable_thinking": false, "stream": true})
        );
        let header = |name: &str| request.headers.get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!((header("authorization"), header("x-tenant")), (format!("Bearer {KEY}"), "7".to_owned()));
    }
    let spent = handle.spent();
    assert_eq!(spent.keys().copied().collect::<Vec<_>>(), purposes);
    assert!(spent.values().all(|s| s.calls == 1 && s.usage.input_tokens == 7 && s.usage.cached_tokens == 3));
}
