//! For `jarvis doctor`: which layers of isolation hold here, tested by trying to break out of a real worker.

use crate::error::SandboxError;
use crate::frame::{self, Kind};
use crate::isolate::{ATTEMPTS, IN_PART};
use crate::pool::{Idle, Zygote, isolated};
use serde::Serialize;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One layer of isolation, or one way out that must be closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    pub name: String,
    pub in_force: bool,
    pub detail: String,
    /// What to do when it is not in force.
    pub fix: Option<String>,
}

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tries every layer in a child of this very binary, which must be its own worker (see [`crate::worker_main`]).
/// Blocking; takes a few milliseconds.
pub fn probe() -> Vec<Layer> {
    probe_with(Path::new("/proc/self/exe"))
}

/// The same with another worker binary.
pub fn probe_with(worker_exe: &Path) -> Vec<Layer> {
    let zygote = match Zygote::start(worker_exe) {
        Ok(zygote) => zygote,
        Err(e) => {
            let fix = e.hint().map(str::to_owned);
            return vec![Layer { name: "sandbox".to_owned(), in_force: false, detail: e.to_string(), fix }];
        }
    };
    let mut layers = inherited(&zygote);
    match own(&zygote) {
        Ok(own) => layers.extend(own),
        Err(e) => layers.push(Layer {
            name: "worker".to_owned(),
            in_force: false,
            detail: e.to_string(),
            fix: e.hint().map(str::to_owned),
        }),
    }
    for name in ATTEMPTS {
        layers.push(closed(&zygote, name));
    }
    zygote.close();
    layers
}

/// Where the time of a cold start goes: its parts in microseconds, in order. Blocking.
pub fn start_times(worker_exe: &Path) -> Result<Vec<(String, u64)>, SandboxError> {
    let started = Instant::now();
    let zygote = Zygote::start(worker_exe)?;
    let micros = |since: Instant| u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
    let whole = micros(started);
    let inside: u64 = zygote.up.spent.iter().map(|(_, spent)| spent).sum();
    let mut all = vec![("new process, to its main and back".to_owned(), whole.saturating_sub(inside))];
    all.extend(zygote.up.spent.iter().cloned());
    let forked = Instant::now();
    start(&zygote, false)?;
    all.push(("worker forked and locked down".to_owned(), micros(forked)));
    zygote.close();
    Ok(all)
}

/// The layers that all workers inherit, and why others are missing.
fn inherited(zygote: &Zygote) -> Vec<Layer> {
    let held = zygote.up.layers.iter().map(|name| Layer {
        name: name.clone(),
        in_force: true,
        detail: match name.as_str() {
            IN_PART => "set up as far as this kernel knows it: files are closed, other rules may be missing".to_owned(),
            _ => "set up".to_owned(),
        },
        fix: None,
    });
    let lacking = zygote.up.lacking.iter().map(|lack| Layer {
        name: lack.name.clone(),
        in_force: false,
        detail: lack.why.clone(),
        fix: Some(lack.fix.clone()),
    });
    held.chain(lacking).collect()
}

/// The layers that a worker sets up for itself.
fn own(zygote: &Zygote) -> Result<Vec<Layer>, SandboxError> {
    let (_, _, layers) = start(zygote, false)?;
    let names = layers.into_iter().filter(|name| !zygote.up.layers.contains(name));
    Ok(names.map(|name| Layer { name, in_force: true, detail: "set up".to_owned(), fix: None }).collect())
}

/// Whether this way out is closed to a worker as it is; and how it looks to one that has only what all inherit.
fn closed(zygote: &Arc<Zygote>, name: &str) -> Layer {
    let outcomes =
        [("with seccomp", false), ("without it and limits", true)].map(|(how, bare)| match tried(zygote, name, bare) {
            Ok(outcome) => (outcome.closed, format!("{how}: {}", outcome.how)),
            Err(e) => (false, format!("{how}: not tried: {e}")),
        });
    // Some calls only the filter stops, and need nothing else: they give nothing away by themselves.
    let in_force = outcomes[0].0;
    let detail = outcomes.iter().map(|(_, how)| how.as_str()).collect::<Vec<_>>().join("; ");
    let fix = (!in_force).then(|| "please report this as a security problem".to_owned());
    Layer { name: format!("cannot {name}"), in_force, detail, fix }
}

struct Outcome {
    closed: bool,
    how: String,
}

fn tried(zygote: &Zygote, name: &str, bare: bool) -> Result<Outcome, SandboxError> {
    let (mut idle, mut socket, _) = start(zygote, bare)?;
    let order = frame::encode(Kind::Attempt, name.as_bytes()).map_err(SandboxError::io("attempt"))?;
    socket.write_all(&order).map_err(SandboxError::io("attempt"))?;
    match frame::read_blocking(&mut socket) {
        Ok((Kind::Attempt, answer)) => {
            let how = String::from_utf8_lossy(&answer).into_owned();
            Ok(Outcome { closed: !how.is_empty(), how: if how.is_empty() { "succeeded".to_owned() } else { how } })
        }
        // It is gone; the kernel says how.
        _ => {
            let until = Instant::now() + PATIENCE;
            loop {
                match idle.ended.try_recv() {
                    Ok(Ok(exit)) if exit.signal == Some(libc::SIGSYS) => {
                        return Ok(Outcome { closed: true, how: "killed".to_owned() });
                    }
                    Ok(ended) => return Ok(Outcome { closed: false, how: format!("ended: {ended:?}") }),
                    Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                    Err(_) => return Ok(Outcome { closed: false, how: "no word".to_owned() }),
                }
            }
        }
    }
}

fn start(zygote: &Zygote, bare: bool) -> Result<(Idle, UnixStream, Vec<String>), SandboxError> {
    let idle = zygote.fork(bare)?;
    let mut socket = idle.socket.try_clone().map_err(SandboxError::io("worker's socket"))?;
    socket.set_nonblocking(false).map_err(SandboxError::io("worker's socket"))?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(SandboxError::io("worker's socket"))?;
    let layers = isolated(frame::read_blocking(&mut socket).ok())?;
    Ok((idle, socket, layers))
}
