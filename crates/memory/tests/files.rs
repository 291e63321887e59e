//! Notes as files: edited by hand, broken in every way, moved, forgotten to the last byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Meanings, block, fact, first, ids};
use jarvis_memory::{Draft, Embed, Filter, Forget, MemoryStore, Query, SqliteStore};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> SqliteStore {
        self.with(None)
    }

    fn with(&self, embedder: Option<Arc<dyn Embed>>) -> SqliteStore {
        SqliteStore::open(&self.notes(), &self.folder.path().join("memory.db"), embedder).unwrap()
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("memory")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.notes().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The files below the home that have one of these bytes.
    fn holding(&self, texts: &[&str]) -> Vec<PathBuf> {
        fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
            for path in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
                if path.is_dir() { walk(&path, out) } else { out.push(path) }
            }
        }
        let mut all = Vec::new();
        walk(self.folder.path(), &mut all);
        all.retain(|path| {
            let bytes = fs::read(path).unwrap();
            texts.iter().any(|t| bytes.windows(t.len()).any(|w| w == t.as_bytes()))
        });
        all
    }
}

/// Looks for changed files are some way apart, at most a tenth of the time.
async fn after_a_while() {
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
}

#[test]
fn what_an_editor_does_is_noticed() {
    let home = Home::new();
    block(async {
        let store = home.store();
        let note = store.add(fact("The bakery opens at seven")).await.unwrap();
        let path = note.path.unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\ntype: fact\n") && text.ends_with("\n\nThe bakery opens at seven\n"), "{text}");

        // In place, of the same length.
        fs::write(&path, text.replace("seven", "eight")).unwrap();
        after_a_while().await;
        assert!(ids(&store, "seven").await.is_empty());
        assert_eq!(ids(&store, "eight").await, [note.id.as_str()]);
        // Replaced by another file, as editors that save atomically do.
        let beside = path.with_extension("new");
        fs::write(&beside, text.replace("seven", "nine o'clock")).unwrap();
        fs::rename(&beside, &path).unwrap();
        after_a_while().await;
        assert_eq!(first(&store, "nine").await.unwrap(), "The bakery opens at nine o'clock");
        // Moved.
        home.write("mine/sub/x", "");
        fs::rename(&path, home.notes().join("mine/面包店.md")).unwrap();
        after_a_while().await;
        assert_eq!(ids(&store, "bakery").await, [note.id.as_str()]);
        assert!(store.get(&note.id).await.unwrap().path.unwrap().ends_with("mine/面包店.md"));
        // Written by hand, with no head at all.
        home.write("mine/free.md", "# 随手记\n\n明天去面包店\n");
        after_a_while().await;
        assert_eq!(ids(&store, "面包店").await.len(), 1);
        // Removed.
        fs::remove_file(home.notes().join("mine/面包店.md")).unwrap();
        after_a_while().await;
        assert!(ids(&store, "bakery").await.is_empty());
        drop(store);
        // While nobody looked.
        home.write("mine/free.md", "明天去图书馆");
        let store = home.store();
        assert!(ids(&store, "面包店").await.is_empty());
        assert_eq!(ids(&store, "图书馆").await.len(), 1);
    });
}

#[test]
fn a_change_that_keeps_size_and_times_apart_by_nothing_is_still_noticed() {
    let home = Home::new();
    block(async {
        let store = home.store();
        for i in 0..40 {
            home.write("a.md", format!("wort{:02}", i));
            // The index as a new process finds it: it looks at once.
            assert_eq!(ids(&home.store(), &format!("wort{:02}", i)).await.len(), 1, "{i}");
        }
        drop(store);
    });
}

#[test]
fn files_that_are_no_notes_are_reported_and_disturb_nothing() {
    let home = Home::new();
    home.write("good.md", "---\nid: good\ntype: fact\ntags: [翻译]\n---\n\nA good note about owls\n");
    home.write("a-copy.md", "---\nid: good\n---\n\nA copy about owls\n");
    home.write("latin.md", b"caf\xe9 owls");
    home.write("open.md", "---\ntype: fact\nno end, owls");
    home.write("kind.md", "---\ntype: opinion\n---\nowls");
    home.write("empty.md", "");
    home.write("huge.md", "owls ".repeat(300_000));
    home.write(".hidden.md", "owls");
    home.write("picture.png", "owls");
    let outside = home.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.md"), "owls").unwrap();
    std::os::unix::fs::symlink(&outside, home.notes().join("linked")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret.md"), home.notes().join("link.md")).unwrap();
    std::os::unix::fs::symlink("loop", home.notes().join("loop")).unwrap();
    home.write("1/2/3/4/5/6/7/8/9/deep.md", "owls");
    block(async {
        let store = home.store();
        let report = store.reindex().await.unwrap();
        // The copy comes first by name; the other one has the same id.
        assert_eq!(report.notes, 1);
        let problem = |name: &str| {
            let of = report.problems.iter().find(|p| p.path.ends_with(name));
            of.unwrap_or_else(|| panic!("{name}: {:#?}", report.problems)).problem.clone()
        };
        for (name, part) in [
            ("good.md", "a-copy.md has the same id"),
            ("latin.md", "UTF-8"),
            ("open.md", "line 3"),
            ("kind.md", "opinion"),
            ("empty.md", "no text"),
            ("huge.md", "bytes"),
            ("linked", "link"),
            ("link.md", "link"),
            ("1/2/3/4/5/6/7/8", "deep"),
        ] {
            assert!(problem(name).contains(part), "{name}: {}", problem(name));
        }
        assert_eq!(report.problems.len(), 9, "{:#?}", report.problems);
        assert_eq!(ids(&store, "owls").await, ["good"]);
        for name in ["latin.md", "open.md", "kind.md", "huge.md", "good.md"] {
            assert!(home.notes().join(name).exists(), "{name} is not lost");
        }
        // Mended, it counts; the copy gone, the original is found.
        home.write("kind.md", "---\ntype: note\n---\nowls");
        fs::remove_file(home.notes().join("a-copy.md")).unwrap();
        after_a_while().await;
        assert_eq!(ids(&store, "owls").await.len(), 2);
        assert_eq!(store.get("good").await.unwrap().tags, ["翻译"]);
        assert_eq!(store.reindex().await.unwrap().problems.len(), 7);
    });
}

#[test]
fn a_lost_index_is_made_anew_from_the_files() {
    let home = Home::new();
    block(async {
        let store = home.store();
        for i in 0..20 {
            let tags = vec![format!("t{}", i % 3)];
            store.add(Draft { tags, importance: Some(4), ..fact(&format!("Note number {i} 笔记")) }).await.unwrap();
        }
        let before = store.list(&Filter::default(), 0, 100).await.unwrap();
        drop(store);
        for name in ["memory.db", "memory.db-wal", "memory.db-shm"] {
            let _ = fs::remove_file(home.folder.path().join(name));
        }
        let store = home.store();
        let mut after = store.list(&Filter::default(), 0, 100).await.unwrap();
        let by_id = |notes: &mut Vec<jarvis_memory::Note>| notes.sort_by(|a, b| a.id.cmp(&b.id));
        let mut before = before;
        by_id(&mut before);
        by_id(&mut after);
        assert_eq!(after, before);
        assert_eq!(ids(&store, "笔记").await.len(), 10);
    });
}

#[test]
fn replacing_a_note_many_times_leaves_the_index_whole() {
    let home = Home::new();
    block(async {
        let store = home.store();
        for i in 0..60 {
            home.write("a.md", format!("---\nid: a\n---\nversion{i} of the same text 同一段文字"));
            home.write(&format!("b{}.md", i % 7), format!("version{i} elsewhere"));
            store.reindex().await.unwrap();
            assert_eq!(ids(&store, "同一段").await, ["a"]);
            if i > 0 {
                assert!(!ids(&store, &format!("version{}", i - 1)).await.contains(&"a".to_owned()));
            }
        }
        let db = rusqlite::Connection::open(home.folder.path().join("memory.db")).unwrap();
        db.execute("INSERT INTO note_words (note_words, rank) VALUES ('integrity-check', 1)", []).unwrap();
    });
}

#[test]
fn what_is_forgotten_leaves_no_byte_in_the_home() {
    let home = Home::new();
    block(async {
        let store = home.with(Some(Arc::new(Meanings::default())));
        // A reader in another place that is idle must not keep old bytes.
        let other = home.store();
        for i in 0..80 {
            store
                .add(fact(&format!("Ordinary note {i} about things 普通笔记 {}", "padding ".repeat(i))))
                .await
                .unwrap();
        }
        let draft = Draft {
            tags: vec!["ornithopter".to_owned(), "秘密鲸鱼".to_owned()],
            ..fact("The xylophonist kitten hides 白色犀牛 in a flugelhorn")
        };
        let note = store.add(draft).await.unwrap();
        store.remember(fact("A xylophonist plays a flugelhorn, 白色犀牛 too, and more of it")).await.unwrap();
        assert_eq!(ids(&other, "flugelhorn").await, [note.id.as_str()]);
        store.search(&Query::new("kitten")).await.unwrap();
        // Once more edited by hand, so that old versions are about as well.
        let path = note.path.unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("hides", "hides quuxified")).unwrap();
        after_a_while().await;
        assert!(!ids(&store, "quuxified").await.is_empty());
        // As of a process that died in writing it.
        home.write("fact/.unfinished-x.md", "flugelhorn");
        let traces = [
            "xylophonist",
            "flugelhorn",
            "白色犀牛",
            "色犀",
            "秘密鲸鱼",
            "密鲸",
            "ornithopter",
            "quuxified",
            "ornithopt",
            "quuxifi",
        ];
        assert!(home.holding(&traces).len() >= 3, "{:?}", home.holding(&traces));
        let forgotten = store.forget(&Forget::Words("xylophonist".to_owned())).await.unwrap();
        assert_eq!((forgotten.notes.len(), forgotten.proposals.len(), forgotten.traces), (1, 1, false));
        assert_eq!(home.holding(&traces), Vec::<PathBuf>::new());
        assert!(ids(&other, "flugelhorn").await.is_empty());
        assert_eq!(store.list(&Filter::default(), 0, 200).await.unwrap().len(), 80);
        let db = rusqlite::Connection::open(home.folder.path().join("memory.db")).unwrap();
        let vectors: i64 = db.query_row("SELECT count(*) FROM note_vectors", [], |r| r.get(0)).unwrap();
        assert_eq!(vectors, 80);
    });
}

#[test]
fn a_rejected_text_is_not_kept() {
    let home = Home::new();
    block(async {
        let store = home.store();
        let jarvis_memory::Remembered::Proposed(proposal) =
            store.remember(fact("Owes money to 张三丰 the loanshark")).await.unwrap()
        else {
            panic!("not proposed")
        };
        store.reject(&proposal.note.id).await.unwrap();
        assert_eq!(home.holding(&["loanshark", "张三丰"]), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_moved_note_keeps_its_vector_and_one_that_failed_is_made_later() {
    let home = Home::new();
    block(async {
        let meanings = Arc::new(Meanings::default());
        let store = home.with(Some(meanings.clone()));
        let note = store.add(fact("a cat")).await.unwrap();
        store.search(&Query::new("cat")).await.unwrap();
        let asked = meanings.asked.load(Ordering::Relaxed);
        home.write("else/where", "");
        fs::rename(note.path.unwrap(), home.notes().join("else/cat.md")).unwrap();
        after_a_while().await;
        store.search(&Query::new("cat")).await.unwrap();
        assert_eq!(meanings.asked.load(Ordering::Relaxed), asked + 1, "only the query");
        meanings.broken.store(true, Ordering::Relaxed);
        store.add(fact("a dog and a pet")).await.unwrap();
        let report = store.reindex().await.unwrap();
        assert_eq!((report.embedded, report.notices.len()), (0, 1));
        meanings.broken.store(false, Ordering::Relaxed);
        assert_eq!(store.reindex().await.unwrap().embedded, 1);
    });
}
