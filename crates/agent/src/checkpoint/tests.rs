//! A workspace before and after, and put back: what is followed, what is not, and where links lead.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

use super::entry::Entry;
use super::manifest::{Bounds, Manifest, Unfollowed, Walk};
use super::place::Root;
use super::store::Store;
use super::{Changes, Checkpoints, Restored};
use jarvis_protocol::Message;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.workspace()).unwrap();
        bench
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.folder.path().join("kept"), vec![self.workspace().join("home")])
    }

    fn walk(&self, known: &Manifest, bounds: Bounds) -> Result<Manifest, Unfollowed> {
        let store = Store::new(self.folder.path().join("kept"));
        let never = [self.workspace().join("home")];
        Walk { store: &store, workspace: &self.workspace(), never: &never, bounds, known }.run()
    }

    fn seen(&self) -> Manifest {
        self.walk(&Manifest::default(), Bounds::STANDARD).unwrap()
    }

    fn changes(&self, before: &Manifest) -> Changes {
        let mut changes = Changes { workspace: self.workspace(), ..Changes::default() };
        before.compare(&self.seen()).for_each(|(path, was, is)| changes.enter(path, was, is));
        changes
    }

    fn undo(&self, changes: &Changes, force: bool) -> Result<super::Undone, String> {
        let turn = [Message::user("go")];
        self.checkpoints().undo(&turn, Some(changes), force, false).map_err(|body| body.message)
    }
}

#[test]
fn folders_that_are_ignored_are_left_out_and_files_with_keys_are_not() {
    let bench = Bench::new();
    for path in
        ["a.txt", ".env", "build/x.o", "src/deep/生成/y", "src/keep/z", "node_modules/m", ".git/HEAD", "home/own"]
    {
        bench.write(path, "x");
    }
    bench.write(".gitignore", "/build/\n.env\n*.log\n");
    bench.write("src/.gitignore", "deep/\n!keep\n");
    let seen = bench.seen();
    let paths: Vec<&str> = seen.paths.keys().map(String::as_str).collect();
    assert_eq!(paths, [".env", ".gitignore", "a.txt", "src", "src/.gitignore", "src/keep", "src/keep/z"]);
    assert!(!seen.partial);
}

#[test]
fn what_did_not_change_is_not_read_again_and_what_did_is() {
    let bench = Bench::new();
    bench.write("a", "one");
    std::thread::sleep(std::time::Duration::from_millis(80));
    let first = bench.seen();
    // The content that is kept is gone: a second reading would bring it back.
    let Entry::File { digest, .. } = first.entry("a") else { panic!("{first:?}") };
    let kept = bench.folder.path().join("kept/objects").join(&digest[..2]).join(&digest[2..]);
    fs::remove_file(&kept).unwrap();
    assert_eq!(bench.walk(&first, Bounds::STANDARD).unwrap(), first);
    assert!(!kept.exists());
    bench.write("a", "two");
    let second = bench.walk(&first, Bounds::STANDARD).unwrap();
    assert_eq!(first.compare(&second).map(|(path, ..)| path).collect::<Vec<_>>(), ["a"]);
    // Of the same size, in the same moment.
    bench.write("a", "six");
    let third = bench.walk(&second, Bounds::STANDARD).unwrap();
    assert_eq!(second.compare(&third).count(), 1);
}

#[test]
fn a_workspace_that_is_too_large_is_not_followed() {
    let bench = Bench::new();
    bench.write("a", "12345");
    bench.write("b", "12345");
    for (entries, bytes, fits) in [(2, 10, true), (1, 10, false), (2, 9, false)] {
        let walked = bench.walk(&Manifest::default(), Bounds { entries, bytes });
        assert_eq!(walked.is_ok(), fits, "{walked:?}");
        assert!(fits || matches!(walked, Err(Unfollowed::TooLarge)));
    }
}

#[test]
fn links_are_kept_as_links_and_nothing_behind_them_is_read() {
    let bench = Bench::new();
    let outside = bench.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "a very secret thing").unwrap();
    symlink(&outside, bench.workspace().join("folder")).unwrap();
    symlink(outside.join("secret"), bench.workspace().join("file")).unwrap();
    let seen = bench.seen();
    assert!(matches!(seen.entry("folder"), Entry::Link { .. }) && matches!(seen.entry("file"), Entry::Link { .. }));
    assert_eq!(seen.paths.len(), 2);
    assert!(!bench.folder.path().join("kept").exists(), "no content was kept");
    let root = Root::open(&bench.workspace()).unwrap();
    assert!(root.look("folder/secret", None).is_err());
    for path in ["../outside/secret", "/etc/passwd", "a/../../x", ".."] {
        assert!(root.put_file(path, b"x", 0o644).is_err() && root.remove(path, false).is_err(), "{path}");
    }
    assert!(root.put_file("folder/secret", b"x", 0o644).is_err() && root.put_folder("folder", 0o700).is_err());
    assert!(root.put_link("folder/new", "x").is_err() && root.remove("folder/secret", false).is_err());
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "a very secret thing");
}

#[test]
fn all_kinds_of_changes_are_put_back() {
    let bench = Bench::new();
    bench.write("changed", "old");
    bench.write("program.sh", "#!/bin/sh");
    bench.write("was_folder/inner/文件", "内容");
    bench.write("was_file", "a file");
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(bench.workspace().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("program.sh", 0o750);
    mode("was_folder/inner", 0o711);
    symlink("changed", bench.workspace().join("link")).unwrap();
    let before = bench.seen();
    let at = |path: &str| bench.workspace().join(path);
    bench.write("changed", "new");
    mode("program.sh", 0o644);
    fs::remove_dir_all(at("was_folder")).unwrap();
    bench.write("was_folder", "a file now");
    fs::remove_file(at("was_file")).unwrap();
    bench.write("was_file/now/a folder", "x");
    fs::remove_file(at("link")).unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    bench.write("new/one", "x");
    let changes = bench.changes(&before);
    // A record goes through the session's file.
    let changes: Changes = serde_json::from_str(&serde_json::to_string(&changes).unwrap()).unwrap();
    let undone = bench.undo(&changes, false).unwrap();
    assert_eq!(undone.left, []);
    assert_eq!(before.compare(&bench.seen()).collect::<Vec<_>>(), []);
    assert_eq!(bench.read("was_folder/inner/文件"), "内容");
    let what = |path: &str| undone.files.iter().find(|(known, _)| known == path).map(|(_, what)| *what);
    assert_eq!((what("new/one"), what("changed")), (Some(Restored::Removed), Some(Restored::Restored)));
    assert_eq!(what("was_folder/inner/文件"), Some(Restored::MadeAgain));
    assert_eq!(bench.undo(&changes, false).unwrap().files, [], "a second time there is nothing to do");
}

#[test]
fn what_somebody_else_put_there_stays() {
    let bench = Bench::new();
    bench.write("a", "old");
    let before = bench.seen();
    bench.write("a", "new");
    bench.write("made/by the turn", "x");
    let changes = bench.changes(&before);
    bench.write("made/by a person", "y");
    let undone = bench.undo(&changes, false).unwrap();
    assert_eq!(undone.left, [("made".to_owned(), "the folder is not empty".to_owned())]);
    assert_eq!(bench.read("made/by a person"), "y");
    bench.write("a", "theirs");
    let refused = bench.undo(&changes, false).unwrap_err();
    assert!(refused.contains("not overwritten: a"), "{refused}");
    assert_eq!(bench.read("a"), "theirs");
    let _ = bench.undo(&changes, true).unwrap();
    assert_eq!(bench.read("a"), "old");
}

#[test]
fn a_folder_swapped_for_a_link_leads_nowhere() {
    let bench = Bench::new();
    let outside = bench.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    bench.write("sub/changed", "old");
    let before = bench.seen();
    bench.write("sub/changed", "new");
    bench.write("sub/made", "x");
    let changes = bench.changes(&before);
    fs::rename(bench.workspace().join("sub"), bench.folder.path().join("aside")).unwrap();
    fs::write(outside.join("changed"), "new").unwrap();
    fs::write(outside.join("made"), "x").unwrap();
    symlink(&outside, bench.workspace().join("sub")).unwrap();
    for force in [false, true] {
        let undone = bench.undo(&changes, force).unwrap();
        assert_eq!((undone.files.len(), undone.left.len()), (0, 2), "{undone:?}");
    }
    let there = |name: &str| fs::read_to_string(outside.join(name)).unwrap();
    assert_eq!((there("changed").as_str(), there("made").as_str()), ("new", "x"));
    // A file that was swapped for a link is put in the link's place.
    fs::remove_file(bench.workspace().join("sub")).unwrap();
    fs::rename(bench.folder.path().join("aside"), bench.workspace().join("sub")).unwrap();
    fs::remove_file(bench.workspace().join("sub/changed")).unwrap();
    symlink(outside.join("changed"), bench.workspace().join("sub/changed")).unwrap();
    assert!(bench.undo(&changes, false).is_err());
    let _ = bench.undo(&changes, true).unwrap();
    assert_eq!((bench.read("sub/changed").as_str(), there("changed").as_str()), ("old", "new"));
    assert!(!Path::new(&bench.workspace().join("sub/changed")).is_symlink());
}

#[test]
fn a_content_that_is_gone_is_told_and_the_file_left_as_it_is() {
    let bench = Bench::new();
    bench.write("a", "old");
    let before = bench.seen();
    bench.write("a", "new");
    let changes = bench.changes(&before);
    fs::remove_dir_all(bench.folder.path().join("kept/objects")).unwrap();
    let undone = bench.undo(&changes, false).unwrap();
    assert_eq!((undone.files.len(), undone.left[0].0.as_str(), bench.read("a").as_str()), (0, "a", "new"));
}
