//! Where there are no mount namespaces: files by Landlock alone, no sockets at all, and the program's processes are
//! hunted down one by one. It keeps what a jail promises, with less comfort: no /proc, nothing new at the top of a
//! workspace, no proxy. What it cannot keep is refused.

use super::plan::{Mount, Plan};
use super::root::Step;
use super::server::internal;
use super::wire::{Failure, Raw};
use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Files cannot be emptied past it.
const TRUNCATE: i64 = 3;
/// Signals and abstract sockets stay inside.
const SCOPES: i64 = 6;

/// What is to be shown at most, before it is cheaper to name another workspace.
const MOST_RULES: usize = 20_000;

/// The walls, and the private folder that stands for /tmp.
pub(super) struct Walls {
    pub ruleset: OwnedFd,
    pub tmp: PathBuf,
    pub layers: Vec<String>,
}

/// Builds them, and turns the plan's paths in /tmp to the private folder. `why`: there are no namespaces.
pub(super) fn build(plan: &mut Plan, why: &str, own_processes: bool) -> Step<Walls> {
    let refuse = |what: &str| Failure::Isolation {
        missing: format!("{what}, without namespaces of its own ({why})"),
        fix: super::fix::namespaces_fix(),
    };
    if plan.proxy {
        return Err(refuse("the proxy cannot be the only way out"));
    }
    if plan.whole {
        return Err(refuse("hidden folders cannot be taken out of the whole file system"));
    }
    // Sound: asks for the version alone.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) };
    let needed = if own_processes { TRUNCATE } else { SCOPES };
    if version < 1 || version < needed && !plan.best_effort {
        let fix = "use Linux 6.12 or newer with Landlock (lsm=landlock,… on the kernel's command line)";
        return Err(Failure::Isolation {
            missing: format!("neither namespaces ({why}) nor Landlock (version {}, needed {needed})", version.max(0)),
            fix: format!("{}; or {fix}", super::fix::namespaces_fix()),
        });
    }
    let tmp = private_tmp().map_err(|e| internal("private folder in /tmp", e))?;
    let paths = shown(plan, &tmp).map_err(|e| internal("paths for Landlock", e))?;
    if paths.len() > MOST_RULES {
        return Err(Failure::Spec {
            what: format!("too many files lie beside hidden or protected ones ({})", paths.len()),
            fix: "choose a smaller workspace, or allow user namespaces".to_owned(),
        });
    }
    let ruleset = ruleset(&paths).map_err(|e| internal("Landlock", e))?;
    settle_in(plan, &tmp);
    let mut layers = vec![
        format!("no mount namespace ({why})"),
        "landlock (files)".to_owned(),
        "network: none (no sockets)".to_owned(),
    ];
    layers.push("no size limit of /tmp as a whole".to_owned());
    if version < needed {
        layers.push(format!("landlock is old (version {version}): signals to other processes are not held back"));
    }
    Ok(Walls { ruleset, tmp, layers })
}

fn private_tmp() -> std::io::Result<PathBuf> {
    let mut name = [0u8; 8];
    rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())?;
    let dir = Path::new("/tmp").join(format!("jarvis-jail-{:016x}", u64::from_ne_bytes(name)));
    // New, or an error: nobody can have put a link there.
    std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
    std::fs::DirBuilder::new().mode(0o700).create(dir.join("home"))?;
    Ok(dir)
}

fn settle_in(plan: &mut Plan, tmp: &Path) {
    let turn = |path: &str| match path {
        "/tmp" => Some(tmp.to_owned()),
        super::JAIL_HOME => Some(tmp.join("home")),
        _ => None,
    };
    if let Some(dir) = plan.dir.as_os().to_str().and_then(turn) {
        plan.dir = Raw::from(&dir);
    }
    for variable in &mut plan.env {
        let moved = variable
            .as_os()
            .to_str()
            .and_then(|text| text.split_once('='))
            .and_then(|(name, value)| Some(format!("{name}={}", turn(value)?.display())));
        if let Some(moved) = moved {
            *variable = Raw::Text(moved);
        }
    }
}

type Rights = BitFlags<AccessFs>;

/// Landlock's rights hold for all that lies below and cannot be taken back there. So what has something hidden below it
/// is shown entry by entry, and what has something protected below it is writable entry by entry.
fn shown(plan: &Plan, tmp: &Path) -> std::io::Result<Vec<(PathBuf, Rights)>> {
    let abi = ABI::V6;
    let (all, read) = (AccessFs::from_all(abi), AccessFs::from_read(abi));
    let (mut hidden, mut protected) = (Vec::new(), Vec::new());
    for mount in &plan.mounts {
        match mount {
            Mount::Hide { path } => hidden.push(PathBuf::from(path.as_os())),
            Mount::Protect { path, .. } => protected.push(PathBuf::from(path.as_os())),
            // What has one of these below it can be given no new name: that takes a right to the folder it is in.
            Mount::Pin { .. } | Mount::Show { .. } | Mount::Link { .. } | Mount::File { .. } => {}
        }
    }
    let mut paths = vec![(tmp.to_owned(), all)];
    let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"].map(PathBuf::from);
    let asked = plan.devices.iter().map(|path| PathBuf::from(path.as_os()));
    paths.extend(devices.into_iter().chain(asked).map(|path| (path, all)));
    for mount in &plan.mounts {
        if let Mount::Show { path, write } = mount {
            let rights = if *write { all } else { read };
            grant(Path::new(path.as_os()), rights, &hidden, if *write { &protected } else { &[] }, &mut paths)?;
        }
    }
    Ok(paths)
}

fn grant(
    path: &Path,
    rights: Rights,
    hidden: &[PathBuf],
    protected: &[PathBuf],
    paths: &mut Vec<(PathBuf, Rights)>,
) -> std::io::Result<()> {
    let below = |list: &[PathBuf]| list.iter().any(|other| other != path && other.starts_with(path));
    if hidden.iter().any(|other| other == path) || paths.len() > MOST_RULES {
        return Ok(());
    }
    if protected.iter().any(|other| other == path) {
        return grant(path, AccessFs::from_read(ABI::V6), hidden, &[], paths);
    }
    if !below(hidden) && !below(protected) {
        paths.push((path.to_owned(), rights));
        return Ok(());
    }
    if !below(hidden) {
        // To look around, but not to make anything here: the right would reach what is protected.
        paths.push((path.to_owned(), AccessFs::from_read(ABI::V6)));
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // Where a link leads is shown or not by itself.
        if !entry.file_type()?.is_symlink() {
            grant(&entry.path(), rights, hidden, protected, paths)?;
        }
    }
    Ok(())
}

fn ruleset(paths: &[(PathBuf, Rights)]) -> Result<OwnedFd, String> {
    let abi = ABI::V6;
    let build = || -> Result<Option<OwnedFd>, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?;
        for (path, rights) in paths {
            // What one may not even look at needs no right.
            let Ok(fd) = PathFd::new(path) else { continue };
            let rights = if path.is_dir() { *rights } else { *rights & AccessFs::from_file(abi) };
            ruleset = ruleset.add_rule(PathBeneath::new(fd, rights))?;
        }
        Ok(ruleset.into())
    };
    build().map_err(|e| e.to_string())?.ok_or_else(|| "not in this kernel".to_owned())
}

/// Kills all that descend from this process, which collects orphans: again and again, until none is left.
pub(super) fn hunt() -> bool {
    loop {
        for pid in descendants() {
            // Sound: they descend from this process, which has not collected them yet; a dead one keeps its number.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        let mut status = 0;
        // Sound: fills in one number.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if pid < 0 {
            return true;
        }
        if pid == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// As far as the kernel tells.
pub(super) fn descendants() -> Vec<u32> {
    let mut all = vec![std::process::id()];
    let mut at = 0;
    while at < all.len() {
        let pid = all[at];
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    all.split_off(1)
}
