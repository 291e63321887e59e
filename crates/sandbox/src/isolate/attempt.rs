//! What a prisoner would try, one system call each. A worker that is asked to do so tries it and tells how it went; the
//! tests and `doctor` expect to hear of a failure, or of its death.

use std::io;

pub(crate) const ATTEMPTS: [&str; 14] = [
    "open a file",
    "list the root",
    "open a socket",
    "reach the network",
    "start a process",
    "run a program",
    "signal another process",
    "trace another process",
    "map executable memory",
    "change the user",
    "enter a namespace",
    "mount",
    "use io_uring",
    "load a BPF program",
];

/// `Ok` means it succeeded, which is a hole.
pub(crate) fn attempt(name: &str) -> io::Result<()> {
    // Sound: each call gets valid or null pointers, and whatever it returns is only compared.
    let outcome = unsafe {
        match name {
            "open a file" => i64::from(libc::open(c"/etc/passwd".as_ptr(), libc::O_RDONLY)),
            "list the root" => list_root(),
            "open a socket" => i64::from(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)),
            "reach the network" => reach_network(),
            "start a process" => start_process(),
            "run a program" => {
                let arguments = [c"/bin/sh".as_ptr(), std::ptr::null()];
                i64::from(libc::execve(c"/bin/sh".as_ptr(), arguments.as_ptr(), arguments[1..].as_ptr()))
            }
            "signal another process" => i64::from(libc::kill(libc::getppid(), 0)),
            "trace another process" => libc::ptrace(libc::PTRACE_ATTACH, libc::getppid(), 0, 0),
            "map executable memory" => {
                let protection = libc::PROT_READ | libc::PROT_EXEC;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) as i64
            }
            "change the user" => i64::from(libc::setuid(0)),
            "enter a namespace" => i64::from(libc::unshare(libc::CLONE_NEWNS)),
            "mount" => i64::from(libc::mount(c"none".as_ptr(), c"/".as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null())),
            "use io_uring" => libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()),
            "load a BPF program" => libc::syscall(libc::SYS_bpf, 0, std::ptr::null::<u8>(), 0),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Succeeds when there is anything in `/`.
fn list_root() -> i64 {
    // `ReadDir` leaves out `.` and `..`.
    match std::fs::read_dir("/").map(|mut entries| entries.next().is_some()) {
        Ok(true) => 0,
        Ok(false) => no(libc::ENOENT),
        Err(e) => no(e.raw_os_error().unwrap_or(libc::EACCES)),
    }
}

/// Succeeds when a packet could leave: sends to a documentation address, so nobody is there.
fn reach_network() -> i64 {
    match std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", "192.0.2.1:9")) {
        Ok(_) => 0,
        Err(e) => no(e.raw_os_error().unwrap_or(libc::EACCES)),
    }
}

fn start_process() -> i64 {
    // Sound: the child does nothing but end.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            other => i64::from(other),
        }
    }
}

fn no(errno: i32) -> i64 {
    // Sound: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}
