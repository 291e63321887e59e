//! `jarvis cap import`, `export` and `diff`, what came by a pull, and packages that try to do more than they may.

mod by_git;
use crate::common::terminal::Terminal;
use crate::common::{Home, REVERSE, Ran, prepared, register, reverse_text};
use by_git::git;
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
        let _ = home.run(&["cap", "enable", "add_numbers"]).failed(1, &["was not checked here", "jarvis cap check"]);
        let example = "{\"args\": {\"a\": 2, \"b\": 3}}";
        let _ = home.run(&["cap", "check", "add_numbers", "--example", example]).ok();
        assert_eq!(home.run(&args).ok().out.trim(), "42");
        assert!(import(&home, source.path(), &[]).ok().err.contains("nothing new"));
        let hits = home.run(&["cap", "search", "求两个数的和", "--json"]).ok().json();
        assert_eq!(hits["hits"][0]["name"], "add_numbers");
        let _ = home.run(&["audit", "verify"]).ok();
    }
}

#[test]
fn what_says_its_arguments_in_its_code_alone_is_checked_and_runs() {
    let by_name = "console.log(args.a + args.b);\n";
    let stated = json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}});
    for (at, path, code) in
        [("index.json", "tools/add_numbers.ts", ADDS), ("tools/index.json", "add_numbers.ts", by_name)]
    {
        let (home, source) = (Home::new(), folder());
        let mut other = tendril("add_stated", path);
        other["parameters"] = stated.clone();
        let whole = tendril("count_given", "tools/whole.ts");
        put(source.path(), at, &index(&[tendril("add_numbers", path), other, whole]));
        put(source.path(), "tools/add_numbers.ts", code);
        put(source.path(), "tools/whole.ts", "console.log(Object.keys(args).length);\n");
        let _ = import(&home, source.path(), &[]).ok();
        let parameters =
            |name: &str| home.run(&["cap", "show", name, "--json"]).ok().json()["capability"]["parameters"].clone();
        assert_eq!(parameters("add_numbers"), json!({"type": "object", "properties": {"a": {}, "b": {}}}));
        assert_eq!(parameters("add_stated"), stated, "as it was given");
        assert_eq!(parameters("count_given"), json!({"type": "object"}), "which ones it takes cannot be told");
        let example = "{\"args\": {\"a\": 1, \"b\": 2}, \"returns\": 3}";
        let _ = home.run(&["cap", "check", "add_numbers", "--example", example]).ok();
        let args = ["cap", "run", "add_numbers", "--args", "{\"a\": 2, \"b\": 40}"];
        assert_eq!(home.run(&args).ok().out.trim(), "42");
        let _ =
            home.run(&["cap", "run", "add_numbers", "--args", "{\"c\": 2}"]).failed(2, &["no argument `c`", "a, b"]);
        let _ = home.run(&["cap", "check", "add_numbers"]).ok();
        let _ = home.run(&["cap", "run", "count_given", "--args", "{\"x\": 1}"]).failed(1, &["is quarantined"]);
        let example = "{\"args\": {\"x\": 1}, \"returns\": 1}";
        let _ = home.run(&["cap", "check", "count_given", "--example", example]).ok();
        assert_eq!(home.run(&["cap", "run", "count_given", "--args", "{\"y\": 1, \"z\": 2}"]).ok().out.trim(), "2");
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
        // The library tries the file system with a file of its own, which a kill in that moment leaves.
        let status = git(&home, &workspace, &["status", "--porcelain"]);
        assert!(status.lines().all(|line| line.starts_with("?? _git2_")), "{status}");
        git(&home, &workspace, &["fsck"]);
        let _ = home.run(&["audit", "verify"]).ok();
    }
    eprintln!("{whole} of 8 were in force when they were killed");
}
