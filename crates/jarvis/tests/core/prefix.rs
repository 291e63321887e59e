//! What a provider has read before comes again as it was, so that it is read from its cache.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};

/// Messages that the second request has in common with the first, from the beginning.
fn common(first: &Value, second: &Value) -> usize {
    let of = |request: &Value| request["messages"].as_array().unwrap().clone();
    of(first).iter().zip(of(second)).take_while(|(a, b)| *a == b).count()
}

#[test]
fn rounds_of_a_turn_go_on_to_the_letter_and_turns_up_to_the_last_question() {
    let list = || Reply::Call("list_capabilities", json!({"query": "ports"}));
    let provider =
        Provider::start(vec![list(), list(), Reply::Text("5433."), Reply::Text("Ann."), Reply::Text("Bye.")]);
    let home = Home::new().config(&provider.config());
    for note in ["测试数据库的端口是 5433", "The release manager of billing is Ann"] {
        let _ = home.run(&["memory", "add", note]).ok();
    }
    let input = "测试数据库的端口是多少？\nWho is the release manager of billing?\ngood bye\n";
    let _ = home.run_with_input(&["chat"], input).ok();
    let asked = provider.requests.lock().unwrap();
    let count = |n: usize| asked[n]["messages"].as_array().unwrap().len();
    let told =
        |n: usize| asked[n]["messages"].as_array().unwrap().iter().rfind(|m| m["role"] == "user").unwrap().to_string();
    assert!(told(0).contains("5433") && told(3).contains("Ann") && !told(4).contains("Notes from"), "{}", told(4));
    // Within a turn all that was sent before is sent again.
    assert_eq!((common(&asked[0], &asked[1]), common(&asked[1], &asked[2])), (count(0), count(1)));
    // From turn to turn, all but the last question, which had its notes with it, and what was said to it.
    assert_eq!(common(&asked[2], &asked[3]), 1);
    assert_eq!(common(&asked[3], &asked[4]), count(3) - 1);
    assert_eq!(asked[3]["messages"][0], asked[0]["messages"][0], "the system prompt holds nothing that changes");
    assert!(!asked[0]["messages"][0].to_string().contains("It is now") && told(0).contains("It is now"));
}
