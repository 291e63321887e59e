//! Long conversations: the budget holds, nothing is orphaned, the task stays.

use super::*;
use jarvis_protocol::ToolCall;
use serde_json::json;

/// A conversation of many turns: English, Chinese, some with several rounds of parallel calls.
fn conversation(turns: usize) -> Vec<Message> {
    let mut history = Vec::new();
    for turn in 0..turns {
        history.push(Message::user(match turn % 3 {
            0 => format!("question {turn}: how does it go on with the report?"),
            1 => format!("问题 {turn}：报告接下来怎么写？请给出细节。"),
            _ => format!("question {turn} {}", "and another thing ".repeat(turn % 40)),
        }));
        for round in 0..turn % 4 {
            let mut call = Message::assistant(format!("round {round}"));
            let ids: Vec<String> = (0..=round % 3).map(|i| format!("t{turn}r{round}c{i}")).collect();
            call.tool_calls = ids
                .iter()
                .map(|id| ToolCall {
                    id: id.clone(),
                    name: "file_read".into(),
                    args: json!({"path": format!("{id}.txt")}),
                })
                .collect();
            history.push(call);
            for id in ids {
                history.push(Message::tool(id, "内容 content ".repeat(1 + turn % 60), turn % 7 == 0));
            }
        }
        history.push(Message::assistant(format!("answer {turn} 答复")));
    }
    history
}

fn assert_valid(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    let mut first = None;
    for message in messages.iter().filter(|m| m.role != Role::System) {
        first.get_or_insert(message.role);
        match message.role {
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let at = open.iter().position(|o| *o == id);
                assert!(at.is_some(), "an orphaned result: {id}");
                open.remove(at.unwrap_or_default());
            }
            _ => {
                assert!(open.is_empty(), "calls without results: {open:?}");
                open = message.tool_calls.iter().map(|c| c.id.as_str()).collect();
            }
        }
    }
    assert!(open.is_empty(), "calls without results at the end: {open:?}");
    assert_eq!(first, Some(Role::User), "begins with a person");
}

#[test]
fn five_hundred_turns_in_every_strategy_stay_below_every_budget() {
    let history = conversation(500);
    let summary = Summary { covers: history.len() / 2, story: "早些时候 ".repeat(400), ..Summary::default() };
    let memories: Vec<String> = (0..50).map(|i| format!("note {i} 喜欢简短的回答")).collect();
    // Every turn's end, as it would have been sent.
    let ends = (1..=history.len()).filter(|end| history.get(*end).is_none_or(|next| next.role == Role::User));
    let mut checked = 0;
    for end in ends {
        for strategy in [Strategy::Window, Strategy::Summary, Strategy::Memory, Strategy::Hybrid] {
            for budget in [700, 4_000, 30_000] {
                let history = &history[..end];
                let built = build(&Input { strategy, history, summary: &summary, memories: &memories, budget });
                assert!(built.report.tokens_estimate <= budget, "{strategy:?} {:?}", built.report);
                assert_valid(&built.messages);
                let task = history.iter().rfind(|m| m.role == Role::User);
                let ends_with = |m: &Message, with: &Message| m.role == with.role && m.text.ends_with(&with.text);
                assert!(built.messages.iter().any(|m| task.is_some_and(|t| ends_with(m, t))), "the task is missing");
                assert!(built.messages.last().zip(history.last()).is_some_and(|(m, last)| ends_with(m, last)));
                let told = if strategy.summarises() { summary.covers.min(end) } else { 0 };
                assert!(built.report.dropped + built.report.history_out + told >= end, "{:?}", built.report);
                assert_eq!(built.report.memory > 0, strategy.remembers());
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 500 * 12);
}

#[test]
fn one_long_turn_keeps_its_task_and_its_last_rounds() {
    let mut history = vec![Message::user("earlier"), Message::assistant("yes"), Message::user("THE TASK 任务")];
    for round in 0..200 {
        let mut call = Message::assistant("");
        let id = format!("c{round}");
        call.tool_calls = vec![ToolCall { id: id.clone(), name: "shell_exec".into(), args: json!({"command": "ls"}) }];
        history.push(call);
        history.push(Message::tool(id, "输出 output ".repeat(100), false));
    }
    let input = Input {
        strategy: Strategy::Window,
        history: &history,
        summary: &Summary::default(),
        memories: &[],
        budget: 3000,
    };
    let built = build(&input);
    assert_valid(&built.messages);
    assert_eq!(built.messages[0].text, "THE TASK 任务");
    assert_eq!(built.messages.last(), history.last());
    assert!(built.report.tokens_estimate <= 3000 && built.report.history_out > 5);
    assert_eq!(built.report.dropped + built.report.history_out, history.len());
}

#[test]
fn one_giant_message_is_cut_in_its_middle() {
    for giant in ["x ".repeat(400_000), "巨".repeat(300_000)] {
        let mut call = Message::assistant("reading");
        call.tool_calls = vec![ToolCall { id: "c".into(), name: "file_read".into(), args: json!({}) }];
        let histories = [
            vec![Message::user(giant.clone())],
            vec![Message::user("read it"), call.clone(), Message::tool("c", giant.clone(), false)],
            vec![Message::user(giant.clone()), call.clone(), Message::tool("c", giant.clone(), false)],
        ];
        for history in histories {
            let summary = Summary::default();
            let budget = 2000;
            let input =
                Input { strategy: Strategy::Hybrid, history: &history, summary: &summary, memories: &[], budget };
            let built = build(&input);
            assert_valid(&built.messages);
            assert!(built.report.tokens_estimate <= budget, "{:?}", built.report);
            assert_eq!(built.messages.len(), history.len());
            assert!(built.messages.iter().any(|m| m.text.contains("characters are left out")));
        }
    }
}

#[test]
fn nothing_said_yet() {
    let summary = Summary::default();
    let input = Input { strategy: Strategy::Hybrid, history: &[], summary: &summary, memories: &[], budget: 10 };
    assert!(build(&input).messages.is_empty());
}

#[test]
fn notes_stand_with_the_question_and_leave_what_is_before_it_as_it_was() {
    let mut history = vec![Message::user("first"), Message::assistant("yes"), Message::user("second 第二")];
    let sent = |history: &[Message], notes: &[&str]| {
        let memories: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
        let summary = Summary::default();
        let strategy = Strategy::Hybrid;
        build(&Input { strategy, history, summary: &summary, memories: &memories, budget: 4_000 }).messages
    };
    let one = sent(&history, &["likes tea 喜欢茶"]);
    assert_eq!(one[..2], history[..2]);
    assert!(one[2].text.contains("喜欢茶") && one[2].text.ends_with("\n\nsecond 第二"), "{}", one[2].text);
    // A later round of the same turn goes on from it, to the letter.
    let mut call = Message::assistant("");
    call.tool_calls = vec![ToolCall { id: "c".into(), name: "file_read".into(), args: json!({}) }];
    history.extend([call, Message::tool("c", "read", false)]);
    assert_eq!(sent(&history, &["likes tea 喜欢茶"])[..3], one[..]);
    // The next turn has other notes, and the same conversation up to the last question.
    history.extend([Message::assistant("done"), Message::user("third")]);
    let next = sent(&history, &["lives in Bern"]);
    assert_eq!(next[..2], one[..2]);
    assert_eq!((next[2].text.as_str(), next.len()), ("second 第二", history.len()));
}
