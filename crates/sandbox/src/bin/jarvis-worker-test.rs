//! The worker and the jail's launcher that this crate's tests start. The shipped binary is its own.

fn main() -> std::process::ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    match std::path::Path::new(&name).file_name() {
        Some(name) if name == "jarvis-jail" => jarvis_sandbox::jail_main(),
        _ => jarvis_sandbox::worker_main(),
    }
}
