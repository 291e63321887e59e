//! Inside the worker: the engine, its web layer, and one job.

mod convert;
mod drive;
mod intl;
mod layer;
mod natives;
mod state;

pub(crate) use state::Socket;

use crate::frame::{self, Done, Fault, Job, Kind, Ready};
use crate::isolate;
use jarvis_protocol::ExitClass;
use rquickjs::{Context, Object, Persistent, Runtime};
use state::State;
use std::rc::Rc;

/// The engine's own stack limit, bytes. The process's is twice that.
const STACK: usize = 8 << 20;

/// A warm engine. Made in the zygote; each worker has its own copy of it by fork.
pub(crate) struct Engine {
    // Dropped in this order: values before their context, the runtime last.
    host: Persistent<Object<'static>>,
    context: Context,
    runtime: Runtime,
    state: Rc<State>,
}

impl Engine {
    pub(crate) fn new() -> Result<Engine, String> {
        raise_stack()?;
        let runtime = Runtime::new().map_err(|e| e.to_string())?;
        runtime.set_max_stack_size(STACK);
        let state = Rc::new(State::default());
        let watch = Rc::clone(&state);
        runtime.set_interrupt_handler(Some(Box::new(move || watch.must_stop())));
        let context = Context::full(&runtime).map_err(|e| e.to_string())?;
        let host = context.with(|ctx| -> Result<_, String> {
            let native = natives::make(&ctx, &state).map_err(|e| e.to_string())?;
            let host = Object::new(ctx.clone()).map_err(|e| e.to_string())?;
            layer::load(&ctx, &native, &host)?;
            Ok(Persistent::save(&ctx, host))
        })?;
        Ok(Engine { runtime, context, host, state })
    }

    /// Runs the job to its end. The result is JSON text.
    fn run(&self, job: &Job) -> Result<String, (ExitClass, Option<Fault>)> {
        self.runtime.set_memory_limit(usize::try_from(job.memory_mb.saturating_mul(1 << 20)).unwrap_or(usize::MAX));
        self.runtime.set_gc_threshold(4 << 20);
        self.context.with(|ctx| drive::run(&ctx, &self.host, &self.state, job))
    }
}

/// Answers one job on the socket. Nothing is returned: whoever is on the other side has been told, or is gone.
pub(crate) fn serve(engine: &Engine, socket: Socket, ready: &Ready, mapped: u64) {
    let Ok(words) = serde_json::to_vec(ready) else { return };
    if socket.send(Kind::Ready, &words).is_err() || ready.missing.is_some() {
        return;
    }
    let payload = match frame::read_blocking(&mut &socket) {
        Ok((Kind::Job, payload)) => payload,
        Ok((Kind::Attempt, name)) => return attempt(socket, &name),
        _ => return,
    };
    let Ok(job) = serde_json::from_slice::<Job>(&payload) else { return };
    drop(payload);
    engine.state.begin(&socket, &job);
    let outcome = match isolate::bound_job(job.memory_mb, job.timeout_ms, mapped) {
        Ok(()) => engine.run(&job),
        Err(e) => {
            let message = format!("the limits of the job cannot be set: {e}");
            Err((ExitClass::Crashed, Some(Fault { name: "WorkerError".to_owned(), message, stack: String::new() })))
        }
    };
    let (exit, fault) = match outcome {
        Ok(result) => match engine.state.afford(result.len()) {
            true if socket.send(Kind::Result, result.as_bytes()).is_ok() => (ExitClass::Ok, None),
            true => return,
            false => (ExitClass::Output, None),
        },
        Err((exit, fault)) => (exit, fault),
    };
    let usage = usage();
    let done = Done { exit, fault, cpu_us: usage.0, peak_memory_kb: usage.1 };
    if let Ok(words) = serde_json::to_vec(&done) {
        let _ = socket.send(Kind::Done, &words);
    }
}

/// As [`serve`], but for attempts to break out alone: the worker has no system-call filter and no limits.
pub(crate) fn serve_attempt(socket: Socket, ready: &Ready) {
    let Ok(words) = serde_json::to_vec(ready) else { return };
    if socket.send(Kind::Ready, &words).is_err() {
        return;
    }
    if let Ok((Kind::Attempt, name)) = frame::read_blocking(&mut &socket) {
        attempt(socket, &name);
    }
}

fn attempt(socket: Socket, name: &[u8]) {
    let how = match isolate::attempt(&String::from_utf8_lossy(name)) {
        Ok(()) => String::new(),
        Err(e) => e.to_string(),
    };
    let _ = socket.send(Kind::Attempt, how.as_bytes());
}

/// Processor time in microseconds and peak memory in KiB of this process.
fn usage() -> (u64, u64) {
    // Sound: the call fills the whole structure.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    (crate::zygote::micros(usage.ru_utime) + crate::zygote::micros(usage.ru_stime), usage.ru_maxrss.unsigned_abs())
}

/// Room for deep recursion; the engine stops before it is used up.
fn raise_stack() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = 2 * STACK as u64;
    let now = getrlimit(Resource::Stack);
    if now.current.is_some_and(|current| current < wanted) {
        let limit = Rlimit { current: Some(now.maximum.map_or(wanted, |most| most.min(wanted))), maximum: now.maximum };
        setrlimit(Resource::Stack, limit).map_err(|e| format!("stack limit: {e}"))?;
        if limit.current < Some(STACK as u64 + (1 << 20)) {
            return Err(format!("the stack limit is {limit:?}, and {wanted} bytes are needed (ulimit -s)"));
        }
    }
    Ok(())
}
