//! The worker that this crate's tests start. The shipped binary is its own worker.

fn main() -> std::process::ExitCode {
    jarvis_sandbox::worker_main()
}
