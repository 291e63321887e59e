//! `sed`, `awk` and editors: their scripts can start programs and write files.

use crate::expand::Arg;
use crate::rules::options::Options;
use crate::rules::shell::run_text;
use crate::rules::{awk, inline, outside};
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    Some(match name {
        "sed" | "gsed" => sed(w, args),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk::awk(w, args),
        "vi" | "vim" | "nvim" | "view" | "ex" | "vimdiff" | "emacs" | "gdb" | "lldb" | "ed" => editor(w, args),
        "sqlite3" => {
            let commands = args.iter().any(|a| {
                let text = a.text.trim_start();
                [
                    ".sh", ".system", ".load", ".output", ".once", ".excel", ".import", ".open", ".save", ".backup",
                    ".clone", ".read", ".pipe",
                ]
                .iter()
                .any(|c| text.contains(c))
                    || a.text.contains("load_extension")
                    || a.text.contains("writefile")
                    || a.text.to_lowercase().contains("attach")
            });
            let known = args.iter().all(|a| a.known);
            let small: Vec<String> = args.iter().map(|a| a.text.to_lowercase()).collect();
            let reads = ["readfile", "fsdir", "edit("].iter().any(|f| small.iter().any(|a| a.contains(f)));
            let secret = args.iter().find_map(|a| inline::forbidden(w, &a.text));
            let read_only = args.iter().any(|a| a.text.trim_start_matches('-') == "readonly");
            let file = args.iter().find(|a| !a.text.starts_with('-')).filter(|_| !read_only);
            let file = file.map(|f| outside::argument(w, f, true)).filter(|f| f.verdict > Verdict::Allow);
            if let Some(found) = secret.or(file) {
                found
            } else if reads {
                Finding::ask("a query that reads files of its own choice")
            } else if commands || !known {
                Finding::ask("a database shell that can start programs and write files")
            } else {
                Finding::allow("works on a database")
            }
        }
        _ => return None,
    })
}

/// `+cmd`, `-c '!cmd'`, `-ex 'shell cmd'`: an editor is a question anyway, but what it is told to run may be forbidden.
fn editor(w: &mut Walker, args: &[Arg]) -> Finding {
    let mut found = Finding::ask("waits for a person, or runs commands of its own");
    for arg in args {
        let text = arg.text.trim_start_matches(['+', ':', ' ']);
        let command = text
            .split_once('!')
            .map(|(_, c)| c)
            .or_else(|| text.strip_prefix("shell "))
            .or_else(|| text.strip_prefix("call system("));
        if let Some(command) = command.filter(|c| !c.is_empty()) {
            found = found.or_worse(run_text(
                w,
                &arg.with(command.trim_end_matches(')').trim_matches(['"', '\''])),
                "a command of the editor",
            ));
        } else if let Some(inner) = inline::forbidden(w, text) {
            found = found.or_worse(inner);
        }
    }
    found
}

fn sed(w: &mut Walker, args: &[Arg]) -> Finding {
    let valued = ["-e", "--expression", "-f", "--file", "-l", "--line-length"];
    // `-i.bak` takes the rest of its word, but never the next one.
    let in_place = args.iter().any(|a| {
        a.text.starts_with("-i")
            || a.text.starts_with("--in-place")
            || (a.text.starts_with('-') && !a.text.starts_with("--") && a.text.contains('i'))
    });
    let cleaned: Vec<Arg> = args.iter().filter(|a| !(a.text.starts_with("-i") && a.text.len() > 2)).cloned().collect();
    let options = Options::read(&cleaned, &valued);
    let sandboxed = options.has(&["--sandbox"]);
    let mut scripts: Vec<Arg> = options.values(&["-e", "--expression"]).cloned().collect();
    let mut files: Vec<Arg> = options.operands.iter().map(|a| (*a).clone()).collect();
    let mut found = Finding::allow("edits text");
    if options.has(&["-f", "--file"]) {
        found = found.or_worse(Finding::ask("a sed script in a file cannot be looked into"));
    } else if scripts.is_empty() && !files.is_empty() {
        scripts.push(files.remove(0));
    }
    if in_place {
        // On macOS the suffix is a word of its own: `sed -i '' s/a/b/ file`.
        if scripts.first().is_some_and(|s| s.text.is_empty()) && !files.is_empty() {
            scripts = vec![files.remove(0)];
        }
        found = files.iter().map(|f| w.writes(f, false)).fold(found, Finding::or_worse);
    }
    for script in scripts.iter().filter(|_| !sandboxed) {
        if !script.known {
            found = found.or_worse(Finding::ask("a part of the sed script cannot be told from the text"));
        }
        found = found.or_worse(sed_script(w, script));
    }
    found
}

/// Walks the commands of a sed script, for `e`, `w`, `r` and the flags of `s`.
fn sed_script(w: &mut Walker, script: &Arg) -> Finding {
    let chars: Vec<char> = script.text.chars().collect();
    let mut at = 0;
    let mut found = Finding::allow("edits text");
    let unclear = || Finding::ask("a sed script that cannot be read with certainty");
    // The text to the end of the line, which a file name or a command takes.
    let line = |at: &mut usize| {
        let start = *at;
        while chars.get(*at).is_some_and(|c| *c != '\n') {
            *at += 1;
        }
        chars[start.min(chars.len())..*at].iter().collect::<String>().trim().to_owned()
    };
    // Past the next `mark` that is not escaped.
    let skip = |at: &mut usize, mark: char| {
        while chars.get(*at).is_some_and(|c| *c != mark) {
            *at += if chars[*at] == '\\' { 2 } else { 1 };
        }
        *at += 1;
        *at <= chars.len()
    };
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '+' | '~' | '$' | '0'..='9' => {}
            '/' => {
                if !skip(&mut at, '/') {
                    return found.or_worse(unclear());
                }
                // Flags of an address.
                while matches!(chars.get(at), Some('I' | 'M')) {
                    at += 1;
                }
            }
            '\\' => {
                let Some(&mark) = chars.get(at) else { return found.or_worse(unclear()) };
                at += 1;
                if !skip(&mut at, mark) {
                    return found.or_worse(unclear());
                }
            }
            's' | 'y' => {
                let Some(&mark) = chars.get(at) else { return found.or_worse(unclear()) };
                at += 1;
                if !skip(&mut at, mark) || !skip(&mut at, mark) {
                    return found.or_worse(unclear());
                }
                while let Some(&flag) = chars.get(at) {
                    match flag {
                        'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => at += 1,
                        'e' if c == 's' => {
                            return found.or_worse(Finding::ask("a sed script that runs what it made as a command"));
                        }
                        'w' if c == 's' => {
                            at += 1;
                            let file = line(&mut at);
                            found = found.or_worse(w.writes(&script.with(file), false));
                        }
                        _ => break,
                    }
                }
            }
            'a' | 'i' | 'c' => {
                // The text may go on over lines that end with a backslash.
                loop {
                    let text = line(&mut at);
                    at += 1;
                    if !text.ends_with('\\') || at >= chars.len() {
                        break;
                    }
                }
            }
            'b' | 't' | 'T' | ':' | 'q' | 'Q' | 'l' | 'L' => {
                while chars.get(at).is_some_and(|c| !matches!(c, ';' | '\n' | '}')) {
                    at += 1;
                }
            }
            'r' | 'R' => {
                let file = line(&mut at);
                found = found.or_worse(w.each_folder(|p, f| p.read(&file, false, f)));
            }
            'w' | 'W' => {
                let file = line(&mut at);
                found = found.or_worse(w.writes(&script.with(file), false));
            }
            'e' => {
                let code = line(&mut at);
                if !code.is_empty() {
                    found = found.or_worse(run_text(w, &script.with(code), "a command of the sed script"));
                }
                found = found.or_worse(Finding::ask("a sed script that starts programs"));
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' | '=' => {}
            '#' => {
                line(&mut at);
            }
            // A part that is not known, where a command should be.
            _ => return found.or_worse(unclear()),
        }
    }
    found
}
