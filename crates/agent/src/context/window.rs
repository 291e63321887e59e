//! The last part of a conversation that fits.

use super::blocks::{Block, blocks};
use super::cut;
use jarvis_protocol::{Message, Role};

pub(super) struct Chosen {
    pub messages: Vec<Message>,
    /// Messages of the history among them.
    pub kept: usize,
    /// Messages that are neither among them nor covered by the summary.
    pub dropped: usize,
}

/// The task (the last message of a person) and what was said last always stay; of the rest as much as fits, whole turns
/// of earlier questions and whole rounds of this one. The first `covered` messages are told by the summary.
pub(super) fn choose(history: &[Message], covered: usize, budget: u64) -> Chosen {
    let all = blocks(history);
    let Some(last) = all.len().checked_sub(1) else {
        return Chosen { messages: Vec::new(), kept: 0, dropped: 0 };
    };
    let task = all.iter().rposition(|b| b.begins_turn).unwrap_or(0);
    let mut used = all[task].tokens + if last == task { 0 } else { all[last].tokens };
    if used > budget {
        return squeezed(history, &all, task, last, covered, budget);
    }
    let open = |block: &Block| block.range.start >= covered;
    // Backwards through this turn's rounds.
    let mut from = last;
    while from > task + 1 && open(&all[from - 1]) && used + all[from - 1].tokens <= budget {
        from -= 1;
        used += all[from].tokens;
    }
    let mut first = task;
    if from <= task + 1 {
        // This turn is whole: earlier turns, each from its question on.
        let mut reach = task;
        while reach > 0 && open(&all[reach - 1]) && used + all[reach - 1].tokens <= budget {
            reach -= 1;
            used += all[reach].tokens;
            if all[reach].begins_turn {
                first = reach;
            }
        }
    }
    let mut positions: Vec<usize> = (first..=task).collect();
    positions.extend(from.max(task + 1)..=last);
    let messages: Vec<Message> = positions.iter().flat_map(|i| history[all[*i].range.clone()].to_vec()).collect();
    let told = positions.iter().filter(|i| open(&all[**i])).map(|i| all[*i].range.len()).sum::<usize>();
    let kept = messages.len();
    Chosen { messages: valid(messages), kept, dropped: history.len() - covered.min(history.len()) - told }
}

/// Not even the task and the last round fit: their largest messages are cut in the middle.
fn squeezed(history: &[Message], all: &[Block], task: usize, last: usize, covered: usize, budget: u64) -> Chosen {
    let mut messages: Vec<Message> = history[all[task].range.clone()].to_vec();
    if last != task {
        messages.extend(history[all[last].range.clone()].iter().cloned());
    }
    let kept = messages.len();
    // Small messages stay whole; the large ones share what is left.
    let mut sizes: Vec<u64> = messages.iter().map(jarvis_model::estimate_message).collect();
    sizes.sort_unstable();
    let (mut left, mut share) = (budget, 0);
    for (index, size) in sizes.iter().enumerate() {
        share = left / (sizes.len() - index) as u64;
        if *size > share {
            break;
        }
        left -= size;
    }
    let messages = messages.iter().map(|m| cut::message(m, share)).collect();
    let uncovered = history.len() - covered.min(history.len());
    Chosen { messages: valid(messages), kept, dropped: uncovered.saturating_sub(kept) }
}

/// What a wire accepts: every result behind its call, every call with a result.
fn valid(mut messages: Vec<Message>) -> Vec<Message> {
    let mut open: Vec<String> = Vec::new();
    messages.retain(|message| match message.role {
        Role::Assistant => {
            open = message.tool_calls.iter().map(|call| call.id.clone()).collect();
            true
        }
        Role::Tool => {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            let known = open.iter().position(|o| o == id);
            known.map(|i| open.remove(i)).is_some()
        }
        Role::User | Role::System => true,
    });
    messages
}
