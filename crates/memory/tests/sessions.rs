//! Sessions as a person meets them: written as they happen, found again, gone when deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use jarvis_memory::{NewSession, SessionError, SessionQuery, SessionStore};
use jarvis_protocol::{Message, ToolCall, Usage};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn db(&self) -> PathBuf {
        self.folder.path().join("jarvis.db")
    }

    fn store(&self) -> SessionStore {
        SessionStore::open(&self.db()).unwrap()
    }

    /// Whether any file of the home has these bytes.
    fn holds(&self, text: &str) -> bool {
        fn any(folder: &Path, needle: &[u8]) -> bool {
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).any(|path| {
                if path.is_dir() {
                    return any(&path, needle);
                }
                std::fs::read(&path).unwrap().windows(needle.len()).any(|w| w == needle)
            })
        }
        any(self.folder.path(), text.as_bytes())
    }
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall {
        id: (*id).to_owned(),
        name: "file_read".to_owned(),
        args: json!({"path": "文件.txt", "n": 1.5, "big": 9007199254740993_i64, "z": null, "a": [true]}),
    };
    let tool_calls = ids.iter().map(call).collect();
    Message { tool_calls, reasoning: Some("想一想\n再想".into()), ..Message::assistant("Let me look.") }
}

fn said(text: &str) -> [Message; 2] {
    [Message::user(text), Message::assistant(format!("About {text}"))]
}

fn usage(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, output_tokens: 1, cached_tokens: 2, cost_usd: 0.25, ..Usage::default() }
}

fn titles(store: &SessionStore, text: &str) -> BTreeSet<String> {
    let query = SessionQuery { text: Some(text.to_owned()), ..SessionQuery::default() };
    store.list(&query).unwrap().sessions.iter().map(|s| s.name().to_owned()).collect()
}

#[test]
fn what_was_said_is_there_the_next_time_with_its_cost() {
    let home = Home::new();
    let store = home.store();
    let new = NewSession { workspace: Some("/w".to_owned()), model: Some("p/m".to_owned()), ..NewSession::default() };
    let mut writer = store.create(new).unwrap();
    let history = vec![
        Message::user("读一下  文件"),
        calls(&["1"]),
        Message::tool("1", "内容 🙂", false),
        Message::assistant("好"),
    ];
    writer.append(&history[..1], Usage::default()).unwrap();
    writer.append(&history[1..2], usage(10)).unwrap();
    writer.append(&history[2..], usage(20)).unwrap();
    writer.set_model("other/model").unwrap();
    writer.set_strategy("hybrid").unwrap();
    let id = writer.id().to_owned();
    drop((writer, store));

    let store = home.store();
    let (writer, loaded) = store.resume(&id[..12]).unwrap();
    assert_eq!(writer.len(), 4);
    assert_eq!(loaded.messages, history);
    assert_eq!((loaded.interrupted, loaded.unanswered), (0, false));
    let info = loaded.info;
    assert_eq!(
        info.usage,
        Usage { input_tokens: 30, output_tokens: 2, cached_tokens: 4, cost_usd: 0.5, ..Usage::default() }
    );
    assert_eq!(info.name(), "读一下 文件");
    assert_eq!(info.model.as_deref(), Some("other/model"));
    assert_eq!(info.strategy.as_deref(), Some("hybrid"));
    assert_eq!(store.latest_for("/w").unwrap().unwrap().id, id);
    assert_eq!(store.latest_for("/elsewhere").unwrap(), None);
}

#[test]
fn a_failed_turn_is_taken_back_and_leaves_no_dangling_message() {
    let home = Home::new();
    let store = home.store();
    let mut writer = store.create(NewSession::default()).unwrap();
    writer.append(&said("first"), usage(1)).unwrap();
    let before = writer.len();
    writer.append(&[Message::user("unlucky question"), calls(&["x"])], usage(5)).unwrap();
    writer.truncate(before).unwrap();
    writer.truncate(99).unwrap();
    writer.append(&said("second"), usage(1)).unwrap();
    let loaded = store.load(writer.id()).unwrap();
    let texts: Vec<&str> = loaded.messages.iter().map(|m| m.text.as_str()).collect();
    assert_eq!(texts, ["first", "About first", "second", "About second"]);
    assert_eq!(loaded.info.usage.input_tokens, 7, "what it took stays counted");
    assert!(titles(&store, "unlucky").is_empty());
}

#[test]
fn a_call_that_never_returned_is_completed_by_a_result_that_says_so() {
    let home = Home::new();
    let store = home.store();
    let mut writer = store.create(NewSession::default()).unwrap();
    writer.append(&[Message::user("q"), calls(&["a", "b"]), Message::tool("b", "done", false)], usage(1)).unwrap();
    let id = writer.id().to_owned();
    drop(writer);
    let seen = store.load(&id).unwrap();
    assert_eq!(store.load(&id).unwrap().info.messages, 3, "loading writes nothing");
    let (mut writer, loaded) = store.resume(&id).unwrap();
    assert_eq!(loaded.messages, seen.messages);
    assert_eq!(loaded.interrupted, 1);
    assert_eq!(loaded.messages[2].tool_call_id.as_deref(), Some("a"));
    assert!(loaded.messages[2].is_error && loaded.messages[2].text.contains("interrupted"));
    assert_eq!(loaded.messages[3].text, "done");
    writer.append(&[Message::assistant("Going on.")], usage(1)).unwrap();
    drop(writer);
    let (_writer, again) = store.resume(&id).unwrap();
    assert_eq!(again.interrupted, 0, "it was written");
    assert_eq!(again.messages.len(), 5);

    let mut writer = store.create(NewSession::default()).unwrap();
    writer.append(&[Message::user("killed before the answer")], Usage::default()).unwrap();
    assert!(store.load(writer.id()).unwrap().unanswered);
}

#[test]
fn a_session_is_written_in_one_place_at_a_time_and_can_be_forked_meanwhile() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = store.create(NewSession::default()).unwrap();
    writer.append(&said("one"), usage(3)).unwrap();
    writer.append(&[Message::user("two"), calls(&["a"]), Message::tool("a", "r", false)], usage(3)).unwrap();
    let id = writer.id().to_owned();
    let error = other.resume(&id).unwrap_err();
    assert!(matches!(&error, SessionError::Busy { pid, .. } if *pid == Some(std::process::id())), "{error:?}");
    assert!(error.body().hint.unwrap().contains("fork"));
    assert!(matches!(other.delete(&id), Err(SessionError::Busy { .. })));

    let whole = other.fork(&id, None).unwrap();
    assert_eq!(whole.messages, 5);
    let parent = whole.parent.unwrap();
    assert_eq!((parent.id.as_str(), parent.messages), (id.as_str(), 5));
    assert_eq!(whole.usage, Usage::default());
    let cut = other.fork(&id, Some(4)).unwrap();
    assert_eq!(cut.messages, 3, "a call is not parted from its result");
    assert_eq!(other.fork(&id, Some(2)).unwrap().messages, 2);
    assert_eq!(other.load(&whole.id).unwrap().messages, store.load(&id).unwrap().messages);

    let (mut forked, _) = other.resume(&cut.id).unwrap();
    forked.append(&[Message::assistant("another way")], usage(1)).unwrap();
    assert_eq!(store.load(&id).unwrap().messages.len(), 5, "the first one does not change");
    drop(writer);
    other.resume(&id).unwrap();
}

#[test]
fn sessions_are_listed_newest_first_in_pages_and_found_by_words_of_both_languages() {
    let home = Home::new();
    let store = home.store();
    for (title, text) in [
        ("docs", "昨天完成翻译文档，然后休息"),
        ("cats", "How do I feed two cats? C++ is no cat food"),
        ("plain", "foo-bar and a:b"),
    ] {
        let new = NewSession { title: Some(title.to_owned()), ..NewSession::default() };
        let mut writer = store.create(new).unwrap();
        writer.append(&said(text), usage(1)).unwrap();
        // What tools answer is not what was talked about.
        writer.append(&[calls(&["1"]), Message::tool("1", "zebra", false)], usage(1)).unwrap();
    }
    for (query, found) in [
        ("文档", "docs"),
        ("翻译 休息", "docs"),
        ("feeding a cat", "cats"),
        ("C++", "cats"),
        ("foo-bar", "plain"),
        ("\"a:b", "plain"),
        ("docs", "docs"),
    ] {
        assert_eq!(titles(&store, query), BTreeSet::from([found.to_owned()]), "{query}");
    }
    for query in ["zebra", "猫", "* ( \" AND NOT )", "NEAR(", "🙂", "文档 cats", "!!!"] {
        assert!(titles(&store, query).is_empty(), "{query}");
    }
    titles(&store, &"长 long ".repeat(2000));
    let page = |offset, limit| store.list(&SessionQuery { offset, limit, ..SessionQuery::default() }).unwrap();
    let names: Vec<String> = page(0, 2).sessions.iter().map(|s| s.name().to_owned()).collect();
    assert_eq!(names, ["plain", "cats"]);
    assert_eq!(page(0, 2).total, 3);
    assert_eq!(page(2, 2).sessions[0].name(), "docs");
    let docs = page(2, 1).sessions[0].id.clone();
    store.rename(&docs, "翻译的事").unwrap();
    assert_eq!(titles(&store, "翻译的事"), BTreeSet::from(["翻译的事".to_owned()]));
    assert!(titles(&store, "docs").is_empty(), "the old title finds nothing");
    assert_eq!(store.rename(&docs, " ").unwrap().name(), "昨天完成翻译文档，然后休息");
}

#[test]
fn a_deleted_session_leaves_no_byte_of_it() {
    let home = Home::new();
    let store = home.store();
    let ids: Vec<String> = (0..30)
        .map(|i| {
            let mut writer = store.create(NewSession::default()).unwrap();
            for j in 0..20 {
                let secret = if i == 15 { "xylophonist 秘密鲸鱼" } else { "ordinary 普通" };
                writer.append(&said(&format!("{secret} {i} {j} {}", "filler ".repeat(j * 40))), usage(1)).unwrap();
            }
            writer.id().to_owned()
        })
        .collect();
    assert!(home.holds("xylophonist") && home.holds("密鲸"));
    store.delete(&ids[15]).unwrap();
    for trace in ["xylophonist", "xylophon", "秘密鲸鱼", "密鲸", "鲸鱼"] {
        assert!(!home.holds(trace), "{trace}");
    }
    assert!(matches!(store.load(&ids[15]), Err(SessionError::NotFound(_))));
    assert_eq!(store.load(&ids[16]).unwrap().messages.len(), 40);
    assert_eq!(store.list(&SessionQuery::default()).unwrap().total, 29);
}

#[test]
fn an_export_comes_back_as_the_same_messages() {
    let home = Home::new();
    let store = home.store();
    let new =
        NewSession { title: Some("标题".to_owned()), workspace: Some("/w".to_owned()), ..NewSession::default() };
    let mut writer = store.create(new).unwrap();
    let history = vec![
        Message::system("be brief"),
        Message::user("\u{0}\u{1b} \"引号\" \\ \n\n```\ncode\n```"),
        calls(&["1", "2"]),
        Message::tool("1", "a ```` fence", false),
        Message::tool("2", "broke", true),
        Message::assistant(""),
    ];
    writer.append(&history, usage(7)).unwrap();
    let json = store.export_json(writer.id()).unwrap();
    let elsewhere = Home::new();
    let there = elsewhere.store();
    let info = there.import_json(&json).unwrap();
    let loaded = there.load(&info.id).unwrap();
    assert_eq!(loaded.messages, history);
    assert_eq!(loaded.info.usage, usage(7));
    assert_eq!(loaded.info.title.as_deref(), Some("标题"));
    let again: Value = serde_json::from_str(&there.export_json(&info.id).unwrap()).unwrap();
    assert_eq!(again["messages"], serde_json::from_str::<Value>(&json).unwrap()["messages"]);

    let markdown = store.export_markdown(writer.id()).unwrap();
    for part in
        ["# 标题", "## User", "`file_read`", "`````\na ```` fence\n`````", "## Result (failed)", "> 想一想\n> 再想"]
    {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
    for bad in [
        "",
        "{}",
        "[]",
        &json.replace("\"assistant\"", "\"robot\""),
        &json.replace("\"jarvis_session\": 1", "\"jarvis_session\": 9"),
    ] {
        assert!(matches!(there.import_json(bad), Err(SessionError::Import(_))), "{bad}");
    }
    assert_eq!(there.list(&SessionQuery::default()).unwrap().total, 1, "bad input changes nothing");
}

#[test]
fn fields_of_a_message_that_this_version_does_not_know_survive_an_export() {
    let home = Home::new();
    let json = json!({
        "jarvis_session": 1,
        "session": {"id": "x", "created": "2026-01-02T03:04:05Z", "updated": "2026-01-02T03:04:05Z", "messages": 1,
            "usage": {"input_tokens": 0, "output_tokens": 0}},
        "messages": [{"at": "2026-01-02T03:04:05Z", "message": {"role": "user", "text": "look", "from_the_future": [{"data": "AAAA"}]}}],
    });
    let store = home.store();
    let info = store.import_json(&json.to_string()).unwrap();
    let exported: Value = serde_json::from_str(&store.export_json(&info.id).unwrap()).unwrap();
    assert_eq!(exported["messages"][0]["message"]["from_the_future"][0]["data"], "AAAA");
    assert!(store.export_markdown(&info.id).unwrap().contains("from_the_future"));
    let fork = store.fork(&info.id, None).unwrap();
    assert!(store.export_json(&fork.id).unwrap().contains("AAAA"));
}

#[test]
fn ids_are_given_in_part_when_that_is_clear() {
    let home = Home::new();
    let store = home.store();
    assert!(matches!(store.find(""), Err(SessionError::NotFound(_))));
    let a = store.create(NewSession::default()).unwrap().id().to_owned();
    store.create(NewSession::default()).unwrap();
    assert_eq!(store.find(&a).unwrap().id, a);
    assert!(matches!(store.find(&a[..9]), Err(SessionError::Ambiguous { count: 2, .. })));
    assert!(matches!(store.find("%"), Err(SessionError::NotFound(_))));
    assert!(matches!(store.find("../../etc/passwd"), Err(SessionError::NotFound(_))));
}

#[test]
fn another_program_in_the_same_file_is_not_disturbed_and_a_damaged_file_not_overwritten() {
    let home = Home::new();
    let other = rusqlite::Connection::open(home.db()).unwrap();
    other
        .execute_batch("CREATE TABLE capability_totals (name TEXT); INSERT INTO capability_totals VALUES ('x')")
        .unwrap();
    home.store().create(NewSession::default()).unwrap();
    assert_eq!(other.query_row("SELECT count(*) FROM capability_totals", [], |r| r.get::<_, i64>(0)).unwrap(), 1);

    let damaged = Home::new();
    let bytes = "not a database, whatever its name says; long enough to be read as one, it goes on and on".repeat(20);
    std::fs::write(damaged.db(), &bytes).unwrap();
    let error = SessionStore::open(&damaged.db()).unwrap_err();
    assert!(error.to_string().contains("jarvis.db"), "{error}");
    assert_eq!(std::fs::read_to_string(damaged.db()).unwrap(), bytes);
}

/// Started by the tests below as a process of its own.
#[test]
#[ignore = "a helper process of the tests below"]
fn child_writes() {
    let db = PathBuf::from(std::env::var_os("JARVIS_MEMORY_TEST_DB").expect("started by a test"));
    let id = std::env::var("JARVIS_MEMORY_TEST_ID").unwrap();
    let store = SessionStore::open(&db).unwrap();
    let mut writer =
        if id.is_empty() { store.create(NewSession::default()).unwrap() } else { store.resume(&id).unwrap().0 };
    let turns: u64 = std::env::var("JARVIS_MEMORY_TEST_TURNS").unwrap().parse().unwrap();
    for i in 0..turns {
        writer.append(&[Message::user(format!("turn {i}"))], Usage::default()).unwrap();
        writer.append(&[calls(&["a", "b"])], usage(1)).unwrap();
        writer.append(&[Message::tool("a", "ra", false)], Usage::default()).unwrap();
        writer.append(&[Message::tool("b", "rb", false)], Usage::default()).unwrap();
        writer.append(&[Message::assistant("done")], usage(1)).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "this very test binary, as a second process")]
fn child(home: &Home, id: &str, turns: u64) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writes", "--ignored", "--test-threads=1"])
        .env("JARVIS_MEMORY_TEST_DB", home.db())
        .env("JARVIS_MEMORY_TEST_ID", id)
        .env("JARVIS_MEMORY_TEST_TURNS", turns.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn a_process_killed_at_any_point_leaves_a_session_that_goes_on() {
    let home = Home::new();
    let store = home.store();
    let id = store.create(NewSession::default()).unwrap().id().to_owned();
    let mut interrupted = 0;
    for round in 0..12_u64 {
        let before = store.load(&id).unwrap().messages.len();
        let mut process = child(&home, &id, 1_000_000);
        wait_for("it writes", || (store.find(&id).unwrap().messages as usize > before + 1).then_some(()));
        // The system gives the lock back, not the process: nothing has to time out.
        assert!(matches!(store.resume(&id), Err(SessionError::Busy { pid, .. }) if pid == Some(process.id())));
        std::thread::sleep(Duration::from_micros(700 * round));
        process.kill().unwrap();
        process.wait().unwrap();
        let (mut writer, loaded) = store.resume(&id).unwrap();
        interrupted += loaded.interrupted;
        let (again, missing) = jarvis_memory::mend(loaded.messages.clone());
        assert_eq!((again, missing), (loaded.messages.clone(), 0), "valid");
        assert_eq!(writer.len(), loaded.messages.len());
        writer.append(&said("after the kill"), usage(1)).unwrap();
    }
    // Twelve kills between five steps: some were between a call and its result.
    assert!(interrupted > 0);
}

#[test]
fn processes_that_write_their_own_sessions_at_once_lose_nothing() {
    let home = Home::new();
    let mut children: Vec<Child> = (0..3).map(|_| child(&home, "", 15)).collect();
    let store = home.store();
    let mut writer = store.create(NewSession::default()).unwrap();
    for i in 0..30 {
        writer.append(&said(&i.to_string()), usage(1)).unwrap();
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let mut counts: Vec<u64> =
        store.list(&SessionQuery::default()).unwrap().sessions.iter().map(|s| s.messages).collect();
    counts.sort_unstable();
    assert_eq!(counts, [60, 75, 75, 75]);
}
