//! Long conversations: the budget holds in every request, nothing is orphaned, what the first summary knew stays known.

use crate::bench::{Bench, Turned};
use futures::future::BoxFuture;
use jarvis_agent::{Mode, Session, SessionParts, Strategy, TurnEnd, TurnLimits};
use jarvis_dispatch::DenyAll;
use jarvis_model::{
    Backend, Completion, Delta, ModelError, ModelHandle, Request, Traits, estimate_message, estimate_tokens,
};
use jarvis_policy::Policy;
use jarvis_protocol::{Event, Message, Role, StopReason, ToolCall};
use jarvis_testkit::{call, text};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

const CONTEXT: usize = 12_000;
const FACT: &str = "the deposit is 4,217 euro at 米兰银行";

/// Talks without end: every third answer comes after two tool calls at once. Its summaries know the fact only once.
#[derive(Default)]
struct Talker {
    asked: Mutex<Vec<Vec<Message>>>,
    summaries: Mutex<Vec<String>>,
    /// Summaries fail.
    broken: bool,
}

impl Backend for Talker {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let messages = &request.messages;
        let used: u64 = messages.iter().map(estimate_message).sum();
        let tools: u64 = request.tools.iter().map(|t| estimate_tokens(&t.parameters.to_string())).sum();
        assert!(used + tools + u64::from(request.max_tokens) <= CONTEXT as u64, "{used} + {tools} tokens are sent");
        let reply = if messages[0].text.starts_with("You keep the memory") {
            let mut summaries = self.summaries.lock().unwrap();
            summaries.push(messages[1].text.clone());
            if self.broken {
                return Box::pin(async { Err(ModelError::Protocol { message: "no summary today".to_owned() }) });
            }
            text(&match summaries.len() {
                1 => format!("FACTS:\n- {FACT}\nSTORY:\nThey began."),
                n => format!("FACTS:\n- part {n} was done\nSTORY:\nThey went on to part {n}."),
            })
        } else {
            valid(messages);
            let mut asked = self.asked.lock().unwrap();
            asked.push(messages.clone());
            let last = messages.last().unwrap();
            if last.role == Role::User && asked.len().is_multiple_of(3) {
                let calls = (0..2).map(|i| ToolCall {
                    id: format!("c{}_{i}", asked.len()),
                    name: "list_capabilities".to_owned(),
                    args: json!({"query": format!("查找 something {}", "long ".repeat(60))}),
                });
                call("x", "list_capabilities", json!({})).map(|r| Completion { tool_calls: calls.collect(), ..r })
            } else {
                text(&format!("answer {} 好的。{}", asked.len(), "详细说明 in detail ".repeat(asked.len() % 30)))
            }
        };
        Box::pin(async move { reply })
    }
}

fn valid(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let id = message.tool_call_id.as_deref().unwrap();
            let at = open.iter().position(|o| *o == id);
            open.remove(at.unwrap_or_else(|| panic!("an orphaned result {id}")));
        } else {
            assert!(open.is_empty(), "calls without results: {open:?}");
            open = message.tool_calls.iter().map(|c| c.id.as_str()).collect();
        }
    }
    assert!(open.is_empty());
}

fn session(bench: &Bench, talker: &Arc<Talker>, strategy: Strategy) -> Session {
    let traits = Traits { native_tools: true, grammar: false, context_tokens: CONTEXT };
    Session::new(SessionParts {
        id: "long".to_owned(),
        model: ModelHandle::new("test/talker", traits, talker.clone()),
        forge: bench.forge(Policy::closed()),
        mode: Mode::Auto,
        limits: TurnLimits::STANDARD,
        strategy,
        builtins: false,
        zone: jiff::tz::TimeZone::UTC,
    })
}

async fn say(session: &mut Session, words: &str, events: &mut Vec<Event>) {
    let cancel = CancellationToken::new();
    let end = session.turn(words, &mut |event| events.push(event), &mut DenyAll, &cancel).await;
    assert!(matches!(end, TurnEnd::Completed { stop_reason: StopReason::EndTurn, .. }), "{end:?}");
}

fn question(turn: usize) -> String {
    match turn % 3 {
        0 => format!("question {turn}: {}", "what about the plan? ".repeat(1 + turn % 25)),
        1 => format!("问题 {turn}：{}", "下一步做什么？".repeat(1 + turn % 40)),
        _ => format!("{turn}. go on"),
    }
}

#[tokio::test]
async fn five_hundred_turns_keep_the_budget_and_the_first_fact() {
    for strategy in [Strategy::Hybrid, Strategy::Window] {
        let bench = Bench::new();
        let talker = Arc::new(Talker::default());
        let mut session = session(&bench, &talker, strategy);
        let mut events = Vec::new();
        say(&mut session, &format!("remember: {FACT}"), &mut events).await;
        for turn in 1..500 {
            say(&mut session, &question(turn), &mut events).await;
        }
        valid(session.history());
        let contexts: Vec<&Event> = events.iter().filter(|e| matches!(e, Event::Context { .. })).collect();
        let asked = talker.asked.lock().unwrap();
        assert_eq!(contexts.len(), asked.len(), "each request has its record");
        for event in contexts {
            let Event::Context { tokens_estimate, budget_available, .. } = event else { continue };
            assert!(tokens_estimate <= budget_available, "{event:?}");
        }
        let summaries = talker.summaries.lock().unwrap();
        let last = serde_json::to_string(asked.last().unwrap()).unwrap();
        if strategy == Strategy::Window {
            assert!(summaries.is_empty() && !last.contains(FACT));
            continue;
        }
        assert!(summaries.len() > 3, "{} summaries", summaries.len());
        assert!(summaries[1..].iter().all(|s| s.contains(FACT)), "each summary is told the one before");
        assert!(last.contains(FACT), "after {} summaries: {last}", summaries.len());
        assert!(last.contains(&format!("part {}", summaries.len())), "{last}");
    }
}

#[tokio::test]
async fn a_failed_summary_is_told_and_the_last_part_is_sent() {
    let bench = Bench::new();
    let talker = Arc::new(Talker { broken: true, ..Talker::default() });
    let mut session = session(&bench, &talker, Strategy::Hybrid);
    let mut events = Vec::new();
    for turn in 1..80 {
        say(&mut session, &question(turn), &mut events).await;
    }
    let told =
        events.iter().filter(|e| matches!(e, Event::Notice { message } if message.contains("summarised"))).count();
    let tries = talker.summaries.lock().unwrap().len();
    assert!(told == tries && tries > 1 && tries < 20, "{told} told, {tries} tried");
}

#[tokio::test]
async fn one_giant_message_is_answered_and_compact_works_by_hand() {
    let bench = Bench::new();
    let talker = Arc::new(Talker::default());
    let mut session = session(&bench, &talker, Strategy::Hybrid);
    let mut events = Vec::new();
    say(&mut session, &format!("{}\nWHAT IS THIS? 这是什么？", "巨大的文本 ".repeat(100_000)), &mut events).await;
    let sent = talker.asked.lock().unwrap()[0].last().unwrap().text.clone();
    assert!(sent.contains("characters are left out") && sent.ends_with("WHAT IS THIS? 这是什么？"));
    assert!(sent.starts_with("巨大的文本"));
    for turn in 0..6 {
        say(&mut session, &question(turn), &mut events).await;
    }
    let cancel = CancellationToken::new();
    let covered = session.compact(&mut |_| {}, &cancel).await.unwrap();
    assert!(covered >= 10, "{covered}");
    assert!(!talker.summaries.lock().unwrap().is_empty());
}

const WAITS: &str = "export default async function run({ n }: { n: number }) {
  await new Promise((done) => setTimeout(done, 400));
  if (n < 0) throw new Error(`negative: ${n}`);
  return n * 2;
}";

#[tokio::test]
async fn calls_of_one_reply_run_together_and_answer_under_their_own_ids() {
    let bench = Bench::new();
    let definition = json!({
        "name": "slow_double", "capability": "Doubles a number, slowly.",
        "parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        "examples": [{"args": {"n": 4}, "returns": 8}],
    });
    let run = |id: &str, n: i64| ToolCall {
        id: id.to_owned(),
        name: "execute_capability".to_owned(),
        args: json!({"name": "slow_double", "args": {"n": n}}),
    };
    let many = call("x", "x", Value::Null)
        .map(|reply| Completion { tool_calls: vec![run("a", 1), run("b", -5), run("c", 3)], ..reply });
    let replies =
        vec![call("r", "register_capability", json!({"definition": definition, "code": WAITS})), many, text("done")];
    let turned: Turned = bench.turn(true, "double some", replies).await;
    let results: Vec<&Message> = turned.history.iter().filter(|m| m.role == Role::Tool).skip(1).collect();
    let told: Vec<(&str, bool)> = results.iter().map(|m| (m.tool_call_id.as_deref().unwrap(), m.is_error)).collect();
    assert_eq!(told, [("a", false), ("b", true), ("c", false)]);
    assert!(results[0].text.contains("\"result\":2") && results[2].text.contains("\"result\":6"), "{results:?}");
    assert!(results[1].text.contains("negative: -5"), "{results:?}");
    // All begin before the first ends.
    let kinds: Vec<bool> = turned
        .events
        .iter()
        .filter_map(|e| match e {
            Event::ToolStarted { call } if call.name == "execute_capability" => Some(true),
            Event::ToolCompleted { name, .. } if name == "execute_capability" => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [true, true, true, false, false, false]);
}

#[tokio::test]
async fn a_cancel_among_calls_leaves_every_call_with_a_result() {
    let bench = Bench::new();
    let definition = json!({
        "name": "spin_forever", "capability": "Spins at one number.",
        "parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        "examples": [{"args": {"n": 1}, "returns": "done"}],
    });
    let code = "export default function run({ n }: { n: number }) {\n  while (n === 48151623) {}\n  return 'done';\n}";
    let run = |id: &str| ToolCall {
        id: id.to_owned(),
        name: "execute_capability".to_owned(),
        args: json!({"name": "spin_forever", "args": {"n": 48151623}}),
    };
    let many = call("x", "x", Value::Null).map(|reply| Completion { tool_calls: vec![run("a"), run("b")], ..reply });
    let replies = vec![call("r", "register_capability", json!({"definition": definition, "code": code})), many];
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let (mut session, _) = bench.session(true, replies, TurnLimits::STANDARD);
    let mut emit = |event: Event| {
        if matches!(&event, Event::ToolStarted { call } if call.id == "b") {
            trigger.cancel();
        }
    };
    let started = std::time::Instant::now();
    let end = session.turn("spin", &mut emit, &mut DenyAll, &cancel).await;
    assert!(matches!(end, TurnEnd::Completed { stop_reason: StopReason::Cancelled, .. }), "{end:?}");
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    valid(session.history());
    let last = session.history().last().unwrap();
    assert!(last.role == Role::Assistant && last.text.contains("cancelled"), "{last:?}");
}
