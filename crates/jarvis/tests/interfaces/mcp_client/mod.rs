//! Servers of the Model Context Protocol as tools, through the shipped binary: good ones, bad ones, and how they are set up.
#![allow(clippy::disallowed_methods, reason = "the tests run the binary as a person would")]

mod bad;
mod beyond;
mod http;
mod many;
mod real;
mod set_up;

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};
use std::path::PathBuf;

const PYTHON: &str = "/usr/bin/python3";
const SERVER: &str = include_str!("server.py");

/// A home, a workspace, and the server by hand in it.
pub struct Desk {
    pub home: Home,
    pub workspace: PathBuf,
    /// Appended to config.toml.
    pub config: String,
    _folder: tempfile::TempDir,
}

/// A server that the makers of the protocol publish: its program, and the folder of the packages that it needs.
pub fn published(server: &str) -> Option<(PathBuf, PathBuf)> {
    let Some(folder) = std::env::var_os("JARVIS_TEST_MCP_SERVERS") else {
        jarvis_testkit::skipped("the servers of MCP's makers: JARVIS_TEST_MCP_SERVERS names no folder");
        return None;
    };
    let folder = PathBuf::from(folder).canonicalize().unwrap();
    Some((folder.join(server).join("dist/index.js"), folder.parent().unwrap().to_owned()))
}

/// What a run was told.
pub struct Run {
    pub events: Vec<Value>,
    pub requests: Vec<Value>,
    pub err: String,
}

impl Desk {
    /// None where there is no python3.
    pub fn new() -> Option<Desk> {
        if !std::path::Path::new(PYTHON).exists() {
            jarvis_testkit::skipped("servers of MCP by hand: there is no /usr/bin/python3");
            return None;
        }
        Some(Self::bare())
    }

    pub fn bare() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        std::fs::create_dir(workspace.join("log")).unwrap();
        std::fs::write(workspace.join("server.py"), SERVER).unwrap();
        std::fs::write(workspace.join("note.txt"), "你好, workspace\n").unwrap();
        Desk { home: Home::new(), workspace, config: String::new(), _folder: folder }
    }

    /// With the server by hand, in this mode, called `hand`; `more` is lines of its table.
    pub fn with(mode: &str, more: &str) -> Option<Desk> {
        let mut desk = Self::new()?;
        desk.config = format!(
            "[mcp.servers.hand]\ncommand = \"{PYTHON}\"\nargs = [\"server.py\", \"{mode}\", \"log/heard\"]\n\
             sandbox.write = [\"log\"]\n{more}\n"
        );
        Some(desk)
    }

    /// What the server heard so far, a message a line.
    pub fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.workspace.join("log/heard")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn set(&self, provider: &Provider) {
        self.home.write("config.toml", &format!("{}\n{}", provider.patient_config(30), self.config));
    }

    /// One turn of these replies.
    #[track_caller]
    pub fn turn(&self, script: Vec<Reply>, flags: &[&str]) -> Run {
        let run = self.ask("go", Provider::start(script), flags);
        assert_eq!(run.events.last().unwrap()["type"], "turn.completed", "{:#?}\n{}", run.events, run.err);
        run
    }

    /// One question, whatever comes of it.
    pub fn ask(&self, question: &str, provider: Provider, flags: &[&str]) -> Run {
        self.set(&provider);
        let workspace = self.workspace.display().to_string();
        let ran = self.home.run(&[&["--json", "--workspace", &workspace][..], flags, &[question]].concat());
        let requests = provider.requests.lock().unwrap().clone();
        let (events, err) = (ran.events(), ran.err.clone());
        Run { events, requests, err }
    }

    /// Each call in a round of its own.
    #[track_caller]
    pub fn calls(&self, calls: &[(&'static str, Value)], flags: &[&str]) -> Run {
        let mut script: Vec<Reply> = calls.iter().map(|(name, args)| Reply::Call(name, args.clone())).collect();
        script.push(Reply::Text("done"));
        self.turn(script, flags)
    }

    pub fn audit(&self) -> Vec<Value> {
        self.home.run(&["audit", "tail", "-n", "200", "--json"]).ok().events()
    }
}

impl Run {
    /// Of each call: whether it went well, and what the model was told.
    pub fn told(&self) -> Vec<(bool, String)> {
        let done = self.events.iter().filter(|e| e["type"] == "tool.completed");
        done.map(|e| {
            let content = &e["content"];
            let text = content.as_str().or(content["error"].as_str()).map(str::to_owned);
            (e["ok"].as_bool().unwrap(), text.unwrap_or_else(|| content.to_string()))
        })
        .collect()
    }

    /// The only call's.
    #[track_caller]
    pub fn one(&self) -> (bool, String) {
        let told = self.told();
        assert_eq!(told.len(), 1, "{told:?}\n{}", self.err);
        told.into_iter().next().unwrap()
    }

    /// Names of the tools that the model was offered.
    pub fn offered(&self) -> Vec<String> {
        let tools = self.requests[0]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).collect()
    }
}

pub fn none() -> Value {
    json!({})
}
