//! `awk`: its programs can start others and write files.

use crate::expand::Arg;
use crate::rules::inline::{forbidden, identifiers, literals};
use crate::rules::options::Options;
use crate::rules::outside;
use crate::rules::shell::script_file;
use crate::verdict::Finding;
use crate::walk::Walker;

pub(crate) fn awk(w: &mut Walker, args: &[Arg]) -> Finding {
    let valued = ["-F", "-v", "-f", "--file", "-i", "--include", "-l", "--load", "-e", "--source", "-E", "--exec"];
    // Their value, a file that is written, is attached or missing.
    let mut found = Finding::allow("only computes");
    let long = ["--pretty-print", "--profile", "--dump-variables"];
    let mut rest = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let code = i > 0 && valued.contains(&args[i - 1].text.as_str());
        let short = ["-o", "-p", "-d"].iter().find_map(|o| arg.text.strip_prefix(o)).filter(|_| !code);
        let file = short.or_else(|| arg.text.split_once('=').filter(|(n, _)| long.contains(n)).map(|(_, v)| v));
        match file {
            Some("") => {}
            Some(file) => found = found.or_worse(w.writes(&arg.with(file), false)),
            None => {
                // `-So/etc/x`
                if arg.text.starts_with('-') && !code && !arg.text.starts_with("-F") && !arg.text.starts_with("-v") {
                    found = found.or_worse(outside::argument(w, arg, true));
                }
                rest.push(arg.clone());
            }
        }
    }
    let args = rest.as_slice();
    let options = Options::read(args, &valued);
    for file in options.values(&["-f", "--file", "-E", "--exec", "-i", "--include"]).cloned().collect::<Vec<_>>() {
        if file.text != "inplace" {
            found = found.or_worse(script_file(w, &file));
        } else {
            let files: Vec<Arg> = options.operands.iter().skip(1).map(|a| (*a).clone()).collect();
            found = files.iter().map(|f| w.writes(f, false)).fold(found, Finding::or_worse);
        }
    }
    if options.has(&["-l", "--load"]) {
        found = found.or_worse(Finding::ask("loads a library"));
    }
    let mut codes: Vec<Arg> = options.values(&["-e", "--source"]).cloned().collect();
    if codes.is_empty() && !options.has(&["-f", "--file", "-E", "--exec"]) {
        codes.extend(options.operands.first().map(|a| (*a).clone()));
    }
    for code in codes {
        found = found.or_worse(awk_code(w, &code));
    }
    found
}

fn awk_code(w: &mut Walker, code: &Arg) -> Finding {
    if !code.known && code.text.chars().all(|c| c == crate::paths::UNKNOWN) {
        return Finding::ask("the awk program cannot be told from the text");
    }
    if let Some(found) = forbidden(w, &code.text) {
        return found;
    }
    let bare = without_literals(&code.text);
    if !code.known {
        return Finding::ask("a part of the awk program cannot be told from the text");
    }
    let words: Vec<&str> = identifiers(&bare).collect();
    if words.iter().any(|i| matches!(*i, "system" | "load"))
        || bare.contains("|&")
        || code.text.contains("/inet/")
        || bare.contains('@')
    {
        return Finding::ask("an awk program that starts other programs");
    }
    if bare.replace("||", "").contains('|') {
        return Finding::ask("an awk program that pipes into or from other programs");
    }
    if prints_to_file(&bare) {
        // Where it writes to is one of the literals, if there is one that looks like a file.
        let target = literals(&code.text).into_iter().rfind(|l| l.contains('/') || l.contains('.'));
        return match target {
            Some(file) => w.writes(&Arg::new(file), false),
            None => Finding::ask("an awk program that writes files"),
        };
    }
    if words.contains(&"getline") && bare.contains('<') {
        return Finding::ask("an awk program that reads files of its own choice");
    }
    Finding::allow("only computes")
}

/// `print … > file`, unlike `print (a > b)`.
fn prints_to_file(bare: &str) -> bool {
    bare.match_indices("print").any(|(at, _)| {
        let mut open = 0;
        for c in bare[at..].chars() {
            match c {
                '(' => open += 1,
                ')' => open -= 1,
                ';' | '}' | '\n' if open <= 0 => return false,
                '>' if open <= 0 => return true,
                _ => {}
            }
        }
        false
    })
}

/// awk code without strings and regular expressions.
fn without_literals(code: &str) -> String {
    let chars: Vec<char> = code.chars().collect();
    let (mut out, mut at) = (String::new(), 0);
    while let Some(&c) = chars.get(at) {
        at += 1;
        let before = out.trim_end().chars().next_back();
        let opens = c == '"' || (c == '/' && before.is_none_or(|b| "(,{;!~&|".contains(b)));
        if !opens {
            out.push(c);
            continue;
        }
        while chars.get(at).is_some_and(|d| *d != c) {
            at += if chars[at] == '\\' { 2 } else { 1 };
        }
        at += 1;
        out.push('0');
    }
    out
}
