//! Tokens of a request and its answer where the provider does not count them.

use crate::{Completion, Request};
use jarvis_protocol::{Message, ToolCall, Usage};

/// About four ASCII characters a token, and one token for any other character (Chinese is nearer to 0.7, so this errs
/// on the side of more).
pub fn estimate_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let other = text.chars().filter(|c| !c.is_ascii()).count();
    (ascii.div_ceil(4) + other) as u64
}

use estimate_tokens as tokens;

/// Of one message with its calls. Providers frame each with a role and separators.
pub fn estimate_message(message: &Message) -> u64 {
    tokens(&message.text) + calls(&message.tool_calls) + FRAME
}

const FRAME: u64 = 4;

fn calls(list: &[ToolCall]) -> u64 {
    list.iter().map(|c| tokens(&c.name) + tokens(&c.args.to_string()) + FRAME).sum()
}

pub(crate) fn usage(request: &Request, completion: &Completion) -> Usage {
    let messages: u64 = request.told().iter().map(estimate_message).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|t| tokens(&t.name) + tokens(&t.description) + tokens(&t.parameters.to_string()) + FRAME)
        .sum();
    let malformed: u64 = completion.malformed_calls.iter().map(|c| tokens(&c.name) + tokens(&c.arguments)).sum();
    let output = tokens(&completion.text)
        + completion.reasoning.as_deref().map_or(0, tokens)
        + completion.alternatives.iter().map(|a| tokens(a)).sum::<u64>()
        + calls(&completion.tool_calls)
        + malformed;
    Usage { input_tokens: messages + tools, output_tokens: output, cached_tokens: 0, cost_usd: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::estimate_tokens as tokens;

    #[test]
    fn counts_english_and_chinese() {
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens("four words of text.."), 5);
        assert_eq!(tokens("你好世界"), 4);
    }
}
