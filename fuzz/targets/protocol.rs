//! What a worker may send: frames, requests, prints, results and last words, in any order and however broken.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jarvis_sandbox::fuzz::worker_says(data));
