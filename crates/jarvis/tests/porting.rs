//! `jarvis cap import`, `export` and `diff`, what came by a pull, and packages that try to do more than they may.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::terminal::Terminal;
use common::{Home, REVERSE, Ran, prepared, register, reverse_text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;
use tempfile::TempDir;

/// A folder outside of any home.
fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn put(root: &Path, path: &str, text: &str) -> PathBuf {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// As Tendril writes one.
fn tendril(name: &str, path: &str) -> Value {
    json!({
        "name": name, "capability": format!("Adds two numbers 两数相加 ({name})"),
        "triggers": ["a sum of two numbers is wanted", "求两个数的和"], "suppression": ["a product is wanted"],
        "tool_path": path, "created": "2025-05-04", "created_by": "human", "version": "1.0.0",
    })
}

const ADDS: &str = "const { a, b } = args;\nconsole.log(a + b);\n";

fn index(entries: &[Value]) -> String {
    json!({"version": "1.0.0", "capabilities": entries}).to_string()
}

fn import(home: &Home, source: &Path, flags: &[&str]) -> Ran {
    home.run(&[&["cap", "import", source.to_str().unwrap()], flags].concat())
}

fn names(ran: &Ran) -> Vec<String> {
    let list = ran.json();
    let key = if list.get("entries").is_some() { "entries" } else { "capabilities" };
    list[key].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

fn listed(home: &Home) -> Vec<String> {
    names(&home.run(&["cap", "list", "--json"]).ok())
}

/// Nothing of a refused import is anywhere.
#[track_caller]
fn untouched(home: &Home) {
    assert!(!home.file("capabilities").exists(), "something was written");
}

#[test]
fn a_tendril_workspace_of_both_layouts_comes_in_quarantined_and_runs_as_it_did_there() {
    for (at, path) in [
        ("index.json", "tools/add_numbers.ts"),
        ("tools/index.json", "add_numbers.ts"),
        ("tools/index.json", "./tools/add_numbers.ts"),
    ] {
        let (home, source) = (Home::new(), folder());
        put(source.path(), at, &index(&[tendril("add_numbers", path)]));
        put(source.path(), "tools/add_numbers.ts", ADDS);
        let dry = import(&home, source.path(), &["--dry-run", "--json"]).ok().json();
        assert_eq!((&dry["added"], &dry["commit"]), (&json!(1), &Value::Null));
        untouched(&home);
        let ran = import(&home, source.path(), &["--json"]).ok();
        assert_eq!(names(&ran), ["add_numbers"]);
        let shown = home.run(&["cap", "show", "add_numbers", "--json"]).ok().json();
        let cap = &shown["capability"];
        assert_eq!(
            (&cap["status"], &cap["created"], &cap["created_by"]),
            (&json!("quarantined"), &json!("2025-05-04"), &json!("human"))
        );
        assert_eq!(shown["code_matches_digest"], true);
        let args = ["cap", "run", "add_numbers", "--args", "{\"a\": 2, \"b\": 40}"];
        let _ = home.run(&args).failed(1, &["is quarantined"]);
        let _ = home.run(&["cap", "enable", "add_numbers"]).ok();
        assert_eq!(home.run(&args).ok().out.trim(), "42");
        assert!(import(&home, source.path(), &[]).ok().err.contains("nothing new"));
        let hits = home.run(&["cap", "search", "求两个数的和", "--json"]).ok().json();
        assert_eq!(hits["hits"][0]["name"], "add_numbers");
        let _ = home.run(&["audit", "verify"]).ok();
    }
}

#[test]
fn one_damaged_entry_is_told_and_stops_no_other() {
    let (home, source) = (Home::new(), folder());
    let mut bad_field = tendril("bad_field", "tools/good.ts");
    bad_field["triggers"] = json!(7);
    let entries = [
        tendril("good", "tools/good.ts"),
        bad_field,
        tendril("no_file", "tools/no_file.ts"),
        tendril("out", "../../etc/passwd"),
        tendril("absolute", "/etc/passwd"),
        json!({"capability": "no name"}),
        tendril("linked", "tools/linked.ts"),
        tendril("below_link", "elsewhere/passwd"),
        tendril("pipe", "tools/pipe.ts"),
        tendril("binary", "tools/binary.ts"),
        tendril("huge", "tools/huge.ts"),
        tendril("fineToo", "tools/good.ts"),
    ];
    put(source.path(), "index.json", &index(&entries));
    put(source.path(), "tools/good.ts", ADDS);
    put(source.path(), "tools/huge.ts", &"// x\n".repeat(100_000));
    std::fs::write(source.path().join("tools/binary.ts"), [0xff, 0xfe, 0]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", source.path().join("tools/linked.ts")).unwrap();
    std::os::unix::fs::symlink("/etc", source.path().join("elsewhere")).unwrap();
    assert!(home.other("mkfifo").arg(source.path().join("tools/pipe.ts")).status().unwrap().success());
    let ran = import(&home, source.path(), &["--json"]).ok();
    assert_eq!(names(&ran), ["good", "fine_too"]);
    let told = ran.json()["damaged"].to_string();
    for part in [
        "bad_field",
        "no_file",
        "out",
        "absolute",
        "#6",
        "linked",
        "symbolic link",
        "below_link",
        "pipe",
        "binary",
        "huge",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(ran.json()["damaged"].as_array().unwrap().len(), 10);
    let index = std::fs::read_to_string(home.file("capabilities/index.json")).unwrap();
    assert!(!index.contains("root:"));
}

#[test]
fn a_plain_list_from_stdin_or_a_file_is_searched_at_once_and_runs_once_it_has_code() {
    let home = Home::new();
    let tools = json!([
        {"type": "function", "function": {"name": "reverseText", "description": "Reverses the characters of a text. 反转文字",
            "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}}},
        {"name": "city-weather", "description": "Tells the weather of a city", "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    ]);
    let ran = home.run_with_input(&["cap", "import", "-", "--json"], &tools.to_string()).ok();
    assert_eq!(names(&ran), ["reverse_text", "city_weather"]);
    let file = home.write("tools.json", &tools.to_string());
    assert!(home.run(&["cap", "import", &format!("@{}", file.display())]).ok().err.contains("nothing new"));
    let found = home.run(&["cap", "search", "what is the weather in this city", "--json"]).ok().json();
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["name"], &hit["status"], &hit["runnable"]),
        (&json!("city_weather"), &json!("quarantined"), &json!(false))
    );
    assert!(home.run(&["cap", "show", "city_weather"]).ok().out.contains("none yet"));
    assert!(
        home.run(&["cap", "show", "reverse_text", "--json"]).ok().json()["capability"]["x_original_name"]
            == "reverseText"
    );
    let _ = home.run(&["cap", "run", "city_weather"]).failed(1, &["is quarantined"]);
    let _ = home.run(&["cap", "enable", "city_weather"]).failed(1, &["no code yet"]);
    let doctor = home.run(&["doctor", "--json"]);
    assert!(!doctor.out.contains("cannot be used") && !doctor.out.contains("changed by hand"), "{}", doctor.out);
    for wrong in ["", "{", "7", "{\"a\": 1}", "\u{0}"] {
        let _ = home.run_with_input(&["cap", "import", "-"], wrong).failed(2, &["no list of tools"]);
    }
}

#[test]
fn what_is_taken_stays_unless_it_is_to_be_replaced() {
    let source = folder();
    put(source.path(), "index.json", &index(&[tendril("reverse_text", "tools/r.ts")]));
    put(source.path(), "tools/r.ts", ADDS);
    let home = prepared(&reverse_text(), REVERSE);
    let _ = register(&home, &[]).ok();
    assert_eq!(import(&home, source.path(), &["--on-conflict", "skip", "--json"]).ok().json()["skipped"], 1);
    assert_eq!(names(&import(&home, source.path(), &["--json"]).ok()), ["reverse_text_2"]);
    let prefixed = import(&home, source.path(), &["--rename-prefix", "theirs", "--json"]).ok();
    assert_eq!(names(&prefixed), ["theirs_reverse_text"]);
    let _ = import(&home, source.path(), &["--rename-prefix", "No Good"]).failed(2, &["--rename-prefix"]);
    assert_eq!(home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"]).ok().out, "ba\n");
    let replaced = import(&home, source.path(), &["--on-conflict", "replace", "--json"]).ok().json();
    assert_eq!((&replaced["replaced"], &replaced["entries"][0]["version"]), (&json!(1), &json!("2.0.0")));
    let _ = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"]).failed(1, &["quarantined"]);
}

#[test]
fn an_export_is_the_same_every_time_and_comes_back_whole() {
    let home = prepared(&reverse_text(), REVERSE);
    let _ = register(&home, &[]).ok();
    let _ = home.run(&["cap", "run", "reverse_text", "--args", "{\"text\": \"private words\"}"]).ok();
    let first = home.run(&["cap", "export", "reverse_text", "--out", "a.tar.gz", "--json"]).ok().json();
    let _ = home.run(&["cap", "export", "--all", "--out", "b.tar.gz"]).ok();
    let _ = home.run(&["cap", "export", "--all", "--out", "plain.tar"]).ok();
    let _ = home.run(&["cap", "export", "--all", "--out", "folder/"]).ok();
    let bytes = std::fs::read(home.file("a.tar.gz")).unwrap();
    assert_eq!(bytes, std::fs::read(home.file("b.tar.gz")).unwrap());
    let plain = String::from_utf8_lossy(&std::fs::read(home.file("plain.tar")).unwrap()).into_owned();
    assert!(!plain.contains("private words") && !plain.contains("mean_ms") && plain.contains("好上早"));
    let _ = home.run(&["cap", "export", "--all", "--out", "a.tar.gz"]).failed(2, &["is there already"]);
    let _ = home.run(&["cap", "export", "nothing_here"]).failed(1, &["no capability is called"]);
    let _ = home.run(&["cap", "export"]).failed(2, &["--all"]);
    let digest = first["digest"].as_str().unwrap();
    for source in ["a.tar.gz", "plain.tar", "folder"] {
        let other = Home::new();
        let ran = import(&other, &home.file(source), &["--digest", digest, "--json"]).ok();
        assert_eq!((names(&ran), ran.json()["kind"].as_str().unwrap()), (vec!["reverse_text".to_owned()], "export"));
        let shown = other.run(&["cap", "show", "reverse_text", "--code", "--json"]).ok().json();
        assert_eq!((&shown["code"], &shown["capability"]["status"]), (&json!(REVERSE), &json!("quarantined")));
        assert_eq!(shown["stats"]["runs"], 0);
        let refused = Home::new();
        let _ = import(&refused, &home.file(source), &["--digest", &"0".repeat(64)]).failed(1, &[digest]);
        untouched(&refused);
    }
    // A home is a source too.
    let other = Home::new();
    assert_eq!(names(&import(&other, home.path(), &["--json"]).ok()), ["reverse_text"]);
    assert_eq!(names(&import(&Home::new(), &home.file("capabilities"), &["--json"]).ok()), ["reverse_text"]);
}

#[test]
fn a_byte_that_was_changed_in_an_export_is_found_and_named() {
    let home = prepared(&reverse_text(), REVERSE);
    let _ = register(&home, &[]).ok();
    let _ = home.run(&["cap", "export", "--all", "--out", "e"]).ok();
    let code = home.file("e/tools/reverse_text.ts");
    let good = std::fs::read_to_string(&code).unwrap();
    let bad = |file: &str, change: &dyn Fn()| {
        change();
        let other = Home::new();
        let _ = import(&other, &home.file("e"), &[]).failed(1, &[file, "was changed since it was exported"]);
        untouched(&other);
        std::fs::write(&code, &good).unwrap();
    };
    bad("tools/reverse_text.ts", &|| std::fs::write(&code, good.replace("reverse()", "Reverse()")).unwrap());
    bad("tools/reverse_text.ts", &|| std::fs::write(&code, format!("{good} ")).unwrap());
    bad("tools/reverse_text.ts", &|| std::fs::remove_file(&code).unwrap());
    let index = home.file("e/index.json");
    let definition = std::fs::read_to_string(&index).unwrap();
    bad("index.json", &|| {
        std::fs::write(&index, definition.replace("\"network\": []", "\"network\": [\"evil.example\"]")).unwrap()
    });
    std::fs::write(&index, &definition).unwrap();
    let extra = home.file("e/tools/more.ts");
    bad("tools/more.ts", &|| std::fs::write(&extra, "x").unwrap());
    std::fs::remove_file(extra).unwrap();
    let manifest = home.file("e/manifest.json");
    let listed = std::fs::read_to_string(&manifest).unwrap();
    bad("manifest.json", &|| {
        std::fs::write(&manifest, listed.replace("tools/reverse_text.ts", "tools/../../../x.ts")).unwrap()
    });
    std::fs::write(&manifest, listed).unwrap();
    let _ = import(&Home::new(), &home.file("e"), &[]).ok();
}

#[test]
fn a_key_in_the_code_is_not_given_away() {
    let key = format!("sk-ant-api03-{}", "aB3dE5fG7hJ9kL1m".repeat(4));
    let home = prepared(&reverse_text(), &REVERSE.replace("return", &format!("const key = '{key}';\n  return")));
    let _ = register(&home, &[]).ok();
    let _ = home.run(&["cap", "export", "reverse_text"]).failed(2, &["line 2", "looks like it holds a secret"]);
    assert!(!home.file("reverse_text.tar.gz").exists());
    let _ = home.run(&["cap", "export", "reverse_text", "--with-secrets"]).ok();
}

/// A tarball with one entry made by hand, beside a good workspace.
fn tarball(add: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in
        [("w/index.json", index(&[tendril("add_numbers", "tools/a.ts")])), ("w/tools/a.ts", ADDS.to_owned())]
    {
        builder.append(&header(path, text.len() as u64, tar::EntryType::Regular), text.as_bytes()).unwrap();
    }
    add(&mut builder);
    builder.into_inner().unwrap()
}

/// Written byte by byte: the library would not make such names.
fn header(path: &str, size: u64, kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_entry_type(kind);
    header.set_cksum();
    header
}

#[test]
fn an_archive_that_tries_more_than_plain_files_is_refused_whole() {
    use tar::EntryType as Kind;
    let good = Home::new();
    good.write("w.tar", "");
    std::fs::write(good.file("w.tar"), tarball(|_| {})).unwrap();
    assert_eq!(names(&import(&good, &good.file("w.tar"), &["--json"]).ok()), ["add_numbers"]);

    let outside = folder();
    let escape = outside.path().join("escaped.ts");
    let absolute = escape.to_str().unwrap().to_owned();
    let link = |kind: Kind| {
        move |b: &mut tar::Builder<Vec<u8>>| {
            let mut header = header("w/tools/l.ts", 0, kind);
            header.set_link_name("/etc/passwd").unwrap();
            header.set_cksum();
            b.append(&header, &[][..]).unwrap();
        }
    };
    let file = |path: &str, kind: Kind| {
        let header = header(path, 1, kind);
        move |b: &mut tar::Builder<Vec<u8>>| b.append(&header, &b"x"[..]).unwrap()
    };
    let empty = |kind: Kind| {
        let header = header("w/tools/d.ts", 0, kind);
        move |b: &mut tar::Builder<Vec<u8>>| b.append(&header, &[][..]).unwrap()
    };
    let attacks: Vec<(&str, Vec<u8>)> = vec![
        ("leads out", tarball(file("w/../../escaped.ts", Kind::Regular))),
        ("leads out", tarball(file(&absolute, Kind::Regular))),
        ("leads out", tarball(file("w\\..\\escaped.ts", Kind::Regular))),
        ("it is a link", tarball(link(Kind::Symlink))),
        ("it is a link", tarball(link(Kind::Link))),
        ("no plain file", tarball(empty(Kind::Char))),
        ("no plain file", tarball(empty(Kind::Block))),
        ("no plain file", tarball(empty(Kind::Fifo))),
        ("the archive", tarball(empty(Kind::GNUSparse))),
        ("there twice", tarball(file("w/./tools/a.ts", Kind::Regular))),
        ("longer than", tarball(|b| b.append(&header("w/big.bin", 1 << 40, Kind::Regular), &[][..]).unwrap())),
        ("archive", tarball(|_| {})[..700].to_vec()),
    ];
    for (problem, bytes) in attacks {
        let home = Home::new();
        let path = outside.path().join("attack.tar");
        std::fs::write(&path, bytes).unwrap();
        let _ = import(&home, &path, &[]).failed(1, &["refused", problem]);
        untouched(&home);
        assert!(!escape.exists());
    }
    // 300 MiB of nothing in 300 KB.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0u8; 1 << 20];
    for i in 0..300 {
        std::io::Write::write_all(&mut encoder, header(&format!("w/{i}.bin"), 1 << 20, Kind::Regular).as_bytes())
            .unwrap();
        std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    }
    let home = Home::new();
    let bomb = outside.path().join("bomb.tar.gz");
    std::fs::write(&bomb, encoder.finish().unwrap()).unwrap();
    assert!(bomb.metadata().unwrap().len() < 1 << 20);
    let _ = import(&home, &bomb, &[]).failed(1, &["unpacks to more than 256 MiB"]);
    untouched(&home);
}

#[track_caller]
fn git(home: &Home, at: &Path, args: &[&str]) -> String {
    let identity = [
        "-c",
        "user.name=person",
        "-c",
        "user.email=p@example.com",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "protocol.file.allow=always",
    ];
    let out = home.other("git").arg("-C").arg(at).args(identity).args(args).output().unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_git_repository_is_read_from_its_objects_and_nothing_of_it_runs() {
    let (home, place) = (Home::new(), folder());
    let (work, bare) = (place.path().join("work"), place.path().join("tools repo.git"));
    std::fs::create_dir_all(&work).unwrap();
    git(&home, &work, &["init", "-q"]);
    let entries = [
        tendril("add_numbers", "tools/a.ts"),
        tendril("linked", "tools/l.ts"),
        tendril("module", "tools/sub"),
        tendril("huge", "tools/h.ts"),
    ];
    put(&work, "index.json", &index(&entries));
    put(&work, "tools/a.ts", ADDS);
    put(&work, "tools/h.ts", &"0".repeat(40 << 20));
    put(&work, ".gitattributes", "*.ts filter=evil diff=evil\n");
    put(&work, ".gitmodules", "[submodule \"x\"]\n\tpath = tools/sub\n\turl = --upload-pack=touch\n");
    std::os::unix::fs::symlink("/etc/passwd", work.join("tools/l.ts")).unwrap();
    git(&home, &work, &["add", "-A"]);
    git(&home, &work, &["update-index", "--add", "--cacheinfo", &format!("160000,{},tools/sub", "1".repeat(40))]);
    git(&home, &work, &["commit", "-qm", "tools"]);
    git(&home, place.path(), &["clone", "-q", "--bare", "work", "tools repo.git"]);
    // What would run if anything of it did.
    let ran = place.path().join("ran");
    for repo in [&bare, &work.join(".git")] {
        for hook in
            ["post-checkout", "pre-commit", "reference-transaction", "post-index-change", "update", "post-merge"]
        {
            let hook = put(repo, &format!("hooks/{hook}"), &format!("#!/bin/sh\ntouch '{}'\n", ran.display()));
            std::fs::set_permissions(hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let touch = format!("touch '{}'", ran.display());
        for (key, value) in [
            ("filter.evil.smudge", &touch),
            ("filter.evil.clean", &touch),
            ("core.fsmonitor", &touch),
            ("diff.evil.textconv", &touch),
        ] {
            git(&home, repo, &["config", key, value]);
        }
    }
    let address = format!("file://{}", bare.display().to_string().replace(' ', "%20"));
    for source in [bare.display().to_string(), address, format!("file://{}", work.display())] {
        let home = Home::new();
        let ran = home.run(&["cap", "import", &source, "--json"]).ok();
        assert_eq!(names(&ran), ["add_numbers"], "{source}");
        let told = ran.json()["damaged"].to_string();
        assert!(
            told.contains("symbolic link") && told.contains("no plain file") && told.contains("longer than"),
            "{told}"
        );
        assert_eq!(listed(&home), ["add_numbers"]);
    }
    assert!(!ran.exists(), "something of the repository ran");

    let empty = place.path().join("empty.git");
    git(&home, place.path(), &["init", "-q", "--bare", "empty.git"]);
    let fresh = Home::new();
    let _ = import(&fresh, &empty, &[]).failed(1, &["no commit yet"]);
    for remote in
        ["ssh://git@example.com/tools", "git@example.com:tools.git", "git://example.com/x", "ext::sh -c touch% x"]
    {
        let _ = fresh.run(&["cap", "import", remote]).failed(2, &[]);
    }
    let _ =
        fresh.run(&["cap", "import", "ssh://git@example.com/tools"]).failed(2, &["not on this machine", "git clone"]);
    let _ = fresh.run(&["cap", "import", "https://me:word@example.com/x.git"]).failed(2, &["name or password"]);
    let _ = fresh.run(&["cap", "import", "https://*/x.git"]).failed(2, &["no host"]);
    let closed = Home::new().config("[sandbox]\nnetwork = \"closed\"\n");
    let _ = closed.run(&["cap", "import", "https://example.com/x.git"]).failed(1, &["network is closed"]);
    untouched(&closed);
    let _ = fresh.run(&["cap", "import", "/no/such/place"]).failed(2, &["cannot be read", "check the path"]);
    let _ = import(&fresh, folder().path(), &[]).failed(2, &["nothing to import", "tools/index.json"]);
    untouched(&fresh);
}

#[test]
fn a_repository_behind_an_address_is_fetched_by_git_in_the_jail() {
    let (home, place) = (Home::new(), folder());
    let work = place.path().join("work");
    put(&work, "index.json", &index(&[tendril("add_numbers", "tools/a.ts")]));
    put(&work, "tools/a.ts", ADDS);
    git(&home, &work, &["init", "-q"]);
    git(&home, &work, &["add", "-A"]);
    git(&home, &work, &["commit", "-qm", "tools"]);
    git(&home, place.path(), &["clone", "-q", "--bare", "work", "tools.git"]);
    git(&home, &place.path().join("tools.git"), &["update-server-info"]);
    let Some(server) = Serving::start(&home, place.path()) else { return };
    let address = format!("http://127.0.0.1:{}/tools.git", server.port);
    let ran = home.run(&["cap", "import", &address, "--json"]).ok();
    assert_eq!(names(&ran), ["add_numbers"]);
    let audit = home.run(&["audit", "tail", "--json"]).ok().out;
    assert!(audit.contains(&format!("127.0.0.1:{}", server.port)) && audit.contains("clone"), "{audit}");
    let _ = home.run(&["cap", "import", &format!("{address}x")]).failed(1, &["cannot be fetched"]);
}

/// Files over HTTP, as git can fetch them; ends with the test.
struct Serving {
    child: std::process::Child,
    port: u16,
}

impl Serving {
    fn start(home: &Home, folder: &Path) -> Option<Serving> {
        let child = home
            .other("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            jarvis_testkit::skipped("a repository over HTTP: python3 is not here");
            return None;
        };
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
        let port = line.split("port ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        Some(Serving { child, port })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_diff_says_first_what_a_version_may_reach() {
    let mut definition = reverse_text();
    let home = prepared(&definition, REVERSE);
    let _ = register(&home, &[]).ok();
    definition["grants"] = json!({"read": ["notes"]});
    definition["triggers"] = json!(["反转文字", "mirror a word"]);
    home.write("d.json", &definition.to_string());
    home.write("c.ts", &REVERSE.replace("[...text]", "Array.from(text)"));
    std::fs::create_dir(home.file("notes")).unwrap();
    let place = folder();
    let _ = register(&home, &["--approve", "auto", "--workspace", place.path().to_str().unwrap()]).ok();
    let out = home.run(&["cap", "diff", "reverse_text", "1.0.0"]).ok().out;
    let grant = format!("+ may now read {}", place.path().join("notes").display());
    let (grant, triggers, code) =
        (out.find(&grant), out.find("+ mirror a word"), out.find("+  return Array.from(text)"));
    assert!(grant.is_some() && grant < triggers && triggers < code, "{out}");
    assert!(
        out.contains("- a text backwards") && !out.contains("- 反转文字") && out.contains("-  return [...text]"),
        "{out}"
    );
    let back = home.run(&["cap", "diff", "reverse_text", "2.0.0", "1.0.0", "--json"]).ok().json();
    assert!(back["grants"]["removed"][0]["words"].as_str().unwrap().starts_with("may no longer read "), "{back}");
    assert_eq!(back["fields"][0]["field"], "triggers");
    assert!(back["code"].as_str().unwrap().contains("@@"));
    let _ = home.run(&["cap", "diff", "reverse_text", "1.5.0"]).failed(1, &["no version 1.5.0", "1.0.0, 2.0.0"]);
    let _ = home.run(&["cap", "diff", "reverse_text", "one"]).failed(2, &[]);
    let _ = home.run(&["cap", "diff", "nothing_here", "1.0.0"]).failed(1, &["no capability"]);
    // As it stands on disk, a hand edit too.
    home.write("capabilities/tools/reverse_text.ts", "// by hand 手改\n");
    assert!(home.run(&["cap", "diff", "reverse_text", "2.0.0"]).ok().out.contains("+// by hand 手改"));
    let _ = home.run(&["cap", "rm", "reverse_text"]).ok();
    assert!(home.run(&["cap", "diff", "reverse_text", "1.0.0", "2.0.0"]).ok().out.contains("may now read"));
}

const FETCHES: &str =
    "export default async function run({ file }: { file: string }, ctx) {\n  return await ctx.read(file);\n}\n";

#[test]
fn plain_git_carries_capabilities_and_a_pull_gives_no_powers() {
    let place = folder();
    let notes = place.path().join("notes");
    put(&notes, "a.txt", "a note 一条笔记");
    let mine = prepared(&reverse_text(), REVERSE);
    let _ = register(&mine, &[]).ok();
    let bare = place.path().join("shared.git");
    git(&mine, place.path(), &["init", "-q", "--bare", "shared.git"]);
    let here = mine.file("capabilities");
    git(&mine, &here, &["remote", "add", "origin", bare.to_str().unwrap()]);
    git(&mine, &here, &["push", "-q", "-u", "origin", "main"]);
    let theirs = Home::new();
    git(&theirs, theirs.path(), &["clone", "-q", bare.to_str().unwrap(), "capabilities"]);
    let reverse = ["cap", "run", "reverse_text", "--args", "{\"text\": \"ab\"}"];
    assert_eq!(theirs.run(&reverse).ok().out, "ba\n", "pure computation runs");

    // A new version of it, and one that asks for something.
    mine.write("c.ts", &REVERSE.replace(".join('')", ".join('') + '!'"));
    let mut definition = reverse_text();
    definition["name"] = json!("shout_back");
    definition["capability"] = json!("Shouts what it was told, the other way round.");
    definition["examples"] = json!([{"args": {"text": "abc"}, "returns": "cba!"}]);
    mine.write("d.json", &definition.to_string());
    let _ = register(&mine, &[]);
    let reads = json!({
        "name": "read_note", "capability": "Reads a note.",
        "parameters": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}},
        "examples": [{"args": {"file": "notes/a.txt"}}], "grants": {"read": ["notes"]},
    });
    mine.write("d.json", &reads.to_string());
    mine.write("c.ts", FETCHES);
    let workspace = place.path().to_str().unwrap();
    let _ = register(&mine, &["--approve", "auto", "--workspace", workspace]).ok();
    let read = ["cap", "run", "read_note", "--args", "{\"file\": \"notes/a.txt\"}", "--workspace", workspace];
    assert_eq!(mine.run(&read).ok().out, "a note 一条笔记\n", "approved where it was made");
    git(&mine, &here, &["push", "-q"]);
    let there = theirs.file("capabilities");
    git(&theirs, &there, &["pull", "-q", "--ff-only"]);
    assert_eq!(listed(&theirs), listed(&mine), "picked up at once");
    let ran = theirs.run(&read).failed(1, &["nobody on this machine has allowed `read_note`", "read "]);
    assert!(!ran.out.contains("note"));
    let denied = theirs.run(&["audit", "tail", "--kind", "decision"]).ok().out;
    assert!(denied.contains("nobody allowed it"), "{denied}");
    // Turning it on is no yes either.
    let _ = theirs.run(&["cap", "disable", "read_note"]).ok();
    let _ = theirs.run(&["cap", "enable", "read_note"]).ok();
    let _ = theirs.run(&read).failed(1, &["nobody on this machine has allowed"]);
    // A person is asked, once.
    if let Some(mut terminal) = Terminal::start(&theirs, &read) {
        terminal.until("came from elsewhere");
        terminal.until("[y/N]");
        terminal.keys("y\n");
        terminal.until("a note 一条笔记");
        assert_eq!(theirs.run(&read).ok().out, "a note 一条笔记\n");
    }
    // The same grants for other code are another matter.
    mine.write(
        "c.ts",
        &FETCHES
            .replace("return await", "const text = await")
            .replace("(file);\n", "(file);\n  return 'v2 ' + text;\n"),
    );
    let _ = register(&mine, &["--approve", "auto", "--workspace", workspace]).ok();
    git(&mine, &here, &["push", "-q"]);
    // Turning it off and on made commits of their own, which are of no use to anyone.
    git(&theirs, &there, &["fetch", "-q"]);
    git(&theirs, &there, &["reset", "-q", "--hard", "origin/main"]);
    let _ = theirs.run(&read).failed(1, &["nobody on this machine has allowed"]);
    // What they register goes back the same way.
    theirs.write(
        "d.json",
        &json!({"name": "double_it", "capability": "Doubles a number 加倍",
        "parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        "examples": [{"args": {"n": 2}, "returns": 4}]})
        .to_string(),
    );
    theirs.write("c.ts", "export default ({ n }: { n: number }) => n * 2;\n");
    let _ = register(&theirs, &[]).ok();
    git(&theirs, &there, &["push", "-q"]);
    git(&mine, &here, &["pull", "-q", "--ff-only"]);
    assert_eq!(mine.run(&["cap", "run", "double_it", "--args", "{\"n\": 21}"]).ok().out, "42\n");
    let _ = mine.run(&["audit", "verify"]).ok();
}

#[test]
fn an_imported_grant_is_never_approved_silently() {
    let (home, place) = (Home::new(), folder());
    put(place.path(), "notes/a.txt", "secret words");
    let mut entry = tendril("read_note", "tools/r.ts");
    entry["grants"] = json!({"read": [place.path().join("notes")]});
    entry["parameters"] = json!({"type": "object", "properties": {"file": {"type": "string"}}});
    entry["status"] = json!("active");
    let source = folder();
    put(source.path(), "index.json", &index(&[entry]));
    put(source.path(), "tools/r.ts", FETCHES);
    let told = import(&home, source.path(), &[]).ok();
    assert!(told.out.contains("asks for read"), "{}", told.out);
    let args = json!({"file": place.path().join("notes/a.txt")}).to_string();
    let run = ["cap", "run", "read_note", "--args", &args];
    let _ = home.run(&run).failed(1, &["quarantined"]);
    let _ = home.run(&["cap", "enable", "read_note"]).ok();
    assert!(!home.run(&run).failed(1, &["nobody on this machine has allowed"]).out.contains("secret words"));
    // A yes for these words cannot be had for others: the digest says something else than the entry.
    let index = home.file("capabilities/index.json");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("\"write\": []", "\"write\": [\"/tmp\"]")).unwrap();
    let home = home.config("approve = \"auto\"\n");
    let _ = home.run(&run).failed(1, &["changed by hand"]);
    std::fs::write(&index, text).unwrap();
    assert_eq!(home.run(&run).ok().out, "secret words\n", "the config says yes to everything");
}

#[test]
fn killed_at_any_moment_an_import_is_there_whole_or_not_at_all() {
    let source = folder();
    let count = 400;
    let entries: Vec<Value> = (0..count).map(|i| tendril(&format!("tool_{i}"), &format!("tools/t{i}.ts"))).collect();
    put(source.path(), "index.json", &index(&entries));
    for i in 0..count {
        put(source.path(), &format!("tools/t{i}.ts"), &format!("console.log({i});\n"));
    }
    let start = Instant::now();
    let _ = import(&Home::new(), source.path(), &[]).ok();
    let takes = start.elapsed();
    let mut whole = 0;
    for step in 0..8 {
        let home = prepared(&reverse_text(), REVERSE);
        let mut child = home
            .command(&["cap", "import", source.path().to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(takes * step / 6);
        let _ = child.kill();
        let _ = child.wait();
        let there = listed(&home);
        assert!(there.is_empty() || there.len() == count, "{}", there.len());
        whole += usize::from(!there.is_empty());
        let last = home.run(&["cap", "show", "tool_399", "--code", "--json"]);
        assert!(there.is_empty() || last.ok().json()["code_matches_digest"] == true);
        // Finished or begun again, by the next one that writes.
        let _ = import(&home, source.path(), &[]).ok();
        let _ = register(&home, &["--approve", "auto"]).ok();
        assert_eq!(listed(&home).len(), count + 1);
        let workspace = home.file("capabilities");
        assert_eq!(git(&home, &workspace, &["status", "--porcelain"]), "");
        git(&home, &workspace, &["fsck"]);
        let _ = home.run(&["audit", "verify"]).ok();
    }
    eprintln!("{whole} of 8 were in force when they were killed");
}
