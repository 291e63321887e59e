//! The keys of a definition: a misspelt one would be dropped in silence, and what it meant would go unchecked.

use serde_json::{Map, Value};

const DEFINITION: &[&str] = &[
    "name",
    "capability",
    "triggers",
    "suppression",
    "aliases",
    "tool_path",
    "runtime",
    "parameters",
    "returns",
    "grants",
    "limits",
    "dependencies",
    "examples",
    "version",
    "changelog",
    "created",
    "created_by",
    "model",
    "digest",
    "status",
    "supersedes",
];
const EXAMPLE: &[&str] = &["args", "returns", "matches", "origin", "held_out"];
const GRANTS: &[&str] = &["network", "read", "write", "secrets"];
const LIMITS: &[&str] = &["timeout_ms", "memory_mb", "output_bytes"];

/// Names every key that has no meaning, and those that have one. A key of one's own begins with `x_`.
/// Whether values have the right types is left to the parser.
pub fn check_keys(definition: &Value) -> Result<(), String> {
    let Some(object) = definition.as_object() else { return Ok(()) };
    let mut problems = Vec::new();
    unknown("the definition", object, DEFINITION, &mut problems);
    for (key, known) in [("grants", GRANTS), ("limits", LIMITS)] {
        if let Some(inner) = object.get(key).and_then(Value::as_object) {
            unknown(&format!("`{key}`"), inner, known, &mut problems);
        }
    }
    for (index, example) in object.get("examples").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if let Some(example) = example.as_object() {
            unknown(&format!("example {}", index + 1), example, EXAMPLE, &mut problems);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn unknown(place: &str, object: &Map<String, Value>, known: &[&str], problems: &mut Vec<String>) {
    let bad: Vec<String> = object
        .keys()
        .filter(|key| !known.contains(&key.as_str()) && !key.starts_with("x_"))
        .map(|key| format!("`{key}`"))
        .collect();
    if !bad.is_empty() {
        problems.push(format!("{place} has no key {} (known: {})", bad.join(", "), known.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::{Capability, CapabilityName};
    use serde_json::json;

    #[test]
    fn an_expected_answer_under_another_name_is_told_and_not_dropped() {
        for key in ["result", "expected", "output"] {
            let problem = check_keys(&json!({"examples": [{"args": {}}, {"args": {"n": 2}, key: 5}]})).unwrap_err();
            assert!(problem.contains(&format!("example 2 has no key `{key}`")), "{problem}");
            assert!(problem.contains("args, returns, matches"), "{problem}");
        }
    }

    #[test]
    fn misspelt_keys_are_named_and_ones_own_are_kept() {
        let problem = check_keys(&json!({"name": "a", "paramters": {}, "grants": {"net": []}, "limits": {"ms": 1}}));
        let problem = problem.unwrap_err();
        for part in ["`paramters`", "parameters", "`net`", "network", "`ms`", "timeout_ms"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
        assert_eq!(check_keys(&json!({"x_team": 1, "examples": [{"args": {}, "x_note": "n"}]})), Ok(()));
    }

    #[test]
    fn every_field_that_is_written_is_known() {
        let mut capability = Capability::new(CapabilityName::new("full").unwrap(), "Has every field.");
        capability.model = Some("m".to_owned());
        capability.supersedes = Some("old".to_owned());
        capability.aliases = vec![CapabilityName::new("old").unwrap()];
        capability.dependencies = vec!["numpy==2.3.4".to_owned()];
        let mut whole = serde_json::to_value(capability).unwrap();
        whole["examples"] = json!([{"args": {}, "returns": 1, "matches": "1", "origin": "person", "held_out": true}]);
        assert_eq!(check_keys(&whole), Ok(()));
        let object = whole.as_object().unwrap();
        assert!(DEFINITION.iter().all(|key| object.contains_key(*key)), "{object:?}");
    }
}
