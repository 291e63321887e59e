//! One job in the engine, from its arguments to the JSON text of its result.

use super::convert::to_engine;
use super::state::{State, Stop};
use crate::check::Form;
use crate::frame::{Fault, Job};
use jarvis_protocol::ExitClass;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Function, Module, Object, Persistent, Promise, TypedArray, Value, qjs};

type Ended<T> = Result<T, (ExitClass, Option<Fault>)>;

/// Heap given back to a job that ran out of it, so that its end can be told.
const LAST_WORDS: usize = 4 << 20;

struct Drive<'a, 'js> {
    ctx: &'a Ctx<'js>,
    host: Object<'js>,
    state: &'a State,
    memory: usize,
}

pub(super) fn run<'js>(ctx: &Ctx<'js>, host: &Persistent<Object<'static>>, state: &State, job: &Job) -> Ended<String> {
    let memory = usize::try_from(job.memory_mb.saturating_mul(1 << 20)).unwrap_or(usize::MAX);
    let host =
        host.clone().restore(ctx).map_err(|e| (ExitClass::Crashed, Some(plain("InternalError", e.to_string()))))?;
    Drive { ctx, host, state, memory }.job(job)
}

impl<'js> Drive<'_, 'js> {
    fn job(&self, job: &Job) -> Ended<String> {
        let args = serde_json::from_str(&job.args)
            .map_err(|e| (ExitClass::Crashed, Some(plain("InternalError", format!("arguments: {e}")))))?;
        let args = self.ok(to_engine(self.ctx, &args))?;
        let script = job.form == Form::Script;
        let fixed = job.fixed.map(|fixed| (fixed.random_seed as f64, fixed.now_ms as f64));
        let (seed, now) = fixed.unzip();
        self.ok(self.hook("begin")?.call::<_, ()>((args.clone(), script, job.output_bytes as f64, seed, now)))?;

        let module = match Module::declare(self.ctx.clone(), crate::MODULE_NAME, job.javascript.as_str()) {
            Ok(module) => module,
            // The check passed it, the engine does not.
            Err(_) => return Err(self.threw(ExitClass::Rejected)),
        };
        let (module, loaded) = self.ok(module.eval())?;
        self.settle(&loaded)?;
        if script {
            self.idle()?;
            return self.ok(self.hook("printed")?.call(()));
        }
        let namespace = self.ok(module.namespace())?;
        let entry: Value<'_> = self.ok(namespace.get("default"))?;
        let answer: Promise<'_> = self.ok(self.hook("call")?.call((entry, args, job.positional.clone())))?;
        let value = self.settle(&answer)?;
        self.ok(self.hook("result")?.call((value,)))
    }

    fn hook(&self, name: &str) -> Ended<Function<'js>> {
        self.ok(self.host.get(name))
    }

    /// Runs jobs and timers until the promise is settled.
    fn settle(&self, promise: &Promise<'js>) -> Ended<Value<'js>> {
        loop {
            match promise.state() {
                PromiseState::Pending => {}
                PromiseState::Resolved | PromiseState::Rejected => {
                    return match promise.result::<Value<'_>>() {
                        Some(outcome) => self.ok(outcome),
                        None => continue,
                    };
                }
            }
            if !self.step()? {
                if self.exhausted() {
                    // A job of the queue could not be stored.
                    return Err((ExitClass::Memory, None));
                }
                let message = "the promise never settles: nothing is left that could resolve it (a missing resolve() \
                               call, or an await on a value that never comes)";
                return Err((ExitClass::Threw, Some(plain("Error", message))));
            }
        }
    }

    /// Until no job and no timer is left, as a script ends.
    fn idle(&self) -> Ended<()> {
        while self.step()? {}
        Ok(())
    }

    /// One job of the queue, or else one timer. False when there is nothing left to do.
    fn step(&self) -> Ended<bool> {
        if self.pending_job()? {
            return Ok(true);
        }
        let wait: f64 = self.ok(self.hook("timers")?.call(()))?;
        let asked: u32 = self.ok(self.hook("waiting")?.call(()))?;
        if wait == 0.0 {
            return Ok(true);
        }
        if wait < 0.0 && asked == 0 {
            return Ok(false);
        }
        if let Some(packet) = self.state.sleep((wait > 0.0).then_some(wait), asked > 0) {
            let body = self.ok(TypedArray::<u8>::new(self.ctx.clone(), packet.body))?;
            self.ok(self.hook("answer")?.call::<_, ()>((packet.id, packet.head, body)))?;
        }
        self.running()?;
        Ok(true)
    }

    /// Runs one job of the queue. Errors of jobs go into their promises; one that comes out here is the engine's own
    /// (out of memory, interrupted), after which promises may be lost.
    fn pending_job(&self) -> Ended<bool> {
        let mut ctx = std::ptr::null_mut();
        // Sound: the runtime is alive, and it has this one context.
        let outcome = unsafe { qjs::JS_ExecutePendingJob(qjs::JS_GetRuntime(self.ctx.as_raw().as_ptr()), &mut ctx) };
        if outcome < 0 {
            return Err(self.threw(ExitClass::Threw));
        }
        self.running().map(|()| outcome > 0)
    }

    fn running(&self) -> Ended<()> {
        match self.state.stopped() {
            None => Ok(()),
            Some(Stop::Timeout | Stop::Alone) => Err((ExitClass::Timeout, None)),
            Some(Stop::Output) => Err((ExitClass::Output, None)),
        }
    }

    fn ok<T>(&self, outcome: rquickjs::Result<T>) -> Ended<T> {
        match outcome {
            Ok(value) => self.running().map(|()| value),
            Err(rquickjs::Error::Exception) => Err(self.threw(ExitClass::Threw)),
            Err(other) => {
                self.running()?;
                Err((ExitClass::Threw, Some(plain("TypeError", other.to_string()))))
            }
        }
    }

    /// What the pending exception is.
    fn threw(&self, otherwise: ExitClass) -> (ExitClass, Option<Fault>) {
        if let Err(stopped) = self.running() {
            return stopped;
        }
        let value = self.ctx.catch();
        self.give_last_words();
        if value.is_null() || value.is_undefined() {
            // Not even the error could be made. (Code that throws null itself gets here too.)
            return match self.exhausted() {
                true => (ExitClass::Memory, None),
                false => (ExitClass::Threw, Some(plain("Error", format!("threw {}", value.type_name())))),
            };
        }
        let fault = || -> rquickjs::Result<Vec<String>> { self.host.get::<_, Function<'_>>("fault")?.call((value,)) };
        match fault() {
            Ok(parts) => match <[String; 3]>::try_from(parts) {
                Ok([name, message, _]) if name == "InternalError" && message == "out of memory" => {
                    (ExitClass::Memory, None)
                }
                Ok([name, message, stack]) => (otherwise, Some(Fault { name, message, stack })),
                Err(_) => (otherwise, None),
            },
            Err(e) => match self.running() {
                Err(stopped) => stopped,
                Ok(()) if self.exhausted() => (ExitClass::Memory, None),
                Ok(()) => (otherwise, Some(plain("Error", format!("threw a value that cannot be shown ({e})")))),
            },
        }
    }

    /// Whether the heap was near its limit. When memory is short the engine can only throw null.
    fn exhausted(&self) -> bool {
        let peak = usize::try_from(super::usage().1 << 10).unwrap_or(usize::MAX);
        peak > self.memory / 4 * 3
    }

    fn give_last_words(&self) {
        let more = self.memory.saturating_add(LAST_WORDS);
        // Sound: the runtime is alive; the runtime handle itself is borrowed while the context is in use.
        unsafe { qjs::JS_SetMemoryLimit(qjs::JS_GetRuntime(self.ctx.as_raw().as_ptr()), more as _) };
    }
}

fn plain(name: &str, message: impl Into<String>) -> Fault {
    Fault { name: name.to_owned(), message: message.into(), stack: String::new() }
}
