//! `jarvis serve` as its clients see it: sessions and their events, capabilities, the record, what is counted.

use crate::common::provider::{Provider, Reply, grows};
use crate::common::served::Served;
use crate::common::{Home, prepared, register};
use serde_json::{Value, json};
use std::time::Duration;

const READS: &str =
    "export default async function run({ file }: { file: string }, ctx) {\n  return await ctx.read(file);\n}\n";

/// A capability that reaches out, so that somebody must say yes to it.
fn read_note() -> Value {
    json!({
        "name": "read_note", "capability": "Reads a note.", "triggers": ["a note is to be read"],
        "parameters": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}},
        "returns": {"type": "string"}, "examples": [{"args": {"file": "notes/a.txt"}}], "grants": {"read": ["notes"]},
    })
}

fn reaching() -> Vec<Reply> {
    vec![
        Reply::Call("register_capability", json!({"definition": read_note(), "code": READS})),
        Reply::Text("Done what could be done."),
    ]
}

/// A folder outside of the home with one note in it.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    std::fs::write(folder.path().join("notes/a.txt"), "早上好").unwrap();
    folder
}

#[test]
fn a_turn_grows_a_capability_and_its_events_can_be_gone_on_with() {
    let provider = Provider::start(grows());
    let home = Home::new().config(&provider.config());
    let served = Served::start(&home, &[]);
    let session = served.session(&json!({}));
    let begun =
        served.post(&format!("/v1/sessions/{session}/messages"), &json!({"text": "What is 6 times 7?"})).is(202);
    assert!(begun["turn_id"].is_string());
    let path = format!("/v1/sessions/{session}/events");
    let all = served.follow(&path, &[]).until("turn.completed");
    let names: Vec<&str> = all.iter().map(|sent| sent.name.as_str()).collect();
    assert_eq!(names[0], "turn.started");
    for name in ["text.delta", "tool.started", "tool.completed", "forge", "context"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let end = &all.last().unwrap().data;
    assert_eq!(end["capabilities_built"], json!(["multiply_numbers"]));
    assert!(end["answer"].as_str().unwrap().contains("42"));

    // From the middle on: exactly what came after it, by the header or by the query.
    let middle = all.len() / 2;
    let rest: Vec<String> = all[middle + 1..].iter().map(|sent| sent.id.clone()).collect();
    let again = served.follow(&path, &[("Last-Event-ID", &all[middle].id)]).until("turn.completed");
    assert_eq!(again.iter().map(|sent| sent.id.clone()).collect::<Vec<_>>(), rest);
    let again = served.follow(&format!("{path}?after={}", all[middle].id), &[]).until("turn.completed");
    assert_eq!(again.len(), rest.len());
    // The turn's own address leads to its first event.
    let from_begin = served.follow(begun["events"].as_str().unwrap(), &[]).until("turn.completed");
    assert_eq!(from_begin.len(), all.len());
    assert_eq!(from_begin[0].id, begun["turn_id"].as_str().unwrap());
    served.send("GET", &path, &[("Last-Event-ID", "nonsense")], None).refused(400, "id of an event");

    // An id of an earlier opening names nothing here: all is sent, and that something was missed.
    served.post(&format!("/v1/sessions/{session}/close"), &json!({})).is(200);
    served.get(&path).refused(404, "resume");
    assert_eq!(served.session(&json!({"resume": session})), session);
    let mut stale = served.follow(&path, &[("Last-Event-ID", &all[middle].id)]);
    assert_eq!(stale.next().unwrap().name, "missed");

    let listed = served.get("/v1/capabilities").is(200);
    assert_eq!(listed["capabilities"][0]["name"], "multiply_numbers");
    let found = served.get("/v1/capabilities?q=multiply%20two%20numbers").is(200);
    assert_eq!((&found["nothing_fits"], &found["capabilities"][0]["fits"]), (&json!(false), &json!(true)));
    let shown = served.get("/v1/capabilities/multiply_numbers").is(200);
    assert!(shown["code"].as_str().unwrap().contains("a * b"));
    assert_eq!(shown["code_matches_digest"], true);
    let versions = served.get("/v1/capabilities/multiply_numbers/history").is(200);
    assert_eq!(versions["versions"][0]["version"], "1.0.0");
    let ran = served.post("/v1/capabilities/multiply_numbers/run", &json!({"args": {"a": 8, "b": 9}})).is(200);
    assert_eq!(ran["result"], 72);
    served.post("/v1/capabilities/multiply_numbers/run", &json!({"args": {"a": 8}})).refused(400, "multiply_numbers");
    served.post("/v1/capabilities/no_such/run", &json!({"args": {}})).refused(404, "no_such");

    // All of it went the one way, under the name of this front end.
    let audit = served.get("/v1/audit?kind=outcome&actor=http&subject=multiply_numbers").is(200);
    assert!(audit["entries"].as_array().unwrap().len() >= 2, "{audit}");
    assert_eq!(served.get("/v1/audit/verify").is(200)["problems"], json!([]));
    let counted = served.get("/metrics");
    assert!(counted.header("content-type").starts_with("application/openmetrics-text"));
    for line in [
        "jarvis_turns_total{what=\"end_turn\"} 1",
        "jarvis_tokens_total{what=\"input\"} 44",
        "jarvis_forge_steps_total{what=\"registered\"} 1",
        "jarvis_tool_calls_total{tool=\"execute_capability\",ok=\"true\"} 1",
        "jarvis_sessions 1",
    ] {
        assert!(counted.text.lines().any(|known| known == line), "{line} is not in\n{}", counted.text);
    }
    assert_eq!(served.stop().code, 0);
}

#[test]
fn a_session_is_kept_copied_renamed_exported_and_deleted() {
    let provider = Provider::start(vec![Reply::Text("早上好!"), Reply::Text("Again."), Reply::Text("Unkept.")]);
    let home = Home::new().config(&provider.config());
    let served = Served::start(&home, &[]);
    let session = served.session(&json!({}));
    assert_eq!(served.get(&format!("/v1/sessions/{session}/history")).is(200)["messages"], json!([]));
    let turn = served.post(&format!("/v1/sessions/{session}/messages?wait=true"), &json!({"text": "你好"})).is(200);
    assert_eq!((&turn["answer"], &turn["stop_reason"]), (&json!("早上好!"), &json!("end_turn")));
    assert_eq!(turn["usage"]["output_tokens"], 3);
    let history = served.get(&format!("/v1/sessions/{session}/history")).is(200);
    let texts: Vec<&str> =
        history["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["你好", "早上好!"]);

    let renamed = served.send("PATCH", &format!("/v1/sessions/{session}"), &[], Some("{\"title\": \"问候\"}")).is(200);
    assert_eq!(renamed["title"], "问候");
    assert_eq!(served.get("/v1/sessions?q=%E9%97%AE%E5%80%99").is(200)["total"], 1);
    let copy = served.post(&format!("/v1/sessions/{session}/fork"), &json!({})).is(201);
    assert_eq!(copy["messages"], 2);
    let markdown = served.get(&format!("/v1/sessions/{session}/export"));
    assert!(markdown.header("content-type").starts_with("text/markdown") && markdown.text.contains("早上好!"));
    let exported = served.get(&format!("/v1/sessions/{session}/export?format=json"));
    let imported = home.run_with_input(&["session", "import", "-", "--json"], &exported.text).ok().json();
    assert_eq!(imported["messages"], 2);

    // Closed and spoken to again: it goes on where it was.
    assert_eq!(served.post(&format!("/v1/sessions/{session}/close"), &json!({})).is(200)["closed"], true);
    assert_eq!(served.post(&format!("/v1/sessions/{session}/close"), &json!({})).is(200)["closed"], false);
    let turn = served.post(&format!("/v1/sessions/{session}/messages?wait=true"), &json!({"text": "再来"})).is(200);
    assert_eq!(turn["answer"], "Again.");
    assert_eq!(provider.requests.lock().unwrap().last().unwrap()["messages"].as_array().unwrap().len(), 4);

    // An open one is deleted too, and nothing of it is left.
    served.send("DELETE", &format!("/v1/sessions/{session}"), &[], None).is(204);
    served.get(&format!("/v1/sessions/{session}")).refused(404, &session);
    served.send("DELETE", &format!("/v1/sessions/{session}"), &[], None).refused(404, &session);

    let unkept = served.session(&json!({"keep": false}));
    served.post(&format!("/v1/sessions/{unkept}/messages?wait=true"), &json!({"text": "x"})).is(200);
    let listed = served.get("/v1/sessions").is(200);
    assert_eq!(listed["unkept"][0]["id"], unkept.as_str());
    assert!(!home.run(&["session", "list", "--all", "--json"]).ok().out.contains(&unkept));
}

#[test]
fn questions_wait_for_their_answer_and_a_cancelled_turn_is_cancelled() {
    let scripts = vec![("yes", reaching()), ("no", reaching()), ("hang", vec![Reply::Hangs])];
    let provider = Provider::by_mark(scripts);
    let home = Home::new().config(&provider.patient_config(60));
    let served = Served::start(&home, &[]);
    let folder = workspace();
    for (said, allow) in [("no", false), ("yes", true)] {
        let session = served.session(&json!({"workspace": folder.path()}));
        let path = format!("/v1/sessions/{session}");
        served.post(&format!("{path}/messages"), &json!({"text": said})).is(202);
        let asked = served.follow(&format!("{path}/events"), &[]).until("approval.requested").pop().unwrap();
        let waiting = served.get(&format!("{path}/approvals")).is(200);
        let question = &waiting["approvals"][0];
        assert_eq!((&question["id"], &question["capability"]), (&asked.data["id"], &json!("read_note")));
        assert!(question["grants"].to_string().contains("notes"), "{question}");
        let answer = format!("{path}/approvals/{}", question["id"].as_str().unwrap());
        served.post(&format!("{path}/messages"), &json!({"text": "too soon"})).refused(409, "busy");
        served.post(&answer, &json!({"allow": allow})).is(204);
        served.post(&answer, &json!({"allow": true})).refused(404, "answer");
        let end = served.follow(&format!("{path}/events"), &[]).until("turn.completed");
        let resolved = end.iter().find(|sent| sent.name == "approval.resolved").unwrap();
        assert_eq!(resolved.data["allowed"], allow);
        let built = &end.last().unwrap().data["capabilities_built"];
        assert_eq!(built, &if allow { json!(["read_note"]) } else { json!([]) });
    }
    let session = served.session(&json!({}));
    let path = format!("/v1/sessions/{session}");
    served.post(&format!("{path}/messages"), &json!({"text": "hang"})).is(202);
    provider.was_asked(5);
    assert_eq!(served.post(&format!("{path}/cancel"), &json!({})).is(200)["cancelled"], true);
    let end = served.follow(&format!("{path}/events"), &[]).until("turn.completed").pop().unwrap();
    assert_eq!(end.data["stop_reason"], "cancelled");
    assert_eq!(served.post(&format!("{path}/cancel"), &json!({})).is(200)["cancelled"], false);
}

#[test]
fn a_capability_from_elsewhere_runs_only_with_a_yes() {
    let folder = workspace();
    let place = folder.path().to_str().unwrap();
    let home = prepared(&read_note(), READS);
    let _ = register(&home, &["--approve", "auto", "--workspace", place]).ok();
    // As a pull would have brought it: nobody here has said yes.
    for name in ["jarvis.db", "jarvis.db-wal", "jarvis.db-shm"] {
        let _ = std::fs::remove_file(home.file(name));
    }
    let provider = Provider::start(vec![]);
    let home = home.config(&provider.config());
    let served = Served::start(&home, &["--workspace", place]);
    let run = |session: Option<&str>| {
        served.post("/v1/capabilities/read_note/run", &json!({"args": {"file": "notes/a.txt"}, "session": session}))
    };
    run(None).refused(403, "read_note");
    let session = served.session(&json!({}));
    let path = format!("/v1/sessions/{session}");
    let ran = std::thread::scope(|scope| {
        let ran = scope.spawn(|| run(Some(&session)));
        let asked = served.follow(&format!("{path}/events"), &[]).until("approval.requested").pop().unwrap();
        let answer = format!("{path}/approvals/{}", asked.data["id"].as_str().unwrap());
        served.post(&answer, &json!({"allow": true})).is(204);
        ran.join().unwrap()
    });
    assert_eq!(ran.is(200)["result"], "早上好");
    // Its events are the session's.
    let events = served.follow(&format!("{path}/events"), &[]).until("tool.completed");
    assert_eq!(events.last().unwrap().data["content"]["result"], "早上好");
    // The yes stays.
    assert_eq!(run(None).is(200)["result"], "早上好");
}

#[test]
fn told_to_stop_it_lets_turns_end_and_cancels_those_that_do_not() {
    let scripts = vec![
        ("quick", vec![Reply::Later(Duration::from_millis(700), Box::new(Reply::Text("In time.")))]),
        ("never", vec![Reply::Hangs]),
    ];
    let provider = Provider::by_mark(scripts);
    let home = Home::new().config(&format!("{}[serve]\ngrace_s = 2\n", provider.patient_config(60)));
    let served = Served::start(&home, &[]);
    let (quick, never) = (served.session(&json!({})), served.session(&json!({})));
    let mut followed: Vec<_> =
        [&quick, &never].iter().map(|id| served.follow(&format!("/v1/sessions/{id}/events"), &[])).collect();
    served.post(&format!("/v1/sessions/{quick}/messages"), &json!({"text": "quick"})).is(202);
    served.post(&format!("/v1/sessions/{never}/messages"), &json!({"text": "never"})).is(202);
    provider.was_asked(2);
    let ran = served.stop();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("2 turns ran, 1 of them were cancelled"), "{}", ran.err);
    let ends: Vec<Value> =
        followed.iter_mut().map(|events| events.until("turn.completed").pop().unwrap().data).collect();
    assert_eq!((&ends[0]["answer"], &ends[0]["stop_reason"]), (&json!("In time."), &json!("end_turn")));
    assert_eq!(ends[1]["stop_reason"], "cancelled");
    assert!(followed.iter_mut().all(|events| events.next().is_some_and(|sent| sent.name == "closed")));
    // The history of both is whole.
    for (id, last) in [(quick, "In time."), (never, "cancelled")] {
        assert!(home.run(&["session", "show", &id]).ok().out.contains(last));
    }
}

#[test]
fn what_is_wrong_with_its_set_up_is_said() {
    let home = Home::new().var("SHORT", "abc").var("LONG", "0123456789abcdef");
    let _ = home.run(&["serve", "--listen", "0.0.0.0:0"]).failed(2, &["other machines", "--token-env"]);
    let _ = home.run(&["serve", "--listen", "nonsense"]).failed(2, &["nonsense"]);
    let _ = home.run(&["serve", "--token-env", "NOT_SET"]).failed(2, &["NOT_SET holds no token"]);
    let _ = home.run(&["serve", "--token-env", "SHORT"]).failed(2, &["less than 16 characters"]);
    let served = Served::start(&home, &["--token-env", "LONG"]);
    let taken = served.address.to_string();
    let _ = home.run(&["serve", "--listen", &taken]).failed(2, &[&taken, "already", "--listen 127.0.0.1:0"]);
}

#[test]
fn a_turn_is_taken_back_with_what_it_wrote() {
    let write = Reply::Call("file_write", json!({"path": "new.txt", "content": "内容"}));
    let provider = Provider::start(vec![write, Reply::Text("written")]);
    let home = Home::new().config(&provider.config());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let served = Served::start(&home, &["--approve", "auto"]);
    let session = served.session(&json!({"workspace": place}));
    let path = format!("/v1/sessions/{session}");
    served.post(&format!("{path}/undo"), &json!({})).refused(404, "nothing was said yet");
    served.post(&format!("{path}/messages?wait=true"), &json!({"text": "write it"})).is(200);
    std::fs::write(place.join("new.txt"), "changed since").unwrap();
    served.post(&format!("{path}/undo"), &json!({})).refused(409, "new.txt");
    assert!(place.join("new.txt").exists());
    served.post(&format!("{path}/undo"), &json!({"force": 1})).refused(400, "boolean");
    let undone = served.post(&format!("{path}/undo"), &json!({"force": true})).is(200);
    assert_eq!(
        (&undone["question"], &undone["files"]),
        (&json!("write it"), &json!([{"path": "new.txt", "what": "removed"}]))
    );
    assert!(!place.join("new.txt").exists());
}

#[test]
fn whoever_begins_a_turn_the_moment_another_ends_gets_the_end_of_their_own() {
    const ROUNDS: usize = 30;
    let replies = (0..2 * ROUNDS).map(|n| Reply::Text(Box::leak(n.to_string().into_boxed_str())));
    let provider = Provider::start(replies.collect());
    let home = Home::new().config(&format!("{}[serve]\nrate = 100000\n", provider.config()));
    let served = Served::start(&home, &[]);
    let session = served.session(&json!({"keep": false}));
    let path = format!("/v1/sessions/{session}/messages?wait=true");
    // Until it is not busy any more.
    let turn = || loop {
        let answered = served.post(&path, &json!({"text": "next?"}));
        if answered.status != 409 {
            return answered.is(200)["answer"].as_str().unwrap().to_owned();
        }
    };
    for round in 0..ROUNDS {
        let mut answers = std::thread::scope(|scope| {
            let both = [scope.spawn(turn), scope.spawn(turn)];
            both.map(|turn| turn.join().unwrap())
        });
        answers.sort_by_key(|answer| answer.parse::<usize>().unwrap());
        assert_eq!(answers, [(2 * round).to_string(), (2 * round + 1).to_string()]);
    }
}

#[test]
fn a_session_that_is_opened_again_is_as_careful_as_it_was() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().canonicalize().unwrap().join("no.txt");
    let write = || Reply::Call("file_write", json!({"path": path, "content": "x"}));
    let provider = Provider::start(vec![Reply::Text("hello"), write(), Reply::Text("not written")]);
    let home = Home::new().config(&provider.config());
    let served = Served::start(&home, &["--approve", "auto"]);
    let session = served.session(&json!({"approve": "deny"}));
    let say = |text: &str| served.post(&format!("/v1/sessions/{session}/messages?wait=true"), &json!({"text": text}));
    say("hi").is(200);
    // As it is when nobody used it for long; what is said next opens it again.
    served.post(&format!("/v1/sessions/{session}/close"), &json!({})).is(200);
    say("write it").is(200);
    assert!(!path.exists());
    let told = provider.requests.lock().unwrap().last().unwrap()["messages"].to_string();
    assert!(told.contains("nobody allowed") || told.contains("refused"), "{told}");
}
