//! Makes a history valid that ended in the middle: providers refuse a call without its result and a result without
//! its call.

use jarvis_protocol::{Message, Role};
use std::collections::HashMap;

/// What a model reads in place of a result that never came.
const INTERRUPTED: &str = "interrupted: the process ended before this call returned. It may have taken effect or not; \
    check before repeating it.";

/// Puts a result that says `interrupted` where one is missing, and leaves out results that answer no call. Gives the
/// number of results put in. The results of a reply come right after it, in the order of its calls.
pub fn mend(messages: Vec<Message>) -> (Vec<Message>, usize) {
    let (mended, interrupted) = plan(&messages);
    let mut from: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
    let out = mended
        .into_iter()
        .filter_map(|step| match step {
            Step::Keep(at) => from[at].take(),
            Step::Interrupted { call, .. } => Some(result(&call)),
        })
        .collect();
    (out, interrupted)
}

pub(super) fn result(call: &str) -> Message {
    Message::tool(call, INTERRUPTED, true)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Keep(usize),
    /// A result for this call of the message `of`.
    Interrupted {
        call: String,
        of: usize,
    },
}

pub(super) fn plan(messages: &[Message]) -> (Vec<Step>, usize) {
    let mut out = Vec::with_capacity(messages.len());
    let mut interrupted = 0;
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        if message.role == Role::Tool {
            // No call is open here, so it answers none.
            at += 1;
            continue;
        }
        out.push(Step::Keep(at));
        let of = at;
        at += 1;
        let calls = if message.role == Role::Assistant { message.tool_calls.as_slice() } else { &[] };
        if calls.is_empty() {
            continue;
        }
        // Some providers give the ids of one reply again in the next: only what follows directly answers this one.
        let mut results: HashMap<&str, Vec<usize>> = HashMap::new();
        while at < messages.len() && messages[at].role == Role::Tool {
            if let Some(id) = &messages[at].tool_call_id {
                results.entry(id).or_default().push(at);
            }
            at += 1;
        }
        for call in calls {
            let found = results.get_mut(call.id.as_str()).filter(|r| !r.is_empty()).map(|r| r.remove(0));
            out.push(found.map_or_else(
                || {
                    interrupted += 1;
                    Step::Interrupted { call: call.id.clone(), of }
                },
                Step::Keep,
            ));
        }
    }
    (out, interrupted)
}

/// The longest part of the history, of at most `at` messages, that cuts no call from its result.
pub(super) fn whole(messages: &[Message], at: usize) -> usize {
    let mut at = at.min(messages.len());
    while at > 0 && at < messages.len() && messages[at].role == Role::Tool {
        at -= 1;
    }
    // Now before the first result: before the calls, too, unless nothing was cut.
    let calls = at > 0 && !messages[at - 1].tool_calls.is_empty();
    if calls && at < messages.len() { at - 1 } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::ToolCall;
    use proptest::prelude::*;
    use serde_json::json;

    fn calls(ids: &[&str]) -> Message {
        let tool_calls =
            ids.iter().map(|id| ToolCall { id: (*id).to_owned(), name: "t".to_owned(), args: json!({}) }).collect();
        Message { tool_calls, ..Message::assistant("") }
    }

    fn valid(messages: &[Message]) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for message in messages {
            if message.role == Role::Tool {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let Some(at) = open.iter().position(|o| *o == id) else { return false };
                open.remove(at);
            } else {
                if !open.is_empty() {
                    return false;
                }
                open = message.tool_calls.iter().map(|c| c.id.as_str()).collect();
            }
        }
        open.is_empty()
    }

    #[test]
    fn a_call_without_result_is_answered_and_a_result_without_call_left_out() {
        let history = vec![
            Message::tool("gone", "?", false),
            Message::user("q"),
            calls(&["a", "b"]),
            Message::tool("b", "done", false),
            Message::user("again"),
            calls(&["a"]),
        ];
        let (mended, interrupted) = mend(history);
        assert_eq!(interrupted, 2);
        assert!(valid(&mended), "{mended:#?}");
        assert_eq!(mended[2].tool_call_id.as_deref(), Some("a"));
        assert!(mended[2].is_error && mended[2].text.starts_with("interrupted"));
        assert_eq!(mended[3].text, "done");
    }

    #[test]
    fn a_cut_goes_before_the_calls_it_would_part_from_their_results() {
        let history = [
            Message::user("q"),
            calls(&["a", "b"]),
            Message::tool("a", "", false),
            Message::tool("b", "", false),
            Message::assistant("x"),
        ];
        let cuts: Vec<usize> = (0..=6).map(|at| whole(&history, at)).collect();
        assert_eq!(cuts, [0, 1, 1, 1, 4, 5, 5]);
    }

    proptest! {
        #[test]
        fn any_history_becomes_valid_and_a_valid_one_stays_as_it_is(kinds in prop::collection::vec((0..4usize, 0..3usize, 0..3usize), 0..30)) {
            let ids = ["a", "b", "c"];
            let history: Vec<Message> = kinds.iter().map(|(kind, from, to)| match kind {
                0 => Message::user("u"),
                1 => calls(&ids[*from.min(to)..*to]),
                2 => Message::assistant("t"),
                _ => Message::tool(ids[*from], "r", false),
            }).collect();
            let (mended, _) = mend(history.clone());
            prop_assert!(valid(&mended));
            let (again, interrupted) = mend(mended.clone());
            prop_assert_eq!(interrupted, 0);
            prop_assert_eq!(&again, &mended);
            if valid(&history) {
                // Only the order of the results of one reply may differ.
                prop_assert_eq!(history.len(), mended.len());
            }
            for at in 0..=mended.len() {
                prop_assert!(valid(&mended[..whole(&mended, at)]));
            }
        }
    }
}
