//! Bombs, sleepers and orphans; and specifications that cannot be carried out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod jails;

use jails::{World, jail, world};
use jarvis_sandbox::{JailClass, JailLimits, JailSpec, Preset, Stdin};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn limited(world: &World, script: &str, limits: JailLimits) -> JailSpec {
    let mut spec = world.spec("/bin/sh", &["-c", script]);
    spec.limits = limits;
    spec
}

const SMALL: JailLimits = JailLimits {
    wall_ms: 20_000,
    cpu_ms: 20_000,
    memory_mb: 128,
    pids: 40,
    file_mb: 8,
    disk_mb: 16,
    open_files: 64,
    output_bytes: 10_000,
};

/// Processes of the machine with this in their command line.
fn processes(mark: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let with_mark = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    };
    all.filter(with_mark).filter(|pid| *pid != std::process::id() as i32 && jails::own(*pid)).collect()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_sleeper_is_stopped_with_its_output_kept() {
    let world = world();
    let started = Instant::now();
    // Children, and one that ignores every polite signal, hold the pipes open.
    let script = "echo 水; trap '' TERM INT HUP; sleep 1001 & sh -c 'trap \"\" TERM; sleep 1002' & setsid sleep 1003 & sleep 1004";
    let done = world.run(limited(&world, script, JailLimits { wall_ms: 300, ..SMALL })).await;
    assert_eq!((done.exit.class, done.stdout_text().as_str()), (JailClass::Timeout, "水\n"), "{done:?}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    wait_for("all end", || {
        ["1001", "1002", "1003", "1004"].iter().all(|n| processes(&format!("sleep\0{n}")).is_empty())
    });
}

#[tokio::test]
async fn a_busy_loop_is_stopped_by_its_processor_time() {
    let world = world();
    let limits = JailLimits { cpu_ms: 300, ..SMALL };
    let done = world.run(limited(&world, "while :; do :; done", limits)).await;
    assert_eq!(done.exit.class, JailClass::Cpu, "{done:?}");
    // Many short processes count, too.
    let script = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    let done = world.run(limited(&world, script, limits)).await;
    assert_eq!(done.exit.class, JailClass::Cpu, "{done:?}");
    assert!(done.exit.cpu_us >= 300_000);
}

#[tokio::test]
async fn a_memory_bomb_is_stopped() {
    let world = world();
    for script in [
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "import os\nfor _ in range(8): os.fork()\nx = []\nwhile True: x.append(bytearray(1 << 18))",
        "import mmap\nx = []\nwhile True:\n  m = mmap.mmap(-1, 8 << 20)\n  m.write(b'x' * (8 << 20)); x.append(m)",
    ] {
        let mut spec = world.spec("/usr/bin/python3", &["-I", "-c", script]);
        spec.limits = JailLimits { pids: 400, ..SMALL };
        let started = Instant::now();
        let done = world.run(spec).await;
        assert_eq!(done.exit.class, JailClass::Memory, "{script}: {done:?}");
        assert!(started.elapsed() < Duration::from_secs(15));
    }
    let fine = world.run(limited(&world, "head -c 50000000 /dev/zero | tail -c 1 | wc -c", SMALL)).await;
    assert_eq!((fine.exit.class, fine.stdout_text().as_str()), (JailClass::Ok, "1\n"));
}

#[tokio::test]
async fn a_fork_bomb_stays_small() {
    let world = world();
    let script = "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60); os._exit(0)\n    n += 1\nexcept OSError: print(n)";
    let mut spec = world.spec("/usr/bin/python3", &["-I", "-c", script]);
    spec.limits = SMALL;
    let done = world.run(spec).await;
    let count: u32 = done.stdout_text().trim().parse().unwrap_or(0);
    assert!(done.exit.class == JailClass::Processes || (20..=40).contains(&count), "{done:?}");
    let bomb = "b() { b | b & }; b; sleep 30";
    let done = world.run(limited(&world, bomb, JailLimits { wall_ms: 1500, ..SMALL })).await;
    // Its complaints that it cannot fork may be what ends it.
    assert!(
        matches!(
            done.exit.class,
            JailClass::Timeout | JailClass::Processes | JailClass::Failed | JailClass::Output | JailClass::Ok
        ),
        "{:?}",
        done.exit
    );
    wait_for("all end", || processes("b() { b | b & }").is_empty());
}

#[tokio::test]
async fn a_disk_filler_fills_only_its_own() {
    let world = world();
    let script = "head -c 30000000 /dev/zero > /tmp/a; for i in 1 2 3; do head -c 7000000 /dev/zero > /tmp/$i; done 2>/dev/null; du -sm /tmp | cut -f1; i=0; while true > /tmp/f$i; do i=$((i+1)); test $i -gt 100000 && break; done 2>/dev/null; echo $((i < 3000)); head -c 30000000 /dev/zero > big; wc -c < big";
    let done = world.run(limited(&world, script, SMALL)).await;
    let lines: Vec<u64> = done.stdout_text().lines().filter_map(|line| line.parse().ok()).collect();
    assert!(lines.len() == 3 && lines[0] <= 17 && lines[1] == 1 && lines[2] <= 8 << 20, "{done:?}");
}

#[tokio::test]
async fn endless_output_is_cut_at_a_character() {
    let world = world();
    for (script, err) in [("yes 水", false), ("yes 水 >&2", true), ("while :; do printf 水; done", false)] {
        let mut heard = 0;
        let spec = limited(&world, script, SMALL);
        let done = world.jail.run(spec, &CancellationToken::new(), |_, part| heard += part.len()).await.unwrap();
        assert_eq!(done.exit.class, JailClass::Output, "{script}: {:?}", done.exit);
        let (bytes, text) = match err {
            true => (&done.stderr, done.stderr_text()),
            false => (&done.stdout, done.stdout_text()),
        };
        assert_eq!((bytes.len(), heard), (10_000, 10_000));
        assert!(!text.contains('\u{fffd}') && text.len() >= 9_997, "{}", text.len());
    }
    let exact = world.run(limited(&world, "head -c 10000 /dev/zero", SMALL)).await;
    assert_eq!((exact.exit.class, exact.stdout.len()), (JailClass::Ok, 10_000));
}

#[tokio::test]
async fn a_cancelled_run_ends_at_once_with_its_output_kept() {
    let world = world();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let started = Instant::now();
    let spec = limited(&world, "echo on; exec sleep 1005", SMALL);
    let done = world.jail.run(spec, &cancel, |_, part| {
        assert_eq!(part, b"on\n");
        stop.cancel();
    });
    let done = done.await.unwrap();
    assert_eq!((done.exit.class, done.stdout_text().as_str()), (JailClass::Cancelled, "on\n"));
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(processes("sleep\x001005").is_empty(), "it is gone when that is said");
}

#[tokio::test]
async fn daemons_end_with_the_program() {
    let world = world();
    let script = "import os, time\nfor _ in range(3):\n  if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n      os.execv('/bin/sleep', ['sleep', '1006'])\n    os._exit(0)\ntime.sleep(0.2)\nprint(len([p for p in os.listdir('/proc') if p.isdigit()]))";
    let done = world.run(world.spec("/usr/bin/python3", &["-I", "-c", script])).await;
    assert_eq!(done.exit.class, JailClass::Ok, "{done:?}");
    assert!(done.stdout_text().trim().parse::<u32>().unwrap() >= 5, "they did run: {done:?}");
    assert!(processes("sleep\x001006").is_empty());
}

#[tokio::test]
async fn a_jail_that_is_dropped_ends() {
    let world = world();
    let jailed = world.jail.spawn(world.spec("/bin/sleep", &["1007"])).await.unwrap();
    wait_for("it runs", || !processes("sleep\x001007").is_empty());
    drop(jailed);
    wait_for("it ends", || processes("sleep\x001007").is_empty());
    let _kept = world.jail.spawn(world.spec("/bin/sleep", &["1008"])).await.unwrap();
    let World { jail, .. } = world;
    drop(jail);
    wait_for("all end with the last clone", || processes("sleep\x001008").is_empty());
}

/// Not a test by itself: the process that another test kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn host_with_an_endless_jail() {
    let Some(project) = std::env::var_os("JAIL_TEST_PROJECT") else { return };
    let jail = jail();
    let script = "setsid sleep 1009 & (sleep 1009 &) ; exec sleep 1009";
    let mut spec = JailSpec::new("/bin/sh", PathBuf::from(project)).args(["-c", script]);
    spec.preset = Preset::WorkspaceWrite;
    jail.run(spec, &CancellationToken::new(), |_, _| {}).await.unwrap();
}

#[test]
fn nothing_is_left_when_jarvis_is_killed() {
    let world = world();
    std::fs::remove_dir_all(world.project.join(".git")).unwrap();
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "host_with_an_endless_jail"])
        .env("JAIL_TEST_PROJECT", &world.project)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("it runs", || processes("sleep\x001009").len() == 3);
    assert!(world.project.join(".git").exists());
    host.kill().unwrap();
    host.wait().unwrap();
    wait_for("all end", || processes("sleep\x001009").is_empty());
    // What held a place is taken away by the next.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { assert_eq!(world.sh("echo next").await.stdout_text(), "next\n") });
    assert!(!world.project.join(".git").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_launcher_takes_its_jails_along_and_the_next_gets_a_new_one() {
    let world = world();
    let running = {
        let spec = world.spec("/bin/sleep", &["1010"]);
        let jail = world.jail.clone();
        tokio::spawn(async move { jail.run(spec, &CancellationToken::new(), |_, _| {}).await })
    };
    wait_for("it runs", || !processes("sleep\x001010").is_empty());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let own = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains(&format!("\nPPid:\t{}\n", std::process::id()))
    };
    let mine = std::fs::read_link(format!("/proc/{}/exe", std::process::id())).unwrap();
    assert!(mine.exists());
    // Of the launchers of all tests in this process, the parent of the one that runs this.
    let sleeper = processes("sleep\x001010")[0];
    let parent = |pid: i32| -> i32 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().parse().unwrap()
    };
    let launcher = parent(parent(sleeper));
    assert!(own(&launcher), "{launcher}");
    // Sound: a child of this process that nobody has collected.
    unsafe { libc::kill(launcher, libc::SIGKILL) };
    assert!(running.await.unwrap().is_err());
    wait_for("it ends", || processes("sleep\x001010").is_empty());
    assert_eq!(world.sh("echo again").await.stdout_text(), "again\n");
}

#[tokio::test]
async fn input_reaches_the_program_and_output_comes_as_it_is_made() {
    let world = world();
    let mut spec = world.spec("/bin/cat", &[]);
    let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    spec.stdin = Stdin::Bytes(bytes.clone());
    assert_eq!(world.run(spec).await.stdout, bytes);
    // One that reads nothing of it is no error.
    let mut spec = world.spec("/bin/true", &[]);
    spec.stdin = Stdin::Bytes(bytes);
    assert_eq!(world.run(spec).await.exit.class, JailClass::Ok);
    let mut spec = world.spec("/bin/cat", &[]);
    spec.stdin = Stdin::Piped;
    let mut jailed = world.jail.spawn(spec).await.unwrap();
    let (mut stdin, mut stdout) = (jailed.stdin.take().unwrap(), jailed.stdout.take().unwrap());
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for word in ["one", "two"] {
        stdin.write_all(word.as_bytes()).await.unwrap();
        let mut text = [0u8; 3];
        stdout.read_exact(&mut text).await.unwrap();
        assert_eq!(text, word.as_bytes());
    }
    drop(stdin);
    let exit = jailed.wait().await.unwrap();
    assert_eq!((exit.class, exit.code), (JailClass::Ok, Some(0)));
    assert!(exit.peak_memory_kb > 0 && exit.wall_us > 0);
}

#[tokio::test]
async fn ends_are_told_apart() {
    let world = world();
    for (script, class, code, signal) in [
        ("exit 0", JailClass::Ok, Some(0), None),
        ("exit 7", JailClass::Failed, Some(7), None),
        ("kill -9 $$", JailClass::Killed, None, Some(9)),
        ("kill -SEGV $$", JailClass::Killed, None, Some(11)),
    ] {
        let exit = world.sh(script).await.exit;
        assert_eq!((exit.class, exit.code, exit.signal), (class, code, signal), "{script}");
    }
}

#[tokio::test]
async fn many_at_the_same_time() {
    let world = world();
    let all = (0..24).map(|n| {
        let (jail, spec) = (world.jail.clone(), world.spec("/bin/sh", &["-c", &format!("echo {n}; sleep 0.05")]));
        tokio::spawn(async move { (n, jail.run(spec, &CancellationToken::new(), |_, _| {}).await.unwrap()) })
    });
    for job in all.collect::<Vec<_>>() {
        let (n, done) = job.await.unwrap();
        assert_eq!(done.stdout_text(), format!("{n}\n"), "{done:?}");
    }
}

#[tokio::test]
async fn wrong_specifications_are_refused_with_a_way_out() {
    let world = world();
    let link = world.home.join("link-to-etc");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    let text = world.project.join("text.txt");
    std::fs::write(&text, "just text").unwrap();
    std::fs::write(world.project.join("bad"), "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(world.project.join("bad"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let home = world.home.display().to_string();
    type Change<'a> = Box<dyn Fn(&mut JailSpec) + 'a>;
    let workspace = |path: &str| -> Change<'_> {
        let path = PathBuf::from(path);
        Box::new(move |spec| spec.workspace = path.clone())
    };
    let cases: Vec<(&str, Change<'_>, &str)> = vec![
        ("root", workspace("/"), "cannot be a workspace"),
        ("root with slashes", workspace("//"), "cannot be a workspace"),
        ("home", workspace(&home), "home folder"),
        ("home otherwise", workspace(&format!("{home}/./.ssh/..//")), "home folder"),
        ("above home", workspace(world.home.parent().unwrap().to_str().unwrap()), "home folder"),
        ("etc", workspace("/etc/"), "system"),
        ("etc by a link", workspace(link.to_str().unwrap()), "system"),
        ("inside usr", workspace("/usr/lib"), "system"),
        ("tmp", workspace("/tmp"), "more than one project"),
        ("proc", workspace("/proc/self"), "system"),
        ("a secret", workspace(&format!("{home}/.ssh")), "hidden"),
        ("jarvis's home", workspace(world.jarvis_home.to_str().unwrap()), "hidden"),
        ("relative", workspace("project"), "absolute"),
        ("missing", workspace("/no/such/folder"), "No such file"),
        ("writable etc", Box::new(|spec| spec.read_write = vec!["/etc".into()]), "writable path"),
        ("writable home", Box::new(|spec| spec.read_write = vec![world.home.clone()]), "home folder"),
        ("root to read", Box::new(|spec| spec.read_only = vec!["/".into()]), "/ cannot be shown"),
        ("dev to read", Box::new(|spec| spec.read_only = vec!["/dev".into()]), "/dev cannot be shown"),
        ("below dev", Box::new(|spec| spec.read_only = vec!["/dev/null".into()]), "cannot be shown"),
        ("proc to read", Box::new(|spec| spec.read_only = vec!["/proc".into()]), "/proc cannot be shown"),
        ("below proc", Box::new(|spec| spec.read_only = vec!["/proc/sys".into()]), "cannot be shown"),
        ("sys to read", Box::new(|spec| spec.read_only = vec!["/sys/class".into()]), "cannot be shown"),
        ("root to write", Box::new(|spec| spec.read_write = vec!["/".into()]), "writable path"),
        ("dev to write", Box::new(|spec| spec.read_write = vec!["/dev/shm".into()]), "writable path"),
        (
            "writable in read-only",
            Box::new(|spec| {
                spec.preset = Preset::ReadOnly;
                spec.read_write = vec![world.project.clone()];
            }),
            "no writable paths",
        ),
        ("relative dir", Box::new(|spec| spec.dir = "src".into()), "absolute"),
        ("missing dir", Box::new(|spec| spec.dir = world.project.join("nope")), "No such file"),
        ("dir outside", Box::new(|spec| spec.dir = world.other_home.clone()), "not a folder that the jail shows"),
        ("missing program", Box::new(|spec| spec.program = "/usr/bin/no-such-program".into()), "No such file"),
        ("relative program", Box::new(|spec| spec.program = "sh".into()), "absolute"),
        ("a folder as program", Box::new(|spec| spec.program = "/usr/bin".into()), "not a file"),
        (
            "program outside",
            Box::new(|spec| spec.program = world.other_home.join("letter.txt")),
            "outside what the jail shows",
        ),
        ("not executable", Box::new(|spec| spec.program = text.clone()), "does not start"),
        ("no interpreter", Box::new(|spec| spec.program = world.project.join("bad")), "does not start"),
        ("zero byte", Box::new(|spec| spec.args.push("a\0b".into())), "zero byte"),
        ("name of a variable", Box::new(|spec| spec.env.push(("A=B".into(), "c".into()))), "name of a variable"),
        ("no time", Box::new(|spec| spec.limits.wall_ms = 0), "limit of time"),
        ("absurd memory", Box::new(|spec| spec.limits.memory_mb = u64::MAX), "limit of memory"),
        ("no output", Box::new(|spec| spec.limits.output_bytes = 0), "limit of output"),
        ("a disk as device", Box::new(|spec| spec.devices = vec!["/dev/vda".into(), "/dev/sda".into()]), "/dev/"),
        ("memory as device", Box::new(|spec| spec.devices = vec!["/dev/kmsg".into()]), "/dev/kmsg"),
    ];
    let mut bad = Vec::new();
    for (name, change, word) in &cases {
        let mut spec = world.spec("/bin/sh", &["-c", "echo HOLE"]);
        change(&mut spec);
        match world.try_run(spec).await {
            Err(e) if e.to_string().contains(word) && e.hint().is_some() => {}
            other => bad.push(format!("{name}: {other:?}")),
        }
    }
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), cases.len(), bad.join("\n"));
}

#[tokio::test]
async fn odd_names_are_fine() {
    let world = world();
    for name in ["a,b", "a:b", "new\nline", "水 空", "-rf", "'\"$(id)", "back\\slash", &"x".repeat(200)] {
        let folder = world.home.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(world.home.join("beside"), "SECRET").unwrap();
        let mut spec = JailSpec::new("/bin/sh", &folder).args(["-c", "pwd > out; ls -A ..; cat ../beside"]);
        spec.preset = Preset::WorkspaceWrite;
        let done = world.run(spec).await;
        assert_eq!(done.exit.class, JailClass::Failed, "{name:?}: {done:?}");
        assert_eq!(done.stdout_text(), format!("{name}\n"), "{name:?}");
        let out = std::fs::read_to_string(folder.join("out")).unwrap();
        assert_eq!(out, format!("{}\n", folder.display()));
    }
    let not_utf8: PathBuf =
        [world.home.as_os_str(), std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe")].iter().collect();
    std::fs::create_dir(&not_utf8).unwrap();
    let mut spec = JailSpec::new("/bin/sh", &not_utf8);
    spec.args = vec!["-c".into(), "echo \"$1\" > out".into(), "sh".into(), not_utf8.clone().into()];
    spec.preset = Preset::WorkspaceWrite;
    assert_eq!(world.run(spec).await.exit.class, JailClass::Ok);
    assert!(not_utf8.join("out").exists());
    // By a link: it is the folder that counts.
    let link = world.home.join("link");
    std::os::unix::fs::symlink(&world.project, &link).unwrap();
    let mut spec = world.spec("/bin/pwd", &[]);
    (spec.workspace, spec.dir) = (link.clone(), link);
    assert_eq!(world.run(spec).await.stdout_text(), format!("{}\n", world.project.display()));
    // A protected name that is a link cannot be kept, so nothing runs.
    std::os::unix::fs::symlink("src", world.project.join(".idea")).unwrap();
    let e = world.try_run(world.spec("/bin/true", &[])).await.unwrap_err();
    assert!(e.to_string().contains(".idea") && e.hint().is_some());
}

#[tokio::test]
async fn without_a_launcher_there_is_an_error_and_no_run() {
    for exe in ["/nonexistent/jarvis", "/bin/true"] {
        let config = jarvis_sandbox::JailConfig { helper_exe: exe.into(), without_namespaces: false };
        let spec = JailSpec::new("/bin/true", std::env::temp_dir().join("x"));
        let started = Instant::now();
        let e = jarvis_sandbox::Jail::new(config).spawn(spec).await.err().unwrap();
        assert!(matches!(e, jarvis_sandbox::SandboxError::Start { .. }), "{exe}: {e}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_share_of_the_processors_is_held_or_refused() {
    let world = world();
    let mut spec = world.spec("/bin/sh", &["-c", "while :; do :; done"]);
    spec.cpus = Some(0.2);
    spec.limits.wall_ms = 1000;
    spec.limits.cpu_ms = 60_000;
    match world.try_run(spec).await {
        Ok(done) => {
            assert!(done.layers.iter().any(|layer| layer == "processors: cgroup"), "{:?}", done.layers);
            assert!(done.exit.cpu_us < 500_000, "{:?}", done.exit);
        }
        Err(e) => assert!(e.to_string().contains("share of the processors") && e.hint().is_some(), "{e}"),
    }
    let mut spec = world.spec("/bin/true", &[]);
    spec.cpus = Some(0.2);
    spec.best_effort = true;
    let done = world.run(spec).await;
    assert!(done.layers.iter().any(|layer| layer.starts_with("processors: ")), "{:?}", done.layers);
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    assert!(Path::new("/proc/self/exe").exists());
    jails::again_as_nobody("all_of_it_as_an_ordinary_user");
}
