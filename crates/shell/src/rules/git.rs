//! `git`: reading and local work pass; the network, lost work and configuration that runs programs do not.

use crate::expand::Arg;
use crate::rules::options::Options;
use crate::rules::shell::run_text;
use crate::rules::wrappers::{joined, start};
use crate::rules::{files, outside};
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

const READS: &str = "status log diff show blame annotate grep ls-files ls-tree rev-parse rev-list describe shortlog cat-file \
    name-rev merge-base cherry count-objects diff-tree diff-index diff-files for-each-ref show-ref show-branch \
    whatchanged var verify-commit verify-tag check-ignore check-attr check-ref-format range-diff fsck help \
    version get-tar-commit-id patch-id stripspace column symbolic-ref";

const LOCAL_WORK: &str = "add commit merge mv rm init cherry-pick revert apply am format-patch notes tag branch switch stash worktree \
    bundle archive write-tree commit-tree hash-object mktree update-index read-tree checkout-index sparse- \
    checkout rerere pack-refs gc maintenance repack interpret-trailers mailinfo bisect";

const NETWORK: &str = "push pull fetch clone ls-remote submodule send-email request-pull svn p4 daemon imap-send fetch-pack send- \
    pack http-fetch http-push lfs instaweb credential upload-pack receive-pack upload-archive shell cvsimport";

fn listed(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|n| n == name)
}

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    if name != "git" {
        return None;
    }
    let valued =
        ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"];
    let (options, rest) = Options::leading(args, &valued);
    let mut found = Finding::allow("reads or changes the repository");
    for setting in options.values(&["-c"]).cloned().collect::<Vec<_>>() {
        let (key, value) = setting.text.split_once('=').unwrap_or((&setting.text, "true"));
        found = found.or_worse(config_value(w, key, &setting.with(value)));
    }
    if options.values(&["--exec-path", "--config-env"]).next().is_some() {
        found = found.or_worse(Finding::ask("changes which programs git runs"));
    }
    // Paths are meant from the folder of `-C`.
    let folders: Vec<Arg> = options.values(&["-C"]).cloned().collect();
    let Some((sub, rest)) = rest.split_first() else { return Some(found) };
    if !folders.is_empty() {
        let mut inner: Vec<Arg> = Vec::new();
        for (flag, value) in options.flags.iter().filter(|(flag, _)| flag != "-C") {
            match value {
                Some(value) if flag.starts_with("--") => inner.push(value.with(format!("{flag}={}", value.text))),
                value => inner.extend([Arg::new(flag.clone())].into_iter().chain(value.clone())),
            }
        }
        inner.push(sub.clone());
        inner.extend_from_slice(rest);
        return Some(w.apart(None, |w| {
            for folder in &folders {
                let there =
                    |f: Option<&str>| w.paths.absolute(&folder.text, f).filter(|_| folder.known && !folder.glob);
                let folders: Vec<Option<String>> = w.state.folders().map(there).collect();
                w.state.go(folders);
            }
            let reads = files::reads(w, name, &inner);
            rule(w, name, &inner).unwrap_or(Finding::allow("")).or_worse(reads)
        }));
    }
    let elsewhere = options.values(&["--git-dir", "--work-tree"]).any(|folder| outside::leaves(w, folder));
    if elsewhere && !listed(READS, &sub.text) {
        found = found.or_worse(Finding::ask("works in a repository outside the workspace"));
    }
    if args.iter().take(args.len() - rest.len()).any(|a| !a.known) {
        return Some(found.or_worse(Finding::ask("which git command runs cannot be told")));
    }
    let has = |flags: &[&str]| Options::read(rest, &[]).has(flags);
    let word = |at: usize| {
        rest.iter().filter(|a| !a.text.starts_with('-')).nth(at).map(|a| a.text.as_str()).unwrap_or_default().to_owned()
    };
    // Options of any command that name a program or a file to write.
    for (i, arg) in rest.iter().enumerate() {
        let next = rest.get(i + 1);
        match arg.text.split_once('=').unwrap_or((&arg.text, "")) {
            (
                "--upload-pack"
                | "--receive-pack"
                | "--exec"
                | "--open-files-in-pager"
                | "--extcmd"
                | "--tool"
                | "--gpg-program"
                | "--paginate-with",
                _,
            ) => {
                found = found.or_worse(Finding::ask(format!("lets git run a program ({})", arg.shown())));
            }
            (name, file) if name.starts_with("--outp") && !file.is_empty() => {
                found = found.or_worse(w.writes(&arg.with(file), false))
            }
            ("-o" | "--output" | "--output-directory", "")
                if matches!(sub.text.as_str(), "archive" | "format-patch" | "bundle" | "diff" | "log" | "show") =>
            {
                found = next.map(|file| w.writes(file, false)).into_iter().fold(found, Finding::or_worse);
            }
            ("-o" | "--output" | "--output-directory", "") => {}
            (name, _) if sub.text == "format-patch" && name.starts_with("-o") && !name.starts_with("--") => {
                found = found.or_worse(w.writes(&arg.with(&name[2..]), false));
            }
            _ if arg.text.starts_with("ext::") || arg.text.starts_with("fd::") => {
                found = found.or_worse(Finding::deny("an address that makes git run a program"));
            }
            _ => {}
        }
    }
    if !listed(READS, &sub.text) && !matches!(sub.text.as_str(), "reflog" | "config") {
        found = found.or_worse(leads_out(w, &sub.text, rest));
    }
    let own = match sub.text.as_str() {
        "maintenance" if word(0) == "start" => Finding::deny("arranges to be run again later"),
        "maintenance" if matches!(word(0).as_str(), "register" | "unregister" | "stop") => {
            Finding::ask("changes what git does by itself, outside the workspace")
        }
        "grep" if rest.iter().any(|a| a.text.starts_with("-O")) => {
            Finding::ask("lets git run a pager of the command's choice")
        }
        "difftool" | "mergetool" => Finding::ask("starts a program to compare"),
        "config" => config(w, rest),
        "checkout" => {
            let restores = rest.iter().any(|a| matches!(a.text.as_str(), "--" | "." | "./"))
                || has(&["-f", "--force", "--ours", "--theirs"]);
            let restores = restores
                || (rest.len() > 1
                    && !has(&["-b", "-B", "--orphan", "-t", "--track", "--detach"])
                    && word(1).contains(['.', '/', '*']));
            if restores {
                Finding::ask("throws uncommitted changes away")
            } else {
                Finding::allow("changes the branch")
            }
        }
        "switch" if has(&["-f", "--force", "--discard-changes"]) => Finding::ask("throws uncommitted changes away"),
        "restore" if has(&["--staged", "-S"]) && !has(&["--worktree", "-W"]) => Finding::allow("unstages changes"),
        "restore" => Finding::ask("throws uncommitted changes away"),
        "reset" if has(&["--hard", "--merge", "--keep"]) => Finding::ask("throws uncommitted changes away"),
        "reset" => Finding::allow("unstages changes"),
        "clean" if has(&["-n", "--dry-run"]) => Finding::allow("only shows what it would delete"),
        "clean" => Finding::ask("deletes files that git does not keep"),
        "stash" if matches!(word(0).as_str(), "drop" | "clear") => Finding::ask("throws stashed changes away"),
        "branch" if has(&["-D", "-d", "--delete", "-f", "--force", "-M"]) => Finding::ask("deletes or moves a branch"),
        "tag" if has(&["-d", "--delete", "-f", "--force"]) => Finding::ask("deletes or moves a tag"),
        "reflog" if matches!(word(0).as_str(), "expire" | "delete") => Finding::ask("deletes what could be recovered"),
        "reflog" => Finding::allow("only reads"),
        "gc" if rest.iter().any(|a| a.text.starts_with("--prune") || a.text == "--aggressive") => {
            Finding::ask("deletes what could be recovered")
        }
        "prune" | "filter-branch" | "filter-repo" | "update-ref" | "replace" | "fast-import" | "unpack-objects" => {
            Finding::ask("rewrites or deletes history")
        }
        "rebase" => {
            let run = Options::read(rest, &["-x", "--exec", "--onto"]);
            match run.value(&["-x", "--exec"]).cloned() {
                Some(code) => run_text(w, &code, "a command at each commit").or_worse(Finding::ask("rewrites history")),
                None if has(&["-i", "--interactive", "--edit-todo"]) => Finding::ask("rewrites history"),
                None => Finding::allow("moves local commits, which can be undone"),
            }
        }
        "commit" if has(&["--amend"]) => Finding::allow("changes the last commit"),
        "bisect" if word(0) == "run" => {
            let at = rest.iter().position(|a| a.text == "run").unwrap_or(0);
            start(w, &rest[at + 1..], "a program at each step")
        }
        "submodule" if word(0) == "foreach" => {
            let at = rest.iter().position(|a| a.text == "foreach").unwrap_or(0);
            let command: Vec<Arg> = rest[at + 1..].iter().filter(|a| !a.text.starts_with("--")).cloned().collect();
            joined(w, &command, "a command in each submodule")
        }
        "submodule" if matches!(word(0).as_str(), "status" | "summary" | "") => Finding::allow("only reads"),
        "remote" if matches!(word(0).as_str(), "" | "show" | "get-url") && !has(&["show"]) || word(0) == "-v" => {
            Finding::allow("only reads")
        }
        "remote" => Finding::ask("changes where the repository is sent to"),
        "worktree" if word(0) == "add" => {
            let target = rest.iter().filter(|a| !a.text.starts_with('-')).nth(1).cloned();
            target.map(|t| w.writes(&t, false)).unwrap_or_else(|| Finding::allow("adds a worktree"))
        }
        "worktree" if word(0) == "remove" => Finding::ask("deletes a worktree"),
        "rm" => {
            let everything = rest.iter().any(|a| matches!(a.text.as_str(), "." | "*" | "./" | ":/"));
            if everything {
                Finding::ask("deletes everything that is tracked")
            } else {
                Finding::allow("deletes tracked files")
            }
        }
        "symbolic-ref" if !word(1).is_empty() => Finding::ask("changes a reference"),
        "archive" if has(&["--remote"]) => Finding::ask("talks to the network"),
        "init" if has(&["--bare"]) => Finding::ask("makes a repository whose settings lie in the open"),
        "init" => {
            let target = rest.iter().find(|a| !a.text.starts_with('-')).cloned();
            if rest.iter().any(|a| a.text.starts_with("--template")) {
                Finding::ask("takes hooks from a template")
            } else {
                target.map(|t| w.writes(&t, false)).unwrap_or_else(|| Finding::allow("makes a repository"))
            }
        }
        name if listed(READS, name) => Finding::allow("only reads"),
        name if listed(LOCAL_WORK, name) => Finding::allow("changes the repository, which can be undone"),
        name if listed(NETWORK, name) => Finding::ask("talks to the network"),
        name => Finding::ask(format!("`git {name}` is not a command that is known (it may be an alias)")),
    };
    Some(found.or_worse(own))
}

/// Arguments of a command that writes, other than messages and files it only reads, must stay in the workspace.
fn leads_out(w: &mut Walker, sub: &str, args: &[Arg]) -> Finding {
    const TEXTS: &[&str] =
        &["-m", "--message", "--author", "--date", "--trailer", "--format", "--pretty", "-F", "--file"];
    let only_reads = matches!(sub, "apply" | "am" | "hash-object");
    let texts = match sub {
        "commit" | "merge" | "tag" | "notes" | "stash" | "revert" | "cherry-pick" | "commit-tree" => TEXTS,
        _ => &[],
    };
    let (mut found, mut text) = (Finding::allow(""), false);
    for arg in args {
        let (name, value) = arg.text.split_once('=').unwrap_or((&arg.text, ""));
        let is_text = std::mem::replace(&mut text, texts.contains(&name) && value.is_empty());
        let attached = texts.contains(&name) && !value.is_empty() || !texts.is_empty() && arg.text.starts_with("-m");
        let cluster =
            arg.text.len() > 2 && arg.text.len() < 6 && arg.text.ends_with('m') && !arg.text.starts_with("--");
        text |= cluster && arg.text.starts_with('-') && sub == "commit";
        if is_text || attached || only_reads && !arg.text.starts_with('-') {
            continue;
        }
        found = found.or_worse(outside::argument(w, arg, true));
    }
    found
}

/// `git config`: reading passes; a value that is a program is judged as one.
fn config(w: &mut Walker, args: &[Arg]) -> Finding {
    let options = Options::read(args, &["-f", "--file", "--blob", "--type", "--default"]);
    if options.has(&[
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "-l",
        "--get-color",
        "--get-colorbool",
    ]) {
        return Finding::allow("only reads");
    }
    let words: Vec<&Arg> = options.operands.clone();
    let words = match words.first().map(|a| a.text.as_str()) {
        Some("get" | "list") => return Finding::allow("only reads"),
        Some("set") => words[1..].to_vec(),
        Some("unset" | "edit" | "rename-section" | "remove-section") => {
            return Finding::ask("changes git's configuration");
        }
        _ => words,
    };
    let file = options.value(&["-f", "--file"]).cloned().map(|f| w.writes(&f, false));
    let found = match words.as_slice() {
        [_] if options.flags.is_empty() || !options.has(&["--unset", "--unset-all", "-e", "--edit"]) => {
            Finding::allow("only reads")
        }
        [key, value, ..] => {
            let key = key.text.clone();
            let value = (*value).clone();
            let found = config_value(w, &key, &value);
            if options.has(&["--global", "--system"]) && found.verdict == Verdict::Allow {
                Finding::ask("changes git's configuration outside the workspace")
            } else if found.verdict == Verdict::Allow {
                found
            } else {
                // Kept, it acts on every later git command.
                found.or_worse(Finding::ask("changes which programs git runs"))
            }
        }
        _ => Finding::ask("changes git's configuration"),
    };
    file.into_iter().fold(found, Finding::or_worse)
}

/// A setting: harmless, or one by which git runs programs.
fn config_value(w: &mut Walker, key: &str, value: &Arg) -> Finding {
    let key = key.to_lowercase();
    let (section, rest) = key.split_once('.').unwrap_or((&key, ""));
    let last = rest.rsplit('.').next().unwrap_or_default();
    let harmless = matches!(section, "user" | "color" | "advice" | "column" | "log" | "i18n" | "status" | "rerere" | "feature" | "merge" if !matches!(last, "driver" | "tool"))
        || matches!(
            key.as_str(),
            "core.quotepath"
                | "core.autocrlf"
                | "core.eol"
                | "core.filemode"
                | "core.ignorecase"
                | "core.longpaths"
                | "core.abbrev"
                | "init.defaultbranch"
                | "commit.gpgsign"
                | "tag.gpgsign"
                | "commit.verbose"
                | "diff.algorithm"
                | "diff.renames"
                | "diff.renamelimit"
                | "diff.mnemonicprefix"
                | "diff.noprefix"
                | "pull.rebase"
                | "pull.ff"
                | "push.default"
                | "push.autosetupremote"
                | "fetch.prune"
                | "grep.linenumber"
                | "blame.date"
                | "format.pretty"
                | "gc.auto"
                | "protocol.version"
                | "submodule.recurse"
                | "safe.directory"
                | "branch.autosetuprebase"
                | "rebase.autosquash"
                | "rebase.autostash"
                | "core.commentchar"
                | "core.checkstat"
                | "core.symlinks"
        );
    if harmless {
        return Finding::allow("a harmless setting");
    }
    let command = value.text.strip_prefix('!').unwrap_or(&value.text);
    let pager = matches!(last, "pager" | "editor") && matches!(command, "cat" | "less" | "true" | ":" | "" | "more");
    if pager {
        return Finding::allow("a harmless pager or editor");
    }
    // `ext::sh -c …` in an address, or a command after some other word.
    if w.try_text(command) == Verdict::Deny || command.contains("ext::") {
        return Finding::deny(format!("makes git run `{command}`"));
    }
    Finding::ask(format!("the setting {key} may make git run a program"))
}
