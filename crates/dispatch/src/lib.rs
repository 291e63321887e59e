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
mod external;
mod folders;
mod process;
mod rules;
mod run;
mod trust;
mod words;

pub use alias::ALIAS_ARGUMENTS;
pub use approve::{ApprovalRequest, Approver, DenyAll, Form};
pub use arguments::{check_arguments, check_exact, check_schema, check_value};
pub use builtin::{Checker, CheckerSaid, Content, MADE_IN, MakePermit, Making, Tried};
pub use builtin::{FileState, builtin_specs, changes_something, command_view, exit_code};
pub use callers::Related;
pub use compose::MOST_CALLS;
pub use editor::Editor;
pub use error::CallError;
pub use external::ServerRequest;
pub use folders::{Broken, Collection, Each, Folders, Found, Origin, read_text};
pub use jarvis_audit::redact;
pub use jarvis_policy::{
    Action as RuleAction, BEFORE as RULES_ASKED_AT, Condition as RuleCondition, Effect as RuleEffect,
    Example as RuleExample, PERMISSIONS as RULES_OF_PERMISSIONS, Reasoned as RuleReason, Rule as RuleEntry, RuleFile,
};
pub use jarvis_policy::{Approved, Ask, Deny, Verdict, Version as Reviewed, review};
pub use jarvis_policy::{CommandView, ExternalCall, ExternalPermit, ToolRule};
pub use jarvis_sandbox::{
    Checked, Handed, NewFile, Outside, Placed, PythonServer, Server, ServerEnd, Use, UseKind, check_host,
};
pub use process::ProcessRequest;
pub use rules::{KeptRules, RuleBook, Rules, check_rules, full_path};
pub use run::{Dispatch, Parts, Ran};
pub use words::quoted;
