//! What is in the home: the registry, the audit, room on the disk.

use super::{Finding, finding, words};
use crate::home::Home;
use jarvis_audit::AuditLog;
use jarvis_memory::{Examined, SessionStore, SqliteStore};
use jarvis_model::fetch;
use jarvis_registry::{Level, Registry, Trouble};
use std::path::Path;

/// Below this a registration or a state of the model may not find room.
const LOW_BYTES: u64 = 500 << 20;

/// One finding for the registry as a whole, and one for each trouble.
pub fn registry(registry: &Registry, troubles: &[Trouble], findings: &mut Vec<Finding>) {
    let count = match registry.list() {
        Ok(listing) if listing.capabilities.len() == 1 => Ok("1 capability".to_owned()),
        Ok(listing) => Ok(format!("{} capabilities", listing.capabilities.len())),
        Err(error) => Err(error),
    };
    let bad = troubles.iter().filter(|trouble| trouble.level != Level::Note).count();
    findings.push(match count {
        Ok(count) if bad == 0 => finding("registry", true, Ok(count)),
        Ok(count) => {
            let broken = troubles.iter().any(|trouble| trouble.level == Level::Broken);
            let problems = if bad == 1 { "1 problem".to_owned() } else { format!("{bad} problems") };
            finding("registry", broken, Err((format!("{count}, {problems}"), None)))
        }
        Err(error) => finding("registry", true, Err(words(error.into()))),
    });
    findings.extend(troubles.iter().map(|trouble| Finding {
        what: format!("registry: {}", trouble.about),
        ok: trouble.level == Level::Note,
        essential: trouble.level == Level::Broken,
        detail: crate::term::flat(&trouble.problem),
        fix: Some(trouble.todo.clone()).filter(|todo| !todo.is_empty()),
        fixable: trouble.fixable(),
    }));
}

/// A file is made and removed in each folder that is written into: a read-only disk shows only then.
pub fn writable(home: &Home) -> Finding {
    let inner = [home.capabilities(), home.audit(), home.models().to_owned()];
    let folders = std::iter::once(home.root().to_owned()).chain(inner.into_iter().filter(|folder| folder.exists()));
    let problems: Vec<String> = folders
        .filter_map(|folder| {
            let tried = tempfile::Builder::new().prefix(".doctor-").tempfile_in(&folder).and_then(|file| file.close());
            tried.err().map(|e| format!("{} cannot be written: {e}", folder.display()))
        })
        .collect();
    let fix = "make it writable for this user, or use another home with JARVIS_HOME";
    finding(
        "home",
        true,
        if problems.is_empty() { Ok("writable".to_owned()) } else { Err((problems.join("; "), Some(fix.to_owned()))) },
    )
}

pub fn audit(home: &Home) -> Finding {
    let result = match AuditLog::open(home.audit()).verify() {
        Ok(verify) if verify.problems.is_empty() => Ok(format!("{} records, unbroken", verify.records)),
        Ok(verify) => Err((
            format!("{} problems in {} records", verify.problems.len(), verify.records),
            Some("jarvis audit verify".to_owned()),
        )),
        Err(error) => Err(words(error.into())),
    };
    finding("audit", true, result)
}

/// Conversations cannot be made anew; what finds the notes can. Nothing is changed here.
pub fn databases(home: &Home, findings: &mut Vec<Finding>) {
    let told = |found: Option<Examined>, what: &str, fix: &str| match found {
        None => Ok("none yet".to_owned()),
        Some(found) if found.problems.is_empty() => Ok(format!("{} {what}, in order", found.entries)),
        Some(found) => Err((format!("damaged: {}", found.problems.join("; ")), Some(fix.to_owned()))),
    };
    let fix = format!(
        "keep a copy of {} and its -wal file; `jarvis session export` saves what can still be read",
        home.sessions().display()
    );
    let sessions = SessionStore::examine(&home.sessions()).map_err(|e| (words(e.into()).0, Some(fix.clone())));
    findings.push(finding("sessions", true, sessions.and_then(|found| told(found, "sessions", &fix))));
    let fix =
        format!("delete {}; `jarvis memory reindex` makes it again from the notes", home.memory_index().display());
    let notes = SqliteStore::examine(&home.memory_index()).map_err(|e| (words(e.into()).0, Some(fix.clone())));
    findings.push(finding("memory", false, notes.and_then(|found| told(found, "notes", &fix))));
}

pub fn disk(root: &Path) -> Finding {
    // The home may not be there yet: the nearest folder above it is on the same disk.
    let Some(there) = root.ancestors().find(|folder| folder.exists()) else {
        return finding("disk", true, Err((format!("{} is nowhere", root.display()), None)));
    };
    let result = match rustix::fs::statvfs(there) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let text = format!("{} free", fetch::size(free));
            if free >= LOW_BYTES {
                Ok(text)
            } else {
                Err((text, Some("free some space, or move the home with JARVIS_HOME".to_owned())))
            }
        }
        Err(e) => Err((format!("{}: {e}", there.display()), None)),
    };
    finding("disk", true, result)
}
