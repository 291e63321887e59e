//! What a person sees of the registry: versions, history, files that git and an editor can work with.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{CODE, Home, capability, name, register, run, version_of};
use jarvis_protocol::{CreatedBy, ErrorKind, Runtime, Status, Version};
use jarvis_registry::{NewVersion, RegistryError};
use serde_json::{Value, json};
use std::fs;

#[test]
fn opening_and_asking_an_empty_home_writes_nothing() {
    let home = Home::new();
    let registry = home.registry();
    assert_eq!(registry.list().unwrap(), Default::default());
    assert_eq!(registry.get(&name("word_count")).unwrap(), None);
    assert!(registry.search("count words", 8).unwrap().is_empty());
    assert_eq!(registry.stats(&name("word_count")).unwrap().runs, 0);
    assert_eq!(registry.recent_registrations("2020-01-01T00:00:00Z".parse().unwrap()).unwrap(), 0);
    assert!(matches!(registry.history(&name("word_count")), Err(RegistryError::NotFound(_))));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_registered_capability_is_there_in_another_process_with_code_and_commit() {
    let home = Home::new();
    let done = register(&home.registry(), "word_count", CODE);
    assert_eq!((done.version.to_string().as_str(), &done.previous), ("1.0.0", &None));

    let registry = home.registry();
    let cap = registry.get(&name("word_count")).unwrap().unwrap();
    assert_eq!(cap.tool_path, "tools/word_count.ts");
    assert_eq!(cap.created, "2026-03-01T08:00:00Z");
    assert_eq!(cap.model.as_deref(), Some("local/test"));
    assert_eq!(cap.digest.len(), 64);
    let code = registry.code(&cap).unwrap();
    assert!(code.matches_digest && code.text == CODE);
    let index: Value = serde_json::from_slice(&fs::read(home.index()).unwrap()).unwrap();
    assert_eq!((&index["version"], &index["format"]), (&json!("1.0.0"), &json!(1)));

    assert_eq!(home.git(&["status", "--porcelain"]), "");
    assert_eq!(
        home.git(&["log", "--format=%H %an %s"]).trim(),
        format!("{} jarvis word_count 1.0.0: first version", done.commit)
    );
    assert_eq!(home.git(&["ls-files"]), "index.json\ntools/word_count.ts\n");
    home.git(&["fsck", "--strict"]);
}

#[test]
fn versions_move_by_what_changed_and_author_created_and_history_survive() {
    let home = Home::new();
    let registry = home.registry();
    let human = NewVersion { created_by: CreatedBy::Human, ..version_of(capability("word_count"), CODE) };
    registry.register(human).unwrap();

    let later = |cap, code: &str, change: &str| NewVersion {
        change: change.into(),
        model: Some("local/other".into()),
        now: "2026-04-01T09:30:00+02:00".into(),
        ..version_of(cap, code)
    };
    let code_only = registry.register(later(capability("word_count"), "// better\n", "trims")).unwrap();
    assert_eq!(code_only.version.to_string(), "1.0.1");
    assert_eq!(code_only.previous, Some(Version::new(1, 0, 0)));

    let mut wider = capability("word_count");
    wider.parameters["properties"]["unique"] = json!({"type": "boolean"});
    assert_eq!(
        registry.register(later(wider.clone(), "// wider\n", "counts unique")).unwrap().version.to_string(),
        "1.1.0"
    );
    wider.grants.read.push("data".into());
    assert_eq!(registry.register(later(wider, "// wider\n", "reads\nfiles")).unwrap().version.to_string(), "2.0.0");

    let cap = registry.get(&name("word_count")).unwrap().unwrap();
    assert_eq!(cap.created_by, CreatedBy::Human);
    assert_eq!(cap.created, "2026-03-01T08:00:00Z");
    assert_eq!(cap.model.as_deref(), Some("local/other"));
    let history = registry.history(&name("word_count")).unwrap();
    let told: Vec<String> =
        history.iter().map(|h| format!("{} {} {}", h.version, h.change, h.commit.is_some())).collect();
    assert_eq!(
        told,
        ["1.0.0 first version true", "1.0.1 trims true", "1.1.0 counts unique true", "2.0.0 reads files true"]
    );
    assert_eq!(history[1].commit.as_deref(), Some(code_only.commit.as_str()));

    let (old, code) = registry.at(&name("word_count"), &Version::new(1, 0, 0)).unwrap().unwrap();
    assert_eq!((old.version, code.as_str()), (Version::new(1, 0, 0), CODE));
}

#[test]
fn registering_the_same_again_changes_nothing() {
    let home = Home::new();
    let registry = home.registry();
    let first = register(&registry, "word_count", CODE);
    let again = register(&registry, "word_count", CODE);
    assert_eq!(
        (again.previous, again.version, again.commit),
        (Some(first.version.clone()), first.version, first.commit)
    );
    assert_eq!(home.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
}

#[test]
fn a_file_changed_by_hand_is_noticed_and_never_lost() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let file = home.root().join("tools/word_count.ts");
    fs::write(&file, "// mine\n").unwrap();
    let cap = registry.get(&name("word_count")).unwrap().unwrap();
    let code = registry.code(&cap).unwrap();
    assert!(!code.matches_digest && code.text == "// mine\n");

    register(&registry, "word_count", "// the model's\n");
    assert_eq!(home.git(&["show", "HEAD~1:tools/word_count.ts"]), "// mine\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "// the model's\n");
    assert_eq!(home.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_capability_got_before_an_update_still_gives_its_own_code() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let old = registry.get(&name("word_count")).unwrap().unwrap();
    register(&home.registry(), "word_count", "// newer\n");
    let code = registry.code(&old).unwrap();
    assert!(code.matches_digest && code.text == CODE);
}

#[test]
fn what_people_have_staged_or_left_uncommitted_stays_theirs() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    fs::write(home.root().join("NOTES.md"), "mine").unwrap();
    fs::write(home.root().join("TODO.md"), "mine").unwrap();
    home.git(&["add", "NOTES.md"]);
    register(&registry, "other_one", CODE);
    assert_eq!(home.git(&["status", "--porcelain"]), "A  NOTES.md\n?? TODO.md\n");
}

#[test]
fn removing_keeps_the_history_and_leaves_nothing_that_runs() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    register(&registry, "other_one", CODE);
    registry.record_run(&name("word_count"), &run()).unwrap();
    registry.remove(&name("word_count")).unwrap();
    assert_eq!(registry.get(&name("word_count")).unwrap(), None);
    assert!(!home.root().join("tools/word_count.ts").exists());
    assert_eq!(registry.stats(&name("word_count")).unwrap().runs, 0);
    assert_eq!(registry.history(&name("word_count")).unwrap().len(), 1);
    assert!(registry.search("count the words", 8).unwrap().iter().all(|h| h.capability.name == name("other_one")));
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    assert!(matches!(registry.remove(&name("word_count")), Err(RegistryError::NotFound(_))));
}

#[test]
fn a_status_is_kept_and_takes_a_capability_out_of_the_search() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    assert_eq!(registry.search("count the words", 8).unwrap().len(), 1);
    registry.set_status(&name("word_count"), Status::Quarantined).unwrap();
    assert_eq!(registry.search("count the words", 8).unwrap().len(), 0);
    let cap = home.registry().get(&name("word_count")).unwrap().unwrap();
    assert_eq!((cap.status, cap.version), (Status::Quarantined, Version::new(1, 0, 0)));
}

#[test]
fn an_update_in_another_language_replaces_the_old_file() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let mut python = capability("word_count");
    python.runtime = Runtime::Python;
    let done = registry.register(version_of(python, "def run(text): return len(text.split())\n")).unwrap();
    assert_eq!(done.version.to_string(), "2.0.0");
    assert_eq!(home.git(&["ls-files"]), "index.json\ntools/word_count.py\n");
    assert!(!home.root().join("tools/word_count.ts").exists());
}

#[test]
fn unknown_fields_survive_in_the_file_and_in_an_updated_entry() {
    let index = r#"{"version":"1.0.0","theme":{"deep":[1,2]},"capabilities":[
        {"name":"word_count","capability":"Counts words","tool_path":"tools/word_count.ts","created":"2025-05-01","icon":"🔢"},
        {"name":"untouched","capability":"x","big":123456789012345678901234567890.50,   "odd" : "spacing"}]}"#;
    let home = Home::with_files(index, &[("tools/word_count.ts", CODE)]);
    let registry = home.registry();
    let done = register(&registry, "word_count", "// new\n");
    assert_eq!(done.previous, Some(Version::new(1, 0, 0)));
    let text = fs::read_to_string(home.index()).unwrap();
    assert!(text.contains(r#""big":123456789012345678901234567890.50,   "odd" : "spacing""#), "{text}");
    let index: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(index["theme"], json!({"deep": [1, 2]}));
    assert_eq!(index["capabilities"][0]["icon"], "🔢");
    assert_eq!(index["capabilities"][0]["created"], "2025-05-01");
}

#[test]
fn a_tendril_index_opens_as_it_is_and_its_code_counts_as_unchecked() {
    let index = r#"{"version":"1.0.0","capabilities":[{"name":"fetch_title","capability":"Gets the title of a page",
        "triggers":["a URL is given and its title is wanted"],"suppression":["the page's full text is wanted"],
        "tool_path":"tools/fetch_title.ts","created":"2025-11-02","created_by":"model","version":"1.2"}]}"#;
    let home = Home::with_files(index, &[("tools/fetch_title.ts", CODE)]);
    let registry = home.registry();
    let cap = registry.get(&name("fetch_title")).unwrap().unwrap();
    assert_eq!((cap.version.to_string().as_str(), cap.created.as_str()), ("1.2.0", "2025-11-02"));
    assert!(!registry.code(&cap).unwrap().matches_digest);
    assert!(!home.root().join(".git").exists(), "reading makes no repository");

    register(&registry, "word_count", CODE);
    assert_eq!(
        home.git(&["log", "--format=%s", "--reverse"]),
        "take over the index as it is\nword_count 1.0.0: first version\n"
    );
    assert_eq!(home.git(&["show", "HEAD~1:index.json"]), index);
    assert_eq!(registry.history(&name("fetch_title")).unwrap()[0].date, "2025-11-02");
}

#[test]
fn one_bad_entry_does_not_hide_the_others() {
    let index = r#"{"version":"1.0.0","capabilities":[{"name":"good_one","capability":"x"},{"name":"../evil","capability":"x"},
        {"capability":"no name"},7,{"name":"half_one"},{"name":"good_one","capability":"again"},{"name":"good_two","capability":"y"}]}"#;
    let home = Home::with_files(index, &[]);
    let registry = home.registry();
    let listing = registry.list().unwrap();
    assert_eq!(listing.capabilities.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["good_one", "good_two"]);
    assert_eq!(
        listing.damaged.iter().map(|d| d.entry.as_str()).collect::<Vec<_>>(),
        ["../evil", "#3", "#4", "half_one", "good_one"]
    );
    assert!(matches!(registry.get(&name("half_one")), Err(RegistryError::DamagedEntry { .. })));
    assert!(registry.register(version_of(capability("half_one"), CODE)).is_err(), "it is not overwritten");
    register(&registry, "new_one", CODE);
    assert_eq!(home.registry().list().unwrap().damaged.len(), 5, "they stay as they are");
}

#[test]
fn without_history_nobody_is_sent_to_git() {
    let home = Home::new();
    let registry = home.registry();
    fs::create_dir_all(home.root()).unwrap();
    fs::write(home.index(), b"{").unwrap();
    let hint = registry.list().unwrap_err().body().hint.unwrap();
    assert!(!hint.contains("git") && hint.contains("empty registry"), "{hint}");
}

#[test]
fn a_corrupt_index_is_kept_aside_once_reported_and_never_overwritten() {
    let whole = {
        let home = Home::new();
        register(&home.registry(), "word_count", CODE);
        fs::read(home.index()).unwrap()
    };
    let conflict = b"<<<<<<< HEAD\n{}\n=======\n{\"capabilities\":[]}\n>>>>>>> other\n".to_vec();
    let variants: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"  \n".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        vec![0; whole.len()],
        [&whole[..40], &[0xff, 0xfe], &whole[40..]].concat(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{}".to_vec(),
        br#"{"capabilities":{}}"#.to_vec(),
        br#"{"capabilities":[]}{"#.to_vec(),
        br#"{"capabilities":[],"capabilities":[]}"#.to_vec(),
        br#"{"format":"one","capabilities":[]}"#.to_vec(),
        "[".repeat(100_000).into_bytes(),
        conflict,
    ];
    for bad in variants {
        let home = Home::new();
        let registry = home.registry();
        register(&registry, "word_count", CODE);
        fs::write(home.index(), &bad).unwrap();
        let shown = String::from_utf8_lossy(&bad[..bad.len().min(60)]).into_owned();
        for _ in 0..2 {
            // What was committed goes on working, and says so.
            let listing = home.registry().list().unwrap();
            assert_eq!(listing.capabilities.len(), 1, "{shown}");
            assert_eq!(listing.damaged[0].entry, "index.json", "{shown}");
            assert!(registry.code(&listing.capabilities[0]).unwrap().matches_digest, "{shown}");
            assert_eq!(registry.search("words of a text", 3).unwrap().len(), 1, "{shown}");
            let error = registry.register(version_of(capability("other_one"), CODE)).unwrap_err();
            let RegistryError::Damaged { kept: Ok(kept), .. } = &error else { panic!("{shown}: {error:?}") };
            assert_eq!(fs::read(kept).unwrap(), bad, "{shown}");
            assert_eq!(error.body().kind, ErrorKind::Damaged);
            assert!(error.body().hint.unwrap().contains("git -C"), "{shown}");
        }
        assert!(registry.remove(&name("word_count")).is_err(), "{shown}");
        assert_eq!(fs::read(home.index()).unwrap(), bad, "{shown}");
        let copies = fs::read_dir(home.root()).unwrap().flatten();
        assert_eq!(copies.filter(|f| f.file_name().to_string_lossy().contains("damaged-")).count(), 1, "{shown}");

        home.git(&["checkout", "HEAD", "--", "index.json"]);
        assert_eq!(registry.list().unwrap().capabilities.len(), 1, "{shown}");
        register(&registry, "other_one", CODE);
    }
}

#[test]
fn a_byte_order_mark_is_no_damage() {
    let home = Home::with_files("\u{feff}{\"capabilities\":[{\"name\":\"word_count\",\"capability\":\"x\"}]}", &[]);
    assert_eq!(home.registry().list().unwrap().capabilities.len(), 1);
}

#[test]
fn a_home_of_a_newer_version_is_left_alone() {
    let index = r#"{"version":"9.0.0","format":2,"capabilities":[]}"#;
    let home = Home::with_files(index, &[]);
    let registry = home.registry();
    let error = registry.register(version_of(capability("word_count"), CODE)).unwrap_err();
    assert!(matches!(error, RegistryError::NewerHome { found: 2, .. }), "{error:?}");
    assert!(error.body().hint.unwrap().contains("update"));
    assert!(matches!(registry.list(), Err(RegistryError::NewerHome { .. })));
    assert_eq!(fs::read_to_string(home.index()).unwrap(), index);
    assert!(!home.root().join(".git").exists());
}

#[cfg(unix)]
#[test]
fn code_outside_of_the_workspace_is_never_read() {
    let home = Home::new();
    fs::create_dir_all(home.root().join("tools")).unwrap();
    let secret = home.path().join("secret.ts");
    fs::write(&secret, "secret").unwrap();
    std::os::unix::fs::symlink(&secret, home.root().join("tools/link.ts")).unwrap();
    std::os::unix::fs::symlink(home.path(), home.root().join("tools/up")).unwrap();
    let registry = home.registry();
    for path in [
        "../secret.ts",
        "tools/../../secret.ts",
        &secret.to_string_lossy(),
        "tools/link.ts",
        "tools/up/secret.ts",
        "",
        ".",
    ] {
        let mut cap = capability("word_count");
        cap.tool_path = path.into();
        assert!(registry.code(&cap).is_err(), "{path}");
    }
    // Nor does replacing or removing such an entry touch what it points to.
    let index = json!({"capabilities": [{"name": "word_count", "capability": "x", "tool_path": "../secret.ts"}]});
    fs::write(home.index(), index.to_string()).unwrap();
    register(&registry, "word_count", CODE);
    fs::write(home.index(), index.to_string()).unwrap();
    registry.remove(&name("word_count")).unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_definition_that_cannot_be_registered_leaves_nothing() {
    let home = Home::new();
    let registry = home.registry();
    let mut schema = version_of(capability("word_count"), CODE);
    schema.capability.parameters = json!([]);
    let time = NewVersion { now: "yesterday".into(), ..version_of(capability("word_count"), CODE) };
    for new in [schema, time, version_of(capability("word_count"), " \n")] {
        assert!(matches!(registry.register(new), Err(RegistryError::Invalid { .. })));
    }
    assert!(!home.root().exists());
}

#[test]
fn a_definition_of_a_switched_off_capability_is_active_once_registered() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    registry.set_status(&name("word_count"), Status::Disabled).unwrap();
    let exported = registry.get(&name("word_count")).unwrap().unwrap();
    let done = registry.register(version_of(exported, "// better\n")).unwrap();
    assert_eq!(done.version.to_string(), "1.0.1");
    assert_eq!(registry.get(&name("word_count")).unwrap().unwrap().status, Status::Active);
    assert_eq!(registry.search("count the words", 8).unwrap().len(), 1);
}

#[test]
fn a_write_that_cannot_be_finished_leaves_the_old_state() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let before = fs::read(home.index()).unwrap();
    // In the way of what is staged, as a folder without permission would be.
    let blocked = home.root().join(".staged/index.json");
    fs::create_dir(&blocked).unwrap();
    let error = registry.register(version_of(capability("word_count"), "// new\n")).unwrap_err();
    assert_eq!(error.body().kind, ErrorKind::Disk, "{error}");
    assert!(error.body().hint.is_some());
    assert_eq!(fs::read(home.index()).unwrap(), before);
    let cap = registry.get(&name("word_count")).unwrap().unwrap();
    assert_eq!(registry.code(&cap).unwrap().text, CODE);
    fs::remove_dir(&blocked).unwrap();
    assert_eq!(register(&registry, "word_count", "// new\n").version.to_string(), "1.0.1");
    assert_eq!(home.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_index_edited_by_hand_is_committed_as_it_is_before_the_next_write() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    register(&registry, "old_one", "// old\n");
    let mut index: Value = serde_json::from_slice(&fs::read(home.index()).unwrap()).unwrap();
    index["capabilities"][0]["capability"] = json!("Zählt Wörter, 数单词");
    index["capabilities"].as_array_mut().unwrap().remove(1);
    let edited = serde_json::to_string(&index).unwrap();
    fs::write(home.index(), &edited).unwrap();
    assert_eq!(registry.get(&name("word_count")).unwrap().unwrap().capability, "Zählt Wörter, 数单词");
    assert_eq!(registry.get(&name("old_one")).unwrap(), None, "an entry taken out no longer runs");

    register(&registry, "new_one", CODE);
    assert_eq!(home.git(&["show", "HEAD~1:index.json"]), edited);
    assert_eq!(home.git(&["ls-files"]), "index.json\ntools/new_one.ts\ntools/word_count.ts\n");
    assert!(!home.root().join("tools/old_one.ts").exists());
    assert_eq!(home.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_commit_of_a_person_on_another_branch_or_a_detached_head_is_built_upon() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    home.git(&["checkout", "-q", "-b", "mine"]);
    home.git(&["-c", "user.name=p", "-c", "user.email=p@x", "commit", "-q", "--allow-empty", "-m", "by a person"]);
    register(&registry, "second_one", CODE);
    home.git(&["checkout", "-q", "--detach"]);
    register(&registry, "third_one", CODE);
    assert_eq!(
        home.git(&["log", "--format=%s"]),
        "third_one 1.0.0: first version\nsecond_one 1.0.0: first version\nby a person\nword_count 1.0.0: first version\n"
    );
    assert_eq!(home.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_repository_around_the_home_is_not_touched() {
    let home = Home::new();
    fs::create_dir_all(home.root()).unwrap();
    home.git(&["init", "-q", home.path().to_str().unwrap()]);
    register(&home.registry(), "word_count", CODE);
    assert!(home.root().join(".git").exists());
    assert_eq!(
        home.git(&["rev-parse", "--show-toplevel"]).trim(),
        home.root().canonicalize().unwrap().to_str().unwrap()
    );
}

#[cfg(unix)]
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_its_own_folders_has_nothing_deleted_or_written() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("precious.txt"), "mine").unwrap();
    for name in [".staged", ".aside", ".lock", ".lock.next"] {
        let home = Home::new();
        let registry = home.registry();
        register(&registry, "first_one", CODE);
        let place = home.root().join(name);
        let _ = std::fs::remove_dir_all(&place).or_else(|_| std::fs::remove_file(&place));
        std::os::unix::fs::symlink(elsewhere.path(), &place).unwrap();
        let refused = registry.register(version_of(capability("second_one"), CODE)).unwrap_err();
        assert!(refused.to_string().contains(name), "{name}: {refused}");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1, "{name}");
        assert_eq!(registry.list().unwrap().capabilities.len(), 1, "{name}: reading goes on");
    }
}

#[test]
fn code_is_not_written_through_a_linked_folder() {
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(home.root()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, home.root().join("tools")).unwrap();
    assert!(home.registry().register(version_of(capability("word_count"), CODE)).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// A commit then would be the first of a history of its own, and every version before it out of sight.
#[test]
fn nothing_is_written_while_the_branch_is_lost_and_a_repair_puts_it_back() {
    for (what, gone) in [("its file", false), ("its file and git's logs", true)] {
        let home = Home::new();
        register(&home.registry(), "alpha_one", CODE);
        register(&home.registry(), "beta_two", CODE);
        let tip = home.git(&["rev-parse", "HEAD"]);
        std::fs::remove_file(home.root().join(".git/refs/heads/main")).unwrap();
        if gone {
            std::fs::remove_dir_all(home.root().join(".git/logs")).unwrap();
        }
        let index = std::fs::read(home.index()).unwrap();
        let error = home.registry().register(version_of(capability("new_one"), CODE)).unwrap_err();
        assert!(matches!(error, RegistryError::LostBranch { .. }), "{what}: {error}");
        assert!(error.body().hint.unwrap().contains("jarvis doctor --fix"));
        assert_eq!(std::fs::read(home.index()).unwrap(), index, "{what}: nothing is written");
        let repaired = home.registry().repair().unwrap();
        assert_eq!(repaired.left, [], "{what}: {repaired:?}");
        assert_eq!(home.git(&["rev-parse", "HEAD"]), tip, "{what}");
        assert!(home.registry().at(&name("alpha_one"), &Version::new(1, 0, 0)).unwrap().is_some());
        register(&home.registry(), "new_one", CODE);
        assert_eq!(home.git(&["rev-parse", "HEAD~1"]), tip, "{what}: built upon what was there");
        home.git(&["fsck", "--strict"]);
    }
}

#[test]
fn a_first_commit_that_was_killed_is_no_lost_branch() {
    let home = Home::new();
    register(&home.registry(), "alpha_one", CODE);
    std::fs::remove_file(home.root().join(".git/refs/heads/main")).unwrap();
    std::fs::remove_dir_all(home.root().join(".git/logs")).unwrap();
    assert_eq!(home.registry().check(), []);
    register(&home.registry(), "beta_two", CODE);
    assert!(home.registry().at(&name("alpha_one"), &Version::new(1, 0, 0)).unwrap().is_some());
}

#[test]
fn a_damaged_staging_area_is_made_again_by_the_next_write() {
    let home = Home::new();
    register(&home.registry(), "alpha_one", CODE);
    for bytes in [b"nonsense".repeat(40), Vec::new()] {
        std::fs::write(home.root().join(".git/index"), &bytes).unwrap();
        assert_eq!(home.registry().check().len(), 1, "it is told");
        let registered = register(&home.registry(), "beta_two", &format!("{CODE}// {}", bytes.len()));
        assert_eq!(home.git(&["rev-parse", "HEAD"]).trim(), registered.commit);
        assert_eq!(home.git(&["status", "--porcelain"]), "");
        assert_eq!(home.registry().check(), []);
    }
    let kept = std::fs::read_dir(home.root().join(".aside")).unwrap().flatten();
    assert!(kept.into_iter().any(|file| std::fs::read(file.path()).unwrap() == b"nonsense".repeat(40)));
}

#[test]
fn a_branch_that_names_a_missing_commit_goes_back_and_no_log_names_it_any_more() {
    for emptied in [false, true] {
        let home = Home::new();
        register(&home.registry(), "alpha_one", CODE);
        let whole = home.git(&["rev-parse", "HEAD"]);
        let tip = register(&home.registry(), "beta_two", CODE).commit;
        if emptied {
            std::fs::write(home.root().join(".git/refs/heads/main"), "").unwrap();
        } else {
            std::fs::remove_file(home.root().join(".git/objects").join(&tip[..2]).join(&tip[2..])).unwrap();
        }
        let repaired = home.registry().repair().unwrap();
        assert_eq!(repaired.left, [], "{repaired:?}");
        assert_eq!(home.git(&["rev-parse", "HEAD"]).trim(), if emptied { tip.as_str() } else { whole.trim() });
        home.git(&["fsck", "--strict"]);
        register(&home.registry(), "new_one", CODE);
        assert_eq!(home.registry().check(), []);
    }
}
