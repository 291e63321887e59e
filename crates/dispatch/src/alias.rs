//! Calls under a former name: where the arguments were called otherwise, the call is put into the words of now.

use jarvis_protocol::Capability;
use serde_json::{Map, Value};

/// The key of a definition that says, for each alias, which of its arguments is called how now:
/// `{"old_name": {"its": "now"}}`. Only those that differ.
pub const ALIAS_ARGUMENTS: &str = "x_alias_arguments";

/// The arguments of a call made as `called`, as `capability` names them.
pub(crate) fn arguments(capability: &Capability, called: &str, args: Value) -> Value {
    let renamed = capability.extra.get(ALIAS_ARGUMENTS).and_then(|all| all.get(called)).and_then(Value::as_object);
    let is_alias = capability.aliases.iter().any(|alias| alias.as_str() == called);
    match (renamed, args) {
        (Some(renamed), Value::Object(given)) if is_alias => Value::Object(put(renamed, given)),
        (_, args) => args,
    }
}

fn put(renamed: &Map<String, Value>, given: Map<String, Value>) -> Map<String, Value> {
    let now = |name: &str| renamed.get(name).and_then(Value::as_str).map(str::to_owned);
    // Whoever knows the names of now may use them with the old name too; a call that has both says nothing plain and is
    // checked as it is.
    let clash = given.keys().filter_map(|name| now(name)).any(|to| given.contains_key(&to) && now(&to).is_none());
    if clash {
        return given;
    }
    given.into_iter().map(|(name, value)| (now(&name).unwrap_or(name), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::CapabilityName;
    use serde_json::json;

    fn keep() -> Capability {
        let name = |text: &str| CapabilityName::new(text).unwrap();
        let mut capability = Capability::new(name("power"), "Raises a number.");
        capability.aliases = vec![name("raise")];
        // The two names mean the other thing in each.
        let renamed = json!({"raise": {"x": "base", "base": "exponent"}, "power": {"base": "exponent"}});
        capability.extra.insert(ALIAS_ARGUMENTS.to_owned(), renamed);
        capability
    }

    #[test]
    fn arguments_of_an_alias_are_renamed_all_at_once() {
        let args = |called: &str, given| arguments(&keep(), called, given);
        assert_eq!(args("raise", json!({"x": 2, "base": 10})), json!({"base": 2, "exponent": 10}));
        assert_eq!(args("raise", json!({"y": 2})), json!({"y": 2}));
    }

    #[test]
    fn its_own_name_and_what_is_no_alias_are_left_alone() {
        let given = json!({"base": 2, "exponent": 10});
        assert_eq!(arguments(&keep(), "power", given.clone()), given);
        assert_eq!(arguments(&keep(), "nobody", given.clone()), given);
        assert_eq!(arguments(&keep(), "raise", json!([1])), json!([1]));
        let both = json!({"x": 1, "exponent": 3, "base": 2});
        assert_eq!(arguments(&keep(), "raise", both.clone()), both, "two values for one argument");
    }
}
