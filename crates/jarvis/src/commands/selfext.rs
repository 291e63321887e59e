//! Runs a file of self-extension tasks against this very binary and counts what came of it.

use super::bench::Selfext;
use crate::cli::{Common, ModeArg};
use crate::error::{Failure, Outcome, disk, failed, usage};
use crate::home::Home;
use crate::{config, files, model, pull, run, term};
use clap::ValueEnum;
use fancy_regex::Regex;
use jarvis_protocol::{ErrorKind, Event, ForgeStep};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Deserialize)]
struct TaskFile {
    tasks: Vec<Task>,
    #[serde(default)]
    reuse: Vec<Task>,
    #[serde(default)]
    small_talk: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Task {
    id: String,
    request: String,
    /// Regular expression that the answer must match somewhere.
    answer: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Task,
    Reuse,
    SmallTalk,
}

#[derive(Debug, Serialize)]
struct Row {
    part: Part,
    id: String,
    right: bool,
    built: Vec<String>,
    used: Vec<String>,
    /// Of a reuse case: what its task built was used, and nothing new was built.
    reused: bool,
    repairs: usize,
    /// Wall-clock seconds of the whole process, start and loading included.
    seconds: f64,
    /// Seconds of the turn alone, as the process told them.
    turn_seconds: f64,
    answer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Row {
    fn label(&self) -> String {
        match self.part {
            Part::Reuse => format!("{} (again)", self.id),
            Part::Task | Part::SmallTalk => self.id.clone(),
        }
    }
}

struct Bench {
    program: PathBuf,
    model: String,
    mode: Option<ModeArg>,
    models: PathBuf,
    /// The person's own; its providers and prices are part of what is measured.
    config: PathBuf,
    homes: PathBuf,
    timeout: Duration,
    /// Ends the whole run.
    cancel: CancellationToken,
}

pub fn run(args: &Selfext, common: &Common) -> Outcome {
    let file = tasks(args)?;
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let choice = model::choose(&settings, common.model.as_deref())?;
    let temporary = tempfile::Builder::new()
        .prefix("jarvis-bench-")
        .tempdir()
        .map_err(|e| disk(Path::new("a temporary folder"), &e))?;
    let homes = args.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    run::block(async |signals| {
        let bench = Bench {
            program: std::env::current_exe().map_err(|e| disk(Path::new("this program"), &e))?,
            model: choice.id.clone(),
            mode: args.lead.mode,
            models: std::path::absolute(home.models()).map_err(|e| disk(home.models(), &e))?,
            config: home.config(),
            homes: std::path::absolute(&homes).map_err(|e| disk(&homes, &e))?,
            timeout: Duration::from_secs(args.timeout),
            cancel: signals.work(),
        };
        bench.refuse_what_is_there(&file)?;
        // Once, so that no task is measured with it.
        pull::ensure(&choice, &settings, &home, &bench.cancel).await?;
        let mut rows = Vec::new();
        bench.all(&file, &mut rows)?;
        report(&bench, &rows, common)?;
        if bench.cancel.is_cancelled() { Err(Failure::Told(130)) } else { Ok(()) }
    })
}

/// The file, as far as it was asked for. What is wrong with it is told before anything runs.
fn tasks(args: &Selfext) -> Outcome<TaskFile> {
    let raw = files::text(&args.tasks)?;
    let wrong = |problem: String| {
        usage(format!("{} is no task file: {problem}", args.tasks.display()), "see `jarvis bench selfext --help`")
    };
    let mut file: TaskFile = serde_json::from_str(&raw).map_err(|e| wrong(e.to_string()))?;
    let mut folders = HashSet::new();
    for task in &file.tasks {
        if task.id.is_empty() || !folders.insert(folder(&task.id)) {
            return Err(wrong(format!("the id `{}` is empty or stands for two tasks", task.id)));
        }
    }
    if let Some(task) = file.reuse.iter().find(|task| !file.tasks.iter().any(|made| made.id == task.id)) {
        return Err(wrong(format!("the reuse case `{}` has no task of that id", task.id)));
    }
    for task in file.tasks.iter().chain(&file.reuse) {
        expression(task)?;
    }
    if !args.only.is_empty() {
        let wanted = |id: &String| args.only.contains(id);
        file.tasks.retain(|task| wanted(&task.id));
        file.reuse.retain(|task| wanted(&task.id));
        file.small_talk.clear();
        if file.tasks.is_empty() {
            return Err(usage(format!("no task has the id {}", args.only.join(", ")), "the ids are in the task file"));
        }
    }
    Ok(file)
}

/// The name of a task's home. Never with a dot, which those of small talk have.
fn folder(id: &str) -> String {
    id.chars().map(|c| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}

impl Bench {
    /// One row after the other, until all are there or somebody ends it.
    fn all(&self, file: &TaskFile, rows: &mut Vec<Row>) -> Outcome {
        for task in &file.tasks {
            let home = self.homes.join(folder(&task.id));
            self.fresh(&home)?;
            let Some(row) = self.one(Part::Task, &task.id, &home, &task.request, Some(&expression(task)?))? else {
                return Ok(());
            };
            self.tell(&row);
            rows.push(row);
        }
        for task in &file.reuse {
            let home = self.homes.join(folder(&task.id));
            let Some(mut row) = self.one(Part::Reuse, &task.id, &home, &task.request, Some(&expression(task)?))? else {
                return Ok(());
            };
            let made = rows.iter().find(|r| r.part == Part::Task && r.id == task.id).map(|r| r.built.as_slice());
            row.reused =
                row.built.is_empty() && made.is_some_and(|made| row.used.iter().any(|used| made.contains(used)));
            self.tell(&row);
            rows.push(row);
        }
        for (index, text) in file.small_talk.iter().enumerate() {
            let home = self.talk(index);
            self.fresh(&home)?;
            let Some(mut row) = self.one(Part::SmallTalk, &format!("talk-{}", index + 1), &home, text, None)? else {
                return Ok(());
            };
            row.right = row.error.is_none() && row.built.is_empty();
            self.tell(&row);
            rows.push(row);
        }
        Ok(())
    }

    fn talk(&self, index: usize) -> PathBuf {
        self.homes.join(format!("talk.{}", index + 1))
    }

    /// Nothing is deleted or measured that this run did not make.
    fn refuse_what_is_there(&self, file: &TaskFile) -> Outcome {
        let tasks = file.tasks.iter().map(|task| self.homes.join(folder(&task.id)));
        let mut all = tasks.chain((0..file.small_talk.len()).map(|index| self.talk(index)));
        match all.find(|home| home.symlink_metadata().is_ok()) {
            None => Ok(()),
            Some(home) => Err(usage(
                format!("{} is there already", home.display()),
                "name another folder with --keep, or remove it",
            )),
        }
    }

    /// An empty home with the person's own config.
    fn fresh(&self, home: &Path) -> Outcome {
        std::fs::create_dir_all(home).map_err(|e| disk(home, &e))?;
        if self.config.exists() {
            std::fs::copy(&self.config, home.join("config.toml")).map_err(|e| disk(home, &e))?;
        }
        Ok(())
    }

    fn tell(&self, row: &Row) {
        let mark = if row.right { "right" } else { "WRONG" };
        let what = row.error.as_ref().unwrap_or(&row.answer);
        term::status(format!("{:<16} {mark} {:6.1} s  {}", row.label(), row.seconds, term::cut(what, 80)));
    }

    /// None when the run was ended meanwhile.
    // A process of this same program, as a person would start it.
    #[allow(clippy::disallowed_methods)]
    fn one(&self, part: Part, id: &str, home: &Path, request: &str, answer: Option<&Regex>) -> Outcome<Option<Row>> {
        if self.cancel.is_cancelled() {
            return Ok(None);
        }
        let started = Instant::now();
        let mut command = Command::new(&self.program);
        command.args(["--json", "--quiet", "--model", &self.model]);
        if let Some(mode) = self.mode.as_ref().and_then(ValueEnum::to_possible_value) {
            command.args(["--mode", mode.get_name()]);
        }
        let mut child = command
            .args(["--", request])
            .env("JARVIS_HOME", home)
            .env("JARVIS_MODELS", &self.models)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| disk(&self.program, &e))?;
        let mut stdout =
            child.stdout.take().ok_or_else(|| failed(ErrorKind::Internal, "no pipe to the task's process"))?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        let mut killed = false;
        while child.try_wait().map_err(|e| disk(&self.program, &e))?.is_none() {
            killed = started.elapsed() > self.timeout;
            if killed || self.cancel.is_cancelled() {
                // It may have ended in this moment; it is waited for either way.
                let _ = child.kill();
                child.wait().map_err(|e| disk(&self.program, &e))?;
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // On a terminal Ctrl-C goes to the task as well, which then ends by itself.
        if self.cancel.is_cancelled() {
            return Ok(None);
        }
        let seconds = started.elapsed().as_secs_f64();
        let output = reader.join().unwrap_or_default();
        let mut row = Row {
            part,
            id: id.to_owned(),
            right: false,
            built: Vec::new(),
            used: Vec::new(),
            reused: false,
            repairs: 0,
            seconds,
            turn_seconds: 0.0,
            answer: String::new(),
            error: killed.then(|| format!("killed after {} s", self.timeout.as_secs())),
        };
        for event in output.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
            match event {
                Event::Forge { step: ForgeStep::Repair, .. } => row.repairs += 1,
                Event::TurnCompleted { answer, capabilities_built, capabilities_used, duration_ms, .. } => {
                    row.answer = answer;
                    row.built = capabilities_built;
                    row.used = capabilities_used;
                    row.turn_seconds = Duration::from_millis(duration_ms).as_secs_f64();
                }
                Event::TurnFailed { error, duration_ms, .. } => {
                    row.error = Some(error.message);
                    row.turn_seconds = Duration::from_millis(duration_ms).as_secs_f64();
                }
                _ => {}
            }
        }
        if row.answer.is_empty() && row.error.is_none() {
            row.error = Some("the process ended without an answer".to_owned());
        }
        if let Some(answer) = answer {
            row.right = row.error.is_none() && answer.is_match(&row.answer).unwrap_or(false);
        }
        Ok(Some(row))
    }
}

/// Python's syntax, as far as it differs: `\Z` is the end of the text.
fn expression(task: &Task) -> Outcome<Regex> {
    Regex::new(&task.answer.replace(r"\Z", r"\z")).map_err(|e| {
        usage(format!("the answer of task `{}` is no regular expression: {e}", task.id), "correct it in the task file")
    })
}

fn report(bench: &Bench, rows: &[Row], common: &Common) -> Outcome {
    let of = |part: Part| rows.iter().filter(move |row| row.part == part);
    let count = |part: Part, test: fn(&Row) -> bool| of(part).filter(|row| test(row)).count();
    let totals = json!({
        "tasks": of(Part::Task).count(), "right": count(Part::Task, |r| r.right),
        "built": count(Part::Task, |r| !r.built.is_empty()),
        "reuse_cases": of(Part::Reuse).count(), "reused": count(Part::Reuse, |r| r.reused),
        "reuse_right": count(Part::Reuse, |r| r.right),
        "small_talk": of(Part::SmallTalk).count(), "false_builds": count(Part::SmallTalk, |r| !r.built.is_empty()),
        "repairs": rows.iter().map(|r| r.repairs).sum::<usize>(),
        "median_seconds": median(of(Part::Task).map(|r| r.seconds)),
        "median_turn_seconds": median(of(Part::Task).map(|r| r.turn_seconds)),
        "reuse_median_seconds": median(of(Part::Reuse).map(|r| r.seconds)),
        "longest_seconds": rows.iter().map(|r| r.seconds).fold(0.0, f64::max),
    });
    if common.json {
        return term::json(&json!({
            "model": bench.model, "cancelled": bench.cancel.is_cancelled(), "rows": rows, "totals": totals,
        }));
    }
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let reused = if row.part == Part::Reuse { yes(row.reused) } else { "–".to_owned() };
            let said = row.error.as_ref().map_or_else(|| row.answer.clone(), |e| format!("error: {e}"));
            let built = if row.built.is_empty() { "–".to_owned() } else { row.built.join(" ") };
            vec![
                row.label(),
                built,
                reused,
                yes(row.right),
                format!("{:.1}", row.seconds),
                row.repairs.to_string(),
                term::cut(&said, 70),
            ]
        })
        .collect();
    term::table(&["task", "built", "reused", "right", "seconds", "repairs", "answer"], &cells)?;
    term::line(format!(
        "\n{}: {} of {} right, {} built; {} of {} reused ({} right); {} false builds on {} of small talk; median {:.1} s a task \
         ({:.1} s the turn), {:.1} s a reuse; {} repairs",
        bench.model,
        totals["right"],
        totals["tasks"],
        totals["built"],
        totals["reused"],
        totals["reuse_cases"],
        totals["reuse_right"],
        totals["false_builds"],
        totals["small_talk"],
        totals["median_seconds"].as_f64().unwrap_or_default(),
        totals["median_turn_seconds"].as_f64().unwrap_or_default(),
        totals["reuse_median_seconds"].as_f64().unwrap_or_default(),
        totals["repairs"]
    ))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}
