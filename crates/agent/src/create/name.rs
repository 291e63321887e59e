//! Names of what is made: they become names of files, commands and projects, so little is allowed in them.

/// Devices on some systems, whatever the ending; a repository with such a file cannot be checked out there.
const RESERVED: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

const MOST_CHARS: usize = 64;

/// Chinese characters and nothing that only looks like a letter or turns the direction of a line.
fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

/// What is wrong with a name, if anything.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || is_han(c);
    let problem = if length == 0 {
        "it is empty"
    } else if length > MOST_CHARS {
        "it is too long"
    } else if !name.chars().all(|c| plain(c) || c == '-') {
        "it has other characters"
    } else if !name.starts_with(plain) || !name.ends_with(plain) || name.contains("--") {
        "`-` stands only between two others"
    } else if RESERVED.contains(&name) {
        "some systems keep it for a device"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
    Err(format!(
        "the name `{shown}` cannot be used: {problem}; a name has a-z, 0-9, Chinese characters and `-`, {MOST_CHARS} at most, \
         such as daily-standup"
    ))
}

/// The same for what becomes part of other people's tools, which take less.
pub(crate) fn check_ascii(name: &str) -> Result<(), String> {
    check(name)?;
    if name.is_ascii() && name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Ok(());
    }
    Err(format!("the name `{name}` cannot be used: here it begins with a-z and has no Chinese characters"))
}

/// Of one file in a folder.
pub(crate) fn check_file(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || is_han(c);
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let fine = (1..=MOST_CHARS).contains(&name.chars().count())
        && name.chars().all(|c| plain(c) || c == '.')
        && name.starts_with(plain)
        && name.ends_with(plain)
        && !name.contains("..")
        && !RESERVED.contains(&stem.as_str());
    if fine {
        return Ok(());
    }
    let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
    Err(format!("the filename `{shown}` cannot be used: it is one name without a folder, such as collect.sh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path_and_no_trick() {
        for name in ["daily-standup", "每日站会", "a", "v2-报告", &"a".repeat(64)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "../../pwn",
            "/etc/pwn",
            "a/b",
            "a\\b",
            ".",
            "..",
            "a.b",
            ".hidden",
            "-a",
            "a-",
            "a--b",
            "A",
            "a b",
            "con",
            "lpt1",
            "a\0b",
            "a\nb",
            "раураl",
            "ａｂｃ",
            "a\u{202e}b",
            "a\u{200b}b",
            "e\u{301}",
            "~",
            "$HOME",
            "·",
            &"a".repeat(65),
        ] {
            assert!(check(name).is_err(), "{name}");
        }
        assert!(check_ascii("每日").is_err() && check_ascii("1a").is_err() && check_ascii("a-1").is_ok());
    }

    #[test]
    fn a_filename_is_one_name() {
        for name in ["a.sh", "collect_all.py", "报告.py", "Makefile", "a.b.c"] {
            assert_eq!(check_file(name), Ok(()), "{name}");
        }
        for name in
            ["", "../a.sh", "/a.sh", "a/b.sh", ".bashrc", "a..sh", "a.", "NUL.sh", "a b", "a\u{202e}hs.b", "a;b"]
        {
            assert!(check_file(name).is_err(), "{name}");
        }
    }
}
