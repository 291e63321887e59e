//! Characters that make a command look like another one: controls, direction marks, invisible and look-alike letters.
//!
//! bash runs what the bytes say, a person approves what the screen shows. Both readings are judged, the worse one counts.

use crate::paths::UNKNOWN;

pub(crate) struct Clean {
    /// What bash would run, with characters that `lex` keeps for itself replaced.
    pub text: String,
    /// What it looks like, where that differs.
    pub without_disguise: Option<String>,
    pub warning: Option<String>,
}

pub(crate) fn clean(command: &str) -> Clean {
    let unix = command.replace("\r\n", "\n");
    let mut text = String::with_capacity(unix.len());
    let mut shown = String::with_capacity(unix.len());
    let mut warning = None;
    let mut warn = |what: &str| {
        warning.get_or_insert(format!("the command holds {what}, which can make it look like another one"));
    };
    let mut before = ' ';
    let mut chars = unix.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        match c {
            '\n' | '\t' => {
                text.push(c);
                shown.push(c);
            }
            '\r' => {
                warn("a carriage return");
                text.push(c);
                shown.push('\n');
            }
            // Kept for stand-ins and unknown parts.
            _ if c == UNKNOWN || (0xF_0000..=0x10_FFFF).contains(&(c as u32)) => {
                warn("private or replacement characters");
                text.push('\u{FFFD}');
                shown.push('\u{FFFD}');
            }
            _ if c.is_control() => {
                warn("control characters");
                // A NUL cannot reach bash at all.
                if c != '\0' {
                    text.push(c);
                }
            }
            // Emoji and some scripts join letters with it.
            '\u{200C}' | '\u{200D}' if !before.is_ascii() && !after.is_ascii() => {
                text.push(c);
                shown.push(c);
            }
            _ if is_invisible(c) => {
                warn("invisible or direction-changing characters");
                text.push(c);
            }
            _ => {
                text.push(c);
                shown.push(look_alike(c));
            }
        }
        before = c;
    }
    Clean { without_disguise: (shown != text).then_some(shown), text, warning }
}

fn is_invisible(c: char) -> bool {
    matches!(c as u32,
        0x00AD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E
        | 0x2060..=0x206F | 0x3164 | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
}

/// The ASCII letter, digit, blank, dash or slash that `c` is drawn like. Full-width punctuation stays: it is ordinary
/// Chinese text, and no operator to bash.
fn look_alike(c: char) -> char {
    let code = c as u32;
    match code {
        0..=0x7F => c,
        0x00A0 | 0x1680 | 0x2000..=0x200A | 0x2028 | 0x2029 | 0x202F | 0x205F | 0x3000 => ' ',
        0x2010..=0x2015 | 0x2212 | 0xFE58 | 0xFE63 | 0xFF0D => '-',
        0x2044 | 0x2215 | 0x29F8 | 0xFF0F => '/',
        0xFF10..=0xFF19 | 0xFF21..=0xFF3A | 0xFF41..=0xFF5A => char::from_u32(code - 0xFEE0).unwrap_or(c),
        // Mathematical letters: runs of 26 capitals and 26 small ones.
        0x1D400..=0x1D6A3 => {
            let at = (code - 0x1D400) % 52;
            let letter = if at < 26 { b'A' + at as u8 } else { b'a' + (at - 26) as u8 };
            letter as char
        }
        _ => match c {
            'а' | 'α' => 'a',
            'Ь' | 'ь' => 'b',
            'с' | 'ϲ' | 'ⅽ' => 'c',
            'ԁ' | 'ⅾ' => 'd',
            'е' | 'ҽ' => 'e',
            'ɡ' => 'g',
            'һ' => 'h',
            'і' | 'ι' | 'ⅰ' => 'i',
            'ј' => 'j',
            'к' | 'κ' => 'k',
            'ӏ' | 'ⅼ' | 'ا' => 'l',
            'м' | 'ⅿ' | 'ｍ' | 'ꮇ' => 'm',
            'п' | 'ո' => 'n',
            'о' | 'ο' | 'օ' => 'o',
            'р' | 'ρ' => 'p',
            'ԛ' => 'q',
            'г' | 'ᴦ' | 'ꮁ' => 'r',
            'ѕ' | 'ꜱ' => 's',
            'т' | 'τ' => 't',
            'υ' | 'ս' => 'u',
            'ν' | 'ѵ' | 'ⅴ' => 'v',
            'ԝ' | 'ѡ' => 'w',
            'х' | 'χ' | 'ⅹ' => 'x',
            'у' | 'γ' => 'y',
            'ᴢ' => 'z',
            _ => c,
        },
    }
}
