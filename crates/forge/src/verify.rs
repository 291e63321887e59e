//! Verified: the draft runs in the real sandbox on every example. What is recorded are counts, never "correct".

use crate::literal::{is_long_number, stated_answer};
use crate::{Draft, probe::variations};
use jarvis_dispatch::{Approved, CallError, Checked, Dispatch, check_value};
use jarvis_protocol::{Capability, ErrorBody, Example, Execution, ExitClass, Fixed, value_text};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
    /// Variations of the first example's arguments, made by jarvis, and how many of them ran. That one does not is no
    /// fault, since it may be no valid argument.
    pub other_arguments: u32,
    pub other_arguments_ran: u32,
    /// Whether a result changed under another clock and other chance; none where that was not tried, because the code
    /// reaches outside.
    pub varies: Option<bool>,
    /// Result of the first example, which is the request's own where there is one.
    pub first_result: Option<Value>,
}

impl Verified {
    /// For the audit: without the result.
    pub(crate) fn counts(&self) -> Value {
        json!({
            "runs": self.runs, "answers_matched": self.answers_matched, "ran": self.ran, "held_out": self.held_out,
            "other_arguments": self.other_arguments, "other_arguments_ran": self.other_arguments_ran,
            "varies": self.varies,
        })
    }
}

pub(crate) enum VerifyError {
    /// For whoever wrote the code.
    Problems(Vec<String>),
    Fatal(ErrorBody),
}

/// Clock and chance of a first run, and of one in which everything but the arguments is different.
pub(crate) fn sources(dispatch: &Dispatch) -> (Fixed, Fixed) {
    const LATER_MS: i64 = 400 * 86_400_000 + 12_345;
    let now_ms = dispatch.now().as_millisecond();
    (Fixed { random_seed: 1, now_ms }, Fixed { random_seed: 2, now_ms: now_ms + LATER_MS })
}

pub(crate) async fn verify(
    dispatch: &Dispatch,
    draft: &Draft,
    checked: &Checked,
    approved: &Approved,
    cancel: &CancellationToken,
) -> Result<Verified, VerifyError> {
    let (now, later) = sources(dispatch);
    let runner = Runner { dispatch, draft, approved, cancel, now };
    let pure =
        crate::calls::is_pure(dispatch, draft, checked).map_err(|error| VerifyError::Fatal(error.body().clone()))?;
    let mut seen = Verified::default();
    let mut problems = Vec::new();
    for example in &draft.capability.examples {
        let execution = runner.run(&example.args, now, &mut seen).await?;
        let value = match judge(&draft.capability, example, &execution) {
            Ok(value) => value,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        if pure {
            let other = runner.run(&example.args, later, &mut seen).await?;
            let varies = other.result.as_ref() != Some(&value);
            seen.varies = Some(seen.varies.unwrap_or(false) || varies);
        }
        if example.returns.is_some() || example.matches.is_some() {
            seen.answers_matched += 1;
        } else {
            seen.ran += 1;
        }
        seen.held_out += u32::from(example.held_out);
        problems.extend(runner.shortcut(example, &value, checked, &mut seen).await?);
        seen.first_result.get_or_insert(value);
    }
    // What reaches outside is not run on arguments that nobody wrote.
    if let (Some(example), true, true) = (draft.capability.examples.first(), pure, problems.is_empty()) {
        for args in variations(&example.args) {
            let execution = runner.run(&args, now, &mut seen).await?;
            seen.other_arguments += 1;
            seen.other_arguments_ran += u32::from(execution.exit == ExitClass::Ok);
        }
    }
    if problems.is_empty() { Ok(seen) } else { Err(VerifyError::Problems(problems)) }
}

struct Runner<'a> {
    dispatch: &'a Dispatch,
    draft: &'a Draft,
    approved: &'a Approved,
    cancel: &'a CancellationToken,
    now: Fixed,
}

impl Runner<'_> {
    async fn run(&self, args: &Value, fixed: Fixed, seen: &mut Verified) -> Result<Execution, VerifyError> {
        seen.runs += 1;
        let Draft { capability, code, .. } = self.draft;
        let run = self.dispatch.run_candidate(capability, code, args.clone(), Some(fixed), self.approved, self.cancel);
        run.await.map_err(|error| match error {
            CallError::RespondToModel(body) => VerifyError::Problems(vec![body.message]),
            CallError::Fatal(body) => VerifyError::Fatal(body),
        })
    }

    /// Code that has the request's value, or the answer, written into it.
    async fn shortcut(
        &self,
        example: &Example,
        value: &Value,
        checked: &Checked,
        seen: &mut Verified,
    ) -> Result<Option<String>, VerifyError> {
        if let Some(text) = copied_argument(&checked.literals, &example.args) {
            return Ok(Some(format!(
                "the code contains the request's own value `{text}`: take it from the arguments, so that the capability is general"
            )));
        }
        let Some(answer) = stated_answer(&checked.literals, value) else { return Ok(None) };
        if !is_long_number(&answer) && self.depends_on_arguments(example, value, seen).await? {
            return Ok(None);
        }
        Ok(Some(format!("the code states the answer `{answer}` instead of computing it from its arguments")))
    }

    /// Runs the code on changed arguments; if nothing changes the result, it does not come from the arguments.
    async fn depends_on_arguments(
        &self,
        example: &Example,
        value: &Value,
        seen: &mut Verified,
    ) -> Result<bool, VerifyError> {
        for args in variations(&example.args) {
            let execution = self.run(&args, self.now, seen).await?;
            if execution.exit == ExitClass::Ok && execution.result.as_ref() != Some(value) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(crate) fn judge(capability: &Capability, example: &Example, execution: &Execution) -> Result<Value, String> {
    let shown = brief(&example.args);
    let hidden =
        if example.held_out { "another example (held out)".to_owned() } else { format!("with arguments {shown}") };
    let value = match (&execution.result, execution.exit) {
        (Some(value), ExitClass::Ok) => value.clone(),
        _ => return Err(format!("{hidden}: {}", execution.failure())),
    };
    if value.is_null() {
        return Err(format!("{hidden} the result is null: return the value asked for"));
    }
    if let Err(problem) = check_value(&capability.returns, &value) {
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
        let text = value_text(&value);
        let fits = regex::Regex::new(pattern).is_ok_and(|r| r.is_match(&text));
        if !fits {
            return Err(format!("{hidden} the result {} does not match the expected form", brief(&value)));
        }
    }
    Ok(value)
}

/// Equal as data; numbers to nine digits, a whole number equal to its decimal text (BigInt results).
pub(crate) fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        // Whole numbers are equal or not; only where a fraction is involved is there rounding to forgive.
        (Value::Number(a), Value::Number(b)) if whole(a) && whole(b) => match a.is_f64() || b.is_f64() {
            true => a.as_f64() == b.as_f64(),
            false => a == b,
        },
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
        assert!(!same(&json!(9_007_199_254_740_993u64), &json!(9_007_199_254_740_992u64)));
        assert!(!same(&json!("1"), &json!(true)));
    }
}
