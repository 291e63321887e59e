//! Plain lists of tools, as model providers, MCP servers and benchmarks write them: a name, a description, parameters.
//! There is no code in them, so what they name can be found, and runs once code is registered for it.

use super::{Incoming, MOST_ENTRIES, Package, PackageKind, PortError, Progress, Watch, names};
use crate::types::Damaged;
use jarvis_protocol::Capability;
use serde_json::{Map, Value, json};

/// The most characters of a description that are kept.
const LONGEST_DESCRIPTION: usize = 4000;

pub(crate) fn read(text: &str, watch: Watch<'_>) -> Result<Package, PortError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole: Value = serde_json::from_str(text).map_err(|e| PortError::NotAList(e.to_string()))?;
    let no_list = || {
        let problem = "it is neither a list nor an object with a list `tools`";
        PortError::NotAList(problem.to_owned())
    };
    let items = items(whole).ok_or_else(no_list)?;
    if items.len() > MOST_ENTRIES {
        return Err(PortError::NotAList(format!("it holds more than {MOST_ENTRIES} tools")));
    }
    let total = items.len();
    let mut package = Package::new(PackageKind::List);
    for (position, item) in items.into_iter().enumerate() {
        if !watch(Progress { done: position, total }) {
            return Err(PortError::Cancelled);
        }
        match entry(&item) {
            Ok(entry) => package.entries.push(entry),
            Err(problem) => {
                let name = named(&item).unwrap_or_else(|| format!("#{}", position + 1));
                package.damaged.push(Damaged { entry: name, problem });
            }
        }
    }
    Ok(package)
}

fn items(whole: Value) -> Option<Vec<Value>> {
    match whole {
        Value::Array(items) => Some(items),
        Value::Object(mut map) => {
            // An MCP server's answer to `tools/list`.
            if let Some(Value::Object(result)) = map.get_mut("result") {
                map = std::mem::take(result);
            }
            let key = ["tools", "functions", "capabilities"]
                .into_iter()
                .find(|key| map.get(*key).is_some_and(Value::is_array));
            match key.and_then(|key| map.remove(key)) {
                Some(Value::Array(items)) => Some(items),
                // One tool by itself.
                _ if map.contains_key("name") || map.contains_key("function") => Some(vec![Value::Object(map)]),
                _ => None,
            }
        }
        _ => None,
    }
}

/// OpenAI wraps each tool in its kind.
fn inner(item: &Value) -> &Value {
    item.get("function").filter(|inner| inner.is_object()).unwrap_or(item)
}

fn named(item: &Value) -> Option<String> {
    inner(item).get("name").and_then(Value::as_str).map(str::to_owned)
}

fn entry(item: &Value) -> Result<Incoming, String> {
    let item = inner(item);
    let Some(fields) = item.as_object() else { return Err("it is no object".to_owned()) };
    let original = match fields.get("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => name.clone(),
        _ => return Err("it has no `name`".to_owned()),
    };
    let text = |keys: &[&str]| {
        keys.iter().find_map(|key| fields.get(*key).and_then(Value::as_str)).filter(|text| !text.trim().is_empty())
    };
    let sentence = text(&["description", "capability", "summary", "title"]).ok_or("it has no `description`")?;
    let sentence: String = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence: String = sentence.chars().take(LONGEST_DESCRIPTION).collect();
    let name = names::valid(&original).ok_or("no name can be made of its `name`")?;
    let mut capability = Capability::new(name, sentence);
    let schema = |keys: &[&str]| keys.iter().find_map(|key| fields.get(*key)).filter(|schema| !schema.is_null());
    if let Some(given) = schema(&["parameters", "inputSchema", "input_schema", "args", "arguments"]) {
        capability.parameters = parameters(given)?;
    }
    if let Some(given) = schema(&["returns", "outputSchema", "output_schema"]).filter(|given| given.is_object()) {
        capability.returns = given.clone();
    }
    capability.triggers = strings(fields.get("triggers"));
    capability.suppression = strings(fields.get("suppression"));
    Ok(Incoming::new(capability, None, &original))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// As a JSON Schema of an object, which is what most lists give. Some list the parameters one by one, or by name.
fn parameters(given: &Value) -> Result<Value, String> {
    match given {
        Value::Object(map) if is_schema(map) => {
            let mut schema = given.clone();
            plain_types(&mut schema);
            schema["type"] = json!("object");
            Ok(schema)
        }
        Value::Object(map) => Ok(properties(map.iter().map(|(name, value)| (name.as_str(), value)))),
        Value::Array(list) => {
            let named = list.iter().map(|item| match item {
                Value::String(name) => Ok((name.as_str(), &Value::Null)),
                _ => item.get("name").and_then(Value::as_str).map(|name| (name, item)).ok_or("a parameter has no name"),
            });
            Ok(properties(named.collect::<Result<Vec<_>, _>>()?.into_iter()))
        }
        _ => Err("its `parameters` are no JSON Schema".to_owned()),
    }
}

fn is_schema(map: &Map<String, Value>) -> bool {
    let kind = map.get("type").is_some_and(Value::is_string);
    map.is_empty() || kind || ["properties", "$ref", "anyOf", "oneOf", "allOf"].iter().any(|key| map.contains_key(*key))
}

fn properties<'a>(named: impl Iterator<Item = (&'a str, &'a Value)>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, value) in named {
        let mut schema = match value {
            Value::String(kind) => json!({"type": kind}),
            Value::Object(map) => {
                let mut map = map.clone();
                map.shift_remove("name");
                if map.shift_remove("required").is_some_and(|needed| needed == Value::Bool(true)) {
                    required.push(json!(name));
                }
                Value::Object(map)
            }
            _ => json!({}),
        };
        plain_types(&mut schema);
        properties.insert(name.to_owned(), schema);
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// Names of types in other languages as JSON Schema has them; what it has no name for is open.
fn plain_types(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let kind = map.get("type").and_then(Value::as_str).map(|kind| match kind.to_ascii_lowercase().as_str() {
                "string" | "str" | "text" => Some("string"),
                "integer" | "int" | "long" => Some("integer"),
                "number" | "float" | "double" => Some("number"),
                "boolean" | "bool" => Some("boolean"),
                "array" | "list" | "tuple" => Some("array"),
                "object" | "dict" | "hashmap" => Some("object"),
                "null" => Some("null"),
                _ => None,
            });
            match kind {
                Some(Some(kind)) => _ = map.insert("type".to_owned(), json!(kind)),
                Some(None) => _ = map.shift_remove("type"),
                None => {}
            }
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    // Names of its own, one of which may be `type`.
                    "properties" | "$defs" | "definitions" => {
                        value.as_object_mut().into_iter().flat_map(|map| map.values_mut()).for_each(plain_types);
                    }
                    "items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf" => plain_types(value),
                    _ => {}
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(plain_types),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_a_list_gives_the_same_parameters() {
        let wanted = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        for list in [
            json!([{"name": "weather", "description": "Tells it", "parameters": wanted}]),
            json!([{"type": "function", "function": {"name": "weather", "description": "Tells it", "parameters": wanted}}]),
            json!({"tools": [{"name": "weather", "description": "Tells it", "inputSchema": wanted}]}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "weather", "description": "Tells it", "inputSchema": wanted}]}}),
            json!([{"name": "weather", "description": "Tells it", "input_schema": wanted}]),
            json!([{"name": "weather", "description": "Tells it", "parameters": [{"name": "city", "type": "str", "required": true}]}]),
            json!([{"name": "weather", "description": "Tells it", "parameters": {"type": "dict", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]),
        ] {
            let package = read(&list.to_string(), &mut |_| true).unwrap();
            assert!(package.damaged.is_empty(), "{:?}", package.damaged);
            assert_eq!(package.entries[0].capability.parameters, wanted, "{list}");
            assert_eq!(package.entries[0].capability.name.as_str(), "weather");
        }
    }

    #[test]
    fn a_parameter_that_is_called_type_is_no_type() {
        let list = json!([{"name": "ab", "description": "x", "parameters":
            {"type": "object", "properties": {"type": {"type": "str"}, "other": {"type": "any"}}}}]);
        let package = read(&list.to_string(), &mut |_| true).unwrap();
        let properties = &package.entries[0].capability.parameters["properties"];
        assert_eq!(*properties, json!({"type": {"type": "string"}, "other": {}}));
    }
}
