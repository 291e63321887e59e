//! The launcher: one small process that starts the jails of one jarvis, so that a jail costs a fork. It runs nobody's
//! code itself, and ends when jarvis does; every jail ends with it.

use super::cgroup::{Group, Groups};
use super::filter::Filters;
use super::first;
use super::wire::{self, End, Failure, Order, Report};
use crate::zygote::{child_signals, close_from, micros};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

/// Exit status when there is no jarvis on the other side.
const NOT_STARTED_BY_JARVIS: u8 = 2;

/// About what it takes to build a jail.
const BUILDING_MS: i32 = 3;

/// The main function of the launcher. Standard input is the socket to jarvis.
pub fn jail_main() -> ExitCode {
    // Sound: nothing else in this process uses descriptor 0.
    let control = unsafe { OwnedFd::from_raw_fd(0) };
    if rustix::net::sockopt::socket_type(&control) != Ok(rustix::net::SocketType::SEQPACKET) {
        return ExitCode::from(NOT_STARTED_BY_JARVIS);
    }
    let (Ok(()), Ok(filters), Ok(children)) = (close_from(3), Filters::new(), child_signals()) else {
        // Its end is seen on the other side.
        return ExitCode::FAILURE;
    };
    // Neither its memory nor its descriptors are for others to see, a jail's first process included.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let up = Report::Up { version: env!("CARGO_PKG_VERSION").to_owned() };
    if wire::send(&control, &up, &[]).is_err() {
        return ExitCode::FAILURE;
    }
    Launcher {
        control,
        children,
        filters,
        groups: Groups::find(),
        next: 0,
        spare: None,
        spareless: false,
        jails: Vec::new(),
        leaving: Vec::new(),
    }
    .attend();
    ExitCode::SUCCESS
}

struct Launcher {
    control: OwnedFd,
    children: OwnedFd,
    filters: Filters,
    groups: Groups,
    /// Number of the next group.
    next: u64,
    /// Ready for the next order: to make namespaces and to join a group takes longer than all the rest.
    spare: Option<Spare>,
    /// There can be none here.
    spareless: bool,
    jails: Vec<Running>,
    /// Groups that the kernel still held when their jail was gone.
    leaving: Vec<Group>,
}

struct Spare {
    pid: i32,
    socket: OwnedFd,
    group: Group,
}

struct Running {
    id: u64,
    pid: i32,
    group: Group,
}

impl Launcher {
    /// Until jarvis is gone.
    fn attend(&mut self) {
        loop {
            let mut watched = [self.control.as_fd(), self.children.as_fd()].map(|fd| libc::pollfd {
                fd: fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            });
            let spareless = self.spare.is_none() && !self.spareless;
            let wait = match (spareless, self.leaving.is_empty()) {
                // Not while a jail is being built: that is waited for.
                (true, _) => BUILDING_MS,
                (false, true) => -1,
                (false, false) => 20,
            };
            // Sound: two entries, as it is told.
            let ready = unsafe { libc::poll(watched.as_mut_ptr(), 2, wait) };
            self.leaving.retain_mut(|group| !group.remove());
            if ready <= 0 {
                if spareless {
                    self.make_spare();
                }
                continue;
            }
            if watched[1].revents != 0 && !self.reap() {
                break;
            }
            if watched[0].revents != 0 && !self.obey() {
                break;
            }
        }
        self.end();
    }

    /// Ends all jails and takes their groups away.
    fn end(&mut self) {
        let spare = self.spare.take().map(|Spare { pid, group, .. }| Running { id: 0, pid, group });
        self.jails.extend(spare);
        for jail in &mut self.jails {
            // Sound: not reaped yet, so the id is its own.
            unsafe {
                libc::kill(jail.pid, libc::SIGKILL);
                libc::waitpid(jail.pid, std::ptr::null_mut(), 0);
            }
        }
        let groups = self.jails.drain(..).map(|jail| jail.group).chain(self.leaving.drain(..));
        for mut group in groups {
            group.remove();
        }
    }

    fn obey(&mut self) -> bool {
        let Ok(Some((mut order, fds))) = wire::receive::<Order>(&self.control) else { return false };
        let id = order.id;
        order.cpu_limited = self.groups.has_cpu();
        let plain = !order.change_user && !order.without_namespaces;
        if plain && let Some(Spare { pid, socket, mut group }) = self.spare.take() {
            if let Err(failure) = self.limit_cpu(&order, &mut group, pid) {
                self.jails.push(Running { id: 0, pid, group });
                return self.failed(id, failure);
            }
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            if group.limit(order.memory_mb, order.pids) && wire::send(&socket, &order, &fds).is_ok() {
                self.jails.push(Running { id, pid, group });
                return true;
            }
            // It ends with its socket.
            self.jails.push(Running { id: 0, pid, group });
        }
        let mut group = self.new_group();
        let started = match group.limit(order.memory_mb, order.pids) {
            true => first::start(&order, fds, &mut group, &self.filters),
            false => Err(internal("limits of a control group", "the kernel does not take them")),
        };
        match started.and_then(|pid| self.limit_cpu(&order, &mut group, pid).map(|()| pid).inspect_err(|_| end(pid))) {
            Ok(pid) => {
                group.doors.clear();
                self.jails.push(Running { id, pid, group });
                true
            }
            Err(failure) => {
                self.leave(group);
                self.failed(id, failure)
            }
        }
    }

    fn failed(&self, id: u64, failure: Failure) -> bool {
        let end = End { failed: Some(failure), ..End::default() };
        wire::send(&self.control, &Report::Exited { id, end }, &[]).is_ok()
    }

    fn limit_cpu(&self, order: &Order, group: &mut Group, pid: i32) -> Result<(), Failure> {
        let Some(percent) = order.cpu_percent else { return Ok(()) };
        match self.groups.limit_cpu(group, pid, percent) {
            Err(e) if !order.best_effort => Err(Failure::Isolation {
                missing: format!("a share of the processors cannot be limited (cgroup: {e})"),
                fix: "delegate the cpu controller (systemd-run --user --scope -p Delegate=yes …), or set best_effort"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn new_group(&mut self) -> Group {
        self.next += 1;
        self.groups.make(self.next)
    }

    /// Where there can be none, an order finds out why.
    fn make_spare(&mut self) {
        let mut group = self.new_group();
        match first::spare(&mut group, &self.filters) {
            Ok((pid, socket)) => {
                group.doors.clear();
                self.spare = Some(Spare { pid, socket, group });
            }
            Err(_) => {
                self.leave(group);
                self.spareless = true;
            }
        }
    }

    fn leave(&mut self, mut group: Group) {
        if !group.remove() {
            self.leaving.push(group);
        }
    }

    /// Reports jails that are gone.
    fn reap(&mut self) -> bool {
        let mut info = [0u8; 128];
        // Only empties the signal descriptor; what happened is asked below.
        let _ = rustix::io::read(&self.children, &mut info);
        loop {
            let mut status = 0;
            // Sound: plain data, filled in by the kernel.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) };
            if pid <= 0 {
                return true;
            }
            if self.spare.as_ref().is_some_and(|spare| spare.pid == pid)
                && let Some(spare) = self.spare.take()
            {
                self.leave(spare.group);
                continue;
            }
            let Some(at) = self.jails.iter().position(|jail| jail.pid == pid) else { continue };
            let Running { id, group, .. } = self.jails.swap_remove(at);
            let end = End {
                signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
                cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
                peak_memory_kb: usage.ru_maxrss.unsigned_abs(),
                out_of_memory: group.out_of_memory(),
                failed: None,
            };
            self.leave(group);
            if wire::send(&self.control, &Report::Exited { id, end }, &[]).is_err() {
                return false;
            }
        }
    }
}

/// Of a child that was just started.
fn end(pid: i32) {
    // Sound: not reaped yet, so the id is its own.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// The failure of something that every Linux has.
pub(super) fn internal(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Isolation { missing: format!("{what}: {error}"), fix: "see `jarvis doctor`".to_owned() }
}
