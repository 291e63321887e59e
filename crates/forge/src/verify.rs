//! Verified: the draft runs in the real sandbox on every example. What is recorded are counts, never "correct".

use crate::{
    Draft,
    literal::{is_long_number, stated_answer},
    probe::variations,
};
use jarvis_dispatch::{CallError, Checked, Dispatch, check_value};
use jarvis_protocol::{Example, Execution, ExitClass};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What verification did and saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Executions, repeats included.
    pub runs: u32,
    /// Examples with a known answer that gave it.
    pub answers_matched: u32,
    /// Examples without one that ran and fitted the schema.
    pub ran: u32,
    /// Of both, those the coder had not seen.
    pub held_out: u32,
    /// Ran twice with the same result.
    pub repeatable: bool,
    /// Result of the first example, which is the request's own where there is one.
    pub first_result: Option<Value>,
}

pub(crate) enum VerifyError {
    /// For whoever wrote the code.
    Problems(Vec<String>),
    Fatal(CallError),
}

pub(crate) async fn verify(
    dispatch: &Dispatch,
    draft: &Draft,
    checked: &Checked,
    cancel: &CancellationToken,
) -> Result<Verified, VerifyError> {
    let mut seen = Verified { repeatable: true, ..Verified::default() };
    let mut problems = Vec::new();
    for example in &draft.capability.examples {
        let first = run(dispatch, draft, &example.args, cancel).await?;
        seen.runs += 1;
        let value = match judge(draft, example, &first) {
            Ok(value) => value,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        if checked.uses.is_empty() {
            let second = run(dispatch, draft, &example.args, cancel).await?;
            seen.runs += 1;
            if second.result.as_ref() != Some(&value) {
                seen.repeatable = false;
                if !draft_varies_by_itself(&draft.code) {
                    problems.push(format!(
                        "two runs with the same arguments {} gave different results: {} and {}",
                        brief(&example.args),
                        brief(&value),
                        brief(&second.result.unwrap_or(Value::Null))
                    ));
                    continue;
                }
            }
        }
        if example.returns.is_some() || example.matches.is_some() {
            seen.answers_matched += 1;
        } else {
            seen.ran += 1;
        }
        seen.held_out += u32::from(example.held_out);
        if let Some(answer) = stated_answer(&checked.literals, &value)
            && (is_long_number(&answer) || !depends_on_arguments(dispatch, draft, example, &value, cancel).await?)
        {
            problems.push(format!("the code states the answer `{answer}` instead of computing it from its arguments"));
        }
        if let Some(text) = copied_argument(&checked.literals, &example.args) {
            problems.push(format!(
                "the code contains the request's own value `{text}`: take it from the arguments, so that the capability is general"
            ));
        }
        if seen.first_result.is_none() {
            seen.first_result = Some(value);
        }
    }
    if problems.is_empty() { Ok(seen) } else { Err(VerifyError::Problems(problems)) }
}

async fn run(
    dispatch: &Dispatch,
    draft: &Draft,
    args: &Value,
    cancel: &CancellationToken,
) -> Result<Execution, VerifyError> {
    match dispatch.run_candidate(&draft.capability, &draft.code, args.clone(), cancel).await {
        Ok(execution) => Ok(execution),
        Err(CallError::RespondToModel(problem)) => Err(VerifyError::Problems(vec![problem])),
        Err(fatal @ CallError::Fatal(_)) => Err(VerifyError::Fatal(fatal)),
    }
}

fn judge(draft: &Draft, example: &Example, execution: &Execution) -> Result<Value, String> {
    let shown = brief(&example.args);
    let hidden =
        if example.held_out { "another example (held out)".to_owned() } else { format!("with arguments {shown}") };
    let value = match (&execution.result, execution.exit) {
        (Some(value), ExitClass::Ok) => value.clone(),
        _ => return Err(format!("{hidden}: {}", failure(execution))),
    };
    if value.is_null() {
        return Err(format!("{hidden} the result is null: return the value asked for"));
    }
    if let Err(problem) = check_value(&draft.capability.returns, &value) {
        return Err(format!("{hidden} the result {} does not fit `returns`: {problem}", brief(&value)));
    }
    if let Some(expected) = &example.returns
        && !same(expected, &value)
    {
        // A held-out answer stays held out: telling it would let the next try state it.
        return Err(if example.held_out {
            format!("{hidden} does not give the expected result")
        } else {
            format!("{hidden} the result is {}, expected {}", brief(&value), brief(expected))
        });
    }
    if let Some(pattern) = &example.matches {
        let text = as_text(&value);
        let fits = regex::Regex::new(pattern).is_ok_and(|r| r.is_match(&text));
        if !fits {
            return Err(format!("{hidden} the result {} does not match the expected form", brief(&value)));
        }
    }
    Ok(value)
}

/// One line on why an execution gave no value.
pub(crate) fn failure(execution: &Execution) -> String {
    match (&execution.error, execution.exit) {
        (Some(error), _) => error.to_string(),
        (None, ExitClass::Timeout) => "it did not end within the time limit".to_owned(),
        (None, ExitClass::Memory) => "it needed more memory than its limit".to_owned(),
        (None, ExitClass::Output) => "its output is larger than the limit".to_owned(),
        (None, exit) => format!("it ended without a result ({exit:?})"),
    }
}

/// Equal as data; numbers to nine digits, a whole number equal to its decimal text (BigInt results).
pub(crate) fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        // Whole numbers are equal or not; only where a fraction is involved is there rounding to forgive.
        (Value::Number(a), Value::Number(b)) if whole(a) && whole(b) => {
            a.to_string() == b.to_string() || a.as_f64() == b.as_f64()
        }
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0),
            _ => a == b,
        },
        (Value::Number(n), Value::String(s)) | (Value::String(s), Value::Number(n)) => n.to_string() == s.trim(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        (a, b) => a == b,
    }
}

fn whole(number: &serde_json::Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn draft_varies_by_itself(code: &str) -> bool {
    ["Math.random", "Date.now", "new Date()", "randomUUID", "getRandomValues", "performance.now"]
        .iter()
        .any(|api| code.contains(api))
}

/// Runs the code on changed arguments; if nothing changes the result, the result does not come from the arguments.
async fn depends_on_arguments(
    dispatch: &Dispatch,
    draft: &Draft,
    example: &Example,
    value: &Value,
    cancel: &CancellationToken,
) -> Result<bool, VerifyError> {
    for args in variations(&example.args) {
        let execution = run(dispatch, draft, &args, cancel).await?;
        if execution.exit == ExitClass::Ok && execution.result.as_ref() != Some(value) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A long text or number of the arguments that the code repeats as a literal.
fn copied_argument(literals: &[String], args: &Value) -> Option<String> {
    let values = args.as_object()?.values();
    for value in values {
        let (text, least) = match value {
            Value::String(text) => (text.trim().to_owned(), 10),
            Value::Number(number) => (number.to_string(), 5),
            _ => continue,
        };
        if text.chars().count() >= least && literals.iter().any(|l| l.trim() == text) {
            return Some(brief_text(&text, 60));
        }
    }
    None
}

pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn brief(value: &Value) -> String {
    brief_text(&value.to_string(), 160)
}

fn brief_text(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_are_compared_as_data() {
        assert!(same(&json!(0.3), &json!(0.1 + 0.2)));
        assert!(same(&json!(18014398509481984u64), &json!("18014398509481984")));
        assert!(same(&json!({"a": [1, 2]}), &json!({"a": [1.0, 2]})));
        assert!(!same(&json!([1, 2]), &json!([2, 1])));
        assert!(!same(&json!(12_000_000_001u64), &json!(12_000_000_006u64)));
        assert!(same(&json!(3), &json!(3.0)));
        assert!(!same(&json!("1"), &json!(true)));
    }
}
