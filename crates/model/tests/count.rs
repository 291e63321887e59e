//! Counting tokens: the estimate against a real tokenizer and against what a provider reports; prices and purposes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use futures::future::BoxFuture;
use jarvis_model::{
    Backend, Completion, Delta, Finish, ModelError, ModelHandle, Price, Request, Traits, estimate_tokens,
};
use jarvis_protocol::{Image, Message, Purpose, ToolSpec, Usage};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Counts words as its tokens, times `factor`.
struct Words {
    factor: u64,
    estimated: bool,
}

impl Backend for Words {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let words: u64 = request.messages.iter().map(|m| m.text.split_whitespace().count() as u64).sum();
        let usage = Usage {
            input_tokens: words * self.factor,
            output_tokens: 10,
            estimated: self.estimated,
            ..Usage::default()
        };
        Box::pin(async move {
            Ok(Completion {
                text: "ok".into(),
                reasoning: None,
                tool_calls: vec![],
                malformed_calls: vec![],
                alternatives: vec![],
                usage,
                finish: Finish::Stop,
            })
        })
    }
}

fn handle(factor: u64, estimated: bool) -> ModelHandle {
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 8192 };
    ModelHandle::new("mine/m", traits, Arc::new(Words { factor, estimated }))
}

async fn send(request: &Request) -> Completion {
    request.send(&mut |_| {}, &CancellationToken::new()).await.unwrap()
}

fn prose() -> Vec<Message> {
    vec![Message::user("a plain sentence of short words with nothing odd in it ".repeat(50))]
}

#[tokio::test]
async fn the_estimate_follows_what_the_provider_counts_and_clones_share_it() {
    for factor in [1, 2] {
        let model = handle(factor, false);
        let words = 550 * factor;
        let before = model.count(&prose(), &[]);
        assert!(!before.exact);
        send(&model.clone().request(prose())).await;
        let after = model.count(&prose(), &[]).count;
        assert!(after.abs_diff(words) <= words / 50, "{factor}: {} then {after}, counted {words}", before.count);
        assert!(model.count(&[Message::user("a few more words")], &[]).count > 0);
    }
}

#[tokio::test]
async fn counts_that_cannot_be_tokens_teach_nothing() {
    let short = vec![Message::user("short")];
    let mut seen = prose();
    seen[0].images = vec![Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00", None).unwrap()];
    for (model, messages) in [
        (handle(0, false), prose()),
        (handle(50, false), prose()),
        (handle(2, true), prose()),
        (handle(2, false), short),
        (handle(2, false), seen),
    ] {
        let before = model.count(&prose(), &[]);
        send(&model.request(messages)).await;
        assert_eq!(model.count(&prose(), &[]), before);
    }
}

#[test]
fn tools_and_images_take_room_too() {
    let model = handle(1, false);
    let tool =
        ToolSpec { name: "f".into(), description: "Adds two numbers.".into(), parameters: json!({"type": "object"}) };
    let bare = model.count(&prose(), &[]).count;
    assert!(model.count(&prose(), &[tool.into()]).count > bare + 10);
    let mut seen = prose();
    seen[0].images = vec![Image::from_bytes(b"\xff\xd8\xff\xc2\x00\x0b\x08\x04\x00\x04\x00\x03", None).unwrap()];
    assert!(model.count(&seen, &[]).count >= bare + 1000);
}

#[tokio::test]
async fn every_call_is_counted_with_its_cost_under_its_purpose() {
    let price = Price { input: 2.0, output: 8.0, cached: None, cache_write: None };
    let model = handle(1, false).with_price(Some(price));
    for (purpose, times) in [(Purpose::Chat, 2), (Purpose::Tools, 1), (Purpose::Title, 1)] {
        for _ in 0..times {
            // A subagent has a clone; what it spends is the conversation's.
            let mut request = model.clone().request(vec![Message::user("one two three")]);
            request.purpose = purpose;
            let cost = send(&request).await.usage.cost_usd;
            assert!((cost - (3.0 * 2.0 + 10.0 * 8.0) / 1e6).abs() < 1e-12);
        }
    }
    let spent = model.spent();
    assert_eq!(spent.keys().copied().collect::<Vec<_>>(), [Purpose::Chat, Purpose::Tools, Purpose::Title]);
    let chat = spent[&Purpose::Chat];
    assert_eq!((chat.calls, chat.usage.input_tokens, chat.usage.output_tokens), (2, 6, 20));
    let total: f64 = spent.values().map(|s| s.usage.cost_usd).sum();
    assert!((total - 4.0 * 86.0 / 1e6).abs() < 1e-12);
    assert!(handle(1, false).spent().is_empty(), "another handle, another account");
}

#[tokio::test]
async fn a_model_that_takes_no_images_is_not_sent_any() {
    let model = handle(1, false).with_images(false);
    let mut message = Message::user("what is this?");
    message.images = vec![Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00", Some("猫.gif")).unwrap()];
    let error = model.request(vec![message]).send(&mut |_| {}, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ModelError::NotSent { .. }));
    assert!(error.to_string().contains("mine/m") && error.to_string().contains("猫.gif"), "{error}");
    assert!(model.spent().is_empty());
}

#[cfg(feature = "local")]
mod tokenizer {
    use super::*;
    use jarvis_model::{LocalConfig, local, local_traits};

    /// The smallest GGUF of the folder.
    fn embedded(states: &std::path::Path) -> Option<ModelHandle> {
        let Some(dir) = std::env::var_os("JARVIS_TEST_MODEL_DIR") else {
            jarvis_testkit::skipped(
                "the estimate against a tokenizer: JARVIS_TEST_MODEL_DIR names no folder with a GGUF file",
            );
            return None;
        };
        let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap());
        let gguf = files.filter(|e| e.path().extension().is_some_and(|x| x == "gguf"));
        let model_path = gguf.min_by_key(|e| e.metadata().unwrap().len()).unwrap().path();
        let config = LocalConfig {
            model_path,
            name: "test".into(),
            context_tokens: 4096,
            threads: None,
            gpu_layers: None,
            state_dir: states.to_owned(),
        };
        Some(ModelHandle::new("local/test", local_traits(4096), local(config)))
    }

    fn texts() -> Vec<(&'static str, String)> {
        let json = serde_json::to_string_pretty(
            &(0..40)
                .map(|i| json!({"id": i, "name": "Li Lei", "price": f64::from(i) * 3.7, "tags": ["new", "blue"], "seen": null}))
                .collect::<Vec<_>>(),
        );
        let compact = include_str!("streams/openai/parallel_calls.sse");
        vec![
            ("English", include_str!("count/english.txt").to_owned()),
            ("Chinese", include_str!("count/chinese.txt").to_owned()),
            ("mixed", include_str!("count/mixed.md").to_owned()),
            ("Rust", include_str!("../src/wire/calls.rs").to_owned()),
            ("Python", include_str!("count/code.py").to_owned()),
            ("JSON", json.unwrap()),
            ("JSON on one line", compact.to_owned()),
        ]
    }

    /// Prints the table of the figures: `cargo test --release -p jarvis-model --test count -- --nocapture`.
    #[test]
    fn the_estimate_is_within_15_percent_of_the_tokenizer() {
        let states = tempfile::tempdir().unwrap();
        let Some(model) = embedded(states.path()) else { return };
        let empty = model.count(&[Message::user("")], &[]);
        assert!(empty.exact);
        for (name, text) in texts() {
            let real = model.count(&[Message::user(&text)], &[]).count - empty.count;
            let estimate = estimate_tokens(&text);
            let percent = (estimate as f64 / real as f64 - 1.0) * 100.0;
            println!(
                "{name}: {} characters, {real} tokens, estimate {estimate} ({percent:+.1} %)",
                text.chars().count()
            );
            assert!(real > 200 && percent.abs() <= 15.0, "{name}: {percent:+.1} %");
        }
    }

    #[tokio::test]
    async fn the_embedded_engine_refuses_images_before_it_loads() {
        let config = LocalConfig {
            model_path: "/nowhere.gguf".into(),
            name: "test".into(),
            context_tokens: 4096,
            threads: None,
            gpu_layers: None,
            state_dir: "/nowhere".into(),
        };
        let model = ModelHandle::new("local/test", local_traits(4096), local(config));
        let mut message = Message::user("what is this?");
        assert!(!model.count(std::slice::from_ref(&message), &[]).exact, "without the file it is an estimate");
        message.images = vec![Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00", None).unwrap()];
        let error = model.request(vec![message]).send(&mut |_| {}, &CancellationToken::new()).await.unwrap_err();
        assert!(matches!(error, ModelError::NotSent { .. }), "{error}");
    }

    #[tokio::test]
    async fn the_exact_count_is_what_the_engine_then_reads() {
        let states = tempfile::tempdir().unwrap();
        let Some(model) = embedded(states.path()) else { return };
        let messages = vec![
            Message::system("Be brief."),
            Message::user("数到三。"),
            Message::assistant("一二三"),
            Message::user("again"),
        ];
        let count = model.count(&messages, &[]);
        let mut request = model.request(messages.clone());
        request.max_tokens = 1;
        assert_eq!((count.count, count.exact), (send(&request).await.usage.input_tokens, true));
        let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) };
        assert!(!model.count(&messages, &[tool.into()]).exact, "the engine takes no tools, so it cannot count them");
    }
}
