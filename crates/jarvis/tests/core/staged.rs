//! Models that are led: decide, write one function, and never type a result.

use crate::bench::Bench;
use jarvis_agent::TurnEnd;
use jarvis_protocol::{Event, ForgeStep, StopReason};
use jarvis_testkit::text;
use tokio_util::sync::CancellationToken;

const BUILD: &str =
    "build count_letter: Count how often a letter occurs in a text\ntext = \"mississippi\"\nletter = \"s\"";
const CODE: &str = "export default function run({ text, letter }: { text: string, letter: string }) {
  return text.split(letter).length - 1;
}";

fn with_alternative(first: &str, second: &str) -> Result<jarvis_model::Completion, jarvis_model::ModelError> {
    let mut reply = text(first)?;
    reply.alternatives.push(second.to_owned());
    Ok(reply)
}

#[tokio::test]
async fn a_led_model_builds_once_and_uses_it_in_a_later_session() {
    let bench = Bench::new();
    let first = bench
        .turn(
            false,
            "How often does the letter s occur in mississippi?",
            vec![text(BUILD), with_alternative(CODE, CODE)],
        )
        .await;
    assert_eq!(first.answer(), "4");
    assert_eq!(first.built_and_used(), (vec!["count_letter".to_owned()], vec!["count_letter".to_owned()]));
    assert!(first.steps().starts_with(&[ForgeStep::Gap, ForgeStep::Spec, ForgeStep::Code, ForgeStep::Checked]));

    let second = bench
        .turn(
            false,
            "How often does the letter e occur in elephant teeth?",
            vec![text("use count_letter\ntext = \"Elephant  teeth\"\nletter = \"e\"")],
        )
        .await;
    assert!(second.told(0).contains("count_letter(text: string, letter: string)"), "{}", second.told(0));
    // Copied with another case and spacing; what runs are the request's own words.
    assert_eq!(second.answer(), "4");
    assert_eq!(second.built_and_used(), (vec![], vec!["count_letter".to_owned()]));
}

#[tokio::test]
async fn the_result_that_most_candidates_give_wins() {
    let bench = Bench::new();
    let wrong = CODE.replace("length - 1", "length");
    let mut more = text(CODE).unwrap();
    more.alternatives = vec![CODE.replace("split(letter)", "split( letter )"), wrong.clone()];
    let turned = bench
        .turn(false, "How often is s in mississippi?", vec![text(BUILD), with_alternative(&wrong, CODE), Ok(more)])
        .await;
    assert_eq!(turned.answer(), "4");
}

#[tokio::test]
async fn code_that_fails_is_repaired_with_the_exact_error() {
    let bench = Bench::new();
    let broken = CODE.replace("text.split", "txt.split");
    let turned = bench
        .turn(
            false,
            "How often does the letter s occur in mississippi?",
            vec![text(BUILD), with_alternative(&broken, &broken), with_alternative(CODE, CODE)],
        )
        .await;
    assert_eq!(turned.answer(), "4");
    assert!(turned.told(2).contains("ReferenceError") && turned.told(2).contains("txt"), "{}", turned.told(2));
    assert!(turned.steps().contains(&ForgeStep::Repair));
}

#[tokio::test]
async fn small_talk_builds_nothing_and_touches_no_file() {
    let bench = Bench::new();
    let turned = bench.turn(false, "谢谢", vec![text("chat"), text("不客气！")]).await;
    assert_eq!(turned.answer(), "不客气！");
    assert_eq!(turned.built_and_used(), (vec![], vec![]));
    assert!(!bench.root().exists());
}

#[tokio::test]
async fn a_decision_that_drops_the_values_of_the_request_is_asked_for_again() {
    let bench = Bench::new();
    let turned = bench
        .turn(
            false,
            "How often does the letter s occur in \"mississippi\"?",
            vec![text("build count_letter: Count a letter"), text(BUILD), with_alternative(CODE, CODE)],
        )
        .await;
    assert_eq!(turned.answer(), "4");
}

#[tokio::test]
async fn forge_gives_up_after_its_repairs_and_leaves_nothing() {
    let bench = Bench::new();
    let broken = CODE.replace("text.split", "txt.split");
    let mut replies = vec![text(BUILD)];
    replies.extend((0..8).map(|_| with_alternative(&broken, &broken)));
    let turned = bench.turn(false, "How often does s occur in mississippi2?", replies).await;
    let TurnEnd::Failed(error) = &turned.end else { panic!("{:?}", turned.end) };
    assert!(error.message.contains("ReferenceError"), "{error:?}");
    assert_eq!(turned.steps().iter().filter(|s| **s == ForgeStep::Repair).count(), 3);
    // Rejected once, at the end: a repair is no rejection.
    assert_eq!(turned.steps().iter().filter(|s| **s == ForgeStep::Rejected).count(), 1);
    assert_eq!(turned.steps().last(), Some(&ForgeStep::Rejected));
    assert!(bench.registry().list().unwrap().capabilities.is_empty());
}

#[tokio::test]
async fn cancelling_a_running_capability_ends_the_turn_at_once() {
    let bench = Bench::new();
    let endless =
        "export default function run({ text, letter }: { text: string, letter: string }) {\n  while (true) {}\n}";
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        trigger.cancel();
    });
    let started = std::time::Instant::now();
    let turned = bench
        .turn_with(
            false,
            "How often does the letter s occur in mississippi?",
            vec![text(BUILD), with_alternative(endless, endless)],
            jarvis_agent::TurnLimits::STANDARD,
            &mut jarvis_dispatch::DenyAll,
            &cancel,
        )
        .await;
    assert!(matches!(turned.end, TurnEnd::Completed { stop_reason: StopReason::Cancelled, .. }), "{:?}", turned.end);
    assert!(started.elapsed() < std::time::Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(turned.history.len() == 2 && turned.history[1].text.contains("cancelled"), "{:?}", turned.history);
}

#[tokio::test]
async fn a_question_that_goes_on_from_the_last_one_is_understood() {
    let bench = Bench::new();
    let replies = vec![
        text(BUILD),
        with_alternative(CODE, CODE),
        text("use count_letter\ntext = \"mississippi\"\nletter = \"p\""),
    ];
    let (mut session, model) = bench.session(false, replies, jarvis_agent::TurnLimits::STANDARD);
    let cancel = CancellationToken::new();
    for question in ["How often does the letter s occur in mississippi?", "and the p?"] {
        session.turn(question, &mut |_| {}, &mut jarvis_dispatch::DenyAll, &cancel).await;
    }
    let asked = model.asked();
    let told = &asked[2].last().unwrap().text;
    assert!(
        told.contains("Earlier: How often does the letter s occur in mississippi? → 4\nRequest: and the p?"),
        "{told}"
    );
    assert!(told.contains("count_letter(text: string, letter: string)"), "{told}");
    assert_eq!(session.history().last().unwrap().text, "2");
}

#[tokio::test]
async fn a_plan_for_what_is_registered_already_leads_to_reuse() {
    let bench = Bench::new();
    let first = vec![text(BUILD), with_alternative(CODE, CODE)];
    bench.turn(false, "How often does the letter s occur in mississippi?", first).await;
    let again = "build count_letter: Count how often a letter occurs in a text\ntext = \"banana\"\nletter = \"a\"";
    let second = bench.turn(false, "How often does the letter a occur in banana?", vec![text(again)]).await;
    assert_eq!(second.answer(), "3");
    assert_eq!(second.built_and_used(), (vec![], vec!["count_letter".to_owned()]));
}

#[tokio::test]
async fn a_task_for_which_no_tool_passes_and_that_holds_no_number_is_answered_in_words() {
    let bench = Bench::new();
    let broken = CODE.replace("text.split", "txt.split");
    let mut replies = vec![text(BUILD)];
    replies.extend((0..4).map(|_| with_alternative(&broken, &broken)));
    replies.push(text("bonjour"));
    let turned = bench.turn(false, "Say good morning in French", replies).await;
    assert_eq!(turned.answer(), "bonjour");
    let told =
        turned.events.iter().any(|e| matches!(e, Event::Notice { message } if message.contains("answered in words")));
    assert!(told, "{:?}", turned.events);
    assert!(bench.registry().list().unwrap().capabilities.is_empty());
}

#[tokio::test]
async fn a_sixth_tool_within_ten_minutes_is_not_kept_unasked_but_its_answer_is_given() {
    let bench = Bench::new();
    let forge = bench.forge(jarvis_policy::Policy::closed());
    for (index, name) in ["alpha", "beta", "gamma", "delta", "epsilon"].into_iter().enumerate() {
        let draft = crate::refusals::distinct_draft(name, index);
        forge.submit(draft, &mut |_| {}, &mut jarvis_dispatch::DenyAll, &CancellationToken::new()).await.unwrap();
    }
    let replies = vec![text(BUILD), with_alternative(CODE, CODE)];
    let turned = bench.turn(false, "How often does the letter s occur in mississippi?", replies).await;
    assert_eq!(turned.answer(), "4");
    assert_eq!(turned.built_and_used(), (vec![], vec![]));
    let told = turned.events.iter().any(|e| matches!(e, Event::Notice { message } if message.contains("not kept")));
    assert!(told, "{:?}", turned.events);
}

#[tokio::test]
async fn a_value_of_the_request_that_no_input_holds_is_asked_for_once() {
    let bench = Bench::new();
    let partial = "build shift_letters: Shift each letter of a text forward\ntext = \"xyz\"";
    let whole = format!("{partial}\nplaces = 3");
    let code =
        "export default function run({ text, places }: { text: string, places: number }) {\n  return text + places;\n}";
    let replies = vec![text(partial), text(&whole), with_alternative(code, code)];
    let turned = bench.turn(false, "Shift each letter of 'xyz' forward by 3 places.", replies).await;
    assert_eq!(turned.answer(), "xyz3");
    assert!(turned.told(1).contains("leave out 3"), "{}", turned.told(1));

    // Said again, it is taken as it is: not every number is a value.
    let bench = Bench::new();
    let code = "export default function run({ text }: { text: string }) {\n  return text + text;\n}";
    let replies = vec![text(partial), text(partial), with_alternative(code, code)];
    let turned = bench.turn(false, "Shift each letter of 'xyz' forward by 3 places.", replies).await;
    assert_eq!(turned.answer(), "xyzxyz");

    // And a second answer about something else is not taken at all.
    let bench = Bench::new();
    let astray = "build miles_to_km: Convert miles to kilometres\nmiles = 26.2";
    let replies = vec![text(partial), text(astray), with_alternative(code, code)];
    let turned = bench.turn(false, "Shift each letter of 'xyz' forward by 3 places.", replies).await;
    assert_eq!(turned.answer(), "xyzxyz");
}
