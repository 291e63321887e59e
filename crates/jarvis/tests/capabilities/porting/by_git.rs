//! What comes by git: repositories read as objects, fetched in the jail, pushed and pulled by plain git.

use super::*;

pub fn git(home: &Home, at: &Path, args: &[&str]) -> String {
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
    // Looking at it runs nothing of it with what nobody allowed.
    for look in ["check", "test"] {
        let looked = theirs.run(&["cap", look, "read_note", "--workspace", workspace]);
        assert!(looked.code == 1 && !looked.out.contains("一条笔记"), "{look}: {}", looked.out);
    }
    // Turning it on is no yes either, nor is writing so into the file.
    let _ = theirs.run(&["cap", "disable", "read_note"]).ok();
    let _ = theirs.run(&["cap", "enable", "read_note"]).failed(1, &["nobody approved"]);
    let file = there.join("index.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"disabled\"", "\"active\"")).unwrap();
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
    let _ = home.run(&["cap", "enable", "read_note"]).failed(1, &["was not checked here"]);
    // Nor is it enough to write so into the file.
    let file = home.file("capabilities/index.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"quarantined\"", "\"active\"")).unwrap();
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
