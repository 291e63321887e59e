//! Which grant each call of the `ctx` interface needs.

use jarvis_dispatch::UseKind;
use jarvis_protocol::Grants;
use std::path::Path;

/// `(the call as written, the field of grants, whether anything is granted there)`; `None` for calls that need none.
pub(crate) fn needed(kind: UseKind, grants: &Grants) -> Option<(&'static str, &'static str, bool)> {
    match kind {
        UseKind::Fetch => Some(("fetch", "network", !grants.network.is_empty())),
        UseKind::Read => Some(("ctx.read", "read", !grants.read.is_empty())),
        UseKind::List => Some(("ctx.list", "read", !grants.read.is_empty())),
        UseKind::Write => Some(("ctx.write", "write", !grants.write.is_empty())),
        UseKind::Secret => Some(("ctx.secret", "secrets", !grants.secrets.is_empty())),
        UseKind::Call => None,
    }
}

/// Relative paths become absolute when they are asked for, so that a yes for this folder is none for another.
pub(crate) fn anchor(grants: &mut Grants, workspace: &Path) {
    for path in grants.read.iter_mut().chain(grants.write.iter_mut()) {
        let anchored = workspace.join(path.as_str());
        let mut clean = std::path::PathBuf::new();
        for part in anchored.components() {
            match part {
                std::path::Component::ParentDir => {
                    clean.pop();
                }
                std::path::Component::CurDir => {}
                other => clean.push(other),
            }
        }
        *path = clean.to_string_lossy().into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_grants_are_bound_to_the_folder_they_were_asked_in() {
        let mut grants =
            Grants { read: vec!["data".into(), "/srv/x".into(), "../up".into(), ".".into()], ..Grants::default() };
        anchor(&mut grants, Path::new("/srv/project"));
        assert_eq!(grants.read, ["/srv/project/data", "/srv/x", "/srv/up", "/srv/project"]);
    }
}
