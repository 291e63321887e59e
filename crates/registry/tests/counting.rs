//! What is counted: the runs of a capability, and registrations for the alarm on bursts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{CODE, Home, capability, name, register, run, version_of};
use jarvis_protocol::{Egress, Status, Version};
use jarvis_registry::{CallEdge, FailingCall, InUse, NewVersion, RegistryError, Run};
use serde_json::{Value, json};
use std::fs;

#[test]
fn runs_are_counted_and_a_new_version_starts_with_a_clean_record() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let run = |version: Version, ok: bool, at: &str| Run {
        version,
        ok,
        wall_us: 2_000,
        error_class: (!ok).then(|| "timeout".into()),
        egress: Vec::new(),
        at: at.into(),
    };
    for ok in [true, false, false] {
        registry.record_run(&name("word_count"), &run(Version::new(1, 0, 0), ok, "2026-03-02T00:00:00Z")).unwrap();
    }
    let stats = home.registry().stats(&name("word_count")).unwrap();
    assert_eq!((stats.runs, stats.failures, stats.mean_ms), (3, 2, 2.0));
    assert_eq!(stats.recent, [true, false, false]);
    assert_eq!(stats.last_used.as_deref(), Some("2026-03-02T00:00:00Z"));
    assert_eq!(stats.errors["timeout"], 2);

    register(&registry, "word_count", "// repaired\n");
    registry.record_run(&name("word_count"), &run(Version::new(1, 0, 1), true, "2026-03-03T00:00:00Z")).unwrap();
    let stats = registry.stats(&name("word_count")).unwrap();
    assert_eq!((stats.runs, stats.recent), (4, vec![true]));
    for _ in 0..200 {
        registry.record_run(&name("word_count"), &run(Version::new(1, 0, 1), true, "2026-03-04T00:00:00Z")).unwrap();
    }
    let stats = registry.stats(&name("word_count")).unwrap();
    assert_eq!((stats.runs, stats.recent.len()), (204, 10));
}

#[test]
fn what_a_capability_did_with_each_host_is_added_up() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let run = |hosts: Vec<Egress>| Run {
        version: Version::new(1, 0, 0),
        ok: true,
        wall_us: 1,
        error_class: None,
        egress: hosts,
        at: "2026-03-02T00:00:00Z".into(),
    };
    let host =
        |host: &str, denied| Egress { host: host.into(), requests: 2, sent_bytes: 10, received_bytes: 1 << 33, denied };
    for _ in 0..3 {
        let hosts = vec![host("api.example.com", 0), host("evil.example", 1)];
        registry.record_run(&name("word_count"), &run(hosts)).unwrap();
    }
    let egress = registry.stats(&name("word_count")).unwrap().egress;
    assert_eq!(egress.len(), 2);
    let api = egress.iter().find(|e| e.host == "api.example.com").unwrap();
    assert_eq!((api.requests, api.sent_bytes, api.received_bytes, api.denied), (6, 30, 3 << 33, 0));
    assert_eq!(egress.iter().map(|e| e.denied).sum::<u64>(), 3);
    // A capability that talks to ever new hosts does not fill the disk.
    for n in 0..80 {
        registry.record_run(&name("word_count"), &run(vec![host(&format!("h{n}.example"), 0)])).unwrap();
    }
    let egress = registry.stats(&name("word_count")).unwrap().egress;
    assert_eq!(egress.len(), 51);
    assert_eq!(egress.iter().map(|e| e.requests).sum::<u64>(), 3 * 4 + 80 * 2);
}

#[test]
fn a_statistics_file_that_is_no_database_stops_nothing_but_the_statistics() {
    let home = Home::new();
    fs::write(home.path().join("jarvis.db"), "not a database, whatever its name says; long enough to be read").unwrap();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    assert_eq!(registry.list().unwrap().capabilities.len(), 1);
    assert_eq!(registry.search("count the words", 8).unwrap().len(), 1);
    assert_eq!(registry.find_similar(&capability("count_words")).unwrap().len(), 1);
    let error = registry.stats(&name("word_count")).unwrap_err();
    assert!(error.to_string().contains("jarvis.db"), "{error}");

    let error = registry.remove(&name("word_count")).unwrap_err();
    assert!(matches!(error, RegistryError::NotForgotten { .. }) && error.to_string().contains("is removed"), "{error}");
    assert_eq!(registry.get(&name("word_count")).unwrap(), None);
    assert_eq!(home.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_removal_that_fails_keeps_the_statistics() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    registry.record_run(&name("word_count"), &run()).unwrap();
    // No new object has a place, as on a full disk.
    for i in 0..256 {
        let place = home.root().join(format!(".git/objects/{i:02x}"));
        if !place.exists() {
            fs::write(place, "").unwrap();
        }
    }
    let error = registry.remove(&name("word_count")).unwrap_err();
    assert!(matches!(error, RegistryError::Io { .. }) && error.to_string().contains("disk full"), "{error}");
    assert!(registry.get(&name("word_count")).unwrap().is_some());
    assert_eq!(registry.stats(&name("word_count")).unwrap().runs, 1);
}

#[test]
fn bursts_can_be_counted() {
    let home = Home::new();
    let registry = home.registry();
    for (i, minute) in [0, 5, 6, 7].iter().enumerate() {
        let now = format!("2026-03-01T08:{minute:02}:00Z");
        registry.register(NewVersion { now, ..version_of(capability(&format!("cap_{i}")), CODE) }).unwrap();
    }
    assert_eq!(registry.recent_registrations("2026-03-01T08:05:00Z".parse().unwrap()).unwrap(), 3);
}

#[test]
fn what_is_taken_over_or_changed_by_hand_is_no_burst() {
    let entry = |i: usize| json!({"name": format!("cap_{i}"), "capability": "x", "tool_path": format!("tools/cap_{i}.ts"), "version": "1.2.0"});
    let names: Vec<String> = (0..5).map(|i| format!("tools/cap_{i}.ts")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|path| (path.as_str(), CODE)).collect();
    let index = json!({"version": "1.0.0", "capabilities": (0..5).map(entry).collect::<Vec<_>>()});
    let home = Home::with_files(&index.to_string(), &files);
    let registry = home.registry();
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    register(&registry, "word_count", CODE);
    assert_eq!(registry.recent_registrations(since).unwrap(), 1);

    let mut index: Value = serde_json::from_slice(&fs::read(home.index()).unwrap()).unwrap();
    for i in 0..5 {
        index["capabilities"][i]["version"] = json!("1.3.0");
    }
    fs::write(home.index(), index.to_string()).unwrap();
    register(&registry, "other_one", CODE);
    assert_eq!(registry.recent_registrations(since).unwrap(), 2);
    // History knows them all the same.
    let history = registry.history(&name("cap_3")).unwrap();
    assert!(history.last().unwrap().commit.is_some(), "{history:?}");
    assert!(registry.at(&name("cap_3"), &Version::new(1, 2, 0)).unwrap().is_some());

    // Nor is a whole workspace of jarvis, copied without its history.
    let copy = Home::new();
    fs::create_dir_all(copy.root().join("tools")).unwrap();
    fs::copy(home.index(), copy.index()).unwrap();
    for file in fs::read_dir(home.root().join("tools")).unwrap().flatten() {
        fs::copy(file.path(), copy.root().join("tools").join(file.file_name())).unwrap();
    }
    register(&copy.registry(), "third_one", CODE);
    assert_eq!(copy.registry().recent_registrations(since).unwrap(), 1);
}

#[test]
fn a_registration_that_was_cut_off_before_its_commit_counts_once_it_is_finished() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    register(&registry, "other_one", CODE);
    // As a process leaves it that is killed before its commit is HEAD.
    home.git(&["reset", "-q", "--soft", "HEAD~1"]);
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(registry.recent_registrations(since).unwrap(), 1);
    register(&registry, "third_one", CODE);
    assert_eq!(registry.recent_registrations(since).unwrap(), 3);
}

#[test]
fn calls_of_one_capability_by_another_are_added_up_and_forgotten_with_either() {
    let home = Home::new();
    let registry = home.registry();
    assert_eq!(registry.calls().unwrap(), []);
    for one in ["outer", "inner", "third"] {
        register(&registry, one, CODE);
    }
    let edge = |caller: &str, callee: &str, runs, failures| CallEdge {
        caller: name(caller),
        callee: name(callee),
        runs,
        failures,
    };
    for one in [edge("outer", "inner", 1, 0), edge("outer", "inner", 1, 1), edge("third", "outer", 1, 0)] {
        registry.record_call(&one).unwrap();
    }
    registry.record_call(&edge("outer", "third", 3, 0)).unwrap();
    let all = [edge("outer", "third", 3, 0), edge("outer", "inner", 2, 1), edge("third", "outer", 1, 0)];
    assert_eq!(home.registry().calls().unwrap(), all);
    registry.remove(&name("inner")).unwrap();
    assert_eq!(registry.calls().unwrap(), [edge("outer", "third", 3, 0), edge("third", "outer", 1, 0)]);
    registry.remove(&name("outer")).unwrap();
    assert_eq!(registry.calls().unwrap(), []);
}

#[test]
fn a_file_of_statistics_without_calls_is_read_as_having_none() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    registry.record_run(&name("word_count"), &run()).unwrap();
    let db = rusqlite::Connection::open(home.path().join("jarvis.db")).unwrap();
    db.execute("DROP TABLE capability_calls", []).unwrap();
    assert_eq!(home.registry().calls().unwrap(), []);
}

fn failing(args: &str, at: &str) -> FailingCall {
    FailingCall {
        version: Version::new(1, 0, 0),
        args: args.into(),
        exact: true,
        class: "threw".into(),
        error: "TypeError: no".into(),
        at: at.into(),
    }
}

#[test]
fn failing_calls_are_few_and_one_that_is_repeated_does_not_push_out_the_others() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    assert!(registry.failing_calls(&name("word_count")).unwrap().is_empty());
    let fail = |args: &str| {
        let run = Run { ok: false, error_class: Some("threw".into()), ..run() };
        registry.record_use(&name("word_count"), &run, Some(&failing(args, "2026-03-02T00:00:00Z")), true).unwrap()
    };
    fail("{\"text\":1}");
    for _ in 0..30 {
        fail("{\"text\":2}");
    }
    let kept = registry.failing_calls(&name("word_count")).unwrap();
    let args: Vec<&str> = kept.iter().map(|call| call.args.as_str()).collect();
    assert_eq!(args, ["{\"text\":2}", "{\"text\":1}"]);
    for n in 10..30 {
        fail(&format!("{{\"text\":{n}}}"));
    }
    let kept = registry.failing_calls(&name("word_count")).unwrap();
    assert_eq!((kept.len(), kept[0].args.as_str()), (10, "{\"text\":29}"));
    registry.remove(&name("word_count")).unwrap();
    assert!(registry.failing_calls(&name("word_count")).unwrap().is_empty());
    assert_eq!(registry.in_use(&name("word_count"), &Version::new(1, 0, 0)).unwrap(), InUse::default());
}

#[test]
fn a_version_is_judged_by_its_own_last_five_runs_that_say_something_of_its_code() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let record = |version: Version, ok: bool, telling: bool| {
        registry.record_use(&name("word_count"), &Run { version, ok, ..run() }, None, telling).unwrap()
    };
    let (first, second) = (Version::new(1, 0, 0), Version::new(1, 0, 1));
    for ok in [false, false, true, true, true, true] {
        record(first.clone(), ok, true);
    }
    assert_eq!(record(first.clone(), false, false).recent, [false, true, true, true, true]);
    let used = record(second.clone(), false, true);
    assert_eq!((used.runs, used.failures, used.recent), (1, 1, vec![false]));
    let used = registry.in_use(&name("word_count"), &first).unwrap();
    assert_eq!((used.runs, used.failures, used.recent_failures()), (6, 2, 1));
    registry.start_over(&name("word_count")).unwrap();
    assert!(registry.in_use(&name("word_count"), &first).unwrap().recent.is_empty());
    assert_eq!(registry.stats(&name("word_count")).unwrap().runs, 8);
}

#[test]
fn of_many_that_mean_the_same_change_of_status_one_does_it() {
    let home = Home::new();
    register(&home.registry(), "word_count", CODE);
    let change = || {
        let registry = home.registry();
        let agreed = |now: &jarvis_protocol::Capability| Ok::<bool, RegistryError>(now.status == Status::Active);
        registry.set_status_if(&name("word_count"), Status::Quarantined, agreed).unwrap().is_some()
    };
    let done = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(change)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|done| *done).count()
    });
    assert_eq!(done, 1);
}

#[test]
fn what_was_registered_is_found_again_behind_an_edit_and_the_number_moves_by_it() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let path = registry.root().join("index.json");
    let mut index: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    index["capabilities"][0]["grants"]["network"] = json!(["api.example.com"]);
    fs::write(&path, index.to_string()).unwrap();
    let edited = registry.get(&name("word_count")).unwrap().unwrap();
    let (before, code) = registry.as_registered(&edited).unwrap().unwrap();
    assert!(before.grants.is_empty() && code == CODE);
    let registered = registry.register(version_of(edited.clone(), CODE)).unwrap();
    assert_eq!(registered.version, Version::new(2, 0, 0));
}
