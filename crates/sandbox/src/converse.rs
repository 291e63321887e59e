//! The talk with one worker: its job, what it prints, what it asks for, its result. The worker is not trusted.

use crate::check::Checked;
use crate::frame::{self, Done, Job, Kind};
use jarvis_protocol::{ExecPlan, ExitClass};
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// A worker stops itself at the time limit and says so; it is killed when it has not after this.
const GRACE: Duration = Duration::from_millis(100);

/// What came from the worker so far; kept whatever ends the talk.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    printed: Vec<u8>,
    pub result: Option<Value>,
}

#[derive(Debug)]
pub(crate) enum End {
    Done(Done),
    /// Stopped from here: it must be killed.
    Stopped(ExitClass),
    /// Sent what is not the protocol: it must be killed.
    Broken(String),
    /// The worker is gone.
    Gone,
}

impl Talk {
    pub(crate) fn printed(&self, most: u64) -> String {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let text = String::from_utf8_lossy(&self.printed);
        text[..text.floor_char_boundary(most)].to_owned()
    }
}

pub(crate) async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    talk: &mut Talk,
    plan: &ExecPlan,
    checked: &Checked,
    cancel: &CancellationToken,
) -> End {
    let limit = Duration::from_millis(plan.limits.timeout_ms) + GRACE;
    tokio::select! {
        biased;
        () = cancel.cancelled() => End::Stopped(ExitClass::Cancelled),
        end = exchange(stream, talk, plan, checked) => end.unwrap_or_else(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => End::Broken(e.to_string()),
            _ => End::Gone,
        }),
        () = tokio::time::sleep(limit) => End::Stopped(ExitClass::Timeout),
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    talk: &mut Talk,
    plan: &ExecPlan,
    checked: &Checked,
) -> std::io::Result<End> {
    let limits = &plan.limits;
    let job = Job {
        javascript: checked.javascript.clone(),
        form: checked.form,
        positional: checked.positional.clone(),
        args: serde_json::to_string(&plan.args)?,
        memory_mb: limits.memory_mb,
        timeout_ms: limits.timeout_ms,
        output_bytes: limits.output_bytes,
        fixed: plan.fixed,
    };
    stream.write_all(&frame::encode_json(Kind::Job, &job)?).await?;
    let most = frame::most(limits.output_bytes);
    loop {
        let Some((kind, payload)) = frame::read(stream, most).await? else { return Ok(End::Gone) };
        match kind {
            Kind::Print => {
                talk.printed.extend_from_slice(&payload);
                if talk.printed.len() as u64 > limits.output_bytes {
                    return Ok(End::Stopped(ExitClass::Output));
                }
            }
            Kind::Result if talk.result.is_none() => {
                if (talk.printed.len() + payload.len()) as u64 > limits.output_bytes {
                    return Ok(End::Stopped(ExitClass::Output));
                }
                let value = serde_json::from_slice(&payload);
                talk.result = Some(value.map_err(|e| frame::broken(format!("a result that is not JSON: {e}")))?);
            }
            Kind::Done => {
                let done: Done =
                    serde_json::from_slice(&payload).map_err(|e| frame::broken(format!("its last word: {e}")))?;
                return match done.exit {
                    ExitClass::Ok if talk.result.is_none() => Err(frame::broken("success without a result")),
                    _ => Ok(End::Done(done)),
                };
            }
            Kind::Ready | Kind::Job | Kind::Call | Kind::Reply | Kind::Result => {
                return Err(frame::broken(format!("a frame {kind:?} out of turn")));
            }
        }
    }
}
