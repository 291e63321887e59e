//! The one place every call passes: resolve → decide → audit(intent) → execute → audit(outcome).

mod after;
mod alias;
mod approve;
mod arguments;
mod builtin;
mod callers;
mod compose;
mod editor;
mod error;
mod process;
mod run;
mod trust;

pub use alias::ALIAS_ARGUMENTS;
pub use approve::{ApprovalRequest, Approver, DenyAll};
pub use arguments::{check_arguments, check_exact, check_schema, check_value};
pub use builtin::{Content, FileState, builtin_specs, changes_something, command_view, exit_code};
pub use callers::Related;
pub use compose::MOST_CALLS;
pub use editor::Editor;
pub use error::CallError;
pub use jarvis_audit::redact;
pub use jarvis_policy::CommandView;
pub use jarvis_policy::{Approved, Ask, Deny, Verdict, Version as Reviewed, review};
pub use jarvis_sandbox::{Checked, Use, UseKind, check_host};
pub use process::ProcessRequest;
pub use run::{Dispatch, Parts, Ran};
