//! Ctrl-C, SIGTERM and SIGHUP, heard in one place for the whole process.

use crate::term;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub struct Signals {
    /// Cancelled by SIGTERM and SIGHUP: the process is to end.
    end: CancellationToken,
    /// Of the work that runs now: cancelled by Ctrl-C, and together with `end`.
    work: Arc<Mutex<CancellationToken>>,
    /// Ctrl-C never ends the process.
    stays: Arc<AtomicBool>,
}

impl Signals {
    /// Must be called in a runtime. What was told to stop and is told so again ends at once.
    pub fn listen() -> Signals {
        let end = CancellationToken::new();
        let signals = Signals { work: Arc::new(Mutex::new(end.child_token())), end, stays: Arc::default() };
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok());
        // The terminal is gone.
        let mut hangup = if hangup_is_ignored() { None } else { signal(SignalKind::hangup()).ok() };
        let heard = signals.clone();
        tokio::spawn(async move {
            loop {
                let (token, stays) = tokio::select! {
                    () = next(&mut interrupt) => {
                        let work = heard.work.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        (work, heard.stays.load(Ordering::Relaxed))
                    }
                    () = next(&mut terminate) => (heard.end.clone(), false),
                    () = next(&mut hangup) => (heard.end.clone(), false),
                };
                match token.is_cancelled() {
                    false => token.cancel(),
                    true if stays => term::status("it is being cancelled; Ctrl-\\ ends jarvis at once"),
                    true => std::process::exit(130),
                }
            }
        });
        signals
    }

    /// From now on a Ctrl-C that comes again is told and does nothing: a conversation is left by other keys.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// For a piece of work that begins now; the one before it is over.
    pub fn work(&self) -> CancellationToken {
        let token = self.end.child_token();
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
        token
    }

    pub fn end(&self) -> &CancellationToken {
        &self.end
    }
}

/// As `nohup` starts a program: it is to outlive its terminal.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
