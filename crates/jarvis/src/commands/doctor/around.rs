//! What jarvis stands on: its settings and model, the isolation, the runtimes.

use super::{Finding, finding, words};
use crate::cli::Common;
use crate::config;
use crate::error::failed;
use crate::home::Home;
use crate::model::{self, What};
use crate::run;
use jarvis_model::fetch::{self, Presence};
use jarvis_protocol::ErrorKind;
use jarvis_sandbox::SandboxError;
use std::path::PathBuf;

pub fn model_found(home: &Home, common: &Common, findings: &mut Vec<Finding>) {
    let settings = match config::load(home) {
        Ok(settings) => settings,
        Err(failure) => return findings.push(finding("config", true, Err(words(failure)))),
    };
    let file =
        if home.config().exists() { home.config().display().to_string() } else { "defaults (no file)".to_owned() };
    findings.push(finding("config", true, Ok(file)));
    let choice = match model::choose(&settings, common.model.as_deref()) {
        Ok(choice) => choice,
        Err(failure) => return findings.push(finding("model", true, Err(words(failure)))),
    };
    let chosen = format!("{} ({})", choice.id, choice.why);
    // A model that the next question fetches, or mends, is no defect.
    let still_to_fetch = |state: String| {
        let told = format!("{chosen}: {state}");
        (false, Err((told, Some("nothing to do: the next question fetches it (or now: jarvis model pull)".to_owned()))))
    };
    let (essential, state) = match &choice.what {
        What::Remote { endpoint, .. } => (true, Ok(format!("{chosen} at {}", endpoint.base_url))),
        What::File(path) => (true, Ok(format!("{chosen}: {}", path.display()))),
        What::Known(file) => match fetch::presence(file, home.models()) {
            Presence::Checked => (true, Ok(format!("{chosen}: here, digest ok"))),
            Presence::Unchecked => (true, Ok(format!("{chosen}: here, its digest is compared at first use"))),
            Presence::Missing => still_to_fetch(format!("not fetched yet ({})", fetch::size(file.bytes))),
            Presence::Partial { bytes } => still_to_fetch(format!(
                "{} of {} are here; the next question goes on with it",
                fetch::size(bytes),
                fetch::size(file.bytes)
            )),
            Presence::WrongSize { bytes } => still_to_fetch(format!(
                "the file has {bytes} bytes instead of {}; the next question puts it aside and fetches it anew",
                file.bytes
            )),
        },
    };
    findings.push(finding("model", essential, state));
}

/// Namespaces and Landlock stand in for each other; every other layer must be in force.
pub fn sandbox(findings: &mut Vec<Finding>) {
    let layers = jarvis_sandbox::probe();
    let replaceable = |name: &str| matches!(name, "namespaces" | "landlock");
    let one_of_them = layers.iter().any(|layer| replaceable(&layer.name) && layer.in_force);
    findings.extend(layers.into_iter().map(|layer| Finding {
        essential: !(one_of_them && replaceable(&layer.name)),
        what: format!("sandbox: {}", layer.name),
        ok: layer.in_force,
        detail: layer.detail,
        fix: layer.fix,
        fixable: false,
    }));
}

/// Without a jail no program of the person runs, which capabilities in TypeScript do without.
pub async fn jail(home: &Home, findings: &mut Vec<Finding>) {
    let scratch = tempfile::tempdir().map_err(|e| failed(ErrorKind::Disk, format!("no temporary folder: {e}")));
    let tried = match (run::processes(home), scratch) {
        (Ok(processes), Ok(scratch)) => processes.probe(scratch.path()).await,
        (Err(failure), _) | (_, Err(failure)) => return findings.push(finding("jail", false, Err(words(failure)))),
    };
    findings.extend(tried.into_iter().map(|layer| Finding {
        essential: false,
        what: layer.name,
        ok: layer.in_force,
        detail: layer.detail,
        fix: layer.fix,
        fixable: false,
    }));
}

/// What capabilities can run in beside the embedded engine.
pub async fn runtimes(home: &Home, findings: &mut Vec<Finding>) {
    let executor = match config::load(home).and_then(|settings| run::executor(&settings, home)) {
        Ok(executor) => executor,
        // Told already where the settings were read.
        Err(_) => return,
    };
    let told = |found: Result<PathBuf, SandboxError>| {
        let fix = |e: &SandboxError| e.hint().map(str::to_owned);
        found.map(|program| program.display().to_string()).map_err(|e| (e.to_string(), fix(&e)))
    };
    findings.push(finding("runtime: typescript", true, Ok("embedded".to_owned())));
    findings.push(finding("runtime: python", false, told(executor.python_program().await)));
    findings.push(finding("runtime: deno", false, told(executor.deno_program())));
}
