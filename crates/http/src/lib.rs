//! jarvis over HTTP: REST and server-sent events under `/v1`, chat completions in OpenAI's form, metrics, traces, and an
//! OpenAPI document made from the code. It holds no logic of its own: operations go to `jarvis_host`, events come from it.

mod api;
mod app;
mod error;
mod extract;
mod guard;
mod metrics;
mod openai;
mod server;
mod stall;
mod telemetry;
mod view;

pub use api::document;
pub use app::{App, Bounds, Found, ModelRow, Parts, Search};
pub use guard::Access;
pub use server::{Served, serve};
pub use telemetry::{Telemetry, TelemetryError};
