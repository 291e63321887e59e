//! `jarvis chat`: a conversation on the terminal; from a pipe, each line is a message.

use crate::cli::Common;
use crate::config::Settings;
use crate::error::{Failure, Outcome, failed, tell};
use crate::home::Home;
use crate::show::Show;
use crate::{config, model, pull, run, term};
use clap::Args;
use jarvis_agent::{Session, TurnEnd};
use jarvis_protocol::ErrorKind;
use reedline::{DefaultPrompt, DefaultPromptSegment, FileBackedHistory, Reedline, Signal};
use std::io::{BufRead, IsTerminal};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  jarvis chat --model local\n\nIn the conversation: /help /model /cost /tools /exit. \
Ctrl-C cancels a turn, Ctrl-D leaves."
)]
pub struct Chat {}

const HELP: &str = "\
/model [PROVIDER/MODEL]  which model answers; with a name, changes it
/cost                    tokens and dollars so far
/tools                   the capabilities there are
/exit                    leave (Ctrl-D too)
Ctrl-C cancels the turn that runs; anything else is a message";

struct Conversation<'a> {
    session: Session,
    settings: Settings,
    home: Home,
    common: &'a Common,
    runtime: Runtime,
}

pub fn run(_: &Chat, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let choice = model::choose(&settings, common.model.as_deref())?;
    let forge = run::forge(&settings, common, &home)?;
    let runtime = run::runtime()?;
    let session = runtime.block_on(async {
        let cancel = CancellationToken::new();
        let interrupts = run::cancel_on_interrupt(cancel.clone());
        if common.replay.is_none() {
            pull::ensure(&choice, &settings, &home, common.quiet, &cancel).await?;
        }
        interrupts.abort();
        let handle = run::handle(&choice, &settings, common, &home)?;
        run::session(&choice, handle, forge, &settings, common)
    })?;
    let mut conversation = Conversation { session, settings, home, common, runtime };
    let outcome = if std::io::stdin().is_terminal() { conversation.terminal() } else { conversation.piped() };
    let Conversation { session, runtime, .. } = conversation;
    drop(session);
    run::stop(runtime);
    outcome
}

impl Conversation<'_> {
    fn terminal(&mut self) -> Outcome {
        if !self.common.quiet {
            term::note(format!("{} · /help for commands, Ctrl-D leaves", self.session.model().id()));
        }
        let mut editor = Reedline::create();
        match FileBackedHistory::with_file(2000, self.home.chat_history()) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(error) => term::note(format!("this conversation's input is not kept: {error}")),
        }
        let prompt = DefaultPrompt::new(DefaultPromptSegment::Basic("you".to_owned()), DefaultPromptSegment::Empty);
        loop {
            match editor.read_line(&prompt) {
                Ok(Signal::Success(line)) => {
                    if !self.handle(&line)? {
                        return Ok(());
                    }
                }
                Ok(Signal::CtrlD) => return Ok(()),
                // Nothing runs: Ctrl-C clears the line. The enum is open to signals of later versions.
                Ok(_) => {}
                Err(e) => return Err(failed(ErrorKind::Internal, format!("the terminal cannot be read: {e}"))),
            }
        }
    }

    fn piped(&mut self) -> Outcome {
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|e| failed(ErrorKind::Usage, format!("stdin cannot be read: {e}")))?;
            if !self.handle(&line)? {
                break;
            }
        }
        Ok(())
    }

    /// One line; false ends the conversation.
    fn handle(&mut self, line: &str) -> Outcome<bool> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => {}
            "/exit" | "/quit" => return Ok(false),
            "/help" => term::note(HELP),
            "/cost" => {
                let usage = self.session.usage();
                term::note(format!(
                    "{} tokens in ({} from a cache), {} out, ${:.4}",
                    usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.cost_usd
                ));
            }
            "/tools" => {
                for capability in run::registry(&self.home)?.list()?.capabilities {
                    term::note(term::flat(&format!("{} — {}", capability.signature(), capability.capability)));
                }
            }
            "/model" if rest.trim().is_empty() => term::note(self.session.model().id()),
            "/model" => {
                if let Err(failure) = self.change_model(rest.trim()) {
                    self.keep_on(failure)?;
                }
            }
            _ if word.starts_with('/') && !word[1..].contains('/') => {
                term::note(format!("there is no {word}; /help lists what there is"))
            }
            _ => self.turn(line)?,
        }
        Ok(true)
    }

    fn change_model(&mut self, named: &str) -> Outcome {
        let choice = model::resolve(&self.settings, named, "/model")?;
        self.runtime.block_on(async {
            let cancel = CancellationToken::new();
            let interrupts = run::cancel_on_interrupt(cancel.clone());
            let pulled = pull::ensure(&choice, &self.settings, &self.home, self.common.quiet, &cancel).await;
            interrupts.abort();
            pulled
        })?;
        let handle = run::handle(&choice, &self.settings, self.common, &self.home)?;
        self.session.set_model(handle, choice.price(&self.settings));
        term::note(format!("{} answers from now on", choice.id));
        Ok(())
    }

    fn turn(&mut self, text: &str) -> Outcome {
        let mut show = Show::new(self.common.json, self.common.quiet);
        let end = self.runtime.block_on(async {
            let cancel = CancellationToken::new();
            let interrupts = run::cancel_on_interrupt(cancel.clone());
            let mut approver = run::approver(self.common.json, &cancel);
            let end = self.session.turn(text, &mut |event| show.event(&event), approver.as_mut(), &cancel).await;
            interrupts.abort();
            end
        });
        show.finish()?;
        match end {
            TurnEnd::Completed { .. } => Ok(()),
            TurnEnd::Failed(body) => self.keep_on(Failure::Body(body)),
        }
    }

    /// A failed turn does not end a conversation.
    fn keep_on(&self, failure: Failure) -> Outcome {
        match failure {
            Failure::Body(body) => {
                tell(&body);
                Ok(())
            }
            other => Err(other),
        }
    }
}
