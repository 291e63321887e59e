//! A whole run: input given, output collected up to its limit, cancelled at a word.

use super::client::{Jail, JailClass, JailExit};
use super::spec::{JailSpec, Stdin};
use crate::error::SandboxError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JailStream {
    Stdout,
    Stderr,
}

/// What a run left. Output is kept whatever ended it.
#[derive(Debug, Clone)]
pub struct JailOutcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: JailExit,
    pub layers: Vec<String>,
}

impl JailOutcome {
    /// Bytes that are no UTF-8 are replaced; a character that the limit cut is left out.
    pub fn stdout_text(&self) -> String {
        text(&self.stdout)
    }

    pub fn stderr_text(&self) -> String {
        text(&self.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    let whole = match std::str::from_utf8(bytes) {
        // Only the end is missing.
        Err(e) if e.error_len().is_none() => &bytes[..e.valid_up_to()],
        _ => bytes,
    };
    String::from_utf8_lossy(whole).into_owned()
}

impl Jail {
    /// Runs it to its end. `on_output` hears of output as it comes, as far as the limit goes.
    pub async fn run(
        &self,
        mut spec: JailSpec,
        cancel: &CancellationToken,
        mut on_output: impl FnMut(JailStream, &[u8]) + Send,
    ) -> Result<JailOutcome, SandboxError> {
        let most = usize::try_from(spec.limits.output_bytes).unwrap_or(usize::MAX);
        let input = match &mut spec.stdin {
            Stdin::Bytes(bytes) => std::mem::take(bytes),
            Stdin::Closed | Stdin::Piped => Vec::new(),
        };
        let mut jailed = self.spawn(spec).await?;
        let feeding = jailed.stdin.take().map(|stdin| tokio::spawn(feed(stdin, input)));
        let (mut out, mut err) = (jailed.stdout.take(), jailed.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (mut out_part, mut err_part) = (vec![0u8; 16 << 10], vec![0u8; 16 << 10]);
        let mut stopped = None;
        let mut exit = None;
        // The end of both streams comes with the end of all processes inside, if they do not close them before.
        while out.is_some() || err.is_some() || exit.is_none() {
            let full = tokio::select! {
                biased;
                () = cancel.cancelled(), if stopped.is_none() => {
                    stopped = Some(JailClass::Cancelled);
                    jailed.kill();
                    false
                }
                count = next(&mut out, &mut out_part), if out.is_some() => {
                    keep(&mut out, count, &out_part, &mut stdout, most, |part| on_output(JailStream::Stdout, part))
                }
                count = next(&mut err, &mut err_part), if err.is_some() => {
                    keep(&mut err, count, &err_part, &mut stderr, most, |part| on_output(JailStream::Stderr, part))
                }
                ended = jailed.wait(), if exit.is_none() => {
                    exit = Some(ended?);
                    false
                }
            };
            if full && stopped.is_none() {
                stopped = Some(JailClass::Output);
                jailed.kill();
            }
        }
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        let Some(mut exit) = exit else { unreachable!("the loop ends with it") };
        if let Some(class) = stopped {
            exit.class = class;
        }
        Ok(JailOutcome { stdout, stderr, exit, layers: std::mem::take(&mut jailed.layers) })
    }
}

/// A program that does not read it all is no error.
async fn feed(mut stdin: pipe::Sender, input: Vec<u8>) {
    let _ = stdin.write_all(&input).await;
}

async fn next(from: &mut Option<pipe::Receiver>, part: &mut [u8]) -> usize {
    match from {
        // A pipe has no other errors than its end.
        Some(from) => from.read(part).await.unwrap_or(0),
        None => 0,
    }
}

/// True when the limit is reached.
fn keep(
    from: &mut Option<pipe::Receiver>,
    count: usize,
    part: &[u8],
    kept: &mut Vec<u8>,
    most: usize,
    on_output: impl FnOnce(&[u8]),
) -> bool {
    if count == 0 {
        *from = None;
        return false;
    }
    let room = (most - kept.len()).min(count);
    if room > 0 {
        kept.extend_from_slice(&part[..room]);
        on_output(&part[..room]);
    }
    room < count
}
