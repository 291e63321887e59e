//! What holds where there are no namespaces: Landlock, seccomp, limits, and a hunt for what is left.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

mod jails;

use jails::{World, attack, world_with};
use jarvis_sandbox::{Jail, JailClass, JailConfig, JailNetwork, Preset};
use std::time::{Duration, Instant};

/// `None` where Landlock does not do for it; then it is refused, which is tested as well.
async fn world() -> Option<World> {
    let world = world_with(Jail::new(JailConfig { helper_exe: jails::helper(), without_namespaces: true }));
    match world.try_run(world.spec("/bin/true", &[])).await {
        Ok(_) => Some(world),
        Err(e) => {
            assert!(matches!(e, jarvis_sandbox::SandboxError::Isolation { .. }) && e.hint().is_some(), "{e}");
            jarvis_testkit::skipped(&format!("the jail without namespaces: {e}"));
            None
        }
    }
}

const FILES: &[(&str, &str)] = &[
    ("shadow", "cat /etc/shadow && echo HOLE"),
    ("system", "for d in / /usr /etc /opt /var /tmp; do (echo x > $d/hole-$$) && echo HOLE $d; done"),
    (
        "home",
        "ls \"$H\"; cat \"$H\"/letter.txt && echo HOLE; cat \"$H\"/.ssh/id_ed25519 && echo HOLE; cat \"$H\"/.cargo/credentials.toml && echo HOLE",
    ),
    ("others", "cat \"$OTHER\"/letter.txt && echo HOLE; cat \"$J\"/key && echo HOLE"),
    ("by a link", "ln -s \"$H\" src/link; cat src/link/letter.txt && echo HOLE; rm -f src/link"),
    (
        "processes",
        "cat /proc/1/environ && echo HOLE; ls /proc/1/root && echo HOLE; ls /proc && echo HOLE; cat /proc/$PPID/maps && echo HOLE",
    ),
    ("signals", "kill -0 $PPID && echo HOLE; kill -9 1 && echo HOLE"),
    (
        "git",
        "(echo x > .git/hooks/pre-commit) && echo HOLE; (echo x >> .git/config) && echo HOLE; mv .git src/git && echo HOLE; ln .git/config src/c && echo HOLE; rm -rf .git; test -f .git/config || echo HOLE",
    ),
    (
        "not there yet",
        "mkdir .jarvis/x && echo HOLE; (echo x > .envrc) && echo HOLE; rm -f .envrc && echo HOLE; mv src .idea && echo HOLE",
    ),
    ("devices", "for d in /dev/tty /dev/vda /dev/sda /dev/kmsg /dev/shm; do (: < $d) && echo HOLE $d; done"),
    (
        "rights",
        "grep -q . /proc/self/status && echo HOLE; su root -c id </dev/null && echo HOLE; mount -t tmpfs none /tmp && echo HOLE; unshare -U true && echo HOLE",
    ),
];

const KERNEL: &[(&str, &str)] = &[
    (
        "sockets",
        "[no(f, lambda f=f: socket.socket(f)) for f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 16)]; socket.socketpair()",
    ),
    ("docker", "no('unix', lambda: socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock'))"),
    (
        "calls",
        "[denied(n, n, 0, 0, 0, 0, 0) for n in (101, 310, 165, 155, 161, 428, 250, 321, 298, 323, 425, 246)]; denied('user', 272, 0x10000000)",
    ),
    ("emptying", "[no(p, lambda p=p: os.truncate(p, 0)) for p in ('.git/config', '/etc/passwd')]"),
];

#[tokio::test]
async fn walls_hold_without_namespaces() {
    let Some(world) = world().await else { return };
    attack(&world, FILES, false).await;
    #[cfg(target_arch = "x86_64")]
    attack(&world, KERNEL, true).await;
}

#[tokio::test]
async fn work_goes_on_in_what_is_there_and_the_private_tmp_is_taken_away() {
    let Some(world) = world().await else { return };
    let script = "echo 3 > src/main.py; mkdir src/new; echo x > \"$TMPDIR\"/x; echo y > \"$HOME\"/y; echo $TMPDIR; ls .git/hooks";
    let done = world.sh(script).await;
    let out = done.stdout_text();
    let (tmp, rest) = out.split_once('\n').unwrap();
    assert!(tmp.starts_with("/tmp/jarvis-jail-") && rest == "pre-commit.sample\n", "{done:?}");
    assert!(!std::path::Path::new(tmp).exists());
    assert_eq!(std::fs::read_to_string(world.project.join("src/main.py")).unwrap(), "3\n");
    assert!(
        done.layers.iter().any(|l| l.starts_with("no mount namespace"))
            && done.layers.iter().any(|l| l == "landlock (files)")
    );
    assert!(!done.layers.iter().any(|layer| layer == "process namespace"));
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused() {
    let Some(world) = world().await else { return };
    let mut whole = world.spec("/bin/true", &[]);
    whole.preset = Preset::Full;
    let mut proxied = world.spec("/bin/true", &[]);
    proxied.network = JailNetwork::Proxy { serve: std::sync::Arc::new(|_| panic!("there is no proxy")) };
    for spec in [whole, proxied] {
        let e = world.try_run(spec).await.unwrap_err();
        assert!(matches!(e, jarvis_sandbox::SandboxError::Isolation { .. }) && e.hint().is_some(), "{e}");
    }
}

#[tokio::test]
async fn orphans_are_hunted_down() {
    let Some(world) = world().await else { return };
    let started = Instant::now();
    let script = "setsid sleep 1021 & (sleep 1021 &); trap '' TERM; for i in 1 2 3; do (setsid sh -c 'sleep 1021 & sleep 1021' &) ; done; sleep 1021";
    let mut spec = world.spec("/bin/sh", &["-c", script]);
    spec.limits.wall_ms = 500;
    let done = world.run(spec).await;
    assert_eq!(done.exit.class, JailClass::Timeout, "{done:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let own = entry.file_name().to_str().and_then(|name| name.parse().ok()).is_some_and(jails::own);
        own && std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("sleep\x001021"))
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    jails::again_as_nobody("all_of_it_as_an_ordinary_user");
}
