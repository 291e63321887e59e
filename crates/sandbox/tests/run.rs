//! Runs through a real worker process.

mod common;

use common::{run, sandbox};
use jarvis_protocol::ExitClass;
use serde_json::json;

#[tokio::test]
async fn a_typescript_function_answers_with_its_result() {
    let sandbox = sandbox();
    let done = run(&sandbox, "export default async function run({ a, b }: { a: number; b: number }) { return { sum: a + b } }", json!({"a": 2, "b": 40})).await;
    assert_eq!(done.exit, ExitClass::Ok, "{:?}", done.error);
    assert_eq!(done.result, Some(json!({"sum": 42})));
    eprintln!("{done:?}");
}
