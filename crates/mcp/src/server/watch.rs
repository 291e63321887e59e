//! Notices that capabilities or the audit changed, also by another process: their files are looked at, not read.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A person who registers something by hand waits for about this long until a host hears of it.
const PAUSE: Duration = Duration::from_millis(200);

/// How often each has changed since the server began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub capabilities: u64,
    pub audit: u64,
}

pub(crate) struct Changes {
    seen: watch::Receiver<Count>,
}

impl Changes {
    /// Must be called in a runtime; looks until `stop`.
    pub fn new(registry: PathBuf, audit: PathBuf, stop: CancellationToken) -> Changes {
        let (tell, seen) = watch::channel(Count::default());
        tokio::spawn(async move {
            let files = [registry.join("index.json"), audit.join("head.json")];
            let mut before = files.each_ref().map(|file| stamp(file));
            while stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
                let now = files.each_ref().map(|file| stamp(file));
                if now == before {
                    continue;
                }
                tell.send_modify(|count| {
                    count.capabilities += u64::from(now[0] != before[0]);
                    count.audit += u64::from(now[1] != before[1]);
                });
                before = now;
            }
        });
        Changes { seen }
    }

    pub fn subscribe(&self) -> watch::Receiver<Count> {
        let mut seen = self.seen.clone();
        seen.mark_unchanged();
        seen
    }
}

/// Changes with every replacement of the file.
fn stamp(file: &Path) -> Option<(u64, u64, SystemTime)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(file).ok()?;
    Some((found.ino(), found.len(), found.modified().ok()?))
}
