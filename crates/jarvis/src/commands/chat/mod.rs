//! `jarvis chat`: a conversation on the terminal; from a pipe, each line is a message.

mod complete;
mod editor;
mod lines;
mod look;
mod own;
mod said;
mod slash;

use crate::cli::{Common, Place, Turn};
use crate::config::Settings;
use crate::error::{Failure, Outcome, failed, tell};
use crate::home::Home;
use crate::kept::{self, Kept, LATEST};
use crate::show::Show;
use crate::signals::Signals;
use crate::term::typed::{self, Typed};
use crate::{config, model, run, term};
use clap::Args;
use complete::Commands;
use jarvis_agent::{Session, TurnEnd};
use jarvis_forge::Forge;
use jarvis_model::{Embedder, ModelHandle};
use jarvis_protocol::ErrorKind;
use lines::Lines;
use own::Own;
use reedline::Signal;
use serde_json::json;
pub use slash::words;
use slash::{Flow, Line};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether the terminal is still there.
const A_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(
    after_help = format!("Examples:\n  jarvis chat --model local\n  jarvis chat --resume              the latest session of this folder\n  \
jarvis chat --resume 20260314-1f    one of `jarvis session list`, by how its id begins\n\nIn the conversation: {}; your own commands and skills are /NAME. \
Ctrl-C cancels a turn, Ctrl-D leaves.", slash::names())
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

struct Conversation<'a> {
    session: Session,
    forge: Forge,
    /// Models that answered before the one that does now.
    earlier: Vec<ModelHandle>,
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
        let answerer = run::answerer(&choice, &settings, flags, &home, &signals.work()).await?;
        let session = run::session(answerer, forge.clone(), &settings, flags, &home, kept);
        let session = talking(session, &forge, &settings, &home)?;
        let mut conversation =
            Conversation { session, forge, earlier: Vec::new(), settings, home, common, flags, signals };
        let ended = conversation.talk().await;
        conversation.session.finish().await;
        ended
    })
}

/// A session that goes on for more than one turn.
fn talking(session: Session, forge: &Forge, settings: &Settings, home: &Home) -> Outcome<Session> {
    let session = session.with_agents(run::agents(home)?).with_external(run::external(settings, forge, home)?);
    Ok(if settings.titles { session.with_titles() } else { session })
}

impl Conversation<'_> {
    /// From a pipe, or on a terminal that is fit for an editor or is not.
    async fn talk(&mut self) -> Outcome {
        if !std::io::stdin().is_terminal() {
            return self.lines(false).await;
        }
        self.signals.stay();
        term::status(format!("{} · /help for commands, Ctrl-D leaves", self.session.model().id()));
        // An editor draws on stdout, so that must be a terminal it can draw on, and no place for JSON.
        let draws = std::io::stdout().is_terminal() && term::can_move() && !self.common.json;
        if draws { self.edited().await } else { self.lines(true).await }
    }

    /// On a terminal, with an editor.
    async fn edited(&mut self) -> Outcome {
        let commands = Commands {
            settings: self.settings.clone(),
            home: self.home.clone(),
            workspace: kept::workspace(&Place::default())?,
            own: self.own()?,
        };
        let reading = Arc::new(AtomicBool::new(false));
        let mut editor = editor::editor(commands, self.home.chat_history(), self.at_the_end(reading.clone()));
        let prompt = editor::prompt();
        let mut queued: VecDeque<String> = VecDeque::new();
        loop {
            let line = match queued.pop_front() {
                Some(message) => {
                    editor::show(&message)?;
                    editor::remember(&mut editor, &message);
                    message
                }
                None => {
                    reading.store(true, Ordering::Relaxed);
                    let read = editor.read_line(&prompt);
                    reading.store(false, Ordering::Relaxed);
                    match read {
                        Ok(Signal::Success(line)) => line,
                        Ok(Signal::CtrlD) => return Ok(()),
                        Ok(Signal::ExternalBreak(_)) => {
                            term::note("");
                            return Err(Failure::Told(130));
                        }
                        // Nothing runs: Ctrl-C clears the line. The enum is open to signals of later versions.
                        Ok(_) => continue,
                        Err(e) => return Err(failed(ErrorKind::Internal, format!("the terminal cannot be read: {e}"))),
                    }
                }
            };
            // A Ctrl-C of the turn before is over, also where this line begins no other.
            self.signals.work();
            let typing = typed::keep();
            let goes_on = self.handle(&line).await?;
            let Typed { messages, line, held } = typing.end();
            if !goes_on {
                return Ok(());
            }
            if self.signals.end().is_cancelled() {
                return Err(Failure::Told(130));
            }
            queued.extend(messages);
            if held || self.signals.interrupted() {
                // Who was asked, or cancels a turn, thinks again: what was to follow is theirs to send.
                let all: Vec<String> = queued.drain(..).chain([line]).filter(|line| !line.is_empty()).collect();
                editor::begin(&mut editor, all.join("\n"));
            } else {
                editor::begin(&mut editor, line);
            }
        }
    }

    /// Becomes true when the process is to end; the editor looks at it while it waits, and puts the terminal right. On a
    /// terminal that is gone it reads the end of its input again and again instead, so the process ends here then: between
    /// turns, when everything is on disk.
    fn at_the_end(&self, reading: Arc<AtomicBool>) -> Arc<AtomicBool> {
        let ended = Arc::new(AtomicBool::new(false));
        let (end, told) = (self.signals.end().clone(), ended.clone());
        tokio::spawn(async move {
            while term::is_there() {
                if tokio::time::timeout(A_LOOK, end.cancelled()).await.is_ok() {
                    break;
                }
            }
            end.cancel();
            told.store(true, Ordering::Relaxed);
            loop {
                let was = reading.load(Ordering::Relaxed);
                tokio::time::sleep(A_LOOK).await;
                if was && reading.load(Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
        ended
    }

    /// From a pipe, and where a person types on a terminal that nothing can be drawn on.
    async fn lines(&mut self, person: bool) -> Outcome {
        let mut lines = Lines::of_stdin();
        loop {
            if person {
                term::ask("you> ");
            }
            let waiting = self.signals.work();
            let line = tokio::select! {
                biased;
                () = waiting.cancelled() => match person && !self.signals.end().is_cancelled() {
                    // The terminal has dropped what was typed of the line.
                    true => {
                        term::note("");
                        continue;
                    }
                    false => return Err(Failure::Told(130)),
                },
                line = lines.next() => line,
            };
            let Some(line) = line else { return Ok(()) };
            let line = line.map_err(|e| failed(ErrorKind::Usage, format!("stdin cannot be read: {e}")))?;
            if !self.handle(&line).await? {
                return Ok(());
            }
        }
    }

    /// One line, or several that were typed or pasted as one message; false ends the conversation.
    async fn handle(&mut self, line: &str) -> Outcome<bool> {
        match slash::read(line) {
            Line::Nothing => {}
            Line::Command(slash, argument) => return Ok(matches!(slash.run(self, argument).await?, Flow::Stay)),
            Line::Unknown(word) => match self.meant(word, line) {
                // What a file says is no word of the person's for showing an image.
                Ok(Some(text)) => self.turn(&text, line).await?,
                Ok(None) if self.session.is_prompt(line) => self.turn(line, line).await?,
                Ok(None) => term::note(format!("there is no {word}; /help lists what there is")),
                Err(failure) => keep_on(failure)?,
            },
            Line::Message(text) => self.turn(text, text).await?,
        }
        Ok(true)
    }

    /// What is asked by a command or a skill of the workspace or the home, where the word is one.
    fn meant(&self, word: &str, line: &str) -> Outcome<Option<String>> {
        self.own()?.message(word, line.trim().strip_prefix(word).unwrap_or_default())
    }

    fn own(&self) -> Outcome<Own> {
        Ok(Own::of(&self.home, &run::workspace()?))
    }

    async fn model(&mut self, named: &str) -> Outcome {
        if named.is_empty() {
            return self.which_model();
        }
        let choice = model::resolve(&self.settings, named, "/model")?;
        let cancel = self.signals.work();
        let answerer = run::answerer(&choice, &self.settings, self.flags, &self.home, &cancel).await?;
        self.earlier.push(self.session.model().clone());
        self.session.set_model(answerer.handle, answerer.mode);
        term::status(format!("{} answers from now on", choice.id));
        Ok(())
    }

    /// Goes on with another session, with the model that it had.
    async fn resume(&mut self, id: &str) -> Outcome {
        if id.is_empty() {
            term::status("which one? /resume ID, or how the ID begins");
            return self.sessions();
        }
        let here = Place::default();
        let found = kept::find(&kept::sessions(&self.home)?, id, &kept::workspace(&here)?)?;
        if found.id == self.session.id() {
            term::status("that is this conversation");
            return Ok(());
        }
        let kept = Kept::open(&self.home, self.embedder()?, Some(&found.id), &here)?;
        let choice = kept.choose(&self.settings, None)?;
        let cancel = self.signals.work();
        let answerer = run::answerer(&choice, &self.settings, self.flags, &self.home, &cancel).await?;
        kept.tell();
        let session = run::session(answerer, self.forge.clone(), &self.settings, self.flags, &self.home, kept);
        let session = talking(session, &self.forge, &self.settings, &self.home)?;
        let mut before = std::mem::replace(&mut self.session, session);
        before.finish().await;
        self.earlier.clear();
        if self.common.json { term::json(&json!({"session": self.session.id()})) } else { Ok(()) }
    }

    fn embedder(&self) -> Outcome<Option<Arc<dyn Embedder>>> {
        model::embedder(&self.settings, &self.home)
    }

    async fn compact(&mut self) -> Outcome {
        let mut show = Show::new(self.common.json);
        let cancel = self.signals.work();
        let done = self.session.compact(&mut |event| show.event(&event), &cancel).await;
        show.finish()?;
        let messages = done.map_err(Failure::Body)?;
        if self.common.json {
            return term::json(&json!({"summarised": messages}));
        }
        term::status(match messages {
            0 => "there is nothing to summarise yet".to_owned(),
            messages => format!("{messages} earlier messages are a summary now"),
        });
        Ok(())
    }

    async fn turn(&mut self, text: &str, typed: &str) -> Outcome {
        let model = self.session.model();
        if let Err(failure) = run::fits(text, model.id(), model.traits().context_tokens) {
            return keep_on(failure);
        }
        let input = match self.said(text, typed) {
            Ok(input) => input,
            Err(failure) => return keep_on(failure),
        };
        let mut show = Show::new(self.common.json);
        let cancel = self.signals.work();
        let mut approver = run::approver(self.common.json, &cancel);
        let end = self.session.turn(input, &mut |event| show.event(&event), approver.as_mut(), &cancel).await;
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
