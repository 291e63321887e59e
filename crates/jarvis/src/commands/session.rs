//! `jarvis session`: conversations that were kept.

use crate::cli::{Common, Place, unused_model};
use crate::error::{Failure, Outcome, disk, usage};
use crate::home::Home;
use crate::kept::{self, sessions};
use crate::{files, run, term};
use clap::{Args, Subcommand, ValueEnum};
use jarvis_agent::{Undone, undo_last};
use jarvis_audit::Kind;
use jarvis_memory::{SessionError, SessionInfo, SessionQuery, SessionStore};
use jiff::{Timestamp, ToSpan};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A session that is imported may hold pictures.
const MOST: u64 = 256 << 20;

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = "Examples:\n  jarvis session list\n  jarvis session fork latest\n  jarvis chat --resume latest\n\n\
        An ID is as `list` shows it; its beginning is enough, and `latest` is the latest one of this folder."
)]
pub enum Session {
    /// Sessions of this folder, the latest first.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis session list --all\n  jarvis session list --search \"database port\"")]
    List(List),
    /// What was said in a session.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis session show latest")]
    Show { id: String },
    /// A copy to go on with apart from the first; also of a session that is open elsewhere.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis session fork latest\n  jarvis session fork 20260314-1f --at 4")]
    Fork {
        id: String,
        /// Only this many messages; a call is not parted from its result.
        #[arg(long, value_name = "N")]
        at: Option<usize>,
    },
    /// A session as Markdown to read, or as JSON to import elsewhere.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis session export latest\n  jarvis session export latest --out talk.json")]
    Export(Export),
    /// A session from a file that `export` wrote as JSON; `-` reads stdin.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis session import talk.json")]
    Import { file: PathBuf },
    /// Gives a session a title; an empty one takes it away.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis session rename latest \"the move to SQLite\"")]
    Rename { id: String, title: String },
    /// Takes back the last message of a session with all that was answered to it, and puts back the files that its turn
    /// changed. Capabilities it registered stay. Again, it takes back the message before.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis session undo --dry-run     what would be put back\n  jarvis session undo 20260314-1f")]
    Undo(Undo),
    /// Deletes sessions for good.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis session rm 20260314-1f\n  jarvis session rm --older-than 30d")]
    Rm(Rm),
}

#[derive(Debug, Args)]
pub struct List {
    /// Of every folder.
    #[arg(long)]
    all: bool,
    /// Only those with all of these words in their title, their questions or their answers.
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
}

#[derive(Debug, Args)]
pub struct Export {
    id: String,
    /// By the ending of --out; else md, or json with --json.
    #[arg(long)]
    format: Option<Format>,
    /// A new file instead of stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Undo {
    #[arg(default_value = kept::LATEST)]
    id: String,
    /// Overwrites what somebody else changed since.
    #[arg(long)]
    force: bool,
    /// Only says what would be done.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Md,
    Json,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Rm {
    ids: Vec<String>,
    /// Every session, of all folders, that has not changed for so long: 30d, 12h, 8w.
    #[arg(long, value_name = "TIME", value_parser = hours)]
    older_than: Option<i64>,
}

fn hours(raw: &str) -> Result<i64, String> {
    let wrong = || "a number with h, d or w, such as 30d".to_owned();
    let (number, hours) = match raw.char_indices().last() {
        Some((at, 'h')) => (&raw[..at], 1),
        Some((at, 'd')) => (&raw[..at], 24),
        Some((at, 'w')) => (&raw[..at], 24 * 7),
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    (1..=100_000).contains(&number).then_some(number * hours).ok_or_else(wrong)
}

pub fn run(args: Session, common: &Common) -> Outcome {
    let home = Home::find()?;
    let store = sessions(&home)?;
    let json = common.json;
    match args {
        Session::List(args) => list(&store, &args, json),
        Session::Show { id } => {
            let id = find(&store, &id)?.id;
            if json {
                let loaded = store.load(&id)?;
                return term::json(&json!({"session": loaded.info, "messages": loaded.messages}));
            }
            term::text(store.export_markdown(&id)?)
        }
        Session::Fork { id, at } => {
            let made = store.fork(&find(&store, &id)?.id, at)?;
            told(&made, json, &format!("a copy of {} messages: jarvis chat --resume {}", made.messages, made.id))
        }
        Session::Export(args) => export(&store, &args, json),
        Session::Import { file } => {
            let text = if file == Path::new("-") { files::stdin_of(MOST)? } else { files::text_of(&file, MOST)? };
            let made = store.import_json(&text)?;
            told(&made, json, &format!("{} messages: jarvis chat --resume {}", made.messages, made.id))
        }
        Session::Rename { id, title } => {
            let renamed = store.rename(&find(&store, &id)?.id, &title)?;
            told(&renamed, json, &format!("it is “{}” now", term::cut(renamed.name(), 60)))
        }
        Session::Undo(args) => undo(&home, &store, &args, json),
        Session::Rm(args) => remove(&store, &args, json),
    }
}

fn find(store: &SessionStore, id: &str) -> Outcome<SessionInfo> {
    kept::find(store, id, &kept::workspace(&Place::default())?)
}

/// The id alone is data.
fn told(session: &SessionInfo, json: bool, what: &str) -> Outcome {
    if json {
        return term::json(session);
    }
    term::line(&session.id)?;
    term::status(what);
    Ok(())
}

/// The latest ones of this folder.
pub fn here(store: &SessionStore, json: bool) -> Outcome {
    list(store, &List { all: false, search: None, limit: 20 }, json)
}

fn list(store: &SessionStore, args: &List, json: bool) -> Outcome {
    let workspace = if args.all { None } else { Some(kept::workspace(&Place::default())?) };
    let query = SessionQuery { text: args.search.clone(), workspace, limit: args.limit, offset: 0 };
    let page = store.list(&query)?;
    if json {
        return term::json(&page);
    }
    if page.sessions.is_empty() {
        let where_else = if args.all { "" } else { " in this folder; --all shows those of others" };
        term::status(format!("no sessions{where_else}"));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = page
        .sessions
        .iter()
        .map(|s| {
            let updated = s.updated.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string();
            let mut row = vec![s.id.clone(), updated, s.messages.to_string()];
            if args.all {
                row.push(s.workspace.clone().unwrap_or_default());
            }
            row.push(s.name().to_owned());
            row
        })
        .collect();
    let header: &[&str] = if args.all {
        &["ID", "CHANGED", "MESSAGES", "FOLDER", "NAME"]
    } else {
        &["ID", "CHANGED", "MESSAGES", "NAME"]
    };
    term::table(header, &rows)?;
    let more = page.total.saturating_sub(rows.len() as u64);
    if more > 0 {
        term::status(format!("{more} more: --limit {}", page.total));
    }
    Ok(())
}

fn export(store: &SessionStore, args: &Export, json: bool) -> Outcome {
    let by_name = || args.out.as_ref().and_then(|out| out.extension()).map(|end| end == "json");
    let as_json = args.format.map(|format| format == Format::Json).or_else(by_name).unwrap_or(json);
    let id = find(store, &args.id)?.id;
    // Also in a file nothing acts on a terminal: it will be looked at on one.
    let text = match as_json {
        true => term::plain_json(&store.export_json(&id)?),
        false => term::safe(&store.export_markdown(&id)?).into_owned(),
    };
    let Some(out) = &args.out else { return term::text(text) };
    // Nobody else's to read, as the session itself.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(out);
    let mut file = file.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            usage(format!("{} is there already, and is not overwritten", out.display()), "name another one with --out")
        }
        _ => disk(out, &e),
    })?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|e| {
        // Half a session would look like one.
        let _ = std::fs::remove_file(out);
        disk(out, &e)
    })?;
    if json {
        let format = if as_json { "json" } else { "md" };
        return term::json(&json!({"session": id, "file": out, "format": format, "bytes": text.len()}));
    }
    term::status(format!("{} bytes in {}", text.len(), out.display()));
    Ok(())
}

fn remove(store: &SessionStore, args: &Rm, json: bool) -> Outcome {
    let named: Vec<SessionInfo> = match args.older_than {
        None => args.ids.iter().map(|id| find(store, id)).collect::<Outcome<_>>()?,
        Some(hours) => {
            let before = Timestamp::now().checked_sub(hours.hours());
            let before = before.map_err(|e| usage(format!("--older-than: {e}"), "such as 30d"))?;
            let all = store.list(&SessionQuery { limit: u64::MAX, ..SessionQuery::default() })?.sessions;
            all.into_iter().filter(|session| session.updated < before).collect()
        }
    };
    let mut removed: Vec<SessionInfo> = Vec::new();
    for session in named {
        if removed.iter().any(|gone| gone.id == session.id) {
            continue;
        }
        match store.delete(&session.id) {
            Ok(gone) => removed.push(gone),
            // Somebody is using it, so it is not old.
            Err(SessionError::Busy { .. }) if args.older_than.is_some() => {}
            Err(error) => {
                if !removed.is_empty() {
                    term::note(format!("removed before: {}", ids(&removed)));
                }
                return Err(Failure::from(error));
            }
        }
    }
    if json {
        return term::json(&json!({"removed": removed}));
    }
    term::status(if removed.is_empty() {
        "nothing was removed".to_owned()
    } else {
        format!("removed {}", ids(&removed))
    });
    Ok(())
}

fn undo(home: &Home, store: &SessionStore, args: &Undo, json: bool) -> Outcome {
    let id = find(store, &args.id)?.id;
    let (mut writer, loaded) = store.resume(&id)?;
    let checkpoints = run::checkpoints(home);
    let mut work = |look| undo_last(&checkpoints, store, &mut writer, &loaded, (args.force, look));
    let meant = work(true)?;
    if args.dry_run {
        return show_undone(&meant, json, true);
    }
    let about = json!({"subject": {"kind": "own"}, "args": {"session": id, "files": meant.files, "force": args.force}});
    run::record_as(home, Kind::Intent, "undo", about)?;
    let done = work(false);
    let exit = if done.is_ok() { "ok" } else { "failed" };
    run::record_as(home, Kind::Outcome, "undo", json!({"subject": {"kind": "own"}, "exit": exit}))?;
    let done = done?;
    show_undone(&done, json, false)?;
    // It was told which files are not as they were.
    if done.left.is_empty() { Ok(()) } else { Err(Failure::Told(1)) }
}

/// What was undone, or would be: the files are data.
pub fn show_undone(undone: &Undone, json: bool, would: bool) -> Outcome {
    if json {
        return term::json(&json!({(if would { "would_undo" } else { "undone" }): undone}));
    }
    let did = if would { "would take back" } else { "taken back" };
    term::status(format!("{did}: {}", term::cut(&term::flat(&undone.question), 60)));
    for (path, what) in &undone.files {
        term::line(term::flat(&format!("{:<10}  {path}", what.as_str())))?;
    }
    for (path, why) in &undone.left {
        term::note(term::flat(&format!("not put back: {path}: {why}")));
    }
    undone.notes.iter().for_each(|note| term::note(format!("note: {note}")));
    Ok(())
}

fn ids(sessions: &[SessionInfo]) -> String {
    sessions.iter().map(|session| session.id.as_str()).collect::<Vec<_>>().join(", ")
}
