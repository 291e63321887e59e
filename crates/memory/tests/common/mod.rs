//! What every store of notes does, whatever is below it. Each test file runs all of it over its own store.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by test files that each use a part; a test fails by panicking"
)]

use futures::future::BoxFuture;
use jarvis_memory::{Draft, Embed, Filter, Forget, MemoryError, MemoryStore, Note, NoteKind, Query, Remembered};
use jarvis_protocol::{ErrorBody, ErrorKind};
use jiff::civil::date;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// Knows a few words of two languages and what they are about.
#[derive(Default)]
pub struct Meanings {
    pub asked: AtomicUsize,
    pub broken: AtomicBool,
}

const ABOUT: [&[&str]; 4] = [
    &["cat", "kitten", "猫", "pet"],
    &["car", "automobile", "汽车", "drive"],
    &["coffee", "espresso", "咖啡"],
    &["paris", "france", "巴黎", "法国"],
];

impl Embed for Meanings {
    fn model(&self) -> &str {
        "test/meanings"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ErrorBody>> {
        Box::pin(async move {
            if self.broken.load(Ordering::Relaxed) {
                return Err(ErrorBody::new(ErrorKind::Network, "the embedder is away"));
            }
            self.asked.fetch_add(texts.len(), Ordering::Relaxed);
            let vector = |text: &String| {
                let lower = text.to_lowercase();
                let mut v: Vec<f32> =
                    ABOUT.iter().map(|words| words.iter().filter(|w| lower.contains(**w)).count() as f32).collect();
                v.push(0.1);
                v
            };
            Ok(texts.iter().map(vector).collect())
        })
    }
}

pub fn draft(kind: NoteKind, text: &str) -> Draft {
    Draft::new(kind, text)
}

pub fn fact(text: &str) -> Draft {
    draft(NoteKind::Fact, text)
}

pub async fn ids(store: &dyn MemoryStore, text: &str) -> Vec<String> {
    let searched = store.search(&Query::new(text)).await.unwrap();
    searched.found.into_iter().map(|f| f.note.id).collect()
}

pub async fn first(store: &dyn MemoryStore, text: &str) -> Option<String> {
    store.search(&Query::new(text)).await.unwrap().found.into_iter().next().map(|f| f.note.text)
}

fn proposed(remembered: Remembered) -> jarvis_memory::Proposal {
    match remembered {
        Remembered::Proposed(proposal) => proposal,
        other => panic!("{other:?}"),
    }
}

/// Without an embedder.
pub async fn words_are_found_in_both_languages(store: &dyn MemoryStore) {
    for text in [
        "昨天完成翻译文档，然后休息",
        "身份证号码在抽屉里的蓝色文件夹",
        "The deployment of staging runs every Tuesday",
        "Prefers C++ over Rust for games",
        "see foo-bar and a:b in the wiki",
        "他说 \"x AND y\" 是对的 🙂",
    ] {
        store.add(fact(text)).await.unwrap();
    }
    for (query, part) in [
        ("文档", "文档"),
        ("请问翻译的文档在哪里？", "文档"),
        ("身份证号", "身份证"),
        ("deploying staging", "staging"),
        ("what runs on tuesdays?", "Tuesday"),
        ("C++", "C++"),
        ("foo-bar", "foo-bar"),
        ("a:b", "a:b"),
        ("\"x", "AND y"),
        ("🙂", "🙂"),
    ] {
        let found = first(store, query).await;
        assert!(found.as_deref().is_some_and(|f| f.contains(part)), "{query}: {found:?}");
    }
    let searched = store.search(&Query::new("文档")).await.unwrap();
    assert_eq!(searched.found[0].why.bm25, Some(1));
    assert_eq!(searched.found[0].why.vector, None);
    assert_eq!(searched.found.len(), 1, "one note has the word");
    assert!(ids(store, "qwertz").await.is_empty());
    assert_eq!(ids(store, "").await.len(), 6, "an empty query shows the newest");
}

pub async fn odd_queries_are_plain_text(store: &dyn MemoryStore) {
    store.add(fact("an ordinary note 普通的笔记")).await.unwrap();
    let long = "很长的 query ".repeat(900);
    for query in [
        "C++",
        "foo-bar",
        "a:b",
        "\"x",
        "'",
        "AND",
        "OR NOT",
        "NEAR(a b)",
        "(",
        ")",
        "*",
        "^a",
        "a*",
        "{a b}: c",
        "-",
        "--",
        ";",
        "\\",
        "\0",
        "%",
        "_",
        "🙂🙂",
        "e\u{301}",
        "words:x",
        "\"\"\"",
        "&|!",
        "<->",
        ":*",
        &long,
        "\u{202e}",
        "$1",
        "'; DROP TABLE notes; --",
    ] {
        store.search(&Query::new(query)).await.unwrap();
        store.forget(&Forget::Words(format!("zzqq {query}"))).await.unwrap();
    }
    assert_eq!(ids(store, "普通").await.len(), 1);
}

pub fn any_query_is_plain_text(store: &dyn MemoryStore) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let text = "(\\PC|[\"'*()^:+\\-{}&|!<>\\\\\n\0]|AND|OR|NEAR|NOT| |你|好){0,24}";
    runner
        .run(&text, |query| {
            let found = runtime.block_on(store.search(&Query::new(&query)));
            prop_assert!(found.is_ok(), "{:?}", found.err());
            Ok(())
        })
        .unwrap();
}

pub async fn filters_hold_together(store: &dyn MemoryStore) {
    let add = async |kind, text: &str, day, importance, tags: &[&str]| {
        let tags = tags.iter().map(|t| (*t).to_owned()).collect();
        let draft = Draft { date: Some(date(2026, 1, day)), importance: Some(importance), tags, ..draft(kind, text) };
        store.add(draft).await.unwrap().id
    };
    let a = add(NoteKind::Fact, "garden roses 花园", 1, 1, &["翻译", "Home"]).await;
    let b = add(NoteKind::Decision, "garden fence 花园", 2, 3, &["home"]).await;
    let c = add(NoteKind::Preference, "garden chairs 花园", 3, 5, &[]).await;
    let search = async |filter: Filter| {
        for text in ["garden", "花园", ""] {
            let query = Query { filter: filter.clone(), ..Query::new(text) };
            let mut found: Vec<String> =
                store.search(&query).await.unwrap().found.into_iter().map(|f| f.note.id).collect();
            let mut listed: Vec<String> = store.list(&filter, 0, 10).await.unwrap().into_iter().map(|n| n.id).collect();
            found.sort();
            listed.sort();
            assert_eq!(found, listed, "{text}");
        }
        store.list(&filter, 0, 10).await.unwrap().into_iter().map(|n| n.id).collect::<Vec<_>>()
    };
    let none = Filter::default();
    assert_eq!(search(none.clone()).await, [c.as_str(), &b, &a], "the newest first");
    assert_eq!(
        search(Filter { kinds: vec![NoteKind::Fact, NoteKind::Decision], ..none.clone() }).await,
        [b.as_str(), &a]
    );
    assert_eq!(
        search(Filter { from: Some(date(2026, 1, 2)), to: Some(date(2026, 1, 2)), ..none.clone() }).await,
        [b.as_str()]
    );
    assert_eq!(search(Filter { min_importance: Some(3), ..none.clone() }).await, [c.as_str(), &b]);
    assert_eq!(search(Filter { tags: vec!["HOME".to_owned()], ..none.clone() }).await, [b.as_str(), &a]);
    assert_eq!(search(Filter { tags: vec!["翻译".to_owned(), "home".to_owned()], ..none.clone() }).await, [a.as_str()]);
    assert!(search(Filter { tags: vec!["翻".to_owned()], ..none.clone() }).await.is_empty());
    assert_eq!(ids(store, "翻译").await, [a.as_str()], "tags are searched");
    let page = store.list(&none, 1, 1).await.unwrap();
    assert_eq!(page[0].id, b);
}

pub async fn what_is_learned_is_proposed_and_a_no_is_kept(store: &dyn MemoryStore) {
    let learned = Draft {
        session: Some("s-1".to_owned()),
        tags: vec!["咖啡".to_owned()],
        ..fact("The user drinks espresso at nine 早上九点")
    };
    let proposal = proposed(store.remember(learned.clone()).await.unwrap());
    assert!(ids(store, "espresso").await.is_empty(), "a proposal is no note");
    assert_eq!(store.proposals().await.unwrap(), vec![proposal.clone()]);
    let again = store.remember(fact("the user drinks espresso at nine 早上九点.")).await.unwrap();
    assert!(matches!(again, Remembered::Waiting(p) if p == proposal), "proposed once");

    let note = store.accept(&proposal.note.id, None).await.unwrap();
    assert_eq!((note.session.as_deref(), note.tags.as_slice()), (Some("s-1"), ["咖啡".to_owned()].as_slice()));
    assert!(store.proposals().await.unwrap().is_empty());
    assert_eq!(ids(store, "espresso").await, [note.id.as_str()]);
    let known = store.remember(learned).await.unwrap();
    assert!(matches!(known, Remembered::Known(n) if n.id == note.id), "with a pointer to the note");

    let wrong = proposed(store.remember(fact("The user's birthday is on 3 May")).await.unwrap());
    store.reject(&wrong.note.id).await.unwrap();
    assert!(store.proposals().await.unwrap().is_empty());
    let again = store.remember(fact("the user's birthday: on 3 May")).await.unwrap();
    assert!(matches!(again, Remembered::Rejected { .. }), "{again:?}");
    proposed(store.remember(fact("The user's birthday is on 4 May")).await.unwrap());
    assert!(matches!(store.accept(&wrong.note.id, None).await, Err(MemoryError::NotFound(_))));
    assert!(matches!(store.reject("../../etc/passwd").await, Err(MemoryError::NotFound(_))));
}

pub async fn an_update_points_to_the_note_it_is_like_and_can_take_its_place(store: &dyn MemoryStore) {
    let tags = vec!["ops".to_owned()];
    let old = Draft { tags, importance: Some(4), ..fact("The staging database listens on port 8080") };
    let old = store.add(old).await.unwrap();
    let other = store.add(fact("Nothing of the kind")).await.unwrap();
    let update = Draft { tags: vec!["db".to_owned()], ..fact("The staging database listens on port 9090") };
    let update = proposed(store.remember(update).await.unwrap());
    assert_eq!(update.similar, [old.id.as_str()]);
    assert_eq!(store.proposals().await.unwrap(), vec![update.clone()]);
    let note = store.accept(&update.note.id, Some(&old.id)).await.unwrap();
    assert_eq!((note.id.as_str(), note.importance), (old.id.as_str(), 4));
    assert_eq!(note.tags, ["ops", "db"]);
    assert!(ids(store, "8080").await.is_empty(), "the old words find nothing");
    assert_eq!(ids(store, "9090").await, [old.id.as_str()]);
    assert_eq!(store.get(&old.id).await.unwrap().text, "The staging database listens on port 9090");
    store.get(&other.id).await.unwrap();
}

pub async fn forgetting_takes_notes_and_proposals(store: &dyn MemoryStore) {
    let a = store.add(fact("The zebra lives in the 动物园 of Basel")).await.unwrap();
    let b = store.add(fact("The zebra crossing is repainted")).await.unwrap();
    let c = proposed(store.remember(fact("A zebra of Basel bit the keeper")).await.unwrap());
    let forgotten = store.forget(&Forget::Words("zebras basel".to_owned())).await.unwrap();
    assert_eq!(forgotten.notes.iter().map(|n| &n.id).collect::<Vec<_>>(), [&a.id]);
    assert_eq!(forgotten.proposals.iter().map(|p| &p.note.id).collect::<Vec<_>>(), [&c.note.id]);
    assert!(matches!(store.get(&a.id).await, Err(MemoryError::NotFound(_))));
    assert!(store.proposals().await.unwrap().is_empty());
    assert_eq!(ids(store, "zebra").await, [b.id.as_str()]);
    assert!(ids(store, "动物园").await.is_empty());
    let missing = store.forget(&Forget::Ids(vec![b.id.clone(), "nobody".to_owned()])).await;
    assert!(matches!(missing, Err(MemoryError::NotFound(_))));
    assert_eq!(ids(store, "zebra").await.len(), 1, "all or nothing");
    assert!(matches!(store.forget(&Forget::Words(" ".to_owned())).await, Err(MemoryError::Invalid(_))));
    let forgotten = store.forget(&Forget::Ids(vec![b.id])).await.unwrap();
    assert_eq!(forgotten.notes.len(), 1);
    assert!(store.list(&Filter::default(), 0, 9).await.unwrap().is_empty());
    store.reindex().await.unwrap();
    assert!(ids(store, "zebra").await.is_empty());
}

pub async fn what_cannot_be_a_note_is_refused(store: &dyn MemoryStore) {
    let long = "长".repeat(100_001);
    for bad in [
        fact(" \n "),
        fact(&long),
        Draft { importance: Some(6), ..fact("x") },
        Draft { importance: Some(0), ..fact("x") },
        Draft { tags: vec!["t".repeat(65)], ..fact("x") },
    ] {
        assert!(matches!(store.add(bad.clone()).await, Err(MemoryError::Invalid(_))));
        assert!(matches!(store.remember(bad).await, Err(MemoryError::Invalid(_))));
    }
    assert!(store.list(&Filter::default(), 0, 9).await.unwrap().is_empty());
    assert!(store.proposals().await.unwrap().is_empty());
    let tricky = "---\nid: ../x\n---\n\n# 标题\n\n```\n---\n```\n\\ \" ' 🙂";
    let tags = vec!["a, b]".to_owned(), "\"q\": #".to_owned()];
    let note =
        store.add(Draft { tags: tags.clone(), session: Some("s: #1".to_owned()), ..fact(tricky) }).await.unwrap();
    store.reindex().await.unwrap();
    let got: Note = store.get(&note.id).await.unwrap();
    assert_eq!((got.text.as_str(), &got.tags, got.session.as_deref()), (tricky, &tags, Some("s: #1")));
}

/// With [`Meanings`].
pub async fn meaning_is_found_across_words_and_languages(store: &dyn MemoryStore, meanings: &Meanings) {
    let cat = store.add(fact("家里有一只猫")).await.unwrap();
    store.add(fact("She has a new automobile")).await.unwrap();
    let kitten = store.add(Draft { importance: Some(5), ..fact("The kitten sleeps all day") }).await.unwrap();
    let searched = store.search(&Query::new("a pet cat")).await.unwrap();
    assert!(searched.notices.is_empty(), "{:?}", searched.notices);
    let mut two: Vec<&str> = searched.found[..2].iter().map(|f| f.note.id.as_str()).collect();
    two.sort_unstable();
    let mut both = [cat.id.as_str(), &kitten.id];
    both.sort_unstable();
    assert_eq!(two, both);
    assert!(searched.found[0].why.cosine.is_some_and(|c| c > 0.9), "{:?}", searched.found[0].why);
    assert_eq!(searched.found[0].why.vector, Some(1));
    let filter = Filter { min_importance: Some(4), ..Filter::default() };
    let found = store.search(&Query { filter, ..Query::new("猫") }).await.unwrap().found;
    assert_eq!(found.iter().map(|f| &f.note.id).collect::<Vec<_>>(), [&kitten.id]);

    let asked = meanings.asked.load(Ordering::Relaxed);
    store.search(&Query::new("a pet cat")).await.unwrap();
    assert_eq!(meanings.asked.load(Ordering::Relaxed), asked + 1, "vectors of notes are made once");
    store.reindex().await.unwrap();
    assert_eq!(meanings.asked.load(Ordering::Relaxed), asked + 1, "and outlive a new index");

    let near = proposed(store.remember(fact("一只小猫 kitten pet")).await.unwrap());
    assert!(near.similar.contains(&kitten.id), "like it by meaning: {:?}", near.similar);

    meanings.broken.store(true, Ordering::Relaxed);
    store.add(fact("A kitten that nobody could embed")).await.unwrap();
    let searched = store.search(&Query::new("kitten")).await.unwrap();
    assert_eq!(searched.found.len(), 2, "by words");
    assert!(searched.notices.iter().any(|n| n.contains("the embedder is away")), "{:?}", searched.notices);
    meanings.broken.store(false, Ordering::Relaxed);

    store.forget(&Forget::Ids(vec![cat.id.clone()])).await.unwrap();
    assert!(!ids(store, "猫 pet").await.contains(&cat.id));
}

/// Two stores on the same notes.
pub async fn writers_at_once_lose_nothing(one: &dyn MemoryStore, other: &dyn MemoryStore) {
    let write = async |store: &dyn MemoryStore, name: &str| {
        for i in 0..15 {
            store.add(fact(&format!("{name} wrote line {i}"))).await.unwrap();
            store.search(&Query::new("line")).await.unwrap();
        }
    };
    let propose = async |store: &dyn MemoryStore| store.remember(fact("both learned this at once")).await.unwrap();
    futures::future::join(write(one, "alpha"), write(other, "beta")).await;
    for store in [one, other] {
        assert_eq!(store.list(&Filter::default(), 0, 100).await.unwrap().len(), 30);
    }
    let (a, b) = futures::future::join(propose(one), propose(other)).await;
    let waiting = [&a, &b].iter().filter(|r| matches!(r, Remembered::Waiting(_))).count();
    assert_eq!(waiting, 1, "{a:?} {b:?}");
    assert_eq!(one.proposals().await.unwrap().len(), 1);
}
