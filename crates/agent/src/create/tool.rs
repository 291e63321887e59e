//! The tool `create_tool`: a capability, said in the words of other agents. Checked and verified as every capability.

use crate::bootstrap::{self, Bootstrap, Did};
use jarvis_dispatch::{Approver, CallError};
use jarvis_protocol::{Event, ToolSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const TOOL: &str = "create_tool";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description:
            "Make a tool from code: the same as register_capability with fewer words, for what needs no grants. It \
                      is checked, run on the examples, and can be used at once with execute_capability."
                .to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false,
            "required": ["name", "description", "parameters_schema", "code", "examples"], "properties": {
                "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]{1,63}$"},
                "description": {"type": "string", "minLength": 1, "description": "one sentence"},
                "parameters_schema": {"type": "object", "description": "JSON Schema of args"},
                "code": {"type": "string", "minLength": 1, "description": "as for register_capability"},
                "examples": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["args"]},
                    "description": "[{args, returns}]"},
                "runtime": {"enum": ["typescript", "python", "deno"]}}}),
    }
}

pub(super) async fn call(
    bootstrap: &Bootstrap,
    args: &Value,
    emit: &mut (dyn FnMut(Event) + Send),
    approver: &mut dyn Approver,
    cancel: &CancellationToken,
) -> Result<(Value, Did), CallError> {
    // What is made is a capability: a rule on either name holds.
    for name in [TOOL, bootstrap::REGISTER] {
        bootstrap.dispatch().gate(name, &mut *approver).await?;
    }
    bootstrap.call(bootstrap::REGISTER, &registered(args), emit, approver, cancel).await
}

/// The same in the words of `register_capability`.
fn registered(args: &Value) -> Value {
    let mut definition = json!({
        "name": args["name"], "capability": args["description"], "parameters": args["parameters_schema"],
        "examples": args["examples"],
    });
    if let Some(runtime) = args.get("runtime") {
        definition["runtime"] = runtime.clone();
    }
    json!({"definition": definition, "code": args["code"]})
}
