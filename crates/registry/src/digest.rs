//! The digest that ties code, schemas and grants of a version together.

use jarvis_protocol::{Capability, Grants, Runtime};
use serde_json::Value;

/// BLAKE3, in hexadecimal, over the code, `parameters`, `returns`, `grants` and `dependencies` of `capability`. The
/// order of keys, and the order and repetition of grants, make no difference.
pub fn digest(capability: &Capability, code: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut parts = vec![
        "jarvis capability 1".to_owned(),
        code.to_owned(),
        canonical(&capability.parameters),
        canonical(&capability.returns),
        canonical(&grants(&capability.grants)),
    ];
    // What was added later only counts where it is used, so that older digests stay as they are.
    if capability.runtime != Runtime::Typescript {
        parts.push(format!("runtime {}", capability.runtime.as_str()));
    }
    if !capability.dependencies.is_empty() {
        parts.push(canonical(&capability.dependencies.clone().into()));
    }
    for part in parts {
        // The length in front keeps text from moving between the parts unseen.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn grants(grants: &Grants) -> Value {
    fn sorted(list: &[String]) -> Value {
        let mut list: Vec<&String> = list.iter().collect();
        list.sort();
        list.dedup();
        list.into_iter().cloned().map(Value::String).collect()
    }
    Value::Array(vec![sorted(&grants.network), sorted(&grants.read), sorted(&grants.write), sorted(&grants.secrets)])
}

/// Compact JSON with sorted keys.
fn canonical(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::CapabilityName;
    use serde_json::json;

    fn sample() -> Capability {
        let mut cap = Capability::new(CapabilityName::new("probe").unwrap(), "Probes");
        cap.parameters = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}});
        cap
    }

    #[test]
    fn key_order_makes_no_difference_but_every_part_does() {
        let cap = sample();
        let first = digest(&cap, "code");
        let mut same = cap.clone();
        same.parameters = json!({"properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "type": "object"});
        same.capability = "Other words".to_owned();
        assert_eq!(first, digest(&same, "code"));

        let mut granted = cap.clone();
        granted.grants.read.push("data".to_owned());
        let mut moved = cap.clone();
        moved.grants.write.push("data".to_owned());
        let mut returning = cap.clone();
        returning.returns = json!({"type": "string"});
        let all = [
            first,
            digest(&cap, "code "),
            digest(&granted, "code"),
            digest(&moved, "code"),
            digest(&returning, "code"),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
