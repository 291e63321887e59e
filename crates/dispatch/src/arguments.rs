//! Values against JSON Schemas, with messages a model can act on.

use jarvis_protocol::kind_of;
use jsonschema::Validator;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

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
    check_exact(args)?;
    check_value(schema, args)
}

/// Whether every number is still what was written.
pub fn check_exact(args: &Value) -> Result<(), String> {
    match inexact(args) {
        None => Ok(()),
        Some(number) => Err(format!("the number {number} has more digits than can be kept exactly: pass it as text")),
    }
}

/// A whole number that was rounded when it was read: beyond 64 bits JSON numbers become doubles.
fn inexact(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() >= 9.2e18);
            rounded.then(|| number.to_string())
        }
        Value::Array(items) => items.iter().find_map(inexact),
        Value::Object(fields) => fields.values().find_map(inexact),
        _ => None,
    }
}

/// Any value against any schema; the first three problems, each with where it is.
pub fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = compiled(schema)?;
    // Telling what is wrong takes longer than finding that nothing is.
    if validator.is_valid(value) {
        return Ok(());
    }
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

/// Compiled schemas that are kept.
const KEPT: usize = 128;

/// By their text, so that a schema that was changed is another one. To compile one takes many times what a check does,
/// and a call checks three values.
static COMPILED: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

fn compiled(schema: &Value) -> Result<Arc<Validator>, String> {
    let text = schema.to_string();
    let kept = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept().get(&text) {
        return Ok(Arc::clone(known));
    }
    bounded(schema)?;
    let validator = jsonschema::validator_for(schema).map_err(|e| format!("the schema is not valid: {e}"))?;
    let validator = Arc::new(validator);
    let mut kept = kept();
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(text, Arc::clone(&validator));
    Ok(validator)
}

/// A schema that a definition brings: valid by itself, and of an object where `object` is set.
pub fn check_schema(schema: &Value, object: bool) -> Result<(), String> {
    if !schema.is_object() {
        return Err(format!("a JSON Schema is an object, not {}", kind_of(schema)));
    }
    if object && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`parameters` must be a JSON Schema of type object".to_owned());
    }
    bounded(schema)?;
    jsonschema::meta::validate(schema).map_err(|e| format!("not a valid JSON Schema: {e}"))?;
    jsonschema::validator_for(schema).map(|_| ()).map_err(|e| format!("not a usable JSON Schema: {e}"))
}

/// Bytes of one schema as JSON.
const SCHEMA_BYTES: usize = 16 << 10;

/// Chained references make checking exponential, outside every limit of the sandbox, so a schema spells everything
/// out. Without references the work is bounded by the sizes of schema and value.
fn bounded(schema: &Value) -> Result<(), String> {
    if schema.to_string().len() > SCHEMA_BYTES {
        return Err(format!("the schema is larger than {SCHEMA_BYTES} bytes"));
    }
    match reference(schema) {
        Some(key) => Err(format!("the schema uses `{key}`: spell it out, references are not taken")),
        None => Ok(()),
    }
}

fn reference(schema: &Value) -> Option<&'static str> {
    const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
    match schema {
        Value::Object(fields) => {
            REFERENCES.into_iter().find(|key| fields.contains_key(*key)).or_else(|| fields.values().find_map(reference))
        }
        Value::Array(items) => items.iter().find_map(reference),
        _ => None,
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
    fn a_number_that_was_rounded_when_it_was_read_is_refused() {
        let args: Value = serde_json::from_str("{\"n\": 36893488147419103233}").unwrap();
        assert!(check_arguments(&schema(), &args).unwrap_err().contains("as text"));
        let args: Value = serde_json::from_str("{\"n\": 18446744073709551615}").unwrap();
        assert!(check_arguments(&schema(), &args).is_ok());
    }

    #[test]
    fn a_schema_of_chained_references_is_refused_at_once() {
        let bomb = json!({"definitions": {"a": {"type": "null"}}, "anyOf": [{"$ref": "#/definitions/a"}]});
        assert!(check_schema(&bomb, false).unwrap_err().contains("$ref"));
        assert!(check_value(&bomb, &json!(1)).unwrap_err().contains("$ref"));
    }

    #[test]
    fn a_schema_is_compiled_once_a_changed_one_is_another_and_few_are_kept() {
        let schema = json!({"type": "object", "properties": {"数": {"type": "integer"}}});
        let first = compiled(&schema).unwrap();
        check_arguments(&schema, &json!({"数": 1})).unwrap();
        check_arguments(&schema, &json!({"数": "1"})).unwrap_err();
        assert!(Arc::ptr_eq(&first, &compiled(&schema.clone()).unwrap()));
        let stricter = json!({"type": "object", "properties": {"数": {"type": "integer", "maximum": 0}}});
        check_arguments(&stricter, &json!({"数": 1})).unwrap_err();
        // However many there are, few are kept. Here, since that lets go of those above.
        (0..3 * KEPT).for_each(|n| check_value(&json!({"maximum": n}), &json!(n)).unwrap());
        assert!(COMPILED.lock().unwrap().len() <= KEPT);
    }

    #[test]
    fn a_schema_that_is_not_one_is_refused() {
        assert!(check_schema(&json!({"type": "object"}), true).is_ok());
        assert!(check_schema(&json!({"type": "string"}), true).is_err());
        assert!(check_schema(&json!({"type": "nonsense"}), false).is_err());
        assert!(check_schema(&json!("string"), false).is_err());
    }
}
