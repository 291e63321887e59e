//! The one place every call passes: resolve → decide → audit(intent) → execute → audit(outcome).

mod approve;
mod arguments;
mod error;
mod run;

pub use approve::{ApprovalRequest, Approver, DenyAll};
pub use arguments::{check_arguments, check_schema, check_value};
pub use error::CallError;
pub use jarvis_policy::{Approval, describe as describe_grants};
pub use jarvis_sandbox::{Checked, UseKind, check as check_code};
pub use run::{Dispatch, Parts, Ran};
