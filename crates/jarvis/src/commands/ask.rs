//! `jarvis "question"`: one turn.

use crate::cli::{Common, Turn};
use crate::error::{Failure, Outcome, clean, exit_code, failed, tell, usage};
use crate::home::Home;
use crate::kept::{Kept, LATEST};
use crate::show::Show;
use crate::{config, images, model, run, term};
use jarvis_agent::{Input, TurnEnd};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, StopReason, Usage};
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is read from stdin at most; far more than any model takes.
const STDIN_BYTES: u64 = 64 << 20;

/// What was typed.
pub struct Said {
    pub words: Vec<String>,
    /// The command that the words look like, if they do.
    pub meant: Option<String>,
    pub images: Vec<PathBuf>,
}

pub fn run(said: Said, common: &Common, flags: Turn, go_on: bool) -> Outcome {
    let started = Instant::now();
    let Said { words, meant, images } = said;
    if words.is_empty() && images.is_empty() && std::io::stdin().is_terminal() {
        return super::chat::run(&super::chat::Chat { turn: flags, go_on, resume: None }, common);
    }
    let outcome = match meant {
        Some(command) => Err(no_question(&words, &command)),
        None => asked(words, &images).and_then(|input| turn(input, common, &flags, go_on)),
    };
    match outcome {
        // With --json every failure, also one before the turn began, is the last event.
        Err(Failure::Body(body)) if common.json => {
            tell(&body);
            let code = exit_code(body.kind);
            failed_event(body, started.elapsed())?;
            Err(Failure::Told(code))
        }
        other => other,
    }
}

/// The last event of a turn that never began.
pub fn failed_event(error: ErrorBody, took: Duration) -> Outcome {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    term::json(&Event::TurnFailed { error: clean(&error), usage: Usage::default(), duration_ms })
}

fn no_question(words: &[String], command: &str) -> Failure {
    let rest: String = words.iter().skip(1).map(|word| format!(" {word}")).collect();
    let typed = words.join(" ");
    usage(
        format!("`{typed}` is no command; did you mean `jarvis {command}{rest}`?"),
        format!("to ask it as a question: jarvis -- \"{typed}\""),
    )
}

/// Everything that was typed is read here: the workspace becomes the current folder later.
fn asked(words: Vec<String>, images: &[PathBuf]) -> Outcome<Input> {
    let images = images.iter().map(|path| images::load(path)).collect::<Outcome<_>>()?;
    Ok(Input { text: question(words)?, images })
}

fn question(words: Vec<String>) -> Outcome<String> {
    if words.is_empty() && std::io::stdin().is_terminal() {
        return Err(usage("an image came without a question", "jarvis --image cat.jpg \"what is this?\""));
    }
    let question = if words.is_empty() || words == ["-"] { from_stdin()? } else { words.join(" ") };
    if question.trim().is_empty() {
        return Err(usage("the question is empty", "jarvis \"What is the 90th Fibonacci number?\""));
    }
    Ok(question)
}

fn from_stdin() -> Outcome<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(STDIN_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| usage(format!("stdin cannot be read: {e}"), "pass the question as an argument"))?;
    if bytes.len() as u64 > STDIN_BYTES {
        return Err(failed(
            ErrorKind::ContextOverflow,
            format!("more than {} MiB on stdin: no model reads that", STDIN_BYTES >> 20),
        ));
    }
    String::from_utf8(bytes).map_err(|_| usage("the question on stdin is not UTF-8 text", "convert it with iconv"))
}

fn turn(input: Input, common: &Common, flags: &Turn, go_on: bool) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let embedder = model::embedder(&settings, &home)?;
    let kept = Kept::open(&home, embedder, go_on.then_some(LATEST), &flags.reach.place)?;
    let choice = kept.choose(&settings, common.model.as_deref())?;
    // Before anything is fetched for it.
    images::fit(&input.images, &choice.id, choice.takes_images())?;
    run::fits(&input.text, &choice.id, choice.context_tokens(&settings))?;
    run::enter(&flags.reach.place)?;
    let forge = run::forge(&settings, &flags.reach, &home)?;
    run::block(async |signals| {
        let cancel = signals.work();
        let external = run::external(&settings, &forge, &home)?;
        let answerer = run::answerer(&choice, &settings, flags, &home, &cancel).await?;
        let mut session = run::session(answerer, forge, &settings, flags, &home, kept)
            .with_agents(run::agents(&home)?)
            .with_external(external);
        let mut show = Show::new(common.json);
        let mut approver = run::approver(common.json, &cancel);
        let end = session.turn(input, &mut |event| show.event(&event), approver.as_mut(), &cancel).await;
        session.finish().await;
        show.finish()?;
        told(end, common.json)
    })
}

/// The turn has ended with its own event; here it becomes an exit code.
fn told(end: TurnEnd, json: bool) -> Outcome {
    match end {
        TurnEnd::Completed { stop_reason: StopReason::Cancelled, .. } => Err(Failure::Told(130)),
        // It was told what stopped it; a script that waits for an answer has none.
        TurnEnd::Completed { answer, .. } if answer.trim().is_empty() => Err(Failure::Told(1)),
        TurnEnd::Completed { .. } => Ok(()),
        TurnEnd::Failed(body) if json => {
            tell(&body);
            Err(Failure::Told(exit_code(body.kind)))
        }
        TurnEnd::Failed(body) => Err(Failure::Body(body)),
    }
}
