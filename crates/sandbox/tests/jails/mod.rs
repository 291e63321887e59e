//! A person's home with secrets and a project in it, and jails in that project.
#![allow(dead_code, reason = "each test file uses a part of this")]

use jarvis_sandbox::{Jail, JailConfig, JailOutcome, JailSpec, Preset, SandboxError};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

pub struct World {
    _root: tempfile::TempDir,
    pub jail: Jail,
    pub home: PathBuf,
    pub other_home: PathBuf,
    pub project: PathBuf,
    pub jarvis_home: PathBuf,
}

pub const SECRETS: [&str; 19] = [
    ".ssh/id_ed25519",
    ".gnupg/private-keys-v1.d/key",
    ".aws/credentials",
    ".config/gcloud/credentials.db",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".mozilla/firefox/x/logins.json",
    ".config/google-chrome/Default/Cookies",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".cargo/credentials.toml",
    ".local/share/keyrings/login.keyring",
    ".claude/credentials.json",
    ".config/gh/hosts.yml",
];

/// Where the launcher is: this crate's own, or the copy that an ordinary user may read.
pub fn helper() -> PathBuf {
    std::env::var_os("JAIL_TEST_HELPER").map_or_else(|| env!("CARGO_BIN_EXE_jarvis-worker-test").into(), PathBuf::from)
}

pub fn jail() -> Jail {
    Jail::new(JailConfig { helper_exe: helper(), without_namespaces: false })
}

pub fn world() -> World {
    world_with(jail())
}

pub fn world_with(jail: Jail) -> World {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().canonicalize().unwrap();
    let home = path.join("home/me");
    let (project, other_home, jarvis_home) = (home.join("项目, a:b"), path.join("home/you"), home.join(".jarvis-home"));
    for (file, text) in SECRETS.iter().map(|name| (home.join(name), "SECRET")).chain([
        (project.join(".git/config"), "[core]\n"),
        (project.join(".git/hooks/pre-commit.sample"), "#!/bin/sh\n"),
        (project.join(".vscode/settings.json"), "{}"),
        (project.join("src/main.py"), "print(1)\n"),
        (other_home.join("letter.txt"), "SECRET"),
        (jarvis_home.join("key"), "SECRET"),
        (home.join("letter.txt"), "SECRET"),
        (home.join(".cargo/bin/tool"), "#!/bin/sh\necho tool\n"),
    ]) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    World { _root: root, jail, home, other_home, project, jarvis_home }
}

impl World {
    pub fn spec(&self, program: &str, args: &[&str]) -> JailSpec {
        let mut spec = JailSpec::new(program, &self.project).args(args.iter().copied());
        spec.preset = Preset::WorkspaceWrite;
        spec.home = Some(self.home.clone());
        spec.hidden = vec![self.jarvis_home.clone()];
        let names = [("H", &self.home), ("OTHER", &self.other_home), ("P", &self.project), ("J", &self.jarvis_home)];
        spec.env.extend(names.map(|(name, path)| (name.into(), path.clone().into_os_string())));
        spec.limits.wall_ms = 30_000;
        spec
    }

    pub async fn run(&self, spec: JailSpec) -> JailOutcome {
        self.try_run(spec).await.unwrap()
    }

    pub async fn try_run(&self, spec: JailSpec) -> Result<JailOutcome, SandboxError> {
        self.jail.run(spec, &CancellationToken::new(), |_, _| {}).await
    }

    pub async fn sh(&self, script: &str) -> JailOutcome {
        self.run(self.spec("/bin/sh", &["-c", script])).await
    }

    pub async fn python(&self, script: &str) -> JailOutcome {
        self.run(self.spec("/usr/bin/python3", &["-I", "-c", script])).await
    }
}

/// Runs every attack: a script that says `HOLE` where it got through and `done` at its end.
pub async fn attack(world: &World, cases: &[(&str, &str)], python: bool) {
    let mut bad = Vec::new();
    for (name, script) in cases {
        let done = match python {
            true => world.python(&format!("{PRELUDE}\n{script}\nprint('done')")).await,
            false => world.sh(&format!("{script}\necho done")).await,
        };
        let out = done.stdout_text();
        if out.contains("HOLE") || out.contains("SECRET") || !out.ends_with("done\n") {
            bad.push(format!("{name}: {out}{}{:?}", done.stderr_text(), done.exit));
        }
    }
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), cases.len(), bad.join("\n"));
}

/// System calls by number, as no shell offers them.
const PRELUDE: &str = r#"
import ctypes, errno, os, sys, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
def hole(what, number, *args):
    if call(number, *args) >= 0: print('HOLE', what)
def denied(what, number, *args):
    ctypes.set_errno(0)
    r = call(number, *args); e = ctypes.get_errno()
    if r >= 0 or e not in (errno.EPERM, errno.ENOSYS): print('HOLE', what, r, errno.errorcode.get(e))
def no(what, attempt):
    try: attempt(); print('HOLE', what)
    except (OSError, ValueError): pass
"#;

/// The same tests run as another user at the same time; these are only this one's.
pub fn own(pid: i32) -> bool {
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    owner.is_ok_and(|uid| uid == rustix_euid())
}

pub fn is_root() -> bool {
    rustix_euid() == 0
}

fn rustix_euid() -> u32 {
    // Sound: it only asks.
    unsafe { libc::geteuid() }
}

/// Runs this very test file again as `nobody`, with copies that `nobody` may read.
#[allow(clippy::disallowed_methods)]
pub fn again_as_nobody(skip: &str) {
    if !is_root() {
        return jarvis_testkit::skipped("the jail as another user: it is an ordinary one already");
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).unwrap();
        to
    };
    let (tests, helper) = (copy(&std::env::current_exe().unwrap(), "tests"), copy(&helper(), "helper"));
    for path in [dir.path(), &tests, &helper] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let tmp = dir.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    std::fs::set_permissions(&tmp, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = std::process::Command::new(tests);
    command.args(["--skip", skip]).env_clear().env("JAIL_TEST_HELPER", helper).env("TMPDIR", &tmp).current_dir(&tmp);
    let done = command.uid(65_534).gid(65_534).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "as nobody: {text}");
}
