//! The jail's file system: a new, small root in memory with only what was asked for.

use super::plan::{Mount, Plan};
use super::wire::{Failure, Raw};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree,
};
use rustix::thread::UnshareFlags;
use std::ffi::{CString, OsStr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/shm", "/tmp"),
];

/// Of the kernel's tables: what tells of the machine's memory or keys, or takes orders.
const MASKED_PROC: [&str; 11] = [
    "keys",
    "key-users",
    "kcore",
    "sysrq-trigger",
    "kmsg",
    "timer_list",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "slabinfo",
    "vmallocinfo",
];

/// What covers others; nobody has any right to it, so that the answer is "permission denied".
const COVER_FOLDER: &str = "/dev/.folder";
const COVER_FILE: &str = "/dev/.file";

/// From `linux/mount.h`.
const ATTR_RDONLY: u64 = 1;
const ATTR_NOSUID: u64 = 2;
const ATTR_NODEV: u64 = 4;

pub(super) type Step<T> = Result<T, Failure>;

/// A mount namespace of one's own. Nothing has changed when it fails.
pub(super) fn begin() -> rustix::io::Result<()> {
    // Sound: this process has one thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    // Older kernels cannot make a whole tree read-only.
    set_attributes(CWD, c"/", 0, 0)
}

/// Makes the new root and goes into it. Says why there is no `/proc`, if there is none.
pub(super) fn enter(plan: &Plan) -> Step<Option<Errno>> {
    // Cloned before the new root covers any of them.
    let whole = if plan.whole { Some(clone(Path::new("/"), ATTR_NOSUID)?) } else { None };
    let devices = plan.devices.iter().map(|path| Path::new(path.as_os()));
    let devices: Vec<_> = DEVICES
        .iter()
        .map(Path::new)
        .chain(devices)
        .map(|path| Ok((path, clone(path, ATTR_NOSUID)?)))
        .collect::<Step<_>>()?;
    let mut shown = Vec::with_capacity(plan.mounts.len());
    for mount in &plan.mounts {
        if let Mount::Show { path, write } = mount {
            let attributes = ATTR_NOSUID | ATTR_NODEV | if *write { 0 } else { ATTR_RDONLY };
            shown.push(clone(Path::new(path.as_os()), attributes)?);
        }
    }
    let no_proc = pivot(whole)?;
    for (path, tree) in devices {
        let place = place(path, false)?;
        attach(&tree, &place, path)?;
    }
    for (link, target) in LINKS {
        link_to(Path::new(link), OsStr::new(target))?;
    }
    tmp(plan)?;
    let mut shown = shown.into_iter();
    for mount in &plan.mounts {
        match mount {
            Mount::Show { path, .. } => {
                let Some(tree) = shown.next() else { continue };
                let path = Path::new(path.as_os());
                let stat = rustix::fs::fstat(&tree).map_err(isolation("stat"))?;
                let directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
                attach(&tree, &place(path, directory)?, path)?;
            }
            Mount::Link { path, target } => link_to(Path::new(path.as_os()), target.as_os())?,
            Mount::File { path, text } => write_file(Path::new(path.as_os()), text)?,
            Mount::Pin { path } => pin(Path::new(path.as_os()))?,
            Mount::Protect { path, may_go } => protect(path, *may_go)?,
            Mount::Hide { path } => hide(Path::new(path.as_os()))?,
        }
    }
    if no_proc.is_none() {
        // Root's own files, which only root's programs could read.
        let masked = if rustix::process::geteuid().is_root() { &MASKED_PROC[..] } else { &MASKED_PROC[..2] };
        let mut masked = masked.iter().map(|name| Path::new("/proc").join(name));
        masked.try_for_each(|path| hide(&path))?;
        // It takes no orders; what a process may ask of itself goes through system calls.
        set_attributes(CWD, c"/proc", ATTR_RDONLY, 0).map_err(isolation("read-only /proc"))?;
    }
    if plan.read_only_root && !plan.whole {
        set_attributes(CWD, c"/", ATTR_RDONLY, 0).map_err(isolation("read-only root"))?;
    }
    Ok(no_proc)
}

/// The old root is gone for this process afterwards. Says why there is no `/proc`, if there is none.
fn pivot(whole: Option<OwnedFd>) -> Step<Option<Errno>> {
    // Any directory serves as the place to mount on.
    let place = ["/tmp", "/usr", "/etc"].into_iter().find(|dir| Path::new(dir).is_dir());
    let place = Path::new(place.ok_or_else(|| isolation("a directory to mount on")(Errno::NOENT))?);
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    match whole {
        Some(tree) => {
            let target =
                rustix::fs::open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(isolation("open"))?;
            attach(&tree, &target, place)?;
            for covered in ["dev", "run", "sys"].map(|name| place.join(name)).iter().filter(|dir| dir.is_dir()) {
                rustix::mount::mount("none", covered, "tmpfs", flags, Some(c"size=64k,mode=0755"))
                    .map_err(isolation("cover of a directory"))?;
            }
        }
        None => rustix::mount::mount("none", place, "tmpfs", flags, Some(c"size=4m,nr_inodes=4096,mode=0755"))
            .map_err(isolation("mount of a new root"))?,
    }
    for dir in ["proc", "dev", "tmp"] {
        make_dir(CWD, &place.join(dir), 0o755)?;
    }
    // The kernel grants this only while the old one is in sight.
    let flags = flags | MountFlags::NOEXEC;
    let no_proc = rustix::mount::mount("proc", place.join("proc"), "proc", flags, None).err();
    if no_proc.is_some() {
        // In the whole tree, the old one shows through.
        let _ = rustix::mount::mount("none", place.join("proc"), "tmpfs", flags | MountFlags::RDONLY, Some(c"size=4k"));
    }
    rustix::process::chdir(place).map_err(isolation("chdir"))?;
    // With both the same, the old root is stacked on the new one and can be taken off.
    rustix::process::pivot_root(".", ".").map_err(isolation("pivot_root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(isolation("unmount of the old root"))?;
    rustix::process::chdir("/").map_err(isolation("chdir"))?;
    make_dir(CWD, Path::new(COVER_FOLDER), 0)?;
    rustix::fs::open(COVER_FILE, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(isolation("cover"))?;
    for cover in [COVER_FOLDER, COVER_FILE] {
        protect(&Raw::from(cover), false)?;
    }
    Ok(no_proc)
}

fn tmp(plan: &Plan) -> Step<()> {
    let (size, inodes) = (plan.limits.disk_mb, plan.limits.disk_mb.saturating_mul(64).clamp(1024, 1 << 20));
    let options = CString::new(format!("size={size}m,nr_inodes={inodes},mode=1777"));
    let options = options.map_err(|_| isolation("options")(Errno::INVAL))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("none", "/tmp", "tmpfs", flags, Some(options.as_c_str()))
        .map_err(isolation("private /tmp"))?;
    make_dir(CWD, Path::new(super::JAIL_HOME), 0o700)
}

/// A tree that is not attached anywhere yet.
fn clone(path: &Path, attributes: u64) -> Step<OwnedFd> {
    let outside = |e: Errno| Failure::Spec {
        what: format!("{} cannot be shown in the jail: {e}", path.display()),
        fix: "check that it exists and that you may enter every folder above it".to_owned(),
    };
    // Links were followed when the path was checked; one that is there now was put there since.
    let found =
        rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .map_err(outside)?;
    let tree = clone_at(&found).map_err(outside)?;
    set_attributes(&tree, c"", attributes, libc::AT_RECURSIVE as u32).map_err(isolation("attributes of a mount"))?;
    Ok(tree)
}

fn clone_at(fd: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(fd, "", flags)
}

fn set_attributes(dir: impl AsFd, path: &std::ffi::CStr, set: u64, flags: u32) -> rustix::io::Result<()> {
    let attributes: [u64; 4] = [set, 0, 0, 0];
    // Sound: a `struct mount_attr` of 32 bytes, which the kernel only reads.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags | libc::AT_EMPTY_PATH as u32,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if outcome == 0 { Ok(()) } else { Err(last()) }
}

fn attach(tree: &OwnedFd, target: &OwnedFd, path: &Path) -> Step<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags).map_err(|e| Failure::Isolation {
        missing: format!("{} cannot be mounted: {e}", path.display()),
        fix: super::fix::namespaces_fix(),
    })
}

/// The place in the new root, without following links. Nothing but our own root is written to.
fn find(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

/// A place to mount on, made where it is not there.
fn place(path: &Path, directory: bool) -> Step<OwnedFd> {
    match find(path) {
        Ok(found) => return Ok(found),
        Err(Errno::NOENT) => {}
        Err(e) => return Err(no_place(path)(e)),
    }
    make_parents(path)?;
    if directory {
        make_dir(CWD, path, 0o755)?;
    } else {
        write_file(path, "")?;
    }
    find(path).map_err(no_place(path))
}

fn no_place(path: &Path) -> impl Fn(Errno) -> Failure {
    move |e| Failure::Spec {
        what: format!("{} has no place in the jail: {e}", path.display()),
        fix: "name a folder that is not below a file, a link or a hidden folder".to_owned(),
    }
}

fn make_dir(at: impl AsFd, path: &Path, mode: u32) -> Step<()> {
    match rustix::fs::mkdirat(at, path, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(no_place(path)(e)),
    }
}

fn make_parents(path: &Path) -> Step<()> {
    let missing: Vec<_> = path.ancestors().skip(1).take_while(|dir| !dir.exists()).collect();
    missing.into_iter().rev().try_for_each(|dir| make_dir(CWD, dir, 0o755))
}

fn write_file(path: &Path, text: &str) -> Step<()> {
    make_parents(path)?;
    std::fs::write(path, text).map_err(|e| no_place(path)(Errno::from_io_error(&e).unwrap_or(Errno::IO)))
}

fn link_to(path: &Path, target: &OsStr) -> Step<()> {
    make_parents(path)?;
    match rustix::fs::symlinkat(target, CWD, path) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(no_place(path)(e)),
    }
}

/// What is there becomes a mount of its own: read-only, and it can be neither moved nor taken away.
fn protect(path: &Raw, may_go: bool) -> Step<()> {
    let path = Path::new(path.as_os());
    let failed = |e: Errno| Failure::Spec {
        what: format!("{} cannot be kept read-only: {e}", path.display()),
        fix: "replace a link by what it points to, or use the preset read-only".to_owned(),
    };
    let found = match find(path) {
        // Another jail may take away what it made itself; where this process cannot go, its children cannot either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) if may_go => return Ok(()),
        found => found.map_err(failed)?,
    };
    let tree = clone_at(&found).map_err(failed)?;
    set_attributes(&tree, c"", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, libc::AT_RECURSIVE as u32).map_err(failed)?;
    attach(&tree, &found, path)
}

/// What is there becomes a mount of its own, with the rights it had: a new name for it is refused.
fn pin(path: &Path) -> Step<()> {
    let found = match find(path) {
        Ok(found) => found,
        // What lies in it cannot be reached then.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(()),
        Err(e) => return Err(no_place(path)(e)),
    };
    let tree = clone_at(&found).map_err(isolation("folder that stays in its place"))?;
    attach(&tree, &found, path)
}

/// Covers what is there; nothing to do where nothing is.
fn hide(path: &Path) -> Step<()> {
    let found = match find(path) {
        Ok(found) => found,
        // Where this process cannot go, its children cannot either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(e) => return Err(no_place(path)(e)),
    };
    let stat = rustix::fs::fstat(&found).map_err(isolation("stat"))?;
    let directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    // They are read-only mounts themselves, and so are their clones.
    let cover = open_tree(CWD, if directory { COVER_FOLDER } else { COVER_FILE }, flags).map_err(isolation("cover"))?;
    attach(&cover, &found, path)
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The failure of a step that needs namespaces of one's own.
pub(super) fn isolation(what: &'static str) -> impl Fn(Errno) -> Failure {
    move |e| Failure::Isolation { missing: format!("{what}: {e}"), fix: super::fix::namespaces_fix() }
}

pub(super) fn raw_bytes(raw: &Raw) -> Step<CString> {
    CString::new(raw.as_os().as_bytes()).map_err(|_| Failure::Spec {
        what: "a zero byte in an argument, a path or the environment".to_owned(),
        fix: "leave it out".to_owned(),
    })
}
