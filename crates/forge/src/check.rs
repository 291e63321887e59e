//! Checked: what can be said of a draft without running it. Every problem is told, so one repair can mend them all.

use crate::Draft;
use jarvis_dispatch::{Checked, check_code, check_schema};
use jarvis_protocol::Capability;
use serde_json::Value;

/// Bytes of source; a capability is one function, not a program.
const CODE_BYTES: usize = 64 * 1024;
const SENTENCE_CHARS: usize = 300;
const EXAMPLES: usize = 40;
/// Triggers, suppressions and grants: how many of each, and how long one is.
const LINES: usize = 20;
const LINE_CHARS: usize = 300;

pub(crate) fn check(draft: &Draft) -> Result<Checked, Vec<String>> {
    let mut problems = definition_problems(&draft.capability);
    if draft.code.len() > CODE_BYTES {
        problems.push(format!("the code has {} bytes; at most {CODE_BYTES} are taken", draft.code.len()));
        return Err(problems);
    }
    let checked = match check_code(&draft.code, draft.capability.runtime) {
        Ok(checked) => checked,
        Err(error) => {
            problems.push(format!("the code does not pass: {error}"));
            return Err(problems);
        }
    };
    problems.extend(parameter_problems(&draft.capability.parameters, &checked));
    problems.extend(grant_problems(&draft.capability, &checked));
    if let Some(request) = &draft.request
        && properties(&draft.capability.parameters).is_empty()
        && let Some(value) = request_value(request)
    {
        problems.push(format!(
            "the definition has no parameters, but the request holds values such as `{value}`: make them parameters"
        ));
    }
    if problems.is_empty() { Ok(checked) } else { Err(problems) }
}

fn definition_problems(capability: &Capability) -> Vec<String> {
    let mut problems = Vec::new();
    let sentence = capability.capability.trim();
    if sentence.is_empty() {
        problems.push("`capability` is empty: say in one sentence what it does".to_owned());
    } else if sentence.chars().count() > SENTENCE_CHARS {
        problems.push(format!("`capability` is longer than {SENTENCE_CHARS} characters: one sentence, please"));
    }
    if let Err(problem) = check_schema(&capability.parameters, true) {
        problems.push(format!("`parameters`: {problem}"));
    }
    if let Err(problem) = check_schema(&capability.returns, false) {
        problems.push(format!("`returns`: {problem}"));
    }
    if capability.examples.is_empty() {
        problems.push(
            "`examples` is empty: give at least one call, {\"args\": …} with \"returns\" where the answer is known"
                .to_owned(),
        );
    }
    if capability.examples.len() > EXAMPLES {
        problems.push(format!("there are {} examples; at most {EXAMPLES} are taken", capability.examples.len()));
        return problems;
    }
    problems.extend(text_problems(capability));
    for (index, example) in capability.examples.iter().enumerate() {
        if let Err(problem) = jarvis_dispatch::check_arguments(&capability.parameters, &example.args) {
            problems.push(format!("example {}: {problem}", index + 1));
        }
        if let Some(pattern) = &example.matches
            && let Err(problem) = regex::Regex::new(pattern)
        {
            problems.push(format!("example {}: `matches` is not a regular expression: {problem}", index + 1));
        }
    }
    problems
}

/// Everything that a person is shown when asked must read as what it is.
fn text_problems(capability: &Capability) -> Vec<String> {
    let grants = &capability.grants;
    let sentence = std::slice::from_ref(&capability.capability);
    let lists: [(&str, &[String]); 7] = [
        ("capability", sentence),
        ("triggers", &capability.triggers),
        ("suppression", &capability.suppression),
        ("grants.network", &grants.network),
        ("grants.read", &grants.read),
        ("grants.write", &grants.write),
        ("grants.secrets", &grants.secrets),
    ];
    let mut problems = Vec::new();
    for (field, list) in lists {
        if list.len() > LINES {
            problems.push(format!("`{field}` has {} entries; at most {LINES} are taken", list.len()));
        }
        if list.iter().any(|text| text.chars().any(deceptive)) {
            problems.push(format!("`{field}` holds control or direction characters, which can hide what it says"));
        }
        if list.iter().any(|text| text.chars().count() > LINE_CHARS) {
            problems.push(format!("an entry of `{field}` is longer than {LINE_CHARS} characters"));
        }
    }
    for host in &grants.network {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '*' | ':' | '/' | '_' | '[' | ']');
        if host.is_empty() || !host.chars().all(plain) || host == "*" {
            problems.push(format!(
                "`grants.network`: `{host}` is no host; write api.example.com, *.example.com or host:port"
            ));
        }
    }
    let secret =
        |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !grants.secrets.iter().all(secret) {
        problems.push("`grants.secrets` holds names of letters, digits, `_` and `-`, never values".to_owned());
    }
    problems
}

/// Control characters, and those that change the direction of what follows.
fn deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Names that the code takes but the schema does not offer would always be undefined.
fn parameter_problems(schema: &Value, checked: &Checked) -> Vec<String> {
    let offered = properties(schema);
    checked
        .params
        .iter()
        .filter(|name| !offered.contains(&name.as_str()))
        .map(|name| {
            format!("the code takes `{name}`, which `parameters` does not offer (it has: {})", offered.join(", "))
        })
        .collect()
}

fn grant_problems(capability: &Capability, checked: &Checked) -> Vec<String> {
    let grants = &capability.grants;
    checked
        .uses
        .iter()
        .filter_map(|used| {
            let (call, field, granted) = crate::grants::needed(used.kind, grants)?;
            (!granted).then(|| format!("the code uses {call} (line {}), but `grants.{field}` is empty: list what it may reach, or do without", used.line))
        })
        .collect()
}

pub(crate) fn properties(schema: &Value) -> Vec<&str> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|p| p.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// The first value that a request plainly holds: a number, or quoted text.
pub(crate) fn request_value(request: &str) -> Option<String> {
    let number = request
        .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == ':' || c == '/'))
        .map(|word| word.trim_matches(|c| c == '.' || c == '-' || c == ':' || c == '/'))
        .find(|word| word.chars().any(|c| c.is_ascii_digit()));
    if let Some(number) = number {
        return Some(number.to_owned());
    }
    for (open, close) in [('"', '"'), ('“', '”'), ('「', '」'), ('`', '`')] {
        if let Some((_, rest)) = request.split_once(open)
            && let Some((inside, _)) = rest.split_once(close)
            && !inside.trim().is_empty()
        {
            return Some(inside.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::request_value;

    #[test]
    fn values_of_a_request_are_found_in_both_languages() {
        assert_eq!(request_value("What is the 90th Fibonacci number?").as_deref(), Some("90"));
        assert_eq!(request_value("days since 2024-02-10, please").as_deref(), Some("2024-02-10"));
        assert_eq!(request_value("reverse \"abc def\"").as_deref(), Some("abc def"));
        assert_eq!(request_value("把「你好」倒过来").as_deref(), Some("你好"));
        assert_eq!(request_value("roll a die"), None);
    }
}
