//! `jarvis doctor`: what works here, tried for real.

use crate::cli::Common;
use crate::config;
use crate::error::{Failure, Outcome, failed};
use crate::home::Home;
use crate::model::{self, What};
use crate::{run, term};
use clap::Args;
use jarvis_audit::AuditLog;
use jarvis_model::fetch::{self, Presence};
use jarvis_protocol::ErrorKind;
use jarvis_registry::Registry;
use jarvis_sandbox::SandboxError;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  jarvis doctor --json\n\nExit code 1 when something is missing without which jarvis does not work."
)]
pub struct Doctor {}

#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    /// Without it jarvis does not work.
    essential: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// How the probes name what a worker, or a program in the jail, must not be able to do.
const BREAK_OUT: &str = ": cannot ";

/// Below this a registration or a state of the model may not find room.
const LOW_BYTES: u64 = 500 << 20;

pub fn run(_: &Doctor, common: &Common) -> Outcome {
    let home = Home::find()?;
    let mut findings = Vec::new();
    model_found(&home, common, &mut findings);
    sandbox(&mut findings);
    run::block(async |_| {
        jail(&home, &mut findings).await;
        runtimes(&home, &mut findings).await;
        Ok(())
    })?;
    findings.push(writable(&home));
    findings.push(registry(&home));
    findings.push(audit(&home));
    findings.push(disk(home.root()));
    let broken = findings.iter().any(|f| f.essential && !f.ok);
    if common.json {
        term::json(
            &serde_json::json!({"ok": !broken, "home": home.root(), "models": home.models(), "findings": findings}),
        )?;
    } else {
        show(&home, &findings)?;
    }
    if broken { Err(Failure::Told(1)) } else { Ok(()) }
}

fn show(home: &Home, findings: &[Finding]) -> Outcome {
    let style = term::stdout_style();
    term::line(format!("home {}", home.root().display()))?;
    // Ways out that are all closed are one line; an open one is shown by itself.
    let closed = |f: &&Finding| f.ok && f.what.contains(BREAK_OUT);
    let denied = findings.iter().filter(closed).count();
    let wide = findings.iter().filter(|f| !closed(f)).map(|f| f.what.len()).max().unwrap_or(0);
    for finding in findings.iter().filter(|f| !closed(f)) {
        let mark = match (finding.ok, finding.essential) {
            (true, _) => style.green("ok     "),
            (false, true) => style.red("MISSING"),
            (false, false) if finding.what.starts_with("runtime: ") => style.dim("absent "),
            (false, false) => style.bold("weaker "),
        };
        term::line(format!("{mark} {:<wide$}  {}", finding.what, finding.detail))?;
        if let Some(fix) = finding.fix.as_ref().filter(|_| !finding.ok) {
            term::line(format!("        {:<wide$}  fix: {fix}", ""))?;
        }
    }
    if denied > 0 {
        let text =
            format!("{denied} attempts to break out of a worker and of the jail, all denied (--json lists them)");
        term::line(format!("{} {:<wide$}  {text}", style.green("ok     "), "sandbox: attempts"))?;
    }
    Ok(())
}

fn finding(what: &str, essential: bool, result: Result<String, (String, Option<String>)>) -> Finding {
    let ok = result.is_ok();
    let (detail, fix) = match result {
        Ok(detail) => (detail, None),
        Err((problem, fix)) => (problem, fix),
    };
    Finding { what: what.to_owned(), ok, essential, detail, fix }
}

fn words(failure: Failure) -> (String, Option<String>) {
    match failure {
        Failure::Body(body) => (body.message, body.hint),
        Failure::BrokenPipe | Failure::Told(_) => (String::new(), None),
    }
}

fn model_found(home: &Home, common: &Common, findings: &mut Vec<Finding>) {
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
fn sandbox(findings: &mut Vec<Finding>) {
    let layers = jarvis_sandbox::probe();
    let replaceable = |name: &str| matches!(name, "namespaces" | "landlock");
    let one_of_them = layers.iter().any(|layer| replaceable(&layer.name) && layer.in_force);
    findings.extend(layers.into_iter().map(|layer| Finding {
        essential: !(one_of_them && replaceable(&layer.name)),
        what: format!("sandbox: {}", layer.name),
        ok: layer.in_force,
        detail: layer.detail,
        fix: layer.fix,
    }));
}

/// Without a jail no program of the person runs, which capabilities in TypeScript do without.
async fn jail(home: &Home, findings: &mut Vec<Finding>) {
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
    }));
}

/// What capabilities can run in beside the embedded engine.
async fn runtimes(home: &Home, findings: &mut Vec<Finding>) {
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

fn registry(home: &Home) -> Finding {
    let state = run::registry(home).and_then(|registry| entries(&registry, home));
    finding("registry", true, state.unwrap_or_else(|failure| Err(words(failure))))
}

fn entries(registry: &Registry, home: &Home) -> Outcome<Result<String, (String, Option<String>)>> {
    let listing = registry.list()?;
    let count = match listing.capabilities.len() {
        1 => "1 capability".to_owned(),
        n => format!("{n} capabilities"),
    };
    let mut problems = Vec::new();
    let mut fixes = Vec::new();
    if !listing.damaged.is_empty() {
        let damaged: Vec<String> = listing.damaged.iter().map(|d| format!("{} ({})", d.entry, d.problem)).collect();
        problems.push(format!("damaged entries: {}", damaged.join("; ")));
        fixes.push(format!("correct index.json in {}", home.capabilities().display()));
    }
    // Imported definitions without code are waiting for it.
    for capability in listing.capabilities.iter().filter(|capability| !capability.tool_path.is_empty()) {
        let name = &capability.name;
        match registry.code(capability) {
            Ok(code) if code.matches_digest => {}
            Ok(_) => {
                problems
                    .push(format!("the code of {name} was changed by hand since it was checked, so it does not run"));
                fixes.push(format!(
                    "to have it checked: jarvis cap show {name} --json > {name}.json && jarvis cap register --definition \
                     {name}.json --code {}",
                    home.capabilities().join(&capability.tool_path).display()
                ));
            }
            Err(error) => {
                let body = error.body();
                problems.push(body.message);
                fixes.extend(body.hint);
            }
        }
    }
    Ok(if problems.is_empty() {
        Ok(count)
    } else {
        Err((term::flat(&format!("{count}; {}", problems.join("; "))), Some(fixes.join("; "))))
    })
}

/// A file is made and removed in each folder that is written into: a read-only disk shows only then.
fn writable(home: &Home) -> Finding {
    let inner = [home.capabilities(), home.audit(), home.models().to_owned()];
    let folders = std::iter::once(home.root().to_owned()).chain(inner.into_iter().filter(|folder| folder.exists()));
    let problems: Vec<String> = folders
        .filter_map(|folder| {
            let tried = tempfile::Builder::new().prefix(".doctor-").tempfile_in(&folder).and_then(|file| file.close());
            tried.err().map(|e| format!("{} cannot be written: {e}", folder.display()))
        })
        .collect();
    let fix = "make it writable for this user, or use another home with JARVIS_HOME";
    finding(
        "home",
        true,
        if problems.is_empty() { Ok("writable".to_owned()) } else { Err((problems.join("; "), Some(fix.to_owned()))) },
    )
}

fn audit(home: &Home) -> Finding {
    let result = match AuditLog::open(home.audit()).verify() {
        Ok(verify) if verify.problems.is_empty() => Ok(format!("{} records, unbroken", verify.records)),
        Ok(verify) => Err((
            format!("{} problems in {} records", verify.problems.len(), verify.records),
            Some("jarvis audit verify".to_owned()),
        )),
        Err(error) => Err(words(error.into())),
    };
    finding("audit", true, result)
}

fn disk(root: &Path) -> Finding {
    // The home may not be there yet: the nearest folder above it is on the same disk.
    let Some(there) = root.ancestors().find(|folder| folder.exists()) else {
        return finding("disk", true, Err((format!("{} is nowhere", root.display()), None)));
    };
    let result = match rustix::fs::statvfs(there) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let text = format!("{} free", fetch::size(free));
            if free >= LOW_BYTES {
                Ok(text)
            } else {
                Err((text, Some("free some space, or move the home with JARVIS_HOME".to_owned())))
            }
        }
        Err(e) => Err((format!("{}: {e}", there.display()), None)),
    };
    finding("disk", true, result)
}
