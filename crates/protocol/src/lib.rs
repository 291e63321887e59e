//! Plain types that every part of jarvis shares. No I/O, no runtime: a type lives here when two crates need it.

mod capability;
mod error;
mod event;
mod message;
mod plan;

pub use capability::{
    Capability, CapabilityName, Change, CreatedBy, Example, Grants, Limits, NameError, Origin, Parameter, Runtime,
    Status,
};
pub use error::{ErrorBody, ErrorKind};
pub use event::{Event, ForgeStep, Op, StopReason, Usage};
pub use message::{Message, Role, ToolCall, ToolOutcome, ToolSpec, kind_of};
pub use plan::{ExecPlan, Execution, ExitClass, Fixed, ScriptError, Subject};
pub use semver::Version;
