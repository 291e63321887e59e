//! Plain types that every part of jarvis shares. No I/O, no runtime: a type lives here when two crates need it.

mod capability;
mod error;
mod event;
mod image;
mod message;
mod plan;
mod process;
mod purpose;
mod reasoning;
mod text;

pub use capability::{
    Capability, CapabilityName, Change, CreatedBy, Example, Grants, Limits, NameError, Origin, Parameter, Runtime,
    Status,
};
pub use error::{ErrorBody, ErrorKind};
pub use event::{Event, ForgeStep, StopReason, Usage};
pub use image::{Image, ImageError, MAX_IMAGE_BYTES, MAX_IMAGE_SIDE};
pub use message::{Message, Role, ToolCall, ToolSpec};
pub use plan::{Called, Egress, ExecPlan, Execution, ExitClass, Fixed, ScriptError, Subject};
pub use process::{Preset, ProcessLimits, ProcessPlan};
pub use purpose::Purpose;
pub use reasoning::Reasoning;
pub use semver::Version;
pub use text::{is_deceptive, kind_of, percent_decoded, request_value, shown, shown_line, value_text};
