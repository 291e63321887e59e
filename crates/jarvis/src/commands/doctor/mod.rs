//! `jarvis doctor`: what works here, tried for real; with `--fix` what is safe to repair is repaired.

mod around;
mod home;

use crate::cli::Common;
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{run, term};
use clap::Args;
use jarvis_registry::{Registry, Trouble};
use serde::Serialize;
use serde_json::json;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jarvis doctor --json\n  jarvis doctor --fix\n\nExit code 1 when something is missing without which jarvis does not work."
)]
pub struct Doctor {
    /// Repairs what can be repaired without losing anything, and says each thing it did; nothing is asked. Without it
    /// nothing is changed.
    #[arg(long)]
    fix: bool,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    /// Without it jarvis does not work.
    essential: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// `--fix` does it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fixable: bool,
}

/// How the probes name what a worker, or a program in the jail, must not be able to do.
const BREAK_OUT: &str = ": cannot ";

pub fn run(args: &Doctor, common: &Common) -> Outcome {
    let home = Home::find()?;
    let mut findings = Vec::new();
    // First, so that what is tried below finds it repaired.
    let registry = run::registry(&home);
    let (fixed, troubles) = match &registry {
        Ok(registry) if args.fix => repair(registry, &home)?,
        Ok(registry) => (Vec::new(), registry.check()),
        Err(_) => (Vec::new(), Vec::new()),
    };
    around::model_found(&home, common, &mut findings);
    around::sandbox(&mut findings);
    run::block(async |_| {
        around::jail(&home, &mut findings).await;
        around::runtimes(&home, &mut findings).await;
        Ok(())
    })?;
    findings.push(home::writable(&home));
    match registry {
        Ok(registry) => home::registry(&registry, &troubles, &mut findings),
        Err(failure) => findings.push(finding("registry", true, Err(words(failure)))),
    }
    findings.push(home::audit(&home));
    home::databases(&home, &mut findings);
    findings.push(home::disk(home.root()));
    let broken = findings.iter().any(|f| f.essential && !f.ok);
    if common.json {
        let mut shown = json!({"ok": !broken, "home": home.root(), "models": home.models(), "findings": findings});
        if args.fix {
            shown["fixed"] = json!(fixed);
        }
        term::json(&shown)?;
    } else {
        show(&home, &findings)?;
        for done in &fixed {
            term::line(format!("fixed   {}", term::flat(done)))?;
        }
        if args.fix && fixed.is_empty() {
            term::line("fixed   nothing: there was nothing that can be repaired without you")?;
        }
    }
    if broken { Err(Failure::Told(1)) } else { Ok(()) }
}

/// On the audit before and after, as every change of the registry.
fn repair(registry: &Registry, home: &Home) -> Outcome<(Vec<String>, Vec<Trouble>)> {
    let troubles = registry.check();
    let meant: Vec<&str> = troubles.iter().filter(|t| t.fixable()).map(|t| t.about.as_str()).collect();
    if meant.is_empty() {
        return Ok((Vec::new(), troubles));
    }
    run::record(home, "registry", json!({"change": "repair", "of": meant}))?;
    let repaired = registry.repair()?;
    run::record(home, "registry", json!({"change": "repaired", "done": repaired.done}))?;
    Ok((repaired.done, repaired.left))
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
    Finding { what: what.to_owned(), ok, essential, detail, fix, fixable: false }
}

fn words(failure: Failure) -> (String, Option<String>) {
    match failure {
        Failure::Body(body) => (body.message, body.hint),
        Failure::BrokenPipe | Failure::Told(_) => (String::new(), None),
    }
}
