//! Fetching model files with progress for a person: a bar on a terminal, plain lines elsewhere.

use crate::config::Settings;
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::model::{Choice, What};
use crate::term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jarvis_model::fetch::{self, ModelFile, Presence, PullOptions, Report};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Makes sure that the chosen model can be loaded: fetches an embedded one that is missing, checks the digest of one
/// that was never checked.
pub async fn ensure(choice: &Choice, settings: &Settings, home: &Home, cancel: &CancellationToken) -> Outcome {
    let What::Known(file) = &choice.what else { return Ok(()) };
    match fetch::presence(file, home.models()) {
        Presence::Checked => return Ok(()),
        Presence::Unchecked => {}
        Presence::Missing | Presence::Partial { .. } | Presence::WrongSize { .. } => {
            term::status(format!(
                "the model {} is not here yet: fetching it once ({}, to {})",
                choice.id,
                fetch::size(file.bytes),
                home.models().display()
            ));
        }
    }
    pull(file, settings, home, cancel).await.map(|_| ())
}

pub async fn pull(file: &ModelFile, settings: &Settings, home: &Home, cancel: &CancellationToken) -> Outcome<PathBuf> {
    let options = PullOptions {
        folder: home.models().to_owned(),
        hub: settings.hub.trim_end_matches('/').to_owned(),
        python: PathBuf::from("python3"),
        connect_timeout: Duration::from_secs(5),
    };
    let mut progress = Progress::new();
    let pulled = fetch::pull(file, &options, &mut |report| progress.show(report), cancel).await;
    progress.clear();
    pulled.map_err(Failure::from)
}

struct Progress {
    bar: Option<ProgressBar>,
    /// Tenths of the file that have been told in plain lines.
    told: u64,
}

impl Progress {
    fn new() -> Self {
        let terminal = std::io::stderr().is_terminal() && !term::quiet();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = "  {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, told: 0 }
    }

    fn show(&mut self, report: Report) {
        match report {
            Report::Progress { done, total } => match &self.bar {
                Some(bar) => {
                    bar.set_length(total);
                    bar.set_position(done);
                }
                None => {
                    let tenth = done.saturating_mul(10) / total.max(1);
                    if tenth > self.told {
                        self.told = tenth;
                        self.line(format!("  {} of {}", fetch::size(done), fetch::size(total)));
                    }
                }
            },
            Report::Waiting => self.line("another process is fetching this model; waiting for it".to_owned()),
            Report::Trying { source } => {
                self.told = 0;
                self.line(format!("from {source}"));
            }
            Report::Failed { source, reason } => self.line(format!("not from {source}: {reason}")),
            Report::Checking => self.line("comparing its SHA-256".to_owned()),
        }
    }

    fn line(&self, text: String) {
        match &self.bar {
            Some(bar) => bar.suspend(|| term::note(text)),
            None => term::status(text),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
