//! `jarvis acp`: in editors, by the Agent Client Protocol. stdout carries the protocol and nothing else.

use crate::cli::{Common, Turn};
use crate::error::{Failure, Outcome, failed};
use crate::home::Home;
use crate::{config, hosting, model, run, term};
use clap::Args;
use jarvis_acp::Options;
use jarvis_host::Limits;
use jarvis_protocol::ErrorKind;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jarvis acp --model local\n  jarvis acp --approve deny --max-cost 0.50\n\n\
        An editor starts it and speaks to it on stdin and stdout; docs/editors.md shows how for each. What goes wrong is \
        said on stderr, which editors keep in their logs.")]
pub struct Acp {
    #[command(flatten)]
    pub turn: Turn,
}

/// An editor keeps a thread open for as long as it runs.
const LIMITS: Limits = Limits { sessions: 64, idle: Duration::from_secs(7 * 24 * 3600) };

pub fn run(args: Acp, common: &Common) -> Outcome {
    run::enter(&args.turn.reach.place)?;
    let home = Home::find()?;
    let settings = config::load(&home)?;
    if std::io::stdin().is_terminal() {
        term::status(
            "this speaks the Agent Client Protocol with an editor; Ctrl-D ends it. For a conversation: jarvis",
        );
    }
    let named = common.model.clone();
    let models = model::ready(&settings, &home);
    let host = hosting::host(args.turn, named.clone(), "acp", LIMITS)?;
    let lacks_key = move || match model::choose(&settings, named.as_deref()).map_err(hosting::unauthenticated) {
        Err(Failure::Body(body)) if body.kind == ErrorKind::Auth => Some(body),
        _ => None,
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let options = Options { version, models, lacks_key: Arc::new(lacks_key) };
    run::block(async |signals| {
        let stop = signals.work();
        let (input, output) = (own(std::io::stdin().as_fd())?, own(std::io::stdout().as_fd())?);
        let served = jarvis_acp::serve(host, options, input, output, &stop).await;
        served.map_err(|error| failed(ErrorKind::Protocol, error.to_string()))?;
        if stop.is_cancelled() { Err(Failure::Told(130)) } else { Ok(()) }
    })
}

/// A pipe, a socket or a file, whatever the editor made of it; read and written beside the runtime's own threads.
fn own(stream: BorrowedFd<'_>) -> Outcome<tokio::fs::File> {
    let owned = stream.try_clone_to_owned();
    let owned = owned.map_err(|e| failed(ErrorKind::Usage, format!("stdin or stdout cannot be used: {e}")))?;
    Ok(tokio::fs::File::from_std(File::from(owned)))
}
