//! For `jarvis doctor`: which layers of a jail hold here, tried in a real one.

use super::client::Jail;
use super::fix::namespaces_fix;
use super::spec::{JailLimits, JailSpec};
use crate::probe::Layer;
use std::path::Path;
use tokio_util::sync::CancellationToken;

const CGROUP_FIX: &str = "delegate a cgroup with memory and pids: start jarvis by `systemd-run --user --scope -p \
                          Delegate=yes jarvis …`; until then they are watched";
const LANDLOCK_FIX: &str = "use Linux 5.13 or newer with Landlock (lsm=landlock,… on the kernel's command line)";

/// What a jail has where nothing is missing.
const WANTED: [&str; 11] = [
    "user namespace",
    "process namespace",
    "mount namespace",
    "ipc and host-name namespaces",
    "network: none",
    "landlock",
    "no capabilities",
    "no new privileges",
    "seccomp",
    "memory: cgroup",
    "processes: cgroup",
];

/// Says `name` for each that got through.
const ATTEMPTS: [(&str, &str); 6] = [
    ("write to the system", "(: > /usr/.jarvis-doctor)"),
    ("read the password file", "cat /etc/shadow"),
    ("see other processes", "test $(ls /proc | grep -c '^[0-9]') -gt 9"),
    ("mount", "mount -t tmpfs none /tmp"),
    ("enter a namespace", "unshare -U true"),
    ("reach the network", "test -n \"$(grep -v -e face -e Inter -e lo: /proc/net/dev)\""),
];

impl Jail {
    /// One row for each layer, and one for each way out that must be closed. `folder`: any that may be a workspace; nothing
    /// is written to it.
    pub async fn probe(&self, folder: &Path) -> Vec<Layer> {
        let script: String =
            ATTEMPTS.iter().map(|(name, attempt)| format!("if {attempt}; then echo '{name}'; fi\n")).collect();
        let mut spec = JailSpec::new("/bin/sh", folder).args(["-c", &script]);
        spec.limits = JailLimits { wall_ms: 5000, ..JailLimits::STANDARD };
        let done = match self.run(spec, &CancellationToken::new(), |_, _| {}).await {
            Ok(done) => done,
            Err(e) => {
                let fix = e.hint().map(str::to_owned);
                return vec![Layer { name: "jail".to_owned(), in_force: false, detail: e.to_string(), fix }];
            }
        };
        let mut rows: Vec<_> = WANTED.iter().map(|name| row(name, &done.layers)).collect();
        let others =
            done.layers.iter().filter(|layer| !WANTED.contains(&layer.as_str()) && layer.starts_with("no /proc"));
        rows.extend(others.map(|layer| Layer {
            name: "jail: /proc".to_owned(),
            in_force: false,
            detail: layer.clone(),
            fix: Some(namespaces_fix()),
        }));
        let out = done.stdout_text();
        rows.extend(ATTEMPTS.iter().map(|(name, _)| {
            let open = out.lines().any(|line| line == *name);
            Layer {
                name: format!("jail: cannot {name}"),
                in_force: !open && done.exit.code == Some(0),
                detail: if open { "succeeded" } else { "refused" }.to_owned(),
                fix: open.then(|| "please report this as a security problem".to_owned()),
            }
        }));
        rows
    }
}

fn row(name: &str, layers: &[String]) -> Layer {
    let in_force = layers.iter().any(|layer| layer == name || name == "landlock" && layer == "landlock (files)");
    let kind = name.split(':').next().unwrap_or(name);
    let instead =
        layers.iter().find(|layer| layer.contains(kind) || kind == "mount namespace" && layer.contains("mount"));
    let fix = match kind {
        "landlock" => LANDLOCK_FIX.to_owned(),
        "memory" | "processes" => CGROUP_FIX.to_owned(),
        _ => namespaces_fix(),
    };
    Layer {
        name: format!("jail: {name}"),
        in_force,
        detail: match (in_force, instead) {
            (true, _) => "set up".to_owned(),
            (false, Some(instead)) => instead.clone(),
            (false, None) => "not to be had here".to_owned(),
        },
        fix: (!in_force).then_some(fix),
    }
}
