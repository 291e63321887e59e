//! Code inside an argument: looked into as far as words and quoted texts go.

use crate::expand::Arg;
use crate::quote::{Octal, unescape};
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

/// Names that let code start programs, load other code, reach the network or hide what it does.
const POWERS: &str = "system popen spawn exec fork subprocess child_process eval execfile compile ctypes socket pty shell urllib \
    requests httplib http https aiohttp httpx ftplib smtplib telnetlib paramiko importlib import_module \
    __import__ getattr setattr globals locals vars builtins __builtins__ __dict__ __class__ __subclasses__ \
    __mro__ __getattribute__ modules constructor globalThis global Reflect marshal pickle codecs base64 \
    b64decode fromhex unhexlify fromCharCode atob Function fetch XMLHttpRequest WebSocket net tls dgram vm \
    worker_threads execSync execFile execFileSync spawnSync shell_exec passthru proc_open pcntl_exec assert \
    create_function call_user_func array_map Open3 IO Socket TCPSocket LWP Net kill rmtree rmdir unlink remove \
    removedirs rmSync rm_rf rm_r unlinkSync rmdirSync FileUtils File Dir rename renameSync chmod chown symlink symlink_to hardlink_to \
    truncate write_text write_bytes writeFileSync writeFile appendFileSync createWriteStream file_put_contents \
    putenv environ ENV process os shutil qx syscall dlopen ffi cffi mmap multiprocessing asyncio require load \
    loadstring loadfile dofile io Deno Bun Runtime ProcessBuilder Process Kernel open chr pack decode breakpoint \
    webbrowser runpy send __send__ public_send method instance_eval class_eval const_get run program command \
    execute Sys tempfile glob2 syscalls POSIX";

/// Modules of the names above that are plain tools, with the members that are not taken back.
const HARMLESS: &[&str] = &[
    "os.path",
    "os.getcwd",
    "os.listdir",
    "os.walk",
    "os.sep",
    "os.cpu_count",
    "process.version",
    "process.versions",
    "process.platform",
    "process.arch",
    "process.argv",
    "process.stdout.write",
    "process.cwd",
    "process.memoryUsage",
    "process.hrtime",
    "require('fs').readFileSync",
    "require(\"fs\").readFileSync",
    "require('./",
    "require(\"./",
    "require('path')",
    "require(\"path\")",
    "require('util')",
    "require('assert')",
    "require('os').cpus",
    "require('url')",
    "import os;",
    "import os\n",
    "import os,",
    ", os\n",
    "import json, os",
    "import sys, os",
    "import sys,os",
    "import os, sys",
    "io.read",
    "io.write",
    "io.lines",
    "io.StringIO",
    "import io;",
    "import io\n",
    "json.load",
    ".decode(",
    ".encode(",
    "bytes(",
];

fn is_power(word: &str) -> bool {
    POWERS.split_whitespace().any(|power| power == word)
}

/// Code that is seen: forbidden if a command in it is, a question if it has powers, else harmless.
pub(crate) fn inline(w: &mut Walker, code: &Arg) -> Finding {
    if !code.known {
        return crate::rules::shell::run_text(w, &Arg { known: false, ..Arg::new("") }, "the code");
    }
    let text = &code.text;
    if let Some(found) = forbidden(w, text) {
        return found;
    }
    let mut plain = text.to_owned();
    for harmless in HARMLESS {
        plain = plain.replace(harmless, " ");
    }
    let plain = without_texts(&plain);
    // An escape in code can spell any name.
    if plain.contains("\\x") || plain.contains("\\u") || plain.contains("\\N{") {
        return Finding::ask("code with escaped text cannot be looked into");
    }
    // Backticks, dynamic imports, `do "file"`, and calls through a name that is computed.
    let marks = ["`", "%x", "import(", "do 0", "&{", "&$", "$$", "](", "}("];
    let php_call = plain
        .split('$')
        .skip(1)
        .any(|rest| rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').starts_with('('));
    if marks.iter().any(|m| plain.contains(m)) || php_call {
        return Finding::ask("code that may start programs");
    }
    let power = identifiers(&plain).find(|word| is_power(word) && *word != "open");
    if let Some(word) = power {
        return Finding::ask(format!("code that uses `{word}`"));
    }
    match opened(text) {
        None => Finding::ask("code that opens a file in a way that cannot be told"),
        Some(files) if files.is_empty() => Finding::allow("code that only computes and reads"),
        Some(files) => files
            .iter()
            .map(|f| w.writes(&Arg::new(f.clone()), false))
            .fold(Finding::allow("code that writes files"), Finding::or_worse),
    }
}

/// Python that can do nothing but compute and print.
pub(crate) fn only_prints(code: &str) -> bool {
    const PURE: &str = "print len str repr int float sum min max sorted reversed range enumerate zip for in if else not and or \
        join upper lower strip split replace True False None sep end f r b";
    let plain = without_texts(code);
    identifiers(&plain)
        .all(|word| word.bytes().all(|b| b.is_ascii_digit()) || PURE.split_whitespace().any(|p| p == word))
}

/// The files that `open(…)` opens for writing; None if that cannot be told.
fn opened(code: &str) -> Option<Vec<String>> {
    let mut files = Vec::new();
    for (at, _) in code.match_indices("open") {
        let bounded = code[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
        let rest = &code[at + "open".len()..];
        if !bounded || rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let inner = rest.strip_prefix('(')?;
        let (inner, _) = inner.split_once(')')?;
        let (file, mode) = inner.split_once(',').unwrap_or((inner, "'r'"));
        let mode = mode.trim().trim_start_matches("mode=").trim_matches(['"', '\'']);
        if mode.starts_with("encoding") || mode.starts_with("errors") || mode.starts_with("r") && !mode.contains('+') {
            continue;
        }
        let literal = file.trim().trim_matches(['"', '\'']);
        if literal.len() + 2 != file.trim().len() || literal.contains(['"', '\'', '\\']) {
            return None;
        }
        files.push(literal.to_owned());
    }
    Some(files)
}

/// Code without its quoted texts, but for those that hold code in turn (`f"{…}"`, `"#{…}"`, `"@{…}"`).
fn without_texts(code: &str) -> String {
    let chars: Vec<char> = code.chars().collect();
    let (mut out, mut at) = (String::new(), 0);
    while let Some(&mark) = chars.get(at) {
        at += 1;
        if !matches!(mark, '"' | '\'') {
            out.push(mark);
            continue;
        }
        let start = at;
        while chars.get(at).is_some_and(|c| *c != mark) {
            at += if chars[at] == '\\' { 2 } else { 1 };
        }
        let text: String = chars[start..at.min(chars.len())].iter().collect();
        at += 1;
        let formatted = out.ends_with(['f', 'F']) && text.contains('{');
        if formatted || ["#{", "${", "@{", "{$"].iter().any(|m| text.contains(m)) {
            out.push(' ');
            out.push_str(&text);
            out.push(' ');
        } else {
            out.push('0');
        }
    }
    out
}

pub(crate) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty())
}

/// Commands and paths inside code, wherever the language puts them: in quotes, side by side in a list, or bare.
pub(crate) fn forbidden(w: &mut Walker, code: &str) -> Option<Finding> {
    let literals = literals(code);
    let joined = literals.join(" ");
    let calls = [
        "system",
        "exec",
        "spawn",
        "popen",
        "subprocess",
        "shell",
        "qx",
        "%x",
        "`",
        "run",
        "call",
        "check_output",
        "Popen",
        "sh",
    ]
    .iter()
    .any(|c| code.contains(c));
    for literal in literals.iter().take(64).chain([&joined]) {
        let command_like = calls || literal.contains(' ');
        if command_like && literal.len() < 16 * 1024 && w.try_text(literal) == Verdict::Deny {
            return Some(Finding::deny(format!("code that runs or names `{}`, which is forbidden", shorten(literal))));
        }
    }
    let deletes = identifiers(code).any(|i| {
        matches!(
            i,
            "rmtree"
                | "rm_rf"
                | "rm_r"
                | "remove_entry_secure"
                | "rmSync"
                | "rmdirSync"
                | "rmdir"
                | "removeSync"
                | "unlink"
                | "unlinkSync"
                | "remove"
                | "rm"
                | "delete"
                | "File"
                | "removedirs"
                | "remove_tree"
        )
    });
    for literal in literals.iter().take(64) {
        let paths = &w.paths;
        let read = w.each_folder(|p, f| p.read(literal, literal.contains('*'), f));
        if read.verdict == Verdict::Deny {
            return Some(Finding::deny(format!("code that names {literal}, which holds keys or passwords")));
        }
        let looks_absolute = literal.starts_with(['/', '~']);
        if deletes && looks_absolute && paths.delete(literal, literal.contains('*'), None).verdict == Verdict::Deny {
            return Some(Finding::deny(format!("code that deletes {literal}")));
        }
        if looks_absolute && writes(code) && paths.write(literal, false, None).verdict == Verdict::Deny {
            return Some(Finding::deny(format!("code that writes {literal}")));
        }
    }
    let words: Vec<&str> = identifiers(code).collect();
    let has = |word: &str| words.contains(&word);
    if (has("socket") || has("Socket") || has("TCPSocket") || has("net") || has("fsockopen"))
        && (has("dup2") || has("sh") || has("bash") || has("pty"))
    {
        return Some(Finding::deny("code that gives a shell to the network (reverse shell)"));
    }
    if has("fork") && (has("while") || has("for") || has("loop")) {
        return Some(Finding::deny("code that starts copies of itself without end (fork bomb)"));
    }
    if (has("exec") || has("eval"))
        && (has("b64decode") || has("atob") || has("decode_base64") || has("fromhex") || has("unhexlify"))
    {
        return Some(Finding::deny("code that runs hidden (decoded) text"));
    }
    if (has("urlopen") || has("urlretrieve") || has("requests")) && (has("exec") || has("eval") || has("system")) {
        return Some(Finding::deny("code that runs what comes from the network"));
    }
    // `system q(rm -rf /)`: no quotes that are known.
    for (at, _) in code.match_indices("rm ").take(16) {
        let bounded = code[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || "_-./".contains(c)));
        let rest = &code[at..];
        let end = rest.find(['"', '\'', '`', ')', ']', '}', '\n', ';', '|']).unwrap_or(rest.len());
        let end = rest.floor_char_boundary(end.min(1000));
        if bounded && w.try_text(&rest[..end]) == Verdict::Deny {
            return Some(Finding::deny(format!("code that holds `{}`", shorten(&rest[..end]))));
        }
    }
    None
}

fn writes(code: &str) -> bool {
    ["'w", "\"w", "'a'", "\"a\"", "write", ">"].iter().any(|w| code.contains(w))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The quoted texts of code, unescaped.
pub(crate) fn literals(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(&mark) = chars.get(at) {
        at += 1;
        if !matches!(mark, '"' | '\'' | '`') {
            continue;
        }
        let start = at;
        while chars.get(at).is_some_and(|c| *c != mark) {
            at += if chars[at] == '\\' { 2 } else { 1 };
        }
        let end = at.min(chars.len());
        if end > start {
            found.push(unescape(&chars[start..end], Octal::Three));
        }
        at = end + 1;
    }
    found
}
