//! A test that cannot run here says so, and `./test` counts it: it must not look like one that passed.

use std::io::Write;

/// Told on stderr, and as a line of the file that `JARVIS_TEST_SKIPS` names.
#[allow(clippy::print_stderr, reason = "for whoever runs the test")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    let Some(list) = std::env::var_os("JARVIS_TEST_SKIPS") else { return };
    let written = std::fs::OpenOptions::new().create(true).append(true).open(&list);
    if let Err(error) = written.and_then(|mut list| list.write_all(format!("{why}\n").as_bytes())) {
        eprintln!("{}: {error}", list.display());
    }
}
