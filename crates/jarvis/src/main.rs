//! The `jarvis` program; under the name `jarvis-worker` it is the sandbox's worker process.

mod cli;
mod commands;
mod config;
mod error;
mod home;
mod model;
mod pull;
mod run;
mod show;
mod term;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args_os().next();
    if name.is_some_and(|name| Path::new(&name).file_name().is_some_and(|file| file == "jarvis-worker")) {
        return jarvis_sandbox::worker_main();
    }
    cli::main()
}
