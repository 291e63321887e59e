//! What a command prints, where that can be told without running it, and where its text comes from.

use crate::expand::{Arg, Env};
use crate::lex::MAX_DEPTH;
use crate::programs;
use crate::quote::{Octal, unescape};
use crate::rules::options::Options;
use crate::tree::{Node, Simple, scripts_in};

/// The worst source of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Plain,
    /// Made readable by a program: base64 and the like.
    Decoder,
    Network,
}

/// The one simple command of a node that has no other and no redirection of its output.
fn only(node: &Node) -> Option<&Simple> {
    match node {
        Node::Simple(simple) => Some(simple),
        Node::Sequence(statements) => match statements.as_slice() {
            [(_, one)] => only(one),
            _ => None,
        },
        Node::Pipeline(commands) => match commands.as_slice() {
            [one] => only(one),
            _ => None,
        },
        _ => None,
    }
}

/// The words of the only command, if each has but one value.
fn certain_words(node: &Node, env: Env) -> Option<Vec<Arg>> {
    let simple = only(node)?;
    let reads_file = simple.redirects.iter().any(|r| !(r.op.starts_with('>') && r.fd.as_deref() == Some("2")));
    if reads_file || simple.words.first().is_some_and(|w| w.as_assignment().is_some()) {
        return None;
    }
    let mut instances = env.instances(&simple.words).into_iter();
    let (first, more) = (instances.next()?, instances.next());
    (more.is_none() && first.iter().all(|a| a.known)).then_some(first)
}

/// What a pipeline prints: text passes through `cat` and `tee` unchanged.
pub(crate) fn piped(commands: &[Node], env: Env) -> Option<String> {
    let (first, filters) = commands.split_first()?;
    for filter in filters {
        let words = certain_words(filter, env)?;
        match words.split_first()? {
            (program, []) if program.text == "cat" => {}
            (program, [dash]) if program.text == "cat" && dash.text == "-" => {}
            (program, _) if program.text == "tee" => {}
            _ => return None,
        }
    }
    output(first, env)
}

/// The text of the one here-document or here-string that `cat` prints.
fn catted(node: &Node, env: Env) -> Option<String> {
    let simple = only(node)?;
    let is_cat = matches!(simple.words.as_slice(), [word] if word.as_literal().is_some_and(|t| t.rsplit('/').next() == Some("cat")));
    match simple.redirects.as_slice() {
        [redirect] if is_cat && redirect.op == "<<<" => {
            let mut values = env.unsplit(&redirect.target).into_iter();
            let (first, more) = (values.next()?, values.next());
            (more.is_none() && first.known).then_some(first.text)
        }
        _ => None,
    }
}

/// What the node prints.
pub(crate) fn output(node: &Node, env: Env) -> Option<String> {
    if let Some(text) = catted(node, env) {
        return Some(text);
    }
    let words = certain_words(node, env)?;
    let (program, args) = words.split_first()?;
    let texts: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
    match program.text.rsplit('/').next()? {
        "echo" => {
            if args.iter().any(|a| a.glob) {
                return None;
            }
            let mut rest = texts.as_slice();
            let mut escapes = false;
            while let Some((flag, more)) = rest.split_first() {
                if !(flag.len() > 1 && flag.starts_with('-') && flag[1..].chars().all(|c| "neE".contains(c))) {
                    break;
                }
                escapes |= flag.contains('e');
                rest = more;
            }
            let text = rest.join(" ");
            Some(if escapes { unescape(&text.chars().collect::<Vec<_>>(), Octal::AfterZero) } else { text })
        }
        "printf" => {
            let rest = if texts.first() == Some(&"--") { &texts[1..] } else { &texts };
            let (format, values) = rest.split_first()?;
            if format.starts_with('-') { None } else { printf(format, values) }
        }
        "pwd" => {
            let mut folders = env.state.folders();
            let folder = folders.next()??.to_owned();
            folders.next().is_none().then_some(folder)
        }
        "which" if texts.len() == 1 && !texts[0].starts_with('-') => Some(texts[0].to_owned()),
        "command" | "type" => match texts.as_slice() {
            ["-v" | "-V" | "-p" | "-P", name] => Some((*name).to_owned()),
            _ => None,
        },
        "git" => match texts.as_slice() {
            ["rev-parse", "--show-toplevel"] => Some(env.paths.workspace.clone()),
            _ => None,
        },
        // Some new name in the temporary folder.
        "mktemp"
            if texts.iter().all(|t| {
                matches!(*t, "-d" | "-q" | "-t" | "-u" | "--directory") || (t.starts_with("/tmp/") && !t.contains(".."))
            }) =>
        {
            Some("/tmp/tmp.0".to_owned())
        }
        // A number, or a date without slashes: it names no place.
        "nproc" | "date" if texts.iter().all(|t| t.chars().all(|c| c.is_alphanumeric() || "+-%_.:".contains(c))) => {
            Some("0".to_owned())
        }
        _ => None,
    }
}

/// `%s`, `%b`, `%d` and `%%`; the format is used again while values are left.
fn printf(format: &str, values: &[&str]) -> Option<String> {
    let mut text = String::new();
    let mut values = values.iter();
    loop {
        let left = values.len();
        let chars: Vec<char> = format.chars().collect();
        let mut plain = Vec::new();
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            at += 1;
            if c != '%' {
                plain.push(c);
                continue;
            }
            text.push_str(&unescape(&std::mem::take(&mut plain), Octal::Three));
            match chars.get(at) {
                Some('%') => text.push('%'),
                Some('s' | 'd') => text.push_str(values.next().copied().unwrap_or_default()),
                Some('b') => {
                    let value: Vec<char> = values.next().copied().unwrap_or_default().chars().collect();
                    text.push_str(&unescape(&value, Octal::AfterZero));
                }
                _ => return None,
            }
            at += 1;
        }
        text.push_str(&unescape(&plain, Octal::Three));
        if values.len() == 0 {
            return Some(text);
        }
        if values.len() == left || text.len() > 16 * 1024 {
            return None;
        }
    }
}

/// The paths the node prints, one a line, each as the pattern of what it can be.
pub(crate) fn paths(commands: &[Node], env: Env) -> Option<Vec<Arg>> {
    let (first, filters) = commands.split_first()?;
    for filter in filters {
        let words = certain_words(filter, env)?;
        let takes_lines =
            matches!(words.first()?.text.as_str(), "grep" | "sort" | "uniq" | "head" | "tail" | "egrep" | "fgrep");
        // A filter with files of its own prints their lines, not the paths.
        let operands = words.iter().skip(1).filter(|w| !w.text.starts_with('-')).count();
        if !takes_lines || operands > 1 {
            return None;
        }
    }
    let words = certain_words(first, env)?;
    let (program, args) = words.split_first()?;
    match program.text.as_str() {
        "find" => {
            let plan = crate::rules::find::plan(args);
            plan.prints_paths.then_some(plan.reached)
        }
        "git"
            if args.first()?.text == "ls-files"
                || matches!(args, [a, b, ..] if a.text == "grep" && b.text.starts_with("-l")) =>
        {
            Some(vec![Arg { text: "*".into(), known: true, glob: true, cut: false }])
        }
        "grep" | "egrep" | "fgrep" | "rg" | "ag" => {
            let options = Options::read(
                args,
                &["-e", "-f", "-A", "-B", "-C", "-m", "-g", "-t", "-T", "--include", "--exclude", "--glob"],
            );
            if !options.has(&["-l", "--files-with-matches", "-L", "--files-without-match", "--files"]) {
                return None;
            }
            let pattern = usize::from(!options.has(&["-e", "-f", "--files"]));
            let mut roots: Vec<Arg> = options.operands.iter().skip(pattern).map(|a| inside(a)).collect();
            if roots.is_empty() {
                roots.push(Arg { text: "*".into(), known: true, glob: true, cut: false });
            }
            Some(roots)
        }
        "ls" | "echo" | "printf" => {
            let text = if program.text == "ls" { None } else { output(first, env) };
            match text {
                Some(text) => Some(text.split_whitespace().map(Arg::new).collect()),
                None if program.text == "ls" && !args.iter().any(|a| a.text.starts_with('/')) => None,
                None => None,
            }
        }
        _ => None,
    }
}

/// Any file in a folder, or the file itself.
fn inside(root: &Arg) -> Arg {
    Arg { text: format!("{}/*", root.text.trim_end_matches('/')), known: root.known, glob: true, cut: false }
}

/// The worst source among all programs a node starts.
pub(crate) fn origin(node: &Node) -> Origin {
    let mut worst = Origin::Plain;
    visit(node, 0, &mut |simple| {
        for word in simple.words.iter().take(8) {
            let Some(text) = word.as_literal() else { continue };
            let name = text.rsplit('/').next().unwrap_or_default();
            if programs::is_network(name) {
                worst = worst.max(Origin::Network);
            } else if programs::is_decoder(name) {
                worst = worst.max(Origin::Decoder);
            }
            // Past the program only wrappers' operands can be programs.
            if word.as_assignment().is_none()
                && !programs::is_wrapper(name)
                && !text.starts_with('-')
                && !is_number(&text)
            {
                break;
            }
        }
    });
    worst
}

fn is_number(text: &str) -> bool {
    text.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok()
}

/// Calls `found` for every simple command, also inside substitutions.
pub(crate) fn visit(node: &Node, depth: usize, found: &mut dyn FnMut(&Simple)) {
    if depth > 4 * MAX_DEPTH {
        return;
    }
    match node {
        Node::Simple(simple) => {
            found(simple);
            for word in simple.words.iter().chain(simple.redirects.iter().map(|r| &r.target)) {
                scripts_in(&word.pieces, &mut |script| visit(&script.body, depth + 1, found));
            }
        }
        Node::Sequence(statements) => statements.iter().for_each(|(_, n)| visit(n, depth + 1, found)),
        Node::Pipeline(commands) => commands.iter().for_each(|n| visit(n, depth + 1, found)),
        Node::Subshell(inner) => visit(inner, depth + 1, found),
        Node::Branch { head, words, arms } => {
            visit(head, depth + 1, found);
            words.iter().for_each(|w| scripts_in(&w.pieces, &mut |s| visit(&s.body, depth + 1, found)));
            arms.iter().for_each(|n| visit(n, depth + 1, found));
        }
        Node::Loop { variable, head, body } => {
            if let Some((_, words)) = variable {
                words.iter().for_each(|w| scripts_in(&w.pieces, &mut |s| visit(&s.body, depth + 1, found)));
            }
            visit(head, depth + 1, found);
            visit(body, depth + 1, found);
        }
        Node::Function { body, .. } => visit(body, depth + 1, found),
        Node::Redirected(inner, redirects) => {
            visit(inner, depth + 1, found);
            for redirect in redirects {
                scripts_in(&redirect.target.pieces, &mut |s| visit(&s.body, depth + 1, found));
            }
        }
    }
}
