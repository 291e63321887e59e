//! Built-in tools called one after the other by a scripted model, and what it was told of each.

use super::Home;
use super::provider::{Provider, Reply};
use serde_json::Value;
use std::path::PathBuf;

/// What one call of a tool came to.
#[must_use]
pub struct Told {
    pub ok: bool,
    pub text: String,
}

/// A home, and beside it the folder that the person works in.
pub struct Bench {
    pub home: Home,
    pub workspace: PathBuf,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        Bench { home: Home::new(), workspace, _folder: folder }
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Each call in a round of its own; what the model was told of each.
    pub fn calls(&self, calls: &[(&'static str, Value)], flags: &[&str]) -> Vec<Told> {
        let mut script: Vec<Reply> = calls.iter().map(|(name, args)| Reply::Call(name, args.clone())).collect();
        script.push(Reply::Text("done"));
        let provider = Provider::start(script);
        self.home.write("config.toml", &provider.config());
        let workspace = self.workspace.display().to_string();
        let mut args = vec!["--json", "--workspace", &workspace];
        args.extend(flags);
        args.push("go");
        let events = self.home.run(&args).ok().events();
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

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.join(name)).unwrap()
    }
}

impl Told {
    pub fn fine(self) -> String {
        assert!(self.ok, "{}", self.text);
        self.text
    }

    pub fn refused(self, says: &str) {
        assert!(!self.ok && self.text.contains(says), "ok {}, {:?} instead of {says}", self.ok, self.text);
    }
}
