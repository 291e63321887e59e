//! Which grant each call of the `ctx` interface needs.

use jarvis_dispatch::UseKind;
use jarvis_protocol::Grants;

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
