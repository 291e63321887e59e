//! The first process of a jail: it builds the jail around itself, gives up every right, starts the program, collects
//! what ends, and watches the limits. Its own end is the end of all.

use super::cgroup::Group;
use super::filter::Filters;
use super::plan::Plan;
use super::root::{self, Step, isolation};
use super::server::internal;
use super::wire::{self, Failure, Order, Word};
use super::{program, watch, without};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

/// The mount namespace comes later, so that it holds what is mounted by then.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// What the launcher hands over.
pub(super) struct Streams {
    pub job: OwnedFd,
    /// Standard input, output and error, and perhaps the channel.
    pub program: Vec<OwnedFd>,
}

impl Streams {
    /// With the plan, which comes second.
    fn new(fds: Vec<OwnedFd>) -> Step<(Streams, File)> {
        let mut fds = fds.into_iter();
        match (fds.next(), fds.next()) {
            (Some(job), Some(plan)) => Ok((Streams { job, program: fds.collect() }, File::from(plan))),
            _ => Err(internal("order", "its descriptors are missing")),
        }
    }
}

/// In the launcher: the id of the jail's first process.
pub(super) fn start(order: &Order, fds: Vec<OwnedFd>, group: &mut Group, filters: &Filters) -> Step<i32> {
    let (streams, plan) = Streams::new(fds)?;
    if order.change_user {
        return start_as(order, plan, streams, group, filters);
    }
    match fork(order)? {
        (0, why) => live(plan, &streams, prepare(group, order, why), filters),
        (pid, _) => Ok(pid),
    }
}

/// Into namespaces, or without them, and why.
fn fork(order: &Order) -> Step<(i32, Option<String>)> {
    let why = match order.without_namespaces {
        true => "not wanted".to_owned(),
        false => match fork_into(NAMESPACES) {
            Ok(pid) => return Ok((pid, None)),
            Err(e) => format!("new namespaces: {e}"),
        },
    };
    Ok((fork_into(0).map_err(|e| internal("fork", e))?, Some(why)))
}

/// A first process that has its namespaces and its group, and waits for an order on the socket. Whatever it fails at is
/// told then.
pub(super) fn spare(group: &mut Group, filters: &Filters) -> Step<(i32, OwnedFd)> {
    let pair = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    );
    let (ours, theirs) = pair.map_err(|e| internal("socket pair", e))?;
    // Asked here: inside, nobody has a number yet.
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match fork_into(NAMESPACES).map_err(no_namespaces)? {
        0 => {}
        pid => return Ok((pid, ours)),
    }
    drop(ours);
    let prepared = prepare_inside(group, uid, gid);
    let Ok(Some((order, fds))) = wire::receive::<Order>(&theirs) else { exit(0) };
    drop(theirs);
    match Streams::new(fds) {
        Ok((streams, plan)) => {
            live(plan, &streams, prepared.map(|prepared| Prepared { cpu: order.cpu(), ..prepared }), filters)
        }
        Err(_) => exit(1),
    }
}

/// The rights of somebody else are taken before the jail is built, so that they count for all that is shown in it.
fn start_as(order: &Order, plan: File, streams: Streams, group: &mut Group, filters: &Filters) -> Step<i32> {
    match fork_into(0).map_err(|e| internal("fork", e))? {
        0 => {}
        pid => return Ok(pid),
    }
    let Order { uid, gid, .. } = *order;
    // Sound: plain system calls; this process has one thread.
    let changed = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(gid, gid, gid) == 0
            && libc::setresuid(uid, uid, uid) == 0
    };
    let outcome = match changed {
        false => Err(Failure::Spec {
            what: format!("no right to become user {uid}: {}", Errno::PERM),
            fix: "run jarvis as root, or leave `user` out".to_owned(),
        }),
        // The user's own processes could trace this one otherwise.
        true => die_with_parent().and_then(|()| fork(order)),
    };
    match outcome {
        Ok((0, why)) => live(plan, &streams, prepare(group, order, why), filters),
        Ok((first, _)) => {
            drop(streams);
            end_like(first)
        }
        Err(failure) => {
            let _ = wire::send(&streams.job, &Word::Failed(failure), &[]);
            exit(1)
        }
    }
}

/// Waits for the first process, and ends as it did.
fn end_like(first: i32) -> ! {
    let mut status = 0;
    // Sound: a child of this process.
    unsafe {
        while libc::waitpid(first, &mut status, 0) < 0
            && Errno::from_io_error(&std::io::Error::last_os_error()) == Some(Errno::INTR)
        {}
        if libc::WIFSIGNALED(status) {
            libc::kill(libc::getpid(), libc::WTERMSIG(status));
        }
    }
    exit(libc::WEXITSTATUS(status))
}

/// Like `fork`, into new namespaces at once: their first process needs no second fork.
fn fork_into(namespaces: i32) -> rustix::io::Result<i32> {
    // Sound: without a stack and shared memory this is `fork`; this process has one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, namespaces | libc::SIGCHLD, 0, 0, 0, 0) };
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid >= 0)
        .ok_or_else(|| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM))
}

fn no_namespaces(e: Errno) -> Failure {
    Failure::Isolation {
        missing: format!("new namespaces (user, mount, process, network): {e}"),
        fix: super::fix::namespaces_fix(),
    }
}

/// What a cgroup bounds for all processes together.
#[derive(Debug)]
pub(super) struct Bounds {
    pub memory: bool,
    /// Tells of processes that the kernel killed for their memory.
    pub events: Option<File>,
    pub processes: bool,
}

/// What does not depend on what is to be run.
struct Prepared {
    bounds: Bounds,
    /// Why there are no namespaces.
    without: Option<String>,
    /// Whether a share of the processors, which was asked for, is held.
    cpu: Option<bool>,
}

fn prepare(group: &mut Group, order: &Order, without: Option<String>) -> Step<Prepared> {
    if without.is_none() {
        let prepared = prepare_inside(group, order.uid, order.gid)?;
        return Ok(Prepared { cpu: order.cpu(), ..prepared });
    }
    rustix::process::setsid().map_err(|e| internal("session", e))?;
    let bounds = join(group);
    // Orphans come here and not to the machine's first process. This one must live as long as any of them: it goes by the
    // end of its socket, and not with the launcher.
    // Sound: a plain system call.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(internal("orphans", std::io::Error::last_os_error()));
    }
    Ok(Prepared { bounds, without, cpu: order.cpu() })
}

fn prepare_inside(group: &mut Group, uid: u32, gid: u32) -> Step<Prepared> {
    die_with_parent()?;
    rustix::process::setsid().map_err(|e| internal("session", e))?;
    let bounds = join(group);
    // Its own maps can only be written by a process that may be looked at; nobody runs inside yet.
    dumpable(DumpableBehavior::Dumpable)?;
    map_user(uid, gid)?;
    dumpable(DumpableBehavior::NotDumpable)?;
    // Sound: four bytes. The old name, which says nothing, stays where this is refused.
    let _ = unsafe { libc::sethostname(c"jail".as_ptr(), 4) };
    Ok(Prepared { bounds, without: None, cpu: None })
}

fn join(group: &mut Group) -> Bounds {
    let joined = group.join().is_ok();
    Bounds { memory: joined && group.memory, events: group.take_events(), processes: joined && group.pids }
}

fn dumpable(how: DumpableBehavior) -> Step<()> {
    rustix::process::set_dumpable_behavior(how).map_err(|e| internal("not dumpable", e))
}

/// The whole life of the first process.
fn live(plan: File, streams: &Streams, prepared: Step<Prepared>, filters: &Filters) -> ! {
    let mut tmp = None;
    let mut alone = false;
    let outcome = prepared.and_then(|prepared| {
        alone = prepared.without.is_some();
        build(plan, streams, prepared, filters, &mut tmp)
    });
    let mut last = match &outcome {
        Ok(running) => watch::attend(&streams.job, running),
        Err(failure) => Some(Word::Failed(failure.clone())),
    };
    // Said at the very end: where the kernel does not end the others with this process, they are gone by then.
    let swept = if alone { without::hunt() } else { watch::sweep() };
    if let (Some(Word::Ended { all, .. }), Ok(running), true) = (&mut last, &outcome, swept) {
        *all = Some(watch::used(running));
    }
    if let Some(tmp) = tmp {
        // Whatever is in it belongs to the same user; what cannot be removed lies in /tmp.
        let _ = std::fs::remove_dir_all(tmp);
    }
    if let Some(last) = last {
        // Nobody to tell when jarvis is gone.
        let _ = wire::send(&streams.job, &last, &[]);
    }
    exit(0)
}

fn build(
    mut file: File,
    streams: &Streams,
    prepared: Prepared,
    filters: &Filters,
    tmp: &mut Option<PathBuf>,
) -> Step<watch::Running> {
    let mut text = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut text)).map_err(|e| internal("plan", e))?;
    drop(file);
    let mut plan: Plan = serde_json::from_slice(&text).map_err(|e| internal("plan", e))?;
    let Prepared { bounds, without, cpu } = prepared;
    let mut layers = Vec::new();
    let own_processes = without.is_none();
    if own_processes {
        layers.extend(["user namespace", "process namespace", "ipc and host-name namespaces"].map(str::to_owned));
    }
    let no_mounts = without.or_else(|| root::begin().err().map(|e| format!("mount namespace: {e}")));
    let (seen, ruleset) = match no_mounts {
        None => (inside(&plan, streams, &mut layers)?, None),
        Some(why) => {
            let walls = without::build(&mut plan, &why, own_processes)?;
            *tmp = Some(walls.tmp);
            layers.extend(walls.layers);
            give_up_rights()?;
            // The old /proc counts processes in the other namespace's numbers.
            let seen = if own_processes { watch::Seen::Nothing } else { watch::Seen::Descendants };
            (seen, Some(walls.ruleset))
        }
    };
    layers.extend(["no capabilities", "no new privileges"].map(str::to_owned));
    let watched = seen != watch::Seen::Nothing;
    if !bounds.memory && !watched && !plan.best_effort {
        return Err(Failure::Isolation {
            missing: "memory of all processes together can be neither limited (no cgroup) nor watched (no /proc)"
                .to_owned(),
            fix: "delegate a cgroup (systemd-run --user --scope -p Delegate=yes …), or set best_effort".to_owned(),
        });
    }
    layers.push(format!("memory: {}", how(bounds.memory, watched)));
    layers.push(format!("processes: {}", how(bounds.processes, watched)));
    if let Some(held) = cpu {
        layers.push(if held { "processors: cgroup" } else { "processors: not limited" }.to_owned());
    }
    let programs = filters.programs(&plan.filter, ruleset.is_none(), bounds.memory);
    let signals = crate::zygote::child_signals().map_err(|e| internal("signals", e))?;
    let started = program::start(&plan, streams, &programs, ruleset.as_ref(), bounds.memory)?;
    layers.extend(["resource limits", "seccomp"].map(str::to_owned));
    wire::send(&streams.job, &Word::Started { layers }, &[]).map_err(|e| internal("report", e))?;
    Ok(watch::Running::new(started, signals, plan.limits, bounds, seen))
}

/// With a mount namespace: the new root, the network, Landlock on top.
fn inside(plan: &Plan, streams: &Streams, layers: &mut Vec<String>) -> Step<watch::Seen> {
    let no_proc = root::enter(plan)?;
    layers.push(if plan.whole { "whole file system".to_owned() } else { "mount namespace".to_owned() });
    if let Some(e) = no_proc {
        layers.push(format!("no /proc (a new one cannot be mounted here: {e})"));
    }
    network(plan, &streams.job)?;
    layers.push(if plan.proxy { "network: proxy only".to_owned() } else { "network: none".to_owned() });
    let landlocked = super::landlock::enter(plan);
    give_up_rights()?;
    match landlocked {
        Ok(()) => layers.push("landlock".to_owned()),
        Err(why) => layers.push(format!("no landlock ({why}); the mount namespace holds alone")),
    }
    Ok(if no_proc.is_none() { watch::Seen::Own } else { watch::Seen::Nothing })
}

fn how(group: bool, watched: bool) -> &'static str {
    match (group, watched) {
        (true, _) => "cgroup",
        (false, true) => "watched, and limits of each process",
        (false, false) => "limits of each process only",
    }
}

fn die_with_parent() -> Step<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| internal("parent death signal", e))
}

/// The one user and group that exist inside are the ones outside.
fn map_user(uid: u32, gid: u32) -> Step<()> {
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("{uid} {uid} 1")), ("gid_map", format!("{gid} {gid} 1"))]
    {
        let write = |mut file: File| file.write_all(text.as_bytes());
        File::options().write(true).open(format!("/proc/self/{file}")).and_then(write).map_err(|e| {
            Failure::Isolation { missing: format!("user namespace ({file}): {e}"), fix: super::fix::namespaces_fix() }
        })?;
    }
    Ok(())
}

/// Loopback, and the proxy's listener on it, which goes to jarvis before anything runs.
fn network(plan: &Plan, job: &OwnedFd) -> Step<()> {
    if !plan.proxy {
        return Ok(());
    }
    up(c"lo").map_err(isolation("loopback"))?;
    let listener =
        TcpListener::bind(("127.0.0.1", super::PROXY_PORT)).map_err(|e| internal("listener of the proxy", e))?;
    wire::send(job, &Word::Listening, &[listener.as_fd()]).map_err(|e| internal("listener of the proxy", e))?;
    let mut go = [0u8; 1];
    match rustix::io::read(job, &mut go) {
        Ok(1) => Ok(()),
        _ => exit(0),
    }
}

fn up(device: &std::ffi::CStr) -> rustix::io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // Sound: a zeroed request with a name that fits and ends in zero.
    let outcome = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        std::ptr::copy_nonoverlapping(device.as_ptr(), request.ifr_name.as_mut_ptr(), device.count_bytes());
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request)
    };
    if outcome == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

/// No capability now, none at the next `exec`, none ever.
fn give_up_rights() -> Step<()> {
    for capability in 0..64 {
        // Sound: a plain system call. The first number that the kernel does not know ends it.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INVAL) => break,
                // Without the right to, there was nothing to give up: an ordinary user without namespaces.
                Some(Errno::PERM) => break,
                _ => return Err(internal("capabilities", std::io::Error::last_os_error())),
            }
        }
    }
    rustix::thread::set_no_new_privs(true).map_err(|e| internal("no_new_privs", e))?;
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none).map_err(|e| internal("capabilities", e))?;
    // Changed rights made it dumpable or not as the kernel likes; this is what holds.
    dumpable(DumpableBehavior::NotDumpable)
}

pub(super) fn exit(status: i32) -> ! {
    // Sound: nothing is left to be done in a copy of the launcher's memory.
    unsafe { libc::_exit(status) }
}
