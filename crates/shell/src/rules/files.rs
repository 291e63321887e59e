//! Programs that delete, move, write or change files, and the check for secrets that all programs share.

use crate::expand::Arg;
use crate::paths::Place;
use crate::rules::options::Options;
use crate::verdict::{Finding, Verdict};
use crate::walk::Walker;

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    Some(match name {
        "rm" | "rmdir" | "unlink" | "trash" | "trash-put" | "rimraf" | "del-cli" | "srm" | "shred" | "wipe"
        | "gtrash" => remove(w, args),
        "mv" | "gmv" => movement(w, args, true),
        "cp" | "gcp" | "install" => movement(w, args, false),
        "ln" => link(w, args),
        "dd" => dd(w, args),
        "touch" | "mkdir" | "mkfifo" | "truncate" | "sponge" | "tee" | "fallocate" | "split" | "csplit"
        | "gtruncate" => {
            let valued: &[&str] = match name {
                "touch" => &["-r", "-d", "-t", "--reference", "--date"],
                "mkdir" | "mkfifo" => &["-m", "--mode"],
                "truncate" | "gtruncate" => &["-s", "-r", "--size", "--reference"],
                "fallocate" => &["-l", "-o", "--length", "--offset"],
                "split" | "csplit" => {
                    &["-a", "-b", "-C", "-l", "-n", "-t", "-f", "--lines", "--bytes", "--suffix-length", "--prefix"]
                }
                _ => &[],
            };
            let options = Options::read(args, valued);
            let skip = usize::from(matches!(name, "split" | "csplit"));
            let mut targets: Vec<Arg> = options.operands.iter().skip(skip).map(|a| (*a).clone()).collect();
            if name == "csplit" {
                targets = options.values(&["-f", "--prefix"]).cloned().collect();
            }
            if let Some(filter) = args.iter().find_map(|a| a.text.strip_prefix("--filter=").map(|f| a.with(f))) {
                return Some(crate::rules::shell::run_text(w, &filter, "a filter of split"));
            }
            if matches!(name, "mkdir" | "mkfifo") && options.values(&["-m", "--mode"]).any(special_mode) {
                return Some(Finding::ask("makes a folder with other rights (setuid)"));
            }
            let network = name == "tee" && w.stdin_origin() == crate::listing::Origin::Network;
            each(&targets, |t| w.writes(t, network)).unwrap_or_else(|| Finding::allow("writes nothing outside"))
        }
        "mktemp" => {
            let options = Options::read(args, &["-p", "--tmpdir", "--suffix"]);
            let folder = options.value(&["-p", "--tmpdir"]).cloned();
            folder.map(|f| w.writes(&f, false)).unwrap_or_else(|| Finding::allow("makes a temporary file"))
        }
        "chmod" => chmod(w, args),
        "chown" | "chgrp" => chown(w, args),
        "sort" | "uniq" | "shuf" | "tree" | "xxd" | "base64" | "iconv" | "jq" | "yq" | "diff" | "xmllint"
        | "csvcut" => reader_that_writes(w, name, args),
        "mknod" => Finding::deny("makes a device file"),
        "fd" | "fdfind" => fd(w, args),
        "rg" | "ripgrep" => {
            let options =
                Options::read(args, &["--pre", "--hostname-bin", "-e", "-f", "-g", "-t", "-T", "-A", "-B", "-C", "-m"]);
            match options.value(&["--pre", "--hostname-bin"]).cloned() {
                Some(program) => crate::rules::shell::run_text(w, &program, "a filter of the search"),
                None => recursive(w, &options.operands, Finding::allow("only reads")),
            }
        }
        "grep" | "egrep" | "fgrep" | "ag" | "ack" | "du" | "ls" if has_recursion(name, args) => {
            let options = Options::read(
                args,
                &["-e", "-f", "-A", "-B", "-C", "-m", "--include", "--exclude", "--exclude-dir", "-d", "-D"],
            );
            if matches!(name, "du" | "ls") {
                Finding::allow("only reads")
            } else {
                recursive(w, &options.operands, Finding::allow("only reads"))
            }
        }
        _ => return None,
    })
}

fn each(args: &[Arg], judge: impl FnMut(&Arg) -> Finding) -> Option<Finding> {
    args.iter().map(judge).reduce(Finding::or_worse)
}

fn has_recursion(name: &str, args: &[Arg]) -> bool {
    matches!(name, "ag" | "ack")
        || Options::read(args, &["-e", "-f"]).has(&["-r", "-R", "--recursive", "--dereference-recursive"])
}

/// Searching a folder with all that is in it.
fn recursive(w: &Walker, operands: &[&Arg], found: Finding) -> Finding {
    operands.iter().fold(found, |found, arg| {
        let looks_like_path = arg.text.starts_with(['/', '~', '.']);
        if looks_like_path { found.or_worse(w.each_folder(|p, f| p.read_all(&arg.text, arg.glob, f))) } else { found }
    })
}

pub(crate) fn delete(w: &Walker, target: &Arg) -> Finding {
    if target.text.is_empty() {
        return Finding::allow("an empty name");
    }
    let found = w.each_folder(|p, folder| p.delete(&target.text, target.glob, folder));
    if target.known {
        found
    } else {
        found.or_worse(Finding::ask("deletes something that cannot be told from the command"))
    }
}

fn remove(w: &mut Walker, args: &[Arg]) -> Finding {
    let options = Options::read(args, &["-n", "-s", "-z_", "--iterations", "--size"]);
    if options.has(&["--no-preserve-root"]) {
        return Finding::deny("switches off the protection of the root folder");
    }
    let found = options.operands.iter().map(|t| delete(w, t)).reduce(Finding::or_worse);
    found.unwrap_or_else(|| Finding::allow("deletes nothing"))
}

fn movement(w: &mut Walker, args: &[Arg], moves: bool) -> Finding {
    let valued = ["-t", "--target-directory", "-S", "--suffix", "-m", "-o", "-g", "--mode", "--owner", "--group"];
    let options = Options::read(args, &valued);
    let folder_only = !moves
        && options.has(&["-d", "--directory"])
        && !options.has(&["-R", "-r", "-a"])
        && options.operands.len() == 1;
    let (sources, target): (Vec<&Arg>, Option<Arg>) = match options.value(&["-t", "--target-directory"]) {
        Some(target) => (options.operands.clone(), Some(target.clone())),
        None if folder_only => (Vec::new(), options.operands.first().map(|a| (*a).clone())),
        None => match options.operands.split_last() {
            Some((last, sources)) => (sources.to_vec(), Some((*last).clone())),
            None => (Vec::new(), None),
        },
    };
    let mut found = Finding::allow("moves or copies within the workspace");
    if let Some(target) = &target {
        found = found.or_worse(w.writes(target, false));
        // Into a folder the names stay, so each is a file written there.
        for source in &sources {
            let name = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let inside = target.with(format!("{}/{name}", target.text.trim_end_matches('/')));
            let inside = w.writes(&inside, false);
            if target.text.ends_with('/') || inside.verdict == Verdict::Ask {
                found = found.or_worse(inside);
            }
            let copies_git = w
                .state
                .folders()
                .any(|f| matches!(w.paths.place(&source.text, source.glob, f), Place::GitInternal | Place::GitRuns));
            if copies_git {
                found = found.or_worse(Finding::ask("copies git's own files, which makes another repository"));
            }
        }
    }
    if options.values(&["-m", "--mode"]).any(special_mode) {
        found = found.or_worse(Finding::ask("lets a file run with other rights (setuid)"));
    }
    for source in sources {
        let judged =
            if moves { delete(w, source) } else { w.each_folder(|p, f| p.read_all(&source.text, source.glob, f)) };
        found = found.or_worse(judged);
    }
    found
}

fn link(w: &mut Walker, args: &[Arg]) -> Finding {
    let options = Options::read(args, &["-t", "--target-directory", "-S", "--suffix"]);
    let operands: Vec<Arg> = options.operands.iter().map(|a| (*a).clone()).collect();
    let Some((last, first)) = operands.split_last() else { return Finding::allow("links nothing") };
    let mut found = w.writes(options.value(&["-t", "--target-directory"]).unwrap_or(last), false);
    for target in first {
        let outside = w.state.folders().any(|f| {
            !matches!(
                w.paths.place(&target.text, target.glob, f),
                Place::Workspace | Place::WorkspaceFile | Place::TemporaryFile
            )
        });
        // A relative target is meant from where the link lies.
        let link_folder = last.text.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder);
        let from_link =
            if link_folder.is_empty() { target.text.clone() } else { format!("{link_folder}/{}", target.text) };
        let climbs = target.text.split('/').any(|part| part == "..")
            && [&target.text, &from_link].iter().all(|path| {
                w.state.folders().any(|f| {
                    !matches!(
                        w.paths.place(path, target.glob, f),
                        Place::Workspace | Place::WorkspaceFile | Place::TemporaryFile
                    )
                })
            });
        let own = w.state.folders().any(|f| {
            matches!(w.paths.place(&target.text, target.glob, f), Place::GitInternal | Place::GitRuns)
                || matches!(w.paths.place(&from_link, target.glob, f), Place::GitInternal | Place::GitRuns)
        });
        if own {
            found = found.or_worse(Finding::ask("links to git's own files, which would then have another name"));
        }
        if climbs || outside && (target.text.starts_with(['/', '~']) || !target.known) {
            found = found.or_worse(Finding::ask(format!("links to {}, outside the workspace", target.shown())));
        }
    }
    found
}

fn dd(w: &mut Walker, args: &[Arg]) -> Finding {
    let mut found = Finding::allow("copies within the workspace");
    for arg in args {
        match arg.text.split_once('=') {
            Some(("of", file)) => found = found.or_worse(w.writes(&arg.with(file), false)),
            Some(("if", file)) => found = found.or_worse(w.each_folder(|p, f| p.read(file, arg.glob, f))),
            None if !arg.known => found = found.or_worse(Finding::ask("what dd writes cannot be told")),
            _ => {}
        }
    }
    found
}

/// Changing rights or owners asks where writing would, and is refused where writing is.
fn changes(w: &Walker, target: &Arg) -> Finding {
    let found = w.each_folder(|p, folder| p.write(&target.text, target.glob, folder));
    match found.verdict {
        Verdict::Deny => {
            Finding::deny(format!("changes rights of {}, which does not belong to the workspace", target.shown()))
        }
        _ => found,
    }
}

fn chmod(w: &mut Walker, args: &[Arg]) -> Finding {
    // A mode may look like an option: `chmod -x file`.
    let is_mode =
        |a: &&Arg| a.text.starts_with('-') && a.text[1..].chars().all(|c| "rwxXst".contains(c)) && a.text.len() > 1;
    let options: Vec<&Arg> = args.iter().filter(|a| a.text.starts_with('-') && !is_mode(a)).collect();
    let recursive =
        options.iter().any(|o| o.text == "--recursive" || (!o.text.starts_with("--") && o.text.contains('R')));
    let mut operands: Vec<&Arg> = args.iter().filter(|a| !a.text.starts_with('-')).collect();
    let mode = match args.iter().find(is_mode) {
        Some(mode) => Some(mode),
        None if options.iter().any(|o| o.text.starts_with("--reference")) => None,
        None if operands.is_empty() => None,
        None => Some(operands.remove(0)),
    };
    let special = mode.is_some_and(special_mode);
    let mut found = Finding::allow("changes rights within the workspace");
    for target in operands {
        found = found.or_worse(changes(w, target));
        let everything = w.state.folders().any(|f| {
            matches!(
                w.paths.place(&target.text, target.glob, f),
                Place::Workspace | Place::Temporary | Place::Home | Place::System | Place::Above | Place::SharedRoot
            )
        });
        if recursive && everything {
            let place = w.each_folder(|p, f| p.delete(&target.text, target.glob, f));
            found = found.or_worse(match place.verdict {
                Verdict::Deny => Finding::deny(format!("changes the rights of everything in {}", target.shown())),
                _ => Finding::ask(format!("changes the rights of everything in {}", target.shown())),
            });
        }
        if special {
            found = found.or_worse(Finding::ask("lets a file run with other rights (setuid)"));
        }
    }
    found
}

/// A mode that sets the set-uid, set-gid or sticky bit, in letters or numbers, with or without an operator.
fn special_mode(mode: &Arg) -> bool {
    mode.text.split(',').any(|part| {
        let value = part.trim_start_matches(|c: char| "ugoa+-=".contains(c));
        let removes = part.contains('-') && !part.contains(['+', '=']);
        let number = u32::from_str_radix(value, 8).is_ok_and(|n| n > 0o777);
        // `u=rwxs`, `u+r+s`
        number || !removes && part.contains('s')
    }) || !mode.known
}

fn chown(w: &mut Walker, args: &[Arg]) -> Finding {
    let operands: Vec<&Arg> = args.iter().filter(|a| !a.text.starts_with('-')).skip(1).collect();
    let found = operands.into_iter().map(|t| {
        changes(w, t).or_worse(match w.each_folder(|p, f| p.delete(&t.text, t.glob, f)) {
            f if f.verdict == Verdict::Deny => Finding::deny(format!("changes the owner of {}", t.shown())),
            _ => Finding::allow(""),
        })
    });
    Finding::worst(found).unwrap_or_else(|| Finding::allow("")).or_worse(Finding::ask("changes who owns files"))
}

fn reader_that_writes(w: &mut Walker, name: &str, args: &[Arg]) -> Finding {
    let valued = [
        "-o",
        "--output",
        "-k",
        "-t",
        "-T",
        "-S",
        "-n",
        "-l",
        "-c",
        "-s",
        "-f",
        "-w",
        "-d",
        "-i_",
        "-b",
        "--compress-program",
        "-L",
        "-P",
        "-I",
        "-e",
    ];
    let valued: Vec<&str> = match name {
        "sort" => valued.to_vec(),
        "shuf" | "tree" | "xmllint" => vec!["-o", "--output", "-n", "-i", "-L", "-P", "-I"],
        "iconv" => vec!["-o", "--output", "-f", "-t"],
        "uniq" => vec!["-f", "-s", "-w"],
        "xxd" => vec!["-c", "-g", "-l", "-n", "-o", "-s"],
        "base64" => vec!["-w", "-o", "--output"],
        _ => vec!["--output"],
    };
    let options = Options::read(args, &valued);
    let mut targets: Vec<Arg> = Vec::new();
    if !matches!(name, "jq" | "yq" | "diff" | "uniq" | "xxd" | "csvcut") {
        targets.extend(options.values(&["-o", "--output"]).cloned());
    }
    match name {
        "uniq" => targets.extend(options.operands.get(1).map(|a| (*a).clone())),
        "xxd" => targets.extend(options.operands.get(1).map(|a| (*a).clone())),
        "yq" if options.has(&["-i", "--inplace"]) => {
            targets.extend(options.operands.iter().skip(1).map(|a| (*a).clone()))
        }
        _ => {}
    }
    let found = each(&targets, |t| w.writes(t, false)).unwrap_or_else(|| Finding::allow("only reads"));
    match options.value(&["--compress-program"]).cloned() {
        Some(program) => found.or_worse(crate::rules::shell::run_text(w, &program, "a filter of sort")),
        None => found,
    }
}

fn fd(w: &mut Walker, args: &[Arg]) -> Finding {
    let at = args.iter().position(|a| matches!(a.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch"));
    match at {
        None => Finding::allow("only reads"),
        Some(at) => {
            let found = Arg { text: "./*".into(), known: true, glob: true, cut: false };
            let mut command: Vec<Arg> =
                args[at + 1..].iter().map(|a| crate::rules::wrappers::replace(a, "{}", &found)).collect();
            if command == args[at + 1..] {
                command.push(found);
            }
            crate::rules::wrappers::start(w, &command, "a program for each file found")
        }
    }
}

/// `-o file` of compilers and the like.
pub(crate) fn outputs(w: &mut Walker, args: &[Arg]) -> Finding {
    let names = |name: &str| {
        let name = name.trim_start_matches('-').to_lowercase();
        name.starts_with("out") || name.ends_with("prefix") || name.ends_with("xml") || name.ends_with("-file")
    };
    let mut targets = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let text = arg.text.as_str();
        if let Some((_, value)) = text.split_once('=').filter(|(n, _)| n.starts_with('-') && names(n)) {
            targets.push(arg.with(value));
        } else if matches!(text, "-o" | "-d") || text.starts_with("--") && names(text) {
            targets.extend(args.get(i + 1).cloned());
        } else if let Some(value) = text.strip_prefix("-o").filter(|v| v.starts_with(['/', '~', '.'])) {
            targets.push(arg.with(value));
        }
    }
    targets.retain(|t| t.text.contains('/') || t.text.starts_with('~'));
    // A prefix is only written by a later install step.
    each(&targets, |t| match w.writes(t, false) {
        f if t.known && f.verdict == Verdict::Deny => {
            Finding::ask(format!("writes {}, outside the workspace", t.shown())).or_worse(system_only(w, t, f))
        }
        f => f,
    })
    .unwrap_or_else(|| Finding::allow(""))
}

/// Refused only where the place itself is a secret or a start-up file; `/usr/local` as a prefix is a question.
fn system_only(w: &Walker, target: &Arg, found: Finding) -> Finding {
    let bad = w.state.folders().any(|f| {
        matches!(
            w.paths.place(&target.text, target.glob, f),
            Place::Secret | Place::Startup | Place::Device | Place::Socket | Place::SystemFile
        )
    });
    if bad { found } else { Finding::allow("") }
}

/// No program may be pointed at keys and passwords.
pub(crate) fn reads(w: &Walker, name: &str, args: &[Arg]) -> Finding {
    let mut found = Finding::allow("");
    let pattern = pattern_operand(name, args);
    let bases = bases(args);
    let mut message = false;
    for (i, arg) in args.iter().enumerate() {
        if Some(i) == pattern || std::mem::take(&mut message) {
            continue;
        }
        message = matches!(arg.text.as_str(), "-m" | "--message" | "--body" | "--title")
            && matches!(name, "git" | "gh" | "hg");
        for path in path_candidates(&arg.text) {
            found = found.or_worse(w.each_folder(|p, folder| p.read(path, arg.glob, folder)));
            if !path.starts_with(['/', '~', '-']) {
                for base in &bases {
                    let path = format!("{base}/{path}");
                    found = found.or_worse(w.each_folder(|p, folder| p.read(&path, arg.glob, folder)));
                }
            }
        }
        if arg.cut {
            found = found.or_worse(Finding::ask(format!("where {} leads cannot be told", arg.shown())));
        }
    }
    found
}

/// Folders that relative paths are meant from: the values of `-C` and the like, each alone and one after the other.
pub(crate) fn bases(args: &[Arg]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut chain = String::new();
    let mut next = false;
    for arg in args {
        let text = arg.text.as_str();
        let attached = text.strip_prefix("--directory=").or_else(|| text.strip_prefix("--chdir="));
        let attached = attached.or_else(|| text.strip_prefix("-C").filter(|v| v.contains(['/', '~', '.'])));
        let value = if std::mem::take(&mut next) { Some(text) } else { attached };
        next = value.is_none() && matches!(text, "-C" | "--directory" | "--chdir" | "--cd");
        let Some(value) = value.filter(|_| found.len() < 16) else { continue };
        chain =
            if value.starts_with(['/', '~']) || chain.is_empty() { value.into() } else { format!("{chain}/{value}") };
        found.extend([value.to_owned(), chain.clone()]);
    }
    found.dedup();
    found
}

/// The operand that is a pattern or a program text, not a file.
fn pattern_operand(name: &str, args: &[Arg]) -> Option<usize> {
    if !matches!(
        name,
        "grep"
            | "egrep"
            | "fgrep"
            | "rg"
            | "ag"
            | "ack"
            | "zgrep"
            | "sed"
            | "awk"
            | "gawk"
            | "mawk"
            | "jq"
            | "yq"
            | "tr"
    ) {
        return None;
    }
    if args
        .iter()
        .any(|a| matches!(a.text.as_str(), "-e" | "-f" | "--regexp" | "--file" | "--expression" | "--from-file"))
    {
        return None;
    }
    args.iter().position(|a| !a.text.starts_with('-'))
}

/// Where a path can hide in an argument: `--key=path`, `@path`, `file:///path`, `-fpath`, `a:b`.
fn path_candidates(text: &str) -> Vec<&str> {
    let mut found = vec![text];
    found.extend(text.split_once('=').map(|(_, v)| v));
    found.extend(text.split_once('@').map(|(_, v)| v));
    found.extend(text.split_once("://").map(|(_, v)| v));
    if text.starts_with('-') {
        found.extend(text.find(['/', '~']).map(|at| &text[at..]));
    }
    if text.contains(':') && text.len() < 4096 {
        found.extend(text.split(':').filter(|p| p.starts_with(['/', '~', '.'])));
    }
    found.retain(|p| !p.is_empty() && p.len() < 4096);
    found
}
