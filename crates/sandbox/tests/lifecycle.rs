//! Processes: none before the first job, none left behind, and a new start when somebody kills them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod common;

use common::{permit, plan, run};
use jarvis_protocol::ExitClass;
use jarvis_sandbox::{Access, Executor, SandboxConfig};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A copy of the worker under a name of its own, so that its processes can be told from those of other tests.
struct Named {
    _home: tempfile::TempDir,
    exe: PathBuf,
    name: String,
}

fn named(name: &str) -> Named {
    let home = tempfile::tempdir().unwrap();
    let name = format!("{name}{}", std::process::id() % 100_000);
    let exe = home.path().join(&name);
    std::fs::copy(env!("CARGO_BIN_EXE_jarvis-worker-test"), &exe).unwrap();
    Named { _home: home, exe, name }
}

fn executor(exe: &Path) -> Executor {
    Executor::new(SandboxConfig { worker_exe: exe.to_owned(), pool: 2, max_workers: 4 }, Access::default())
}

fn processes(name: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name))
        .collect()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const ONE: &str = "export default () => 1";

#[tokio::test]
async fn nothing_starts_before_the_first_job_and_nothing_stays_after_the_executor() {
    let worker = named("life");
    let executor = executor(&worker.exe);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(processes(&worker.name).is_empty());
    assert_eq!(run(&executor, ONE, json!({})).await.result, Some(json!(1)));
    // The zygote and the two that are kept warm.
    wait_for("warm workers", || processes(&worker.name).len() == 3);
    let copy = executor.clone();
    drop(executor);
    assert_eq!(run(&copy, ONE, json!({})).await.result, Some(json!(1)));
    drop(copy);
    wait_for("all processes end", || processes(&worker.name).is_empty());
}

#[tokio::test]
async fn workers_can_be_warmed_before_the_first_job() {
    let worker = named("warm");
    let executor = executor(&worker.exe);
    executor.warm().await.unwrap();
    wait_for("warm workers", || processes(&worker.name).len() == 3);
    assert_eq!(run(&executor, ONE, json!({})).await.result, Some(json!(1)));
}

#[tokio::test]
async fn a_finished_worker_is_gone_and_never_used_again() {
    let worker = named("once");
    let executor = executor(&worker.exe);
    for _ in 0..20 {
        run(&executor, ONE, json!({})).await;
    }
    wait_for("only the warm ones stay", || processes(&worker.name).len() == 3);
}

#[tokio::test]
async fn killed_workers_are_told_and_the_next_job_gets_new_ones() {
    let worker = named("kill");
    let executor = executor(&worker.exe);
    run(&executor, ONE, json!({})).await;
    let running = {
        let executor = executor.clone();
        tokio::spawn(
            async move { run(&executor, "export default () => { console.log('on'); for (;;); }", json!({})).await },
        )
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    for pid in processes(&worker.name) {
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let done = running.await.unwrap();
    assert_eq!((done.exit, done.printed.as_str()), (ExitClass::Crashed, "on\n"), "{:?}", done.error);
    assert_eq!(run(&executor, ONE, json!({})).await.result, Some(json!(1)));
}

#[tokio::test]
async fn a_run_that_is_dropped_takes_its_worker_along() {
    let worker = named("drop");
    let executor = executor(&worker.exe);
    run(&executor, ONE, json!({})).await;
    let job = plan("export default () => { for (;;); }", json!({}));
    let cancel = CancellationToken::new();
    let outcome = tokio::time::timeout(Duration::from_millis(200), executor.run(permit(job), &cancel)).await;
    assert!(outcome.is_err());
    wait_for("the worker ends", || processes(&worker.name).len() == 3);
}

#[tokio::test]
async fn jobs_beyond_the_limit_wait_for_their_turn() {
    let worker = named("turn");
    let executor =
        Executor::new(SandboxConfig { worker_exe: worker.exe.clone(), pool: 1, max_workers: 2 }, Access::default());
    let slow = "export default async () => { await new Promise(r => setTimeout(r, 100)); return 1 }";
    let jobs: Vec<_> = (0..6)
        .map(|_| {
            let executor = executor.clone();
            tokio::spawn(async move { run(&executor, slow, json!({})).await.result })
        })
        .collect();
    let started = Instant::now();
    for job in jobs {
        assert_eq!(job.await.unwrap(), Some(json!(1)));
    }
    assert!(started.elapsed() >= Duration::from_millis(290), "six jobs, two at a time");
}

/// Not a test by itself: the process that `workers_die_with_a_jarvis_that_is_killed` kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn host_with_an_endless_job() {
    let Some(exe) = std::env::var_os("ORPHAN_TEST_EXE") else { return };
    let executor = executor(Path::new(&exe));
    run(&executor, "export default () => { for (;;); }", json!({})).await;
}

#[test]
fn workers_die_with_a_jarvis_that_is_killed() {
    let worker = named("orph");
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "host_with_an_endless_job"])
        .env("ORPHAN_TEST_EXE", &worker.exe)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("workers run", || processes(&worker.name).len() >= 3);
    host.kill().unwrap();
    host.wait().unwrap();
    wait_for("all processes end", || processes(&worker.name).is_empty());
}
