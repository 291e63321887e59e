//! Values between a request's text and a call's arguments.

use serde_json::{Map, Value, json};

/// Names that cannot be a parameter in TypeScript or would shadow what code needs.
const RESERVED: [&str; 24] = [
    "var", "let", "const", "function", "return", "new", "in", "of", "if", "else", "for", "while", "class", "this",
    "default", "switch", "case", "delete", "typeof", "with", "try", "enum", "export", "import",
];

pub(crate) fn safe_name(name: &str) -> String {
    if RESERVED.contains(&name) { format!("{name}Value") } else { name.to_owned() }
}

pub(crate) fn holds_digit(request: &str) -> bool {
    request.chars().any(char::is_numeric)
}

/// Words that name a number, so that a value may rightly be written in digits that the request does not have.
const NUMBER_WORDS: [&str; 44] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty",
    "thirty", "forty", "fifty", "sixty", "hundred", "thousand", "million", "dozen", "half", "double", "twice", "first",
    "second", "third", "fourth", "fifth", "last", "一", "二", "两", "三", "四", "五", "六", "七", "八", "九", "十",
    "百", "千", "万",
];

/// Leaves out inputs whose digits stand nowhere in the request: a small model likes to add the answer, or a date of
/// its own. Where nothing would be left of a request that does hold digits, all stay, since then they were reworded.
pub(crate) fn without_invented(inputs: Map<String, Value>, request: &str) -> Map<String, Value> {
    let lower = request.to_lowercase();
    let worded = NUMBER_WORDS.iter().any(|word| {
        if word.is_ascii() {
            lower.split(|c: char| !c.is_alphanumeric()).any(|w| w == *word)
        } else {
            lower.contains(word)
        }
    });
    if worded {
        return inputs;
    }
    let runs: Vec<String> = digit_runs(request);
    let kept: Map<String, Value> =
        inputs.iter().filter(|(_, value)| stands_in(value, &runs)).map(|(k, v)| (k.clone(), v.clone())).collect();
    if kept.is_empty() && holds_digit(request) { inputs } else { kept }
}

/// Every number of `inputs` stands in the request.
pub(crate) fn grounded(inputs: &Map<String, Value>, request: &str) -> bool {
    let runs = digit_runs(request);
    inputs.values().all(|value| stands_in(value, &runs))
}

/// The first number of `request` that stands in no input. Digits after a letter are part of a name (base64, IPv4).
pub(crate) fn left_out(inputs: &Map<String, Value>, request: &str) -> Option<String> {
    // A comma separates items or thousands; only what is missing both ways is missing.
    missing_number(inputs, &request.replace(',', ""))?;
    missing_number(inputs, &request.replace(',', " "))
}

fn missing_number(inputs: &Map<String, Value>, request: &str) -> Option<String> {
    let held: Vec<String> = inputs.values().flat_map(|value| digit_runs(&value.to_string())).collect();
    let mut before = ' ';
    let mut runs: Vec<String> = Vec::new();
    let mut named = false;
    for c in request.chars() {
        if c.is_ascii_digit() {
            if !before.is_ascii_digit() {
                named = before.is_ascii_alphabetic();
                if !named {
                    runs.push(String::new());
                }
            }
            if let (false, Some(run)) = (named, runs.last_mut()) {
                run.push(c);
            }
        }
        before = c;
    }
    runs.into_iter()
        .map(|run| run.trim_start_matches('0').to_owned())
        .find(|run| !run.is_empty() && !held.contains(run))
}

/// Runs of digits without leading zeros and without separators of thousands.
fn digit_runs(text: &str) -> Vec<String> {
    let plain = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_digit())
            .filter(|run| !run.is_empty())
            .map(|run| run.trim_start_matches('0').to_owned())
            .collect()
    };
    let mut runs = plain(text);
    runs.extend(plain(&text.replace([',', '_', '\u{202f}', '\''], "")));
    runs
}

fn stands_in(value: &Value, runs: &[String]) -> bool {
    match value {
        Value::Number(number) => digit_runs(&number.to_string()).iter().all(|run| run.is_empty() || runs.contains(run)),
        Value::String(text) => digit_runs(text).iter().all(|run| run.is_empty() || runs.contains(run)),
        Value::Array(items) => items.iter().all(|item| stands_in(item, runs)),
        Value::Null | Value::Bool(_) | Value::Object(_) => true,
    }
}

/// One value as written. A whole number of more digits than a 64-bit integer holds stays exact, as text.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        let trimmed = digits.trim_start_matches('0');
        let sign = if text.starts_with('-') { "-" } else { "" };
        let number = format!("{sign}{}", if trimmed.is_empty() { "0" } else { trimmed });
        return Ok(match number.parse::<i64>() {
            Ok(n) => json!(n),
            Err(_) => json!(number),
        });
    }
    serde_json::from_str(text).map_err(|e| format!("`{text}` is no value: {e}"))
}

/// Text that a small model copied with other spaces, quotes or case is replaced by the request's own words.
pub(crate) fn ground(value: Value, request: &str) -> Value {
    match value {
        Value::String(text) => Value::String(exact_words(&text, request).unwrap_or(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| ground(item, request)).collect()),
        other => other,
    }
}

/// Where `text` stands in `request` up to case and white space.
fn exact_words(text: &str, request: &str) -> Option<String> {
    if text.trim().is_empty() || request.contains(text) {
        return None;
    }
    let wanted: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
    let places: Vec<(usize, char)> = request
        .char_indices()
        .filter(|(_, c)| !c.is_whitespace())
        .flat_map(|(at, c)| c.to_lowercase().map(move |l| (at, l)))
        .collect();
    let found = places.windows(wanted.len()).find(|w| w.iter().map(|(_, c)| *c).eq(wanted.iter().copied()))?;
    let (from, last) = (found.first()?.0, found.last()?.0);
    let end = last + request[last..].chars().next()?.len_utf8();
    Some(request[from..end].to_owned())
}

/// Values in the types that a known capability takes, where that loses nothing: `"7"` for 7, 7 for `"7"`.
pub(crate) fn fit(inputs: Map<String, Value>, parameters: &Value) -> Map<String, Value> {
    inputs
        .into_iter()
        .map(|(name, value)| {
            let wanted = parameters["properties"][&name]["type"].as_str().unwrap_or_default();
            let fitted = match (wanted, &value) {
                ("number" | "integer", Value::String(text)) => {
                    parse(text.trim()).ok().filter(Value::is_number).unwrap_or(value)
                }
                ("string", Value::Number(number)) => Value::String(number.to_string()),
                _ => value,
            };
            (name, fitted)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_whole_number_stays_exact() {
        assert_eq!(parse("90"), Ok(json!(90)));
        assert_eq!(parse("-4.5"), Ok(json!(-4.5)));
        assert_eq!(parse("1267650600228229401496703205376"), Ok(json!("1267650600228229401496703205376")));
        assert!(parse("ninety").is_err());
    }

    #[test]
    fn copied_text_becomes_the_requests_own_words() {
        let request = "Reverse:  One Two\nthree";
        assert_eq!(ground(json!("one two three"), request), json!("One Two\nthree"));
        assert_eq!(ground(json!("four"), request), json!("four"));
        assert_eq!(ground(json!(["one"]), request), json!(["One"]));
        assert_eq!(ground(json!("你好"), "把 你 好 倒过来"), json!("你 好"));
    }

    #[test]
    fn values_that_the_model_made_up_are_left_out() {
        let of = |inputs: Value, request: &str| {
            Value::Object(without_invented(inputs.as_object().cloned().unwrap_or_default(), request))
        };
        let request = "greatest common divisor of 1071 and 462";
        assert_eq!(of(json!({"a": 1071, "b": 462, "gcd": 13}), request), json!({"a": 1071, "b": 462}));
        assert_eq!(of(json!({"today": "2023-12-25", "days": 7}), "How long until Christmas?"), json!({}));
        assert_eq!(of(json!({"from": "2024-01-05"}), "2024年1月5日之后"), json!({"from": "2024-01-05"}));
        assert_eq!(of(json!({"n": 1234567, "x": 98.6}), "1,234,567 and 98.6"), json!({"n": 1234567, "x": 98.6}));
        assert_eq!(of(json!({"column": 2}), "add up the second column"), json!({"column": 2}));
        assert_eq!(of(json!({"date": "2023-08-02"}), "8月2日"), json!({"date": "2023-08-02"}));
    }

    #[test]
    fn numbers_that_no_input_holds_are_noticed() {
        let left = |inputs: Value, request: &str| left_out(inputs.as_object().unwrap_or(&Map::new()), request);
        assert_eq!(left(json!({"text": "xyz"}), "shift 'xyz' by 3 places"), Some("3".to_owned()));
        assert_eq!(left(json!({"text": "xyz", "by": 3}), "shift 'xyz' by 3 places"), None);
        assert_eq!(left(json!({"text": "hi"}), "base64 of hi"), None);
        assert_eq!(left(json!({"list": [5, 17]}), "sort 5,17"), None);
        assert_eq!(left(json!({"d": "2024-02-01"}), "2024年2月1日"), None);
        assert_eq!(left(json!({"n": 1234567}), "is 1,234,567 prime"), None);
    }
}
