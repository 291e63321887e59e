//! Shell globs against names and paths.

/// Whether `pattern` (`*`, `?`, `[…]`) matches `name`, ignoring the rule about leading dots.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where to go back to: after the last `*`, and one character further in the name.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&pattern[p..], name[n]),
            Some(c) if *c == name[n] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                p = after;
                n = from + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The length of the bracket expression if it takes `c`; a bracket that does not close is itself.
fn class(pattern: &[char], c: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    let Some(close) = pattern.iter().skip(start + 1).position(|p| *p == ']').map(|i| i + start + 1) else {
        return (c == '[').then_some(1);
    };
    let set = &pattern[start..close];
    // `[[:alpha:]]` and the like: taken to match, which is the careful side.
    let named = set.contains(&':');
    let inside = named
        || set
            .iter()
            .enumerate()
            .any(|(i, p)| *p == c || (*p == '-' && i > 0 && i + 1 < set.len() && set[i - 1] <= c && c <= set[i + 1]));
    let length = if named && pattern.get(close + 1) == Some(&']') { close + 2 } else { close + 1 };
    (inside != negated).then_some(length)
}

/// Whether the glob has no letter or digit of its own: `*`, `.*`, `?*`, `[!.]*`, `**`.
pub(crate) fn is_everything(pattern: &str) -> bool {
    let mut in_class = false;
    let own = pattern.chars().filter(|c| {
        match c {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        !in_class && c.is_alphanumeric()
    });
    pattern.contains(['*', '?', '[']) && own.count() == 0
}

/// Whether every part of `pattern` matches the same part of `path`, and no part is left over.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    pattern.split('/').count() == path.split('/').count() && under_matches(pattern, path)
}

/// Whether `pattern` names `folder` or something inside it.
pub(crate) fn under_matches(pattern: &str, folder: &str) -> bool {
    let mut parts = pattern.split('/');
    folder.split('/').filter(|f| !f.is_empty()).all({
        parts.next();
        move |part| parts.next().is_some_and(|p| matches(p, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_like_the_shell() {
        for (pattern, name, expected) in [
            ("r?", "rm", true),
            ("*m", "rm", true),
            ("r[a-n]", "rm", true),
            ("r[!a-n]", "rm", false),
            ("*.rs", "lib.rs", true),
            ("*.rs", "lib.py", false),
            ("文*", "文档", true),
            ("[", "[", true),
            ("e[[:alpha:]]c", "etc", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(path_matches("/e*/pass??", "/etc/passwd"));
        assert!(!path_matches("/*", "/etc/passwd"));
        assert!(under_matches("/e*/x/y", "/etc"));
        assert!(is_everything(".[!.]*") && !is_everything("*.o"));
    }
}
