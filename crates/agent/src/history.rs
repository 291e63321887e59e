//! What part of the conversation a model is sent. Whole turns are dropped, oldest first, so a tool call never loses
//! its result.

use jarvis_model::{ModelHandle, estimate_message};
use jarvis_protocol::{Message, Role};

/// Tokens of conversation that leave `kept` free for the reply and what else is sent.
pub(crate) fn budget(model: &ModelHandle, kept: u32) -> u64 {
    (model.traits().context_tokens as u64).saturating_sub(u64::from(kept))
}

/// The latest turns that fit into `budget` tokens. The last turn is always sent whole.
pub(crate) fn window(history: &[Message], budget: u64) -> Vec<Message> {
    let starts: Vec<usize> =
        history.iter().enumerate().filter(|(_, m)| m.role == Role::User).map(|(index, _)| index).collect();
    let mut from = starts.last().copied().unwrap_or(0);
    let mut used: u64 = history[from..].iter().map(estimate_message).sum();
    for start in starts.iter().rev().skip(1) {
        let more: u64 = history[*start..from].iter().map(estimate_message).sum();
        if used + more > budget {
            break;
        }
        used += more;
        from = *start;
    }
    let dropped = from;
    tracing::debug!(
        history_in = history.len(),
        history_out = history.len() - dropped,
        dropped,
        tokens_estimate = used,
        budget_available = budget
    );
    history[from..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_turns_are_dropped_whole_and_the_last_one_stays() {
        let mut history = Vec::new();
        for turn in 0..20 {
            history.push(Message::user(format!("question {turn} {}", "词".repeat(100))));
            history.push(Message::assistant("answer ".repeat(40)));
        }
        let sent = window(&history, 600);
        assert!(sent.len() < history.len() && sent.len().is_multiple_of(2));
        assert_eq!(sent[0].role, Role::User);
        assert_eq!(sent.last(), history.last());
        assert_eq!(window(&history, 0).len(), 2);
    }
}
