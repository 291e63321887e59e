//! A git repository on another machine, fetched by the person's own git in the jail: it reaches the one host of the
//! address, writes into one folder, and brings no hook, no helper and no credentials along.

use crate::cli::{Place, Reach};
use crate::config::Settings;
use crate::error::{Failure, Outcome, failed, usage};
use crate::home::Home;
use crate::{programs, run, term};
use jarvis_dispatch::{CommandView, ProcessRequest};
use jarvis_protocol::{ErrorBody, ErrorKind, Preset, ProcessLimits, ProcessPlan};
use jarvis_sandbox::Stdin;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const LONGEST_MS: u64 = 600_000;
/// Of what git says when it fails.
const SAID_COLUMNS: usize = 300;

/// The repository, and the folder that goes away with it.
pub struct Fetched {
    _folder: TempDir,
    pub repository: PathBuf,
}

/// True for an address that git can fetch here.
pub fn is_remote(source: &str) -> bool {
    source.starts_with("https://") || source.starts_with("http://")
}

/// The host, with its port where one is given. A password in an address would end up in a file and in the audit.
fn host(address: &str) -> Outcome<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return Err(usage(
            "an address with a name or password in it is not taken",
            "clone it with your own git, then: jarvis cap import FOLDER",
        ));
    }
    // A pattern would let it reach more than the address names.
    if host.is_empty() || host.contains('*') {
        return Err(usage(format!("{address} names no host"), "for example https://example.com/tools.git"));
    }
    jarvis_dispatch::check_host(host).map_err(|problem| usage(problem, "for example https://example.com/tools.git"))?;
    Ok(host.to_owned())
}

pub async fn fetch(address: &str, settings: &Settings, home: &Home, cancel: &CancellationToken) -> Outcome<Fetched> {
    let host = host(address)?;
    let program = programs::find("git").ok_or_else(|| {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("there is no git to fetch {address} with"));
        Failure::from(body.hint("install git, or fetch it elsewhere and import the folder"))
    })?;
    let folder = tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no folder to fetch into: {e}")))?;
    // All that git may write in.
    let place = Place { workspace: Some(folder.path().to_owned()) };
    run::enter(&place)?;
    // The person named the address, which is the yes for its host; a closed network stays closed.
    let reach = Reach { allow_net: vec![host.clone()], place, approve: None };
    let dispatch = run::dispatch(settings, &reach, home)?;
    // A server that cannot give the last commit alone is asked for all of them.
    let mut said = String::new();
    for (into, depth) in [("last.git", Some("--depth=1")), ("whole.git", None)] {
        let request = request(address, depth, &host, folder.path(), into, program.clone());
        let mut approver = run::approver(false, cancel);
        let done = dispatch.exec(request, approver.as_mut(), cancel, |_, _| {}).await?;
        let repository = folder.path().join(into);
        if done.outcome.exit.code == Some(0) {
            return Ok(Fetched { _folder: folder, repository });
        }
        said = done.outcome.stderr_text();
    }
    let said = term::cut(said.trim(), SAID_COLUMNS);
    Err(Failure::from(
        ErrorBody::new(ErrorKind::Network, format!("{address} cannot be fetched: {said}")).hint(
            "where it needs a login or a certificate, clone it with your own git, then: jarvis cap import FOLDER",
        ),
    ))
}

fn request(
    address: &str,
    depth: Option<&str>,
    host: &str,
    folder: &Path,
    into: &str,
    program: PathBuf,
) -> ProcessRequest {
    let mut argv = vec!["git".to_owned()];
    let settings = [
        "protocol.allow=never",
        "protocol.https.allow=always",
        "protocol.http.allow=always",
        "core.hooksPath=/dev/null",
        "credential.helper=",
        "submodule.recurse=false",
        "fetch.fsckObjects=true",
    ];
    argv.extend(settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
    argv.extend(["clone", "--quiet", "--bare", "--single-branch", "--no-tags", "--template="].map(str::to_owned));
    argv.extend(depth.map(str::to_owned));
    argv.extend(["--", address, into].map(str::to_owned));
    let env = [("GIT_TERMINAL_PROMPT", "0"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")];
    ProcessRequest {
        plan: ProcessPlan {
            argv,
            dir: folder.to_owned(),
            preset: Preset::WorkspaceWrite,
            read: Vec::new(),
            write: Vec::new(),
            network: vec![host.to_owned()],
            limits: ProcessLimits { timeout_ms: LONGEST_MS, ..ProcessLimits::STANDARD },
        },
        program,
        command: CommandView::Harmless,
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        stdin: Stdin::Closed,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_is_all_that_is_reached() {
        assert_eq!(host("https://example.com/a/b.git").unwrap(), "example.com");
        assert_eq!(host("http://127.0.0.1:8080/x?y#z").unwrap(), "127.0.0.1:8080");
        for bad in
            ["https://me:word@example.com/x", "https:///x", "https://a b/x", "https://*/x", "https://*.example.com/x"]
        {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
