//! Names of elsewhere as names of capabilities: `camelCase`, dashes, dots and other scripts become `snake_case`.

use jarvis_protocol::CapabilityName;

const LONGEST: usize = 64;

/// `raw` itself where it is a name already. Of a name in another script nothing may be left; it gets one from its hash.
pub(crate) fn valid(raw: &str) -> Option<CapabilityName> {
    if let Ok(name) = CapabilityName::new(raw) {
        return Some(name);
    }
    let mut snake = snake(raw);
    let hash = blake3::hash(raw.as_bytes()).to_hex();
    if snake.is_empty() {
        snake = hash[..8].to_owned();
    }
    if snake.len() < 2 || !snake.starts_with(|c: char| c.is_ascii_lowercase()) {
        snake = format!("tool_{snake}");
    }
    if snake.len() > LONGEST {
        snake = format!("{}_{}", snake[..LONGEST - 9].trim_end_matches('_'), &hash[..8]);
    }
    CapabilityName::new(snake).ok()
}

/// `name_2`, `name_3`, …: the `n`th of that name.
pub(crate) fn numbered(name: &CapabilityName, n: usize) -> Option<CapabilityName> {
    let suffix = format!("_{n}");
    let base = name.as_str();
    let kept = base.len().min(LONGEST - suffix.len());
    CapabilityName::new(format!("{}{suffix}", &base[..kept])).ok()
}

fn snake(raw: &str) -> String {
    let chars: Vec<char> = raw.chars().collect();
    let mut out = String::with_capacity(raw.len() + 8);
    for (i, c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            if !out.ends_with('_') {
                out.push('_');
            }
            continue;
        }
        let before = i.checked_sub(1).map(|b| chars[b]);
        let after = chars.get(i + 1);
        // `getURLOf`: a new word begins at a capital after a small letter, and at the last capital of several.
        let begins = c.is_ascii_uppercase()
            && before.is_some_and(|b| {
                b.is_ascii_lowercase()
                    || b.is_ascii_digit()
                    || b.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase)
            });
        if begins && !out.ends_with('_') {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_elsewhere_become_valid_ones() {
        for (raw, name) in [
            ("get_weather", "get_weather"),
            ("getWeather", "get_weather"),
            ("get-weather.v2", "get_weather_v2"),
            ("HTTPServer", "http_server"),
            ("getURLOf", "get_url_of"),
            ("base64Encode", "base64_encode"),
            ("  spaced  name ", "spaced_name"),
            ("2fa", "tool_2fa"),
            ("x", "tool_x"),
            ("google.search/web", "google_search_web"),
        ] {
            assert_eq!(valid(raw).unwrap().as_str(), name, "{raw}");
        }
        let chinese = valid("查询天气").unwrap();
        assert!(chinese.as_str().starts_with("tool_"), "{chinese}");
        assert_ne!(chinese, valid("查询地图").unwrap());
        let (a, b) = ("a".repeat(80), "a".repeat(81));
        assert_ne!(valid(&a), valid(&b));
        assert!(valid(&a).unwrap().as_str().len() <= 64);
        assert_eq!(numbered(&valid(&"b".repeat(64)).unwrap(), 12).unwrap().as_str().len(), 64);
    }
}
