//! What must not run, and who must be asked.

use crate::bench::{Bench, FIBONACCI, definition, files, number_param};
use futures::future::BoxFuture;
use jarvis_agent::TurnLimits;
use jarvis_dispatch::{ApprovalRequest, Approver, CallError, DenyAll};
use jarvis_forge::{Draft, ForgeError};
use jarvis_policy::{Approval, Policy};
use jarvis_protocol::{Capability, Event};
use jarvis_testkit::{call, text};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn draft(name: &str) -> Draft {
    let examples = json!([{"args": {"n": 10}, "returns": 55}]);
    let capability: Capability = serde_json::from_value(definition(name, number_param("n"), examples)).unwrap();
    Draft {
        capability,
        code: FIBONACCI.to_owned(),
        request: None,
        change: "first".to_owned(),
        instead_of: None,
        restored: false,
    }
}

async fn registered(bench: &Bench) -> jarvis_forge::Forge {
    let forge = bench.forge(Policy::closed());
    forge.submit(draft("fibonacci"), &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap();
    forge
}

async fn run(forge: &jarvis_forge::Forge, name: &str) -> Result<serde_json::Value, String> {
    let ran = forge.dispatch().run(name, json!({"n": 10}), &mut |_| {}, &CancellationToken::new()).await;
    match ran {
        Ok(ran) => Ok(ran.value),
        Err(CallError::RespondToModel(body)) => Err(body.message),
        Err(CallError::Fatal(body)) => Err(format!("fatal: {}", body.message)),
    }
}

#[tokio::test]
async fn code_that_was_changed_by_hand_does_not_run() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    assert_eq!(run(&forge, "fibonacci").await, Ok(json!(55)));
    let file = bench.root().join("tools/fibonacci.ts");
    std::fs::write(&file, FIBONACCI.replace("return a", "return 1n")).unwrap();
    assert!(run(&forge, "fibonacci").await.unwrap_err().contains("changed by hand"));
}

#[tokio::test]
async fn a_file_that_is_not_in_the_index_never_runs() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    std::fs::write(bench.root().join("tools/dropped.ts"), FIBONACCI).unwrap();
    assert!(run(&forge, "dropped").await.unwrap_err().contains("no capability is called"));
}

#[tokio::test]
async fn an_entry_removed_from_the_index_no_longer_runs() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    let index = bench.root().join("index.json");
    let mut content: serde_json::Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    content["capabilities"] = json!([]);
    std::fs::write(&index, serde_json::to_vec_pretty(&content).unwrap()).unwrap();
    assert!(run(&forge, "fibonacci").await.is_err());
}

#[tokio::test]
async fn the_same_thing_under_another_name_leads_to_reuse() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    let before = files(&bench.root());
    let mut again = draft("fibonacci_number");
    again.capability.capability = "Do fibonacci".to_owned();
    let error = forge.submit(again, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Duplicate { name, .. } if name.as_str() == "fibonacci"), "{error:?}");
    assert_eq!(files(&bench.root()), before);
}

/// Price with tax, of another country each.
fn with_tax(name: &str, says: &str, code: &str, example: serde_json::Value) -> Draft {
    let mut draft = draft(name);
    draft.capability.capability = says.to_owned();
    draft.capability.parameters = number_param("price");
    draft.capability.examples = vec![serde_json::from_value(example).unwrap()];
    draft.code = code.to_owned();
    draft
}

const GERMANY: &str = "Computes the gross price with 19 percent VAT for Germany";
const FRANCE: &str = "Computes the gross price with 20 percent VAT for France";
const AT_20: &str = "export default function run({ price }) { return price * 120 / 100; }";

#[tokio::test]
async fn what_gives_other_answers_is_no_duplicate_however_alike_its_words_are() {
    let bench = Bench::new();
    let forge = bench.forge(Policy::closed());
    let at_19 = "export default function run({ price }) { return price * 119 / 100; }";
    let germany = with_tax("vat_germany", GERMANY, at_19, json!({"args": {"price": 100}, "returns": 119}));
    forge.submit(germany, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap();

    // Nothing that tells them apart: as alike as the words are.
    for example in [json!({"args": {"price": 100}}), json!({"args": {"price": 0}, "returns": 0})] {
        let silent = with_tax("vat_france", FRANCE, AT_20, example);
        let error = forge.submit(silent, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
        assert!(matches!(&error, ForgeError::Duplicate { name, .. } if name.as_str() == "vat_germany"), "{error:?}");
        assert!(error.for_model().contains("the answer in which the two differ"), "{}", error.for_model());
    }
    // Recorded for the same call, and seen by running it on one that is not recorded, under another argument name too.
    let recorded = with_tax("vat_france", FRANCE, AT_20, json!({"args": {"price": 100}, "returns": 120}));
    forge.submit(recorded, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap();
    let says = "Computes the gross price with 10 percent VAT for Austria";
    let code = "export default function run({ net }) { return net * 110 / 100; }";
    let mut ran = with_tax("vat_austria", says, code, json!({"args": {"net": 50}, "returns": 55}));
    ran.capability.parameters = number_param("net");
    forge.submit(ran, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap();
    // A wrong answer opens no way in: it is verified like any other.
    let lie = with_tax("vat_again", GERMANY, at_19, json!({"args": {"price": 100}, "returns": 121}));
    let error = forge.submit(lie, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("expected 121"), "{error}");
    let same = with_tax("vat_again", GERMANY, at_19, json!({"args": {"price": 200}, "returns": 238}));
    let error = forge.submit(same, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Duplicate { name, .. } if name.as_str() == "vat_germany"), "{error:?}");
}

#[tokio::test]
async fn what_has_grants_is_not_run_to_see_whether_it_does_the_same() {
    let bench = Bench::new();
    std::fs::create_dir(bench.home.path().join("data")).unwrap();
    let forge = bench.forge(Policy { approval: Approval::Auto, ..Policy::closed() });
    let marker = bench.home.path().join("data/ran");
    let code = format!(
        "export default async function run({{ price }}, ctx) {{ await ctx.write('{}', 'x'); return price * 2; }}",
        marker.display()
    );
    let mut reaching = with_tax("vat_germany", GERMANY, &code, json!({"args": {"price": 1}}));
    reaching.capability.grants.write = vec!["data".to_owned()];
    forge.submit(reaching, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap();
    std::fs::remove_file(&marker).unwrap();
    let other = with_tax("vat_france", FRANCE, AT_20, json!({"args": {"price": 100}, "returns": 120}));
    let error = forge.submit(other, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Duplicate { name, .. } if name.as_str() == "vat_germany"), "{error:?}");
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_version_that_does_worse_on_the_recorded_examples_is_not_registered() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    let before = files(&bench.root());
    let mut worse = draft("fibonacci");
    worse.code = "export default function run({ n }: { n: number }) { return n * 2; }".to_owned();
    worse.capability.examples = vec![serde_json::from_value(json!({"args": {"n": 4}, "returns": 8})).unwrap()];
    let error = forge.submit(worse, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("expected 55"), "{error}");
    assert_eq!(files(&bench.root()), before);
}

#[tokio::test]
async fn undeclared_network_is_refused_and_declared_network_needs_a_person() {
    let bench = Bench::new();
    let forge = bench.forge(Policy::closed());
    let mut fetching = draft("fetch_page");
    fetching.code =
        "export default async function run({ n }) { return (await fetch('https://api.example.com/' + n)).text(); }"
            .to_owned();
    let undeclared =
        forge.submit(fetching.clone(), &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(undeclared.to_string().contains("grants.network"), "{undeclared}");

    fetching.capability.grants.network = vec!["api.example.com".to_owned()];
    let mut asked = Vec::new();
    let mut no = Recorder { asked: &mut asked, say: false };
    let refused = forge.submit(fetching, &mut |_| {}, &mut no, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(refused, ForgeError::NotApproved { .. }), "{refused:?}");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].grants.network, ["api.example.com"]);
    assert!(bench.registry().list().unwrap().capabilities.is_empty());
}

/// Drafts that are no duplicates of each other.
pub fn distinct_draft(name: &str, index: usize) -> Draft {
    let mut draft = draft(name);
    draft.capability.parameters = number_param(&format!("n{index}"));
    draft.capability.examples = vec![serde_json::from_value(json!({"args": {format!("n{index}"): 10}})).unwrap()];
    draft.code = format!("export default function run({{ n{index} }}) {{ return n{index} * 1{index}; }}");
    draft
}

#[tokio::test]
async fn a_burst_of_registrations_stops_automatic_approval() {
    let bench = Bench::new();
    let forge = bench.forge(Policy { approval: Approval::Ask, ..Policy::closed() });
    let names = ["alpha_one", "beta_two", "gamma_three", "delta_four", "epsilon_five", "zeta_six"];
    let mut asked = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let draft = distinct_draft(name, index);
        let mut approver = Recorder { asked: &mut asked, say: true };
        forge.submit(draft, &mut |_| {}, &mut approver, &CancellationToken::new()).await.unwrap();
        assert_eq!(asked.len(), usize::from(index >= 5), "after {name}");
    }
    assert!(asked[0].reason.contains("5 capabilities"), "{}", asked[0].reason);
}

struct Recorder<'a> {
    asked: &'a mut Vec<ApprovalRequest>,
    say: bool,
}

impl Approver for Recorder<'_> {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        self.asked.push(request.clone());
        let say = self.say;
        Box::pin(async move { say })
    }
}

#[tokio::test]
async fn a_definition_without_parameters_for_a_request_with_values_is_refused() {
    let bench = Bench::new();
    let turned = bench
        .turn(
            true,
            "What is 17 times 3?",
            vec![
                call(
                    "1",
                    "register_capability",
                    json!({"definition": definition("answer", json!({"type": "object", "properties": {}}), json!([{"args": {}}])),
                        "code": "export default function run() { return 51; }"}),
                ),
                text("no"),
            ],
        )
        .await;
    assert!(turned.told(1).contains("make them parameters"), "{}", turned.told(1));
}

#[tokio::test]
async fn intent_and_outcome_are_on_the_audit_without_the_values() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    run(&forge, "fibonacci").await.unwrap();
    let log = jarvis_audit::AuditLog::open(bench.home.path().join("audit"));
    assert!(log.verify().unwrap().problems.is_empty());
    let text = files(&bench.home.path().join("audit"))
        .into_iter()
        .map(|(_, b)| String::from_utf8_lossy(&b).into_owned())
        .collect::<String>();
    for word in ["intent", "outcome", "registered", "seccomp"] {
        assert!(text.contains(word), "{word} is not on the audit: {text}");
    }
    assert!(!text.contains("\"n\":10"));
}

#[tokio::test]
async fn an_empty_question_is_refused_and_a_huge_one_is_bounded() {
    let bench = Bench::new();
    for question in ["", "  \n ", &"x".repeat(5 << 20)] {
        let turned = bench
            .turn_with(
                true,
                question,
                vec![text("never asked")],
                TurnLimits::STANDARD,
                &mut DenyAll,
                &CancellationToken::new(),
            )
            .await;
        assert!(matches!(turned.events.last(), Some(Event::TurnFailed { .. })));
        assert!(turned.model.asked().is_empty());
    }
}

fn reading(code: &str) -> Draft {
    let mut draft = draft("read_notes");
    draft.code = format!("export default async function run({{ n }}, ctx) {{ {code} }}");
    draft.capability.grants.read = vec!["data".to_owned()];
    draft.capability.examples = vec![serde_json::from_value(json!({"args": {"n": 1}})).unwrap()];
    draft
}

#[tokio::test]
async fn new_code_with_the_grants_of_the_old_is_asked_about_again() {
    let bench = Bench::new();
    std::fs::create_dir(bench.home.path().join("data")).unwrap();
    let forge = bench.forge(Policy::closed());
    let mut asked = Vec::new();
    let first = reading("await ctx.read('data/a.txt').catch(() => ''); return n;");
    let mut yes = Recorder { asked: &mut asked, say: true };
    forge.submit(first, &mut |_| {}, &mut yes, &CancellationToken::new()).await.unwrap();
    let second = reading("await ctx.read('data/b.txt').catch(() => ''); return n;");
    let mut no = Recorder { asked: &mut asked, say: false };
    let refused = forge.submit(second, &mut |_| {}, &mut no, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(refused, ForgeError::NotApproved { .. }), "{refused:?}");
    // Bound to the folder it was asked in, not to wherever it runs next.
    assert_eq!(asked[1].grants.read, [bench.home.path().join("data").display().to_string()]);
}

#[tokio::test]
async fn what_a_person_switched_off_stays_off_without_their_word() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    let name = jarvis_protocol::CapabilityName::new("fibonacci").unwrap();
    bench.registry().set_status(&name, jarvis_protocol::Status::Disabled).unwrap();
    let mut again = draft("fibonacci");
    again.code = FIBONACCI.replace("let [a, b]", "let [ a, b ]");
    let refused = forge.submit(again, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(refused.to_string().contains("disabled"), "{refused}");
    assert_eq!(bench.registry().get(&name).unwrap().unwrap().status, jarvis_protocol::Status::Disabled);
}

#[tokio::test]
async fn a_new_version_cannot_redefine_a_recorded_answer() {
    let bench = Bench::new();
    let forge = registered(&bench).await;
    let mut other = draft("fibonacci");
    other.code = "export default function run({ n }: { n: number }) { return n + 1; }".to_owned();
    other.capability.examples = vec![serde_json::from_value(json!({"args": {"n": 10}, "returns": 11})).unwrap()];
    let error = forge.submit(other, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("expected 55"), "{error}");
}

#[tokio::test]
async fn grants_that_would_deceive_a_reader_are_refused() {
    let bench = Bench::new();
    let forge = bench.forge(Policy { approval: Approval::Auto, ..Policy::closed() });
    for (network, read) in
        [("*", "x"), ("a b", "x"), ("api.example.com", "x\u{1b}[2K"), ("api.example.com", "\u{202e}x")]
    {
        let mut bad = draft("spoof");
        bad.capability.grants.network = vec![network.to_owned()];
        bad.capability.grants.read = vec![read.to_owned()];
        let error = forge.submit(bad, &mut |_| {}, &mut DenyAll, &CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains("grants."), "{error}");
    }
    assert!(bench.registry().list().unwrap().capabilities.is_empty());
}
