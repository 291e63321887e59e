//! Which part of the version a change moves: code only → patch; schemas extended so that every old call still works →
//! minor; anything else in them, or a new grant → major.

use jarvis_protocol::{Capability, Version};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bump {
    Patch,
    Minor,
    Major,
}

impl Bump {
    pub fn apply(self, version: &Version) -> Version {
        match self {
            Bump::Patch => Version::new(version.major, version.minor, version.patch + 1),
            Bump::Minor => Version::new(version.major, version.minor + 1, 0),
            Bump::Major => Version::new(version.major + 1, 0, 0),
        }
    }
}

/// What replacing `old` by `new` moves. Where it cannot be seen that old calls still work, it is major.
pub(crate) fn bump(old: &Capability, new: &Capability) -> Bump {
    if !new.grants.beyond(&old.grants).is_empty() || old.runtime != new.runtime {
        return Bump::Major;
    }
    // A caller of the old version sends what the old parameters allow, so the new ones must accept no less; it
    // relies on what the old result promised, so the new one must promise no less.
    if !accepts(&new.parameters, &old.parameters, Old::Narrow) || !accepts(&old.returns, &new.returns, Old::Wide) {
        return Bump::Major;
    }
    let same = bare(&old.parameters) == bare(&new.parameters) && bare(&old.returns) == bare(&new.returns);
    if same && new.grants == old.grants { Bump::Patch } else { Bump::Minor }
}

/// Notes for the reader of a schema, which change nothing that it accepts.
const NOTES: [&str; 7] = ["description", "title", "examples", "default", "$comment", "$schema", "$id"];

fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut map: Map<String, Value> = map
                .iter()
                .filter(|(key, value)| !NOTES.contains(&key.as_str()) || value.is_object())
                .map(|(key, value)| (key.clone(), bare(value)))
                .collect();
            map.sort_keys();
            Value::Object(map)
        }
        Value::Array(list) => Value::Array(list.iter().map(bare).collect()),
        other => other.clone(),
    }
}

/// Does a parameter of the schema `wide` take every value that one of the schema `narrow` takes? Errs towards no.
pub(crate) fn takes_no_less(wide: &Value, narrow: &Value) -> bool {
    accepts(wide, narrow, Old::Narrow)
}

/// Which of the two compared schemas is the old one: what it names must not go away, although a schema that is open
/// to anything would let that pass.
#[derive(Clone, Copy, PartialEq)]
enum Old {
    Wide,
    Narrow,
}

/// Does `wide` accept everything that `narrow` accepts? Errs towards no.
fn accepts(wide: &Value, narrow: &Value, old: Old) -> bool {
    let (wide, narrow) = (bare(wide), bare(narrow));
    if wide == narrow || wide == Value::Bool(true) || wide.as_object().is_some_and(Map::is_empty) {
        return true;
    }
    let (Value::Object(wide), Value::Object(narrow)) = (&wide, &narrow) else { return false };
    let empty = Map::new();
    let properties = |schema: &Map<String, Value>| match schema.get("properties") {
        Some(Value::Object(map)) => map.clone(),
        _ => empty.clone(),
    };
    let (wide_props, narrow_props) = (properties(wide), properties(narrow));
    let open = wide.get("additionalProperties").is_none_or(|v| *v == Value::Bool(true));
    let closed_before = narrow.get("additionalProperties") == Some(&Value::Bool(false));

    // Every constraint of the wide schema must be implied by one of the narrow schema.
    wide.iter().all(|(key, value)| match key.as_str() {
        "properties" => wide_props.iter().all(|(name, schema)| match narrow_props.get(name) {
            Some(before) => accepts(schema, before, old),
            // A new parameter is not sent by those who do not know it; a result that is gone is missed.
            None => old == Old::Narrow,
        }),
        "required" => {
            let before = strings(narrow.get("required"));
            strings(Some(value)).iter().all(|name| before.contains(name))
        }
        "additionalProperties" => open || (closed_before && *value == Value::Bool(false)),
        "type" => {
            let now = strings(Some(value));
            let before = strings(narrow.get("type"));
            !before.is_empty() && before.iter().all(|t| now.contains(t) || (*t == "integer" && now.contains(&"number")))
        }
        "enum" => match (value.as_array(), narrow.get("enum").and_then(Value::as_array)) {
            (Some(now), Some(before)) => before.iter().all(|v| now.contains(v)),
            _ => false,
        },
        "items" => narrow.get("items").is_some_and(|before| accepts(value, before, old)),
        "minimum" | "minLength" | "minItems" | "exclusiveMinimum" => at_least(narrow.get(key), value).unwrap_or(false),
        "maximum" | "maxLength" | "maxItems" | "exclusiveMaximum" => {
            narrow.get(key).and_then(|before| at_least(Some(value), before)).unwrap_or(false)
        }
        other => NOTES.contains(&other) || narrow.get(other) == Some(value),
    }) && (narrow_props.keys().all(|name| wide_props.contains_key(name)) || (open && old == Old::Wide))
}

fn at_least(larger: Option<&Value>, smaller: &Value) -> Option<bool> {
    Some(larger?.as_f64()? >= smaller.as_f64()?)
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::CapabilityName;
    use serde_json::json;

    fn base() -> Capability {
        let mut cap = Capability::new(CapabilityName::new("probe").unwrap(), "Probes");
        cap.parameters = json!({"type": "object", "required": ["a"],
            "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"type": "string", "enum": ["x", "y"]}}});
        cap.returns = json!({"type": "object", "required": ["sum"], "properties": {"sum": {"type": "number"}}});
        cap
    }

    fn changed(change: impl Fn(&mut Capability)) -> Bump {
        let mut new = base();
        change(&mut new);
        bump(&base(), &new)
    }

    #[test]
    fn words_and_code_are_a_patch() {
        assert_eq!(changed(|_| {}), Bump::Patch);
        assert_eq!(changed(|c| c.capability = "Other".into()), Bump::Patch);
        assert_eq!(changed(|c| c.parameters["properties"]["a"]["description"] = json!("how many")), Bump::Patch);
        assert_eq!(changed(|c| c.limits.timeout_ms = 1), Bump::Patch);
    }

    #[test]
    fn extensions_that_old_calls_survive_are_minor() {
        assert_eq!(changed(|c| c.parameters["properties"]["c"] = json!({"type": "string"})), Bump::Minor);
        assert_eq!(changed(|c| c.parameters["required"] = json!([])), Bump::Minor);
        assert_eq!(changed(|c| c.parameters["properties"]["a"]["type"] = json!("number")), Bump::Minor);
        assert_eq!(changed(|c| c.parameters["properties"]["a"]["type"] = json!(["integer", "string"])), Bump::Minor);
        assert_eq!(changed(|c| c.parameters["properties"]["a"]["minimum"] = json!(-5)), Bump::Minor);
        assert_eq!(changed(|c| c.parameters["properties"]["b"]["enum"] = json!(["x", "y", "z"])), Bump::Minor);
        assert_eq!(changed(|c| c.returns["properties"]["count"] = json!({"type": "integer"})), Bump::Minor);
    }

    #[test]
    fn what_breaks_a_caller_is_major() {
        assert_eq!(changed(|c| c.parameters["required"] = json!(["a", "b"])), Bump::Major);
        assert_eq!(changed(|c| c.parameters["properties"]["a"]["type"] = json!("string")), Bump::Major);
        assert_eq!(changed(|c| c.parameters["properties"]["a"]["minimum"] = json!(5)), Bump::Major);
        assert_eq!(changed(|c| c.parameters["properties"]["b"]["enum"] = json!(["x"])), Bump::Major);
        assert_eq!(changed(|c| c.parameters["additionalProperties"] = json!(false)), Bump::Major);
        let renamed = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert_eq!(changed(|c| c.parameters = renamed.clone()), Bump::Major);
        assert_eq!(changed(|c| c.returns["properties"] = json!({"total": {"type": "number"}})), Bump::Major);
        assert_eq!(changed(|c| c.returns["required"] = json!([])), Bump::Major);
        assert_eq!(changed(|c| c.returns = json!({"type": "string"})), Bump::Major);
        assert_eq!(changed(|c| c.returns = json!({})), Bump::Major);
    }

    #[test]
    fn a_new_grant_is_major_and_one_given_up_is_not() {
        let mut with = base();
        with.grants.network.push("api.example.com".into());
        assert_eq!(bump(&base(), &with), Bump::Major);
        assert_eq!(bump(&with, &base()), Bump::Minor);
    }
}
