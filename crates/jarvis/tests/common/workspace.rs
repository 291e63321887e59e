//! A workspace beside a home, and built-in tools called in it by a scripted model.

use super::Home;
use super::provider::{Provider, Reply};
use serde_json::Value;
use std::path::PathBuf;

pub struct Bench {
    pub home: Home,
    pub workspace: PathBuf,
    _folder: tempfile::TempDir,
}

/// What one call of a tool came to.
#[must_use]
pub struct Told {
    pub ok: bool,
    pub text: String,
}

impl Bench {
    pub fn new() -> Bench {
        Self::with(Home::new())
    }

    pub fn with(home: Home) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        Bench { home, workspace, _folder: folder }
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A question to a scripted model: its events, and the requests that the model got.
    pub fn ask(&self, script: Vec<Reply>, flags: &[&str], question: &str) -> (Vec<Value>, Vec<Value>) {
        let provider = Provider::start(script);
        self.home.write("config.toml", &provider.patient_config(60));
        let workspace = self.workspace.display().to_string();
        let mut args = vec!["--json", "--workspace", &workspace];
        args.extend(flags);
        args.push(question);
        let events = self.home.run(&args).ok().events();
        let requests = provider.requests.lock().unwrap().clone();
        (events, requests)
    }

    /// Each call in a round of its own; what the model was told of each.
    pub fn calls(&self, calls: &[(&'static str, Value)], flags: &[&str]) -> Vec<Told> {
        let mut script: Vec<Reply> = calls.iter().map(|(name, args)| Reply::Call(name, args.clone())).collect();
        script.push(Reply::Text("done"));
        let (events, _) = self.ask(script, flags, "go");
        assert_eq!(events.last().unwrap()["stop_reason"], "end_turn", "{events:?}");
        let told: Vec<Told> = events
            .iter()
            .filter(|e| e["type"] == "tool.completed")
            .map(|e| {
                let content = &e["content"];
                let text = content.as_str().or(content["error"].as_str()).map(str::to_owned);
                Told { ok: e["ok"].as_bool().unwrap(), text: text.unwrap_or_else(|| content.to_string()) }
            })
            .collect();
        assert_eq!(told.len(), calls.len());
        told
    }

    pub fn call(&self, name: &'static str, args: Value) -> Told {
        self.calls(&[(name, args)], &[]).remove(0)
    }

    /// The same where everything is allowed beforehand.
    pub fn allowed(&self, name: &'static str, args: Value) -> Told {
        self.calls(&[(name, args)], &["--approve", "auto"]).remove(0)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.join(name)).unwrap()
    }

    /// Paths of all files and links below the workspace.
    pub fn all_files(&self) -> Vec<String> {
        let mut open = vec![self.workspace.clone()];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in folder.read_dir().unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                } else {
                    let below = entry.path().strip_prefix(&self.workspace).unwrap().to_owned();
                    found.push(below.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }
}

impl Told {
    #[track_caller]
    pub fn fine(self) -> String {
        assert!(self.ok, "{}", self.text);
        self.text
    }

    #[track_caller]
    pub fn refused(self, says: &str) {
        assert!(!self.ok && self.text.contains(says), "ok {}, {:?} instead of {says}", self.ok, self.text);
    }
}
