//! A worker in the jail that speaks the broker's frames on descriptor 3: started, heard, and ended. It is not trusted.

use crate::broker::Desk;
use crate::check::Checked;
use crate::converse::{End, Talk, converse};
use crate::error::SandboxError;
use crate::executor::explain;
use crate::frame::{self, Done, Fault, Kind};
use crate::jail::{Jail, JailClass, JailExit, JailSpec, Jailed};
use futures::FutureExt as _;
use jarvis_protocol::{ExecPlan, Execution, ExitClass, ScriptError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// How long a worker may take to be ready.
const READY: Duration = Duration::from_secs(20);

/// How long the end of a jail is waited for, once it is killed.
const REPORT: Duration = Duration::from_secs(2);

/// Of what a worker writes around its frames when it dies, bytes.
const MOST_NOISE: usize = 4 << 10;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A worker that waits for its job. The jail ends when this is dropped.
pub(crate) struct Host {
    jailed: Jailed,
    stream: Box<dyn Stream>,
}

impl Host {
    /// Starts the worker. `first` is what it reads before any frame.
    pub(crate) async fn start(jail: &Jail, mut spec: JailSpec, first: &[u8]) -> Result<Host, SandboxError> {
        let pair = std::os::unix::net::UnixStream::pair().and_then(|(ours, theirs)| {
            ours.set_nonblocking(true)?;
            Ok((UnixStream::from_std(ours)?, theirs))
        });
        let (stream, theirs) = pair.map_err(SandboxError::io("socket pair"))?;
        spec.channel = Some(theirs.into());
        Self::ready(jail.spawn(spec).await?, Box::new(stream), first).await
    }

    /// As [`Host::start`], for a program that can reach no other descriptors than its standard ones.
    pub(crate) async fn start_on_stdio(jail: &Jail, spec: JailSpec) -> Result<Host, SandboxError> {
        let mut jailed = jail.spawn(spec).await?;
        let (Some(stdin), Some(stdout)) = (jailed.stdin.take(), jailed.stdout.take()) else {
            return Err(SandboxError::io("standard streams of a worker")(std::io::ErrorKind::BrokenPipe.into()));
        };
        Self::ready(jailed, Box::new(tokio::io::join(stdout, stdin)), &[]).await
    }

    async fn ready(mut jailed: Jailed, mut stream: Box<dyn Stream>, first: &[u8]) -> Result<Host, SandboxError> {
        let ready = async {
            stream.write_all(first).await?;
            frame::read(&mut stream, frame::most(0)).await
        };
        match tokio::time::timeout(READY, ready).await {
            Ok(Ok(Some((Kind::Ready, _)))) => Ok(Host { jailed, stream }),
            _ => {
                jailed.kill();
                let mut noise = Vec::new();
                if let Some(stderr) = &mut jailed.stderr {
                    // What it says is all there is to explain its end.
                    let _ = tokio::time::timeout(REPORT, stderr.take(MOST_NOISE as u64).read_to_end(&mut noise)).await;
                }
                let words = String::from_utf8_lossy(&noise);
                let why = words.trim().lines().last().unwrap_or("it ended without a word").to_owned();
                Err(SandboxError::io("a worker ended before its job")(std::io::Error::other(why)))
            }
        }
    }

    /// Whether it still waits. Before its job it has nothing to say.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.stream.read_u8().now_or_never().is_none()
    }

    /// One job, and the end of the worker. `place` reads line and column out of what the worker says of a fault.
    pub(crate) async fn run(
        self,
        plan: &ExecPlan,
        checked: &Checked,
        desk: &Desk<'_>,
        cancel: &CancellationToken,
        started: Instant,
        place: impl Fn(&Fault) -> Option<(u32, u32)>,
    ) -> Execution {
        let Host { mut jailed, mut stream } = self;
        let (mut talk, mut noise) = (Talk::default(), Vec::new());
        let most = usize::try_from(plan.limits.output_bytes).unwrap_or(usize::MAX);
        let mut around = (jailed.stdout.take(), jailed.stderr.take());
        let end = tokio::select! {
            biased;
            end = converse(&mut stream, &mut talk, plan, checked, desk, cancel) => end,
            () = overflow(&mut around, &mut noise, most) => End::Stopped(ExitClass::Output),
        };
        let mut exit = None;
        if matches!(end, End::Gone) {
            // It ends by itself, and how is the question.
            exit = tokio::time::timeout(REPORT, jailed.wait()).await.ok();
        }
        if exit.is_none() {
            // Also after its last word: what it started lives on otherwise.
            jailed.kill();
            exit = tokio::time::timeout(REPORT, jailed.wait()).await.ok();
        }
        let exit = exit.and_then(Result::ok);
        // What is still in the pipes, up to their end: nobody writes to them any more.
        let rest = async { while noise.len() <= most && read_part(&mut around, &mut noise).await {} };
        let _ = tokio::time::timeout(REPORT, rest).await;
        let (class, error) = match end {
            End::Done(Done { exit, fault, .. }) => (exit, fault.map(|fault| in_own_lines(fault, &place))),
            End::Stopped(exit) => (exit, None),
            End::Broken(what) => (
                ExitClass::Crashed,
                Some(ScriptError::new("WorkerError", format!("the worker broke the protocol: {what}"))),
            ),
            End::Gone => died(exit.as_ref(), &noise),
        };
        let mut error = error.or_else(|| explain(class, plan));
        if let Some(error) = &mut error {
            error.message = desk.redact(std::mem::take(&mut error.message));
        }
        let mut printed = talk.printed(plan.limits.output_bytes);
        // Written around the frames, by C code or os.write.
        let more = String::from_utf8_lossy(&noise);
        printed.push_str(&more[..more.floor_char_boundary(most.saturating_sub(printed.len()))]);
        let mut result = talk.result.filter(|_| class == ExitClass::Ok);
        if let Some(result) = &mut result {
            desk.redact_value(result);
        }
        Execution {
            exit: class,
            result,
            error,
            printed: desk.redact(printed),
            wall_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            cpu_us: exit.as_ref().map_or(0, |exit| exit.cpu_us),
            peak_memory_kb: exit.as_ref().map_or(0, |exit| exit.peak_memory_kb),
            isolation: std::mem::take(&mut jailed.layers),
            egress: desk.egress(),
            calls: Vec::new(),
        }
    }
}

type Around = (Option<pipe::Receiver>, Option<pipe::Receiver>);

/// Keeps what comes on the standard streams; ends when it is more than may be printed, and never otherwise.
async fn overflow(around: &mut Around, noise: &mut Vec<u8>, most: usize) {
    while noise.len() <= most {
        if !read_part(around, noise).await {
            std::future::pending::<()>().await;
        }
    }
}

/// False when both streams have ended.
async fn read_part((stdout, stderr): &mut Around, noise: &mut Vec<u8>) -> bool {
    let (mut first, mut second) = ([0; 4096], [0; 4096]);
    tokio::select! {
        count = read_some(stdout, &mut first), if stdout.is_some() => noise.extend_from_slice(&first[..count]),
        count = read_some(stderr, &mut second), if stderr.is_some() => noise.extend_from_slice(&second[..count]),
        else => return false,
    }
    true
}

async fn read_some(from: &mut Option<pipe::Receiver>, buffer: &mut [u8]) -> usize {
    let Some(reader) = from else { return 0 };
    match reader.read(buffer).await {
        Ok(count) if count > 0 => count,
        _ => {
            *from = None;
            0
        }
    }
}

fn in_own_lines(fault: Fault, place: impl Fn(&Fault) -> Option<(u32, u32)>) -> ScriptError {
    let (line, column) = place(&fault).unzip();
    ScriptError { name: fault.name, message: fault.message, line, column }
}

fn died(exit: Option<&JailExit>, noise: &[u8]) -> (ExitClass, Option<ScriptError>) {
    let how = match exit {
        Some(exit) if matches!(exit.class, JailClass::Timeout | JailClass::Cpu) => return (ExitClass::Timeout, None),
        Some(exit) if exit.class == JailClass::Processes => "it started too many processes".to_owned(),
        Some(exit) if exit.class == JailClass::Memory => return (ExitClass::Memory, None),
        Some(JailExit { signal: Some(libc::SIGXCPU), .. }) => return (ExitClass::Timeout, None),
        Some(JailExit { signal: Some(libc::SIGSYS), .. }) => "it made a system call that is not allowed".to_owned(),
        Some(JailExit { signal: Some(libc::SIGSEGV | libc::SIGBUS), .. }) => {
            "it reached for memory that is not its own (recursion without end, or a fault in compiled code)".to_owned()
        }
        Some(JailExit { signal: Some(signal), .. }) => format!("signal {signal}"),
        Some(JailExit { code: Some(code), .. }) => format!("it ended itself with exit code {code} before it returned"),
        _ => "without a word".to_owned(),
    };
    let words = String::from_utf8_lossy(&noise[noise.len().saturating_sub(MOST_NOISE)..]);
    if words.contains("JavaScript heap out of memory") || words.contains("Fatal JavaScript out of memory") {
        return (ExitClass::Memory, None);
    }
    let last = words.lines().find(|line| line.contains("Fatal")).or(words.lines().last()).unwrap_or_default();
    let more = if last.trim().is_empty() { String::new() } else { format!("; its last words: {}", last.trim()) };
    (ExitClass::Crashed, Some(ScriptError::new("WorkerError", format!("the worker died: {how}{more}"))))
}
