//! `jarvis cap`: what jarvis has learned to do.

use crate::cli::{ApproveArg, Common, Place, Reach, unused_model};
use crate::error::{Failure, Outcome, usage};
use crate::home::Home;
use crate::show::{Show, grants};
use crate::{config, files, run, term};
use clap::{Args, Subcommand};
use jarvis_forge::{Draft, check_keys};
use jarvis_model::fetch;
use jarvis_protocol::{
    Capability, CapabilityName, CreatedBy, Egress, ErrorBody, ErrorKind, Example, Runtime, Status, Version, value_text,
};
use jarvis_registry::{FITS, Hit, Registry};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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

The keys; name, capability and examples are needed:
  name         a-z, 0-9 and _, a letter first; a name that is taken makes the
               next version of that capability
  capability   what it does, in one sentence
  triggers     situations in which it fits, in any language; search goes by them
  suppression  look-alike situations in which it must not be used
  parameters   JSON Schema of the arguments: an object, without $ref
  returns      JSON Schema of the result
  examples     calls that must pass, each with args and
                 returns   the exact result, or
                 matches   a regular expression for the result as text;
                           with neither it only has to run
                 held_out  true keeps it from a model that writes the code
                 origin    person (you), request or model: who gave it
  grants       what code that reaches outside may reach, {\"network\": [HOST],
               \"read\": [PATH], \"write\": [PATH], \"secrets\": [NAME]} (of
               jarvis secret list); a person is asked for them
  limits       {\"timeout_ms\": 45000, \"memory_mb\": 128, \"output_bytes\": 1048576};
               all three, where these do not do
  runtime      typescript (JavaScript too), python or deno
  dependencies packages that Python code imports, [\"NAME==VERSION\"]; a person
               is asked for them
  model        the model that wrote the code, if one did
  supersedes   the capability that it takes the place of
Worked out and not read: tool_path, version, changelog, created, created_by,
digest, status. Keys of your own begin with x_; any other one is an error.";

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
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
    Run(Run),
    /// Registers a definition and its code, after the same checks and verification as anything a model writes.
    #[command(after_help = REGISTER_HELP)]
    Register(Register),
    /// The versions of a capability.
    #[command(after_help = "Example:\n  jarvis cap history fibonacci")]
    History { name: String },
    /// Puts an earlier version back, as a new one, after the same checks; without VERSION the one before the current.
    #[command(after_help = "Examples:\n  jarvis cap rollback fibonacci\n  jarvis cap rollback fibonacci 1.0.0")]
    Rollback(Rollback),
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

#[derive(Debug, Args)]
pub struct Run {
    name: String,
    /// A JSON object, @FILE, or - for stdin.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    args: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct Register {
    /// A JSON file (see below), or what `jarvis cap show NAME --json` printed.
    #[arg(long, value_name = "FILE")]
    definition: PathBuf,
    /// The code.
    #[arg(long, value_name = "FILE")]
    code: PathBuf,
    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Args)]
pub struct Rollback {
    name: String,
    /// As `jarvis cap history NAME` shows it.
    version: Option<Version>,
    /// What to do where a yes is due, as it is where the version reaches outside: ask, auto or deny.
    #[arg(long, value_name = "WHAT")]
    approve: Option<ApproveArg>,
}

pub fn run(args: Cap, common: &Common) -> Outcome {
    let home = Home::find()?;
    let json = common.json;
    match args {
        Cap::List => list(&run::registry(&home)?, json),
        Cap::Search { query } => search(&run::registry(&home)?, &query.join(" "), json),
        Cap::Show { name, code } => show(&run::registry(&home)?, &name, code, json),
        Cap::History { name } => history(&run::registry(&home)?, &name, json),
        Cap::Enable { name } => set_status(&home, &name, Status::Active, json),
        Cap::Disable { name } => set_status(&home, &name, Status::Disabled, json),
        Cap::Rm { name } => remove(&home, &name, json),
        Cap::Run(args) => execute(&home, &args, json),
        Cap::Register(args) => register(&home, &args, json),
        Cap::Rollback(args) => roll_back(&home, &args, json),
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
        term::status("nothing is registered yet; ask something that needs computing");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = listing
        .capabilities
        .iter()
        .map(|c| vec![c.signature(), c.version.to_string(), c.status.as_str().to_owned(), c.capability.clone()])
        .collect();
    term::table(&["capability", "version", "status", "what it does"], &rows)
}

fn search(registry: &Registry, query: &str, json: bool) -> Outcome {
    let hits = registry.search(query, HITS)?;
    if json {
        let hits = hits.iter().map(|hit| hit_json(registry, hit)).collect::<Outcome<Vec<Value>>>()?;
        return term::json(&json!({"query": query, "hits": hits}));
    }
    if hits.is_empty() {
        term::status("nothing fits");
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

fn hit_json(registry: &Registry, hit: &Hit) -> Outcome<Value> {
    let stats = registry.stats(&hit.capability.name)?;
    Ok(json!({
        "name": hit.capability.name, "score": hit.score, "fits": hit.score >= FITS && hit.suppressed_by.is_none(),
        "suppressed_by": hit.suppressed_by, "signature": hit.capability.signature(),
        "capability": hit.capability.capability, "runs": stats.runs, "failures": stats.failures,
    }))
}

fn show(registry: &Registry, name: &str, with_code: bool, json: bool) -> Outcome {
    let capability = existing(registry, name)?;
    let stats = registry.stats(&capability.name)?;
    let code = registry.code(&capability)?;
    if json {
        let mut shown = json!({
            "capability": capability, "code_matches_digest": code.matches_digest,
            "stats": {"runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms,
                      "last_used": stats.last_used, "recent": stats.recent, "errors": stats.errors,
                      "egress": stats.egress},
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
            capability.status.as_str()
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
    for egress in &stats.egress {
        add("network", traffic(egress));
    }
    if capability.runtime != Runtime::Typescript {
        add("runtime", capability.runtime.as_str().to_owned());
    }
    add("packages", capability.dependencies.join(", "));
    for example in &capability.examples {
        let held_out = if example.held_out { "  (held out)" } else { "" };
        add("example", format!("{} → {}{held_out}", example.args, wanted(example)));
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

/// What it did with one host, in all its runs.
fn traffic(egress: &Egress) -> String {
    let host = if egress.host.is_empty() { "other hosts" } else { &egress.host };
    let denied = if egress.denied > 0 { format!(", {} refused", egress.denied) } else { String::new() };
    let (sent, received) = (fetch::size(egress.sent_bytes), fetch::size(egress.received_bytes));
    format!("{host}: {} requests{denied}, {sent} sent, {received} received", egress.requests)
}

/// What an example says about its result.
fn wanted(example: &Example) -> String {
    match (&example.returns, &example.matches) {
        (Some(value), None) => value.to_string(),
        (None, Some(pattern)) => format!("matches {pattern}"),
        (Some(value), Some(pattern)) => format!("{value}, matches {pattern}"),
        (None, None) => "(must run)".to_owned(),
    }
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

fn set_status(home: &Home, name: &str, to: Status, json: bool) -> Outcome {
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    dispatch.set_status(&existing(dispatch.registry(), name)?.name, to)?;
    done(json, &json!({"name": name, "status": to}), format!("{name} is {}", to.as_str()))
}

fn remove(home: &Home, name: &str, json: bool) -> Outcome {
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    dispatch.remove(&existing(dispatch.registry(), name)?.name)?;
    done(json, &json!({"removed": name}), format!("{name} is removed"))
}

fn execute(home: &Home, args: &Run, json: bool) -> Outcome {
    let given = arguments(&args.args)?;
    run::enter(&args.place)?;
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    existing(dispatch.registry(), &args.name)?;
    let ran = run::block(async |signals| Ok(dispatch.run(&args.name, given, &signals.work()).await?))?;
    if let Some(problem) = &ran.uncounted {
        term::status(format!("this run is missing in the statistics: {}", problem.message));
    }
    if json {
        return term::json(&json!({"result": ran.value, "execution": ran.execution}));
    }
    term::line(value_text(&ran.value))
}

fn register(home: &Home, args: &Register, json: bool) -> Outcome {
    let draft = draft(&args.definition, &args.code)?;
    run::enter(&args.reach.place)?;
    let forge = run::forge(&config::load(home)?, &args.reach, home)?;
    let accepted = run::block(async |signals| {
        let cancel = signals.work();
        let mut show = Show::new(false);
        let mut approver = run::approver(json, &cancel);
        Ok(forge.submit(draft, &mut |event| show.event(&event), approver.as_mut(), &cancel).await?)
    })?;
    let shown = json!({
        "name": accepted.name, "version": accepted.version, "previous": accepted.previous, "verified": accepted.verified,
    });
    done(json, &shown, format!("{} {} is registered", accepted.name, accepted.version))
}

fn roll_back(home: &Home, args: &Rollback, json: bool) -> Outcome {
    let reach = Reach { approve: args.approve, ..Reach::default() };
    let forge = run::forge(&config::load(home)?, &reach, home)?;
    let name = existing(forge.dispatch().registry(), &args.name)?.name;
    let accepted = run::block(async |signals| {
        let cancel = signals.work();
        let mut show = Show::new(false);
        let mut approver = run::approver(json, &cancel);
        let mut emit = |event| show.event(&event);
        Ok(forge.rollback(&name, args.version.as_ref(), &mut emit, approver.as_mut(), &cancel).await?)
    })?;
    let shown = json!({"name": accepted.name, "version": accepted.version, "previous": accepted.previous});
    done(json, &shown, format!("{} is back, as version {}", accepted.name, accepted.version))
}

/// What the two files say, with every key checked.
fn draft(definition: &Path, code: &Path) -> Outcome<Draft> {
    let raw = files::text(definition)?;
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
    let code = files::text(code)?;
    Ok(Draft {
        capability,
        code,
        request: None,
        change: "registered by a person".to_owned(),
        instead_of: None,
        restored: false,
    })
}

pub fn arguments(raw: &str) -> Outcome<Value> {
    let text = match raw.strip_prefix('@') {
        Some(path) => files::text(Path::new(path))?,
        None if raw == "-" => files::stdin()?,
        None => raw.to_owned(),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => match jarvis_dispatch::check_exact(&value) {
            Ok(()) => Ok(value),
            Err(problem) => {
                Err(usage(format!("--args: {problem}"), "for example --args '{\"n\": \"12345678901234567890\"}'"))
            }
        },
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

fn done(json: bool, shown: &Value, words: String) -> Outcome {
    if json {
        return term::json(shown);
    }
    term::status(words);
    Ok(())
}

fn made_by(capability: &Capability) -> String {
    match (capability.created_by, &capability.model) {
        (CreatedBy::Human, _) => "by a person".to_owned(),
        (CreatedBy::Model, Some(model)) => format!("by {model}"),
        (CreatedBy::Model, None) => "by a model".to_owned(),
    }
}
