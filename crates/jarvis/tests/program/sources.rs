//! What library crates leave to the binary, looked for in their sources.

use std::path::{Path, PathBuf};

/// The binary may do all of it, and testkit only serves tests.
const NOT_LIBRARIES: [&str; 2] = ["jarvis", "testkit"];

/// The environment, the current and the home folder, the terminal.
const NEVER: &[&str] = &[
    "env::var(",
    "env::var_os(",
    "env::vars(",
    "env::vars_os(",
    "env::args",
    "current_dir()",
    "home_dir(",
    "stdin()",
    "stdout()",
    "stderr()",
    "println!",
    "eprintln!",
    "print!(",
    "eprint!(",
    "dbg!(",
];

/// Connections, and who makes them: what capabilities are granted, and models.
const NETWORK: &[&str] = &["TcpStream", "TcpListener", "UdpSocket", "UnixListener", "reqwest"];
const MAY_CONNECT: &[&str] = &["sandbox", "model"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines that ship: without comments, and without the tests at the end.
fn shipped(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn library_crates_read_no_environment_no_terminal_and_open_no_connection() {
    let crates = Path::new("..");
    let (mut files, mut problems) = (0, Vec::new());
    for library in std::fs::read_dir(crates).unwrap().map(Result::unwrap) {
        let name = library.file_name().into_string().unwrap();
        if NOT_LIBRARIES.contains(&name.as_str()) {
            continue;
        }
        let mut found = Vec::new();
        sources(&library.path().join("src"), &mut found);
        files += found.len();
        // Modules of tests in files of their own, and programs, which are no part of the library.
        found.retain(|path| {
            let test = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
            !test && path.parent().is_some_and(|folder| !folder.ends_with("bin"))
        });
        let network = if MAY_CONNECT.contains(&name.as_str()) { &[] } else { NETWORK };
        for path in found {
            let text = std::fs::read_to_string(&path).unwrap();
            for (number, line) in shipped(&text) {
                for word in NEVER.iter().chain(network).filter(|word| line.contains(**word)) {
                    problems.push(format!("{}:{number}: {word}", path.display()));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    // Folders that moved must not make this test pass with nothing looked at.
    assert!(files > 60, "{files} files");
}
