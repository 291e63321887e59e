//! Finding out whether a file is a model that this machine can run, and loading it.

use super::LocalConfig;
use crate::ModelError;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::{LlamaCppError, LogOptions, send_logs_to_tracing};
use llama_cpp_sys_2 as sys;
use std::ffi::{CString, c_void};
use std::io::Read;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// llama.cpp is started once in a process and never stopped: another model may still use it.
pub(super) fn backend() -> Result<&'static LlamaBackend, &'static LlamaCppError> {
    static BACKEND: OnceLock<Result<LlamaBackend, LlamaCppError>> = OnceLock::new();
    BACKEND
        .get_or_init(|| {
            // Before init: starting up already logs, and stderr belongs to the front end.
            send_logs_to_tracing(LogOptions::default());
            LlamaBackend::init()
        })
        .as_ref()
}

/// `stop` breaks the loading off.
pub(super) fn load(config: &LocalConfig, stop: &AtomicBool) -> Result<LlamaModel, ModelError> {
    open(config, stop, false)
}

/// Only the vocabulary and the chat template of a model; takes a tenth of a second.
pub(super) fn load_vocabulary(config: &LocalConfig, stop: &AtomicBool) -> Result<LlamaModel, ModelError> {
    open(config, stop, true)
}

fn open(config: &LocalConfig, stop: &AtomicBool, vocabulary_only: bool) -> Result<LlamaModel, ModelError> {
    let path = &config.model_path;
    check_file(path)?;
    if !vocabulary_only {
        check_memory(path)?;
    }
    backend().map_err(|error| fault(path, &error.to_string(), "report this as a fault of jarvis"))?;
    let name = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| fault(path, "the path holds a zero byte", "rename the file"))?;
    // SAFETY: reads nothing but its own constants.
    let mut params = unsafe { sys::llama_model_default_params() };
    // Weights as they are in the file, mapped. Rearranged ones decode several answers at once 1.5 times as fast, but
    // loading takes 0.8 s more, a prompt 1.4 times as long, and memory holds a copy (1.5B model, Zen 5, 2 cores).
    params.use_extra_bufts = false;
    params.vocab_only = vocabulary_only;
    params.progress_callback = Some(go_on);
    params.progress_callback_user_data = std::ptr::from_ref(stop).cast_mut().cast();
    if let Some(layers) = config.gpu_layers {
        params.n_gpu_layers = i32::try_from(layers).unwrap_or(i32::MAX);
    }
    // SAFETY: `name` and `stop` outlive the call, and the callback is used in it only.
    let raw = unsafe { sys::llama_model_load_from_file(name.as_ptr(), params) };
    // The reason went to the log; the return value has none.
    let raw = NonNull::new(raw).ok_or_else(|| fault(path, "the engine does not accept the file", DAMAGED))?;
    // SAFETY: LlamaModel is repr(transparent) over this pointer, and frees it. (Its own loader cannot set the weights'
    // arrangement.)
    Ok(unsafe { std::mem::transmute::<NonNull<sys::llama_model>, LlamaModel>(raw) })
}

unsafe extern "C" fn go_on(_: f32, stop: *mut c_void) -> bool {
    // SAFETY: `load` passes its own flag, which it keeps for the time of the call.
    !unsafe { &*stop.cast::<AtomicBool>() }.load(Ordering::Relaxed)
}

const DAMAGED: &str = "the file may be damaged or of a kind this engine does not know; fetch it again with \
                       `jarvis model pull`, or choose another with --model";

pub(super) fn fault(path: &Path, message: &str, hint: &str) -> ModelError {
    ModelError::Load { message: format!("{}: {message}", path.display()), hint: hint.to_owned() }
}

fn check_file(path: &Path) -> Result<(), ModelError> {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match read {
        Ok(()) if magic == *b"GGUF" => Ok(()),
        Ok(()) => Err(fault(path, "not a GGUF file", DAMAGED)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(fault(path, "no such file", "fetch it with `jarvis model pull`, or use a provider with --model"))
        }
        Err(error) => Err(fault(path, &error.to_string(), DAMAGED)),
    }
}

/// Weights are mapped, so too little memory shows as a machine that swaps itself to death, not as an error.
fn check_memory(path: &Path) -> Result<(), ModelError> {
    let Some(free) = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(free_memory) else {
        return Ok(());
    };
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if size > free {
        let mib = |bytes: u64| bytes >> 20;
        return Err(fault(
            path,
            &format!("too little memory: the model needs {} MiB, {} MiB are free", mib(size), mib(free)),
            "close other programs, or choose a smaller model (`jarvis model list`) or a provider",
        ));
    }
    Ok(())
}

/// Bytes that could be had without swapping, of /proc/meminfo's text.
fn free_memory(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Two threads on one core are slower than one: the arithmetic units are shared.
pub(super) fn physical_cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, |n| n.get());
    let siblings = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
        .map_or(1, |list| siblings(&list));
    (logical / siblings).max(1)
}

/// Threads on one core, of a list like `0,4` or `0-1`.
fn siblings(list: &str) -> usize {
    let of = |part: &str| match part.split_once('-') {
        Some((a, b)) => {
            b.parse::<usize>().ok().zip(a.parse::<usize>().ok()).map_or(1, |(b, a)| b.saturating_sub(a) + 1)
        }
        None => 1,
    };
    list.trim().split(',').map(of).sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_core_are_counted_in_both_notations() {
        assert_eq!(siblings("0\n"), 1);
        assert_eq!(siblings("0,4\n"), 2);
        assert_eq!(siblings("0-1\n"), 2);
        assert_eq!(siblings(""), 1);
    }

    #[test]
    fn memory_that_could_be_had_is_what_is_available_without_swap() {
        let text = "MemTotal:  100 kB\nMemAvailable:   50 kB\nSwapFree:  1 kB\n";
        assert_eq!(free_memory(text), Some(50 << 10));
        assert_eq!(free_memory("MemTotal: 1 kB\n"), None);
    }
}
