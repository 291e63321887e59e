//! file_read, file_write, file_edit, file_list, file_search.

use super::{Call, capped, told};
use crate::CallError;
use crate::run::View;
use jarvis_policy::{Effect, Reach};
use jarvis_protocol::{ErrorBody, ErrorKind};
use jarvis_sandbox::{SearchWish, ToolWork};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Characters of one answer.
const MOST_CHARS: usize = 100_000;
const MOST_ENTRIES: usize = 2_000;
const MOST_MATCHES: usize = 200;

#[derive(Deserialize)]
pub(super) struct Read {
    path: String,
    start_line: Option<usize>,
    end_line: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct Write {
    path: String,
    content: String,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Create,
    Overwrite,
    Append,
}

#[derive(Deserialize)]
pub(super) struct Edit {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
pub(super) struct List {
    #[serde(default = "here")]
    path: String,
    #[serde(default = "one")]
    depth: usize,
}

#[derive(Deserialize)]
pub(super) struct Search {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn one() -> usize {
    1
}

fn refuse(kind: ErrorKind, message: String) -> CallError {
    CallError::respond(kind, message)
}

/// The bytes of a file; none where it is not there.
pub(super) async fn bytes_of(call: &mut Call<'_>, path: &str, inside: bool) -> Result<Option<Vec<u8>>, CallError> {
    let permit = call.permit(Reach::Read { path: path.to_owned(), inside }).await?;
    match call.work(permit, ToolWork::Read { path: path.to_owned() }).await? {
        Ok(done) => Ok(Some(done.body)),
        Err(error) if error.name == "FileNotFoundError" => Ok(None),
        Err(error) => Err(told(&error)),
    }
}

/// What stands for the file; nothing of the disk is opened for it here, so no yes is due.
async fn viewed(call: &mut Call<'_>, view: &View) -> Result<Vec<u8>, CallError> {
    let path = view.path.to_string_lossy().into_owned();
    let permit = call.permit(Reach::Read { path, inside: true }).await?;
    call.intent(&permit).await?;
    let shown = (view.shown)();
    call.outcome(match &shown {
        Ok(text) => json!({"exit": "ok", "bytes": text.len(), "masked": true}),
        Err(error) => json!({"exit": "failed", "error": error.message}),
    })
    .await?;
    shown.map(String::into_bytes).map_err(CallError::RespondToModel)
}

fn missing(path: &str) -> CallError {
    refuse(ErrorKind::NotFound, format!("文件不存在 (no such file): {path}"))
}

pub(super) async fn read(call: &mut Call<'_>, args: Read) -> Result<Value, CallError> {
    let (path, inside) = call.place(&args.path)?;
    let bytes = match &call.dispatch.view {
        Some(view) if view.path == Path::new(&path) => viewed(call, view).await?,
        _ => bytes_of(call, &path, inside).await?.ok_or_else(|| missing(&args.path))?,
    };
    if bytes.contains(&0) {
        let message = format!("{} is no text: it holds {} bytes of something else", args.path, bytes.len());
        return Err(refuse(ErrorKind::Usage, message));
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // As the older encoding of western languages, in which every byte is a character.
        Err(e) => e.into_bytes().into_iter().map(char::from).collect(),
    };
    let (Some(from), to) = (args.start_line.or(args.end_line.map(|_| 1)), args.end_line) else {
        return Ok(Value::String(capped(&text, MOST_CHARS)));
    };
    let lines = text.lines().count();
    let to = to.unwrap_or(lines).min(lines);
    if from > to {
        return Err(refuse(ErrorKind::Usage, format!("{} has {lines} lines; {from} to {to} are none", args.path)));
    }
    let part: Vec<&str> = text.lines().skip(from - 1).take(to + 1 - from).collect();
    Ok(Value::String(format!("{}\n[lines {from} to {to} of {lines}]", capped(&part.join("\n"), MOST_CHARS))))
}

pub(super) async fn write(call: &mut Call<'_>, args: Write) -> Result<Value, CallError> {
    let (path, inside) = call.place_to_change(&args.path)?;
    let before = bytes_of(call, &path, inside).await?;
    if before.is_some() && args.mode == Mode::Create {
        let body = ErrorBody::new(ErrorKind::Usage, format!("文件已存在 (it exists): {}", args.path));
        return Err(CallError::RespondToModel(body.hint("mode overwrite or append, or file_edit for a part of it")));
    }
    let mut bytes = if args.mode == Mode::Append { before.clone().unwrap_or_default() } else { Vec::new() };
    bytes.extend_from_slice(args.content.as_bytes());
    let length = bytes.len();
    put(call, path, inside, before.as_deref(), bytes).await?;
    let done = if before.is_some() { "changed" } else { "made" };
    Ok(json!({"path": args.path, "file": done, "bytes": length}))
}

async fn put(
    call: &mut Call<'_>,
    path: String,
    inside: bool,
    before: Option<&[u8]>,
    bytes: Vec<u8>,
) -> Result<(), CallError> {
    let permit = call.permit(Reach::Write { path: path.clone(), inside }).await?;
    // Kept only where somebody is told of it.
    let watched = call.dispatch.editor.clone().map(|editor| (editor, path.clone(), bytes.clone()));
    call.work(permit, ToolWork::Write { path, bytes }).await?.map_err(|e| told(&e))?;
    if let Some((editor, path, after)) = watched {
        editor.changed(Path::new(&path), before, &after);
    }
    Ok(())
}

pub(super) async fn edit(call: &mut Call<'_>, args: Edit) -> Result<Value, CallError> {
    if args.old.is_empty() || args.old == args.new {
        return Err(refuse(ErrorKind::Usage, "`old` is empty or the same as `new`: nothing would change".to_owned()));
    }
    let (path, inside) = call.place_to_change(&args.path)?;
    let bytes = bytes_of(call, &path, inside).await?.ok_or_else(|| missing(&args.path))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| refuse(ErrorKind::Usage, format!("{} is no UTF-8 text, so it is not edited", args.path)))?;
    let count = text.matches(args.old.as_str()).count();
    if count == 0 {
        let body = ErrorBody::new(ErrorKind::Usage, format!("`old` does not occur in {}", args.path));
        return Err(CallError::RespondToModel(body.hint("read the file and copy the piece to the character")));
    }
    if count > 1 && !args.all {
        let body = ErrorBody::new(ErrorKind::Usage, format!("`old` occurs {count} times in {}", args.path));
        return Err(CallError::RespondToModel(body.hint("take more of what is around it, or say all: true")));
    }
    let at = text.find(args.old.as_str()).map_or(1, |at| text[..at].matches('\n').count() + 1);
    let new = text.replace(args.old.as_str(), &args.new);
    put(call, path, inside, Some(text.as_bytes()), new.into_bytes()).await?;
    Ok(json!({"path": args.path, "replaced": count, "first_line": at}))
}

pub(super) async fn list(call: &mut Call<'_>, args: List) -> Result<Value, CallError> {
    let (root, inside) = call.place(&args.path)?;
    let mut lines = Vec::new();
    let mut open = vec![(PathBuf::from(&root), PathBuf::new(), 1)];
    let mut cut = false;
    while let Some((folder, below, depth)) = open.pop() {
        let path = folder.to_string_lossy().into_owned();
        let permit = call.permit(Reach::Read { path: path.clone(), inside }).await?;
        let done = match call.work(permit, ToolWork::List { path }).await? {
            Ok(done) => done,
            Err(error) if depth == 1 && error.name == "FileNotFoundError" => return Err(missing(&args.path)),
            Err(error) if depth == 1 => return Err(told(&error)),
            // What cannot be looked into is named all the same.
            Err(_) => continue,
        };
        let entries = done.head["entries"].as_array().cloned().unwrap_or_default();
        let mut inner = Vec::new();
        for entry in entries {
            let name = entry["name"].as_str().unwrap_or_default();
            let shown = below.join(name);
            if lines.len() >= MOST_ENTRIES {
                cut = true;
                break;
            }
            if entry["kind"] == "directory" {
                lines.push(format!("{}/", shown.display()));
                if depth < args.depth && name != ".git" {
                    inner.push((folder.join(name), shown, depth + 1));
                }
            } else {
                let size =
                    entry["size"].as_u64().map_or_else(|| "not a file".to_owned(), |size| format!("{size} bytes"));
                lines.push(format!("{}  ({size})", shown.display()));
            }
        }
        inner.reverse();
        open.extend(inner);
    }
    if lines.is_empty() {
        return Ok(Value::String("(empty)".to_owned()));
    }
    lines.sort();
    if cut {
        lines.push(format!("[… only the first {MOST_ENTRIES} entries]"));
    }
    Ok(Value::String(lines.join("\n")))
}

pub(super) async fn search(call: &mut Call<'_>, args: Search) -> Result<Value, CallError> {
    let (root, inside) = call.place(&args.path)?;
    let permit = call.permit(Reach::Read { path: root.clone(), inside }).await?;
    call.intent(&permit).await?;
    let wish = SearchWish {
        root: PathBuf::from(&root),
        pattern: args.pattern,
        ignore_case: args.ignore_case,
        glob: args.glob,
        most: MOST_MATCHES,
    };
    let done = call.dispatch.parts.executor.search(permit, wish, call.cancel).await;
    call.outcome(match &done {
        Ok(found) => json!({"exit": "ok", "files": found.files, "matches": found.matches.len()}),
        Err(error) => json!({"exit": "failed", "error": error.name}),
    })
    .await?;
    if call.cancel.is_cancelled() {
        return Err(CallError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
    }
    let mut found = done.map_err(|e| if e.name == "FileNotFoundError" { missing(&args.path) } else { told(&e) })?;
    // What the rules say of the folder they need not say of each file in it.
    let all = found.matches.len();
    found.matches.retain(|one| {
        let path = Path::new(&root).join(&one.path).to_string_lossy().into_owned();
        let ruling = call.dispatch.ruling_of(call.tool, &Reach::Read { path, inside });
        ruling.is_none_or(|ruling| ruling.effect == Effect::Allow)
    });
    let hidden = all - found.matches.len();
    let base = Path::new(&args.path);
    let is_file = found.matches.first().is_some_and(|m| base.file_name() == Some(m.path.as_os_str()));
    let shown = |below: &Path| if is_file || args.path == "." { below.to_owned() } else { base.join(below) };
    let mut lines: Vec<String> =
        found.matches.iter().map(|m| format!("{}:{}: {}", shown(&m.path).display(), m.line, m.text)).collect();
    if hidden > 0 {
        lines.push(format!(
            "[{hidden} lines of files that rules protect are left out; `jarvis rule list` shows the rules]"
        ));
    }
    if lines.is_empty() {
        lines.push(format!("no line matches, in {} files", found.files));
    } else if found.more {
        lines.push(format!("[… there is more than these {MOST_MATCHES}; narrow the pattern, the path or the glob]"));
    }
    Ok(Value::String(capped(&lines.join("\n"), MOST_CHARS)))
}
