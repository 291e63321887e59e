//! Recording and replaying.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use futures::future::BoxFuture;
use jarvis_model::{Backend, Completion, Delta, Finish, ModelError, ModelHandle, Request, Traits, record, replay};
use jarvis_protocol::{Image, Message, Reasoning, ToolCall, Usage};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// Counts its answers, so that two answers to one request differ; fails when asked to.
#[derive(Default)]
struct Counter(AtomicU64);

impl Backend for Counter {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            let n = self.0.fetch_add(1, Ordering::SeqCst);
            let question = &request.messages[0].text;
            if question == "fail" {
                let retry_after = Some(std::time::Duration::from_millis(1500));
                return Err(ModelError::RateLimit { status: 429, message: "慢".into(), retry_after });
            }
            let text = format!("{question} 第{n}");
            on_delta(Delta::Text(text.clone()));
            let args = json!({"x": 0.1 + 0.2, "y": 1.0e23_f64.next_down(), "s": "\u{0}好"});
            Ok(Completion {
                text,
                reasoning: Some(Reasoning {
                    text: "why".into(),
                    model: request.handle().id().into(),
                    blocks: vec![json!({"type": "thinking", "thinking": "why", "signature": "Eq=="})],
                    calls: [("a".to_owned(), json!({"google": {"thought_signature": "g"}}))].into(),
                }),
                tool_calls: vec![ToolCall { id: "a".into(), name: "f".into(), args }],
                malformed_calls: vec![],
                alternatives: vec!["other".into()],
                usage: Usage { input_tokens: n, output_tokens: 1, cost_usd: 0.25, ..Usage::default() },
                finish: Finish::ToolCalls,
            })
        })
    }
}

fn handle(backend: Arc<dyn Backend>, id: &str) -> ModelHandle {
    ModelHandle::new(id, Traits { native_tools: true, grammar: true, context_tokens: 8192 }, backend)
}

async fn ask(handle: &ModelHandle, question: &str) -> Result<Completion, ModelError> {
    let mut request = handle.request(vec![Message::user(question)]);
    request.temperature = Some(0.7);
    request.send(&mut |_| {}, &CancellationToken::new()).await
}

fn message(error: &ModelError) -> String {
    assert!(matches!(error, ModelError::Cassette { .. }), "{error:?}");
    error.to_string()
}

async fn recorded(file: &Path) -> Vec<Result<Completion, ModelError>> {
    let model = handle(record(Arc::new(Counter::default()), file.to_owned()).unwrap(), "test/m");
    let mut out = Vec::new();
    for question in ["一", "two", "一", "fail"] {
        out.push(ask(&model, question).await);
    }
    out
}

#[tokio::test]
async fn a_replay_gives_the_recorded_answers_and_errors_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    let first = recorded(&file).await;
    let model = handle(replay(file).unwrap(), "test/m");
    // Between requests the order does not matter; for one request it does.
    assert_eq!(ask(&model, "two").await, first[1]);
    assert_eq!(ask(&model, "一").await, first[0]);
    assert_eq!(ask(&model, "fail").await, first[3]);
    let mut shown = String::new();
    let mut again = model.request(vec![Message::user("一")]);
    again.temperature = Some(0.7);
    again.stream = false;
    again.stable_prefix = 1;
    again.note = Some("asked on another day".into());
    let mut show = |d| {
        if let Delta::Text(t) = d {
            shown.push_str(&t)
        }
    };
    assert_eq!(again.send(&mut show, &CancellationToken::new()).await, first[2]);
    assert_eq!(shown, first[2].as_ref().unwrap().text);
}

#[tokio::test]
async fn an_unknown_request_names_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    recorded(&file).await;
    let model = handle(replay(file.clone()).unwrap(), "test/m");
    let text = message(&ask(&model, "三").await.unwrap_err());
    assert!(text.contains("messages[0].text") && text.contains("一") && text.contains("三"), "{text}");
    let other = handle(replay(file).unwrap(), "test/other");
    assert!(message(&ask(&other, "一").await.unwrap_err()).contains("model differs"));
    ask(&model, "two").await.unwrap();
    assert!(message(&ask(&model, "two").await.unwrap_err()).contains("once more"));
}

#[tokio::test]
async fn what_a_tool_was_called_with_is_the_same_request_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    let numbers: Vec<f64> = (1..2000u32).map(|n| f64::from(n).sqrt() * 1e-7).collect();
    let asking = |backend, note: &str| {
        let mut request = handle(backend, "test/m").request(vec![Message::user("一"), Message::assistant("")]);
        request.messages[1].tool_calls =
            vec![ToolCall { id: "a".into(), name: "f".into(), args: json!({"numbers": numbers}) }];
        request.note = Some(note.to_owned());
        request
    };
    let recorder = record(Arc::new(Counter::default()), file.clone()).unwrap();
    let first = asking(recorder, "Monday").send(&mut |_| {}, &CancellationToken::new()).await;
    assert!(!std::fs::read_to_string(&file).unwrap().contains("Monday"));
    let again = asking(replay(file).unwrap(), "Tuesday").send(&mut |_| {}, &CancellationToken::new()).await;
    assert_eq!(again, first);
}

/// Images and signed reasoning decide an answer like text does, and come out of a cassette as they went in.
#[tokio::test]
async fn images_and_reasoning_are_part_of_the_request_and_of_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    let asking = |backend, pixel: u8, signature: &str| {
        let mut request = handle(backend, "test/m").request(vec![Message::user("一"), Message::assistant("")]);
        request.messages[0].images = vec![
            Image::from_bytes(&[b'G', b'I', b'F', b'8', b'9', b'a', pixel, 0, 1, 0, 0, 0, 0], Some("a.gif")).unwrap(),
        ];
        let blocks = vec![json!({"type": "thinking", "thinking": "", "signature": signature})];
        request.messages[1].reasoning = Some(Reasoning { model: "test/m".into(), blocks, ..Reasoning::default() });
        request
    };
    let cancel = CancellationToken::new();
    let recorder = record(Arc::new(Counter::default()), file.clone()).unwrap();
    let first = asking(recorder, 1, "s").send(&mut |_| {}, &cancel).await.unwrap();
    let ask = |pixel, signature| asking(replay(file.clone()).unwrap(), pixel, signature);
    assert_eq!(ask(1, "s").send(&mut |_| {}, &cancel).await.unwrap(), first);
    let error = message(&ask(2, "s").send(&mut |_| {}, &cancel).await.unwrap_err());
    assert!(error.contains("images[0].data"), "{error}");
    let error = message(&ask(1, "t").send(&mut |_| {}, &cancel).await.unwrap_err());
    assert!(error.contains("signature"), "{error}");
}

#[tokio::test]
async fn a_second_recording_is_appended() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    recorded(&file).await;
    recorded(&file).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 8);
}

#[test]
fn a_damaged_or_missing_cassette_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    let error = |r: Result<Arc<dyn Backend>, ModelError>| message(&r.err().unwrap());
    assert!(error(replay(file.clone())).contains("run.jsonl"));
    std::fs::write(&file, "\n{\"request\":").unwrap();
    assert!(error(replay(file)).contains("line 2"));
    assert!(error(record(Arc::new(Counter::default()), dir.path().to_owned())).contains("cassette"));
}
