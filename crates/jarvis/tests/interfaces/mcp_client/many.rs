//! Many tools cost no more than few, and nothing is started for a turn that needs nothing.

use super::{Desk, none};
use crate::common::provider::Reply;
use serde_json::json;

#[test]
fn five_hundred_tools_are_searched_and_cost_no_more_than_nine() {
    let Some(desk) = Desk::with("many", "") else { return };
    let run = desk.calls(
        &[
            ("search_tools", json!({"query": "delete the old invoices"})),
            ("call_tool", json!({"tool": "hand__delete_old_invoice", "args": {"text": "all"}})),
        ],
        &[],
    );
    let told = run.told();
    assert!(told[0].0 && told[0].1.contains("hand__delete_old_invoice"), "{told:?}");
    assert!(told[0].1.chars().count() < 12_500, "{}", told[0].1);
    assert_eq!(told[1], (true, "done by delete_old_invoice".to_owned()));
    let offered = run.offered();
    assert!(offered.contains(&"search_tools".to_owned()) && !offered.iter().any(|n| n.starts_with("hand__")));
    let size = |run: &super::Run| run.requests[0]["tools"].to_string().len();
    let Some(few) = Desk::with("good", "") else { return };
    let (many, few) = (size(&run), size(&few.calls(&[], &[])));
    assert!(many < few + 1000, "{many} bytes of tools for 500, {few} for 3");
}

#[test]
fn a_list_that_is_known_starts_nothing_until_a_call_needs_it() {
    let Some(desk) = Desk::with("good", "") else { return };
    let first = desk.turn(vec![Reply::Text("hi")], &[]);
    assert_eq!(
        first.of_kind("status").iter().filter(|e| e.to_string().contains("starting the MCP servers")).count(),
        1
    );
    let heard = desk.heard().len();
    let second = desk.turn(vec![Reply::Text("hi")], &[]);
    assert!(second.offered().contains(&"hand__act".to_owned()), "{:?}", second.offered());
    assert_eq!(desk.heard().len(), heard, "it was started for nothing");
    assert!(desk.calls(&[("hand__act", none())], &[]).one().0);
}

#[test]
fn what_no_server_has_is_said_to_be_missing() {
    let Some(desk) = Desk::with("many", "") else { return };
    let run = desk.calls(&[("call_tool", json!({"tool": "hand__nothing", "args": {}}))], &[]);
    let (ok, text) = run.one();
    assert!(!ok && text.contains("there is no tool `hand__nothing`") && text.contains("search_tools"), "{text}");
}
