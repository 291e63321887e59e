//! Cassettes: what a model answered, kept as JSON lines, and given again without the model.
//!
//! A line is `{"request", "completion" | "error"}`. The request is what decides the answer: not the stream flag, not how
//! much of the prompt is cached, and not the note, so that a replay works on another day. Keys are never part of a
//! request, so none is written.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

use crate::wire::decimal;
use crate::{Backend, Completion, Constraint, Delta, ModelError, Request};

#[derive(Serialize, Deserialize)]
struct Line {
    request: Value,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Completion(Completion),
    Error(ModelError),
}

/// Passes requests on to `inner` and appends each with its answer to `file`, which is made if it is missing.
/// A line that cannot be written fails the request: a recording with holes is none.
pub fn record(inner: Arc<dyn Backend>, file: PathBuf) -> Result<Arc<dyn Backend>, ModelError> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let out = options.open(&file).map_err(|e| trouble(&file, &e))?;
    Ok(Arc::new(Recorder { inner, out: Mutex::new(out), file }))
}

/// Answers from `file`, in recorded order where the same request was recorded several times. A request that was not recorded, or more often than it was
/// recorded, is [`ModelError::Cassette`] and names what differs.
pub fn replay(file: PathBuf) -> Result<Arc<dyn Backend>, ModelError> {
    let text = std::fs::read_to_string(&file).map_err(|e| trouble(&file, &e))?;
    let mut tape = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|e| trouble(&file, &format!("line {}: {e}", at + 1)))?;
        tape.push(Recorded { line, used: false });
    }
    Ok(Arc::new(Player { tape: Mutex::new(tape), file }))
}

struct Recorder {
    inner: Arc<dyn Backend>,
    out: Mutex<File>,
    file: PathBuf,
}

impl Backend for Recorder {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            let result = self.inner.complete(request, on_delta, cancel).await;
            let answer = match &result {
                Ok(completion) => Answer::Completion(completion.clone()),
                // Not the model's answer.
                Err(ModelError::Cancelled) => return result,
                Err(error) => Answer::Error(error.clone()),
            };
            let line = Line { request: describe(request), answer };
            let mut bytes = serde_json::to_vec(&line).map_err(|e| trouble(&self.file, &e))?;
            bytes.push(b'\n');
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            out.write_all(&bytes).map_err(|e| trouble(&self.file, &e))?;
            result
        })
    }
}

struct Recorded {
    line: Line,
    used: bool,
}

struct Player {
    tape: Mutex<Vec<Recorded>>,
    file: PathBuf,
}

impl Player {
    fn answer(&self, request: &Value) -> Result<Completion, ModelError> {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tape.iter_mut().find(|r| !r.used && r.line.request == *request);
        if let Some(recorded) = found {
            recorded.used = true;
            return match recorded.line.answer.clone() {
                Answer::Completion(completion) => Ok(completion),
                Answer::Error(error) => Err(error),
            };
        }
        let times = tape.iter().filter(|r| r.line.request == *request).count();
        if times > 0 {
            return Err(trouble(&self.file, &format!("this request was recorded {times} times and comes once more")));
        }
        // The next unused one is what the caller would have asked, had nothing changed.
        let Some(next) = tape.iter().find(|r| !r.used).or(tape.last()) else {
            return Err(trouble(&self.file, &"it is empty"));
        };
        let what = difference(&next.line.request, request, "").unwrap_or_default();
        Err(trouble(&self.file, &format!("no answer to this request; {what}")))
    }
}

impl Backend for Player {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Err(ModelError::Cancelled);
            }
            let completion = self.answer(&describe(request))?;
            if let Some(reasoning) = completion.reasoning.as_ref().filter(|r| !r.text.is_empty()) {
                on_delta(Delta::Reasoning(reasoning.text.clone()));
            }
            if !completion.text.is_empty() {
                on_delta(Delta::Text(completion.text.clone()));
            }
            Ok(completion)
        })
    }
}

/// Everything of a request that decides its answer.
fn describe(request: &Request) -> Value {
    let constraint = match &request.constraint {
        None => Value::Null,
        Some(Constraint::Gbnf(grammar)) => json!({"gbnf": grammar}),
    };
    json!({
        "model": request.handle().id(),
        "messages": request.messages,
        "tools": request.tools,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature.map(decimal),
        "seed": request.seed,
        "constraint": constraint,
        "samples": request.samples,
        "assistant_prefix": request.assistant_prefix,
        "stop": request.stop,
    })
}

/// The first place where two requests differ, with both values.
fn difference(recorded: &Value, asked: &Value, path: &str) -> Option<String> {
    let here = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (recorded, asked) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
            let null = &Value::Null;
            names.into_iter().find_map(|k| difference(a.get(k).unwrap_or(null), b.get(k).unwrap_or(null), &here(k)))
        }
        (Value::Array(a), Value::Array(b)) => {
            let common = a.iter().zip(b).enumerate();
            let inner = common.into_iter().find_map(|(i, (x, y))| difference(x, y, &format!("{path}[{i}]")));
            inner.or_else(|| {
                (a.len() != b.len()).then(|| format!("{path} has {} entries, recorded were {}", b.len(), a.len()))
            })
        }
        (a, b) if a == b => None,
        (Value::String(a), Value::String(b)) => {
            // From a little before the first difference, so that long prompts stay readable.
            let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
            let cut = |s: &str| s.chars().skip(same.saturating_sub(20)).take(60).collect::<String>();
            Some(format!("{path} differs from character {same}: recorded {:?}, asked {:?}", cut(a), cut(b)))
        }
        (a, b) => Some(format!("{path} differs: recorded {}, asked {}", short(a), short(b))),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

fn trouble(file: &Path, what: &dyn std::fmt::Display) -> ModelError {
    ModelError::Cassette { message: format!("{}: {what}", file.display()) }
}
