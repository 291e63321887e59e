//! Build tools and package managers: building and looking passes, installing and publishing is a question.

use crate::expand::Arg;
use crate::rules::options::Options;
use crate::rules::wrappers::start;
use crate::rules::{files, inline};
use crate::verdict::Finding;
use crate::walk::Walker;

/// Subcommands that stay within the workspace, by program; all others of the program are questions.
const LOCAL: &[(&str, &str)] = &[
    (
        "cargo",
        "build b check c test t run r clippy fmt doc bench tree metadata clean fix locate-project pkgid verify-project version help nextest \
               expand llvm-cov machete deny miri rustc rustdoc read-manifest config init new report",
    ),
    ("go", "build test vet fmt run list env version doc fix generate clean help"),
    ("npm", "test t run run-script ls list start root prefix bin pkg explain help tst fund why"),
    ("pnpm", "test run list ls why start build lint format dev root bin"),
    ("yarn", "test run list why build lint start format workspaces workspace dev"),
    ("bun", "test run build"),
    ("deno", "test fmt lint check doc info task bench coverage types compile"),
    ("pip", "list show freeze check help inspect debug"),
    ("pip3", "list show freeze check help inspect debug"),
    ("uv", "version tree help"),
    ("poetry", "show check version env about list"),
    ("conda", "list info"),
    ("brew", "list ls info deps config doctor leaves --prefix"),
    ("apt", "list show search policy"),
    ("apt-get", ""),
    ("apt-cache", "search show policy depends rdepends showpkg stats pkgnames madison"),
    (
        "dpkg",
        "-l -L -s -S -p --list --listfiles --status --search --print-architecture --compare-versions -c -I --info --contents",
    ),
    ("rpm", "-q -qa -qi -ql -qf -qR -V --query"),
    ("gem", "list which env contents specification"),
    ("bundle", "exec list show info check platform"),
    ("rustup", "show which --version"),
    ("nvm", "ls list current which version"),
    ("composer", "show validate run-script test dump-autoload status why depends"),
    ("mix", "test compile format credo dialyzer run help"),
    ("dotnet", "build test run format clean --info --list-sdks --version msbuild"),
    ("cabal", "build test run repl check"),
    ("stack", "build test run ls path"),
    ("swift", "build test run"),
    ("opam", "list show config env"),
    ("luarocks", "list show path"),
    ("nix", ""),
    ("rebar3", "compile eunit ct dialyzer"),
    ("asdf", "list current which"),
    ("mise", "ls current which"),
    ("rye", "show test lint fmt"),
    ("pdm", "list info show"),
    ("hatch", "version status"),
    ("snap", "list info"),
    ("flatpak", "list info"),
    ("pacman", "-Q -Qi -Ql -Qs -Ss"),
    ("docker", "ps images version info logs inspect stats top port history"),
    ("podman", "ps images version info logs inspect stats top port history"),
];

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    match name {
        "make" | "gmake" | "just" | "task" | "mage" | "invoke" | "rake" => return Some(make(w, name, args)),
        "mvn" | "mvnw" | "gradle" | "gradlew" | "sbt" | "ant" => {
            let far = ["publish", "deploy", "install", "upload", "release"];
            let goes_far = args
                .iter()
                .any(|a| !a.known || far.iter().any(|f| a.text.starts_with(f) || a.text.contains(&format!(":{f}"))));
            return Some(if goes_far {
                Finding::ask("installs or publishes what was built")
            } else {
                Finding::allow("builds what is in the workspace")
            });
        }
        "npx" | "bunx" | "pnpx" => {
            // What it starts may come from the network, but is shown.
            let (_, rest) = Options::leading(args, &["-p", "--package", "-c", "--call"]);
            let known = rest.first().is_some_and(|a| {
                matches!(
                    a.text.as_str(),
                    "tsc"
                        | "eslint"
                        | "prettier"
                        | "jest"
                        | "vitest"
                        | "mocha"
                        | "vite"
                        | "webpack"
                        | "tsx"
                        | "playwright"
                        | "next"
                        | "biome"
                )
            });
            // Without a package named beside it, the tool is the project's own.
            let before = &args[..args.len() - rest.len()];
            let plain = before.iter().all(|a| matches!(a.text.as_str(), "--no-install" | "--offline" | "--no" | "--"));
            if !rest.is_empty() {
                w.program(rest);
            }
            return Some(if known && plain {
                Finding::allow("runs an installed tool")
            } else {
                Finding::ask("may fetch and run a package")
            });
        }
        "uvx" | "pipx" => return Some(Finding::ask("may fetch and run a package")),
        "cmake" => return Some(cmake(w, args)),
        "latexmk" | "pdflatex" | "xelatex" | "lualatex" | "latex" | "tex" | "pdftex" => {
            let escapes = args.iter().any(|a| {
                a.text.contains("shell-escape")
                    || a.text.contains("write18")
                    || a.text.contains("enable-write18")
                    || a.text.starts_with("\\")
            });
            return escapes.then(|| Finding::ask("lets the document start programs"));
        }
        "ansible" | "ansible-playbook" | "terraform" => return None,
        _ => {}
    }
    let local = LOCAL.iter().find(|(program, _)| *program == name)?.1;
    // `cargo +nightly build`, `npm --prefix x test`, `go -C dir build`.
    let (options, rest) = Options::leading(
        args,
        &["-C", "--prefix", "--cwd", "--dir", "--manifest-path", "--color", "-Z", "--config", "-f", "--project"],
    );
    let rest: &[Arg] = if rest.first().is_some_and(|a| a.text.starts_with('+')) { &rest[1..] } else { rest };
    let is_local = |text: &str| local.split_whitespace().any(|l| l == text);
    let (sub, after) = match rest.split_first() {
        Some((sub, after)) if sub.known => (sub.text.as_str(), after),
        Some(_) => return Some(Finding::ask(format!("which command of {name} runs cannot be told"))),
        None if options.flags.iter().any(|(f, _)| is_local(f)) || args.first().is_some_and(|a| is_local(&a.text)) => {
            return Some(Finding::allow("only reads"));
        }
        None if args.is_empty() && name != "yarn" => return Some(Finding::allow("shows its help")),
        None => return Some(Finding::ask(format!("what {name} does cannot be told"))),
    };
    if options.flags.iter().any(|(f, _)| is_local(f))
        || args.first().is_some_and(|a| is_local(&a.text) && a.text.starts_with('-'))
    {
        return Some(Finding::allow("only reads"));
    }
    if options.has(&["--config"]) {
        return Some(Finding::ask(format!("runs {name} with settings of the command's choice")));
    }
    match (name, sub) {
        ("bundle", "exec") | ("poetry" | "uv" | "pdm" | "rye" | "hatch" | "pipenv", "run") => {
            let (_, rest) = Options::leading(after, &["--with", "--python", "-p"]);
            return Some(start(w, rest, "a program of the project"));
        }
        ("go", "run") if after.iter().any(|a| a.text.contains('@')) => {
            return Some(Finding::ask("fetches and runs a package"));
        }
        ("go", "mod") => {
            let reads =
                after.first().is_some_and(|a| matches!(a.text.as_str(), "graph" | "verify" | "why" | "edit" | "init"));
            return Some(if reads {
                Finding::allow("reads or changes go.mod")
            } else {
                Finding::ask("fetches packages")
            });
        }
        ("deno", "run") => return Some(deno_run(w, after)),
        ("deno", "eval") => {
            let code = after.iter().find(|a| !a.text.starts_with('-')).cloned();
            return Some(code.map(|c| inline::inline(w, &c)).unwrap_or_else(|| Finding::ask("code without its text")));
        }
        ("bun", "run") if after.first().is_some_and(|a| a.text == "-e") => return Some(Finding::ask("inline code")),
        ("conda", "run") => return Some(start(w, after, "a program of an environment")),
        (
            "cargo",
            "install" | "add" | "publish" | "update" | "fetch" | "login" | "search" | "yank" | "owner" | "remove",
        ) => {
            return Some(Finding::ask("installs or publishes packages"));
        }
        ("cargo", "clean") => {
            let options = Options::read(after, &["--target-dir", "-p", "--manifest-path"]);
            return Some(
                options
                    .value(&["--target-dir"])
                    .map(|t| files::delete(w, t))
                    .unwrap_or_else(|| Finding::allow("deletes what was built")),
            );
        }
        ("go", "env") if after.iter().any(|a| a.text == "-w") => {
            return Some(Finding::ask("changes settings outside the workspace"));
        }
        ("npm" | "pnpm", "config" | "set" | "login" | "publish") => {
            return Some(Finding::ask("changes settings or publishes"));
        }
        ("docker" | "podman" | "nerdctl", _) if !is_local(sub) => return Some(container(after)),
        _ => {}
    }
    if is_local(sub) {
        let found = Finding::allow("builds, tests or reads within the workspace");
        return Some(found.or_worse(files::outputs(w, after)));
    }
    // `yarn lint`: a script of the project by its name.
    if name == "yarn"
        && !matches!(
            sub,
            "add"
                | "install"
                | "remove"
                | "upgrade"
                | "publish"
                | "dlx"
                | "global"
                | "create"
                | "config"
                | "login"
                | "link"
                | "import"
                | "up"
                | "set"
                | "plugin"
                | "npm"
                | "exec"
                | "node"
                | "cache"
        )
    {
        return Some(Finding::allow("runs a script of the project"));
    }
    None
}

fn container(args: &[Arg]) -> Finding {
    let mut values = args.iter().map(|a| a.text.as_str());
    let escapes = values.any(|t| {
        t == "--privileged"
            || t.starts_with("--privileged=t")
            || t == "--pid=host"
            || t.starts_with("/:")
            || t.contains("=/:")
            || t.contains("docker.sock")
            || t.contains("source=/,")
            || t.contains("src=/,")
            || t.contains("SYS_ADMIN")
            || t.starts_with("-v/:")
    });
    if escapes {
        Finding::deny("a container with the rights or the files of the whole machine")
    } else {
        Finding::ask("starts containers or virtual machines, which are outside the jail")
    }
}

fn make(w: &mut Walker, name: &str, args: &[Arg]) -> Finding {
    let options = Options::read(
        args,
        &["-f", "--file", "--makefile", "-C", "--directory", "-j", "-l", "-o", "-W", "-I", "-E", "--eval", "--jobs"],
    );
    if let Some(text) = options.value(&["-E", "--eval"]).cloned() {
        return inline::forbidden(w, &text.text)
            .unwrap_or_else(|| Finding::ask("make with rules of the command's own"));
    }
    let mut found = Finding::allow("runs the project's own rules");
    let rules: Vec<Arg> = options.values(&["-f", "--file", "--makefile"]).cloned().collect();
    for file in rules.iter().filter(|_| name.ends_with("make")) {
        found = found.or_worse(if file.text == "-" {
            Finding::ask("make with rules from its input")
        } else {
            crate::rules::shell::script_file(w, file)
        });
    }
    for folder in options.values(&["-C", "--directory"]).cloned().collect::<Vec<_>>() {
        let inside = w.state.folders().all(|f| {
            matches!(
                w.paths.place(&folder.text, false, f),
                crate::paths::Place::Workspace | crate::paths::Place::WorkspaceFile
            )
        });
        if !inside {
            found = found.or_worse(Finding::ask("runs rules outside the workspace"));
        }
    }
    for operand in &options.operands {
        let text = operand.text.as_str();
        if matches!(text, "install" | "uninstall" | "deploy" | "publish" | "release" | "push" | "upload")
            || text.starts_with("install-")
        {
            found = found.or_worse(Finding::ask(format!("`{name} {text}` changes more than the workspace")));
        }
        if let Some((variable, value)) = text.split_once('=') {
            if matches!(variable, "SHELL" | ".SHELLFLAGS" | "MAKEFLAGS") {
                found = found.or_worse(Finding::ask("changes which shell runs the rules"));
            }
            // `$(shell …)` runs when make reads the value.
            if value.contains("$(") || value.contains("${") || !operand.known {
                found = found.or_worse(Finding::ask("a value that make may run"));
            }
        } else if !operand.known {
            found = found.or_worse(Finding::ask("which rule runs cannot be told"));
        }
    }
    found
}

fn cmake(w: &mut Walker, args: &[Arg]) -> Finding {
    let at = args.iter().position(|a| a.text == "-E");
    if let Some(at) = at {
        let rest = &args[at + 1..];
        return match rest.first().map(|a| a.text.as_str()) {
            Some("rm" | "remove" | "remove_directory") => {
                let found = rest[1..].iter().filter(|a| !a.text.starts_with('-')).map(|t| files::delete(w, t));
                Finding::worst(found).unwrap_or_else(|| Finding::allow("deletes nothing"))
            }
            Some("env" | "time") => start(w, &rest[1..], "another program"),
            Some(
                "echo" | "capabilities" | "environment" | "true" | "false" | "sleep" | "compare_files" | "sha256sum"
                | "md5sum" | "cat",
            ) => Finding::allow("a helper of cmake"),
            Some(
                "copy" | "copy_if_different" | "copy_directory" | "make_directory" | "touch" | "rename"
                | "create_symlink",
            ) => rest.last().cloned().map(|t| w.writes(&t, false)).unwrap_or_else(|| Finding::allow("")),
            _ => Finding::ask("a helper of cmake that is not known"),
        };
    }
    if args.iter().any(|a| a.text == "--install") {
        return Finding::ask("installs what was built");
    }
    if let Some(at) = args.iter().position(|a| a.text == "--target")
        && args.get(at + 1).is_some_and(|a| a.text == "install")
    {
        return Finding::ask("installs what was built");
    }
    Finding::allow("builds what is in the workspace")
}

fn deno_run(w: &mut Walker, args: &[Arg]) -> Finding {
    let script = args.iter().find(|a| !a.text.starts_with('-')).cloned();
    match script {
        Some(s) if s.text.contains("://") || s.text.starts_with("npm:") || s.text.starts_with("jsr:") => {
            Finding::ask("fetches and runs code")
        }
        Some(s) => crate::rules::shell::script_file(w, &s),
        None => Finding::ask("which script runs cannot be told"),
    }
}
