//! Asks pip, as the person has configured it, for wheels. No code of a package runs: source packages are refused, and
//! pip only downloads. It runs outside the jail, because it needs the person's index, certificates and credentials.

use super::{DependencyError, Lock, Requirement, Wheel, sha256_of_file};
use crate::python::Runtimes;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(900);

/// The longest explanation taken from pip, characters.
const MOST_WORDS: usize = 1000;

const PIP: &str = "install pip for this Python (apt install python3-pip, or python3 -m ensurepip)";

/// Resolves the packages and all that they need, and leaves their wheels in `folder`.
pub(super) async fn resolve(
    runtimes: &Runtimes,
    python: &Path,
    wanted: &[Requirement],
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<Vec<Wheel>, DependencyError> {
    let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    download(runtimes, python, &names.iter().map(String::as_str).collect::<Vec<_>>(), folder, cancel).await?;
    wheels_in(folder)
}

/// Leaves exactly the wheels of the lock in `folder`.
pub(super) async fn fetch(
    runtimes: &Runtimes,
    python: &Path,
    lock: &Lock,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<Vec<Wheel>, DependencyError> {
    let lines = lock.wheels.iter().map(|w| format!("{}=={} --hash=sha256:{}\n", w.name, w.version, w.sha256));
    let list = folder.join("locked.txt");
    std::fs::write(&list, lines.collect::<String>()).map_err(DependencyError::io("list of locked wheels"))?;
    let list_name = list.display().to_string();
    let asked = ["--no-deps", "--require-hashes", "-r", &list_name];
    let outcome = download(runtimes, python, &asked, folder, cancel).await;
    std::fs::remove_file(&list).map_err(DependencyError::io("list of locked wheels"))?;
    outcome?;
    wheels_in(folder)
}

async fn download(
    runtimes: &Runtimes,
    python: &Path,
    what: &[&str],
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<(), DependencyError> {
    // Starts pip, which the person trusts already.
    #[allow(clippy::disallowed_methods)]
    let mut command = tokio::process::Command::new(python);
    command.args(["-B", "-m", "pip", "download", "--no-input", "--disable-pip-version-check"]);
    command.args(["--only-binary", ":all:", "--progress-bar", "off", "--retries", "2", "--dest"]).arg(folder);
    command.args(&runtimes.index).args(what).current_dir(folder);
    command.env_clear().envs(runtimes.env.iter().cloned()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::select! {
        () = cancel.cancelled() => return Err(DependencyError::Cancelled),
        output = tokio::time::timeout(PATIENCE, command.output()) => output,
    };
    let output = output.map_err(|_| DependencyError::Network { why: "pip did not end in 15 minutes".to_owned() })?;
    let output = output.map_err(DependencyError::io("start of pip"))?;
    if output.status.success() {
        return Ok(());
    }
    // That an address does not answer is only a note to it.
    Err(explain(&String::from_utf8_lossy(&[output.stderr, output.stdout].concat())))
}

/// pip has no errors for machines, so its words are read.
fn explain(words: &str) -> DependencyError {
    let after = |mark: &str| words.split_once(mark).map(|(_, rest)| rest.lines().next().unwrap_or_default().trim());
    let errors: Vec<&str> = words.lines().filter_map(|line| line.strip_prefix("ERROR: ")).collect();
    let why = || {
        let text = match errors.as_slice() {
            [] => words.lines().last().unwrap_or_default().trim().to_owned(),
            errors => errors.join("; "),
        };
        text.chars().take(MOST_WORDS).collect::<String>()
    };
    if words.contains("No module named pip") {
        return DependencyError::Missing {
            what: "this Python has no pip to fetch packages with".to_owned(),
            fix: PIP.to_owned(),
        };
    }
    if words.contains("DO NOT MATCH THE HASHES") {
        let file = after("DO NOT MATCH THE HASHES").and(words.lines().find_map(|l| l.trim().split_once(" from ")));
        let file = file.map_or("a package", |(name, _)| name.trim()).to_owned();
        let found = after("Got ").map_or(String::new(), |hash| format!(" ({hash})"));
        return DependencyError::Hash { file, found };
    }
    // A network that fails ends in "No matching distribution", too.
    let unreachable = ["NewConnectionError", "ConnectTimeoutError", "ProxyError", "SSLError", "NameResolutionError"];
    if let Some(line) = words.lines().find(|line| unreachable.iter().any(|name| line.contains(name))) {
        return DependencyError::Network { why: line.trim().chars().take(MOST_WORDS).collect() };
    }
    if let Some(wanted) = after("No matching distribution found for ") {
        let known = after("(from versions: ").map(|list| list.trim_end_matches(')'));
        let known = match known {
            None | Some("none") => String::new(),
            Some(list) => format!("; there are {}", tail(list)),
        };
        let wanted = wanted.split(" (from").next().unwrap_or_default().to_owned();
        return DependencyError::NoWheel { wanted, known };
    }
    if words.contains("conflicting dependencies") || words.contains("ResolutionImpossible") {
        return DependencyError::Conflict { why: why() };
    }
    DependencyError::Pip { why: why() }
}

/// The last few of a list of versions.
fn tail(list: &str) -> String {
    let all: Vec<&str> = list.split(", ").collect();
    let last = all[all.len().saturating_sub(10)..].join(", ");
    if all.len() > 10 { format!("…, {last}") } else { last }
}

fn wheels_in(folder: &Path) -> Result<Vec<Wheel>, DependencyError> {
    let read = || -> std::io::Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            found.push((entry.file_name().to_string_lossy().into_owned(), sha256_of_file(&entry.path())?));
        }
        Ok(found)
    };
    let found = read().map_err(DependencyError::io("downloaded wheels"))?;
    let mut wheels = Vec::new();
    for (file, hash) in found {
        let wheel = Wheel::of_file(&file, hash);
        wheels.push(wheel.ok_or_else(|| DependencyError::Wheel { why: format!("`{file}` is no wheel") })?);
    }
    wheels.sort();
    Ok(wheels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pip_says_becomes_an_error_that_says_what_to_do() {
        let none = "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1.0, 2.0)\n\
                    ERROR: No matching distribution found for a==9\n";
        let error = explain(none);
        assert_eq!(error.to_string(), "no wheel of `a==9` fits this Python; there are 1.0, 2.0");
        let offline = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('…: Failed to \
                       establish a new connection: [Errno 111] Connection refused')': /simple/a/\n\
                       ERROR: Could not find a version that satisfies the requirement a==9 (from versions: none)\n\
                       ERROR: No matching distribution found for a==9\n";
        assert!(matches!(explain(offline), DependencyError::Network { .. }));
        let hash = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated …\n    \
                    a==1 from file:///x/a-1-py3-none-any.whl:\n        Expected sha256 aa\n             Got        bb\n";
        assert_eq!(
            explain(hash).to_string(),
            "`a==1` is not the wheel that was locked: its content has another hash (bb)"
        );
        assert!(matches!(explain("/usr/bin/python3: No module named pip"), DependencyError::Missing { .. }));
        let both = "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.";
        assert!(matches!(explain(both), DependencyError::Conflict { .. }));
    }
}
