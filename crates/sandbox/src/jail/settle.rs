//! Checks a [`JailSpec`] and settles what the jail shows, hides and protects.

use super::filter::{Seccomp, pack};
use super::guard::{Guards, Places, guard};
use super::lists::{BARE_SETTINGS, HOME_SECRETS, PROGRAMS, SHARED_ROOTS, SYSTEM, SYSTEM_ROOTS, SYSTEM_SECRETS, TOOLS};
use super::placeholder::Placeholder;
use super::plan::{Choice, Mount, Plan};
use super::spec::{JailNetwork, JailSpec, JailUser, Preset, View};
use super::wire::Raw;
use crate::error::SandboxError;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What programs look for to find the way out.
const PROXY_NAMES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "npm_config_proxy",
    "npm_config_https_proxy",
];

const DAY_MS: u64 = 86_400_000;

/// The plan, and what must be kept while the jail lives.
pub(super) struct Settled {
    pub plan: Plan,
    pub placeholders: Vec<Placeholder>,
    /// To be told beside the layers.
    pub notes: Vec<String>,
    pub uid: u32,
    pub gid: u32,
    pub change_user: bool,
}

pub(super) fn spec_error(what: impl Into<String>, fix: impl Into<String>) -> SandboxError {
    SandboxError::Spec { what: what.into(), fix: fix.into() }
}

pub(super) fn settle(spec: &JailSpec) -> Result<Settled, SandboxError> {
    check_limits(spec)?;
    let home = spec.home.as_deref().map(|home| resolve("the home folder", home)).transpose()?;
    let workspace = match spec.preset {
        Preset::ReadOnly if spec.workspace.as_os_str().is_empty() => None,
        _ => Some(resolve("the workspace", &spec.workspace)?),
    };
    if let Some(workspace) = &workspace {
        refuse_place("workspace", workspace, home.as_deref())?;
    }
    let read_only =
        spec.read_only.iter().map(|path| resolve("a read-only path", path)).collect::<Result<Vec<_>, _>>()?;
    let read_write =
        spec.read_write.iter().map(|path| resolve("a writable path", path)).collect::<Result<Vec<_>, _>>()?;
    read_only.iter().try_for_each(|path| refuse_shown(path))?;
    for path in &read_write {
        refuse_place("writable path", path, home.as_deref())?;
    }
    if spec.preset == Preset::ReadOnly && !read_write.is_empty() {
        return Err(spec_error("the preset read-only has no writable paths", "choose the preset workspace-write"));
    }
    let hidden = hidden(spec, home.as_deref());
    let asked = workspace.iter().chain(&read_only).chain(&read_write);
    if let Some((path, secret)) = asked.flat_map(|p| hidden.iter().map(move |h| (p, h))).find(|(p, h)| p.starts_with(h))
    {
        return Err(spec_error(
            format!("{} lies in {}, which is hidden from jails", path.display(), secret.display()),
            "choose a folder outside of it, or copy what is needed into the workspace",
        ));
    }
    let mut shown: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut mounts = Vec::new();
    let whole = spec.preset == Preset::Full;
    if whole {
        // The private /tmp covers it otherwise.
        let in_tmp = workspace.iter().chain(&read_only).chain(&read_write).filter(|p| p.starts_with("/tmp"));
        shown.extend(in_tmp.map(|path| (path.clone(), true)));
    } else {
        system(spec, home.as_deref(), &mut shown, &mut mounts);
        shown.extend(read_only.iter().map(|path| (path.clone(), false)));
        shown.extend(workspace.iter().map(|path| (path.clone(), spec.preset == Preset::WorkspaceWrite)));
        shown.extend(read_write.iter().map(|path| (path.clone(), true)));
    }
    let program = program(spec, &shown, &mounts, whole)?;
    let dir = working_dir(spec, &shown, whole)?;
    // A map in the order of paths: what is inside of something comes after it.
    let show = |(path, write): (&PathBuf, &bool)| Mount::Show { path: Raw::from(path), write: *write };
    let covered =
        |path: &PathBuf, write: bool| path.ancestors().skip(1).find_map(|above| shown.get(above)) == Some(&write);
    let mut all: Vec<_> = shown.iter().filter(|(path, write)| !covered(path, **write)).map(show).collect();
    all.append(&mut mounts);
    // Read-only places are looked through for sockets alone, and without a proxy the strict filter lets nothing open one.
    let no_sockets = matches!((&spec.seccomp, &spec.network), (Seccomp::Strict, JailNetwork::None));
    let looked_through: &[PathBuf] = if no_sockets { &[] } else { &read_only };
    let places = Places {
        workspace: workspace.as_deref(),
        read_only: looked_through,
        read_write: &read_write,
        shown: &shown,
        hidden: &hidden,
        whole,
    };
    let Guards { mounts: mut guarded, placeholders, notes } = guard(&places)?;
    all.append(&mut guarded);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (uid, gid, change_user) = match spec.user {
        JailUser::Other { uid: other, gid: group } if (other, group) != (uid, gid) => (other, group, true),
        _ => (uid, gid, false),
    };
    if change_user && !rustix::process::geteuid().is_root() {
        return Err(spec_error(
            format!("only root can run a program as user {uid}"),
            "leave `user` out: the program then has your own rights, without any privilege",
        ));
    }
    let plan = Plan {
        program: Raw::from(&program),
        args: spec.args.iter().map(Raw::from).collect(),
        env: environment(spec)?,
        dir: Raw::from(&dir),
        whole,
        mounts: all,
        devices: devices(spec)?,
        read_only_root: spec.read_only_root,
        limits: spec.limits.into(),
        filter: filter(spec),
        proxy: matches!(spec.network, JailNetwork::Proxy { .. }),
        best_effort: spec.best_effort,
    };
    Ok(Settled { plan, placeholders, notes, uid, gid, change_user })
}

fn check_limits(spec: &JailSpec) -> Result<(), SandboxError> {
    let l = &spec.limits;
    let bounds = [
        ("time (wall_ms)", l.wall_ms, DAY_MS),
        ("processor time (cpu_ms)", l.cpu_ms, DAY_MS * 64),
        ("memory (memory_mb)", l.memory_mb, 1 << 22),
        ("processes (pids)", l.pids.into(), 1 << 20),
        ("file size (file_mb)", l.file_mb, 1 << 22),
        ("disk (disk_mb)", l.disk_mb, 1 << 22),
        ("open files (open_files)", l.open_files, 1 << 20),
        ("output (output_bytes)", l.output_bytes, 1 << 32),
    ];
    match bounds.iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
        None => Ok(()),
        Some((name, value, most)) => {
            Err(spec_error(format!("the limit of {name} is {value}"), format!("choose 1 to {most}")))
        }
    }
}

/// Without links. It must be there.
fn resolve(what: &str, path: &Path) -> Result<PathBuf, SandboxError> {
    if !path.is_absolute() {
        return Err(spec_error(
            format!("{what} `{}` is not an absolute path", path.display()),
            "write it in full, from `/` on",
        ));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(spec_error(format!("{what} has a zero byte in its name"), "leave it out"));
    }
    path.canonicalize()
        .map_err(|e| spec_error(format!("{what} `{}`: {e}", path.display()), "check that it exists and may be read"))
}

/// Refuses what would give away the system, the whole home, or other people's files. Compares resolved paths, so neither
/// `$HOME` written otherwise nor a slash at the end gets around it.
fn refuse_place(what: &str, path: &Path, home: Option<&Path>) -> Result<(), SandboxError> {
    let no = |why: &str| {
        Err(spec_error(
            format!("{} cannot be a {what}: {why}", path.display()),
            "choose a folder of its own for the project",
        ))
    };
    if let Some(root) = SYSTEM_ROOTS.iter().find(|root| path.starts_with(root)) {
        return no(&format!("{root} belongs to the system"));
    }
    if SHARED_ROOTS.iter().any(|root| path == Path::new(root)) {
        return no("it holds more than one project");
    }
    match home {
        Some(home) if home.starts_with(path) => no("your home folder lies in it"),
        _ => Ok(()),
    }
}

/// Why a folder is none that a project can have: it holds the system, more than one project, or the whole home.
pub fn workspace_problem(path: &Path, home: Option<&Path>) -> Option<String> {
    refuse_place("workspace", path, home).err().map(|error| error.to_string())
}

/// Refuses to show what a jail has of its own, which would be mounted over it.
fn refuse_shown(path: &Path) -> Result<(), SandboxError> {
    let no = |why: &str, fix: &str| Err(spec_error(format!("{} cannot be shown: {why}", path.display()), fix));
    match ["/dev", "/proc", "/sys"].iter().find(|own| path.starts_with(own)) {
        Some(&"/dev") => no("a jail has a /dev of its own", "name the device itself among the devices"),
        Some(&"/proc") => {
            no("a jail has a /proc of its own", "leave it out: the jail's own processes are in it anyway")
        }
        Some(_) => no("the kernel's devices and settings lie in it", "copy what is needed into the workspace"),
        None if path == Path::new("/") => {
            no("it is the whole machine", "name the folders that are needed, or choose the preset full")
        }
        None => Ok(()),
    }
}

fn hidden(spec: &JailSpec, home: Option<&Path>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = spec.hidden.iter().filter(|path| path.is_absolute()).cloned().collect();
    if spec.preset != Preset::Full {
        all.extend(SYSTEM_SECRETS.iter().map(PathBuf::from));
        if let Some(home) = home {
            all.extend(HOME_SECRETS.iter().map(|name| home.join(name)));
        }
    }
    // Where a secret is a link, it is its target that has to be hidden. Most are not there, which one call tells.
    all.retain(|path| path.symlink_metadata().is_ok());
    let mut resolved: Vec<_> = all.into_iter().map(|path| path.canonicalize().unwrap_or(path)).collect();
    resolved.sort();
    resolved.dedup();
    resolved
}

/// Links stay links; folders are shown.
fn system(spec: &JailSpec, home: Option<&Path>, shown: &mut BTreeMap<PathBuf, bool>, mounts: &mut Vec<Mount>) {
    let mut add = |path: &Path| match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            if let Ok(target) = std::fs::read_link(path) {
                mounts.push(Mount::Link { path: Raw::from(path), target: Raw::from(&target) });
            }
        }
        // With one part, it is what it is; a longer one may lead through a link.
        Ok(_) if path.components().count() == 2 || path.canonicalize().is_ok_and(|real| real == path) => {
            shown.insert(path.to_owned(), false);
        }
        _ => {}
    };
    PROGRAMS.iter().for_each(|path| add(Path::new(path)));
    match spec.view {
        View::System => {
            SYSTEM.iter().for_each(|path| add(Path::new(path)));
            if let Some(home) = home {
                TOOLS.iter().for_each(|name| add(&home.join(name)));
            }
        }
        View::Bare => BARE_SETTINGS.iter().for_each(|path| add(Path::new(path))),
    }
    if spec.view == View::Bare {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let text = format!("user:x:{uid}:{gid}::{}:/bin/sh\n", super::JAIL_HOME);
        mounts.push(Mount::File { path: Raw::from("/etc/passwd"), text });
        mounts.push(Mount::File { path: Raw::from("/etc/group"), text: format!("user:x:{gid}:\n") });
    }
    mounts.push(Mount::Link { path: Raw::from("/var/tmp"), target: Raw::from("/tmp") });
}

fn is_shown(path: &Path, shown: &BTreeMap<PathBuf, bool>, whole: bool) -> bool {
    (whole && !["/dev", "/run", "/sys", "/tmp"].iter().any(|covered| path.starts_with(covered)))
        || path.starts_with("/tmp/home")
        || path == Path::new("/tmp")
        || path.ancestors().any(|above| shown.contains_key(above))
}

fn program(
    spec: &JailSpec,
    shown: &BTreeMap<PathBuf, bool>,
    _links: &[Mount],
    whole: bool,
) -> Result<PathBuf, SandboxError> {
    let real = resolve("the program", &spec.program)?;
    if !real.is_file() {
        return Err(spec_error(
            format!("the program `{}` is not a file", spec.program.display()),
            "name the program itself",
        ));
    }
    if !is_shown(&real, shown, whole) {
        let folder = real.parent().unwrap_or(Path::new("/"));
        return Err(spec_error(
            format!("the program `{}` lies outside what the jail shows", real.display()),
            format!("show its folder: add {} to the read-only paths", folder.display()),
        ));
    }
    // By the name it was called, where that is there inside: some programs go by it.
    let named = spec.program.parent().and_then(|dir| dir.canonicalize().ok()).zip(spec.program.file_name());
    let named = named.map(|(dir, name)| dir.join(name)).filter(|path| is_shown(path, shown, whole));
    Ok(named.unwrap_or(real))
}

fn working_dir(spec: &JailSpec, shown: &BTreeMap<PathBuf, bool>, whole: bool) -> Result<PathBuf, SandboxError> {
    let dir = match spec.dir.as_path() {
        dir if dir == Path::new("/tmp") || dir == Path::new(super::JAIL_HOME) || dir == Path::new("/") => {
            return Ok(dir.to_owned());
        }
        dir => resolve("the working directory", dir)?,
    };
    if !dir.is_dir() || !is_shown(&dir, shown, whole) {
        return Err(spec_error(
            format!("the working directory {} is not a folder that the jail shows", dir.display()),
            "choose one inside the workspace",
        ));
    }
    Ok(dir)
}

fn environment(spec: &JailSpec) -> Result<Vec<Raw>, SandboxError> {
    let mut env: BTreeMap<OsString, OsString> = spec.env.iter().cloned().collect();
    if matches!(spec.network, JailNetwork::Proxy { .. }) {
        let url = format!("http://127.0.0.1:{}", super::PROXY_PORT);
        env.extend(PROXY_NAMES.map(|name| (OsString::from(name), OsString::from(&url))));
        env.extend(["NO_PROXY", "no_proxy"].map(|name| (OsString::from(name), OsString::new())));
    }
    env.iter()
        .map(|(name, value)| {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(spec_error(format!("{name:?} cannot be the name of a variable"), "choose one without `=`"));
            }
            Ok(Raw::from(&[name.as_os_str(), OsStr::new("="), value.as_os_str()].concat_os()))
        })
        .collect()
}

trait Concat {
    fn concat_os(&self) -> OsString;
}

impl Concat for [&OsStr] {
    fn concat_os(&self) -> OsString {
        self.iter().fold(OsString::new(), |mut all, part| {
            all.push(part);
            all
        })
    }
}

fn devices(spec: &JailSpec) -> Result<Vec<Raw>, SandboxError> {
    let fits = |path: &Path| {
        use std::os::unix::fs::FileTypeExt;
        let kind = std::fs::metadata(path).map(|found| found.file_type());
        path.starts_with("/dev") && kind.is_ok_and(|kind| kind.is_char_device())
    };
    spec.devices
        .iter()
        .map(|device| {
            let path = resolve("the device", device)?;
            // Disks and memory are the whole machine.
            let whole_machine = ["/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse"];
            if !fits(&path) || whole_machine.iter().any(|name| path == Path::new(name)) {
                return Err(spec_error(
                    format!("{} cannot be given to a jail", path.display()),
                    "name a character device such as /dev/ttyUSB0; disks and the machine's memory are refused",
                ));
            }
            Ok(Raw::from(&path))
        })
        .collect()
}

fn filter(spec: &JailSpec) -> Choice {
    match &spec.seccomp {
        Seccomp::Default => Choice::Default,
        Seccomp::Strict => Choice::Strict { sockets: matches!(spec.network, JailNetwork::Proxy { .. }) },
        Seccomp::Profile(profile) => Choice::Programs(profile.programs().iter().map(|program| pack(program)).collect()),
    }
}
