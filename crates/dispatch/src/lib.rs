//! The one place every call passes: resolve → decide → audit(intent) → execute → audit(outcome).

mod after;
mod alias;
mod approve;
mod arguments;
mod builtin;
mod callers;
mod compose;
mod error;
mod external;
mod process;
mod run;
mod trust;

pub use alias::ALIAS_ARGUMENTS;
pub use approve::{ApprovalRequest, Approver, DenyAll, Form};
pub use arguments::{check_arguments, check_exact, check_schema, check_value};
pub use builtin::{Content, FileState, builtin_specs, changes_something, command_view, exit_code};
pub use callers::Related;
pub use compose::MOST_CALLS;
pub use error::CallError;
pub use external::ServerRequest;
pub use jarvis_audit::redact;
pub use jarvis_policy::{Approved, Ask, Deny, Verdict, Version as Reviewed, review};
pub use jarvis_policy::{CommandView, ExternalCall, ExternalPermit, ToolRule};
pub use jarvis_sandbox::{Checked, Outside, Server, ServerEnd, Use, UseKind, check_host};
pub use process::ProcessRequest;
pub use run::{Dispatch, Parts, Ran};
