//! The `jarvis` program; under the names `jarvis-worker` and `jarvis-jail` it is the
//! sandbox's own helper process.

mod cli;
mod commands;
mod config;
mod error;
mod files;
mod home;
mod hosting;
mod images;
mod kept;
mod listen;
mod markdown;
mod model;
mod notes;
mod programs;
mod pull;
mod run;
mod secrets;
mod show;
mod signals;
mod term;
mod workshop;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_name().and_then(|file| file.to_str()) {
        Some("jarvis-worker") => jarvis_sandbox::worker_main(),
        Some("jarvis-jail") => jarvis_sandbox::jail_main(),
        _ => cli::main(),
    }
}
