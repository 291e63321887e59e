//! The literal-answer check: code that merely states the answer of its example is no capability.

use serde_json::Value;

/// How many literals of its kind make a table (weekday names, roman digits), in which an answer may well stand.
const TABLE: usize = 5;
/// Shorter texts (`3`, `no`) occur in honest code all the time.
const TELLING_CHARS: usize = 4;

/// The answer as it would stand in code, if `literals` holds it outside a table.
pub(crate) fn stated_answer(literals: &[String], result: &Value) -> Option<String> {
    let answer = match result {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(_) | Value::Object(_) => result.to_string(),
        Value::Null | Value::Bool(_) => return None,
    };
    if answer.chars().count() < TELLING_CHARS {
        return None;
    }
    let numeric = is_numeric(&answer);
    let alike = literals.iter().filter(|l| is_numeric(l) == numeric && !l.trim().is_empty()).count();
    let squeezed = squeeze(&answer);
    let stated = literals.iter().any(|literal| {
        let literal = squeeze(literal);
        literal == squeezed || (squeezed.chars().count() >= 12 && literal.contains(&squeezed))
    });
    (stated && alike < TABLE).then_some(answer)
}

fn is_numeric(text: &str) -> bool {
    let text = text.trim().trim_end_matches('n');
    !text.is_empty() && text.parse::<f64>().is_ok()
}

/// A number so long that it stands in code by no accident.
pub(crate) fn is_long_number(answer: &str) -> bool {
    is_numeric(answer) && answer.chars().filter(char::is_ascii_digit).count() >= 6
}

/// Spaces, digit separators and the BigInt suffix say nothing.
fn squeeze(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
    if is_numeric(&text) { text.trim_end_matches('n').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::stated_answer;
    use serde_json::json;

    fn literals(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn an_answer_written_into_the_code_is_found() {
        assert!(stated_answer(&literals(&["2880067194370816120n"]), &json!("2880067194370816120")).is_some());
        assert!(stated_answer(&literals(&["four three two one"]), &json!("four three two one")).is_some());
        assert!(stated_answer(&literals(&["1_994"]), &json!(1994)).is_some());
    }

    #[test]
    fn a_table_or_a_small_number_is_not_an_answer() {
        let week = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
        assert!(stated_answer(&literals(&week), &json!("Saturday")).is_none());
        assert!(stated_answer(&literals(&["7", "0"]), &json!(7)).is_none());
        assert!(stated_answer(&literals(&["1000"]), &json!(1994)).is_none());
    }
}
