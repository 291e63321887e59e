//! The machine: services, processes, settings, devices.

use crate::expand::Arg;
use crate::rules::options::Options;
use crate::rules::wrappers::joined;
use crate::verdict::Finding;
use crate::walk::Walker;

pub(crate) fn rule(w: &mut Walker, name: &str, args: &[Arg]) -> Option<Finding> {
    let first = args.iter().find(|a| !a.text.starts_with('-')).map(|a| a.text.as_str()).unwrap_or_default();
    let has = |words: &[&str]| args.iter().any(|a| words.contains(&a.text.as_str()));
    Some(match name {
        "systemctl" | "rc-service" => service(first, args),
        "service" => service(args.get(1).map(|a| a.text.as_str()).unwrap_or_default(), args),
        "launchctl" => match first {
            "list" | "print" | "version" => Finding::allow("only reads"),
            "load" | "bootstrap" | "submit" | "enable" => Finding::deny("arranges to be run again later"),
            _ => Finding::ask("changes services"),
        },
        "kill" => kill(args),
        "killall" | "pkill" if has(&["-1", "-u"]) => Finding::ask("ends all processes of a person"),
        "crontab" if args.len() == 1 && has(&["-l"]) => Finding::allow("shows what is scheduled"),
        "at" | "batch" if has(&["-l"]) => Finding::allow("shows what is scheduled"),
        "atq" => Finding::allow("shows what is scheduled"),
        "sysctl" => {
            if has(&["-w", "--write", "-p", "--load", "--system"]) || args.iter().any(|a| a.text.contains('=')) {
                Finding::deny("changes settings of the kernel")
            } else {
                Finding::allow("only reads")
            }
        }
        "mount" if args.is_empty() || has(&["-l"]) && args.len() == 1 => Finding::allow("shows what is mounted"),
        "mount"
            if has(&["--bind", "--rbind", "-B", "--move"])
                || args.iter().any(|a| a.text.contains("bind") || a.text.starts_with("/dev/")) =>
        {
            Finding::deny("puts other files in the place of the machine's")
        }
        "journalctl" => {
            if args.iter().any(|a| a.text.starts_with("--vacuum") || a.text == "--rotate" || a.text == "--flush") {
                Finding::deny("deletes the machine's log")
            } else {
                Finding::allow("only reads")
            }
        }
        "dmesg" if has(&["-C", "--clear", "-c", "--read-clear", "-n", "-D"]) => {
            Finding::deny("deletes the machine's log")
        }
        "date" | "hostname" | "timedatectl" => {
            let sets = has(&["-s", "--set", "set-time", "set-timezone", "set-ntp", "-b"])
                || args.iter().any(|a| a.text.starts_with("--set"));
            let sets = sets || (name == "hostname" && !first.is_empty());
            if sets { Finding::ask("changes settings of the machine") } else { Finding::allow("only reads") }
        }
        "getent" => match first {
            "shadow" | "gshadow" => Finding::deny("reads the stored passwords"),
            _ => Finding::allow("only reads"),
        },
        "fdisk" | "parted" | "sfdisk" if has(&["-l", "--list"]) => {
            Finding::ask("reads the disks below the file system")
        }
        "fsck" | "e2fsck" if has(&["-n", "-N"]) => Finding::ask("reads the disks below the file system"),
        "auditctl" | "nft" | "iptables" | "ufw" | "apparmor_parser"
            if first == "list" || (args.len() == 1 && has(&["-l", "-L", "-s", "status"])) =>
        {
            Finding::ask("shows the machine's protection")
        }
        "security" if first == "find-identity" => Finding::ask("looks into the key chain"),
        "swapon" if has(&["--show", "-s"]) => Finding::allow("only reads"),
        "history" => Finding::deny("rewrites the history of commands"),
        "loginctl" | "machinectl"
            if !matches!(
                first,
                "" | "list" | "list-sessions" | "show" | "status" | "session-status" | "list-users"
            ) =>
        {
            match first {
                "enable-linger" => Finding::deny("arranges to be run again later"),
                "terminate-user" | "kill-user" | "terminate-session" | "kill-session" => {
                    Finding::deny("ends a person's session")
                }
                _ => Finding::ask("changes sessions"),
            }
        }
        "tmux" | "screen" => {
            let rest: Vec<Arg> = args.iter().skip_while(|a| !a.text.contains(' ')).cloned().collect();
            if !rest.is_empty() {
                joined(w, &rest, "a command in a window of its own");
            }
            Finding::ask("runs on after the command ends")
        }
        "docker-compose" | "docker" | "podman" | "nerdctl" | "lxc" => return None,
        "kubectl" | "helm" if matches!(first, "delete") => Finding::ask("deletes things on a cluster"),
        "strings" | "ldd" => {
            let outside =
                args.iter().any(|a| a.text.starts_with('-') && a.text != "-a" && a.text != "-n" && a.text != "-v");
            if outside && name == "ldd" {
                Finding::ask("an option of ldd that is not known")
            } else {
                Finding::allow("only reads")
            }
        }
        "man" | "info" | "less" | "more" => {
            let options = Options::read(args, &["-P", "--pager", "-H", "--html", "-o", "-O", "-k"]);
            let program = options.value(&["-P", "--pager", "-H", "--html"]).cloned();
            let log = options.values(&["-o", "-O"]).next().cloned().filter(|_| matches!(name, "less"));
            match (program, log) {
                (Some(program), _) if name == "man" => crate::rules::shell::run_text(w, &program, "a pager"),
                (_, Some(log)) => w.writes(&log, false),
                _ => Finding::allow("only reads"),
            }
        }
        "stty" | "reset" | "clear" | "tput" => Finding::allow("changes how the terminal looks"),
        "wait" | "jobs" | "disown" => Finding::allow("looks after its own processes"),
        _ => return None,
    })
}

fn service(action: &str, args: &[Arg]) -> Finding {
    let protects = [
        "firewalld",
        "ufw",
        "apparmor",
        "auditd",
        "fail2ban",
        "iptables",
        "nftables",
        "selinux",
        "clamav",
        "falcon-sensor",
        "crowdstrike",
        "osqueryd",
        "wazuh",
    ];
    let names_protection = args.iter().any(|a| protects.iter().any(|p| a.text.contains(p)));
    match action {
        "status" | "show" | "cat" | "list-units" | "list-unit-files" | "is-active" | "is-enabled" | "is-failed"
        | "list-timers" | "list-dependencies" | "list-sockets" | "get-default" | "help" | "" => {
            Finding::allow("only reads")
        }
        "poweroff" | "reboot" | "halt" | "suspend" | "hibernate" | "rescue" | "emergency" | "isolate" | "kexec"
        | "hybrid-sleep" | "soft-reboot" | "default" => Finding::deny("stops or restarts the machine"),
        "enable" | "link" | "edit" | "preset" | "add-wants" | "add-requires" | "set-default" | "reenable" => {
            Finding::deny("arranges to be run again later")
        }
        "stop" | "disable" | "mask" | "kill" if names_protection => Finding::deny("weakens the machine's protection"),
        "set-environment" | "import-environment" => Finding::deny("changes what later programs load"),
        _ => Finding::ask("changes services of the machine"),
    }
}

fn kill(args: &[Arg]) -> Finding {
    if args.first().is_some_and(|a| matches!(a.text.as_str(), "-l" | "-L" | "--list" | "--table")) {
        return Finding::allow("lists signals");
    }
    // After the signal a negative number is a process group, and -1 everything.
    let mut targets: Vec<&Arg> = args.iter().collect();
    match targets.first().map(|a| a.text.as_str()) {
        Some("-s" | "-n" | "--signal") => {
            targets.drain(..2.min(targets.len()));
        }
        Some(text) if text.starts_with('-') && text != "--" && targets.len() > 1 => {
            targets.remove(0);
        }
        _ => {}
    }
    targets.retain(|a| a.text != "--");
    if targets.iter().any(|a| matches!(a.text.as_str(), "-1" | "1")) {
        return Finding::deny("ends every process, or the first one");
    }
    // `$!` and `$$` read as 0 here; they are the command's own.
    let own = |a: &&Arg| a.text.starts_with('%') || (a.text == "0" && a.known);
    if !targets.is_empty() && targets.iter().all(own) {
        return Finding::allow("ends processes it started");
    }
    Finding::ask("ends processes that may not be its own")
}
