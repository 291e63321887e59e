//! `jarvis cap` by hand, and homes that are damaged or from another version.

use crate::common::{Home, REVERSE as CODE, prepared, reverse_text as definition};
use serde_json::json;

fn register(home: &Home) -> crate::common::Ran {
    crate::common::register(home, &[])
}

#[test]
fn a_persons_own_capability_passes_the_same_checks_and_runs() {
    let home = prepared(&definition(), CODE);
    let ran = register(&home).ok();
    assert!(ran.err.contains("verified") && ran.err.contains("reverse_text 1.0.0 is registered"), "{}", ran.err);
    let ran = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"计算 ab\"}"]).ok();
    assert_eq!(ran.out, "ba 算计\n");
    let json = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}", "--json"]).ok().json();
    assert_eq!(json["result"], "ba");
    assert!(!json["execution"]["isolation"].as_array().unwrap().is_empty());
    assert!(home.run(&["cap", "search", "反转文字"]).ok().out.contains("reverse_text"));
    assert!(home.run(&["cap", "show", "reverse_text"]).ok().out.contains("by a person"));
}

#[test]
fn what_fails_its_examples_is_refused_and_leaves_nothing_behind() {
    let home = prepared(&definition(), CODE);
    home.write("c.ts", &CODE.replace(".reverse()", ""));
    let _ = register(&home).failed(1, &["cba"]);
    home.write("c.ts", "export default function run( {");
    let _ = register(&home).failed(1, &["SyntaxError"]);
    assert!(home.run(&["cap", "list", "--json"]).ok().json()["capabilities"].as_array().unwrap().is_empty());
    assert!(!home.file("capabilities/tools/reverse_text.ts").exists());
    let audit = home.run(&["audit", "tail", "--kind", "forge"]).ok().out;
    assert!(audit.contains("rejected"), "{audit}");
}

/// The indented lines under a heading of the help, without their indentation.
fn block(help: &str, heading: &str) -> String {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with("  ")).map(|line| format!("{}\n", &line[2..])).collect()
}

#[test]
fn the_example_of_the_help_can_be_copied_and_registers() {
    let home = Home::new();
    let help = home.run(&["cap", "register", "--help"]).ok().out;
    let readme = std::fs::read_to_string(crate::common::source("../../README.md")).unwrap();
    for (file, heading) in [("d.json", "gcd.json:"), ("c.ts", "gcd.ts:")] {
        let text = block(&help, heading);
        assert!(readme.contains(&text), "the README has another {heading}\n{text}");
        home.write(file, &text);
    }
    assert!(register(&home).ok().err.contains("2 known answers matched"));
    assert_eq!(home.run(&["cap", "run", "gcd", "--args", "{\"a\": 90, \"b\": 24}"]).ok().out, "6\n");
    let shown = home.run(&["cap", "show", "gcd"]).ok().out;
    assert!(
        shown.contains("{\"a\":12,\"b\":18} → 6\n") && shown.contains("{\"a\":7,\"b\":5} → matches ^1$\n"),
        "{shown}"
    );
}

#[test]
fn a_key_that_means_nothing_is_told_and_not_dropped() {
    let home = prepared(&definition(), CODE);
    let mut wrong = definition();
    wrong["examples"] = json!([{"args": {"text": "abc"}, "result": "never"}]);
    home.write("d.json", &wrong.to_string());
    let _ = register(&home).failed(2, &["example 1 has no key `result`", "args, returns, matches", "--help"]);
    let mut wrong = definition();
    wrong["trigers"] = json!(["x"]);
    home.write("d.json", &wrong.to_string());
    let _ = register(&home).failed(2, &["`trigers`", "triggers"]);
    assert!(!home.file("capabilities").exists());
}

#[test]
fn every_key_that_is_taken_is_explained_in_the_help() {
    let home = prepared(&definition(), CODE);
    let mut wrong = definition();
    wrong["examples"] = json!([{"args": {"text": "abc"}, "zzz": 1}]);
    (wrong["zzz"], wrong["grants"], wrong["limits"]) = (json!(1), json!({"zzz": 1}), json!({"zzz": 1}));
    home.write("d.json", &wrong.to_string());
    let told = register(&home).failed(2, &["(known: "]).err;
    let lists: Vec<&str> = told.split("(known: ").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert_eq!(lists.len(), 4, "{told}");
    let help = home.run(&["cap", "register", "--help"]).ok().out;
    let (_, keys) = help.split_once("The keys").unwrap();
    let words: Vec<&str> = keys.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for key in lists.iter().flat_map(|list| list.split(", ")) {
        assert!(words.contains(&key), "`{key}` is not explained:\n{keys}");
    }
}

#[test]
fn wrong_files_names_and_arguments_are_told() {
    let home = prepared(&definition(), CODE);
    let _ = home.run(&["cap", "register", "--definition", "none.json", "--code", "c.ts"]).failed(2, &["none.json"]);
    home.write("d.json", "{\"name\": \"Bad Name\", \"capability\": \"x\"}");
    let _ = register(&home).failed(2, &["Bad Name", "hint:"]);
    home.write("d.json", "not json");
    let _ = register(&home).failed(2, &["d.json"]);
    home.write("d.json", &definition().to_string());
    let _ = register(&home).ok();
    for (args, says) in [
        ("[1]", "object"),
        ("{\"text\": 5}", "text"),
        ("{\"txt\": \"a\"}", "txt"),
        ("{", "not JSON"),
        ("@none", "none"),
    ] {
        let ran = home.run(&["cap", "run", "reverse_text", "--args", args]).failed(2, &[says]);
        assert_eq!(ran.out, "", "{args}");
    }
    for command in [&["cap", "show", "nobody"][..], &["cap", "run", "nobody"], &["cap", "history", "../etc"]] {
        let _ = home.run(command).failed(1, &["no capability is called", "cap list"]);
    }
}

#[test]
fn a_disabled_one_does_not_run_until_it_is_enabled() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    let _ = home.run(&["cap", "disable", "reverse_text"]).ok();
    let run = ["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"];
    let _ = home.run(&run).failed(1, &["disabled", "hint: jarvis cap show"]);
    let _ = home.run(&["cap", "enable", "reverse_text"]).ok();
    assert_eq!(home.run(&run).ok().out, "ba\n");
    let _ = home.run(&["cap", "rm", "reverse_text"]).ok();
    let _ = home.run(&run).failed(1, &["no capability"]);
    let audit = home.run(&["audit", "tail", "--kind", "registry", "--json"]).ok().events();
    let changes: Vec<_> = audit.iter().map(|entry| (&entry["subject"], &entry["detail"])).collect();
    let of = json!("reverse_text");
    assert_eq!(
        changes,
        [
            (&of, &json!({"change": "status", "status": "disabled"})),
            (&of, &json!({"change": "status", "status": "active"})),
            (&of, &json!({"change": "remove"})),
        ]
    );
}

#[test]
fn a_script_gets_the_kind_of_an_error_and_what_to_do() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    let failed = |args: &[&str], code: i32| {
        let ran = home.run(&[args, &["--json"]].concat()).failed(code, &[]);
        let error = ran.json()["error"].clone();
        (error["kind"].as_str().unwrap().to_owned(), error["hint"].as_str().unwrap_or_default().to_owned())
    };
    let run = ["cap", "run", "reverse_text", "--args"];
    assert_eq!(failed(&[&run[..], &["{\"txt\": 1}"]].concat(), 2).0, "usage");
    assert_eq!(
        failed(&["cap", "run", "nobody"], 1),
        ("not_found".to_owned(), "`jarvis cap list` shows what there is".to_owned())
    );
    let _ = home.run(&["cap", "disable", "reverse_text"]).ok();
    let (kind, hint) = failed(&[&run[..], &["{\"text\": \"a\"}"]].concat(), 1);
    assert!(kind == "denied" && hint.contains("cap enable reverse_text"), "{kind} {hint}");
    let _ = home.run(&["cap", "rm", "reverse_text"]).ok();
    home.write("c.ts", "export default function run({ text }: { text: string }) {\n  if (text === 'x') throw new Error('no'); return [...text].reverse().join('');\n}\n");
    let _ = register(&home).ok();
    assert_eq!(failed(&[&run[..], &["{\"text\": \"x\"}"]].concat(), 1).0, "sandbox");
}

/// In a mount namespace of its own the home is on a disk of this many KiB that nobody else sees.
fn on_a_small_disk(home: &Home, kib: u32, script: &str) -> Option<crate::common::Ran> {
    let mount = format!("mount -t tmpfs -o size={kib}k none \"$JARVIS_HOME\"");
    let tried = |way: &str, script: &str| {
        let mut command = home.other("unshare");
        command.args([way, "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_jarvis")]);
        command.env("JARVIS_HOME", home.file("small")).output().ok()
    };
    std::fs::create_dir_all(home.file("small")).unwrap();
    // As root, or as root of a user namespace where that is allowed.
    let way = ["-m", "-rm"].into_iter().find(|way| tried(way, &mount).is_some_and(|output| output.status.success()))?;
    tried(way, &format!("{mount} || exit 99\n{script}")).map(crate::common::Ran::of)
}

#[test]
fn a_full_disk_loses_nothing_that_was_there_and_is_told() {
    let home = prepared(&definition(), CODE);
    let mut other = definition();
    (other["name"], other["capability"]) = (json!("shout_text"), json!("Makes every letter of a text upper case."));
    other["examples"] = json!([{"args": {"text": "abc"}, "returns": "ABC"}]);
    other["triggers"] = json!(["capital letters"]);
    home.write("other.json", &other.to_string());
    home.write("other.ts", &CODE.replace("[...text].reverse().join('')", "text.toUpperCase()"));
    let script = r#"
        "$1" cap register --quiet --definition d.json --code c.ts || exit 90
        cp -r "$JARVIS_HOME/capabilities" before
        for free in 0 8 16 24; do
            head -c $((free * 1024)) /dev/zero >"$JARVIS_HOME/kept"
            cat /dev/zero >"$JARVIS_HOME/fill" 2>/dev/null
            rm "$JARVIS_HOME/kept"
            "$1" cap register --json --definition other.json --code other.ts
            echo "code $?"
            rm "$JARVIS_HOME/fill"
            cmp before/index.json "$JARVIS_HOME/capabilities/index.json" || exit 91
            test ! -e "$JARVIS_HOME/capabilities/tools/shout_text.ts" || exit 92
            test "$("$1" cap run reverse_text --args '{"text": "ab"}')" = ba || exit 93
        done
        "$1" audit verify || exit 94
        "$1" cap register --definition other.json --code other.ts || exit 95
        "$1" cap run shout_text --args '{"text": "ab"}'
    "#;
    let Some(ran) = on_a_small_disk(&home, 1024, script) else {
        return jarvis_testkit::skipped("a full disk: no small one can be mounted (unshare -m)");
    };
    let ran = ran.ok();
    let told: Vec<serde_json::Value> = ran
        .out
        .lines()
        .filter(|line| line.starts_with("{\"error\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((ran.out.matches("code 1\n").count(), told.len()), (4, 4), "{}\n{}", ran.out, ran.err);
    assert!(told.iter().all(|told| told["error"]["kind"] == "disk"), "{told:?}");
    assert!(ran.out.ends_with("AB\n"), "{}", ran.out);
}

#[test]
fn code_changed_by_hand_does_not_run() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    home.write("capabilities/tools/reverse_text.ts", &CODE.replace("reverse()", "sort()"));
    let _ = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"]).failed(1, &["changed by hand"]);
    assert!(home.run(&["cap", "show", "reverse_text"]).ok().out.contains("changed by hand"));
    let home = home.var("OPENAI_API_KEY", "sk-test");
    let found = |home: &Home, what: &str| {
        let findings = home.run(&["doctor", "--json"]).json()["findings"].clone();
        findings.as_array().unwrap().iter().find(|f| f["what"] == what).unwrap().clone()
    };
    let registry = found(&home, "registry: reverse_text");
    assert_eq!(registry["ok"], false, "{registry}");
    assert!(registry["detail"].as_str().unwrap().contains("reverse_text was changed by hand"), "{registry}");
    assert!(registry["fix"].as_str().unwrap().contains("jarvis cap check"), "{registry}");
    // As the fix says: what is registered, with the code as it is now, which has to be right.
    home.write("capabilities/tools/reverse_text.ts", &CODE.replace("  return", "  // mine\n  return"));
    home.write("d.json", &home.run(&["cap", "show", "reverse_text", "--json"]).ok().out);
    let code = home.file("capabilities/tools/reverse_text.ts");
    let _ = home.run(&["cap", "register", "--definition", "d.json", "--code", code.to_str().unwrap()]).ok();
    assert_eq!(found(&home, "registry")["detail"], "1 capability");
}

#[test]
fn a_corrupt_index_is_kept_aside_reported_and_never_overwritten() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    let index = home.file("capabilities/index.json");
    let whole = std::fs::read_to_string(&index).unwrap();
    let torn = &whole[..whole.len() / 2];
    std::fs::write(&index, torn).unwrap();
    // What was committed goes on working; nothing is written.
    let listed = home.run(&["cap", "list"]).ok();
    assert!(listed.out.contains("reverse_text") && listed.err.contains("damaged: index.json"), "{}", listed.err);
    assert_eq!(home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"]).ok().out, "ba\n");
    let register = ["cap", "register", "--definition", "d.json", "--code", "c.ts"];
    let _ = home.run(&register).failed(1, &["index.json is damaged", "hint:", "doctor --fix"]);
    assert_eq!(std::fs::read_to_string(&index).unwrap(), torn);
    let kept = std::fs::read_dir(home.file("capabilities")).unwrap().flatten();
    let kept: Vec<_> = kept.filter(|e| e.file_name().to_string_lossy().contains("damaged")).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read_to_string(kept[0].path()).unwrap(), torn);
    let _ = home.run(&["doctor"]).failed(1, &[]);
    std::fs::write(&index, whole).unwrap();
    assert!(home.run(&["cap", "list"]).ok().out.contains("reverse_text"));
}

#[test]
fn one_damaged_entry_does_not_hide_the_others() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    let index = home.file("capabilities/index.json");
    let mut value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&index).unwrap()).unwrap();
    value["capabilities"].as_array_mut().unwrap().insert(0, json!({"name": "Bad Name", "capability": 5}));
    std::fs::write(&index, value.to_string()).unwrap();
    let ran = home.run(&["cap", "list"]).ok();
    assert!(ran.out.contains("reverse_text") && ran.err.contains("damaged"), "{}\n{}", ran.out, ran.err);
}

#[test]
fn a_home_of_a_newer_version_is_left_alone() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    let index = home.file("capabilities/index.json");
    let mut value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&index).unwrap()).unwrap();
    value["format"] = json!(999);
    std::fs::write(&index, value.to_string()).unwrap();
    let before = std::fs::read_to_string(&index).unwrap();
    for args in [&["cap", "list"][..], &["cap", "register", "--definition", "d.json", "--code", "c.ts"]] {
        let _ = home.run(args).failed(1, &["999", "hint:"]);
    }
    assert_eq!(std::fs::read_to_string(&index).unwrap(), before);
}

#[test]
fn a_changed_audit_record_is_found() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    let verified = home.run(&["audit", "verify", "--json"]).ok().json();
    assert!(verified["records"].as_u64().unwrap() > 3);
    let file = std::fs::read_dir(home.file("audit"))
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|x| x == "jsonl"));
    let file = file.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("reverse_text", "reverse_texx", 1)).unwrap();
    let ran = home.run(&["audit", "verify"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("problem"), "{}", ran.out);
}

#[test]
fn nothing_a_capability_says_acts_on_a_terminal_and_json_has_it_exact() {
    let home = prepared(&definition(), CODE);
    let mut hostile = definition();
    hostile["examples"] = json!([{"args": {"text": "abc"}, "returns": "\u{1b}[2J\u{9b}\u{202e}abc"}]);
    home.write("d.json", &hostile.to_string());
    home.write(
        "c.ts",
        "export default function run({ text }: { text: string }) {\n  const s = '\\x1b[2J\\x9b\\u202e' + text;\n  \
         if (text === 'fail') throw new Error(s);\n  return s;\n}\n",
    );
    let _ = register(&home).ok();
    let run = |text: &str, more: &[&str]| {
        let args = json!({"text": text}).to_string();
        home.run(&[&["cap", "run", "reverse_text", "--args", args.as_str()], more].concat())
    };
    assert_eq!(run("x", &[]).ok().out, "\\u{1b}[2J\\u{9b}\\u{202e}x\n");
    let acts = ['\u{1b}', '\u{9b}', '\u{202e}'];
    let json = run("x", &["--json"]).ok();
    assert!(!json.out.contains(acts), "{:?}", json.out);
    assert_eq!(json.json()["result"], "\u{1b}[2J\u{9b}\u{202e}x");
    let failed = run("fail", &[]).failed(1, &[r"\u{1b}[2J\u{9b}\u{202e}fail"]);
    assert!(!failed.err.contains(acts), "{:?}", failed.err);
    for args in [&["cap", "show", "reverse_text"][..], &["audit", "tail"]] {
        let shown = home.run(args).ok().out;
        assert!(!shown.contains(acts), "{shown:?}");
    }
}

#[test]
fn a_new_home_is_closed_to_other_users() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let new = home.file("below/new");
    let output = home.command(&["config", "set", "approve", "deny"]).env("JARVIS_HOME", &new).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn listing_an_empty_home_writes_nothing() {
    let home = Home::new();
    for args in [
        &["cap", "list"][..],
        &["cap", "search", "x"],
        &["audit", "tail"],
        &["audit", "verify"],
        &["model", "list"],
        &["config", "get"],
    ] {
        let _ = home.run(args).ok();
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn doctor_tells_what_works_here() {
    let home = Home::new().var("OPENAI_API_KEY", "sk-test");
    let found = home.run(&["doctor", "--json"]).ok().json();
    let names: Vec<&str> = found["findings"].as_array().unwrap().iter().map(|f| f["what"].as_str().unwrap()).collect();
    for what in ["config", "model", "home", "registry", "audit", "disk"] {
        assert!(names.contains(&what), "{names:?}");
    }
    assert!(names.iter().filter(|name| name.starts_with("sandbox: ")).count() >= 3, "{names:?}");
    let _ = Home::new().var("OPENAI_API_KEY", "k").config("nonsense = 1\n").run(&["doctor"]).failed(1, &[]);
}

#[test]
fn doctor_finds_a_home_that_cannot_be_written() {
    let home = Home::new().var("OPENAI_API_KEY", "sk-test");
    let file = home.write("file", "no folder");
    let output = home.command(&["doctor"]).env("JARVIS_HOME", file.join("home")).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("MISSING home") && told.contains("Not a directory"), "{told}");
    let _ = home.run(&["doctor"]).ok();
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["file"], "nothing is left of the try");
}

#[test]
fn an_earlier_version_is_put_back_as_a_new_one() {
    let home = prepared(&definition(), CODE);
    let _ = register(&home).ok();
    home.write("c.ts", &CODE.replace("[...text]", "Array.from(text)"));
    let _ = register(&home).ok();
    let _ = home.run(&["cap", "rollback", "reverse_text", "7.0.0"]).failed(1, &["no version 7.0.0", "1.0.0, 1.0.1"]);
    let _ = home.run(&["cap", "rollback", "nothing_here"]).failed(1, &["no capability is called"]);
    let _ = home.run(&["cap", "rollback", "reverse_text", "one"]).failed(2, &["one"]);
    let back = home.run(&["cap", "rollback", "reverse_text", "--json"]).ok();
    assert_eq!(back.json()["version"], "1.0.2");
    let shown = home.run(&["cap", "show", "reverse_text", "--code"]).ok().out;
    assert!(shown.contains("[...text]"), "{shown}");
    assert!(home.run(&["cap", "history", "reverse_text"]).ok().out.contains("rolled back to 1.0.0"));
}
