//! `jarvis "question"`: one turn.

use crate::cli::Common;
use crate::error::{Failure, Outcome, exit_code, failed, tell, usage};
use crate::home::Home;
use crate::show::Show;
use crate::{config, model, pull, run, term};
use jarvis_agent::TurnEnd;
use jarvis_protocol::{ErrorBody, ErrorKind, Event, StopReason, Usage};
use std::io::{IsTerminal, Read};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// No tokenizer makes fewer tokens than one for this many bytes of prose; what is longer cannot fit.
const BYTES_PER_TOKEN_AT_MOST: usize = 8;
/// What is read from stdin at most; far more than any model takes.
const STDIN_BYTES: u64 = 64 << 20;

/// `meant` is the command that the words look like, if they do.
pub fn run(words: Vec<String>, meant: Option<&str>, common: &Common) -> Outcome {
    let started = Instant::now();
    if words.is_empty() && std::io::stdin().is_terminal() {
        return super::chat::run(&super::chat::Chat {}, common);
    }
    let outcome = match meant {
        Some(command) => Err(no_question(&words, command)),
        None => question(words).and_then(|question| turn(&question, common)),
    };
    match outcome {
        // With --json every failure, also one before the turn began, is the last event.
        Err(Failure::Body(body)) if common.json => {
            tell(&body);
            let code = exit_code(body.kind);
            let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            term::json(&Event::TurnFailed { error: body, usage: Usage::default(), duration_ms })?;
            Err(Failure::Told(code))
        }
        other => other,
    }
}

fn no_question(words: &[String], command: &str) -> Failure {
    let rest: String = words.iter().skip(1).map(|word| format!(" {word}")).collect();
    let typed = words.join(" ");
    usage(
        format!("`{typed}` is no command; did you mean `jarvis {command}{rest}`?"),
        format!("to ask it as a question: jarvis -- \"{typed}\""),
    )
}

fn question(words: Vec<String>) -> Outcome<String> {
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

fn turn(question: &str, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let choice = model::choose(&settings, common.model.as_deref())?;
    let context = choice.context_tokens(&settings);
    if question.len() > context.saturating_mul(BYTES_PER_TOKEN_AT_MOST) {
        return Err(ErrorBody::new(
            ErrorKind::ContextOverflow,
            format!(
                "the question has {} bytes, and {} reads {context} tokens (some {} bytes) at most",
                question.len(),
                choice.id,
                context * 4
            ),
        )
        .hint("shorten it, or use a model with a larger context: --model PROVIDER/MODEL")
        .into());
    }
    let forge = run::forge(&settings, common, &home)?;
    let runtime = run::runtime()?;
    let result = runtime.block_on(async {
        let cancel = CancellationToken::new();
        run::cancel_on_interrupt(cancel.clone());
        if common.replay.is_none() {
            pull::ensure(&choice, &settings, &home, common.quiet, &cancel).await?;
        }
        let handle = run::handle(&choice, &settings, common, &home)?;
        let mut session = run::session(&choice, handle, forge, &settings, common)?;
        let mut show = Show::new(common.json, common.quiet);
        let mut approver = run::approver(common.json, &cancel);
        let end = session.turn(question, &mut |event| show.event(&event), approver.as_mut(), &cancel).await;
        show.finish()?;
        told(end, common.json)
    });
    run::stop(runtime);
    result
}

/// The turn has ended with its own event; here it becomes an exit code.
fn told(end: TurnEnd, json: bool) -> Outcome {
    match end {
        TurnEnd::Completed { stop_reason: StopReason::Cancelled, .. } => Err(Failure::Told(130)),
        TurnEnd::Completed { .. } => Ok(()),
        TurnEnd::Failed(body) if json => {
            tell(&body);
            Err(Failure::Told(exit_code(body.kind)))
        }
        TurnEnd::Failed(body) => Err(Failure::Body(body)),
    }
}
