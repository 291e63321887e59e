//! Many capabilities from elsewhere in one write: whole or not at all, once, and fast.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::{CODE, Home, capability, name, register, version_of};
use jarvis_protocol::{Grants, Status, Version};
use jarvis_registry::{Conflict, Fate, ImportOptions, Package, PortError, Statuses, read};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

fn options() -> ImportOptions {
    ImportOptions {
        conflict: Conflict::Rename,
        prefix: None,
        now: "2026-03-02T08:00:00Z".to_owned(),
        from: "a workspace".to_owned(),
    }
}

/// A Tendril workspace with `count` capabilities.
fn workspace(folder: &Path, count: usize) -> Package {
    std::fs::create_dir_all(folder.join("tools")).unwrap();
    let entries: Vec<Value> = (0..count)
        .map(|i| {
            std::fs::write(folder.join(format!("tools/tool_{i}.ts")), format!("console.log(args.n + {i});\n")).unwrap();
            json!({"name": format!("tool_{i}"), "capability": format!("Adds {i} 加上"), "triggers": ["a sum"],
                "suppression": [], "tool_path": format!("tools/tool_{i}.ts"), "created": "2025-01-02",
                "created_by": "human", "version": "1.2.0"})
        })
        .collect();
    let index = json!({"version": "1.0.0", "capabilities": entries});
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
    read(folder, &mut |_| true).unwrap()
}

fn fates(entries: &[jarvis_registry::Imported]) -> Vec<(&str, Fate)> {
    entries.iter().map(|entry| (entry.name.as_str(), entry.fate)).collect()
}

fn staged(home: &Home) -> usize {
    std::fs::read_dir(home.root().join(".staged")).map_or(0, Iterator::count)
}

#[test]
fn three_thousand_are_one_commit_within_seconds_and_once() {
    let (home, source) = (Home::new(), tempfile::tempdir().unwrap());
    let package = workspace(source.path(), 3_000);
    assert_eq!(package.entries.len(), 3_000);
    let registry = home.registry();
    let start = Instant::now();
    let report = registry.import(package.entries.clone(), &options(), &mut |_| true).unwrap();
    let took = start.elapsed();
    eprintln!("3,000 capabilities imported in {took:?}");
    assert!(report.entries.iter().all(|entry| entry.fate == Fate::Added));
    assert_eq!(home.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    assert_eq!(home.git(&["ls-files"]).lines().count(), 3_001);
    home.git(&["fsck", "--strict"]);
    assert_eq!(staged(&home), 0);
    let listing = home.registry().list().unwrap();
    assert!(listing.capabilities.iter().all(|cap| cap.status == Status::Quarantined && cap.created == "2025-01-02"));
    let one = home.registry().get(&name("tool_2999")).unwrap().unwrap();
    assert_eq!(one.version, Version::new(1, 2, 0));
    assert!(home.registry().code(&one).unwrap().matches_digest);
    let again = home.registry().import(package.entries, &options(), &mut |_| true).unwrap();
    assert!(again.commit.is_none() && again.entries.iter().all(|entry| entry.fate == Fate::Same));
    assert_eq!(home.git(&["rev-list", "--count", "HEAD"]).trim(), "1");
    // Not a burst of registrations: nobody made them here.
    assert_eq!(registry.recent_registrations(jiff::Timestamp::UNIX_EPOCH).unwrap(), 0);
    // Generous: several builds may share the machine.
    assert!(took.as_secs() < 60, "{took:?}");
}

#[test]
fn what_is_taken_is_renamed_skipped_or_replaced_and_known_again() {
    for (conflict, wanted) in [
        (Conflict::Rename, ("tool_0_2", Fate::Added)),
        (Conflict::Skip, ("tool_0", Fate::Skipped)),
        (Conflict::Replace, ("tool_0", Fate::Replaced)),
    ] {
        let (home, source) = (Home::new(), tempfile::tempdir().unwrap());
        let registry = home.registry();
        register(&registry, "tool_0", CODE);
        let options = ImportOptions { conflict, ..options() };
        let package = workspace(source.path(), 2);
        let plan = registry.plan_import(package.entries.clone(), &options).unwrap();
        let report = registry.import(package.entries.clone(), &options, &mut |_| true).unwrap();
        assert_eq!(plan, report.entries);
        assert_eq!(fates(&report.entries), [wanted, ("tool_1", Fate::Added)]);
        let here = registry.get(&name("tool_0")).unwrap().unwrap();
        if conflict == Conflict::Replace {
            assert_eq!((here.version.major, here.status), (2, Status::Quarantined), "other parameters break callers");
            let (_, code) = registry.at(&name("tool_0"), &Version::new(1, 0, 0)).unwrap().unwrap();
            assert_eq!(code, CODE);
            assert_eq!(registry.history(&name("tool_0")).unwrap().len(), 2);
        } else {
            assert_eq!((here.status, registry.code(&here).unwrap().text.as_str()), (Status::Active, CODE));
        }
        let again = registry.import(package.entries, &options, &mut |_| true).unwrap();
        assert_eq!(again.commit, None, "{conflict:?}");
        assert!(again.entries.iter().all(|entry| matches!(entry.fate, Fate::Same | Fate::Skipped)), "{again:?}");
        home.git(&["fsck", "--strict"]);
        assert_eq!(home.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_cancel_leaves_nothing_behind() {
    let (home, source) = (Home::new(), tempfile::tempdir().unwrap());
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    let before = std::fs::read(home.index()).unwrap();
    let package = workspace(source.path(), 200);
    for stop in [0, 1, 100, 200] {
        let stopped =
            registry.import(package.entries.clone(), &options(), &mut |progress| progress.done < stop).unwrap_err();
        assert!(matches!(stopped, PortError::Cancelled), "{stopped}");
        assert_eq!(std::fs::read(home.index()).unwrap(), before);
        assert_eq!(staged(&home), 0);
        assert_eq!(std::fs::read_dir(home.root().join("tools")).unwrap().count(), 1);
        assert_eq!(home.git(&["status", "--porcelain"]), "");
    }
    assert_eq!(registry.import(package.entries, &options(), &mut |_| true).unwrap().entries.len(), 200);
}

#[test]
fn killed_after_the_index_is_in_force_all_of_it_is_readable_and_the_next_write_finishes_it() {
    let (home, source) = (Home::new(), tempfile::tempdir().unwrap());
    register(&home.registry(), "word_count", CODE);
    let package = workspace(source.path(), 150);
    home.registry().import(package.entries, &options(), &mut |_| true).unwrap();
    // As it was between the rename of the index and the rest: half of the code in place, nothing in git.
    home.git(&["reset", "--soft", "HEAD~1"]);
    home.git(&["reset"]);
    for i in 75..150 {
        let file = format!("tool_{i}.ts");
        std::fs::rename(home.root().join("tools").join(&file), home.root().join(".staged").join(&file)).unwrap();
    }
    let registry = home.registry();
    for i in 0..150 {
        let cap = registry.get(&name(&format!("tool_{i}"))).unwrap().unwrap();
        assert!(registry.code(&cap).unwrap().matches_digest, "{i}");
    }
    register(&registry, "other", CODE);
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    assert_eq!(home.git(&["ls-files"]).lines().count(), 153);
    assert_eq!(
        registry.at(&name("tool_149"), &Version::new(1, 2, 0)).unwrap().unwrap().1,
        "console.log(args.n + 149);\n"
    );
    home.git(&["fsck", "--strict"]);
}

#[test]
fn a_file_that_nobody_registered_is_kept_in_git_before_it_is_written_over() {
    let (home, source) = (Home::new(), tempfile::tempdir().unwrap());
    let registry = home.registry();
    register(&registry, "word_count", CODE);
    std::fs::write(home.root().join("tools/tool_0.ts"), "// mine 我的\n").unwrap();
    registry.import(workspace(source.path(), 1).entries, &options(), &mut |_| true).unwrap();
    assert_eq!(home.git(&["show", "HEAD~1:tools/tool_0.ts"]), "// mine 我的\n");
    assert_eq!(home.git(&["show", "HEAD:tools/tool_0.ts"]), "console.log(args.n + 0);\n");
}

#[test]
fn a_list_without_code_is_found_by_people_and_not_by_models() {
    let home = Home::new();
    let list = home.path().join("tools.json");
    let tools = json!([
        {"name": "getWeather", "description": "Tells the weather of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
        {"name": "查询天气", "description": "查询某个城市的天气", "parameters": {"type": "object"}},
        {"name": "get.weather", "description": "Another one", "parameters": {}},
        {"name": "no_words"}, {"description": "no name"}, 7,
    ]);
    std::fs::write(&list, tools.to_string()).unwrap();
    let package = read(&list, &mut |_| true).unwrap();
    assert_eq!(package.damaged.iter().map(|d| d.entry.as_str()).collect::<Vec<_>>(), ["no_words", "#5", "#6"]);
    let registry = home.registry();
    let report = registry.import(package.entries.clone(), &options(), &mut |_| true).unwrap();
    assert_eq!(report.entries[0].name.as_str(), "get_weather");
    assert_eq!(report.entries[2].name.as_str(), "get_weather_2");
    for query in ["the weather of a city", "查询天气", "getWeather"] {
        assert!(registry.search(query, 8).unwrap().is_empty(), "{query}");
        let hits = registry.search_with(query, 8, Statuses::WithQuarantined).unwrap();
        assert!(!hits.is_empty() && hits[0].capability.status == Status::Quarantined, "{query}");
    }
    let again = registry.import(package.entries, &options(), &mut |_| true).unwrap();
    assert!(again.commit.is_none(), "{again:?}");
    // Once code is registered for one, the same list still brings nothing new.
    let weather = registry.get(&name("get_weather")).unwrap().unwrap();
    registry.register(version_of(weather, CODE)).unwrap();
    let package = read(&list, &mut |_| true).unwrap();
    assert!(registry.import(package.entries, &options(), &mut |_| true).unwrap().commit.is_none());
    assert!(!registry.search("the weather of a city", 8).unwrap().is_empty());
}

#[test]
fn registering_approves_on_this_machine_and_importing_does_not() {
    let (home, other) = (Home::new(), Home::new());
    let registry = home.registry();
    let mut asking = capability("fetch_page");
    asking.grants = Grants { network: vec!["api.example.com".into()], ..Grants::default() };
    registry.register(version_of(asking, CODE)).unwrap();
    let made_here = registry.get(&name("fetch_page")).unwrap().unwrap();
    assert!(registry.is_approved(&made_here).unwrap());
    let package = read(&home.root(), &mut |_| true).unwrap();
    other.registry().import(package.entries, &options(), &mut |_| true).unwrap();
    let there = other.registry().get(&name("fetch_page")).unwrap().unwrap();
    assert_eq!(there.digest, made_here.digest);
    assert!(!other.registry().is_approved(&there).unwrap());
    other.registry().approve(&there, "2026-03-02T08:00:00Z").unwrap();
    assert!(other.registry().is_approved(&there).unwrap());
    let mut more = there.clone();
    more.digest = jarvis_registry::digest(&there, "other code");
    assert!(!other.registry().is_approved(&more).unwrap(), "a yes is for this very code");
}
