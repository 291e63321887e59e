//! What the first process does while the program runs: it collects processes that end, and holds the limits that the
//! kernel does not hold by itself.

use super::first::Bounds;
use super::plan::Limits;
use super::wire::{Stopped, Used, Word};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two looks at processor time, and at memory and processes where no cgroup holds them.
const SLOW: Duration = Duration::from_millis(200);
const FAST: Duration = Duration::from_millis(20);

pub(super) struct Running {
    program: i32,
    signals: OwnedFd,
    limits: Limits,
    memory: bool,
    processes: bool,
    seen: Seen,
    events: Option<File>,
    since: Instant,
}

/// Which processes can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// All that a `/proc` of one's own shows.
    Own,
    /// The descendants, among all of the machine.
    Descendants,
    /// There is no `/proc`.
    Nothing,
}

impl Running {
    pub(super) fn new(program: i32, signals: OwnedFd, limits: Limits, bounds: Bounds, seen: Seen) -> Running {
        let may = seen != Seen::Nothing;
        let (memory, processes) = (!bounds.memory && may, !bounds.processes && may);
        Running { program, signals, limits, memory, processes, seen, events: bounds.events, since: Instant::now() }
    }
}

/// Until the program ends, jarvis wants it to, or a limit is reached: the last word, if anybody is to hear it. The caller
/// ends next, and everything with it.
pub(super) fn attend(job: &OwnedFd, running: &Running) -> Option<Word> {
    let wall = Duration::from_millis(running.limits.wall_ms);
    let pace = if running.memory || running.processes { FAST } else { SLOW };
    loop {
        let left = wall.saturating_sub(running.since.elapsed());
        let mut watched =
            [job, &running.signals].map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        let wait = left.min(pace);
        let wait = libc::timespec { tv_sec: 0, tv_nsec: wait.as_nanos().min(999_999_999) as _ };
        // Sound: two entries, as it is told.
        let ready = unsafe { libc::ppoll(watched.as_mut_ptr(), 2, &wait, std::ptr::null()) };
        if ready > 0 && watched[1].revents != 0 {
            let mut info = [0u8; 128];
            // Only empties it; the children are asked below.
            let _ = rustix::io::read(&running.signals, &mut info);
            if let Some((code, signal)) = collect(running.program) {
                // A process that used up its own time limit is killed by the kernel.
                let stopped = matches!(signal, Some(libc::SIGXCPU)).then_some(Stopped::Cpu);
                return Some(Word::Ended { code, signal, stopped, all: None });
            }
        }
        // Any word of jarvis is the last one, as is its end.
        if ready > 0 && watched[0].revents != 0 {
            return None;
        }
        if let Some(stopped) = over(running, left) {
            return Some(Word::Ended { code: None, signal: Some(libc::SIGKILL), stopped: Some(stopped), all: None });
        }
    }
}

/// Kills and collects all others, so that their use of processor and memory is counted. The kernel would kill them anyway
/// when this process ends; it waits for them at most this long. False where some are left for the kernel.
pub(super) fn sweep() -> bool {
    const PATIENCE: Duration = Duration::from_millis(500);
    let since = Instant::now();
    // Sound: in a process namespace of one's own, that is everybody inside but this process.
    let others = unsafe { libc::kill(-1, libc::SIGKILL) } == 0;
    if !others {
        return last() == Errno::SRCH;
    }
    while since.elapsed() < PATIENCE {
        let mut status = 0;
        // Sound: fills in one number.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            0 => std::thread::sleep(Duration::from_micros(200)),
            pid if pid < 0 && last() != Errno::INTR => return true,
            _ => {}
        }
    }
    false
}

/// What all that were collected used.
pub(super) fn used(running: &Running) -> Used {
    let usage = children();
    Used {
        cpu_us: crate::zygote::micros(usage.ru_utime) + crate::zygote::micros(usage.ru_stime),
        peak_memory_kb: usage.ru_maxrss.unsigned_abs(),
        out_of_memory: running.events.as_ref().is_some_and(super::cgroup::out_of_memory),
    }
}

/// How the program ended, if it did. Orphans inside end up here, too.
fn collect(program: i32) -> Option<(Option<i32>, Option<i32>)> {
    let mut ended = None;
    loop {
        let mut status = 0;
        // Sound: fills in one number.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if pid == program {
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            ended = Some((code, libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))));
        }
        if pid == 0 || pid < 0 && last() != Errno::INTR {
            return ended;
        }
    }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::CHILD)
}

fn over(running: &Running, left: Duration) -> Option<Stopped> {
    if left.is_zero() {
        return Some(Stopped::Wall);
    }
    // The kernel kills the largest, which need not be the program; then the rest goes on without it.
    if running.events.as_ref().is_some_and(super::cgroup::out_of_memory) {
        return Some(Stopped::Memory);
    }
    let all = look(running.seen);
    let limits = &running.limits;
    let cpu = all.cpu + ended_cpu();
    if cpu > Duration::from_millis(limits.cpu_ms) {
        return Some(Stopped::Cpu);
    }
    // This process is one of them.
    if running.processes && all.count > u64::from(limits.pids) + 1 {
        return Some(Stopped::Processes);
    }
    // What processes share is counted once only in the slow way.
    if running.memory && all.bytes >> 20 > limits.memory_mb && exact_bytes(running.seen) >> 20 > limits.memory_mb {
        return Some(Stopped::Memory);
    }
    None
}

#[derive(Default)]
struct All {
    count: u64,
    cpu: Duration,
    bytes: u64,
}

/// The processes of this jail, and no others.
fn look(seen: Seen) -> All {
    let mut all = All::default();
    let tick = rustix::param::clock_ticks_per_second().max(1);
    let page = rustix::param::page_size() as u64;
    for pid in pids(seen) {
        all.count += 1;
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name may hold anything but ends at the last bracket.
        let fields: Vec<_> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
        let field = |at: usize| fields.get(at).and_then(|text: &&str| text.parse::<u64>().ok()).unwrap_or(0);
        all.cpu += Duration::from_millis((field(11) + field(12)) * 1000 / tick);
        all.bytes += field(21) * page;
    }
    all
}

fn pids(seen: Seen) -> Vec<u32> {
    match seen {
        Seen::Own => {
            let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        }
        // With this process, which counts there, too.
        Seen::Descendants => super::without::descendants().into_iter().chain([std::process::id()]).collect(),
        Seen::Nothing => Vec::new(),
    }
}

/// With shared memory divided among those that share it.
fn exact_bytes(seen: Seen) -> u64 {
    let of = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let value = |name| {
            let line = text.lines().find_map(|line: &str| line.strip_prefix(name))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        Some((value("Pss_Anon:")? + value("Pss_Shmem:").unwrap_or(0)) << 10)
    };
    // One that hides its memory counts in full.
    let resident = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        pages * rustix::param::page_size() as u64
    };
    pids(seen).into_iter().map(|pid| of(pid).unwrap_or_else(|| resident(pid))).sum()
}

/// Of processes that ended and were collected.
fn ended_cpu() -> Duration {
    let usage = children();
    Duration::from_micros(crate::zygote::micros(usage.ru_utime) + crate::zygote::micros(usage.ru_stime))
}

fn children() -> libc::rusage {
    // Sound: plain data, filled in by the kernel.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    }
}
