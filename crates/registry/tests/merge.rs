//! `git pull` between two homes: what git merges, what jarvis merges, and what is left to a person.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{CODE, Home, capability, name, register, version_of};
use jarvis_registry::{NewVersion, Registry, RegistryError, Side, Trouble};
use serde_json::Value;

/// Two homes with the same three capabilities, the second a clone of the first.
fn pair() -> (Home, Home) {
    let (here, there) = (Home::new(), Home::new());
    for of in ["alpha_one", "beta_two", "gamma_three"] {
        register(&here.registry(), of, CODE);
    }
    std::fs::create_dir_all(there.root()).unwrap();
    there.git(&["clone", "-q", here.root().to_str().unwrap(), "."]);
    (here, there)
}

fn code(text: &str) -> String {
    format!("export default () => \"{text}\"\n")
}

/// Pulls without rebasing; says whether git was content.
fn pull(into: &Home, from: &Home) -> bool {
    git(into, &["pull", "-q", "--no-rebase", from.root().to_str().unwrap(), "main"])
}

#[expect(clippy::disallowed_methods, reason = "a person's git, not a capability")]
fn git(home: &Home, args: &[&str]) -> bool {
    let mut command = std::process::Command::new("git");
    command.arg("-C").arg(home.root()).args(["-c", "user.name=p", "-c", "user.email=p@x"]).args(args);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_EDITOR", "true");
    command.output().unwrap().status.success()
}

fn about(registry: &Registry) -> Vec<String> {
    registry.check().into_iter().map(|trouble| trouble.about).collect()
}

fn of<'a>(troubles: &'a [Trouble], name: &str) -> &'a Trouble {
    troubles.iter().find(|t| t.about == name).unwrap_or_else(|| panic!("{name}: {troubles:?}"))
}

fn assert_merged(home: &Home, parents: &str) {
    assert_eq!(home.registry().check(), [], "nothing is wrong");
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    assert_eq!(home.git(&["log", "-1", "--format=%p"]).split_whitespace().count().to_string(), parents);
    home.git(&["fsck", "--strict"]);
    let registry = home.registry();
    let listing = registry.list().unwrap();
    assert_eq!(listing.damaged, []);
    for capability in &listing.capabilities {
        assert!(registry.code(capability).unwrap().matches_digest, "{}", capability.name);
        let at = registry.at(&capability.name, &capability.version).unwrap();
        assert_eq!(at.unwrap().0, *capability, "its version is in the history");
    }
    // And it can be built upon.
    register(&registry, "after_all", &code("after"));
    assert_eq!(home.registry().check(), []);
}

#[test]
fn what_each_side_changed_alone_is_merged_and_what_both_changed_is_left() {
    let (here, there) = pair();
    let registry = here.registry();
    // Here: alpha changed, one added, gamma changed. There: beta changed, one added, gamma changed otherwise.
    register(&registry, "alpha_one", &code("alpha here"));
    register(&registry, "made_here", &code("made here"));
    register(&registry, "gamma_three", &code("gamma here"));
    register(&there.registry(), "beta_two", &code("beta there"));
    register(&there.registry(), "made_there", &code("made there"));
    register(&there.registry(), "gamma_three", &code("gamma there"));
    assert!(!pull(&here, &there), "git cannot merge it");

    // The others go on working; the one in conflict does not, and says why.
    let listing = registry.list().unwrap();
    let names: Vec<&str> = listing.capabilities.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["alpha_one", "beta_two", "made_here"]);
    for capability in &listing.capabilities {
        assert!(registry.code(capability).unwrap().matches_digest, "{}", capability.name);
    }
    assert!(registry.search("words of a text", 5).unwrap().len() >= 3);
    let error = registry.get(&name("gamma_three")).unwrap_err().to_string();
    assert!(error.contains("in conflict") && error.contains("code differ"), "{error}");
    let error = registry.register(version_of(capability("new_one"), CODE)).unwrap_err();
    assert!(matches!(error, RegistryError::InTheMiddle { .. }), "{error}");
    let before = here.git(&["status", "--porcelain"]);
    let troubles = registry.check();
    let gamma = of(&troubles, "gamma_three");
    assert!(gamma.todo.contains("jarvis cap merge gamma_three --ours"), "{gamma:?}");
    assert!(of(&troubles, "git").fixable());
    assert_eq!(here.git(&["status", "--porcelain"]), before, "looking changes nothing");

    let repaired = registry.repair().unwrap();
    let done = repaired.done.join("\n");
    assert!(done.contains("beta_two: taken from") && done.contains("made_there: taken from"), "{done}");
    assert_eq!(registry.conflicts().unwrap().len(), 1);
    let listing = home_names(&here);
    assert_eq!(listing, ["alpha_one", "beta_two", "made_here", "made_there"]);
    assert!(of(&repaired.left, "gamma_three").problem.contains("in conflict"));
    // A second repair changes nothing more, and a wrong name is refused.
    assert_eq!(registry.repair().unwrap().done, Vec::<String>::new());
    assert!(matches!(registry.settle(&name("beta_two"), Side::Ours), Err(RegistryError::NotInConflict(_))));

    let merged = registry.settle(&name("gamma_three"), Side::Theirs).unwrap();
    assert!(merged.commit.is_some() && merged.conflicts.is_empty(), "{merged:?}");
    let gamma = registry.get(&name("gamma_three")).unwrap().unwrap();
    assert_eq!(registry.code(&gamma).unwrap().text, code("gamma there"));
    assert_eq!(gamma.version.to_string(), "1.0.2", "both sides made a 1.0.1");
    let history = registry.history(&name("gamma_three")).unwrap();
    assert!(history.last().unwrap().change.contains("was chosen"), "{history:?}");
    assert_eq!(history.last().unwrap().commit, merged.commit);
    assert_merged(&here, "2");
    // What was merged here reaches the other side without a word.
    assert!(pull(&there, &here));
    assert_eq!(there.registry().check(), []);
}

fn home_names(home: &Home) -> Vec<String> {
    home.registry().list().unwrap().capabilities.iter().map(|c| c.name.to_string()).collect()
}

#[test]
fn fields_of_both_sides_are_merged_and_the_version_moves_on() {
    let (here, there) = pair();
    let mut words = capability("alpha_one");
    words.triggers.push("another way to ask".into());
    here.registry().register(version_of(words, CODE)).unwrap();
    let faster =
        NewVersion { now: "2026-03-02T08:00:00Z".into(), ..version_of(capability("alpha_one"), &code("faster")) };
    there.registry().register(faster).unwrap();
    assert!(!pull(&here, &there));
    let repaired = here.registry().repair().unwrap();
    assert!(repaired.done.join("\n").contains("both sides are merged"), "{repaired:?}");
    assert_eq!(repaired.left, []);
    let alpha = here.registry().get(&name("alpha_one")).unwrap().unwrap();
    assert_eq!(alpha.version.to_string(), "1.0.2");
    assert_eq!(alpha.triggers.len(), 2);
    assert_eq!(here.registry().code(&alpha).unwrap().text, code("faster"));
    assert_merged(&here, "2");
}

#[test]
fn additions_and_removals_of_both_sides_need_nobody() {
    let (here, there) = pair();
    register(&here.registry(), "new_here", &code("h"));
    here.registry().remove(&name("beta_two")).unwrap();
    register(&there.registry(), "new_there", &code("t"));
    register(&there.registry(), "same_on_both", &code("same"));
    register(&here.registry(), "same_on_both", &code("same"));
    assert!(!pull(&here, &there));
    let repaired = here.registry().repair().unwrap();
    assert_eq!(repaired.left, [], "{repaired:?}");
    assert_eq!(home_names(&here), ["alpha_one", "gamma_three", "new_here", "same_on_both", "new_there"]);
    assert!(!here.root().join("tools/beta_two.ts").exists());
    assert_eq!(here.registry().get(&name("same_on_both")).unwrap().unwrap().version.to_string(), "1.0.0");
    assert_merged(&here, "2");
}

#[test]
fn removed_here_and_changed_there_is_a_question() {
    for (side, left) in [(Side::Ours, false), (Side::Theirs, true)] {
        let (here, there) = pair();
        here.registry().remove(&name("beta_two")).unwrap();
        register(&there.registry(), "beta_two", &code("better"));
        assert!(!pull(&here, &there));
        let conflicts = here.registry().conflicts().unwrap();
        assert!(conflicts[0].problem.contains("removed here, changed in"), "{conflicts:?}");
        assert!(about(&here.registry()).contains(&"beta_two".to_owned()));
        here.registry().settle(&name("beta_two"), side).unwrap();
        assert_eq!(here.registry().get(&name("beta_two")).unwrap().is_some(), left);
        assert_eq!(here.root().join("tools/beta_two.ts").exists(), left);
        assert_merged(&here, "2");
    }
}

#[test]
fn a_conflict_in_a_persons_own_file_is_left_to_the_person() {
    let (here, there) = pair();
    for home in [&here, &there] {
        std::fs::write(home.root().join("notes.md"), home.root().display().to_string()).unwrap();
        assert!(git(home, &["add", "notes.md"]) && git(home, &["commit", "-q", "-m", "notes"]));
        register(&home.registry(), if home.root() == here.root() { "x_here" } else { "x_there" }, CODE);
    }
    assert!(!pull(&here, &there));
    let notes = std::fs::read(here.root().join("notes.md")).unwrap();
    let repaired = here.registry().repair().unwrap();
    assert!(repaired.done.join("\n").contains("notes.md"), "{repaired:?}");
    assert_eq!(std::fs::read(here.root().join("notes.md")).unwrap(), notes);
    assert!(home_names(&here).contains(&"x_there".to_owned()));
    assert!(git(&here, &["add", "notes.md"]) && git(&here, &["commit", "-q", "--no-edit"]));
    assert_merged(&here, "2");
}

#[test]
fn an_index_that_a_person_is_mending_is_not_touched() {
    let (here, there) = pair();
    register(&here.registry(), "gamma_three", &code("gamma here"));
    register(&there.registry(), "gamma_three", &code("gamma there"));
    assert!(!pull(&here, &there));
    let theirs = there.git(&["show", "HEAD:index.json"]);
    let mut mine: Value = serde_json::from_str(&theirs).unwrap();
    mine["capabilities"][0]["triggers"] = serde_json::json!(["a trigger by hand"]);
    let mine = serde_json::to_string_pretty(&mine).unwrap();
    std::fs::write(here.index(), &mine).unwrap();
    let repaired = here.registry().repair().unwrap();
    assert!(repaired.done.join("\n").contains("mended by hand"), "{repaired:?}");
    assert_eq!(std::fs::read_to_string(here.index()).unwrap(), mine);
    // As a person ends it.
    assert!(git(&here, &["checkout", "--theirs", "tools/gamma_three.ts"]));
    assert!(git(&here, &["add", "."]) && git(&here, &["commit", "-q", "--no-edit"]));
    let alpha = here.registry().get(&name("alpha_one")).unwrap().unwrap();
    assert_eq!(alpha.triggers, ["a trigger by hand"]);
    assert_eq!(here.registry().check(), []);
}

#[test]
fn in_the_middle_of_a_rebase_or_a_cherry_pick_nothing_is_committed_and_the_entries_are_merged() {
    for rebase in [true, false] {
        let (here, there) = pair();
        register(&here.registry(), "made_here", &code("here"));
        register(&there.registry(), "made_there", &code("there"));
        let from = there.root().display().to_string();
        assert!(git(&here, &["fetch", "-q", &from, "main:other"]));
        assert!(!git(&here, if rebase { &["rebase", "-q", "other"] } else { &["cherry-pick", "other"] }));
        let what = if rebase { "rebase" } else { "cherry-pick" };
        let head = here.git(&["rev-parse", "HEAD"]);
        let error = here.registry().register(version_of(capability("new_one"), CODE)).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.body().hint.unwrap().contains("--continue"));
        for of in ["alpha_one", "beta_two", "gamma_three"] {
            let found = here.registry().get(&name(of)).unwrap().unwrap();
            assert!(here.registry().code(&found).unwrap().matches_digest);
        }
        let repaired = here.registry().repair().unwrap();
        let told = repaired.done.join("\n");
        assert!(told.contains("--continue"), "{told}");
        assert_eq!(here.git(&["rev-parse", "HEAD"]), head, "the commit is the person's");
        assert!(git(&here, &[what, "--continue"]));
        let mut names = home_names(&here);
        names.sort();
        assert_eq!(names, ["alpha_one", "beta_two", "gamma_three", "made_here", "made_there"]);
        assert_merged(&here, "1");
    }
}

#[test]
fn merges_killed_halfway_are_finished_by_the_next_repair() {
    let (here, there) = pair();
    register(&here.registry(), "made_here", &code("here"));
    register(&there.registry(), "made_there", &code("there"));
    assert!(!pull(&here, &there));
    // Everything done but the commit, as when killed right before it.
    let (head, merge) = (here.git(&["rev-parse", "HEAD"]), std::fs::read(here.root().join(".git/MERGE_HEAD")).unwrap());
    assert_eq!(here.registry().repair().unwrap().left, []);
    let tip = here.git(&["rev-parse", "HEAD"]);
    // And everything but the end of the merge: there is no second merge commit.
    std::fs::write(here.root().join(".git/MERGE_HEAD"), &merge).unwrap();
    assert!(about(&here.registry()).contains(&"git".to_owned()));
    here.registry().repair().unwrap();
    assert_eq!(here.git(&["rev-parse", "HEAD"]), tip);
    here.git(&["reset", "-q", "--soft", head.trim()]);
    std::fs::write(here.root().join(".git/MERGE_HEAD"), &merge).unwrap();
    here.registry().repair().unwrap();
    assert_merged(&here, "2");
}

/// Whatever git calls them: ours is what the person made here, theirs is what came.
#[test]
fn ours_is_what_was_here_also_in_a_rebase_and_a_cherry_pick() {
    for (what, side) in
        [("rebase", Side::Ours), ("rebase", Side::Theirs), ("cherry-pick", Side::Ours), ("cherry-pick", Side::Theirs)]
    {
        let (here, there) = pair();
        register(&here.registry(), "gamma_three", &code("gamma here"));
        here.registry().remove(&name("beta_two")).unwrap();
        register(&there.registry(), "beta_two", &code("beta there"));
        register(&there.registry(), "gamma_three", &code("gamma there"));
        let from = there.root().display().to_string();
        let came = there.git(&["rev-parse", "HEAD"]);
        if what == "rebase" {
            assert!(!git(&here, &["pull", "-q", "--rebase", &from, "main"]));
        } else {
            assert!(git(&here, &["fetch", "-q", &from, "main:other"]));
            assert!(!git(&here, &["cherry-pick", "other"]));
        }
        let conflicts = here.registry().conflicts().unwrap();
        let problem = &conflicts.iter().find(|c| c.name == "gamma_three").unwrap().problem;
        assert!(problem.starts_with(&format!("changed here and in {}", &came[..10])), "{what}: {problem}");
        let merged = here.registry().settle(&name("gamma_three"), side).unwrap();
        let told = merged.done.join("\n");
        let (words, text) = match side {
            Side::Ours => ("the version that was here is taken", code("gamma here")),
            Side::Theirs => ("the version that came with the pull is taken", code("gamma there")),
        };
        assert!(told.contains(words), "{what}: {told}");
        assert!(git(&here, &[what, "--continue"]) || what == "rebase", "{what}");
        if what == "rebase" {
            // The next commit of the person: their removal, against the change that came.
            let conflicts = here.registry().conflicts().unwrap();
            let beta = &conflicts.iter().find(|c| c.name == "beta_two").unwrap().problem;
            assert_eq!(*beta, format!("removed here, changed in {}", &came[..10]));
            here.registry().settle(&name("beta_two"), side).unwrap();
            assert!(git(&here, &["rebase", "--continue"]));
            assert_eq!(home_names(&here).contains(&"beta_two".to_owned()), side == Side::Theirs);
        }
        let gamma = here.registry().get(&name("gamma_three")).unwrap().unwrap();
        assert_eq!(here.registry().code(&gamma).unwrap().text, text, "{what}, {side:?}");
        assert_merged(&here, "1");
    }
}

/// Both sides made a 1.0.1, and one of them a 1.0.2: whichever is taken, every version can be looked at.
#[test]
fn the_versions_of_both_sides_stay_readable_each_with_its_own_commit() {
    for side in [Side::Ours, Side::Theirs] {
        let (here, there) = pair();
        let register = |home: &Home, text: &str| {
            let change = format!("made {text}");
            let new = NewVersion { change, ..version_of(capability("gamma_three"), &code(text)) };
            home.registry().register(new).unwrap().commit
        };
        let first = here.registry().history(&name("gamma_three")).unwrap()[0].commit.clone().unwrap();
        let ours = register(&here, "here");
        let (theirs, last) = (register(&there, "there"), register(&there, "there again"));
        assert!(!pull(&here, &there));
        let merged = here.registry().settle(&name("gamma_three"), side).unwrap();
        let registry = here.registry();
        let history = registry.history(&name("gamma_three")).unwrap();
        let commit_of = |change: &str| {
            let line = history.iter().find(|e| e.change == change).unwrap_or_else(|| panic!("{change}: {history:?}"));
            line.commit.clone().unwrap()
        };
        assert_eq!(commit_of("first version"), first);
        assert_eq!(commit_of("made here"), ours, "{side:?}: {history:?}");
        assert_eq!(commit_of("made there"), theirs, "{side:?}: {history:?}");
        assert_eq!(commit_of("made there again"), last, "{side:?}: {history:?}");
        let now = registry.get(&name("gamma_three")).unwrap().unwrap().version.to_string();
        assert_eq!(now, if side == Side::Ours { "1.0.3" } else { "1.0.2" });
        if side == Side::Ours {
            assert_eq!(history.last().unwrap().commit, merged.commit);
        }
        for entry in &history {
            let (found, text) = registry.at(&name("gamma_three"), &entry.version).unwrap().unwrap();
            assert_eq!(found.version, entry.version);
            if entry.version.to_string() == "1.0.2" {
                assert_eq!(text, code("there again"));
            }
            registry.diff(&name("gamma_three"), &entry.version, None).unwrap();
        }
        assert_merged(&here, "2");
    }
}
