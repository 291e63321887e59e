//! Network programs: all are questions; those that give a shell away, or what they send or keep, can be worse.

use crate::expand::Arg;
use crate::rules::options::Options;
use crate::rules::wrappers::joined;
use crate::verdict::Finding;
use crate::walk::Walker;

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    Some(match name {
        "curl" => {
            let options = Options::read(
                args,
                &[
                    "-o",
                    "--output",
                    "--output-dir",
                    "-d",
                    "--data",
                    "-H",
                    "-X",
                    "-F",
                    "-T",
                    "-u",
                    "-A",
                    "-e",
                    "-b",
                    "-c",
                    "-K",
                    "--config",
                    "-x",
                    "-m",
                    "-w",
                    "-D",
                    "-E",
                    "--data-binary",
                    "--data-raw",
                    "--header",
                    "--request",
                    "--form",
                    "--url",
                    "--proxy",
                    "-C",
                    "-r",
                    "-U",
                    "-y",
                    "-Y",
                    "-z",
                    "-t",
                    "-Q",
                    "-P",
                    "--max-time",
                    "--retry",
                    "--connect-timeout",
                    "--cookie",
                    "--cookie-jar",
                    "--upload-file",
                    "--user",
                    "--write-out",
                    "--dump-header",
                ],
            );
            let mut found = Finding::ask("talks to the network");
            for file in options
                .values(&["-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header", "--output-dir"])
                .cloned()
                .collect::<Vec<_>>()
            {
                found = found.or_worse(w.writes(&file, true));
            }
            if options.has(&["-O", "--remote-name"]) {
                for address in &options.operands {
                    let file = address.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
                    w.writes(&address.with(file), true);
                }
            }
            if options.has(&["-K", "--config"]) {
                found = found.or_worse(Finding::ask("talks to the network by a file of settings"));
            }
            found
        }
        "wget" | "wget2" | "aria2c" | "axel" => {
            let options = Options::read(
                args,
                &[
                    "-O",
                    "--output-document",
                    "-o",
                    "--output-file",
                    "-P",
                    "--directory-prefix",
                    "-a",
                    "-U",
                    "-e",
                    "--execute",
                    "--header",
                    "-i",
                    "--post-data",
                    "--post-file",
                    "--use-askpass",
                    "-d",
                    "--dir",
                    "--out",
                    "-t",
                    "-T",
                    "-w",
                    "-Q",
                    "-A",
                    "-R",
                    "-D",
                    "-l",
                    "--tries",
                    "--timeout",
                ],
            );
            let mut found = Finding::ask("talks to the network");
            let named: Vec<Arg> = options
                .values(&["-O", "--output-document", "-P", "--directory-prefix", "-o", "-a", "--dir", "--out"])
                .cloned()
                .collect();
            for file in named.iter().filter(|f| f.text != "-") {
                found = found.or_worse(w.writes(file, true));
            }
            for address in options.operands.iter().filter(|_| named.is_empty()) {
                let file = address.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
                w.writes(&address.with(file), true);
            }
            if options.values(&["--use-askpass"]).next().is_some() {
                found = found.or_worse(Finding::ask("runs a program to ask for a password"));
            }
            found
        }
        "nc" | "ncat" | "netcat" | "nc.traditional" | "nc.openbsd" => {
            let options = Options::read(
                args,
                &["-e", "-c", "--exec", "--sh-exec", "--lua-exec", "-p", "-s", "-w", "-q", "-i", "-x", "-X"],
            );
            if options.has(&["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]) {
                Finding::deny("gives a program to the network (reverse shell)")
            } else {
                Finding::ask("talks to the network")
            }
        }
        "socat" => {
            let gives = args.iter().any(|a| {
                let text = a.text.to_uppercase();
                text.starts_with("EXEC:") || text.starts_with("SYSTEM:") || text.starts_with("SHELL:")
            });
            if gives {
                Finding::deny("gives a program to the network (reverse shell)")
            } else {
                Finding::ask("talks to the network")
            }
        }
        "ssh" | "mosh" | "rsh" => {
            let valued = [
                "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q", "-R",
                "-S", "-W", "-w", "-B",
            ];
            let (options, rest) = Options::leading(args, &valued);
            let mut found = Finding::ask("talks to the network");
            for option in options.values(&["-o"]).cloned().collect::<Vec<_>>() {
                let (key, value) = option.text.split_once(['=', ' ']).unwrap_or((&option.text, ""));
                if matches!(key.to_lowercase().as_str(), "proxycommand" | "localcommand" | "knownhostscommand") {
                    found = found.or_worse(crate::rules::shell::run_text(w, &option.with(value), "a command of ssh"));
                }
            }
            if rest.len() > 1 {
                // There it runs without any jail.
                joined(w, &rest[1..], "a command on another machine");
            }
            found
        }
        "scp" | "sftp" => Finding::ask("talks to the network"),
        "rsync" => {
            let options = Options::read(
                args,
                &[
                    "-e",
                    "--rsh",
                    "--rsync-path",
                    "--exclude",
                    "--include",
                    "-f",
                    "--files-from",
                    "--log-file",
                    "-T",
                    "--exclude-from",
                    "--temp-dir",
                ],
            );
            let remote = options.operands.iter().any(|a| a.text.contains(':') && !a.text.starts_with(['/', '.']));
            let mut found = if remote {
                Finding::ask("talks to the network")
            } else {
                Finding::allow("copies within the workspace")
            };
            for program in options.values(&["-e", "--rsh", "--rsync-path"]).cloned().collect::<Vec<_>>() {
                found = found
                    .or_worse(Finding::ask("lets rsync run a program"))
                    .or_worse(crate::rules::shell::run_text(w, &program, "a program of rsync"));
            }
            if options.flags.iter().any(|(f, _)| f.starts_with("--del") || f == "--remove-source-files") {
                found = found.or_worse(Finding::ask("deletes what is not in the other folder"));
            }
            if let Some((target, sources)) = options.operands.split_last() {
                if !target.text.contains(':') {
                    found = found.or_worse(w.writes(target, remote));
                }
                for source in sources {
                    found = found.or_worse(w.each_folder(|p, f| p.read_all(&source.text, source.glob, f)));
                }
            }
            found
        }
        "openssl" => {
            let sub = args.first().map(|a| a.text.as_str()).unwrap_or_default();
            let options = Options::read(
                args.get(1..).unwrap_or_default(),
                &["-out", "-in", "-keyout", "-k", "-pass", "-connect"],
            );
            let written: Vec<Arg> = options.values(&["-out", "-keyout"]).cloned().collect();
            let found = match sub {
                "dgst" | "version" | "rand" | "x509" | "enc" | "base64" | "sha256" | "md5" | "speed" | "ciphers"
                | "list" | "asn1parse" | "verify" | "prime" => Finding::allow("computes"),
                _ => Finding::ask("works on keys or talks to the network"),
            };
            written.iter().map(|f| w.writes(f, false)).fold(found, Finding::or_worse)
        }
        "ip" | "ifconfig" | "route" | "arp" => {
            let changes = args.iter().any(|a| {
                matches!(
                    a.text.as_str(),
                    "add"
                        | "del"
                        | "delete"
                        | "set"
                        | "flush"
                        | "change"
                        | "replace"
                        | "up"
                        | "down"
                        | "exec"
                        | "netns"
                        | "-s"
                        | "-d"
                )
            });
            if changes { Finding::ask("changes the network") } else { Finding::allow("shows the network") }
        }
        "tcpdump" if args.iter().any(|a| a.text == "-z") => Finding::deny("lets tcpdump run a program"),
        _ => return None,
    })
}
