//! Starting a jail, and what can be done with one that runs.

use super::launcher::Launcher;
use super::placeholder::Placeholder;
use super::settle::{Settled, settle, spec_error};
use super::spec::{JailNetwork, JailSpec, Stdin};
use super::wire::{self, End, Failure, Order, Stopped, Used, Word};
use crate::error::SandboxError;
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// A jail watches its own time; this long after, it is ended from here.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct JailConfig {
    /// A binary whose main function calls [`crate::jail_main`] when it is started as `jarvis-jail`.
    pub helper_exe: PathBuf,
    /// Do without them even where they are to be had, to try what holds then.
    pub without_namespaces: bool,
}

/// Starts jails. Cheap to clone; starts nothing before the first. All jails end with the last clone.
#[derive(Clone)]
pub struct Jail(Arc<Shared>);

struct Shared {
    config: JailConfig,
    launcher: tokio::sync::Mutex<Option<Arc<Launcher>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(launcher) = self.launcher.get_mut() {
            launcher.close();
        }
    }
}

/// How a jail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JailClass {
    Ok,
    /// With another code than zero.
    Failed,
    Timeout,
    /// Used up its processor time.
    Cpu,
    Memory,
    /// Started more processes than it may, where the kernel does not simply refuse them.
    Processes,
    Output,
    Cancelled,
    /// By a signal that did not come from here.
    Killed,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct JailExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub class: JailClass,
    /// Of all its processes.
    pub cpu_us: u64,
    /// Of the largest one.
    pub peak_memory_kb: u64,
    pub wall_us: u64,
}

#[derive(Clone, Copy, Default)]
struct LastWord {
    code: Option<i32>,
    signal: Option<i32>,
    stopped: Option<Stopped>,
    all: Option<Used>,
}

/// A program in its jail. It is killed, with all it started, when this is dropped.
pub struct Jailed {
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    pub stderr: Option<pipe::Receiver>,
    /// The isolation that is really in force.
    pub layers: Vec<String>,
    /// Of packets, in spite of its type.
    job: UnixStream,
    ended: oneshot::Receiver<End>,
    /// Kept here, so that waiting can be given up and begun again.
    last_word: Option<LastWord>,
    since: Instant,
    wall: Duration,
    /// Layers' neighbours: what was found out before there was a jail.
    notes: Vec<String>,
    _placeholders: Vec<Placeholder>,
}

impl Jail {
    pub fn new(config: JailConfig) -> Jail {
        Jail(Arc::new(Shared { config, launcher: tokio::sync::Mutex::new(None) }))
    }

    /// Starts the launcher now, so that the first jail does not wait for it.
    pub async fn warm(&self) -> Result<(), SandboxError> {
        self.launcher().await.map(|_| ())
    }

    /// Returns when the program is loaded.
    pub async fn spawn(&self, spec: JailSpec) -> Result<Jailed, SandboxError> {
        let launcher = self.launcher().await?;
        let since = Instant::now();
        let Settled { plan, placeholders, notes, uid, gid, change_user } = settle(&spec)?;
        let failed = SandboxError::io("start of a jail");
        let (job, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|e| failed(e.into()))?;
        let text = serde_json::to_vec(&plan).map_err(|e| SandboxError::io("plan of a jail")(e.into()))?;
        let plan = in_memory(&text).map_err(SandboxError::io("plan of a jail"))?;
        let streams = Streams::new(spec.stdin).map_err(SandboxError::io("standard streams of a jail"))?;
        let mut fds =
            vec![theirs.as_fd(), plan.as_fd(), streams.input.as_fd(), streams.output.as_fd(), streams.error.as_fd()];
        fds.extend(spec.channel.as_ref().map(AsFd::as_fd));
        let order = |id| Order {
            id,
            memory_mb: spec.limits.memory_mb,
            pids: spec.limits.pids,
            cpu_percent: spec.cpus.map(|cpus| (cpus * 100.0).ceil() as u64),
            cpu_limited: false,
            best_effort: spec.best_effort,
            uid,
            gid,
            change_user,
            without_namespaces: self.0.config.without_namespaces,
        };
        let ended = launcher.order(order, &fds)?;
        drop((theirs, streams.input, streams.output, streams.error, spec.channel));
        rustix::io::ioctl_fionbio(&job, true).map_err(|e| SandboxError::io("socket of a jail")(e.into()))?;
        let job = UnixStream::from_std(job.into()).map_err(SandboxError::io("socket of a jail"))?;
        let mut jailed = Jailed {
            stdin: streams.stdin,
            stdout: Some(streams.stdout),
            stderr: Some(streams.stderr),
            layers: Vec::new(),
            job,
            ended,
            last_word: None,
            since,
            wall: Duration::from_millis(spec.limits.wall_ms) + GRACE,
            notes,
            _placeholders: placeholders,
        };
        jailed.begin(&spec.network, &spec.program).await?;
        Ok(jailed)
    }

    async fn launcher(&self) -> Result<Arc<Launcher>, SandboxError> {
        let mut held = self.0.launcher.lock().await;
        if let Some(launcher) = held.as_ref().filter(|launcher| !launcher.gone()) {
            return Ok(Arc::clone(launcher));
        }
        let exe = self.0.config.helper_exe.clone();
        let started = tokio::task::spawn_blocking(move || Launcher::start(&exe)).await;
        let launcher = started.map_err(|e| SandboxError::io("start of the launcher")(io::Error::other(e)))??;
        *held = Some(Arc::clone(&launcher));
        Ok(launcher)
    }
}

impl Jailed {
    /// Until the program runs.
    async fn begin(&mut self, network: &JailNetwork, program: &std::path::Path) -> Result<(), SandboxError> {
        loop {
            match self.hear().await.map_err(SandboxError::io("word of a jail"))? {
                Some((Word::Started { layers }, _)) => {
                    self.layers = layers;
                    self.layers.append(&mut self.notes);
                    return Ok(());
                }
                Some((Word::Listening, fds)) => {
                    let listener = fds.into_iter().next();
                    if let (JailNetwork::Proxy { serve }, Some(listener)) = (network, listener) {
                        serve(std::net::TcpListener::from(listener));
                    }
                    wire::send_bytes(&self.job, b"g", &[], SendFlags::NOSIGNAL)
                        .map_err(SandboxError::io("word to a jail"))?;
                }
                Some((Word::Failed(failure), _)) => return Err(not_started(failure, program)),
                Some((Word::Ended { .. }, _)) | None => {
                    let end = (&mut self.ended).await.ok();
                    return Err(match end {
                        Some(End { failed: Some(failure), .. }) => not_started(failure, program),
                        Some(End { out_of_memory: true, .. }) => spec_error(
                            "the jail's memory limit is too small to start anything",
                            "give it 16 MiB or more",
                        ),
                        end => SandboxError::io("start of a jail")(io::Error::other(format!(
                            "its first process ended ({:?})",
                            end.and_then(|end| end.signal)
                        ))),
                    });
                }
            }
        }
    }

    async fn hear(&self) -> io::Result<Option<(Word, Vec<OwnedFd>)>> {
        self.job
            .async_io(Interest::READABLE, || match wire::receive(&self.job) {
                // The other side is gone with words of ours unread.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(None),
                other => other,
            })
            .await
    }

    /// Kills the program and all it started, at once. [`Jailed::wait`] then tells of `Killed`.
    pub fn kill(&self) {
        // Its first process ends at any word, and at the end of the stream.
        let _ = rustix::net::shutdown(&self.job, rustix::net::Shutdown::Both);
    }

    /// Until all its processes are gone; once. Close `stdin` first if the program reads to its end.
    pub async fn wait(&mut self) -> Result<JailExit, SandboxError> {
        if self.last_word.is_none() {
            let rest = self.wall.saturating_sub(self.since.elapsed());
            self.last_word = Some(match tokio::time::timeout(rest, self.hear()).await {
                Ok(Ok(Some((Word::Ended { code, signal, stopped, all }, _)))) => {
                    LastWord { code, signal, stopped, all }
                }
                // It was killed before it could say anything.
                Ok(_) => LastWord::default(),
                Err(_) => {
                    self.kill();
                    LastWord { stopped: Some(Stopped::Wall), ..LastWord::default() }
                }
            });
        }
        let LastWord { code, signal, stopped, all } = self.last_word.unwrap_or_default();
        let end = match all {
            // The rest is the end of our own process, which need not be waited for.
            Some(Used { cpu_us, peak_memory_kb, out_of_memory }) => {
                End { signal: None, cpu_us, peak_memory_kb, out_of_memory, failed: None }
            }
            None => (&mut self.ended).await.map_err(|_| {
                SandboxError::io("end of a jail")(io::Error::other("its launcher is gone, and all jails with it"))
            })?,
        };
        let signal = if code.is_some() { None } else { signal.or(end.signal).or(Some(libc::SIGKILL)) };
        let class = match (stopped, code, signal) {
            (Some(Stopped::Wall), ..) => JailClass::Timeout,
            (Some(Stopped::Cpu), ..) => JailClass::Cpu,
            (Some(Stopped::Memory), ..) => JailClass::Memory,
            (Some(Stopped::Processes), ..) => JailClass::Processes,
            (None, Some(0), _) => JailClass::Ok,
            (None, Some(_), _) if end.out_of_memory => JailClass::Memory,
            (None, Some(_), _) => JailClass::Failed,
            (None, None, _) if end.out_of_memory => JailClass::Memory,
            (None, None, _) => JailClass::Killed,
        };
        let wall_us = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        Ok(JailExit { code, signal, class, cpu_us: end.cpu_us, peak_memory_kb: end.peak_memory_kb, wall_us })
    }
}

fn not_started(failure: Failure, program: &std::path::Path) -> SandboxError {
    match failure {
        Failure::Isolation { missing, fix } => SandboxError::Isolation { missing, fix },
        Failure::Spec { what, fix } => SandboxError::Spec { what, fix },
        Failure::Program { errno } => {
            let source = io::Error::from_raw_os_error(errno);
            spec_error(
                format!("the program {} does not start: {source}", program.display()),
                match errno {
                    libc::EACCES => "make it executable; if it is a script, its interpreter must be shown, too",
                    libc::ENOENT => "its interpreter or loader is not there, or not shown in the jail",
                    libc::ENOEXEC => "it is neither a program for this machine nor a script with a `#!` line",
                    libc::E2BIG => "its arguments are too long; pass them by a file or standard input",
                    _ => "check that it runs outside a jail",
                },
            )
        }
    }
}

/// An anonymous file, so that the plan may be of any size.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("jail", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

struct Streams {
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

impl Streams {
    fn new(stdin: Stdin) -> io::Result<Streams> {
        let (input, stdin) = match stdin {
            Stdin::Closed => (File::open("/dev/null")?.into(), None),
            Stdin::Piped | Stdin::Bytes(_) => {
                let (reader, writer) = io::pipe()?;
                (reader.into(), Some(pipe::Sender::from_owned_fd(writer.into())?))
            }
        };
        let (out_reader, output) = io::pipe()?;
        let (err_reader, error) = io::pipe()?;
        let stdout = pipe::Receiver::from_owned_fd(out_reader.into())?;
        let stderr = pipe::Receiver::from_owned_fd(err_reader.into())?;
        Ok(Streams { input, output: output.into(), error: error.into(), stdin, stdout, stderr })
    }
}
