//! Other arguments of the same shape: they show whether code depends on what it is given, and whether it stands a
//! value that nobody wrote it for.

use serde_json::{Map, Value};

/// Up to four argument objects, each with one value changed, and one with all changed.
pub(crate) fn variations(args: &Value) -> Vec<Value> {
    let Some(given) = args.as_object() else { return Vec::new() };
    let mut list: Vec<Value> = given
        .iter()
        .filter_map(|(name, value)| {
            let mut changed = given.clone();
            changed.insert(name.clone(), vary(value)?);
            Some(Value::Object(changed))
        })
        .take(3)
        .collect();
    let all: Map<String, Value> =
        given.iter().map(|(name, value)| (name.clone(), vary(value).unwrap_or_else(|| value.clone()))).collect();
    let all = Value::Object(all);
    if all != *args && !list.contains(&all) {
        list.push(all);
    }
    list
}

fn vary(value: &Value) -> Option<Value> {
    match value {
        Value::Number(n) => n
            .as_i64()
            .map(|n| Value::from(if n > 3 { n / 2 + 1 } else { n + 3 }))
            .or_else(|| n.as_f64().map(|n| Value::from(n / 2.0 + 1.5))),
        Value::String(text) => Some(Value::String(vary_text(text))),
        Value::Bool(b) => Some(Value::Bool(!b)),
        Value::Array(items) if items.len() > 1 => Some(Value::Array(items[..items.len() - 1].to_vec())),
        Value::Array(_) | Value::Object(_) | Value::Null => None,
    }
}

/// Text keeps its form: a digit stays a digit (dates, addresses), words lose one, a single word is cut.
fn vary_text(text: &str) -> String {
    if text.chars().any(|c| c.is_ascii_digit()) {
        return vary_last_digit(text);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() > 1 {
        return words[..words.len() - 1].join(" ");
    }
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > 1 { chars[..chars.len() - 1].iter().collect() } else { format!("{text}{text}") }
}

/// `2000-01-01` becomes `2000-01-02`: the last digit moves, which keeps dates valid.
fn vary_last_digit(text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if let Some(position) = chars.iter().rposition(char::is_ascii_digit) {
        let digit = chars[position].to_digit(10).unwrap_or(0);
        let next = if digit < 8 { digit + 1 } else { digit - 1 };
        chars[position] = char::from_digit(next, 10).unwrap_or('1');
    }
    chars.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::variations;
    use serde_json::json;

    #[test]
    fn variations_keep_the_shape_and_change_the_value() {
        assert_eq!(variations(&json!({"n": 90})), vec![json!({"n": 46})]);
        assert_eq!(variations(&json!({"date": "2000-01-01"})), vec![json!({"date": "2000-01-02"})]);
        assert_eq!(variations(&json!({"text": "one two three"})), vec![json!({"text": "one two"})]);
        assert_eq!(variations(&json!({"text": "你好吗"})), vec![json!({"text": "你好"})]);
        assert_eq!(variations(&json!({"a": 1, "b": 2})).len(), 3);
        assert!(variations(&json!({})).is_empty());
    }
}
