//! Things that are described as capabilities are, and are none of the registry: found in the same way.

use super::search;
use crate::snapshot::Snapshot;
use crate::types::Statuses;
use jarvis_protocol::{Capability, CapabilityName};
use serde_json::Value;

/// Built once for many searches.
pub struct Shelf {
    snapshot: Snapshot,
}

/// One thing on it. Its name may be of any form.
#[derive(Debug, Clone, Copy)]
pub struct Shelved<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// JSON Schema of its arguments.
    pub parameters: &'a Value,
}

impl Shelf {
    pub fn of<'a>(things: impl IntoIterator<Item = Shelved<'a>>) -> Shelf {
        let capabilities = things.into_iter().enumerate().filter_map(|(position, thing)| {
            let name = CapabilityName::new(plain_name(thing.name, position)).ok()?;
            let mut capability = Capability::new(name, thing.description);
            capability.parameters = thing.parameters.clone();
            Some(capability)
        });
        Shelf { snapshot: Snapshot::of(capabilities) }
    }

    /// Positions in the order in which they were put there, with how likely each is what is asked for; the best first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<(usize, f64)> {
        let found = search(&self.snapshot, query, limit, Statuses::Active);
        found.into_iter().map(|found| (found.position, found.score)).collect()
    }
}

/// In the form of a capability's name; `getUserName`, `get-user-name` and `get user name` are the same words.
fn plain_name(name: &str, position: usize) -> String {
    let mut plain = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() && !plain.ends_with('_') {
            plain.push('_');
        }
        match c {
            c if c.is_ascii_alphanumeric() => plain.push(c.to_ascii_lowercase()),
            _ if !plain.ends_with('_') => plain.push('_'),
            _ => {}
        }
        before = c;
    }
    let plain: String = plain.trim_matches('_').chars().take(60).collect();
    let plain = plain.trim_end_matches('_');
    match plain.starts_with(|c: char| c.is_ascii_lowercase()) && plain.len() > 1 {
        true => plain.to_owned(),
        false => format!("tool_{position}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn things_are_found_by_what_they_say_in_both_languages() {
        let none = json!({"type": "object"});
        let things = [
            ("readFile", "Read the contents of a file"),
            ("send-mail", "Send an e-mail to somebody"),
            ("天气", "查询一个城市的天气预报"),
            ("9", "Add two numbers"),
        ];
        let shelf =
            Shelf::of(things.iter().map(|(name, description)| Shelved { name, description, parameters: &none }));
        for (query, position) in
            [("read a file", 0), ("write an email", 1), ("北京的天气怎么样", 2), ("sum of 2 numbers", 3)]
        {
            let found = shelf.search(query, 3);
            assert_eq!(found.first().map(|(at, _)| *at), Some(position), "{query}: {found:?}");
        }
    }

    #[test]
    fn any_name_has_a_form() {
        assert_eq!(plain_name("getUserName", 0), "get_user_name");
        assert_eq!(plain_name("get--User.name", 0), "get_user_name");
        assert_eq!(plain_name("天气", 7), "tool_7");
        assert_eq!(plain_name(&"x".repeat(200), 0).len(), 60);
    }
}
