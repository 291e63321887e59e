//! Many processes of the shipped binary register at once. A tenth of the full size; `JARVIS_TEST_CROWD=200` is all of it.
#![allow(clippy::disallowed_methods, reason = "a person's git, not a capability")]

use crate::common::{Home, REVERSE, reverse_text};
use serde_json::json;
use std::collections::HashSet;
use std::time::Instant;

/// A word that no other number has.
fn word(n: u64) -> String {
    let mut n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let letter = |n: &mut u64| {
        let c = char::from(b'a' + (*n % 26) as u8);
        *n /= 26;
        c
    };
    (0..12).map(|_| letter(&mut n)).collect()
}

#[test]
fn eight_processes_lose_nothing_and_the_audit_verifies() {
    let each: u64 = std::env::var("JARVIS_TEST_CROWD").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let home = Home::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for process in 0..8u64 {
            let home = &home;
            scope.spawn(move || {
                for i in 0..each {
                    let name = format!("cap_{process}_{i}");
                    let mut definition = reverse_text();
                    definition["name"] = json!(name);
                    definition["capability"] =
                        json!(format!("{} {}.", word(process * 1000 + i), word(process * 1000 + i + 500)));
                    definition["triggers"] = json!([word(process * 1000 + i)]);
                    let (d, c) = (format!("{name}.json"), format!("{name}.ts"));
                    home.write(&d, &definition.to_string());
                    home.write(&c, &format!("// {name}\n{REVERSE}"));
                    let args = ["cap", "register", "--approve", "auto", "--quiet", "--definition", &d, "--code", &c];
                    let _ = home.run(&args).ok();
                }
            });
        }
    });
    let took = began.elapsed();
    let listed = home.run(&["cap", "list", "--json"]).ok().json();
    let names: HashSet<&str> =
        listed["capabilities"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names.len() as u64, 8 * each);
    let verified = home.run(&["audit", "verify", "--json"]).ok().json();
    assert_eq!(verified["problems"], json!([]));
    assert!(verified["records"].as_u64().unwrap() > 8 * each);
    let git = |args: &[&str]| {
        let output = home.other("git").arg("-C").arg(home.file("capabilities")).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(git(&["rev-list", "--count", "HEAD"]), (8 * each).to_string());
    assert_eq!(git(&["rev-list", "--count", "--min-parents=2", "HEAD"]), "0");
    assert_eq!(git(&["status", "--porcelain"]), "");
    let _ = git(&["fsck", "--strict"]);
    println!(
        "{} registrations by the binary in {took:.1?}: {:.0} ms each",
        8 * each,
        took.as_secs_f64() * 1000.0 / (8 * each) as f64
    );
}
