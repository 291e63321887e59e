//! `jarvis serve` with clients that others wrote: OpenAI's own, and schemathesis, which reads the OpenAPI document and
//! sends what it allows and what it forbids.
#![allow(clippy::disallowed_methods, reason = "the peers are programs of their own")]

use crate::common::Home;
use crate::common::provider::{Provider, Reply, grows};
use crate::common::served::Served;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

const TOKEN: &str = "a-token-of-some-length";

/// A program of the folder that `./test` installed the peers into.
fn peer(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("JARVIS_TEST_HTTP_PEERS").map(|folder| PathBuf::from(folder).join("bin").join(name));
    let found = found.filter(|program| program.is_file());
    if found.is_none() {
        jarvis_testkit::skipped(&format!("{name}: JARVIS_TEST_HTTP_PEERS names no folder with it"));
    }
    found
}

fn ran(command: &mut Command) -> String {
    let output = command.env_remove("PYTHONPATH").output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    told
}

#[test]
fn openais_own_client_is_served() {
    let Some(python) = peer("python3") else { return };
    let definition = json!({
        "name": "read_page", "capability": "Reads a page of a note.", "triggers": ["a page is to be read"],
        "parameters": {"type": "object", "properties": {}}, "returns": {"type": "integer"},
        "grants": {"read": ["notes"]}, "examples": [{"args": {}, "returns": 1}],
    });
    let code = "export default function run() {\n  return 1;\n}\n";
    let reach = vec![
        Reply::Call("register_capability", json!({"definition": definition, "code": code})),
        Reply::Text("It could not be made."),
    ];
    let provider = Provider::by_mark(vec![
        ("mark-grow", grows()),
        ("mark-stream", vec![Reply::Text("早上好 — it is morning.")]),
        ("mark-talk", vec![Reply::Text("Ada, and a picture.")]),
        ("mark-fail", vec![Reply::Status("500 Internal Server Error", "it broke")]),
        ("mark-reach", reach),
    ]);
    let home = Home::new().config(&provider.patient_config(60)).var("TOKEN", TOKEN);
    let served = Served::start(&home, &["--token-env", "TOKEN"]).with_token(TOKEN);
    let script = crate::common::source("tests/interfaces/peers/openai_client.py");
    assert!(ran(Command::new(python).arg(script).arg(served.url())).contains("ok"));
    // What it said before, its picture and its wish reached the model.
    let requests = provider.requests.lock().unwrap();
    let with = |mark: &str| requests.iter().rfind(|request| request.to_string().contains(mark)).unwrap().to_string();
    assert!(with("mark-grow").contains("Answer briefly."));
    let talk = with("mark-talk");
    assert!(talk.contains("Hello Ada.") && talk.contains("data:image/png;base64,"), "{talk}");
    drop(requests);
    // What it made is kept, its conversations are not; what needed a yes is not there.
    let names = served.get("/v1/capabilities").is(200)["capabilities"].clone();
    assert_eq!(names.as_array().unwrap().len(), 1, "{names}");
    let sessions = served.get("/v1/sessions").is(200);
    assert_eq!((&sessions["total"], &sessions["unkept"]), (&json!(0), &json!([])));
}

#[test]
fn it_does_what_its_openapi_document_says() {
    let Some(schemathesis) = peer("schemathesis") else { return };
    let provider = Provider::answering(|_| Some(Reply::Text("Yes.")));
    let home = crate::common::prepared(&crate::common::reverse_text(), crate::common::REVERSE);
    let _ = crate::common::register(&home, &[]).ok();
    let config = format!("{}[serve]\nrate = 100000\nmax_sessions = 100000\n", provider.patient_config(60));
    let home = home.config(&config).var("TOKEN", TOKEN);
    let served = Served::start(&home, &["--token-env", "TOKEN"]).with_token(TOKEN);
    let document = served.get("/openapi.json").is(200);
    assert!(document["paths"].as_object().is_some_and(|paths| paths.len() >= 20), "{document}");
    // Whether a folder, a model or a session is there, no schema can say: what is well-formed may be refused.
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                  response_headers_conformance,negative_data_rejection,unsupported_method,ignored_auth";
    let told = ran(Command::new(schemathesis)
        .args([
            "run",
            &format!("{}/openapi.json", served.url()),
            "--checks",
            checks,
            "--phases",
            "examples,coverage,fuzzing",
        ])
        .args(["--max-examples", "20", "--seed", "1", "--request-timeout", "30", "--workers", "1", "--no-color"])
        // A stream does not end.
        .args(["--exclude-path", "/v1/sessions/{id}/events"])
        .args(["-H", &format!("Authorization: Bearer {TOKEN}")])
        .current_dir(home.path()));
    println!("{told}");
    let _: Value = served.get("/v1/sessions").is(200);
}
