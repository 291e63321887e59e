//! For `jarvis doctor`: which layers of isolation hold here, tested by trying to break out of a real worker.

use crate::error::SandboxError;
use crate::frame::{self, Kind, Ready};
use crate::isolate::ATTEMPTS;
use crate::pool::{Idle, Zygote};
use serde::Serialize;
use std::io::Write;
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

/// The layers that all workers inherit, and why others are missing.
fn inherited(zygote: &Zygote) -> Vec<Layer> {
    let held = zygote.layers.iter().map(|name| Layer {
        name: name.clone(),
        in_force: true,
        detail: "set up".to_owned(),
        fix: None,
    });
    let lacking = zygote.lacking.iter().map(|lack| Layer {
        name: lack.name.clone(),
        in_force: false,
        detail: lack.why.clone(),
        fix: Some(lack.fix.clone()),
    });
    held.chain(lacking).collect()
}

/// The layers that a worker sets up for itself.
fn own(zygote: &Zygote) -> Result<Vec<Layer>, SandboxError> {
    let (_, _, ready) = start(zygote, false)?;
    let names = ready.layers.into_iter().filter(|name| !zygote.layers.contains(name));
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
                    Ok(exit) if exit.signal == Some(libc::SIGSYS) => {
                        return Ok(Outcome { closed: true, how: "killed".to_owned() });
                    }
                    Ok(exit) => return Ok(Outcome { closed: false, how: format!("ended with {:?}", exit.signal) }),
                    Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                    Err(_) => return Ok(Outcome { closed: false, how: "no word".to_owned() }),
                }
            }
        }
    }
}

fn start(zygote: &Zygote, bare: bool) -> Result<(Idle, std::os::unix::net::UnixStream, Ready), SandboxError> {
    let idle = zygote.fork(bare)?;
    let mut socket = idle.socket.try_clone().map_err(SandboxError::io("worker's socket"))?;
    socket.set_nonblocking(false).map_err(SandboxError::io("worker's socket"))?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(SandboxError::io("worker's socket"))?;
    let ready = match frame::read_blocking(&mut socket) {
        Ok((Kind::Ready, payload)) => serde_json::from_slice::<Ready>(&payload).ok(),
        _ => None,
    };
    match ready {
        Some(Ready { missing: Some(missing), .. }) => {
            Err(SandboxError::Isolation { missing: missing.missing, fix: missing.fix })
        }
        Some(ready) => Ok((idle, socket, ready)),
        None => Err(SandboxError::io("a worker ended before its job")(std::io::ErrorKind::UnexpectedEof.into())),
    }
}
