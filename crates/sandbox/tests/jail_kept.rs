//! What lies deeper in a workspace: settings that stay as they are, sockets, and folders that cannot be renamed to get
//! around either.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

mod jails;

use jails::{World, attack, world};
use jarvis_sandbox::{JailOutcome, Seccomp};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn write(path: impl AsRef<Path>, text: &str) {
    std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The program's last word is `done`, and it got through nowhere.
#[track_caller]
fn nothing_got_through(done: &JailOutcome) {
    let out = done.stdout_text();
    assert!(!out.contains("HOLE") && !out.contains("SECRET") && out.ends_with("done\n"), "{out}{done:?}");
}

const NESTED: &[(&str, &str)] = &[
    (
        "settings below",
        "for f in sub/.git/config sub/.vscode/tasks.json sub/deep/.envrc sub/.cargo/config.toml; do echo x >> $f && echo HOLE $f; rm -f $f && echo HOLE $f; done",
    ),
    (
        "their folders keep their names",
        "mv sub sub2 && echo HOLE; mv sub/deep sub/deep2 && echo HOLE; mv sub/.vscode sub/v && echo HOLE; python3 -c 'import os; os.rename(\"sub\", \"sub2\")' && echo HOLE; test -f sub/deep/.envrc || echo HOLE",
    ),
    (
        "they are writable otherwise",
        "echo x > sub/new && echo x > sub/deep/new && mkdir sub/d && mv sub/new sub/d/new && rm -r sub/d sub/deep/new || echo HOLE; mkdir a && mv a b && rmdir b || echo HOLE",
    ),
    (
        "a repository that a file leads to",
        "echo x >> store/repo/config && echo HOLE; echo x >> store/common/config && echo HOLE; mv store store2 && echo HOLE; mv store/repo r && echo HOLE; echo x > store/new || echo HOLE; rm store/new",
    ),
    ("a file that leads to it", "echo gitdir: /tmp > linked/.git && echo HOLE; mv linked l && echo HOLE"),
];

#[tokio::test]
async fn settings_below_stay_as_they_are() {
    let world = world();
    for (name, text) in [
        ("sub/.git/config", "[core]\n"),
        ("sub/.vscode/tasks.json", "{}"),
        ("sub/deep/.envrc", ""),
        ("sub/.cargo/config.toml", ""),
        ("linked/.git", "gitdir: ../store/repo\n"),
        ("store/repo/config", ""),
        ("store/repo/commondir", "../common\n"),
        ("store/common/config", ""),
    ] {
        write(world.project.join(name), text);
    }
    attack(&world, NESTED, false).await;
}

#[tokio::test]
async fn hidden_places_do_not_move_with_the_folders_above_them() {
    let mut world = world();
    let config = world.home.join(".config");
    write(config.join("git/credentials"), "SECRET");
    write(config.join("a/b/secret"), "SECRET");
    world.project = config.clone();
    let script = "mv git git2 && echo HOLE; mv a a2 && echo HOLE; mv a/b a/b2 && echo HOLE; cat */credentials */*/secret; \
                  echo x > a/b/new && mv a/b/new a/b/newer || echo HOLE; echo done";
    for _ in 0..2 {
        let mut spec = world.spec("/bin/sh", &["-c", script]);
        spec.hidden.push(config.join("a/b/secret"));
        nothing_got_through(&world.run(spec).await);
    }
    assert!(config.join("git/credentials").exists() && config.join("a/b/newer").exists());
}

/// Connects to each and says which answered.
async fn connect(world: &World, paths: &[&Path]) -> JailOutcome {
    let list: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let script = "import socket, sys, os\nfor p in sys.argv[1:]:\n  os.chdir(os.path.dirname(p))\n  try: socket.socket(socket.AF_UNIX).connect(os.path.basename(p)); print('HOLE', p)\n  except OSError: pass\nprint('done')";
    let mut spec = world.spec("/usr/bin/python3", &["-I", "-c", script]).args(list);
    spec.read_only = vec![world.other_home.clone()];
    world.run(spec).await
}

#[tokio::test]
async fn sockets_of_the_host_do_not_answer() {
    let world = world();
    let places = [
        world.project.join("s.sock"),
        world.project.join("src/run/s.sock"),
        world.project.join(".git/daemon.ipc"),
        world.other_home.join("run/s.sock"),
    ];
    let _listeners: Vec<_> = places
        .iter()
        .map(|path| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            UnixListener::bind(path).unwrap()
        })
        .collect();
    let paths: Vec<_> = places.iter().map(|path| path.as_path()).collect();
    nothing_got_through(&connect(&world, &paths).await);
    nothing_got_through(&world.sh("mv src/run src/run2 && echo HOLE; rm s.sock && echo HOLE; echo done").await);
}

#[tokio::test]
async fn what_was_not_looked_through_is_told() {
    let world = world();
    let told = |done: &JailOutcome| done.layers.iter().any(|layer| layer.starts_with("only the first 20000 entries"));
    let many = world.project.join("node_modules");
    std::fs::create_dir(&many).unwrap();
    (0..20_000).for_each(|n| write(many.join(n.to_string()), ""));
    assert!(!told(&world.sh("true").await), "what is not looked into does not count");
    std::fs::rename(&many, world.project.join("many")).unwrap();
    symlink("/", world.project.join("link")).unwrap();
    assert!(told(&world.sh("true").await));
}

#[tokio::test]
async fn a_head_is_not_made_where_git_would_take_the_workspace_for_a_repository() {
    let world = world();
    for name in ["HEAD", "objects/x", "refs/x"] {
        write(world.project.join(".git").join(name), "");
    }
    nothing_got_through(&world.sh("test -e HEAD && echo HOLE; echo done").await);
    std::fs::remove_dir_all(world.project.join(".git")).unwrap();
    let script = "echo 'ref: refs/heads/x' > HEAD && echo HOLE; rm -f HEAD && echo HOLE; ln -sf src HEAD && test -L HEAD && echo HOLE; echo done";
    nothing_got_through(&world.sh(script).await);
    assert!(!world.project.join("HEAD").exists());
}

#[tokio::test]
async fn a_link_that_a_program_could_make_is_no_reason_to_refuse() {
    let world = world();
    nothing_got_through(&world.sh("ln -s src .bashrc; ln -s src .ssh; ln -s src src/.git; echo done").await);
    nothing_got_through(&world.sh("test -L .bashrc -a -L .ssh -a -L src/.git || echo HOLE; echo done").await);
    symlink("src", world.project.join(".claude")).unwrap();
    let e = world.try_run(world.spec("/bin/true", &[])).await.unwrap_err();
    assert!(e.to_string().contains(".claude is a symbolic link") && e.hint().is_some(), "{e}");
}

#[tokio::test]
async fn memory_that_nothing_counts_is_not_to_be_had() {
    let world = world();
    let script = "import ctypes, errno, os\nlibc = ctypes.CDLL(None, use_errno=True)\n\
                  def name(r): return 'fine' if r >= 0 else errno.errorcode[ctypes.get_errno()]\n\
                  def memfd():\n  try: return name(os.memfd_create('x'))\n  except OSError as e: return errno.errorcode[e.errno]\n\
                  print(memfd(), name(libc.shmget(0, 4096, 0o1600)))";
    for strict in [false, true] {
        let mut spec = world.spec("/usr/bin/python3", &["-I", "-c", script]);
        if strict {
            spec.seccomp = Seccomp::Strict;
        }
        let done = world.run(spec).await;
        let counted = done.layers.iter().any(|layer| layer == "memory: cgroup");
        let wanted = if counted && !strict { "fine fine\n" } else { "ENOSYS ENOSYS\n" };
        assert_eq!(done.stdout_text(), wanted, "{done:?}");
    }
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    jails::again_as_nobody("all_of_it_as_an_ordinary_user");
}
