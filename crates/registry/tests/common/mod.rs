//! A registry in a folder of its own, and definitions to put into it.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod corpus;

use jarvis_protocol::{Capability, CapabilityName, CreatedBy, Version};
use jarvis_registry::{Author, NewVersion, Registered, Registry, Run};
use serde_json::json;
use std::path::{Path, PathBuf};

pub struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { dir: tempfile::tempdir().unwrap() }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("capabilities")
    }

    pub fn index(&self) -> PathBuf {
        self.root().join("index.json")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// As a new process would open it.
    pub fn registry(&self) -> Registry {
        open(self.dir.path())
    }

    /// With an `index.json` and code files that jarvis did not write.
    pub fn with_files(index: &str, files: &[(&str, &str)]) -> Home {
        let home = Home::new();
        std::fs::create_dir_all(home.root().join("tools")).unwrap();
        std::fs::write(home.index(), index).unwrap();
        for (path, text) in files {
            std::fs::write(home.root().join(path), text).unwrap();
        }
        home
    }

    /// Ordinary git, as a person would look at the workspace.
    #[expect(clippy::disallowed_methods, reason = "a person's git, not a capability")]
    pub fn git(&self, args: &[&str]) -> String {
        let out = std::process::Command::new("git")
            .arg("-C")
            .arg(self.root())
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

pub fn open(home: &Path) -> Registry {
    let author = Author { name: "jarvis".into(), email: "jarvis@localhost".into() };
    Registry::open(home.join("capabilities"), home.join("jarvis.db"), author).unwrap()
}

pub fn name(name: &str) -> CapabilityName {
    CapabilityName::new(name).unwrap()
}

/// Takes a text, gives a number.
pub fn capability(of: &str) -> Capability {
    let mut cap = Capability::new(name(of), "Counts the words of a text");
    cap.triggers = vec!["how many words a text has".into()];
    cap.parameters = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
    cap.returns = json!({"type": "integer"});
    cap
}

pub fn version_of(capability: Capability, code: &str) -> NewVersion {
    NewVersion {
        capability,
        code: code.into(),
        change: "first version".into(),
        created_by: CreatedBy::Model,
        model: Some("local/test".into()),
        now: "2026-03-01T08:00:00Z".into(),
    }
}

pub const CODE: &str = "export default ({ text }: { text: string }) => text.split(/\\s+/).length\n";

pub fn register(registry: &Registry, of: &str, code: &str) -> Registered {
    registry.register(version_of(capability(of), code)).unwrap()
}

/// One execution of version 1.0.0 that went well.
pub fn run() -> Run {
    Run {
        version: Version::new(1, 0, 0),
        ok: true,
        wall_us: 5,
        error_class: None,
        egress: Vec::new(),
        at: "2026-03-01T08:00:00Z".into(),
    }
}
