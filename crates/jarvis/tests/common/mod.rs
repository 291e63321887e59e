//! A home of its own for each test, and the shipped binary run in it with nothing inherited but PATH.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "the tests run the binary as a person would")]

pub mod embeddings;
pub mod files;
pub mod provider;
pub mod served;
pub mod terminal;
pub mod workspace;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A file of the sources, by its path from this crate: a test begins there, and a checkout may have moved since it was built.
pub fn source(path: &str) -> PathBuf {
    std::env::current_dir().unwrap().join(path)
}

pub struct Home {
    dir: TempDir,
    variables: Vec<(String, String)>,
}

#[must_use]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Home {
        Home { dir: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn config(self, text: &str) -> Home {
        self.write("config.toml", text);
        self
    }

    pub fn var(mut self, name: &str, value: &str) -> Home {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.other(env!("CARGO_BIN_EXE_jarvis"));
        command.args(args);
        command
    }

    /// Another program, in the same surroundings.
    pub fn other(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("JARVIS_HOME", self.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[impl AsRef<OsStr>]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn run_with_input(&self, args: &[impl AsRef<OsStr>], input: &str) -> Ran {
        use std::io::Write;
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            // The program may have refused before it read everything.
            let _ = stdin.write_all(input.as_bytes());
        });
        let ran = Ran::of(child.wait_with_output().unwrap());
        writer.join().unwrap();
        ran
    }
}

/// As a terminal (`INT`) or a service manager (`TERM`) sends it.
pub fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// Waits for its end, which must come soon.
#[track_caller]
pub fn ends_within(mut child: Child, most: Duration) -> Ran {
    let deadline = Instant::now() + most;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("it still ran after {most:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ran::of(child.wait_with_output().unwrap())
}

pub const REVERSE: &str =
    "export default function run({ text }: { text: string }) {\n  return [...text].reverse().join('');\n}\n";

/// The definition that goes with [`REVERSE`].
pub fn reverse_text() -> Value {
    json!({
        "name": "reverse_text", "capability": "Reverses the characters of a text.", "triggers": ["反转文字", "a text backwards"],
        "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "returns": {"type": "string"},
        "examples": [{"args": {"text": "abc"}, "returns": "cba"}, {"args": {"text": "早上好"}, "returns": "好上早"}],
    })
}

/// A home with a definition and its code in `d.json` and `c.ts`.
pub fn prepared(definition: &Value, code: &str) -> Home {
    let home = Home::new();
    home.write("d.json", &definition.to_string());
    home.write("c.ts", code);
    home
}

pub fn register(home: &Home, flags: &[&str]) -> Ran {
    home.run(&[&["cap", "register", "--definition", "d.json", "--code", "c.ts"], flags].concat())
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Ended well.
    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Ended with this code, and stderr says all of these and what to do.
    #[track_caller]
    pub fn failed(self, code: i32, says: &[&str]) -> Ran {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        for part in says {
            assert!(self.err.contains(part), "`{part}` is missing in:\n{}", self.err);
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("bug in jarvis"), "{}", self.err);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }

    /// Every line of stdout as an event.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }
}
