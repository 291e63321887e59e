//! Values against JSON Schemas, with messages a model can act on.

use serde_json::Value;

/// Arguments against a capability's `parameters`. Nothing runs unless this passes.
///
/// Unknown names are refused even where the schema does not say so: a misspelt optional argument would otherwise be
/// dropped in silence.
pub fn check_arguments(schema: &Value, args: &Value) -> Result<(), String> {
    let Some(given) = args.as_object() else {
        return Err(format!("arguments must be an object, not {}", kind_of(args)));
    };
    if let Some(known) = schema.get("properties").and_then(Value::as_object)
        && schema.get("additionalProperties").is_none()
        && let Some(unknown) = given.keys().find(|name| !known.contains_key(*name))
    {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let takes =
            if names.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", names.join(", ")) };
        return Err(format!("there is no argument `{unknown}`; {takes}"));
    }
    check_value(schema, args)
}

/// Any value against any schema; the first three problems, each with where it is.
pub fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema).map_err(|e| format!("the schema is not valid: {e}"))?;
    let problems: Vec<String> = validator
        .iter_errors(value)
        .take(3)
        .map(|e| {
            let place = e.instance_path().to_string();
            if place.is_empty() { e.to_string() } else { format!("at {place}: {e}") }
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// A schema that a definition brings: valid by itself, and of an object where `object` is set.
pub fn check_schema(schema: &Value, object: bool) -> Result<(), String> {
    if !schema.is_object() {
        return Err(format!("a JSON Schema is an object, not {}", kind_of(schema)));
    }
    if object && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`parameters` must be a JSON Schema of type object".to_owned());
    }
    jsonschema::meta::validate(schema).map_err(|e| format!("not a valid JSON Schema: {e}"))?;
    jsonschema::validator_for(schema).map(|_| ()).map_err(|e| format!("not a usable JSON Schema: {e}"))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "unit": {"type": "string"}}, "required": ["n"]})
    }

    #[test]
    fn arguments_must_be_an_object_of_known_names_and_right_types() {
        assert!(check_arguments(&schema(), &json!({"n": 3})).is_ok());
        assert!(check_arguments(&schema(), &json!([3])).unwrap_err().contains("must be an object"));
        assert!(check_arguments(&schema(), &json!(null)).unwrap_err().contains("must be an object"));
        assert!(check_arguments(&schema(), &json!({"n": 3, "units": "m"})).unwrap_err().contains("`units`"));
        assert!(check_arguments(&schema(), &json!({"n": "3"})).unwrap_err().contains("/n"));
        assert!(check_arguments(&schema(), &json!({})).unwrap_err().contains("n"));
    }

    #[test]
    fn a_schema_that_is_not_one_is_refused() {
        assert!(check_schema(&json!({"type": "object"}), true).is_ok());
        assert!(check_schema(&json!({"type": "string"}), true).is_err());
        assert!(check_schema(&json!({"type": "nonsense"}), false).is_err());
        assert!(check_schema(&json!("string"), false).is_err());
    }
}
