//! Archives: where they unpack to, what they pack, and the programs they can be told to run.

use crate::expand::Arg;
use crate::rules::files;
use crate::rules::options::Options;
use crate::rules::shell::run_text;
use crate::verdict::Finding;
use crate::walk::Walker;

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    Some(match name {
        "tar" | "bsdtar" | "gtar" => tar(w, args),
        "unzip" => {
            let options = Options::read(args, &["-d", "-x"]);
            match options.value(&["-d"]).cloned() {
                Some(folder) => w.writes(&folder, false),
                None => Finding::allow("unpacks in the workspace"),
            }
        }
        "zip" => {
            let options = Options::read(args, &["-TT", "--unzip-command", "-i", "-x", "-b", "-n", "-O", "-P"]);
            let target = options.operands.first().map(|a| (*a).clone());
            let mut found = target.map(|t| w.writes(&t, false)).unwrap_or_else(|| Finding::allow("packs"));
            for code in options.values(&["-TT", "--unzip-command"]).cloned().collect::<Vec<_>>() {
                found = found.or_worse(Finding::ask("runs a program to test the archive")).or_worse(run_text(
                    w,
                    &code,
                    "a test of the archive",
                ));
            }
            options
                .operands
                .iter()
                .skip(1)
                .fold(found, |f, a| f.or_worse(w.each_folder(|p, folder| p.read_all(&a.text, a.glob, folder))))
        }
        "7z" | "7za" | "7zr" | "unrar" | "rar" => {
            let targets: Vec<Arg> = args.iter().filter_map(|a| a.text.strip_prefix("-o").map(|t| a.with(t))).collect();
            let second = args.iter().filter(|a| !a.text.starts_with('-')).nth(1).cloned();
            targets
                .iter()
                .chain(&second)
                .map(|t| w.writes(t, false))
                .reduce(Finding::or_worse)
                .unwrap_or_else(|| Finding::allow("packs or unpacks"))
        }
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "unzstd" | "lz4" | "pigz" | "brotli" => {
            let options = Options::read(args, &["-o", "-S", "--suffix", "-b", "-T"]);
            if options.has(&["-c", "--stdout", "--to-stdout", "-l", "--list", "-t", "--test"]) {
                return Some(Finding::allow("only reads"));
            }
            let targets: Vec<Arg> =
                options.operands.iter().map(|a| (*a).clone()).chain(options.values(&["-o"]).cloned()).collect();
            targets
                .iter()
                .map(|t| w.writes(t, false))
                .reduce(Finding::or_worse)
                .unwrap_or_else(|| Finding::allow("packs or unpacks"))
        }
        "cpio" | "pax" | "ar-extract" => Finding::ask("unpacks to wherever the archive says"),
        "patch" => {
            let options = Options::read(
                args,
                &["-p", "-i", "-d", "-o", "-r", "-B", "-D", "-F", "-V", "-z", "--input", "--directory", "--output"],
            );
            let targets: Vec<Arg> = options
                .values(&["-d", "-o", "-r", "--directory", "--output"])
                .cloned()
                .chain(options.operands.first().map(|a| (*a).clone()))
                .collect();
            targets
                .iter()
                .map(|t| w.writes(t, false))
                .reduce(Finding::or_worse)
                .unwrap_or_else(|| Finding::allow("changes files of the workspace"))
        }
        _ => return None,
    })
}

fn tar(w: &mut Walker, args: &[Arg]) -> Finding {
    // The old style has its letters without a dash.
    let mut args = args.to_vec();
    if let Some(first) = args.first_mut()
        && !first.text.starts_with('-')
        && first.text.chars().all(|c| c.is_ascii_alphabetic())
    {
        // In it the values follow in the order of the letters; `f` is the one that matters and is put last.
        let letters: String = first.text.chars().filter(|c| *c != 'f').collect();
        first.text = if first.text.contains('f') { format!("-{letters}f") } else { format!("-{letters}") };
    }
    let valued = [
        "-f",
        "--file",
        "-C",
        "--directory",
        "-T",
        "-X",
        "-I",
        "--use-compress-program",
        "-F",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "--rmt-command",
        "--to-command",
        "--checkpoint-action",
        "--exclude",
        "--transform",
        "--strip-components",
        "-b",
        "-g",
        "-V",
        "-K",
        "-N",
        "--files-from",
        "--exclude-from",
        "--index-file",
        "--listed-incremental",
    ];
    let options = Options::read(&args, &valued);
    let mut found = Finding::allow("packs or unpacks");
    for option in [
        "--to-command",
        "--checkpoint-action",
        "-I",
        "--use-compress-program",
        "-F",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "--rmt-command",
    ] {
        for code in options.values(&[option]).cloned().collect::<Vec<_>>() {
            let text = code.text.strip_prefix("exec=").unwrap_or(&code.text).to_owned();
            let packer = matches!(
                text.split_whitespace().next().unwrap_or_default(),
                "gzip" | "pigz" | "xz" | "zstd" | "bzip2" | "pbzip2" | "lz4" | "pxz"
            ) && !text.contains([';', '|', '&', '$', '`', '>']);
            let quiet = option == "--checkpoint-action" && !code.text.starts_with("exec");
            if packer || quiet {
                continue;
            }
            found = found.or_worse(Finding::ask(format!("lets tar run a program ({option})"))).or_worse(run_text(
                w,
                &code.with(text),
                "a program of tar",
            ));
        }
    }
    let bases = files::bases(&args);
    let unpacks = options.has(&["-x", "--extract", "--get"]);
    let packs = options.has(&["-c", "--create", "-r", "--append", "-u", "--update", "-A"]);
    if unpacks && options.has(&["-P", "--absolute-names"]) {
        found = found.or_worse(Finding::ask("unpacks to wherever the archive says"));
    }
    if let Some(folder) = options.value(&["-C", "--directory"]).cloned()
        && unpacks
    {
        found = found.or_worse(w.writes(&folder, false));
    }
    for folder in options.values(&["--one-top-level"]).cloned().collect::<Vec<_>>() {
        found = found.or_worse(w.writes(&folder, false));
    }
    if packs {
        if let Some(file) = options.value(&["-f", "--file"]).cloned().filter(|f| f.text != "-") {
            found = found.or_worse(if file.text.contains(':') {
                Finding::ask("packs to another machine")
            } else {
                w.writes(&file, false)
            });
        }
        for source in &options.operands {
            found = found.or_worse(w.each_folder(|p, f| p.read_all(&source.text, source.glob, f)));
            for base in bases.iter().filter(|_| !source.text.starts_with(['/', '~'])) {
                let path = format!("{base}/{}", source.text);
                found = found.or_worse(w.each_folder(|p, f| p.read_all(&path, source.glob, f)));
            }
        }
    }
    if let Some(index) = options.value(&["-g", "--listed-incremental", "--index-file"]).cloned() {
        found = found.or_worse(w.writes(&index, false));
    }
    found
}
