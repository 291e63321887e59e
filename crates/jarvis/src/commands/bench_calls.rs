//! One row of `jarvis bench sandbox`: code that calls other code by name, in a worker of its own.

use super::bench_sandbox::{TYPESCRIPT, permit};
use futures::future::BoxFuture;
use jarvis_protocol::{Runtime, ScriptError};
use jarvis_sandbox::{Caller, Executor, Nesting, Wanted};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub const CALLS: &str = "export default async ({ n }: { n: number }) => await capability(\"double\", { n });\n";

/// Runs the benchmark's function for whoever calls.
pub struct Doubles<'a> {
    pub executor: &'a Executor,
    pub cancel: &'a CancellationToken,
}

impl Caller for Doubles<'_> {
    fn call(&self, wanted: Wanted) -> BoxFuture<'_, Result<Value, ScriptError>> {
        Box::pin(async move {
            let failed = |message: String| ScriptError::new("CapabilityError", message);
            let n = wanted.args["n"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
            let permit = permit(Runtime::Typescript, TYPESCRIPT, n).map_err(|e| failed(e.message()))?;
            let nesting = Nesting { caller: self, depth: 1 };
            let done = self.executor.run_among(permit, Some(nesting), self.cancel).await;
            let done = done.map_err(|e| failed(e.to_string()))?;
            done.result.clone().ok_or_else(|| failed(done.failure()))
        })
    }
}
