//! Small pieces of JavaScript against the values that Deno gives for them: each is right, or throws and says what is
//! missing. With JARVIS_TEST_DENO (the path of a deno) the values themselves are checked.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod common;
#[path = "common/snippets.rs"]
mod snippets;

use common::{run, sandbox, value};
use jarvis_protocol::ExitClass;
use serde_json::{Value, json};
use snippets::{REFUSED, RIGHT};

/// Numbers, dates and words in many locales. Made by `scripts/locales.js`: an expression, a tab, its value as JSON; before
/// them the constants that the expressions use.
const INTL: &str = include_str!("../data/intl.tsv");

fn intl() -> (&'static str, Vec<(&'static str, &'static str)>) {
    let (constants, rows) = INTL.split_once('\n').unwrap();
    (constants, rows.lines().map(|row| row.split_once('\t').unwrap()).collect())
}

/// An array of the values of these expressions as JSON text; of one that throws, its error.
fn all_of(constants: &str, rows: &[(&str, &str)]) -> String {
    let each: Vec<String> = rows.iter().map(|(code, _)| format!("() => ({code})")).collect();
    format!(
        "(() => {{ const {constants}; const plain = (_, v) => (typeof v === 'bigint' ? String(v) : v); return [{}]\
         .map((f) => {{ try {{ return JSON.stringify(f(), plain) }} catch (e) {{ return String(e) }} }}) }})()",
        each.join(",\n")
    )
}

#[tokio::test]
async fn the_engine_gives_the_right_value_for_every_snippet() {
    let sandbox = sandbox();
    let mut wrong = Vec::new();
    for (code, right) in RIGHT {
        let done = value(&sandbox, code).await;
        let right: Value = serde_json::from_str(right).unwrap();
        if done.result.as_ref() != Some(&right) {
            let got = done.result.map(|r| r.to_string()).or(done.error.map(|e| e.to_string()));
            wrong.push(format!("{code}\n    right: {right}\n    got:   {}", got.unwrap_or_default()));
        }
    }
    assert!(RIGHT.len() >= 280, "snippets were lost");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn numbers_dates_and_words_of_every_locale_are_those_of_deno() {
    let sandbox = sandbox();
    let (constants, rows) = intl();
    assert!(rows.len() >= 1000, "expressions were lost: {}", rows.len());
    let mut wrong = Vec::new();
    for rows in rows.chunks(100) {
        let done = value(&sandbox, &all_of(constants, rows)).await;
        let got = done.result.unwrap_or_else(|| panic!("{:?}", done.error));
        for ((code, right), got) in rows.iter().zip(got.as_array().unwrap()) {
            if got.as_str() != Some(right) {
                wrong.push(format!("{code}\n    right: {right}\n    got:   {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_the_engine_lacks_is_an_error_that_names_it() {
    let sandbox = sandbox();
    let mut wrong = Vec::new();
    for (code, named) in REFUSED {
        let code = format!("export default async function run(args, ctx) {{ return ({code}) }}");
        let done = run(&sandbox, &code, json!({})).await;
        let message = done.error.map(|e| e.to_string()).unwrap_or_default();
        if done.exit != ExitClass::Threw || !message.contains(named) {
            wrong.push(format!("{code}\n    {:?} {message}", done.result));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What Deno does otherwise, and why ours is meant. A case that has become the same fails.
const OTHERWISE: &[(&str, &str)] = &[];

/// A result as the sandbox writes it.
const AS_RESULT: &str = r#"
const asResult = (x) => {
  if (typeof x === "bigint") return x >= -9007199254740991n && x <= 9007199254740991n ? Number(x) : String(x);
  if (typeof x !== "object" || x === null) return x;
  if (x instanceof Date) return x.toISOString();
  if (x instanceof Map) return Object.fromEntries([...x].map(([k, v]) => [k, asResult(v)]));
  if (x instanceof Set || Array.isArray(x)) return [...x].map((v) => asResult(v) ?? null);
  return Object.fromEntries(Object.entries(x).map(([k, v]) => [k, asResult(v)]));
};
"#;

#[test]
fn the_right_values_are_those_of_deno_itself() {
    let Some(deno) = std::env::var_os("JARVIS_TEST_DENO") else {
        return jarvis_testkit::skipped("expected values against deno's own: JARVIS_TEST_DENO names none");
    };
    let (constants, rows) = intl();
    let each: Vec<String> = RIGHT.iter().map(|(code, _)| format!("async () => ({code})")).collect();
    let script = format!(
        "{AS_RESULT}\nconst out = [];\nfor (const f of [{}]) {{ try {{ out.push(JSON.stringify(asResult(await f()))) }} \
         catch (e) {{ out.push(String(e)) }} }}\nconsole.log(JSON.stringify([out, {}]));",
        each.join(",\n"),
        all_of(constants, &rows)
    );
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("snippets.js");
    std::fs::write(&file, script).unwrap();
    let output = std::process::Command::new(deno)
        .args(["run", "--quiet", "--no-prompt", "--no-config"])
        .arg(&file)
        .env("TZ", "UTC")
        .env("LANG", "en_US.UTF-8")
        .env("DENO_DIR", home.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [ours, locales]: [Vec<String>; 2] = serde_json::from_slice(&output.stdout).unwrap();
    let mut wrong = Vec::new();
    for ((code, right), deno) in RIGHT.iter().zip(&ours) {
        let same = serde_json::from_str::<Value>(deno).ok() == serde_json::from_str::<Value>(right).ok();
        if same == OTHERWISE.iter().any(|(known, _)| known == code) {
            wrong.push(format!("{code}\n    expected: {right}\n    deno:     {deno}"));
        }
    }
    for ((code, right), deno) in rows.iter().zip(&locales) {
        if deno != right {
            wrong.push(format!("{code}\n    expected: {right}\n    deno:     {deno}"));
        }
    }
    assert_eq!((ours.len(), locales.len()), (RIGHT.len(), rows.len()));
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("{} values are Deno's", ours.len() + locales.len());
}
