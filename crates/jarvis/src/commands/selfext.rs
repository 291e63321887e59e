//! Runs a file of self-extension tasks against this very binary and counts what came of it.

use super::bench::Selfext;
use crate::cli::Common;
use crate::error::{Failure, Outcome, failed, unreadable, usage};
use crate::home::Home;
use crate::{config, model, pull, run, term};
use fancy_regex::Regex;
use jarvis_protocol::{ErrorKind, Event, ForgeStep};
use serde::{Deserialize, Serialize};
use serde_json::json;
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

struct Bench<'a> {
    program: PathBuf,
    model: String,
    models: PathBuf,
    homes: PathBuf,
    timeout: Duration,
    common: &'a Common,
}

pub fn run(args: &Selfext, common: &Common) -> Outcome {
    let raw = std::fs::read_to_string(&args.tasks).map_err(|e| unreadable(&args.tasks, &e))?;
    let mut file: TaskFile = serde_json::from_str(&raw).map_err(|e| {
        usage(format!("{} is no task file: {e}", args.tasks.display()), "see `jarvis bench selfext --help`")
    })?;
    if !args.only.is_empty() {
        let wanted = |id: &String| args.only.contains(id);
        file.tasks.retain(|task| wanted(&task.id));
        file.reuse.retain(|task| wanted(&task.id));
        file.small_talk.clear();
        if file.tasks.is_empty() {
            return Err(usage(format!("no task has the id {}", args.only.join(", ")), "the ids are in the task file"));
        }
    }
    // All expressions first: a bad one must not cost a run.
    for task in file.tasks.iter().chain(&file.reuse) {
        expression(task)?;
    }
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let choice = model::choose(&settings, common.model.as_deref())?;
    fetch_model(&choice, &settings, &home, common)?;
    let temporary = tempfile::Builder::new()
        .prefix("jarvis-bench-")
        .tempdir()
        .map_err(|e| disk(Path::new("a temporary folder"), &e))?;
    let homes = args.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    let bench = Bench {
        program: std::env::current_exe().map_err(|e| disk(Path::new("this program"), &e))?,
        model: choice.id.clone(),
        models: std::path::absolute(home.models()).map_err(|e| disk(home.models(), &e))?,
        homes: std::path::absolute(&homes).map_err(|e| disk(&homes, &e))?,
        timeout: Duration::from_secs(args.timeout),
        common,
    };
    let rows = bench.all(&file, &home)?;
    report(&bench, &rows, common)
}

fn fetch_model(choice: &model::Choice, settings: &config::Settings, home: &Home, common: &Common) -> Outcome {
    let runtime = run::runtime()?;
    let ready = runtime.block_on(async {
        let cancel = CancellationToken::new();
        run::cancel_on_interrupt(cancel.clone());
        pull::ensure(choice, settings, home, common.quiet, &cancel).await
    });
    run::stop(runtime);
    ready
}

impl Bench<'_> {
    fn all(&self, file: &TaskFile, home: &Home) -> Outcome<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        for task in &file.tasks {
            self.fresh(&self.home_of(&task.id), home)?;
            rows.push(self.one(Part::Task, &task.id, &task.request, Some(&expression(task)?))?);
            self.tell(rows.last());
        }
        for task in &file.reuse {
            let mut row = self.one(Part::Reuse, &task.id, &task.request, Some(&expression(task)?))?;
            let made = rows.iter().find(|r| r.part == Part::Task && r.id == task.id).map(|r| r.built.as_slice());
            row.reused =
                row.built.is_empty() && made.is_some_and(|made| row.used.iter().any(|used| made.contains(used)));
            rows.push(row);
            self.tell(rows.last());
        }
        for (index, text) in file.small_talk.iter().enumerate() {
            let id = format!("talk-{}", index + 1);
            self.fresh(&self.home_of(&id), home)?;
            let mut row = self.one(Part::SmallTalk, &id, text, None)?;
            row.right = row.error.is_none() && row.built.is_empty();
            rows.push(row);
            self.tell(rows.last());
        }
        Ok(rows)
    }

    fn home_of(&self, id: &str) -> PathBuf {
        let safe: String =
            id.chars().map(|c| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect();
        self.homes.join(safe)
    }

    /// An empty home with the person's own config: its providers and prices are part of what is measured.
    fn fresh(&self, folder: &Path, home: &Home) -> Outcome {
        match std::fs::remove_dir_all(folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(disk(folder, &e)),
            _ => {}
        }
        std::fs::create_dir_all(folder).map_err(|e| disk(folder, &e))?;
        if home.config().exists() {
            std::fs::copy(home.config(), folder.join("config.toml")).map_err(|e| disk(folder, &e))?;
        }
        Ok(())
    }

    fn tell(&self, row: Option<&Row>) {
        if let Some(row) = row.filter(|_| !self.common.quiet) {
            let mark = if row.right { "right" } else { "WRONG" };
            let what = row.error.as_ref().unwrap_or(&row.answer);
            term::note(format!("{:<16} {mark} {:6.1} s  {}", row.label(), row.seconds, term::cut(what, 80)));
        }
    }

    // A process of this same program, as a person would start it.
    #[allow(clippy::disallowed_methods)]
    fn one(&self, part: Part, id: &str, request: &str, answer: Option<&Regex>) -> Outcome<Row> {
        let started = Instant::now();
        let mut command = Command::new(&self.program);
        command.args(["--json", "--quiet", "--model", &self.model]);
        if let Some(mode) = self.common.mode {
            command
                .args(["--mode", clap::ValueEnum::to_possible_value(&mode).as_ref().map_or("auto", |v| v.get_name())]);
        }
        let mut child = command
            .args(["--", request])
            .env("JARVIS_HOME", self.home_of(id))
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
        loop {
            match child.try_wait().map_err(|e| disk(&self.program, &e))? {
                Some(_) => break,
                None if started.elapsed() > self.timeout => {
                    killed = true;
                    // It may have ended in this moment; it is waited for either way.
                    let _ = child.kill();
                    child.wait().map_err(|e| disk(&self.program, &e))?;
                    break;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
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
        Ok(row)
    }
}

/// Python's syntax, as far as it differs: `\Z` is the end of the text.
fn expression(task: &Task) -> Outcome<Regex> {
    Regex::new(&task.answer.replace(r"\Z", r"\z")).map_err(|e| {
        usage(format!("the answer of task `{}` is no regular expression: {e}", task.id), "correct it in the task file")
    })
}

fn report(bench: &Bench<'_>, rows: &[Row], common: &Common) -> Outcome {
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
        return term::json(&json!({"model": bench.model, "rows": rows, "totals": totals}));
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

fn disk(path: &Path, error: &std::io::Error) -> Failure {
    failed(ErrorKind::Disk, format!("{}: {error}", path.display()))
}
