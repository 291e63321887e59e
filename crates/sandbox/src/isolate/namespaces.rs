//! New user, process, network, IPC, host-name and mount namespaces with an empty root, and no capabilities.

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

/// The unprivileged user that root becomes.
const NOBODY: u32 = 65_534;

pub(super) fn enter() -> Result<(), String> {
    let others =
        UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS | UnshareFlags::NEWPID;
    let with_user = others | UnshareFlags::NEWUSER;
    // Root with its capabilities needs no user namespace for the others; without them it is a user like any other.
    let outcome = match rustix::process::geteuid().is_root() {
        true => unshare(others).or_else(|_| unshare(with_user)),
        false => unshare(with_user),
    };
    outcome.map_err(|e| format!("unshare: {e}"))?;
    empty_root().map_err(|(what, e)| format!("{what}: {e}"))
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // Sound: this process has one thread, and file descriptors stay shared with nobody.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// A read-only file system without any file becomes the root; the old one is gone for this process.
fn empty_root() -> Result<(), (&'static str, Errno)> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change("/", private).map_err(|e| ("private mounts", e))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    // Any directory serves as the place to mount on.
    let place = ["/tmp", "/proc", "/dev", "/usr"].into_iter().find(|dir| std::path::Path::new(dir).is_dir());
    let place = place.ok_or(("a directory to mount on", Errno::NOENT))?;
    rustix::mount::mount("none", place, "tmpfs", flags, Some(c"size=4k,nr_inodes=2,mode=0555"))
        .map_err(|e| ("mount of an empty root", e))?;
    rustix::process::chdir(place).map_err(|e| ("chdir", e))?;
    // With both the same, the old root is stacked on the new one and can be taken off.
    rustix::process::pivot_root(".", ".").map_err(|e| ("pivot_root", e))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(|e| ("unmount of the old root", e))?;
    rustix::process::chdir("/").map_err(|e| ("chdir", e))
}

/// Root becomes nobody where it may; then every capability goes, and none can come back.
pub(super) fn drop_privileges() -> Result<(), String> {
    if rustix::process::geteuid().is_root() && become_nobody() {
        // One more wall where it can be had: a user namespace in which nobody is mapped. It gives nothing away.
        let _ = unshare(UnshareFlags::NEWUSER);
    }
    rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(|e| format!("capset: {e}"))
}

/// False where this root may not change its user (a container without that capability): then the other layers have to
/// do, as for an ordinary user.
fn become_nobody() -> bool {
    // Sound: plain system calls; this process has one thread.
    unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
    }
}
