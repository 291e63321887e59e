//! The start of the program inside the jail.

use super::first::Streams;
use super::plan::{Limits, Plan};
use super::root::{Step, raw_bytes};
use super::server::internal;
use super::wire::Failure;
use seccompiler::BpfProgram;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

/// The program's descriptors are moved above these first, so that none covers another.
const ABOVE: i32 = 16;

/// What a process may have beside what is watched, where no cgroup bounds them together.
const BESIDE_MB: u64 = 512;

const STACK_BYTES: usize = 64 << 10;

/// All that the new process needs; it shares this memory until it is the program, and must not allocate.
struct Start<'a> {
    program: CString,
    args: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    dir: CString,
    streams: Vec<OwnedFd>,
    limits: [(libc::__rlimit_resource_t, u64); 7],
    filters: &'a [BpfProgram],
    /// Landlock's, where it is the only wall around files.
    ruleset: Option<&'a OwnedFd>,
    /// What went wrong, and where.
    failed: Option<(&'static str, i32)>,
}

/// The id of the program's process, inside. Returns when the program is loaded.
pub(super) fn start(
    plan: &Plan,
    streams: &Streams,
    filters: &[BpfProgram],
    ruleset: Option<&OwnedFd>,
    memory_is_bounded: bool,
) -> Step<i32> {
    let args: Vec<CString> = std::iter::once(&plan.program).chain(&plan.args).map(raw_bytes).collect::<Step<_>>()?;
    let env: Vec<CString> = plan.env.iter().map(raw_bytes).collect::<Step<_>>()?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let above = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, ABOVE).map_err(|e| internal("descriptors", e));
    let mut start = Start {
        program: raw_bytes(&plan.program)?,
        args: pointers(&args),
        env: pointers(&env),
        dir: raw_bytes(&plan.dir)?,
        streams: streams.program.iter().map(above).collect::<Step<_>>()?,
        limits: limits(&plan.limits, memory_is_bounded),
        filters,
        ruleset,
        failed: None,
    };
    let mut stack = vec![0u8; STACK_BYTES];
    // Sound: the stack is large enough and lives longer than the child's use of it, since this process waits until the
    // child has its own memory or is gone; `start` is written by the child alone meanwhile.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES & !15);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(become_program, top.cast(), flags, (&raw mut start).cast())
    };
    if pid < 0 {
        return Err(internal("new process", std::io::Error::last_os_error()));
    }
    // Sound: read after the child is done with it.
    let failed = unsafe { (&raw const start.failed).read_volatile() };
    match failed {
        None => Ok(pid),
        Some(("exec", errno)) => Err(Failure::Program { errno }),
        Some(("dir", errno)) => Err(Failure::Spec {
            what: format!("the working directory {:?} cannot be entered: {}", plan.dir.as_os(), text(errno)),
            fix: "choose one inside the workspace or another folder that is shown".to_owned(),
        }),
        Some((what, errno)) => Err(internal(what, text(errno))),
    }
}

fn text(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

fn limits(limits: &Limits, memory_is_bounded: bool) -> [(libc::__rlimit_resource_t, u64); 7] {
    let unlimited = libc::RLIM_INFINITY;
    let data = if memory_is_bounded { unlimited } else { (limits.memory_mb + BESIDE_MB) << 20 };
    [
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_CPU, limits.cpu_ms.div_ceil(1000) + 1),
        (libc::RLIMIT_FSIZE, limits.file_mb << 20),
        (libc::RLIMIT_NOFILE, limits.open_files),
        // Counted in the user namespace; root's own processes are not, and are counted otherwise.
        (libc::RLIMIT_NPROC, u64::from(limits.pids) + 1),
        // Not the address space: engines that compile reserve far more of it than they use.
        (libc::RLIMIT_DATA, data),
        (libc::RLIMIT_MEMLOCK, 64 << 10),
    ]
}

extern "C" fn become_program(start: *mut libc::c_void) -> libc::c_int {
    // Sound: the parent's `Start`, which it does not touch until this process is gone from its memory. Only system calls
    // from here on.
    unsafe {
        let start = &mut *start.cast::<Start<'_>>();
        let what = prepare(start);
        start.failed = Some((what, *libc::__errno_location()));
        libc::_exit(127)
    }
}

/// Returns only when something fails: what.
unsafe fn prepare(start: &Start<'_>) -> &'static str {
    unsafe {
        if libc::setsid() < 0 {
            return "session";
        }
        if let Some(ruleset) = start.ruleset
            && libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) != 0
        {
            return "landlock";
        }
        for (fd, stream) in (0..).zip(&start.streams) {
            if libc::dup2(stream.as_raw_fd(), fd) < 0 {
                return "standard streams";
            }
        }
        if libc::syscall(libc::SYS_close_range, start.streams.len() as u32, u32::MAX, 0) != 0 {
            return "descriptors cannot be closed";
        }
        if libc::chdir(start.dir.as_ptr()) != 0 {
            return "dir";
        }
        for (resource, most) in start.limits {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // What is lower already stays.
            let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(resource, &mut old) != 0 {
                return "resource limits";
            }
            if old.rlim_max > most && libc::setrlimit(resource, &limit) != 0 {
                return "resource limits";
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        if libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) != 0 {
            return "signals";
        }
        // Rust programs ignore it; others expect to end by it.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::umask(0o022);
        for filter in start.filters {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut().cast() };
            if libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) != 0 {
                return "seccomp";
            }
        }
        libc::execve(start.program.as_ptr(), start.args.as_ptr(), start.env.as_ptr());
        "exec"
    }
}
