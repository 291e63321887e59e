//! A llama.cpp context of our own making: the safe crate's has neither a thread count that can change nor a way to break
//! off a computation. All unsafe calls of the engine are here.

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_sys_2 as sys;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Why a batch was not computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No room in the context.
    Full,
    /// Broken off: nobody wants it any more.
    Cancelled,
    /// Broken off: it took too long. The batch can be computed again.
    Late,
    /// llama.cpp's own code.
    Fault(i32),
}

/// Asked between the parts of a computation.
struct Breaker {
    /// The backend is going.
    closing: Arc<AtomicBool>,
    cancel: CancellationToken,
    deadline: Option<Instant>,
}

impl Breaker {
    fn unwanted(&self) -> bool {
        self.closing.load(Ordering::Relaxed) || self.cancel.is_cancelled()
    }
}

pub(super) struct Context<'m> {
    raw: NonNull<sys::llama_context>,
    batch: sys::llama_batch,
    capacity: usize,
    vocabulary: usize,
    /// Ours, and read by llama.cpp while it computes.
    breaker: NonNull<Breaker>,
    model: PhantomData<&'m LlamaModel>,
}

/// Sizes in tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) context: usize,
    pub(super) chunk: usize,
    pub(super) sequences: usize,
}

impl<'m> Context<'m> {
    /// None when llama.cpp cannot make one, mostly for want of memory.
    pub(super) fn new(model: &'m LlamaModel, size: Size, closing: Arc<AtomicBool>) -> Option<Self> {
        // SAFETY: LlamaModel is repr(transparent) over the pointer to the model.
        let model: *mut sys::llama_model = unsafe { std::mem::transmute_copy(model) };
        // SAFETY: reads nothing but its own constants.
        let mut params = unsafe { sys::llama_context_default_params() };
        params.n_ctx = number(size.context);
        params.n_batch = number(size.chunk);
        params.n_ubatch = number(size.chunk);
        params.n_seq_max = number(size.sequences);
        // All answers share the prompt's cells.
        params.kv_unified = true;
        params.no_perf = true;
        // SAFETY: the model outlives the context by 'm.
        let raw = NonNull::new(unsafe { sys::llama_init_from_model(model, params) })?;
        let breaker =
            NonNull::from(Box::leak(Box::new(Breaker { closing, cancel: CancellationToken::new(), deadline: None })));
        // SAFETY: freed in drop, after the context.
        unsafe { sys::llama_set_abort_callback(raw.as_ptr(), Some(broken), breaker.as_ptr().cast()) };
        // SAFETY: the model is valid.
        let vocabulary = unsafe { sys::llama_vocab_n_tokens(sys::llama_model_get_vocab(model)) };
        // SAFETY: allocates; freed in drop.
        let batch = unsafe { sys::llama_batch_init(i32::try_from(size.chunk).ok()?, 0, 1) };
        let vocabulary = usize::try_from(vocabulary).ok()?;
        Some(Self { raw, batch, capacity: size.chunk, vocabulary, breaker, model: PhantomData })
    }

    /// What may break off the computations from now on.
    pub(super) fn obey(&mut self, cancel: CancellationToken) {
        // SAFETY: llama.cpp reads it in `decode` only, which needs &mut self too.
        unsafe { (*self.breaker.as_ptr()).cancel = cancel };
    }

    pub(super) fn empty_batch(&mut self) {
        self.batch.n_tokens = 0;
    }

    /// Adds a token to the batch, and returns where its logits will be.
    ///
    /// # Panics
    /// When the batch is full: a fault of the caller, and memory would be overwritten.
    pub(super) fn add(&mut self, token: LlamaToken, position: usize, sequence: i32, logits: bool) -> i32 {
        let row = self.batch.n_tokens;
        let at = row as usize;
        assert!(at < self.capacity, "more tokens than the batch was made for");
        // SAFETY: the arrays have `capacity` entries, each with room for one sequence.
        unsafe {
            self.batch.token.add(at).write(token.0);
            self.batch.pos.add(at).write(i32::try_from(position).unwrap_or(i32::MAX));
            self.batch.n_seq_id.add(at).write(1);
            (*self.batch.seq_id.add(at)).write(sequence);
            self.batch.logits.add(at).write(i8::from(logits));
        }
        self.batch.n_tokens += 1;
        row
    }

    pub(super) fn batch_len(&self) -> usize {
        self.batch.n_tokens as usize
    }

    /// Computes the batch with so many threads; after `limit` it is given up.
    pub(super) fn decode(&mut self, threads: usize, limit: Option<Duration>) -> Result<(), Refusal> {
        let threads = i32::try_from(threads).unwrap_or(1);
        // SAFETY: context, breaker and batch are valid, and llama.cpp uses the breaker in llama_decode only.
        let (code, unwanted) = unsafe {
            (*self.breaker.as_ptr()).deadline = limit.map(|limit| Instant::now() + limit);
            sys::llama_set_n_threads(self.raw.as_ptr(), threads, threads);
            let code = sys::llama_decode(self.raw.as_ptr(), self.batch);
            (code, self.breaker.as_ref().unwanted())
        };
        match code {
            0 => Ok(()),
            1 => Err(Refusal::Full),
            2 if unwanted => Err(Refusal::Cancelled),
            2 => Err(Refusal::Late),
            code => Err(Refusal::Fault(code)),
        }
    }

    /// Logits of a row of the last batch, when it was added with logits.
    pub(super) fn logits(&self, row: i32) -> Option<&[f32]> {
        // SAFETY: llama.cpp checks the row; the values stay until the next decode, which needs &mut self.
        unsafe {
            let logits = NonNull::new(sys::llama_get_logits_ith(self.raw.as_ptr(), row))?;
            Some(std::slice::from_raw_parts(logits.as_ptr(), self.vocabulary))
        }
    }

    /// Forgets a sequence from a position on. False when the model can only forget all of it.
    pub(super) fn forget(&mut self, sequence: i32, from: usize) -> bool {
        let from = i32::try_from(from).unwrap_or(i32::MAX);
        // SAFETY: the context is valid.
        unsafe { sys::llama_memory_seq_rm(sys::llama_get_memory(self.raw.as_ptr()), sequence, from, -1) }
    }

    pub(super) fn forget_all(&mut self) {
        // SAFETY: the context is valid.
        unsafe { sys::llama_memory_clear(sys::llama_get_memory(self.raw.as_ptr()), true) }
    }

    /// Lets a sequence share what sequence 0 holds.
    pub(super) fn share(&mut self, sequence: i32) {
        // SAFETY: the context is valid.
        unsafe { sys::llama_memory_seq_cp(sys::llama_get_memory(self.raw.as_ptr()), 0, sequence, -1, -1) }
    }

    /// Bytes of sequence 0's state, behind `head`.
    pub(super) fn state(&self, head: Vec<u8>) -> Option<Vec<u8>> {
        let mut bytes = head;
        let start = bytes.len();
        // SAFETY: the destination has the bytes that llama.cpp asks for.
        unsafe {
            let size = sys::llama_state_seq_get_size(self.raw.as_ptr(), 0);
            bytes.resize(start + size, 0);
            let written = sys::llama_state_seq_get_data(self.raw.as_ptr(), bytes[start..].as_mut_ptr(), size, 0);
            (written == size).then_some(bytes)
        }
    }

    /// Puts a state into sequence 0. False when llama.cpp refuses it.
    ///
    /// # Safety
    /// The bytes came from [`Context::state`] of a context of the same model and parameters.
    pub(super) unsafe fn set_state(&mut self, state: &[u8]) -> bool {
        // SAFETY: as promised by the caller.
        unsafe { sys::llama_state_seq_set_data(self.raw.as_ptr(), state.as_ptr(), state.len(), 0) == state.len() }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: all were made in `new`, and nothing uses them after this.
        unsafe {
            sys::llama_batch_free(self.batch);
            sys::llama_free(self.raw.as_ptr());
            drop(Box::from_raw(self.breaker.as_ptr()));
        }
    }
}

unsafe extern "C" fn broken(data: *mut std::ffi::c_void) -> bool {
    // SAFETY: `data` is the context's own breaker.
    let breaker = unsafe { &*data.cast::<Breaker>() };
    breaker.unwanted() || breaker.deadline.is_some_and(|deadline| Instant::now() > deadline)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
