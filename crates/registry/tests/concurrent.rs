//! Several processes on one home, and processes that die in mid-write.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{CODE, Home, capability, name, open, register, version_of};
use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Started by the tests below as a process of its own; registers until it is killed or done.
#[test]
#[ignore = "a helper process of the tests below"]
fn child_registers() {
    let home = std::env::var_os("JARVIS_REGISTRY_TEST_HOME").expect("started by a test");
    let tag = std::env::var("JARVIS_REGISTRY_TEST_TAG").unwrap();
    let count: usize = std::env::var("JARVIS_REGISTRY_TEST_COUNT").unwrap().parse().unwrap();
    let registry = open(Path::new(&home));
    for i in 0..count {
        // New names, updates, and now and then a removal.
        let of = if tag.starts_with("all") { format!("cap_{tag}_{i}") } else { format!("cap_{tag}_{}", i % 40) };
        if count > 1000 && i % 7 == 6 && registry.get(&name(&of)).unwrap().is_some() {
            registry.remove(&name(&of)).unwrap();
        } else {
            registry.register(version_of(capability(&of), &format!("// {tag} {i}\n"))).unwrap();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this very test binary, as a second process")]
fn child(home: &Home, tag: &str, count: usize) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_registers", "--ignored", "--test-threads=1"])
        .env("JARVIS_REGISTRY_TEST_HOME", home.path())
        .env("JARVIS_REGISTRY_TEST_TAG", tag)
        .env("JARVIS_REGISTRY_TEST_COUNT", count.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Everything in the index has its code, and git agrees with the files.
fn assert_whole(home: &Home) {
    let registry = home.registry();
    let listing = registry.list().unwrap();
    assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    for cap in &listing.capabilities {
        assert!(registry.code(cap).unwrap().matches_digest, "{}", cap.name);
    }
}

#[test]
fn threads_and_processes_that_register_at_once_lose_nothing() {
    let home = Home::new();
    let mut children: Vec<Child> = ["a", "b", "c"].iter().map(|tag| child(&home, tag, 12)).collect();
    let shared = home.registry();
    std::thread::scope(|scope| {
        for t in 0..3 {
            let shared = shared.clone();
            scope.spawn(move || {
                for i in 0..12 {
                    register(&shared, &format!("thread_{t}_{i}"), CODE);
                }
            });
        }
        scope.spawn(|| {
            // Reading in the meantime sees whole states alone.
            let reader = home.registry();
            for _ in 0..200 {
                for cap in reader.list().unwrap().capabilities {
                    assert!(reader.code(&cap).unwrap().matches_digest, "{}", cap.name);
                }
            }
        });
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let names: HashSet<String> =
        home.registry().list().unwrap().capabilities.iter().map(|c| c.name.to_string()).collect();
    assert_eq!(names.len(), 72);
    assert_whole(&home);
    assert_eq!(home.git(&["rev-list", "--count", "HEAD"]).trim(), "72");
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    home.git(&["fsck", "--strict"]);
}

#[test]
fn another_process_s_registration_is_seen_at_once() {
    let home = Home::new();
    let (here, there) = (home.registry(), home.registry());
    for i in 0..10 {
        let of = format!("cap_{i}");
        register(&there, &of, CODE);
        assert!(here.get(&name(&of)).unwrap().is_some());
        assert!(here.search(&of, 1).unwrap()[0].capability.name.as_str() == of);
    }
}

#[test]
fn killed_at_any_point_of_a_write_the_state_is_the_old_or_the_new_one() {
    let home = Home::new();
    let index = || std::fs::read(home.index()).ok();
    let start = Instant::now();
    let (mut kills, mut moved) = (0u64, 0u64);
    while start.elapsed() < Duration::from_secs(10) {
        let before = index();
        let mut child = child(&home, "k", usize::MAX);
        // Every fourth is killed wherever it is, the others in a later write than their first.
        let born = Instant::now();
        while kills % 4 != 3 && index() == before {
            assert!(born.elapsed() < Duration::from_secs(20), "the helper writes nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(kills * 7919 % 60_000));
        assert!(child.try_wait().unwrap().is_none(), "the helper ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        moved += u64::from(index() != before);
        if home.index().exists() {
            assert_whole(&home);
        }
    }
    assert!(kills >= 20 && moved * 2 > kills, "{moved} of {kills} killed processes wrote something");
    register(&home.registry(), "after_all", CODE);
    assert_whole(&home);
    assert_eq!(home.git(&["status", "--porcelain"]), "", "the next write commits what was interrupted");
    home.git(&["fsck", "--strict"]);
    // Every version in the index can be found in the history.
    let registry = home.registry();
    for cap in registry.list().unwrap().capabilities {
        let history = registry.history(&cap.name).unwrap();
        assert!(history.last().unwrap().commit.is_some(), "{} {}", cap.name, cap.version);
        assert_eq!(history.last().unwrap().version, cap.version);
    }
    let leftovers: Vec<_> = std::fs::read_dir(home.root().join(".staged")).unwrap().flatten().collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    println!("{kills} kills, {moved} after a write, {} commits", home.git(&["rev-list", "--count", "HEAD"]).trim());
}

/// Eight processes register 200 capabilities each. Nobody starves: each gets its turn all along.
#[test]
fn eight_processes_register_1600_capabilities_at_once() {
    let home = Home::new();
    let began = Instant::now();
    let mut children: Vec<Child> = (0..8).map(|i| child(&home, &format!("all_{i}"), 200)).collect();
    let mut ended = Vec::new();
    while ended.len() < children.len() {
        assert!(began.elapsed() < Duration::from_secs(600), "it takes too long");
        for (i, child) in children.iter_mut().enumerate() {
            if !ended.iter().any(|(done, _)| *done == i)
                && let Some(status) = child.try_wait().unwrap()
            {
                assert!(status.success(), "process {i} was refused its turn, or failed");
                ended.push((i, began.elapsed()));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let whole = began.elapsed();
    let registry = home.registry();
    assert_eq!(registry.list().unwrap().capabilities.len(), 1_600);
    assert_whole(&home);
    assert_eq!(registry.check(), []);
    assert_eq!(home.git(&["rev-list", "--count", "HEAD"]).trim(), "1600");
    assert_eq!(home.git(&["rev-list", "--count", "--min-parents=2", "HEAD"]).trim(), "0", "the history is a line");
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    home.git(&["fsck", "--strict"]);
    let first = ended.iter().map(|(_, at)| *at).min().unwrap();
    // With equal turns all end together.
    assert!(first * 2 > whole, "the first was done after {first:?}, the last after {whole:?}");
    println!(
        "1,600 registrations by 8 processes in {whole:.1?}: {:.1} ms each; the first process was done after {first:.1?}",
        whole.as_secs_f64() * 1000.0 / 1600.0
    );
}

#[test]
fn an_index_saved_by_hand_while_processes_write_is_not_lost() {
    let home = Home::new();
    register(&home.registry(), "first_one", CODE);
    let mut children: Vec<Child> = ["a", "b"].iter().map(|tag| child(&home, tag, 30)).collect();
    let mut edits = 0;
    while edits < 12 {
        // As an editor saves: the whole file, made from what was there a moment ago, unless it has changed since.
        let before = std::fs::read_to_string(home.index()).unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&before).unwrap();
        let triggers = value["capabilities"][0]["triggers"].as_array_mut().unwrap();
        triggers.push(format!("by hand {edits}").into());
        let text = serde_json::to_string_pretty(&value).unwrap();
        let staged = home.path().join("edited.json");
        std::fs::write(&staged, text).unwrap();
        if std::fs::read_to_string(home.index()).unwrap() == before {
            std::fs::rename(&staged, home.index()).unwrap();
            edits += 1;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let registry = home.registry();
    register(&registry, "after_all", CODE);
    let first = registry.get(&name("first_one")).unwrap().unwrap();
    let by_hand = first.triggers.iter().filter(|t| t.starts_with("by hand")).count();
    // Between a look and a rename, here as in any editor, somebody else may have been: one of them at most.
    assert!(by_hand >= 11, "{:?}", first.triggers);
    let names: HashSet<String> = registry.list().unwrap().capabilities.iter().map(|c| c.name.to_string()).collect();
    assert!(names.len() >= 61, "{}", names.len());
    assert_whole(&home);
}
