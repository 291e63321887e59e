//! What is registered already: used again, replaced only by what does as well, and never by something else.

use crate::bench::{Bench, Turned, definition};
use crate::refusals::distinct_draft;
use futures::future::BoxFuture;
use jarvis_audit::{AuditLog, Filter};
use jarvis_dispatch::{ApprovalRequest, Approver, DenyAll};
use jarvis_forge::{Draft, Forge};
use jarvis_policy::Policy;
use jarvis_protocol::{Capability, CapabilityName, Event, ForgeStep, Version};
use jarvis_testkit::text;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Asked(Vec<ApprovalRequest>, bool);

impl Approver for Asked {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        self.0.push(request.clone());
        let say = self.1;
        Box::pin(async move { say })
    }
}

fn name(text: &str) -> CapabilityName {
    CapabilityName::new(text).unwrap()
}

fn draft(given: Value, code: &str) -> Draft {
    let capability: Capability = serde_json::from_value(given).unwrap();
    Draft {
        capability,
        code: code.to_owned(),
        request: None,
        change: "test".to_owned(),
        instead_of: None,
        restored: false,
    }
}

fn text_param() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
}

async fn submit(forge: &Forge, draft: Draft, approver: &mut dyn Approver) -> Result<(), String> {
    let cancel = CancellationToken::new();
    forge.submit(draft, &mut |_| {}, approver, &cancel).await.map(|_| ()).map_err(|e| e.to_string())
}

#[tokio::test]
async fn a_version_whose_parameters_drop_recorded_answers_is_asked_about() {
    let bench = Bench::new();
    let forge = bench.forge(Policy::closed());
    let upper = "export default function run({ text }: { text: string }) { return text.toUpperCase(); }";
    let first = definition("shout", text_param(), json!([{"args": {"text": "hi"}, "returns": "HI"}]));
    submit(&forge, draft(first, upper), &mut DenyAll).await.unwrap();

    let other = json!({"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"],
        "additionalProperties": false});
    let second = definition("shout", other, json!([{"args": {"words": "hi"}, "returns": "HI!"}]));
    let code = "export default function run({ words }: { words: string }) { return words.toUpperCase() + '!'; }";
    let mut no = Asked(Vec::new(), false);
    let refused = submit(&forge, draft(second.clone(), code), &mut no).await.unwrap_err();
    assert!(refused.contains("1 recorded answers") && no.0.len() == 1, "{refused}");
    let now = bench.registry().get(&name("shout")).unwrap().unwrap();
    assert_eq!(now.version, Version::new(1, 0, 0));

    let mut yes = Asked(Vec::new(), true);
    submit(&forge, draft(second, code), &mut yes).await.unwrap();
    assert_eq!(bench.registry().get(&name("shout")).unwrap().unwrap().version.major, 2);
}

const COUNT: &str =
    "build count_letter: Count how often a letter occurs in a text\ntext = \"mississippi\"\nletter = \"s\"";
const COUNT_CODE: &str = "export default function run({ text, letter }: { text: string, letter: string }) {
  if (text.length > 20) throw new RangeError('too long');
  return text.split(letter).length - 1;
}";

/// Two candidates that agree.
fn twice(code: &str) -> Result<jarvis_model::Completion, jarvis_model::ModelError> {
    let mut reply = text(code)?;
    reply.alternatives.push(code.to_owned());
    Ok(reply)
}

async fn counting(bench: &Bench) {
    let replies = vec![text(COUNT), twice(COUNT_CODE)];
    let first = bench.turn(false, "How often does the letter s occur in mississippi?", replies).await;
    assert_eq!(first.answer(), "4");
}

#[tokio::test]
async fn a_capability_that_fails_is_given_a_new_version_that_keeps_what_was_recorded() {
    let bench = Bench::new();
    counting(&bench).await;
    let long = "a man a plan a canal panama";
    let again = format!("text = \"{long}\"\nletter = \"a\"");
    let replies = vec![
        text(&format!("use count_letter\n{again}")),
        text(&format!("build count_letter: Count how often a letter occurs in a text\n{again}")),
        twice(&COUNT_CODE.replace("  if (text.length > 20) throw new RangeError('too long');\n", "")),
    ];
    let turned = bench.turn(false, &format!("How often does the letter a occur in \"{long}\"?"), replies).await;
    assert_eq!(turned.answer(), "10");
    let said = turned.events.iter().any(|e| matches!(e, Event::Notice { message } if message.contains("too long")));
    assert!(said, "{:?}", turned.events);
    let all = bench.registry().list().unwrap().capabilities;
    assert_eq!(all.len(), 1, "one capability, in a new version: {all:?}");
    assert!(all[0].version > Version::new(1, 0, 0));
    assert!(all[0].examples.iter().any(|e| e.args["text"] == "mississippi"), "{:?}", all[0].examples);
}

#[tokio::test]
async fn another_thing_under_a_name_that_is_taken_gets_another_name() {
    let bench = Bench::new();
    counting(&bench).await;
    let plan = "build count_letter: Shift every digit of a serial code upward\nserial = \"7719\"\nsteps = 3";
    let code = "export default function run({ serial, steps }: { serial: string, steps: number }) {
  return serial.replace(/[0-9]/g, (d) => String((Number(d) + steps) % 10));
}";
    let replies = vec![text(plan), twice(code)];
    let turned = bench.turn(false, "Shift every digit of the serial code \"7719\" upward by 3", replies).await;
    assert_eq!(turned.answer(), "0042");
    assert_eq!(turned.built_and_used().0, ["count_letter_2"]);
    let old = bench.registry().get(&name("count_letter")).unwrap().unwrap();
    assert_eq!(old.version, Version::new(1, 0, 0), "what others rely on is as it was");
}

#[tokio::test]
async fn building_what_there_is_already_is_a_reuse_and_said_so() {
    let bench = Bench::new();
    counting(&bench).await;
    let plan = COUNT.replace("mississippi", "banana").replace("\"s\"", "\"a\"");
    let turned: Turned = bench.turn(false, "How often does the letter a occur in banana?", vec![text(&plan)]).await;
    assert_eq!(turned.answer(), "3");
    assert_eq!(turned.steps(), [ForgeStep::Reused]);
}

#[tokio::test]
async fn the_audit_of_a_rejected_draft_holds_no_value_of_the_request() {
    let bench = Bench::new();
    let forge = bench.forge(Policy::closed());
    let secretive = "Zaphod-Beeblebrox-42";
    let given = definition("shout", text_param(), json!([{"args": {"text": secretive}, "returns": secretive}]));
    let code = "export default function run({ text }: { text: string }) { throw new Error('no ' + text); }";
    let refused = submit(&forge, draft(given, code), &mut DenyAll).await.unwrap_err();
    assert!(refused.contains(secretive), "whoever wrote it is told: {refused}");
    let log = AuditLog::open(bench.home.path().join("audit"));
    let entries = log.tail(100, &Filter::default()).unwrap().entries;
    assert!(entries.len() > 3);
    let all: Vec<String> = entries.iter().map(|e| serde_json::to_string(&e.record.detail).unwrap()).collect();
    assert!(!all.join("\n").contains("Zaphod"), "{all:?}");
}

#[tokio::test]
async fn a_registry_of_a_hundred_is_looked_at_before_it_grows_on() {
    let bench = Bench::new();
    let registry = bench.registry();
    for index in 0..jarvis_forge::CROWDED {
        let Draft { capability, code, .. } = distinct_draft(&format!("thing_{index}"), index);
        let now = "2026-01-05T10:00:00Z".to_owned();
        let new = jarvis_registry::NewVersion {
            capability,
            code,
            change: "first".to_owned(),
            created_by: jarvis_protocol::CreatedBy::Human,
            model: None,
            now,
        };
        registry.register(new).unwrap();
    }
    let mut no = Asked(Vec::new(), false);
    let forge = bench.forge(Policy::closed());
    let refused = submit(&forge, distinct_draft("one_more", 777), &mut no).await.unwrap_err();
    assert!(refused.contains("100 capabilities"), "{refused}");
}

async fn roll_back(forge: &Forge, to: Option<Version>, approver: &mut dyn Approver) -> Result<Version, String> {
    let cancel = CancellationToken::new();
    let outcome = forge.rollback(&name("shout"), to.as_ref(), &mut |_| {}, approver, &cancel).await;
    outcome.map(|accepted| accepted.version).map_err(|e| e.to_string())
}

#[tokio::test]
async fn an_earlier_version_is_put_back_as_a_new_one_and_asks_again_for_what_it_reaches() {
    let bench = Bench::new();
    let forge = bench.forge(Policy::closed());
    let examples = json!([{"args": {"text": "hi"}, "returns": "HI"}]);
    let upper = "export default function run({ text }: { text: string }) { return text.toUpperCase(); }";
    submit(&forge, draft(definition("shout", text_param(), examples), upper), &mut DenyAll).await.unwrap();
    let louder = "export default function run({ text }: { text: string }) { return text.toUpperCase() + (text.length > 2 ? '!' : ''); }";
    let more = json!([{"args": {"text": "hey"}, "returns": "HEY!"}]);
    submit(&forge, draft(definition("shout", text_param(), more), louder), &mut DenyAll).await.unwrap();

    assert!(roll_back(&forge, Some(Version::new(9, 0, 0)), &mut DenyAll).await.unwrap_err().contains("1.0.0, 1.0.1"));
    // What its successor was recorded to do does not bind it.
    assert_eq!(roll_back(&forge, None, &mut DenyAll).await, Ok(Version::new(1, 0, 2)));
    let now = bench.registry().get(&name("shout")).unwrap().unwrap();
    assert_eq!(bench.registry().code(&now).unwrap().text, upper);
    assert_eq!(now.changelog.len(), 3);
    assert_eq!(now.changelog[2].change, "rolled back to 1.0.0");
    assert!(roll_back(&forge, Some(Version::new(1, 0, 2)), &mut DenyAll).await.unwrap_err().contains("already"));

    let mut reading = definition("shout", text_param(), json!([{"args": {"text": "hi"}, "returns": "HI"}]));
    reading["grants"] = json!({"read": ["data"]});
    submit(&forge, draft(reading, upper), &mut Asked(Vec::new(), true)).await.unwrap();
    // The fifth within ten minutes.
    let mut yes = Asked(Vec::new(), true);
    submit(&forge, draft(definition("shout", text_param(), json!([{"args": {"text": "ab"}}])), upper), &mut yes)
        .await
        .unwrap();
    let versions: Vec<Version> =
        bench.registry().history(&name("shout")).unwrap().into_iter().map(|entry| entry.version).collect();
    let with_grant = versions[versions.len() - 2].clone();
    let mut no = Asked(Vec::new(), false);
    let refused = roll_back(&forge, Some(with_grant), &mut no).await.unwrap_err();
    assert!(refused.contains("read") && no.0.len() == 1, "{refused}");
}
