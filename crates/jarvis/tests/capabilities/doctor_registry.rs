//! Damage of every kind: told by `jarvis doctor`, kept to the entry that it concerns, repaired by `--fix` where nothing
//! is lost by it; and looking changes nothing.
#![allow(clippy::disallowed_methods, reason = "a person's git and shell, not a capability")]

use crate::common::{Home, REVERSE, reverse_text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Three capabilities, the first in two versions. Made once and copied: registering is not what is tested here.
static SOUND: LazyLock<Home> = LazyLock::new(|| {
    let home = Home::new();
    for (name, code) in [
        ("reverse_text", REVERSE.to_owned()),
        ("shout_text", REVERSE.replace("[...text].reverse().join('')", "text.toUpperCase()")),
        ("reverse_text", REVERSE.replace("[...text]", "Array.from(text)")),
        ("first_letter", REVERSE.replace("[...text].reverse().join('')", "[...text][0]")),
    ] {
        let mut definition = reverse_text();
        definition["name"] = json!(name);
        let result = |text: &str| match name {
            "shout_text" => text.to_uppercase(),
            "first_letter" => text.chars().take(1).collect(),
            _ => text.chars().rev().collect(),
        };
        definition["capability"] = json!(format!("Does {name} to a text."));
        definition["triggers"] = json!([format!("{name} is asked for")]);
        definition["examples"] = json!([{"args": {"text": "abc"}, "returns": result("abc")}]);
        home.write("d.json", &definition.to_string());
        home.write("c.ts", &code);
        let _ = crate::common::register(&home, &[]).ok();
    }
    let _ = home.run(&["cap", "run", "shout_text", "--args", "{\"text\": \"a\"}"]).ok();
    home
});

fn sound() -> Home {
    let home = Home::new().var("OPENAI_API_KEY", "sk-test");
    let copied = std::process::Command::new("cp")
        .args(["-a", &format!("{}/.", SOUND.path().display()), &home.path().display().to_string()])
        .status();
    assert!(copied.unwrap().success());
    home
}

struct Case {
    what: &'static str,
    damage: fn(&Home),
    /// The finding that tells it, and words of it.
    about: &'static str,
    says: &'static str,
    /// Words of what `--fix` did; none where it must not do anything.
    fixed: Option<&'static str>,
    /// The capability that is hit, where it is one alone.
    hit: Option<&'static str>,
}

const fn case(
    what: &'static str,
    about: &'static str,
    says: &'static str,
    fixed: Option<&'static str>,
    hit: Option<&'static str>,
    damage: fn(&Home),
) -> Case {
    Case { what, damage, about, says, fixed, hit }
}

const CODE: &str = "capabilities/tools/reverse_text.ts";
const INDEX: &str = "capabilities/index.json";

fn index(home: &Home, change: impl Fn(&mut Vec<Value>)) {
    let mut value: Value = serde_json::from_slice(&fs::read(home.file(INDEX)).unwrap()).unwrap();
    change(value["capabilities"].as_array_mut().unwrap());
    fs::write(home.file(INDEX), serde_json::to_string_pretty(&value).unwrap()).unwrap();
}

fn git(home: &Home, args: &[&str]) -> (bool, String) {
    let mut command = home.other("git");
    command.arg("-C").arg(home.file("capabilities")).args(["-c", "user.name=p", "-c", "user.email=p@x"]).args(args);
    let output = command.env("GIT_EDITOR", "true").env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn object(home: &Home, of: &str) -> PathBuf {
    let (_, id) = git(home, &["rev-parse", of]);
    let path = home.file(&format!("capabilities/.git/objects/{}/{}", &id[..2], &id[2..]));
    let mut rights = fs::metadata(&path).unwrap().permissions();
    rights.set_mode(0o644);
    fs::set_permissions(&path, rights).unwrap();
    path
}

/// A commit of a person that the last one cannot be put upon, and the try.
fn quarrel(home: &Home, how: &[&str]) {
    let (_, branch) = git(home, &["symbolic-ref", "--short", "HEAD"]);
    assert!(git(home, &["checkout", "-q", "-b", "other", "HEAD~1"]).0);
    index(home, |list| list[0]["triggers"] = json!(["another way"]));
    assert!(git(home, &["commit", "-q", "-am", "theirs"]).0);
    assert!(git(home, &["checkout", "-q", &branch]).0);
    index(home, |list| list[0]["triggers"] = json!(["a third way"]));
    assert!(git(home, &["commit", "-q", "-am", "ours"]).0);
    assert!(!git(home, how).0, "git was content with {how:?}");
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("a truncated index", "index.json", "EOF", Some("last committed version is back"), None, |home| {
        let whole = fs::read(home.file(INDEX)).unwrap();
        fs::write(home.file(INDEX), &whole[..whole.len() / 2]).unwrap();
    }),
    case("an empty index", "index.json", "the file is empty", Some("last committed version is back"), None, |home| fs::write(home.file(INDEX), "").unwrap()),
    case("an index with a comma too many", "index.json", "line", Some("last committed version is back"), None, |home| {
        let text = fs::read_to_string(home.file(INDEX)).unwrap();
        fs::write(home.file(INDEX), text.replacen("\"capabilities\": [", "\"capabilities\": [,", 1)).unwrap();
    }),
    case("an index that is no UTF-8", "index.json", "not UTF-8", Some("last committed version is back"), None, |home| {
        let mut bytes = fs::read(home.file(INDEX)).unwrap();
        bytes[40] = 0xff;
        fs::write(home.file(INDEX), bytes).unwrap();
    }),
    case("no index any more", "index.json", "it is missing", Some("last committed version is back"), None, |home| fs::remove_file(home.file(INDEX)).unwrap()),
    case("a folder in the place of the index", "index.json", "cannot be read", Some("what was there is at"), None, |home| {
        fs::remove_file(home.file(INDEX)).unwrap();
        fs::create_dir(home.file(INDEX)).unwrap();
        home.write("capabilities/index.json/mine.txt", "mine");
    }),
    case("an index that is a link", "index.json", "is a link to", Some("took the place of the link"), None, |home| {
        fs::rename(home.file(INDEX), home.file("elsewhere.json")).unwrap();
        symlink(home.file("elsewhere.json"), home.file(INDEX)).unwrap();
    }),
    case("an index that is a link to nothing", "index.json", "it is missing", Some("last committed version is back"), None, |home| {
        fs::remove_file(home.file(INDEX)).unwrap();
        symlink(home.file("nowhere.json"), home.file(INDEX)).unwrap();
    }),
    case("an entry of the wrong shape", "reverse_text", "invalid type", Some("last committed entry is back"), Some("reverse_text"), |home| index(home, |list| list[0]["capability"] = json!(5))),
    case("an entry of ten megabytes", "reverse_text", "bytes; the most is", Some("last committed entry is back"), Some("reverse_text"), |home| index(home, |list| list[0]["x_note"] = json!("x".repeat(10 << 20)))),
    case("an entry nobody knows the name of", "#4", "invalid type", None, None, |home| index(home, |list| list.push(json!({"capability": 1})))),
    case("the same entry twice", "reverse_text", "another entry above", Some("the second entry"), None, |home| index(home, |list| list.push(list[0].clone()))),
    case("two entries of one name that differ", "reverse_text", "another entry above", None, None, |home| index(home, |list| {
        let mut second = list[0].clone();
        second["capability"] = json!("Something else.");
        list.push(second);
    })),
    case("a digest changed by hand", "reverse_text", "digest in index.json was changed", Some("last committed entry is back"), Some("reverse_text"), |home| index(home, |list| list[0]["digest"] = json!("0".repeat(64)))),
    case("grants changed by hand", "reverse_text", "entry in index.json was changed by hand", None, Some("reverse_text"), |home| index(home, |list| list[0]["grants"]["network"] = json!(["example.com"]))),
    case("code that is missing", "reverse_text", "there is no such file", Some("code is back from git"), Some("reverse_text"), |home| fs::remove_file(home.file(CODE)).unwrap()),
    case("code changed by hand", "reverse_text", "changed by hand", None, Some("reverse_text"), |home| { home.write(CODE, "export default () => 'mine'\n"); }),
    case("code that is no UTF-8", "reverse_text", "utf-8", Some("what was in its place is at"), Some("reverse_text"), |home| fs::write(home.file(CODE), [0x66, 0xff, 0xfe]).unwrap()),
    case("a folder in the place of code", "reverse_text", "directory", Some("what was in its place is at"), Some("reverse_text"), |home| {
        fs::remove_file(home.file(CODE)).unwrap();
        fs::create_dir(home.file(CODE)).unwrap();
    }),
    case("code that is a link out of the workspace", "reverse_text", "leads out of the workspace", Some("what was in its place is at"), Some("reverse_text"), |home| {
        fs::rename(home.file(CODE), home.file("elsewhere.ts")).unwrap();
        symlink(home.file("elsewhere.ts"), home.file(CODE)).unwrap();
    }),
    case("code that is a link within it", "reverse_text", "is a link", Some("what was in its place is at"), None, |home| {
        fs::rename(home.file(CODE), home.file("capabilities/elsewhere.ts")).unwrap();
        symlink("../elsewhere.ts", home.file(CODE)).unwrap();
    }),
    case("a tool path that leads out", "reverse_text", "not a path below", Some("last committed entry is back"), Some("reverse_text"), |home| index(home, |list| list[0]["tool_path"] = json!("../../c.ts"))),
    case("a file in the place of tools", "tools", "a file where a folder should be", Some("the folder is made"), None, |home| {
        fs::rename(home.file("capabilities/tools"), home.file("was_tools")).unwrap();
        home.write("capabilities/tools", "mine");
    }),
    case("tools that is a link", "tools", "is a link to", None, None, |home| {
        fs::rename(home.file("capabilities/tools"), home.file("capabilities/my_tools")).unwrap();
        symlink("my_tools", home.file("capabilities/tools")).unwrap();
    }),
    case("files of nobody in tools", "tools", "never run: notes.txt", None, None, |home| { home.write("capabilities/tools/notes.txt", "mine"); }),
    case("a workspace that is a link", "workspace", "is a link to", None, None, |home| {
        fs::rename(home.file("capabilities"), home.file("real")).unwrap();
        symlink(home.file("real"), home.file("capabilities")).unwrap();
    }),
    case("no git history", "git", "has no git history", Some("a new history begins"), None, |home| fs::remove_dir_all(home.file("capabilities/.git")).unwrap()),
    case("a git folder that is none", "git", "is no repository", Some("the old one is at"), None, |home| {
        fs::remove_dir_all(home.file("capabilities/.git")).unwrap();
        home.write("capabilities/.git/mine.txt", "mine");
    }),
    case("a bad HEAD", "git", "HEAD cannot be read", Some("HEAD points to main again"), None, |home| { home.write("capabilities/.git/HEAD", "nonsense\n"); }),
    case("a branch whose commit is missing", "git", "last commit cannot be read", Some("the history ends at"), None, |home| fs::remove_file(object(home, "HEAD")).unwrap()),
    case("a branch whose file is missing", "git", "which head names, is missing", Some("the history ends at"), None, |home| fs::remove_file(home.file("capabilities/.git/refs/heads/main")).unwrap()),
    case("a branch whose file and logs are missing", "git", "which head names, is missing", Some("the history ends at"), None, |home| {
        fs::remove_file(home.file("capabilities/.git/refs/heads/main")).unwrap();
        fs::remove_dir_all(home.file("capabilities/.git/logs")).unwrap();
    }),
    case("a branch whose file is empty", "git", "last commit cannot be read", Some("the history ends at"), None, |home| fs::write(home.file("capabilities/.git/refs/heads/main"), "").unwrap()),
    case("a branch whose file is nonsense", "git", "last commit cannot be read", Some("the history ends at"), None, |home| fs::write(home.file("capabilities/.git/refs/heads/main"), [0xff; 60]).unwrap()),
    case("a damaged staging area", "git", "staging area cannot be read", Some("staging area is made again"), None, |home| fs::write(home.file("capabilities/.git/index"), [0x5a; 300]).unwrap()),
    case("a damaged object of the code", "git", "damaged or missing", Some("git has tools/reverse_text.ts again"), None, |home| fs::write(object(home, "HEAD:tools/reverse_text.ts"), "nonsense").unwrap()),
    case("a damaged object of the index", "git", "damaged or missing", Some("git has index.json again"), None, |home| fs::write(object(home, "HEAD:index.json"), "nonsense").unwrap()),
    case("a damaged commit long ago", "git", "versions before a damaged commit", None, None, |home| fs::write(object(home, "HEAD~3"), "nonsense").unwrap()),
    case("a lock of a git that was killed", "git", "locked by .git/index.lock", Some("the lock that nobody holds"), None, |home| {
        let lock = fs::File::create(home.file("capabilities/.git/index.lock")).unwrap();
        lock.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
    }),
    case("a lock of a git that may be at work", "git", "locked by .git/index.lock", None, None, |home| { home.write("capabilities/.git/index.lock", ""); }),
    case("HEAD on no branch", "git", "HEAD is on no branch", Some("HEAD is on the branch main"), None, |home| assert!(git(home, &["checkout", "-q", "--detach"]).0)),
    case("HEAD on an old commit", "git", "HEAD is on no branch", Some("HEAD is on the branch kept-"), None, |home| {
        assert!(git(home, &["commit", "-q", "--allow-empty", "-m", "by a person"]).0 && git(home, &["checkout", "-q", "HEAD~1"]).0);
    }),
    case("the middle of a rebase", "git", "in the middle of a rebase", Some("still in conflict"), Some("reverse_text"), |home| quarrel(home, &["rebase", "-q", "other"])),
    case("the middle of a merge", "git", "in the middle of a merge", Some("still in conflict"), Some("reverse_text"), |home| quarrel(home, &["merge", "-q", "other"])),
    case("the middle of a cherry-pick", "git", "in the middle of a cherry-pick", Some("still in conflict"), Some("reverse_text"), |home| quarrel(home, &["cherry-pick", "other"])),
    case("the middle of a bisect", "git", "in the middle of a bisect", None, None, |home| assert!(git(home, &["bisect", "start"]).0)),
    case("a database that is none", "statistics", "is damaged", Some("counting begins anew"), None, |home| fs::write(home.file("jarvis.db"), "no database at all ".repeat(300)).unwrap()),
    case("a folder in the place of the database", "statistics", "a folder where a database", Some("counting begins anew"), None, |home| {
        fs::remove_file(home.file("jarvis.db")).unwrap();
        home.write("jarvis.db/mine.txt", "mine");
    }),
];

/// Every file with its content, without what SQLite keeps beside its own while it looks.
fn state(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).unwrap().flatten() {
            let (path, kind) = (file.path(), file.file_type().unwrap());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
            } else if !path.to_string_lossy().ends_with("-shm") && !path.to_string_lossy().ends_with("-wal") {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

fn findings(doctor: &Value) -> Vec<&Value> {
    let all = doctor["findings"].as_array().unwrap().iter();
    all.filter(|f| f["what"].as_str().unwrap().starts_with("registry")).collect()
}

fn told<'a>(doctor: &'a Value, case: &Case) -> Option<&'a Value> {
    let what = format!("registry: {}", case.about);
    findings(doctor)
        .into_iter()
        .find(|f| f["what"] == what && f["detail"].as_str().unwrap().to_lowercase().contains(&case.says.to_lowercase()))
}

/// The others are listed, found and run.
fn others_work(home: &Home, case: &Case) {
    let what = case.what;
    let listed = home.run(&["cap", "list", "--json"]).ok().json();
    let names: Vec<&str> =
        listed["capabilities"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"shout_text") && names.contains(&"first_letter"), "{what}: {names:?}");
    let found = home.run(&["cap", "search", "shout_text", "--json"]).ok().json();
    assert_eq!(found["hits"][0]["name"], "shout_text", "{what}");
    // A file in the place of the folder leaves no code to run.
    if case.what != "a file in the place of tools" {
        let ran = home.run(&["cap", "run", "shout_text", "--args", "{\"text\": \"ab\"}"]).ok();
        assert_eq!(ran.out, "AB\n", "{what}");
    }
    let reverse = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"]);
    if case.hit == Some("reverse_text") {
        let _ = reverse.failed(1, &["hint:"]);
    }
}

fn check(case: &Case) {
    let what = case.what;
    let home = sound();
    (case.damage)(&home);
    let before = state(home.path());
    let doctor = home.run(&["doctor", "--json"]).json();
    let finding = told(&doctor, case).unwrap_or_else(|| panic!("{what}: not told: {:#?}", findings(&doctor)));
    assert!(finding["fix"].as_str().is_some_and(|fix| fix.len() > 8), "{what}: {finding}");
    assert_eq!(finding["fixable"] == true, case.fixed.is_some(), "{what}: {finding}");
    assert_eq!(state(home.path()), before, "{what}: looking changed something");
    others_work(&home, case);

    let before = state(home.path());
    let fixed = home.run(&["doctor", "--fix", "--json"]).json();
    let done = fixed["fixed"].to_string();
    let Some(says) = case.fixed else {
        assert_eq!(done, "[]", "{what}");
        assert_eq!(state(home.path()), before, "{what}: what is left to a person was changed");
        assert!(told(&fixed, case).is_some(), "{what}: {:#?}", findings(&fixed));
        return;
    };
    if says == "still in conflict" {
        assert!(told(&fixed, case).is_some(), "{what}: {:#?}", findings(&fixed));
        let conflict =
            |f: &&Value| f["what"] == "registry: reverse_text" && f["detail"].to_string().contains("triggers differ");
        let conflict = findings(&fixed).into_iter().find(conflict).unwrap_or_else(|| panic!("{what}: {fixed:#}"));
        assert!(conflict["fix"].as_str().unwrap().contains("jarvis cap merge reverse_text --ours"), "{what}");
        let _ = home.run(&["cap", "merge", "shout_text", "--ours"]).failed(1, &["not in conflict", "hint:"]);
        let settled = home.run(&["cap", "merge", "reverse_text", "--theirs", "--json"]).ok().json();
        assert_eq!(settled["conflicts"], json!([]), "{what}: {settled}");
        if settled["commit"].is_null() {
            let (_, verb) = what.rsplit_once(' ').unwrap();
            assert!(settled["todo"].as_str().unwrap().contains("--continue"), "{what}: {settled}");
            assert!(git(&home, &[verb, "--continue"]).0, "{what}");
        }
        let triggers =
            home.run(&["cap", "show", "reverse_text", "--json"]).ok().json()["capability"]["triggers"].clone();
        assert_eq!(triggers, json!(["another way"]), "{what}: what came, whatever git calls it");
    } else {
        assert!(done.contains(says), "{what}: {done}\n{:#?}", findings(&fixed));
    }
    // Whole again, nothing is lost, and one can go on.
    let after = home.run(&["doctor", "--json"]).json();
    let bad: Vec<&Value> = findings(&after).into_iter().filter(|f| f["ok"] == false).collect();
    assert!(bad.is_empty(), "{what}: {bad:#?}");
    let _ = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"]).ok();
    let contents: Vec<Vec<u8>> = state(home.path()).into_values().collect();
    for (path, bytes) in &before {
        // Git's own notes, the growing log, and what is only a pointer are no work of a person.
        let own = ["/audit/", "/.git/", "jarvis.db", ".lock"].iter().any(|part| path.to_string_lossy().contains(part));
        assert!(own || contents.contains(bytes), "{what}: the content of {} is lost", path.display());
    }
    home.write(
        "d.json",
        &json!({"name": "after_all", "capability": "Says the text.",
        "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "examples": [{"args": {"text": "abc"}, "returns": "abc!"}]})
        .to_string(),
    );
    home.write("c.ts", "export default function run({ text }: { text: string }) {\n  return text + '!';\n}\n");
    let _ = crate::common::register(&home, &[]).ok();
    let after = home.run(&["doctor", "--json"]).json();
    assert!(findings(&after).iter().all(|f| f["ok"] == true), "{what}: {:#?}", findings(&after));
    assert!(git(&home, &["fsck", "--strict"]).0, "{what}");
    let _ = home.run(&["audit", "verify"]).ok();
}

#[test]
fn damage_is_told_kept_to_its_entry_and_repaired_where_nothing_is_lost() {
    LazyLock::force(&SOUND);
    let only = std::env::var("JARVIS_TEST_CASE").unwrap_or_default();
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.what.contains(&only)).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst)) {
                    if std::panic::catch_unwind(|| check(case)).is_err() {
                        failed.lock().unwrap().push(case.what);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}: {failed:?}", failed.len(), cases.len());
    assert!(!only.is_empty() || cases.len() >= 40, "cases are missing");
}

/// What a hand changed is checked as it is; nobody has to write a definition for that.
#[test]
fn what_was_edited_by_hand_is_to_be_checked_first() {
    let entry: fn(&Home) = |home| index(home, |list| list[0]["grants"]["network"] = json!(["example.com"]));
    let code: fn(&Home) =
        |home| drop(home.write(CODE, &fs::read_to_string(home.file(CODE)).unwrap().replace("return", "return  ")));
    for (edit, file) in [(entry, "index.json"), (code, "tools/reverse_text.ts")] {
        let home = sound();
        edit(&home);
        let doctor = home.run(&["doctor", "--json"]).json();
        let finding = findings(&doctor).into_iter().find(|f| f["what"] == "registry: reverse_text").unwrap();
        let fix = finding["fix"].as_str().unwrap();
        let check = fix.find("jarvis cap check reverse_text").unwrap_or_else(|| panic!("{fix}"));
        assert!(fix[check..].contains(&format!("checkout HEAD -- {file}")) && !fix.contains("cap register"), "{fix}");
        // The advice works.
        if file == "index.json" {
            assert!(git(&home, &["checkout", "HEAD", "--", file]).0);
        } else {
            let _ = home.run(&["cap", "check", "reverse_text"]).ok();
        }
        let doctor = home.run(&["doctor", "--json"]).json();
        assert!(findings(&doctor).iter().all(|f| f["ok"] == true), "{doctor:#}");
    }
}

/// Root may read everything, unless it gives that up.
#[test]
fn files_that_may_not_be_read_are_told_and_opened_again() {
    let probe = |home: &Home, args: &[&str]| {
        let mut command = home.other("setpriv");
        command.args(["--bounding-set=-dac_override,-dac_read_search", env!("CARGO_BIN_EXE_jarvis")]).args(args);
        command.output().ok().map(crate::common::Ran::of)
    };
    let home = sound();
    fs::write(home.file("closed"), "x").unwrap();
    fs::set_permissions(home.file("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let closed = home
        .other("setpriv")
        .args(["--bounding-set=-dac_override,-dac_read_search", "cat", "closed"])
        .output()
        .is_ok_and(|output| !output.status.success());
    fs::remove_file(home.file("closed")).unwrap();
    let rootless = fs::read("/proc/1/environ").is_err();
    if !closed || (!rootless && probe(&home, &["--version"]).is_none_or(|ran| ran.code != 0)) {
        return jarvis_testkit::skipped("files that may not be read: this user may read everything (no setpriv)");
    }
    for (file, about) in [(INDEX, "index.json"), (CODE, "reverse_text"), ("jarvis.db", "statistics")] {
        let home = sound();
        fs::set_permissions(home.file(file), fs::Permissions::from_mode(0o000)).unwrap();
        let doctor = probe(&home, &["doctor", "--json"]).unwrap().json();
        let what = format!("registry: {about}");
        let finding = findings(&doctor).into_iter().find(|f| f["what"] == what);
        let finding = finding.unwrap_or_else(|| panic!("{file}: {:#?}", findings(&doctor)));
        assert!(finding["detail"].to_string().to_lowercase().contains("cannot"), "{finding}");
        let ran = probe(&home, &["cap", "run", "shout_text", "--args", "{\"text\": \"ab\"}"]).unwrap().ok();
        assert_eq!(ran.out, "AB\n", "{file}");
        let fixed = probe(&home, &["doctor", "--fix", "--json"]).unwrap().json();
        assert!(fixed["fixed"].to_string().contains("can be read and written"), "{file}: {fixed:#}");
        assert!(findings(&fixed).iter().all(|f| f["ok"] == true), "{file}: {fixed:#}");
    }
}

#[test]
fn a_locked_database_is_told_and_left_alone() {
    let home = sound();
    let script = "import sqlite3, sys\ndb = sqlite3.connect('jarvis.db', isolation_level=None)\n\
                  db.execute('PRAGMA journal_mode=DELETE')\ndb.execute('BEGIN EXCLUSIVE')\nprint('held', flush=True)\nsys.stdin.read()";
    let mut command = home.other("python3");
    command.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let Ok(mut holder) = command.spawn() else {
        return jarvis_testkit::skipped("a locked database: python3 is not here");
    };
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, "held\n");
    let fixed = home.run(&["doctor", "--fix", "--json"]).json();
    let finding = findings(&fixed).into_iter().find(|f| f["what"] == "registry: statistics").unwrap();
    assert!(finding["detail"].as_str().unwrap().contains("locked by another process"), "{finding}");
    assert_eq!(fixed["fixed"], json!([]));
    // It runs, and says that this run is not counted.
    let ran = home.run(&["cap", "run", "shout_text", "--args", "{\"text\": \"ab\"}"]).ok();
    assert!(ran.out == "AB\n" && ran.err.contains("statistics"), "{}", ran.err);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let doctor = home.run(&["doctor", "--json"]).json();
    assert!(findings(&doctor).iter().all(|f| f["ok"] == true), "{doctor:#}");
}
