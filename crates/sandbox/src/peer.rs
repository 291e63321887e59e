//! Programs that the sandbox is measured beside. They run bare, with the person's own rights, so only what the person
//! installed is ever named here.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub struct PeerRun {
    /// From before it is started until it is gone.
    pub wall: Duration,
    /// KiB; none where it stayed below this process's own, which the kernel counts until the program is loaded.
    pub peak_memory_kb: Option<u64>,
}

/// One run of a program without input and output. An exit code other than 0 is an error.
pub fn time_peer(program: &Path, args: &[OsString]) -> io::Result<PeerRun> {
    let started = Instant::now();
    #[expect(clippy::disallowed_methods, reason = "what is measured beside the sandbox is not in it")]
    let child =
        Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Sound: plain data, filled in by the call.
    let own = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage.ru_maxrss
    };
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // Sound: plain data, filled in by the call; the child is not waited for anywhere else.
    let (gone, usage) = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
    };
    let wall = started.elapsed();
    if gone != pid {
        return Err(io::Error::last_os_error());
    }
    if status != 0 {
        return Err(io::Error::other(format!("{} ended with status {status}", program.display())));
    }
    let peak = (usage.ru_maxrss > own).then(|| u64::try_from(usage.ru_maxrss).unwrap_or(0));
    Ok(PeerRun { wall, peak_memory_kb: peak })
}
