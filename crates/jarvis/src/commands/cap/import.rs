//! `jarvis cap import`: capabilities from elsewhere, quarantined until they are checked.

use super::fetch::{self, Fetched};
use crate::cli::Reach;
use crate::error::{Failure, Outcome, failed, usage};
use crate::home::Home;
use crate::{config, run, term};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jarvis_dispatch::Dispatch;
use jarvis_protocol::{CapabilityName, ErrorKind};
use jarvis_registry::{Conflict, Fate, ImportOptions, Imported, Incoming, Package, PackageKind, PortError, Progress};
use serde_json::{Map, Value, json};
use std::io::IsTerminal;
use tokio_util::sync::CancellationToken;

pub const HELP: &str = "\
Examples:
  jarvis cap import ~/tendril-workspace
  jarvis cap import capabilities.tar.gz --dry-run
  jarvis cap import file:///srv/git/tools.git --on-conflict replace
  curl -s https://example.com/tools.json | jarvis cap import -

SOURCE is one of
  a folder      a Tendril workspace (index.json at the top or in tools/), a
                jarvis home or its capabilities/, what `jarvis cap export` wrote
  a repository  a bare git repository, or file:///PATH of any; its last commit is
                read, nothing is checked out. https:// is fetched by your git in
                the jail, without your login; for ssh, git clone it yourself
  a tarball     .tar or .tar.gz of such a folder
  a list        JSON: [{\"name\", \"description\", \"parameters\"}], also as OpenAI,
                Anthropic and MCP write tools; without code, so these are found by
                `jarvis cap search` and run once code is registered for them
  -             a tarball or a list from stdin
Everything imported is quarantined: `jarvis cap check NAME` looks at it, and what \
it may reach is asked for. Names that are no names here become valid ones.";

#[derive(Debug, Args)]
pub struct Import {
    /// A folder, a git repository, a tarball, a JSON list of tools, or - for stdin.
    source: String,
    /// Only tell what would happen.
    #[arg(long)]
    dry_run: bool,
    /// What to do where a name is taken by something else: skip it, rename what comes (NAME_2), or replace what is here.
    #[arg(long, value_name = "WHAT", default_value = "rename")]
    on_conflict: OnConflict,
    /// Put PREFIX_ in front of every name.
    #[arg(long, value_name = "PREFIX")]
    rename_prefix: Option<String>,
    /// Take nothing but the export with this digest, as `jarvis cap export` told it.
    #[arg(long, value_name = "HEX")]
    digest: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnConflict {
    Skip,
    Rename,
    Replace,
}

impl From<OnConflict> for Conflict {
    fn from(what: OnConflict) -> Self {
        match what {
            OnConflict::Skip => Conflict::Skip,
            OnConflict::Rename => Conflict::Rename,
            OnConflict::Replace => Conflict::Replace,
        }
    }
}

pub fn import(home: &Home, args: &Import, json: bool) -> Outcome {
    if let Some(prefix) = &args.rename_prefix
        && CapabilityName::new(prefix.as_str()).is_err()
    {
        let message = format!("--rename-prefix {prefix}: no name can begin like that");
        return Err(usage(message, "2 or more of a-z, 0-9 and _, a letter first"));
    }
    let settings = config::load(home)?;
    run::block(async |signals| {
        let cancel = signals.work();
        let fetched = match fetch::is_remote(&args.source) {
            true => Some(fetch::fetch(&args.source, &settings, home, &cancel).await?),
            false => None,
        };
        // Reading and writing block; Ctrl-C is heard by another thread meanwhile.
        let mut package = tokio::task::block_in_place(|| read(args, fetched.as_ref(), &cancel))?;
        let dispatch = run::dispatch(&settings, &Reach::default(), home)?;
        for entry in &mut package.entries {
            if cancel.is_cancelled() {
                return Err(PortError::Cancelled.into());
            }
            derive_parameters(&dispatch, entry).await;
        }
        tokio::task::block_in_place(|| {
            let options = ImportOptions {
                conflict: args.on_conflict.into(),
                prefix: args.rename_prefix.clone(),
                now: jiff::Timestamp::now().to_string(),
                from: origin(package.kind).to_owned(),
            };
            let entries = package.entries.clone();
            let (entries, commit) = if args.dry_run || entries.is_empty() {
                (dispatch.registry().plan_import(entries, &options)?, None)
            } else {
                let bar = Bar::new("writing");
                let report = dispatch.import(entries, &options, &mut |progress| bar.show(progress, &cancel))?;
                (report.entries, report.commit)
            };
            tell(args, &package, &entries, commit.as_deref(), json)
        })
    })
}

/// A definition that says nothing of its arguments gets those that its code takes, of any kind and none required: tools
/// of other programs say it in their code alone, and what is not offered could not be given.
async fn derive_parameters(dispatch: &Dispatch, entry: &mut Incoming) {
    let capability = &mut entry.capability;
    let (Some(code), true) = (&entry.code, capability.parameters == json!({"type": "object"})) else { return };
    // Code that cannot be read, or not here, is told of when it is checked.
    let Ok(Ok(checked)) = dispatch.check_code(code, capability.runtime, &capability.dependencies).await else { return };
    if !checked.params.is_empty() {
        let properties: Map<String, Value> = checked.params.into_iter().map(|name| (name, json!({}))).collect();
        capability.parameters = json!({"type": "object", "properties": properties});
        capability.digest = jarvis_registry::digest(capability, code);
    }
}

fn origin(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Workspace => "a workspace",
        PackageKind::Export => "an export",
        PackageKind::List => "a list of tools",
    }
}

fn read(args: &Import, fetched: Option<&Fetched>, cancel: &CancellationToken) -> Outcome<Package> {
    let bar = Bar::new("reading");
    let mut watch = |progress| bar.show(progress, cancel);
    let source = args.source.strip_prefix('@').unwrap_or(&args.source);
    let package = match (fetched, source) {
        (Some(fetched), _) => jarvis_registry::read(&fetched.repository, &mut watch)?,
        (None, "-") => jarvis_registry::read_from(std::io::stdin().lock(), &mut watch)?,
        (None, source) => jarvis_registry::read_named(source, &mut watch)?,
    };
    match (&args.digest, &package.digest) {
        (Some(wanted), Some(found)) if !wanted.eq_ignore_ascii_case(found) => {
            let message = format!("the export has the digest {found}, not {wanted}");
            Err(failed(ErrorKind::Damaged, message))
        }
        (Some(_), None) => Err(usage("--digest: this is no export, so it has no digest", "leave --digest out")),
        _ => Ok(package),
    }
}

fn tell(args: &Import, package: &Package, entries: &[Imported], commit: Option<&str>, json: bool) -> Outcome {
    let count = |fate: Fate| entries.iter().filter(|entry| entry.fate == fate).count();
    let (added, replaced, same, skipped) =
        (count(Fate::Added), count(Fate::Replaced), count(Fate::Same), count(Fate::Skipped));
    let nothing = entries.is_empty() && !package.damaged.is_empty();
    if json {
        let damaged: Vec<Value> =
            package.damaged.iter().map(|d| json!({"entry": d.entry, "problem": d.problem})).collect();
        term::json(&json!({
            "source": args.source, "kind": kind(package.kind), "digest": package.digest, "dry_run": args.dry_run,
            "added": added, "replaced": replaced, "same": same, "skipped": skipped, "commit": commit,
            "entries": entries.iter().map(entry_json).collect::<Vec<_>>(), "damaged": damaged,
        }))?;
    } else if !entries.is_empty() {
        let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
        term::table(&["capability", "version", "import", "notes"], &rows)?;
    }
    for entry in &package.damaged {
        term::note(format!("left out: {}: {}", term::flat(&entry.entry), term::flat(&entry.problem)));
    }
    if nothing {
        term::note("error: none of the entries could be read");
        return Err(Failure::Told(1));
    }
    let new = added + replaced;
    term::status(match (new, args.dry_run) {
        (0, _) => "nothing new".to_owned(),
        (_, true) => format!("{new} would be imported; nothing was changed"),
        (_, false) => {
            format!("{new} imported and quarantined; to look at one and let it be used: jarvis cap check NAME")
        }
    });
    Ok(())
}

fn kind(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Workspace => "workspace",
        PackageKind::Export => "export",
        PackageKind::List => "list",
    }
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Added => "added",
        Fate::Replaced => "replaced",
        Fate::Same => "same",
        Fate::Skipped => "skipped",
    }
}

fn entry_json(entry: &Imported) -> Value {
    json!({
        "name": entry.name, "original_name": entry.original, "version": entry.version, "import": fate(entry.fate),
        "has_code": entry.has_code, "grants": entry.grants,
    })
}

fn row(entry: &Imported) -> Vec<String> {
    let mut notes = Vec::new();
    match entry.fate {
        Fate::Same => notes.push("it is here already".to_owned()),
        Fate::Skipped => notes.push("the name is taken".to_owned()),
        Fate::Added | Fate::Replaced => {
            if entry.name.as_str() != entry.original {
                notes.push(format!("was {}", entry.original));
            }
            if !entry.has_code {
                notes.push("no code".to_owned());
            }
            if !entry.grants.is_empty() {
                notes.push(format!("asks for {}", entry.grants));
            }
        }
    }
    vec![entry.name.to_string(), entry.version.to_string(), fate(entry.fate).to_owned(), notes.join("; ")]
}

/// Shown for long work on a terminal alone.
struct Bar(Option<ProgressBar>);

/// Less is done before anybody could read it.
const LONG: usize = 500;

impl Bar {
    fn new(what: &'static str) -> Bar {
        if !std::io::stderr().is_terminal() || term::quiet() {
            return Bar(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("  {msg} {bar:30} {pos}/{len}") {
            bar.set_style(style);
        }
        Bar(Some(bar))
    }

    /// False once the work is to stop.
    fn show(&self, progress: Progress, cancel: &CancellationToken) -> bool {
        if let Some(bar) = self.0.as_ref().filter(|_| progress.total > LONG) {
            bar.set_length(progress.total as u64);
            bar.set_position(progress.done as u64);
        }
        !cancel.is_cancelled()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Failure::Body(error.body())
    }
}
