//! The process that workers are forked from: isolated and with a warm engine, so a worker costs a fork. It never runs
//! anybody's code itself. It ends when the broker's end of its socket closes, and the kernel then ends all workers.

use crate::control::{self, Exit, Order, Report, Up};
use crate::frame::Ready;
use crate::isolate::{self, Filter, Missing};
use crate::worker::{Engine, Socket, serve, serve_attempt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

/// Exit status when there is no broker on the other side.
const NOT_STARTED_BY_JARVIS: u8 = 2;

/// The main function of a worker process. Standard input is the socket to the broker.
pub fn worker_main() -> ExitCode {
    // Sound: nothing else in this process uses descriptor 0.
    let control = unsafe { OwnedFd::from_raw_fd(0) };
    if rustix::net::sockopt::socket_type(&control) != Ok(rustix::net::SocketType::SEQPACKET) {
        return ExitCode::from(NOT_STARTED_BY_JARVIS);
    }
    match start(&control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(missing) => {
            // Without a broker there is nobody to tell.
            let _ = control::send(&control, &Report::Failed(missing), None);
            ExitCode::FAILURE
        }
    }
}

fn start(control: &OwnedFd) -> Result<(), Missing> {
    let mut watch = Watch(Instant::now(), Vec::new());
    close_from(3)?;
    let engine = Engine::new().map_err(|e| internal("the engine does not start", e))?;
    watch.lap("engine and layer");
    let mapped = mapped_bytes().map_err(|e| internal("the size of the process is unknown", e))?;
    let filter = Filter::new().map_err(no_seccomp)?;
    watch.lap("system-call filter");
    let (layers, lacking) = isolate::enter()?;
    watch.lap("isolation");
    // Only a child is in the new process-id namespace; it is the first there, so the namespace ends with it.
    match fork().map_err(|e| internal("fork", e))? {
        Some(_) => return Ok(()),
        None => rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|e| internal("not dumpable", e))?,
    }
    let children = child_signals().map_err(|e| internal("signals", e))?;
    watch.lap("fork into the namespaces");
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let up = Report::Up(Up { version, layers: layers.clone(), lacking, spent: watch.1 });
    if control::send(control, &up, None).is_ok() {
        Zygote { control, children, engine, mapped, filter, layers, workers: Vec::new() }.attend();
    }
    // Not a return: the parent's copy of this stack has already answered.
    unsafe { libc::_exit(0) }
}

/// The last lap's end, and the laps.
struct Watch(Instant, Vec<(String, u64)>);

impl Watch {
    fn lap(&mut self, what: &str) {
        let now = Instant::now();
        self.1.push((what.to_owned(), u64::try_from((now - self.0).as_micros()).unwrap_or(u64::MAX)));
        self.0 = now;
    }
}

struct Zygote<'a> {
    control: &'a OwnedFd,
    children: OwnedFd,
    engine: Engine,
    mapped: u64,
    filter: Filter,
    layers: Vec<String>,
    workers: Vec<(u64, i32)>,
}

impl Zygote<'_> {
    /// Until the broker is gone.
    fn attend(&mut self) {
        loop {
            let mut watched = [self.control.as_fd(), self.children.as_fd()].map(|fd| libc::pollfd {
                fd: fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            });
            let ready = unsafe { libc::ppoll(watched.as_mut_ptr(), 2, std::ptr::null(), std::ptr::null()) };
            if ready < 0 {
                continue;
            }
            if watched[1].revents != 0 && !self.reap() {
                return;
            }
            if watched[0].revents != 0 && !self.obey() {
                return;
            }
        }
    }

    fn obey(&mut self) -> bool {
        match control::receive::<Order>(self.control) {
            Ok(Some((Order::Fork { id, bare }, Some(socket)))) => {
                match fork() {
                    Ok(Some(pid)) => self.workers.push((id, pid)),
                    Ok(None) => self.become_worker(&socket, bare),
                    Err(e) => {
                        let errno = e.raw_os_error().unwrap_or(libc::EAGAIN);
                        return control::send(self.control, &Report::NotForked { id, errno }, None).is_ok();
                    }
                }
                true
            }
            Ok(Some((Order::Kill { id }, _))) => {
                if let Some((_, pid)) = self.workers.iter().find(|(known, _)| *known == id) {
                    // Sound: the process was forked here and is not yet reaped, so the id is its own.
                    unsafe { libc::kill(*pid, libc::SIGKILL) };
                }
                true
            }
            _ => false,
        }
    }

    /// Reports workers that are gone.
    fn reap(&mut self) -> bool {
        let mut info = [0u8; 128];
        // Only empties the signal descriptor; what happened is asked below.
        let _ = rustix::io::read(&self.children, &mut info);
        loop {
            let mut status = 0;
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) };
            if pid <= 0 {
                return true;
            }
            let Some(at) = self.workers.iter().position(|(_, known)| *known == pid) else { continue };
            let (id, _) = self.workers.swap_remove(at);
            let exit = Exit {
                signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
                cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
                peak_memory_kb: usage.ru_maxrss.unsigned_abs(),
            };
            if control::send(self.control, &Report::Exited { id, exit }, None).is_err() {
                return false;
            }
        }
    }

    /// In the child: one descriptor, no way up, one job, and the end.
    fn become_worker(&mut self, socket: &OwnedFd, bare: bool) -> ! {
        if unsafe { libc::dup2(socket.as_raw_fd(), 0) } == 0 {
            let missing = self.prepare(bare).err();
            // Sound: descriptor 0 is the worker's socket now, and open to the end.
            let socket = unsafe { BorrowedFd::borrow_raw(0) };
            let ready = Ready { layers: std::mem::take(&mut self.layers), missing };
            if bare {
                serve_attempt(Socket(socket), &ready);
            } else {
                serve(&self.engine, Socket(socket), &ready, self.mapped);
            }
        }
        unsafe { libc::_exit(0) }
    }

    fn prepare(&mut self, bare: bool) -> Result<(), Missing> {
        close_from(1)?;
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|e| internal("parent death signal", e))?;
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        unsafe { libc::sigemptyset(&mut none) };
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) };
        if bare {
            return Ok(());
        }
        isolate::bound_process().map_err(|e| internal("resource limits", e))?;
        self.layers.push("resource limits".to_owned());
        self.filter.apply().map_err(no_seccomp)?;
        self.layers.push("seccomp".to_owned());
        Ok(())
    }
}

pub(crate) fn micros(time: libc::timeval) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs()
}

/// `Some(pid)` in the parent. This process has one thread, so the child is whole.
fn fork() -> std::io::Result<Option<i32>> {
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> Result<(), Missing> {
    // Sound: nothing here owns a descriptor in that range.
    match unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } {
        0 => Ok(()),
        _ => Err(Missing {
            missing: format!("inherited descriptors cannot be closed: {}", std::io::Error::last_os_error()),
            fix: "use Linux 5.9 or newer".to_owned(),
        }),
    }
}

/// A descriptor that is readable when a child is gone.
pub(crate) fn child_signals() -> std::io::Result<OwnedFd> {
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    let fd = unsafe {
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 { Err(std::io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Size of this process's address space, which a limit has to leave room for.
fn mapped_bytes() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    pages.map(|pages| pages * rustix::param::page_size() as u64).ok_or_else(|| std::io::Error::other("statm"))
}

fn internal(what: &str, error: impl std::fmt::Display) -> Missing {
    Missing { missing: format!("{what}: {error}"), fix: "see `jarvis doctor`".to_owned() }
}

fn no_seccomp(error: String) -> Missing {
    Missing {
        missing: format!("seccomp cannot be set: {error}"),
        fix: "use a kernel with CONFIG_SECCOMP_FILTER on x86_64, aarch64 or riscv64".to_owned(),
    }
}
