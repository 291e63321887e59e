//! Making one text smaller: its beginning and its end stay, a note says what is missing.

use jarvis_model::{estimate_message, estimate_tokens};
use jarvis_protocol::Message;
use serde_json::Value;

/// `text` in at most about `most` tokens. The cut is between characters.
pub(super) fn middle(text: &str, most: u64) -> String {
    if estimate_tokens(text) <= most {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    // The largest number of kept characters that fits; no text has fewer tokens than one for eight of them.
    let (mut low, mut high) = (0, chars.len().min(usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(8)));
    while low < high {
        let kept = (low + high).div_ceil(2);
        if estimate_tokens(&without_middle(&chars, kept)) <= most { low = kept } else { high = kept - 1 }
    }
    without_middle(&chars, low)
}

/// Two thirds of what is kept are from the beginning: there it says what it is.
fn without_middle(chars: &[char], kept: usize) -> String {
    let head = (kept.div_ceil(3) * 2).min(kept);
    let mut text: String = chars[..head].iter().collect();
    text.push_str(&format!("\n[… {} characters are left out here …]\n", chars.len() - kept));
    text.extend(&chars[chars.len() - (kept - head)..]);
    text
}

/// A message in at most about `most` tokens. Only its text and the long texts in its calls' arguments give way; calls,
/// ids and roles stay, so the history stays valid.
pub(super) fn message(message: &Message, most: u64) -> Message {
    let mut smaller = message.clone();
    if estimate_message(&smaller) <= most {
        return smaller;
    }
    let around = estimate_message(&Message { text: String::new(), ..smaller.clone() });
    smaller.text = middle(&smaller.text, most.saturating_sub(around));
    let mut share = most / 2;
    while estimate_message(&smaller) > most && share > 0 {
        for call in &mut smaller.tool_calls {
            shorten(&mut call.args, share / 2);
        }
        share /= 2;
    }
    smaller
}

fn shorten(value: &mut Value, most: u64) {
    match value {
        Value::String(text) => *text = middle(text, most),
        Value::Array(list) => {
            // A list of many small values is long too.
            while list.len() > 1 && estimate_tokens(&Value::Array(list.clone()).to_string()) > most {
                list.truncate(list.len() / 2);
            }
            list.iter_mut().for_each(|value| shorten(value, most));
        }
        Value::Object(map) => map.values_mut().for_each(|value| shorten(value, most)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::ToolCall;
    use serde_json::json;

    #[test]
    fn beginning_and_end_stay_and_the_size_holds() {
        for text in ["a word and ".repeat(5000), "中文内容，".repeat(4000), "é".repeat(9000)] {
            let text = format!("BEGIN{text}END");
            for most in [60, 200, 3000] {
                let cut = middle(&text, most);
                assert!(estimate_tokens(&cut) <= most, "{} > {most}", estimate_tokens(&cut));
                assert!(cut.starts_with("BEGIN") && cut.ends_with("END") && cut.contains("left out"), "{cut}");
            }
            assert_eq!(middle(&text, 1_000_000), text);
        }
        assert_eq!(middle("", 0), "");
    }

    #[test]
    fn a_call_keeps_its_name_and_id_while_its_arguments_give_way() {
        let mut long = Message::assistant("writing");
        let args = json!({"path": "a.txt", "content": "x".repeat(100_000), "list": vec!["词"; 20_000]});
        long.tool_calls = vec![ToolCall { id: "c1".into(), name: "file_write".into(), args }];
        let small = message(&long, 500);
        assert!(estimate_message(&small) <= 500, "{}", estimate_message(&small));
        assert_eq!((small.tool_calls[0].id.as_str(), small.tool_calls[0].args["path"].as_str()), ("c1", Some("a.txt")));
        assert!(small.tool_calls[0].args.is_object());
    }
}
