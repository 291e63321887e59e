//! A conversation in pieces that must not be taken apart: a reply with tool calls and all results that answer it.

use jarvis_model::estimate_message;
use jarvis_protocol::{Message, Role};
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub range: Range<usize>,
    pub tokens: u64,
    /// It is a person's message, with which a turn begins.
    pub begins_turn: bool,
}

/// All of `history`, in order. Results whose call is missing (a history that somebody edited) go with what is before.
pub(super) fn blocks(history: &[Message]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, message) in history.iter().enumerate() {
        let tokens = estimate_message(message);
        match (message.role, blocks.last_mut()) {
            (Role::Tool, Some(block)) => {
                block.range.end = index + 1;
                block.tokens += tokens;
            }
            _ => blocks.push(Block { range: index..index + 1, tokens, begins_turn: message.role == Role::User }),
        }
    }
    blocks
}
