//! The home's SQLite file, looked at without changing it.

use super::{Cure, Level, Trouble};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;

pub(super) fn check(path: &Path, found: &mut Vec<Trouble>) {
    let Ok(kind) = std::fs::symlink_metadata(path) else { return };
    let shown = path.display();
    let broken = |problem: String| {
        Trouble::new("statistics", Level::Broken, problem, "").cured(Cure::Statistics(path.to_owned()))
    };
    if kind.is_dir() {
        return found.push(broken(format!("{shown} is a folder where a database should be")));
    }
    // An empty file is a database with nothing in it.
    let looked = (|| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(Duration::from_millis(500))?;
        db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    })();
    let error = match looked {
        Ok(said) if said == "ok" => return,
        Ok(said) => return found.push(broken(format!("{shown} is damaged: {said}"))),
        Err(error) => error,
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let problem = format!("{shown} is kept locked by another process; runs are not counted meanwhile");
            let todo = "wait for it, or end it; taking the file from it would lose its counts";
            found.push(Trouble::new("statistics", Level::Weak, problem, todo));
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            // A place where nobody may write is told about by whoever looks at the home.
            if std::fs::File::open(path).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied) {
                let trouble = Trouble::new("statistics", Level::Broken, format!("{shown} cannot be read: {error}"), "");
                found.push(trouble.cured(Cure::Permit(path.to_owned())));
            }
        }
        _ => found.push(broken(format!("{shown} is damaged: {error}"))),
    }
}
