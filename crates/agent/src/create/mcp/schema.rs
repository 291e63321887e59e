//! JSON Schema as Python annotations, and what kinds of values a schema takes.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Words of a schema that say something which an annotation cannot.
const UNKNOWN: [&str; 9] =
    ["$ref", "allOf", "not", "if", "patternProperties", "dependentSchemas", "prefixItems", "contains", "propertyNames"];

const CONSTRAINTS: [(&str, &str); 9] = [
    ("minimum", "ge"),
    ("maximum", "le"),
    ("exclusiveMinimum", "gt"),
    ("exclusiveMaximum", "lt"),
    ("multipleOf", "multiple_of"),
    ("minLength", "min_length"),
    ("maxLength", "max_length"),
    ("minItems", "min_length"),
    ("maxItems", "max_length"),
];

/// A value as Python writes it.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        // What JSON escapes, Python reads in the same way.
        Value::String(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let pairs = fields
                .iter()
                .map(|(key, value)| format!("{}: {}", literal(&Value::from(key.as_str())), literal(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// One parameter as it stands in the signature, without its name.
pub(super) fn parameter(schema: &Value, required: bool) -> Result<String, String> {
    let mut kind = annotation(schema)?;
    let default = schema.get("default");
    let nullable = !required && default.is_none();
    if nullable && kind != "Any" && !types(schema).contains("null") {
        kind.push_str(" | None");
    }
    let mut about: Vec<String> = Vec::new();
    if let Some(Value::String(description)) = schema.get("description") {
        about.push(format!("description={}", literal(&Value::from(description.as_str()))));
    }
    for (word, name) in CONSTRAINTS {
        if let Some(value @ Value::Number(_)) = schema.get(word) {
            about.push(format!("{name}={}", literal(value)));
        }
    }
    if let Some(pattern @ Value::String(_)) = schema.get("pattern") {
        about.push(format!("pattern={}", literal(pattern)));
    }
    if !about.is_empty() {
        kind = format!("Annotated[{kind}, Field({})]", about.join(", "));
    }
    Ok(match (required, default) {
        (true, _) => kind,
        (false, Some(default)) => format!("{kind} = {}", literal(default)),
        (false, None) => format!("{kind} = None"),
    })
}

/// The type alone.
fn annotation(schema: &Value) -> Result<String, String> {
    let Value::Object(fields) = schema else {
        return match schema {
            Value::Bool(true) | Value::Null => Ok("Any".to_owned()),
            other => Err(format!("{other} is no schema")),
        };
    };
    if let Some(word) = UNKNOWN.iter().find(|word| fields.contains_key(**word)) {
        return Err(format!("`{word}` cannot be said in Python's annotations; write the schema without it"));
    }
    if let Some(values) = fields.get("enum").and_then(Value::as_array) {
        return literals(values);
    }
    if let Some(value) = fields.get("const") {
        return literals(std::slice::from_ref(value));
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(choices) = fields.get(word).and_then(Value::as_array) {
            return union(choices.iter().map(annotation));
        }
    }
    match fields.get("type") {
        None if fields.contains_key("properties") => typed("object", fields),
        None => Ok("Any".to_owned()),
        Some(Value::String(name)) => typed(name, fields),
        Some(Value::Array(names)) => union(names.iter().map(|name| typed(name.as_str().unwrap_or_default(), fields))),
        Some(other) => Err(format!("{other} is no type")),
    }
}

fn typed(name: &str, fields: &Map<String, Value>) -> Result<String, String> {
    Ok(match name {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => format!("list[{}]", fields.get("items").map_or_else(|| Ok("Any".to_owned()), annotation)?),
        // Only what the values have in common can be said of an object; its fields stay in the description.
        "object" => match fields.get("additionalProperties") {
            Some(of @ Value::Object(_)) => format!("dict[str, {}]", annotation(of)?),
            _ => "dict[str, Any]".to_owned(),
        },
        other => {
            return Err(format!(
                "there is no type `{other}` in JSON Schema: string, integer, number, boolean, array, object, null"
            ));
        }
    })
}

fn literals(values: &[Value]) -> Result<String, String> {
    if values.is_empty() {
        return Err("an enum without values".to_owned());
    }
    let plain = |value: &Value| match value {
        Value::String(_) | Value::Bool(_) | Value::Null => true,
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::Array(_) | Value::Object(_) => false,
    };
    match values.iter().find(|value| !plain(value)) {
        Some(value) => {
            Err(format!("{value} in an enum: only texts, whole numbers, true, false and null can stand there"))
        }
        None => Ok(format!("Literal[{}]", values.iter().map(literal).collect::<Vec<_>>().join(", "))),
    }
}

fn union(parts: impl Iterator<Item = Result<String, String>>) -> Result<String, String> {
    let mut all: Vec<String> = Vec::new();
    for part in parts {
        let part = part?;
        if !all.contains(&part) {
            all.push(part);
        }
    }
    if all.is_empty() {
        return Err("a choice of nothing".to_owned());
    }
    Ok(all.join(" | "))
}

/// The names of the types that a schema takes; none: any.
pub(super) fn types(schema: &Value) -> BTreeSet<&str> {
    let of_value = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let list = |word: &str| schema.get(word).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        return values.iter().map(of_value).collect();
    }
    if let Some(value) = schema.get("const") {
        return [of_value(value)].into();
    }
    if let Some(choices) = list("anyOf").or_else(|| list("oneOf")) {
        let each: Vec<BTreeSet<&str>> = choices.iter().map(types).collect();
        // A choice that takes anything makes the whole take anything.
        return if each.iter().any(BTreeSet::is_empty) {
            BTreeSet::new()
        } else {
            each.into_iter().flatten().collect()
        };
    }
    match schema.get("type") {
        Some(Value::String(name)) => [name.as_str()].into(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if schema.get("properties").is_some() => ["object"].into(),
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_become_annotations_of_python_and_values_its_literals() {
        for (schema, required, python) in [
            (json!({"type": "string"}), true, "str"),
            (json!({"type": "integer", "minimum": 1}), true, "Annotated[int, Field(ge=1)]"),
            (json!({"type": "boolean", "default": false}), false, "bool = False"),
            (json!({"type": "number"}), false, "float | None = None"),
            (json!({"type": ["string", "null"]}), false, "str | None = None"),
            (json!({"type": "array", "items": {"type": "integer"}}), true, "list[int]"),
            (json!({"type": "object"}), true, "dict[str, Any]"),
            (json!({"enum": ["a", "乙", true, null]}), true, "Literal[\"a\", \"乙\", True, None]"),
            (json!({}), false, "Any = None"),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), true, "str | int"),
            (
                json!({"type": "string", "description": "say \"hi\"\nthen"}),
                true,
                "Annotated[str, Field(description=\"say \\\"hi\\\"\\nthen\")]",
            ),
            (json!({"type": "array", "default": [1, {"a": null}]}), false, "list[Any] = [1, {\"a\": None}]"),
        ] {
            assert_eq!(parameter(&schema, required).unwrap(), python, "{schema}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for (schema, part) in [
            (json!({"type": "text"}), "no type `text`"),
            (json!({"$ref": "#/x"}), "$ref"),
            (json!({"enum": []}), "without values"),
            (json!({"enum": [1.5]}), "1.5"),
            (json!({"type": 3}), "no type"),
            (json!("string"), "no schema"),
        ] {
            let error = parameter(&schema, true).unwrap_err();
            assert!(error.contains(part), "{schema}: {error}");
        }
    }
}
