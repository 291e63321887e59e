//! `jarvis cap`: what jarvis has learned to do.

use crate::cli::Common;
use crate::error::{Failure, Outcome, unreadable, usage};
use crate::home::Home;
use crate::show::{Show, grants, plain};
use crate::{config, run, term};
use clap::Subcommand;
use jarvis_forge::{Draft, Forge, check_keys};
use jarvis_protocol::{Capability, CapabilityName, CreatedBy, ErrorBody, ErrorKind, Status};
use jarvis_registry::{FITS, Hit, Registry};
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Most hits of one search.
const HITS: usize = 20;

/// What `cap register` reads, whole, so that it can be copied.
const REGISTER_HELP: &str = "\
Example:
  jarvis cap register --definition gcd.json --code gcd.ts

gcd.json:
  {
    \"name\": \"gcd\",
    \"capability\": \"Computes the greatest common divisor of two integers.\",
    \"triggers\": [\"common divisor of two numbers\", \"最大公约数\"],
    \"parameters\": {
      \"type\": \"object\",
      \"required\": [\"a\", \"b\"],
      \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"integer\"}}
    },
    \"returns\": {\"type\": \"integer\"},
    \"examples\": [
      {\"args\": {\"a\": 12, \"b\": 18}, \"returns\": 6},
      {\"args\": {\"a\": 7, \"b\": 5}, \"matches\": \"^1$\"}
    ]
  }

gcd.ts:
  export default function run({ a, b }: { a: number; b: number }): number {
    while (b !== 0) [a, b] = [b, a % b];
    return Math.abs(a);
  }

parameters and returns are JSON Schemas. An example gives args, and returns
(the exact result) or matches (a regular expression for the result as text);
with neither it only has to run. Code that reaches outside names it in
\"grants\": {\"network\": [HOST], \"read\": [PATH], \"write\": [PATH], \"secrets\": [NAME]}.
Keys of your own begin with x_; any other unknown key is an error.";

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  jarvis cap list\n  jarvis cap show fibonacci --code\n  jarvis cap run fibonacci --args '{\"n\": 90}'"
)]
pub enum Cap {
    /// Everything registered.
    #[command(after_help = "Example:\n  jarvis cap list --json")]
    List,
    /// What fits a request, best first; English and Chinese.
    #[command(after_help = "Example:\n  jarvis cap search greatest common divisor")]
    Search {
        #[arg(required = true)]
        query: Vec<String>,
    },
    /// One capability: definition, statistics and, if asked, its code.
    #[command(after_help = "Example:\n  jarvis cap show fibonacci --code")]
    Show {
        name: String,
        #[arg(long)]
        code: bool,
    },
    /// Runs a capability in the sandbox and prints its result.
    #[command(
        after_help = "Examples:\n  jarvis cap run fibonacci --args '{\"n\": 90}'\n  jarvis cap run fibonacci --args @args.json"
    )]
    Run {
        name: String,
        /// A JSON object, @FILE, or - for stdin.
        #[arg(long, default_value = "{}", value_name = "JSON")]
        args: String,
    },
    /// Registers a definition and its code, after the same checks and verification as anything a model writes.
    #[command(after_help = REGISTER_HELP)]
    Register {
        /// A JSON file (see below), or what `jarvis cap show NAME --json` printed.
        #[arg(long, value_name = "FILE")]
        definition: PathBuf,
        /// The TypeScript file.
        #[arg(long, value_name = "FILE")]
        code: PathBuf,
    },
    /// The versions of a capability.
    #[command(after_help = "Example:\n  jarvis cap history fibonacci")]
    History { name: String },
    /// Lets a capability be found and run (again).
    #[command(after_help = "Example:\n  jarvis cap enable fibonacci")]
    Enable { name: String },
    /// Keeps a capability from being found and run.
    #[command(after_help = "Example:\n  jarvis cap disable fibonacci")]
    Disable { name: String },
    /// Removes a capability; its history stays in git.
    #[command(after_help = "Example:\n  jarvis cap rm fibonacci")]
    Rm { name: String },
}

pub fn run(args: Cap, common: &Common) -> Outcome {
    let home = Home::find()?;
    let json = common.json;
    match args {
        Cap::List => list(&run::registry(&home)?, json),
        Cap::Search { query } => search(&run::registry(&home)?, &query.join(" "), json),
        Cap::Show { name, code } => show(&run::registry(&home)?, &name, code, json),
        Cap::History { name } => history(&run::registry(&home)?, &name, json),
        Cap::Enable { name } => set_status(&run::registry(&home)?, &name, Status::Active, common),
        Cap::Disable { name } => set_status(&run::registry(&home)?, &name, Status::Disabled, common),
        Cap::Rm { name } => {
            let registry = run::registry(&home)?;
            let capability = existing(&registry, &name)?;
            let commit = registry.remove(&capability.name)?;
            done(common, &json!({"removed": name, "commit": commit}), format!("{name} is removed"))
        }
        Cap::Run { name, args } => execute(&home, &name, &args, common),
        Cap::Register { definition, code } => register(&home, &definition, &code, common),
    }
}

fn list(registry: &Registry, json: bool) -> Outcome {
    let listing = registry.list()?;
    let damaged: Vec<Value> = listing.damaged.iter().map(|d| json!({"entry": d.entry, "problem": d.problem})).collect();
    if json {
        return term::json(&json!({"capabilities": listing.capabilities, "damaged": damaged}));
    }
    for entry in &listing.damaged {
        term::note(format!("damaged: {}: {}", term::flat(&entry.entry), entry.problem));
    }
    if listing.capabilities.is_empty() {
        term::note("nothing is registered yet; ask something that needs computing");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = listing
        .capabilities
        .iter()
        .map(|c| vec![c.signature(), c.version.to_string(), status(c.status).to_owned(), c.capability.clone()])
        .collect();
    term::table(&["capability", "version", "status", "what it does"], &rows)
}

fn search(registry: &Registry, query: &str, json: bool) -> Outcome {
    let hits = registry.search(query, HITS)?;
    if json {
        let hits: Vec<Value> = hits.iter().map(hit_json).collect();
        return term::json(&json!({"query": query, "hits": hits}));
    }
    if hits.is_empty() {
        term::note("nothing fits");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = hits
        .iter()
        .map(|hit| {
            let fits = match &hit.suppressed_by {
                Some(reason) => format!("no: {reason}"),
                None if hit.score >= FITS => "yes".to_owned(),
                None => "hardly".to_owned(),
            };
            vec![hit.capability.name.to_string(), format!("{:.2}", hit.score), fits, hit.capability.capability.clone()]
        })
        .collect();
    term::table(&["capability", "score", "fits", "what it does"], &rows)
}

fn hit_json(hit: &Hit) -> Value {
    json!({
        "name": hit.capability.name, "score": hit.score, "fits": hit.score >= FITS && hit.suppressed_by.is_none(),
        "suppressed_by": hit.suppressed_by, "signature": hit.capability.signature(),
        "capability": hit.capability.capability, "runs": hit.stats.runs, "failures": hit.stats.failures,
    })
}

fn show(registry: &Registry, name: &str, with_code: bool, json: bool) -> Outcome {
    let capability = existing(registry, name)?;
    let stats = registry.stats(&capability.name)?;
    let code = registry.code(&capability)?;
    if json {
        let mut shown = json!({
            "capability": capability, "code_matches_digest": code.matches_digest,
            "stats": {"runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms,
                      "last_used": stats.last_used, "recent": stats.recent, "errors": stats.errors},
        });
        if with_code {
            shown["code"] = json!(code.text);
        }
        return term::json(&shown);
    }
    let style = term::stdout_style();
    let mut out = vec![
        format!(
            "{}  {}  {}",
            style.bold(&term::flat(&capability.signature())),
            capability.version,
            status(capability.status)
        ),
        term::flat(&capability.capability),
    ];
    // Flat, so that no field can pass for another one.
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            out.push(format!("{label:<12}{}", term::flat(&text)));
        }
    };
    add("fits", capability.triggers.join("; "));
    add("not for", capability.suppression.join("; "));
    if capability.grants.is_empty() {
        add("grants", "none: pure computation".to_owned());
    }
    for grant in grants(&capability.grants) {
        add("grants", grant);
    }
    add("made", [made_by(&capability), capability.created.clone()].join(", "));
    add("runs", format!("{} ({} failed), {:.1} ms on average", stats.runs, stats.failures, stats.mean_ms));
    for example in &capability.examples {
        let result = example.returns.as_ref().map_or_else(|| "(must run)".to_owned(), Value::to_string);
        add("example", format!("{} → {result}{}", example.args, if example.held_out { "  (held out)" } else { "" }));
    }
    if !code.matches_digest {
        add("changed", "the code was changed by hand since it was checked, so it does not run".to_owned());
    }
    add("file", registry.root().join(&capability.tool_path).display().to_string());
    term::line(out.join("\n"))?;
    if with_code {
        term::line(format!("\n{}", code.text.trim_end()))?;
    }
    Ok(())
}

fn history(registry: &Registry, name: &str, json: bool) -> Outcome {
    let capability = existing(registry, name)?;
    let entries = registry.history(&capability.name)?;
    if json {
        let versions: Vec<Value> = entries
            .iter()
            .map(|e| json!({"version": e.version, "date": e.date, "change": e.change, "commit": e.commit}))
            .collect();
        return term::json(&json!({"name": name, "versions": versions}));
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|e| {
            let commit = e.commit.as_deref().map_or("–", |c| c.get(..10).unwrap_or(c));
            vec![e.version.to_string(), e.date.clone(), commit.to_owned(), e.change.clone()]
        })
        .collect();
    term::table(&["version", "date", "commit", "change"], &rows)
}

fn set_status(registry: &Registry, name: &str, to: Status, common: &Common) -> Outcome {
    let capability = existing(registry, name)?;
    let commit = registry.set_status(&capability.name, to)?;
    done(common, &json!({"name": name, "status": to, "commit": commit}), format!("{name} is {}", status(to)))
}

fn execute(home: &Home, name: &str, args: &str, common: &Common) -> Outcome {
    let args = arguments(args)?;
    let ran = with_forge(home, common, async |forge, cancel| {
        existing(forge.dispatch().registry(), name)?;
        let mut show = Show::new(false, common.quiet);
        let mut approver = run::approver(common.json, cancel);
        let emit = &mut |event| show.event(&event);
        Ok(forge.dispatch().run(name, args, emit, approver.as_mut(), cancel).await?)
    })?;
    if common.json {
        return term::json(&json!({"result": ran.value, "execution": ran.execution}));
    }
    term::line(plain(&ran.value))
}

fn register(home: &Home, definition: &Path, code: &Path, common: &Common) -> Outcome {
    let raw = std::fs::read_to_string(definition).map_err(|e| unreadable(definition, &e))?;
    let no_definition = |problem: String| {
        usage(
            format!("{} is no definition: {problem}", definition.display()),
            "`jarvis cap register --help` shows a whole one, `jarvis cap show NAME --json` prints one that is registered",
        )
    };
    let mut value: Value = serde_json::from_str(&raw).map_err(|e| no_definition(e.to_string()))?;
    // What `cap show --json` prints holds the definition under this key.
    if let Some(inner) = value.get_mut("capability").filter(|inner| inner.is_object()) {
        value = inner.take();
    }
    check_keys(&value).map_err(no_definition)?;
    let mut capability: Capability = serde_json::from_value(value).map_err(|e| no_definition(e.to_string()))?;
    capability.created_by = CreatedBy::Human;
    let code = std::fs::read_to_string(code).map_err(|e| unreadable(code, &e))?;
    let draft = Draft { capability, code, request: None, change: "registered by a person".to_owned() };
    let accepted = with_forge(home, common, async |forge, cancel| {
        let mut show = Show::new(false, common.quiet);
        let mut approver = run::approver(common.json, cancel);
        Ok(forge.submit(draft, &mut |event| show.event(&event), approver.as_mut(), cancel).await?)
    })?;
    let shown = json!({
        "name": accepted.name, "version": accepted.version, "previous": accepted.previous, "verified": accepted.verified,
    });
    done(common, &shown, format!("{} {} is registered", accepted.name, accepted.version))
}

/// Runs one piece of work with everything a call passes through; Ctrl-C cancels it.
fn with_forge<T>(
    home: &Home,
    common: &Common,
    work: impl AsyncFnOnce(&Forge, &CancellationToken) -> Outcome<T>,
) -> Outcome<T> {
    let settings = config::load(home)?;
    let runtime = run::runtime()?;
    let result = runtime.block_on(async {
        let forge = run::forge(&settings, common, home)?;
        let cancel = CancellationToken::new();
        run::cancel_on_interrupt(cancel.clone());
        work(&forge, &cancel).await
    });
    run::stop(runtime);
    result
}

fn arguments(raw: &str) -> Outcome<Value> {
    let text = match raw.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|e| unreadable(Path::new(path), &e))?,
        None if raw == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|e| unreadable(Path::new("stdin"), &e))?;
            text
        }
        None => raw.to_owned(),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(usage("--args must be a JSON object", "for example --args '{\"n\": 90}'")),
        Err(e) => Err(usage(format!("--args is not JSON: {e}"), "for example --args '{\"n\": 90}'")),
    }
}

fn existing(registry: &Registry, name: &str) -> Outcome<Capability> {
    let unknown = || {
        let body = ErrorBody::new(ErrorKind::NotFound, format!("no capability is called `{name}`"));
        Failure::from(body.hint("`jarvis cap list` shows what there is"))
    };
    let valid = CapabilityName::new(name).map_err(|_| unknown())?;
    registry.get(&valid)?.ok_or_else(unknown)
}

fn done(common: &Common, shown: &Value, words: String) -> Outcome {
    if common.json {
        return term::json(shown);
    }
    if !common.quiet {
        term::note(words);
    }
    Ok(())
}

fn made_by(capability: &Capability) -> String {
    match (capability.created_by, &capability.model) {
        (CreatedBy::Human, _) => "by a person".to_owned(),
        (CreatedBy::Model, Some(model)) => format!("by {model}"),
        (CreatedBy::Model, None) => "by a model".to_owned(),
    }
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Active => "active",
        Status::Disabled => "disabled",
        Status::Quarantined => "quarantined",
        Status::Retired => "retired",
    }
}
