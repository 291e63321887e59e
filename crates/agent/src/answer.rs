//! How a tool's result becomes an answer: exactly, never retyped by a model.

use jarvis_protocol::value_text;
use serde_json::Value;

/// The result as a person reads it. Text as it is, numbers to the last digit, the rest as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Bool(true) => "Yes (true)".to_owned(),
        Value::Bool(false) => "No (false)".to_owned(),
        Value::Array(items) if items.iter().all(is_scalar) && !items.is_empty() => {
            items.iter().map(value_text).collect::<Vec<_>>().join(", ")
        }
        Value::Array(_) | Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
        Value::Null | Value::Number(_) | Value::String(_) => value_text(value),
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// Digits from which on a model's own typing is not trusted.
const LONG_NUMBER: usize = 10;

/// Long numbers of `results` that `answer` does not hold digit for digit: what has to be added to it.
pub(crate) fn missing_exact(answer: &str, results: &[(String, Value)]) -> Option<String> {
    let digits_of =
        |text: &str| text.chars().filter(|c| !matches!(c, ',' | '_' | ' ' | '\u{202f}' | '\'')).collect::<String>();
    let said = digits_of(answer);
    let missing: Vec<String> = results
        .iter()
        .filter_map(|(name, value)| {
            let text = match value {
                Value::Number(n) => n.to_string(),
                Value::String(s) => s.trim().to_owned(),
                _ => return None,
            };
            let numeric =
                text.len() >= LONG_NUMBER && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
            (numeric && !said.contains(&text)).then(|| format!("{name}: {text}"))
        })
        .collect();
    (!missing.is_empty()).then(|| format!("Exact result of {}", missing.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_are_shown_to_the_last_digit() {
        assert_eq!(plain(&json!("1267650600228229401496703205376")), "1267650600228229401496703205376");
        assert_eq!(plain(&json!([99, 43, 17])), "99, 43, 17");
        assert_eq!(plain(&json!(true)), "Yes (true)");
    }

    #[test]
    fn a_number_that_the_model_retyped_wrongly_is_added_exactly() {
        let results = vec![("power".to_owned(), json!("1267650600228229401496703205376"))];
        let wrong = missing_exact("It is 1267650600228229401496703205367.", &results);
        assert!(wrong.unwrap().contains("1267650600228229401496703205376"));
        assert!(missing_exact("It is 1,267,650,600,228,229,401,496,703,205,376.", &results).is_none());
        assert!(missing_exact("It is 12.", &[("f".to_owned(), json!(12))]).is_none());
    }
}
