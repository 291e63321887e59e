//! `jarvis chat`: a conversation on the terminal; from a pipe, each line is a message.

use crate::cli::{Common, Turn};
use crate::config::Settings;
use crate::error::{Failure, Outcome, failed, tell};
use crate::home::Home;
use crate::kept::{Kept, LATEST};
use crate::show::Show;
use crate::signals::Signals;
use crate::{config, model, run, term};
use clap::Args;
use jarvis_agent::{Session, TurnEnd};
use jarvis_protocol::ErrorKind;
use reedline::{DefaultPrompt, DefaultPromptSegment, FileBackedHistory, Reedline, Signal};
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jarvis chat --model local\n  jarvis chat --resume              the latest session of this folder\n  \
jarvis chat --resume 20260314-1f    one of `jarvis session list`, by how its id begins\n\nIn the conversation: /help /model /cost /compact /tools /exit. \
Ctrl-C cancels a turn, Ctrl-D leaves."
)]
pub struct Chat {
    #[command(flatten)]
    pub turn: Turn,
    /// Go on with the latest session of this folder.
    #[arg(long = "continue")]
    pub go_on: bool,
    /// Go on with a session: its id or how that begins; `latest`, of this folder, without one.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = LATEST, conflicts_with = "go_on")]
    pub resume: Option<String>,
}

const HELP: &str = "\
/model [PROVIDER/MODEL]  which model answers; with a name, changes it
/cost                    tokens and dollars so far
/compact                 summarise all but the last question now, so that more fits
/tools                   the capabilities there are
/exit                    leave (Ctrl-D too)
Ctrl-C cancels the turn that runs; anything else is a message";

struct Conversation<'a> {
    session: Session,
    settings: Settings,
    home: Home,
    common: &'a Common,
    flags: &'a Turn,
    signals: &'a Signals,
}

pub fn run(args: &Chat, common: &Common) -> Outcome {
    let flags = &args.turn;
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let embedder = model::embedder(&settings, &home)?;
    let resume = args.resume.as_deref().or(args.go_on.then_some(LATEST));
    let kept = Kept::open(&home, embedder, resume, &flags.reach.place)?;
    let choice = kept.choose(&settings, common.model.as_deref())?;
    run::enter(&flags.reach.place)?;
    kept.tell();
    let forge = run::forge(&settings, &flags.reach, &home)?;
    run::block(async |signals| {
        let external = run::external(&settings, &forge, &home)?;
        let answerer = run::answerer(&choice, &settings, flags, &home, &signals.work()).await?;
        let session = run::session(answerer, forge, &settings, flags, &home, kept)
            .with_agents(run::agents(&home)?)
            .with_external(external);
        let mut conversation = Conversation { session, settings, home, common, flags, signals };
        if std::io::stdin().is_terminal() { conversation.terminal().await } else { conversation.piped().await }
    })
}

impl Conversation<'_> {
    async fn terminal(&mut self) -> Outcome {
        term::status(format!("{} · /help for commands, Ctrl-D leaves", self.session.model().id()));
        let mut editor = Reedline::create().with_break_signal(self.at_the_end());
        match FileBackedHistory::with_file(2000, self.home.chat_history()) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(error) => term::note(format!("this conversation's input is not kept: {error}")),
        }
        let prompt = DefaultPrompt::new(DefaultPromptSegment::Basic("you".to_owned()), DefaultPromptSegment::Empty);
        loop {
            match editor.read_line(&prompt) {
                Ok(Signal::Success(line)) => {
                    if !self.handle(&line).await? {
                        return Ok(());
                    }
                }
                Ok(Signal::CtrlD) => return Ok(()),
                Ok(Signal::ExternalBreak(_)) => {
                    term::note("");
                    return Err(Failure::Told(130));
                }
                // Nothing runs: Ctrl-C clears the line. The enum is open to signals of later versions.
                Ok(_) => {}
                Err(e) => return Err(failed(ErrorKind::Internal, format!("the terminal cannot be read: {e}"))),
            }
        }
    }

    /// Becomes true when the process is to end; the editor looks at it while it waits, and puts the terminal right.
    fn at_the_end(&self) -> Arc<AtomicBool> {
        let ended = Arc::new(AtomicBool::new(false));
        let (end, told) = (self.signals.end().clone(), ended.clone());
        tokio::spawn(async move {
            end.cancelled().await;
            told.store(true, Ordering::Relaxed);
        });
        ended
    }

    async fn piped(&mut self) -> Outcome {
        let mut lines = lines_of_stdin();
        loop {
            let waiting = self.signals.work();
            let line = tokio::select! {
                biased;
                () = waiting.cancelled() => return Err(Failure::Told(130)),
                line = lines.recv() => line,
            };
            let Some(line) = line else { return Ok(()) };
            let line = line.map_err(|e| failed(ErrorKind::Usage, format!("stdin cannot be read: {e}")))?;
            if !self.handle(&line).await? {
                return Ok(());
            }
        }
    }

    /// One line; false ends the conversation.
    async fn handle(&mut self, line: &str) -> Outcome<bool> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => {}
            "/exit" | "/quit" => return Ok(false),
            // Among JSON lines it would be none.
            "/help" if self.common.json => term::note(HELP),
            "/help" => term::line(HELP)?,
            "/cost" => self.cost()?,
            "/tools" => self.tools()?,
            "/compact" => self.compact().await?,
            "/model" if rest.trim().is_empty() => self.which_model()?,
            "/model" => {
                if let Err(failure) = self.change_model(rest.trim()).await {
                    keep_on(failure)?;
                }
            }
            _ if word.starts_with('/') && !word[1..].contains('/') => {
                term::note(format!("there is no {word}; /help lists what there is"))
            }
            _ => self.turn(line).await?,
        }
        Ok(true)
    }

    fn which_model(&self) -> Outcome {
        let id = self.session.model().id();
        if self.common.json { term::json(&json!({"model": id})) } else { term::line(id) }
    }

    fn cost(&self) -> Outcome {
        let usage = self.session.usage();
        if self.common.json {
            return term::json(&json!({"usage": usage}));
        }
        term::line(format!(
            "{} tokens in ({} from a cache), {} out, ${:.4}",
            usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.cost_usd
        ))
    }

    async fn compact(&mut self) -> Outcome {
        let mut show = Show::new(self.common.json);
        let cancel = self.signals.work();
        let done = self.session.compact(&mut |event| show.event(&event), &cancel).await;
        show.finish()?;
        match done {
            Ok(messages) if self.common.json => term::json(&json!({"summarised": messages})),
            Ok(0) => {
                term::status("there is nothing to summarise yet");
                Ok(())
            }
            Ok(messages) => {
                term::status(format!("{messages} earlier messages are a summary now"));
                Ok(())
            }
            Err(body) => keep_on(Failure::Body(body)),
        }
    }

    fn tools(&self) -> Outcome {
        let listed = run::registry(&self.home)?.list()?.capabilities;
        if self.common.json {
            return term::json(&json!({"capabilities": listed}));
        }
        if listed.is_empty() {
            term::status("nothing is registered yet");
        }
        listed.iter().try_for_each(|c| term::line(term::flat(&format!("{} — {}", c.signature(), c.capability))))
    }

    async fn change_model(&mut self, named: &str) -> Outcome {
        let choice = model::resolve(&self.settings, named, "/model")?;
        let cancel = self.signals.work();
        let answerer = run::answerer(&choice, &self.settings, self.flags, &self.home, &cancel).await?;
        self.session.set_model(answerer.handle, answerer.mode, answerer.price);
        term::status(format!("{} answers from now on", choice.id));
        Ok(())
    }

    async fn turn(&mut self, text: &str) -> Outcome {
        let model = self.session.model();
        if let Err(failure) = run::fits(text, model.id(), model.traits().context_tokens) {
            return keep_on(failure);
        }
        let mut show = Show::new(self.common.json);
        let cancel = self.signals.work();
        let mut approver = run::approver(self.common.json, &cancel);
        let end = self.session.turn(text, &mut |event| show.event(&event), approver.as_mut(), &cancel).await;
        show.finish()?;
        match end {
            TurnEnd::Completed { .. } => Ok(()),
            TurnEnd::Failed(body) => keep_on(Failure::Body(body)),
        }
    }
}

/// A failed turn does not end a conversation.
fn keep_on(failure: Failure) -> Outcome {
    match failure {
        Failure::Body(body) => {
            tell(&body);
            Ok(())
        }
        other => Err(other),
    }
}

/// Read in a thread of its own: a pipe that stays silent must not keep the process from ending.
fn lines_of_stdin() -> mpsc::Receiver<std::io::Result<String>> {
    let (send, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
