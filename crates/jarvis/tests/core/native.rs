//! Models that drive the three bootstrap tools themselves.

use crate::bench::{Bench, FIBONACCI, definition, number_param};
use jarvis_agent::{TurnEnd, TurnLimits};
use jarvis_model::MalformedCall;
use jarvis_protocol::{Event, ForgeStep, StopReason};
use jarvis_testkit::{call, text};
use serde_json::json;

fn register(id: &str, code: &str) -> Result<jarvis_model::Completion, jarvis_model::ModelError> {
    let examples = json!([{"args": {"n": 90}}, {"args": {"n": 10}, "returns": 55, "held_out": true}]);
    call(
        id,
        "register_capability",
        json!({"definition": definition("fibonacci", number_param("n"), examples), "code": code}),
    )
}

#[tokio::test]
async fn a_capability_is_built_once_and_used_in_a_later_session() {
    let bench = Bench::new();
    let first = bench
        .turn(
            true,
            "What is the 90th Fibonacci number?",
            vec![
                call("1", "list_capabilities", json!({"query": "fibonacci number"})),
                register("2", FIBONACCI),
                call("3", "execute_capability", json!({"name": "fibonacci", "args": {"n": 90}})),
                text("It is 2880067194370816120."),
            ],
        )
        .await;
    assert_eq!(first.answer(), "It is 2880067194370816120.");
    assert_eq!(first.built_and_used(), (vec!["fibonacci".to_owned()], vec!["fibonacci".to_owned()]));
    assert_eq!(
        first.steps(),
        [
            ForgeStep::Gap,
            ForgeStep::Spec,
            ForgeStep::Code,
            ForgeStep::Checked,
            ForgeStep::Verified,
            ForgeStep::Approved,
            ForgeStep::Registered
        ]
    );
    assert!(first.told(1).contains("nothing fits"), "{}", first.told(1));

    let second = bench
        .turn(
            true,
            "And the 50th Fibonacci number?",
            vec![
                call("1", "list_capabilities", json!({"query": "fibonacci number"})),
                call("2", "execute_capability", json!({"name": "fibonacci", "args": {"n": 50}})),
                text("12586269025"),
            ],
        )
        .await;
    assert!(second.told(1).contains("fibonacci(n: number)"), "{}", second.told(1));
    assert!(second.told(2).contains("12586269025"));
    assert_eq!(second.built_and_used(), (vec![], vec!["fibonacci".to_owned()]));
}

#[tokio::test]
async fn what_is_wrong_with_a_draft_is_told_and_nothing_stays_behind() {
    let bench = Bench::new();
    let stated = "export default function run({ n }) { return 2880067194370816120n; }";
    let wrong = "export default function run({ n }) { return n * 2; }";
    let turned = bench
        .turn(
            true,
            "What is the 90th Fibonacci number?",
            vec![
                register("1", stated),
                register("2", wrong),
                register("3", "export default function run({ n }) { return m; }"),
                text("I could not."),
            ],
        )
        .await;
    assert!(turned.told(1).contains("not registered"), "{}", turned.told(1));
    assert!(turned.told(2).contains("held out") && !turned.told(2).contains("55"), "{}", turned.told(2));
    assert!(turned.told(3).contains("ReferenceError") && turned.told(3).contains("line 1"), "{}", turned.told(3));
    assert!(bench.registry().list().unwrap().capabilities.is_empty());
    assert!(
        !bench.root().join("tools").exists() || std::fs::read_dir(bench.root().join("tools")).unwrap().next().is_none()
    );
}

#[tokio::test]
async fn a_whole_number_beyond_doubles_is_refused_until_it_is_exact() {
    let bench = Bench::new();
    let doubles = "export default function run({ n }) { let a = 0, b = 1; for (let i = 0; i < n; i++) [a, b] = [b, a + b]; return a; }";
    let turned = bench
        .turn(true, "The 90th Fibonacci number?", vec![register("1", doubles), register("2", FIBONACCI), text("done")])
        .await;
    assert!(turned.told(1).contains("BigInt"), "{}", turned.told(1));
    assert_eq!(turned.built_and_used().0, ["fibonacci"]);
}

#[tokio::test]
async fn a_long_number_that_the_model_retypes_wrongly_is_corrected_by_the_exact_one() {
    let bench = Bench::new();
    let turned = bench
        .turn(
            true,
            "The 90th Fibonacci number?",
            vec![
                register("1", FIBONACCI),
                call("2", "execute_capability", json!({"name": "fibonacci", "args": {"n": 90}})),
                text("It is 2880067194370816210."),
            ],
        )
        .await;
    assert!(turned.answer().contains("2880067194370816120"), "{}", turned.answer());
}

#[tokio::test]
async fn wrong_arguments_never_start_anything_and_are_explained() {
    let bench = Bench::new();
    let turned = bench
        .turn(
            true,
            "The 90th Fibonacci number?",
            vec![
                register("1", FIBONACCI),
                call("2", "execute_capability", json!({"name": "fibonacci", "args": {"n": "ninety"}})),
                call("3", "execute_capability", json!({"name": "fibonacci", "args": {"m": 1}})),
                call("4", "execute_capability", json!({"name": "fibonacci", "args": []})),
                call("5", "execute_capability", json!({"name": "../../etc/passwd", "args": {}})),
                call("6", "fibonacci", json!({"n": 3})),
                text("sorry"),
            ],
        )
        .await;
    assert!(turned.told(2).contains("/n"), "{}", turned.told(2));
    assert!(turned.told(3).contains("`m`"), "{}", turned.told(3));
    assert!(turned.told(4).contains("object"), "{}", turned.told(4));
    assert!(turned.told(5).contains("no capability is called"), "{}", turned.told(5));
    assert!(turned.told(6).contains("execute_capability"), "{}", turned.told(6));
    assert_eq!(turned.built_and_used().1, Vec::<String>::new());
}

#[tokio::test]
async fn arguments_that_do_not_parse_are_reported_and_not_run() {
    let bench = Bench::new();
    let mut broken = text("").unwrap();
    broken.malformed_calls.push(MalformedCall {
        id: "1".to_owned(),
        name: "execute_capability".to_owned(),
        arguments: "{\"name\": \"fib".to_owned(),
        problem: "EOF while parsing a string".to_owned(),
    });
    let turned = bench.turn(true, "go", vec![Ok(broken), text("I see.")]).await;
    assert!(turned.told(1).contains("EOF while parsing"), "{}", turned.told(1));
    let failed = turned.events.iter().any(|e| matches!(e, Event::ToolCompleted { ok: false, .. }));
    assert!(failed, "{:?}", turned.events);
}

#[tokio::test]
async fn the_same_failing_call_ends_the_turn_after_three_times() {
    let bench = Bench::new();
    let again = || call("1", "execute_capability", json!({"name": "nothing_here", "args": {}}));
    let turned = bench.turn(true, "go", vec![again(), again(), again(), again()]).await;
    assert!(matches!(turned.end, TurnEnd::Completed { stop_reason: StopReason::RepeatedFailure, .. }));
    assert_eq!(turned.model.asked().len(), 3);
}

#[tokio::test]
async fn the_round_limit_holds_and_has_its_own_stop_reason() {
    let bench = Bench::new();
    let list = |n: usize| call("1", "list_capabilities", json!({"query": format!("thing {n}")}));
    let limits = TurnLimits { max_rounds: 3, ..TurnLimits::STANDARD };
    let cancel = tokio_util::sync::CancellationToken::new();
    let turned =
        bench.turn_with(true, "go", (0..9).map(list).collect(), limits, &mut jarvis_dispatch::DenyAll, &cancel).await;
    assert!(matches!(turned.end, TurnEnd::Completed { stop_reason: StopReason::MaxRounds, .. }));
    assert_eq!(turned.model.asked().len(), 3);
}

#[tokio::test]
async fn usage_counts_every_model_call() {
    let bench = Bench::new();
    let turned =
        bench.turn(true, "go", vec![call("1", "list_capabilities", json!({"query": "x"})), text("done")]).await;
    let Some(Event::TurnCompleted { usage, .. }) = turned.events.last() else { panic!("{:?}", turned.events) };
    assert_eq!((usage.input_tokens, usage.output_tokens), (20, 10));
}

#[tokio::test]
async fn a_failed_model_call_leaves_a_history_that_says_so() {
    let bench = Bench::new();
    let turned = bench.turn(true, "go", vec![call("1", "list_capabilities", json!({"query": "x"}))]).await;
    assert!(matches!(turned.end, TurnEnd::Failed(_)));
    let last = turned.history.last().unwrap();
    assert!(last.text.contains("the turn failed"), "{last:?}");
    // The question, the call, its result, and how it ended.
    assert_eq!(turned.history.len(), 4, "{:?}", turned.history);
}
