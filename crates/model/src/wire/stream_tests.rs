//! The corpus `tests/streams`: what providers send, beside what it must come to.

use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::stream_table::{COVERED, TABLE};
use super::{Wire, build_payload};
use crate::{Backend, Completion, Delta, ModelError, ModelHandle, Request, Traits};

struct NoModel;

impl Backend for NoModel {
    fn complete<'a>(
        &'a self,
        _: &'a Request,
        _: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> futures::future::BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async { Err(ModelError::Cancelled) })
    }
}

pub(super) fn request() -> Request {
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 1 << 17 };
    ModelHandle::new("test/model", traits, Arc::new(NoModel)).request(vec![jarvis_protocol::Message::user("hi")])
}

struct Case {
    name: String,
    wire: Wire,
    bytes: Vec<u8>,
    expected: Value,
}

fn corpus() -> Vec<Case> {
    let root = PathBuf::from("tests/streams");
    let mut cases = Vec::new();
    for (wire, folder) in [(Wire::OpenAi, "openai"), (Wire::Anthropic, "anthropic")] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "sse") {
                let name = format!("{folder}/{}", path.file_stem().unwrap().to_string_lossy());
                let beside = std::fs::read_to_string(path.with_extension("json")).unwrap();
                let expected = serde_json::from_str(&beside).unwrap();
                cases.push(Case { name, wire, bytes: std::fs::read(&path).unwrap(), expected });
            }
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 150, "the corpus has moved: {} streams found", cases.len());
    cases
}

/// The outcome in the form of the expectation files, made-up ids as `*`; and the deltas joined.
fn read(case: &Case, chunks: &mut dyn Iterator<Item = &[u8]>) -> Value {
    let mut request = request();
    request.samples = case.expected.pointer("/request/samples").and_then(Value::as_u64).unwrap_or(1) as u8;
    request.assistant_prefix =
        case.expected.pointer("/request/assistant_prefix").and_then(Value::as_str).map(str::to_owned);
    let mut shown = String::new();
    let mut emit = |delta: Delta| {
        if let Delta::Text(text) = delta {
            shown.push_str(&text);
        }
    };
    let mut answer = Answer::new(case.wire, &request);
    let read = || {
        for chunk in chunks {
            answer.feed(chunk, &mut emit)?;
            if answer.is_done() {
                return Ok(());
            }
        }
        answer.end(&mut emit)
    };
    match read() {
        Err(error) => serde_json::json!({"error": error.body().kind}),
        Ok(()) => {
            let completion = answer.draft().complete(&request, &mut emit);
            assert_eq!(shown, completion.text, "{}: deltas differ from the text", case.name);
            let mut ids: Vec<&str> = completion.tool_calls.iter().map(|c| c.id.as_str()).collect();
            ids.extend(completion.malformed_calls.iter().map(|c| c.id.as_str()));
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), completion.tool_calls.len() + completion.malformed_calls.len(), "{}", case.name);
            serde_json::to_value(completion).unwrap()
        }
    }
}

/// Compares the fields that the expectation names; lists not named must be empty.
fn check(case: &Case, outcome: &Value, how: &str) {
    let name = &case.name;
    let expected = case.expected.as_object().unwrap();
    for (field, want) in expected.iter().filter(|(f, _)| *f != "request" && *f != "note") {
        let mut got = outcome.get(field).cloned().unwrap_or(Value::Null);
        let mut want = want.clone();
        for (list, plain) in [("tool_calls", true), ("malformed_calls", false)] {
            if field != list {
                continue;
            }
            let empty = Vec::new();
            let wanted = want.as_array_mut().unwrap();
            assert_eq!(got.as_array().unwrap_or(&empty).len(), wanted.len(), "{name} {how}: {got}");
            for (got, want) in got.as_array_mut().unwrap().iter_mut().zip(wanted) {
                if want["id"] == "*" {
                    assert!(got["id"].as_str().unwrap().len() > 10, "{name}: no id was made up");
                    got["id"] = "*".into();
                }
                if !plain {
                    let problem = got["problem"].as_str().unwrap().to_owned();
                    let part = want["problem"].as_str().unwrap().to_owned();
                    assert!(problem.contains(&part), "{name} {how}: {problem}");
                    got["problem"] = part.into();
                }
            }
        }
        assert_eq!(got, want, "{name} {how}: {field}");
    }
    if !expected.contains_key("error") {
        assert!(outcome.get("error").is_none(), "{name} {how}: {outcome}");
        for list in ["tool_calls", "malformed_calls", "alternatives"] {
            assert!(expected.contains_key(list) || outcome[list].as_array().unwrap().is_empty(), "{name}: {outcome}");
        }
    }
}

/// An outcome in a line: what is in the answer, and how it ended.
fn summary(outcome: &Value) -> String {
    if let Some(kind) = outcome.get("error").and_then(Value::as_str) {
        return format!("error: {kind}");
    }
    let count = |list: &str| outcome[list].as_array().map_or(0, Vec::len);
    let mut parts = Vec::new();
    match &outcome["reasoning"] {
        Value::Null => {}
        Value::String(_) => parts.push("thought".to_owned()),
        _ => parts.push("thought to send back".to_owned()),
    }
    if outcome["text"] != "" {
        parts.push("text".to_owned());
    }
    for (list, what) in [("alternatives", "other"), ("tool_calls", "call"), ("malformed_calls", "bad call")] {
        match count(list) {
            0 => {}
            1 => parts.push(format!("1 {what}")),
            n => parts.push(format!("{n} {what}s")),
        }
    }
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    format!("{}; {}", parts.join(", "), outcome["finish"].as_str().unwrap_or_default())
}

#[test]
fn every_stream_comes_to_what_stands_beside_it_in_chunks_of_any_size() {
    let corpus = corpus();
    let found: Vec<(String, String)> = corpus
        .iter()
        .map(|case| {
            let whole = read(case, &mut std::iter::once(case.bytes.as_slice()));
            check(case, &whole, "in one piece");
            for size in [1, 2, 3, 7] {
                check(case, &read(case, &mut case.bytes.chunks(size)), &format!("in chunks of {size}"));
            }
            (case.name.clone(), summary(&whole))
        })
        .collect();
    let table: Vec<(String, String)> = TABLE.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let row = |(name, outcome): &(String, String)| format!("    ({name:?}, {outcome:?}),\n");
    let differ: String = found.iter().filter(|f| !table.contains(f)).map(row).collect();
    assert!(differ.is_empty(), "not in the table, or differently:\n{differ}");
    assert_eq!(found.len(), table.len(), "the table names a stream that is not there");
    for (what, cases) in COVERED {
        for case in *cases {
            assert!(TABLE.iter().any(|(name, _)| name == case), "{what}: no stream {case}");
        }
    }
}

/// A line far longer than any buffer on the way: one call with 3 MB of arguments, and text of 3 MB.
#[test]
fn a_huge_line_is_read_whole() {
    let big = "长".repeat(1 << 20);
    let call = serde_json::json!({"content": big}).to_string();
    let delta =
        serde_json::json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": call}}]});
    let chunk = |delta: Value, end: Value| {
        format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}))
    };
    let openai = chunk(serde_json::json!({"content": big}), Value::Null) + &chunk(delta, "tool_calls".into());
    let anthropic = [
        serde_json::json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": big}}),
        serde_json::json!({"type": "content_block_start", "index": 1,
                           "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}}),
        serde_json::json!({"type": "content_block_delta", "index": 1,
                           "delta": {"type": "input_json_delta", "partial_json": call}}),
        serde_json::json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
    ]
    .iter()
    .map(|event| format!("data: {event}\n\n"))
    .collect::<String>();
    for (wire, text) in [(Wire::OpenAi, openai), (Wire::Anthropic, anthropic)] {
        let case = Case { name: "huge".into(), wire, bytes: text.into_bytes(), expected: Value::Null };
        let outcome = read(&case, &mut case.bytes.chunks(1 << 14));
        assert_eq!(outcome["text"].as_str().map(str::len), Some(big.len()), "{wire:?}");
        assert!(outcome["tool_calls"][0]["args"]["content"] == big.as_str(), "{wire:?}");
    }
}

#[test]
fn bytes_split_at_every_position_give_the_same_answer() {
    for case in corpus() {
        check(&case, &read(&case, &mut case.bytes.chunks(1)), "byte by byte");
        // Every position of the shorter streams; each position costs a whole reading.
        let step = (case.bytes.len() / 4000).max(1);
        for cut in (0..=case.bytes.len()).step_by(step) {
            let (a, b) = case.bytes.split_at(cut);
            check(&case, &read(&case, &mut [a, b].into_iter()), &format!("cut at byte {cut}"));
        }
    }
}

#[test]
fn any_line_ending_gives_the_same_answer() {
    for case in corpus() {
        let text = String::from_utf8_lossy(&case.bytes).replace("\r\n", "\n");
        for ending in ["\r\n", "\r"] {
            let bytes = text.replace('\n', ending).into_bytes();
            check(&case, &read(&case, &mut std::iter::once(bytes.as_slice())), &format!("lines ending in {ending:?}"));
        }
    }
}

#[test]
fn a_stream_cut_short_anywhere_never_yields_a_call_with_other_arguments() {
    for case in corpus() {
        let whole = read(&case, &mut std::iter::once(case.bytes.as_slice()));
        let known = whole.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
        for cut in (0..case.bytes.len()).step_by((case.bytes.len() / 500).max(1)) {
            let part = read(&case, &mut std::iter::once(&case.bytes[..cut]));
            for call in part.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                let same = |k: &Value| k["name"] == call["name"] && k["args"] == call["args"];
                assert!(known.iter().any(same), "{} cut at {cut}: {call}", case.name);
            }
        }
    }
}

#[test]
fn noise_is_an_error_or_an_answer_but_never_a_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    for case in corpus().into_iter().filter(|c| c.bytes.len() > 10) {
        for _ in 0..200 {
            let mut bytes = case.bytes.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..bytes.len());
                match random.u8(0..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, *random.choice(b"\n\r:{}[]\",d\xff\xe4").unwrap()),
                }
            }
            read(&case, &mut bytes.chunks(random.usize(1..40)));
        }
    }
}

#[test]
fn both_modes_of_either_wire_send_the_same_bytes_but_for_the_stream_flag() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        for (endpoint, request) in super::payload_tests::many() {
            let on = build_payload(wire, &endpoint, &request, true);
            let off = build_payload(wire, &endpoint, &request, false);
            match (on, off) {
                (Ok(on), Ok(off)) => {
                    let on = String::from_utf8(on).unwrap();
                    let off = String::from_utf8(off).unwrap();
                    assert_eq!(on.strip_suffix("\"stream\":true}"), off.strip_suffix("\"stream\":false}"));
                    assert!(on.ends_with("\"stream\":true}") && !on.contains("stream_options"));
                }
                (on, off) => assert_eq!(on, off),
            }
        }
    }
}
