//! A program on a terminal of its own, made by python's pty module.

use super::Home;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Passes everything through, and its exit code on (128 and the signal's number where one ended it).
const PTY: &str = "import os, pty, sys
status = pty.spawn(sys.argv[1:])
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)";

/// What kind of terminal it is.
pub struct Screen {
    pub columns: u16,
    pub colour: bool,
    /// `TERM`.
    pub kind: &'static str,
    /// What is started on it is deaf to the terminal's end, as by `nohup`.
    pub nohup: bool,
}

impl Screen {
    pub const USUAL: Screen = Screen { columns: 80, colour: false, kind: "xterm", nohup: false };
}

pub struct Terminal {
    child: Child,
    keys: Arc<Mutex<ChildStdin>>,
    shown: Arc<Mutex<String>>,
    /// How much of it was looked at.
    seen: usize,
}

impl Terminal {
    pub fn start(home: &Home, args: &[&str]) -> Option<Terminal> {
        Self::like(&Screen::USUAL, home, args)
    }

    /// None where there is no python3.
    pub fn like(screen: &Screen, home: &Home, args: &[&str]) -> Option<Terminal> {
        if !home.other("python3").args(["-c", "import pty"]).status().is_ok_and(|status| status.success()) {
            jarvis_testkit::skipped("a conversation on a terminal: python3 is not here");
            return None;
        }
        let deaf = if screen.nohup { "trap '' HUP; " } else { "" };
        let begin = format!("{deaf}stty rows 24 cols {}; echo \"pid=$$.\"; exec \"$@\"", screen.columns);
        let mut child = home
            .other("python3")
            .args(["-c", PTY, "sh", "-c", &begin, "sh"])
            .arg(env!("CARGO_BIN_EXE_jarvis"))
            .args(args)
            .env("TERM", screen.kind)
            .env("NO_COLOR", if screen.colour { "" } else { "1" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let keys = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        let shown = Arc::new(Mutex::new(String::new()));
        let mut out = child.stdout.take().unwrap();
        let (answering, written) = (keys.clone(), shown.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..n]);
                // A terminal answers where its cursor is.
                for _ in text.matches("\u{1b}[6n") {
                    let _ = answering.lock().unwrap().write_all(b"\x1b[1;1R");
                }
                written.lock().unwrap().push_str(&text);
            }
        });
        Some(Terminal { child, keys, shown, seen: 0 })
    }

    /// Waits until `text` appears behind what was waited for before; returns what came before it.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let shown = self.shown.lock().unwrap().clone();
            if let Some(at) = shown[self.seen..].find(text) {
                let before = shown[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            assert!(Instant::now() < deadline, "`{text}` did not appear: {:?}", &shown[self.seen..]);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn keys(&self, keys: &str) {
        let mut stdin = self.keys.lock().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// The process on the terminal; called first.
    pub fn pid(&mut self) -> u32 {
        self.until("pid=");
        self.until(".").parse().unwrap()
    }

    /// Its exit code; the end must come soon.
    #[track_caller]
    pub fn ended(mut self) -> i32 {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            if Instant::now() > deadline {
                self.child.kill().unwrap();
                panic!("it did not end: {:?}", self.shown.lock().unwrap());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A test that failed leaves nothing running: the program loses its terminal.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
