//! One written function and what running it showed.

use super::Plan;
use crate::{Forge, check::check, literal::stated_answer, verify::sources};
use jarvis_dispatch::{Approved, CallError};
use jarvis_protocol::ExitClass;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub code: String,
    /// Why it cannot be used.
    pub problem: Option<String>,
    /// Results on the request's arguments and on each variation; `None` where it threw.
    pub results: Vec<Option<Value>>,
    /// How often this very code was written.
    pub votes: usize,
    /// Something odd that is no fault by itself: an empty result, the input given back.
    pub doubts: usize,
}

impl Candidate {
    /// The result on the request's own arguments; null where there is a problem.
    pub fn value(&self) -> &Value {
        self.results.first().and_then(Option::as_ref).unwrap_or(&Value::Null)
    }
}

pub(crate) async fn try_candidate(
    forge: &Forge,
    plan: &Plan,
    request: &str,
    code: String,
    cancel: &CancellationToken,
) -> Result<Candidate, CallError> {
    let draft = plan.draft(request, "", code.clone());
    let mut candidate = Candidate { code, problem: None, results: Vec::new(), votes: 1, doubts: 0 };
    let checked = match check(forge.dispatch(), &draft).await? {
        Ok(checked) => checked,
        Err(problems) => {
            candidate.problem = Some(problems.join("; "));
            return Ok(candidate);
        }
    };
    let (dispatch, nothing) = (forge.dispatch(), Approved::nothing());
    let (now, _) = sources(dispatch);
    let run = |args| dispatch.run_candidate(&draft.capability, &draft.code, args, Some(now), &nothing, cancel);
    let execution = run(plan.args()).await?;
    match (&execution.result, execution.exit) {
        (Some(Value::Null), _) | (None, ExitClass::Ok) => {
            candidate.problem = Some("it returned null: return the value asked for".to_owned());
            return Ok(candidate);
        }
        (Some(value), ExitClass::Ok) => {
            candidate.doubts = doubts(value, plan);
            candidate.results.push(Some(value.clone()));
        }
        _ => {
            candidate.problem = Some(execution.failure());
            return Ok(candidate);
        }
    }
    for args in plan.held_out() {
        let execution = run(args).await?;
        candidate.results.push(execution.result.filter(|_| execution.exit == ExitClass::Ok));
    }
    let first = candidate.results[0].clone();
    let constant = candidate.results.len() > 1 && candidate.results.iter().all(|r| *r == first);
    if let Some(answer) = first.as_ref().and_then(|value| stated_answer(&checked.literals, value))
        && constant
    {
        candidate.problem = Some(format!("the code states the answer `{answer}` instead of computing it"));
    }
    if candidate.results.len() > 1 && candidate.results[1..].iter().all(Option::is_none) {
        candidate.doubts += 1;
    }
    Ok(candidate)
}

fn doubts(value: &Value, plan: &Plan) -> usize {
    let empty = match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let unfinished = matches!(value, Value::String(text) if ["NaN", "undefined", "[object Object]", "Invalid Date"].iter().any(|bad| text.contains(bad)));
    let echoed =
        matches!(value, Value::String(_) | Value::Array(_)) && plan.inputs.values().any(|input| input == value);
    usize::from(empty) + 2 * usize::from(unfinished) + usize::from(echoed)
}

/// At least two written functions gave the same results, with nothing odd about them.
pub(crate) fn agree(candidates: &[Candidate]) -> bool {
    usable(candidates).any(|c| c.doubts == 0 && support(candidates, c) >= 2)
}

/// The one whose results most others share; doubts count against it, the first written wins a tie.
pub(crate) fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    usable(candidates).reduce(|best, next| {
        let rank = |c: &Candidate| (std::cmp::Reverse(c.doubts), support(candidates, c));
        if rank(next) > rank(best) { next } else { best }
    })
}

fn usable(candidates: &[Candidate]) -> impl Iterator<Item = &Candidate> {
    candidates.iter().filter(|c| c.problem.is_none())
}

fn support(candidates: &[Candidate], of: &Candidate) -> usize {
    usable(candidates).filter(|c| c.results == of.results).map(|c| c.votes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn candidate(code: &str, result: Value, doubts: usize) -> Candidate {
        Candidate { code: code.to_owned(), problem: None, results: vec![Some(result)], votes: 1, doubts }
    }

    #[test]
    fn the_result_that_most_candidates_share_wins() {
        let list = [candidate("a", json!(1), 0), candidate("b", json!(2), 0), candidate("c", json!(2), 0)];
        assert!(agree(&list));
        assert_eq!(best(&list).map(|c| c.code.as_str()), Some("b"));
    }

    #[test]
    fn without_agreement_the_first_written_one_without_doubts_wins() {
        let list = [candidate("a", json!(""), 1), candidate("b", json!("x"), 0), candidate("c", json!("y"), 0)];
        assert!(!agree(&list));
        assert_eq!(best(&list).map(|c| c.code.as_str()), Some("b"));
    }
}
