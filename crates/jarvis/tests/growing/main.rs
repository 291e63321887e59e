//! Turns with a scripted model, the real checks, the real sandbox (the shipped binary as worker) and a real home.

mod bench;
mod native;
mod refusals;
mod staged;
