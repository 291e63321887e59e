//! Resource limits: of a worker before its job, and of the job.

use rustix::process::{Resource, Rlimit};

/// What Rust's own allocations and the stack may take beside the engine's heap, MiB.
const BESIDE_HEAP_MB: u64 = 96;

/// Hard limits of a worker: it writes no file, starts no process, opens nothing, dumps no core.
pub(crate) fn bound_process() -> Result<(), String> {
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        // One descriptor is open, and the table cannot grow beyond it.
        (Resource::Nofile, 1),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
    ] {
        set(resource, limit)?;
    }
    Ok(())
}

/// Limits of the job: address space above the engine's heap limit, processor time above the wall-clock limit.
pub(crate) fn bound_job(memory_mb: u64, timeout_ms: u64, mapped_bytes: u64) -> Result<(), String> {
    let space = mapped_bytes.saturating_add(memory_mb.saturating_add(BESIDE_HEAP_MB).saturating_mul(1 << 20));
    set(Resource::As, space)?;
    set(Resource::Cpu, timeout_ms.div_ceil(1000).saturating_add(1))
}

/// A hard limit that is lower already stays: nobody without privileges can raise it.
fn set(resource: Resource, limit: u64) -> Result<(), String> {
    let limit = rustix::process::getrlimit(resource).maximum.map_or(limit, |hard| hard.min(limit));
    rustix::process::setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })
        .map_err(|e| format!("limit {resource:?}: {e}"))
}
