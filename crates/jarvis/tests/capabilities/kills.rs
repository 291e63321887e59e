//! kill -9 at random points of everything that changes the registry, through the shipped binary. 24 kills here,
//! `JARVIS_TEST_KILLS=200` for more; `JARVIS_TEST_SEED` repeats a run as far as the machine allows.
#![allow(clippy::disallowed_methods, reason = "a person's git, not a capability")]

use crate::common::{Home, REVERSE, reverse_text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// xorshift64*: the same points for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

/// What is killed in the middle.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Act {
    Register,
    Update,
    RollBack,
    SetStatus,
    Remove,
    Import,
}

/// Words that no other name has, so that nothing passes for a repetition of something else.
fn words(name: &str) -> String {
    let mut random =
        Random(name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01B3)));
    let mut word = || (0..8).map(|_| char::from(b'a' + random.below(26) as u8)).collect::<String>();
    [word(), word(), word()].join(" ")
}

/// A version of `name` that says so in its code; what it answers stays the same, as its examples stay.
fn prepare(home: &Home, name: &str, mark: u64) {
    let mut definition = reverse_text();
    definition["name"] = json!(name);
    definition["capability"] = json!(format!("{}.", words(name)));
    definition["triggers"] = json!([words(name)]);
    definition["examples"] = json!([{"args": {"text": "abc"}, "returns": format!("cba {name}")}]);
    home.write("d.json", &definition.to_string());
    home.write(
        "c.ts",
        &format!("// version {mark}\n{}", REVERSE.replace(".join('')", &format!(".join('') + ' {name}'"))),
    );
}

/// A folder as `jarvis cap import` takes it, where this binary has that.
fn prepare_import(home: &Home, mark: u64) {
    let entry = |i: u64| {
        json!({"name": format!("brought_{mark}_{i}"), "capability": format!("Says {mark} {i}."), "tool_path": format!("tools/brought_{mark}_{i}.ts"),
               "parameters": {"type": "object", "properties": {}}})
    };
    let entries: Vec<Value> = (0..3).map(entry).collect();
    let index = json!({"version": "1.0.0", "capabilities": entries});
    home.write(&format!("from_{mark}/index.json"), &index.to_string());
    for i in 0..3 {
        let code = format!("export default function run() {{\n  return '{mark} {i}';\n}}\n");
        home.write(&format!("from_{mark}/tools/brought_{mark}_{i}.ts"), &code);
    }
}

/// Every version that was ever seen whole, with its code.
type Seen = BTreeMap<(String, String), String>;

fn git(home: &Home, args: &[&str]) -> String {
    let mut command = home.other("git");
    let output = command.arg("-C").arg(home.file("capabilities")).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Clean by itself, every entry whole, and every version that was there still readable.
fn assert_whole(home: &Home, seen: &mut Seen) {
    let doctor = home.run(&["doctor", "--json"]);
    let bad: Vec<Value> = doctor.json()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["essential"] == true && f["ok"] == false)
        .cloned()
        .collect();
    assert!(bad.is_empty() && doctor.code == 0, "doctor: {bad:#?}");
    let registry = jarvis_registry::Registry::open(
        home.file("capabilities"),
        home.file("jarvis.db"),
        jarvis_registry::Author { name: "t".into(), email: "t@t".into() },
    )
    .unwrap();
    assert_eq!(registry.check(), [], "nothing of the registry is in between");
    for capability in registry.list().unwrap().capabilities {
        let code = registry.code(&capability).unwrap();
        // What is imported was never checked; everything else is exactly what was verified.
        let imported = capability.name.as_str().starts_with("brought_");
        assert!(code.matches_digest || imported, "{}: code and definition are of two versions", capability.name);
        if !imported {
            seen.insert((capability.name.to_string(), capability.version.to_string()), code.text);
        }
    }
    let lost: Vec<_> = seen
        .iter()
        .filter(|((name, version), text)| {
            let name = jarvis_protocol::CapabilityName::new(name.as_str()).unwrap();
            let current = registry.get(&name).unwrap().filter(|now| now.version.to_string() == *version);
            let at = match current {
                Some(now) => Some(registry.code(&now).unwrap().text),
                None => registry.at(&name, &version.parse().unwrap()).unwrap().map(|(_, text)| text),
            };
            at.as_ref() != Some(*text)
        })
        .map(|(key, _)| key)
        .collect();
    assert!(lost.is_empty(), "versions are lost: {lost:?}");
    let verified = home.run(&["audit", "verify", "--json"]).ok().json();
    assert_eq!(verified["problems"], json!([]), "{verified}");
    git(home, &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn killed_at_any_point_nothing_is_lost_and_nothing_is_half_done() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("JARVIS_TEST_KILLS").unwrap_or(24);
    let seed = number("JARVIS_TEST_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64 | 1
    });
    let mut random = Random(seed.max(1));
    let home = Home::new().var("OPENAI_API_KEY", "sk-test");
    let mut seen = Seen::new();
    prepare(&home, "base_one", 0);
    let _ = crate::common::register(&home, &["--approve", "auto"]).ok();
    prepare(&home, "base_one", 1);
    // How long a registration takes here says where its points are.
    let began = Instant::now();
    let _ = crate::common::register(&home, &["--approve", "auto"]).ok();
    let whole = began.elapsed();
    assert_whole(&home, &mut seen);

    let can_import = home.run(&["cap", "import", "--help"]).code == 0;
    let mut acts = vec![Act::Register, Act::Update, Act::RollBack, Act::SetStatus, Act::Remove];
    if can_import {
        acts.push(Act::Import);
    } else {
        println!("import is not in this binary");
    }
    let (mut killed, mut changed, mut mark) = (0, 0, 1);
    let mut by_act: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while killed < kills {
        mark += 1;
        let act = acts[random.below(acts.len() as u64) as usize];
        let name = if act == Act::Register { format!("made_{mark}") } else { "base_one".to_owned() };
        let folder = format!("from_{mark}");
        let args: Vec<&str> = match act {
            Act::Register | Act::Update => {
                prepare(&home, &name, mark);
                vec!["cap", "register", "--approve", "auto", "--definition", "d.json", "--code", "c.ts"]
            }
            Act::RollBack => vec!["cap", "rollback", "--approve", "auto", "base_one"],
            Act::SetStatus if mark % 2 == 0 => vec!["cap", "disable", "base_one"],
            Act::SetStatus => vec!["cap", "enable", "base_one"],
            // Registered right before, so that there is something to remove.
            Act::Remove => {
                prepare(&home, "short_lived", mark);
                let _ = crate::common::register(&home, &["--approve", "auto"]).ok();
                vec!["cap", "rm", "short_lived"]
            }
            Act::Import => {
                prepare_import(&home, mark);
                vec!["cap", "import", &folder]
            }
        };
        if act == Act::Remove {
            assert_whole(&home, &mut seen);
        }
        let index = || std::fs::read(home.file("capabilities/index.json")).unwrap();
        let before = index();
        let head = git(&home, &["rev-parse", "HEAD"]);
        let mut child = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let after = random.below(whole.as_micros() as u64 * 5 / 4);
        // Every other one is killed around its write, where the points lie close together.
        let near = random.below(2) == 0;
        let started = Instant::now();
        if near {
            let marker = home.file("capabilities/.staged");
            let busy = || index() != before || std::fs::read_dir(&marker).is_ok_and(|mut files| files.next().is_some());
            while !busy() && child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(20) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_micros(random.below(12_000)));
        } else {
            std::thread::sleep(Duration::from_micros(after));
        }
        // One that was done already is no kill.
        if child.try_wait().unwrap().is_some() {
            assert_whole(&home, &mut seen);
            continue;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        let moved = index() != before || git(&home, &["rev-parse", "HEAD"]) != head;
        changed += u64::from(moved);
        let count = by_act.entry(format!("{act:?}")).or_default();
        *count = (count.0 + 1, count.1 + u64::from(moved));
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_whole(&home, &mut seen)));
        if let Err(panic) = told {
            println!("kill {killed} of {kills}, in {act:?} ({args:?}), near: {near}, seed: JARVIS_TEST_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
        // Now and then the next command comes first, and everything is as whole.
        if random.below(3) == 0 {
            let _ = home.run(&["cap", "enable", "base_one"]).ok();
            assert_whole(&home, &mut seen);
        }
    }
    let _ = home.run(&["cap", "enable", "base_one"]).ok();
    let ran = home.run(&["cap", "run", "base_one", "--args", "{\"text\": \"ab\"}"]).ok();
    assert_eq!(ran.out, "ba base_one\n");
    // One more write takes up whatever the last kill left.
    prepare(&home, "after_all", 0);
    let _ = crate::common::register(&home, &["--approve", "auto"]).ok();
    assert_eq!(git(&home, &["status", "--porcelain"]), "");
    let history = home.run(&["cap", "history", "base_one", "--json"]).ok();
    assert!(!history.out.contains("\"commit\":null"), "{}", history.out);
    assert!(changed * 10 >= kills, "only {changed} of {kills} kills came after a write");
    println!(
        "{kills} kills, {changed} of them after the write: {by_act:?}; {} versions readable; seed {seed}",
        seen.len()
    );
}
