//! The log as a person meets it: appended to, read back, damaged, cut off, killed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use jarvis_audit::{AuditLog, Filter, Kind, Record, Verify};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn record(i: usize, kind: Kind) -> Record {
    Record {
        at: format!("2026-{:02}-05T10:00:00Z", i / 40 % 3 + 1),
        actor: "cli".into(),
        kind,
        subject: format!("probe_{}", i % 3),
        detail: json!({"i": i, "文字": "内容", "args": {"b": 1, "a": [null, 1.5]}}),
    }
}

/// 120 records over three months.
fn filled(dir: &Path) -> AuditLog {
    let log = AuditLog::open(dir.to_owned());
    for i in 0..120 {
        assert_eq!(log.append(record(i, Kind::Outcome)).unwrap(), i as u64 + 1);
    }
    log
}

fn verify(dir: &Path) -> Verify {
    AuditLog::open(dir.to_owned()).verify().unwrap()
}

fn only_file(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    assert!(path.exists());
    path
}

#[test]
fn opening_and_looking_at_an_empty_log_touches_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("audit");
    let log = AuditLog::open(dir.clone());
    assert_eq!(log.verify().unwrap(), Verify::default());
    assert!(log.tail(5, &Filter::default()).unwrap().entries.is_empty());
    assert!(!dir.exists());
}

#[test]
fn a_written_log_verifies_across_its_monthly_files_and_reads_back() {
    let home = tempfile::tempdir().unwrap();
    let log = filled(home.path());
    let verify = log.verify().unwrap();
    assert_eq!(verify, Verify { records: 120, ..Verify::default() });
    for month in ["2026-01.jsonl", "2026-02.jsonl", "2026-03.jsonl"] {
        only_file(home.path(), month);
    }

    let tail = log.tail(3, &Filter::default()).unwrap();
    assert_eq!(tail.entries.iter().map(|e| e.seq).collect::<Vec<_>>(), [118, 119, 120]);
    let filter = Filter { subject: Some("probe_1".into()), ..Filter::default() };
    let tail = log.tail(50, &filter).unwrap();
    assert_eq!(tail.entries.len(), 40);
    assert!(tail.entries.iter().all(|e| e.record.subject == "probe_1"));
    assert_eq!(tail.entries[0].record.detail["文字"], "内容");
}

#[test]
fn secrets_never_reach_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let log = AuditLog::open(home.path().to_owned());
    let secret = format!("sk-{}", "q1w2e3r4t5y6u7i8o9p0");
    let mut record = record(0, Kind::Intent);
    record.subject = format!("curl -H 'Authorization: Bearer {secret}'");
    record.detail = json!({"args": {"text": format!("密钥 {secret}"), "nested": [{secret.as_str(): secret.as_str()}]}});
    log.append(record).unwrap();
    let text = fs::read_to_string(only_file(home.path(), "2026-01.jsonl")).unwrap();
    assert!(!text.contains(&secret) && text.contains("«redacted:"), "{text}");
}

#[test]
fn a_time_that_is_none_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let log = AuditLog::open(home.path().to_owned());
    for at in ["", "yesterday", "../../x", "2026-01", "二〇二六"] {
        let record = Record { at: at.into(), ..record(0, Kind::Intent) };
        assert!(log.append(record).is_err(), "{at}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn every_changed_byte_is_found() {
    let home = tempfile::tempdir().unwrap();
    let log = AuditLog::open(home.path().to_owned());
    for i in 0..4 {
        log.append(record(i, Kind::Outcome)).unwrap();
    }
    let path = only_file(home.path(), "2026-01.jsonl");
    let good = fs::read(&path).unwrap();
    for i in 0..good.len() {
        for change in [1u8, 0x20, 0x80] {
            let mut bad = good.clone();
            bad[i] ^= change;
            fs::write(&path, &bad).unwrap();
            let verify = verify(home.path());
            // A lost line break at the very end looks like a write that was cut off; the head still misses the record.
            assert!(!verify.problems.is_empty(), "byte {i} ^ {change:#x}");
        }
    }
    for i in 0..good.len() {
        let mut bad = good.clone();
        bad.remove(i);
        fs::write(&path, &bad).unwrap();
        assert!(!verify(home.path()).problems.is_empty(), "byte {i} removed");
    }
    fs::write(&path, &good).unwrap();
    assert!(verify(home.path()).problems.is_empty());
}

#[test]
fn removed_swapped_repeated_and_inserted_lines_are_found() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = only_file(home.path(), "2026-02.jsonl");
    let good = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let mut removed = lines.clone();
    removed.remove(7);
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    let mut repeated = lines.clone();
    repeated.insert(9, lines[9]);
    let mut blank = lines.clone();
    blank.insert(2, "");
    for (what, bad) in [("removed", removed), ("swapped", swapped), ("repeated", repeated), ("blank", blank)] {
        fs::write(&path, bad.join("\n") + "\n").unwrap();
        let verify = verify(home.path());
        assert!(verify.problems.iter().any(|p| p.file == "2026-02.jsonl"), "{what}: {verify:?}");
    }
    fs::remove_file(&path).unwrap();
    assert!(!verify(home.path()).problems.is_empty(), "a whole month removed");
}

#[test]
fn lines_cut_off_at_the_end_are_found_and_stay_found_after_the_next_append() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = only_file(home.path(), "2026-03.jsonl");
    let good = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    fs::write(&path, lines[..38].join("\n") + "\n").unwrap();
    let found = verify(home.path());
    assert!(found.problems.iter().any(|p| p.what.contains("119 to 120 are missing")), "{found:?}");

    AuditLog::open(home.path().to_owned()).append(record(119, Kind::Intent)).unwrap();
    let found = verify(home.path());
    assert!(found.problems.iter().any(|p| p.what.contains("missing at the end when")), "{found:?}");

    // The newest file taken away as a whole.
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    fs::remove_file(home.path().join("2026-03.jsonl")).unwrap();
    assert!(!verify(home.path()).problems.is_empty());
    AuditLog::open(home.path().to_owned()).append(record(119, Kind::Intent)).unwrap();
    assert!(!verify(home.path()).problems.is_empty());
}

#[test]
fn a_cut_end_with_the_head_taken_away_stays_a_problem_after_the_next_append() {
    for kept in [1, 30] {
        let home = tempfile::tempdir().unwrap();
        let log = AuditLog::open(home.path().to_owned());
        for i in 0..40 {
            log.append(record(i, Kind::Intent)).unwrap();
        }
        let path = only_file(home.path(), "2026-01.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.lines().take(kept).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        fs::remove_file(home.path().join("head.json")).unwrap();
        for _ in 0..2 {
            log.append(record(0, Kind::Intent)).unwrap();
            let found = verify(home.path());
            assert!(found.problems.iter().any(|p| p.what.contains("head.json was missing")), "{kept}: {found:?}");
        }
    }
}

#[test]
fn a_kill_between_the_first_line_and_its_head_is_no_problem() {
    let home = tempfile::tempdir().unwrap();
    let log = AuditLog::open(home.path().to_owned());
    log.append(record(0, Kind::Intent)).unwrap();
    fs::write(home.path().join("head.json"), r#"{"seq":0,"hash":"","file":"","bytes":0}"#).unwrap();
    assert_eq!(log.verify().unwrap(), Verify { records: 1, ..Verify::default() });
    assert_eq!(log.append(record(1, Kind::Intent)).unwrap(), 2);
    assert_eq!(log.verify().unwrap(), Verify { records: 2, ..Verify::default() });
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_the_log() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("audit");
    AuditLog::open(dir.clone()).append(record(0, Kind::Intent)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[test]
fn half_a_line_is_reported_kept_and_the_chain_goes_on() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = only_file(home.path(), "2026-03.jsonl");
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice("{\"hash\":\"0123\",\"seq\":121,\"at\":\"半".as_bytes());
    torn.pop();
    fs::write(&path, &torn).unwrap();
    let found = verify(home.path());
    assert!(found.problems.is_empty() && found.notes.len() == 1, "{found:?}");

    let log = AuditLog::open(home.path().to_owned());
    assert_eq!(log.append(record(119, Kind::Intent)).unwrap(), 122);
    let found = log.verify().unwrap();
    assert!(found.problems.is_empty() && found.notes.len() == 1 && found.records == 122, "{found:?}");
    let kept = log.tail(2, &Filter { kind: Some(Kind::Audit), ..Filter::default() }).unwrap();
    assert!(kept.entries[0].record.detail["torn_line"].as_str().unwrap().contains("\"seq\":121"));
}

#[test]
fn a_head_that_lags_is_caught_up_and_a_lost_one_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let log = filled(home.path());
    let head = home.path().join("head.json");
    let old = fs::read(&head).unwrap();
    log.append(record(119, Kind::Outcome)).unwrap();
    // Killed after the line, before the head.
    fs::write(&head, old).unwrap();
    assert!(log.verify().unwrap().problems.is_empty());
    assert_eq!(log.append(record(119, Kind::Outcome)).unwrap(), 122);
    assert_eq!(log.verify().unwrap(), Verify { records: 122, ..Verify::default() });

    fs::remove_file(&head).unwrap();
    assert!(log.verify().unwrap().problems.iter().any(|p| p.what.contains("missing")));
    assert_eq!(log.append(record(119, Kind::Outcome)).unwrap(), 124, "one record about the head itself");
    assert!(log.verify().unwrap().problems.iter().any(|p| p.what.contains("head.json was missing")));

    fs::write(&head, "{").unwrap();
    assert!(log.verify().unwrap().problems.iter().any(|p| p.what.contains("damaged")));
    assert_eq!(log.append(record(119, Kind::Outcome)).unwrap(), 126);
    assert!(log.verify().unwrap().problems.iter().any(|p| p.what.contains("head.json was damaged")));
    assert!(home.path().join("head.json.damaged-1").exists(), "the damaged one is kept");
}

#[test]
fn a_clock_set_back_does_not_break_the_chain() {
    let home = tempfile::tempdir().unwrap();
    let log = filled(home.path());
    log.append(record(0, Kind::Intent)).unwrap();
    assert_eq!(log.verify().unwrap(), Verify { records: 121, ..Verify::default() });
}

/// Started by the tests below as a process of its own; appends until it is killed or done.
#[test]
#[ignore = "a helper process of the tests below"]
fn child_appends() {
    let dir = std::env::var_os("JARVIS_AUDIT_TEST_DIR").expect("started by a test");
    let count: usize = std::env::var("JARVIS_AUDIT_TEST_COUNT").unwrap().parse().unwrap();
    let log = AuditLog::open(dir.into());
    for i in 0..count {
        let kind = if i % 10 == 0 { Kind::Intent } else { Kind::Outcome };
        log.append(Record { at: "2026-01-05T10:00:00Z".into(), ..record(i, kind) }).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "this very test binary, as a second process")]
fn child(dir: &Path, count: usize) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_appends", "--ignored", "--test-threads=1"])
        .env("JARVIS_AUDIT_TEST_DIR", dir)
        .env("JARVIS_AUDIT_TEST_COUNT", count.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_and_threads_that_append_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..4).map(|_| child(home.path(), 100)).collect();
    let log = AuditLog::open(home.path().to_owned());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    log.append(Record { at: "2026-01-05T10:00:00Z".into(), ..record(0, Kind::Outcome) }).unwrap();
                }
            });
        }
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(verify(home.path()), Verify { records: 600, ..Verify::default() });
}

#[test]
fn of_all_that_wait_one_has_the_duty_and_all_hear_of_it() {
    let home = tempfile::tempdir().unwrap();
    let log = AuditLog::open(home.path().to_owned());
    let (tell, told) = std::sync::mpsc::channel();
    let mut duties = Vec::new();
    for i in 0..50 {
        let tell = tell.clone();
        // The turn of a month lies between them.
        let at = if i < 20 { "2026-01-31T23:59:59Z" } else { "2026-02-01T00:00:00Z" };
        let kind = if i % 3 == 0 { Kind::Intent } else { Kind::Outcome };
        let record = Record { at: at.into(), ..record(i, kind) };
        duties.extend(log.submit(record, move |appended| tell.send((i, appended.unwrap())).unwrap()).unwrap());
    }
    assert_eq!(duties.len(), 1);
    assert!(told.try_recv().is_err() && !home.path().join("2026-01.jsonl").exists());
    // It is done wherever it is dropped.
    std::thread::spawn(move || drop(duties)).join().unwrap();
    let mut numbers: Vec<(usize, u64)> = told.try_iter().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).map(|i| (i, i as u64 + 1)).collect::<Vec<_>>());
    assert_eq!(verify(home.path()), Verify { records: 50, ..Verify::default() });
    // The next one has it again.
    assert_eq!(log.append(Record { at: "2026-02-01T00:00:00Z".into(), ..record(0, Kind::Intent) }).unwrap(), 51);
}

#[test]
fn what_cannot_be_written_is_told_to_each_that_waits() {
    let home = tempfile::tempdir().unwrap();
    let blocked = home.path().join("audit");
    fs::write(&blocked, "a file where the folder should be").unwrap();
    let log = AuditLog::open(blocked.clone());
    let (tell, told) = std::sync::mpsc::channel();
    let submit = |kind| {
        let tell = tell.clone();
        log.submit(record(0, kind), move |appended| tell.send(appended.is_err()).unwrap()).unwrap()
    };
    let duties = [submit(Kind::Intent), submit(Kind::Outcome), submit(Kind::Decision)];
    drop(duties);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [true; 3]);
    fs::remove_file(&blocked).unwrap();
    assert_eq!(log.append(record(0, Kind::Intent)).unwrap(), 1);
}

#[test]
fn killed_at_any_point_the_log_stays_whole() {
    let home = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let mut kills = 0u64;
    let (mut records, mut moved) = (0, 0);
    while start.elapsed() < Duration::from_secs(6) {
        let mut child = child(home.path(), usize::MAX);
        std::thread::sleep(Duration::from_micros(20_000 + kills * 7919 % 30_000));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let verify = verify(home.path());
        assert!(verify.problems.is_empty(), "after kill {kills}: {verify:?}");
        assert!(verify.records >= records, "after kill {kills}");
        moved += u64::from(verify.records > records);
        records = verify.records;
    }
    assert!(kills >= 20 && moved * 2 > kills, "{moved} of {kills} killed processes wrote something");
    let last = AuditLog::open(home.path().to_owned()).append(record(0, Kind::Intent)).unwrap();
    assert!(last > records && verify(home.path()).problems.is_empty());
    println!("{kills} kills, {last} records");
}
