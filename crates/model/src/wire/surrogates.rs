//! Halves of UTF-16 pairs in JSON escapes. Servers that cut a text into pieces by UTF-16 units send `"\ud83d"` in one
//! event and `"\ude00"` in the next; no JSON parser takes either, and the rest of the answer is fine.

use std::borrow::Cow;

/// The same JSON with every half that stands alone as U+FFFD.
pub(super) fn mend(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = json.as_bytes();
    while let Some(step) = bytes[at..].iter().position(|b| *b == b'\\') {
        at += step;
        at += match (unit(bytes, at), unit(bytes, at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                out.push_str(&json[copied..at]);
                out.push_str("\\ufffd");
                copied = at + 6;
                6
            }
            // Any other escape; its second byte may be a backslash that begins none.
            _ => 2.min(bytes.len() - at),
        };
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// The UTF-16 unit that `\uXXXX` at this place stands for.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::mend;

    #[test]
    fn halves_are_replaced_and_pairs_stay() {
        for (json, mended) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#""\ude00 ok \uD83D""#, r#""\ufffd ok \ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\ude00 \u4f60""#, r#""\ud83d\ude00 \u4f60""#),
            // Inside a string of JSON the backslash is itself escaped.
            (r#""{\"a\":\"\\ud83d""#, r#""{\"a\":\"\\ud83d""#),
            ("你好 \\", "你好 \\"),
            ("\\u12", "\\u12"),
            ("\\u你好", "\\u你好"),
        ] {
            assert_eq!(mend(json), mended);
        }
    }
}
