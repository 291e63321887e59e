//! The contract of a store of notes, over a real PostgreSQL server with pgvector, and what only a shared one has to do.
//! `scripts/postgres.py` starts such a server; its URL is passed as JARVIS_TEST_POSTGRES_URL.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Meanings, block, fact, ids};
use jarvis_memory::{Draft, Embed, Filter, Forget, MemoryError, MemoryStore, PostgresStore, Remembered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn url() -> Option<String> {
    let url = std::env::var("JARVIS_TEST_POSTGRES_URL").ok();
    if url.is_none() {
        jarvis_testkit::skipped("no PostgreSQL server (JARVIS_TEST_POSTGRES_URL): the shared memory");
    }
    url
}

/// A space that no other test has.
fn space() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("团队 {}-{now}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn store(url: &str, space: &str, embedder: Option<Arc<dyn Embed>>) -> PostgresStore {
    PostgresStore::connect(url, space, None, embedder).await.unwrap()
}

macro_rules! contract {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let Some(url) = url() else { return };
            block(async { common::$name(&store(&url, &space(), None).await).await });
        }
    )*};
}

contract!(
    words_are_found_in_both_languages,
    odd_queries_are_plain_text,
    filters_hold_together,
    what_is_learned_is_proposed_and_a_no_is_kept,
    an_update_points_to_the_note_it_is_like_and_can_take_its_place,
    forgetting_takes_notes_and_proposals,
    what_cannot_be_a_note_is_refused
);

#[test]
fn any_query_is_plain_text() {
    let Some(url) = url() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = runtime.block_on(store(&url, &space(), None));
    runtime.block_on(store.add(fact("ein Text 你好"))).unwrap();
    common::any_query_is_plain_text(&store);
}

#[test]
fn meaning_is_found_across_words_and_languages() {
    let Some(url) = url() else { return };
    let meanings = Arc::new(Meanings::default());
    block(async {
        let store = store(&url, &space(), Some(meanings.clone())).await;
        common::meaning_is_found_across_words_and_languages(&store, &meanings).await;
    });
}

#[test]
fn writers_at_once_lose_nothing() {
    let Some(url) = url() else { return };
    block(async {
        let space = space();
        common::writers_at_once_lose_nothing(&store(&url, &space, None).await, &store(&url, &space, None).await).await;
    });
}

#[test]
fn one_team_sees_nothing_of_another() {
    let Some(url) = url() else { return };
    block(async {
        let meanings: Arc<dyn Embed> = Arc::new(Meanings::default());
        let ours = store(&url, &space(), Some(meanings.clone())).await;
        let theirs = store(&url, &space(), Some(meanings)).await;
        let note = ours.add(fact("our cat 我们的猫")).await.unwrap();
        let Remembered::Proposed(proposal) = ours.remember(fact("our secret plan")).await.unwrap() else {
            panic!("not proposed")
        };
        let Remembered::Proposed(no) = ours.remember(fact("a rejected thing")).await.unwrap() else {
            panic!("not proposed")
        };
        ours.reject(&no.note.id).await.unwrap();

        for query in ["cat", "猫", "", "🙂", "our pet kitten"] {
            assert!(ids(&theirs, query).await.is_empty(), "{query}");
        }
        assert!(theirs.list(&Filter::default(), 0, 9).await.unwrap().is_empty());
        assert!(theirs.proposals().await.unwrap().is_empty());
        for id in [&note.id, &proposal.note.id] {
            assert!(matches!(theirs.get(id).await, Err(MemoryError::NotFound(_))));
            assert!(matches!(theirs.accept(id, None).await, Err(MemoryError::NotFound(_))));
            assert!(matches!(theirs.reject(id).await, Err(MemoryError::NotFound(_))));
            assert!(matches!(theirs.forget(&Forget::Ids(vec![id.clone()])).await, Err(MemoryError::NotFound(_))));
        }
        assert!(matches!(theirs.remember(fact("a rejected thing")).await.unwrap(), Remembered::Proposed(_)));
        // The same text in both: one forgets it, the other keeps note and vector.
        let same = theirs.add(fact("our cat 我们的猫")).await.unwrap();
        assert_eq!(ids(&theirs, "pet").await, [same.id.as_str()]);
        theirs.forget(&Forget::Words("猫".to_owned())).await.unwrap();
        assert_eq!(ids(&ours, "pet").await, [note.id.as_str()]);
    });
}

#[test]
fn the_better_match_comes_first_and_rare_words_weigh_more() {
    let Some(url) = url() else { return };
    block(async {
        let store = store(&url, &space(), None).await;
        for i in 0..30 {
            store.add(fact(&format!("a common meeting about topic {i}"))).await.unwrap();
        }
        let rare = store.add(fact("everything about quokkas today")).await.unwrap();
        let both = store.add(fact("a meeting with quokkas")).await.unwrap();
        let tags = vec!["quokka".to_owned()];
        store
            .add(Draft { tags, ..fact(&format!("a long note {}", "with many other words in it ".repeat(20))) })
            .await
            .unwrap();
        let found = ids(&store, "meeting quokka").await;
        assert_eq!(found[..2], [both.id, rare.id]);
        assert_eq!(found.len(), 10);
    });
}

#[test]
fn a_connection_that_the_server_ends_is_made_anew() {
    let Some(url) = url() else { return };
    block(async {
        let (space, other) = (space(), space());
        let one = store(&url, &space, None).await;
        one.add(fact("still here")).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
        let named = format!("{url}?application_name=to-be-ended");
        let two = store(&named, &other, None).await;
        two.add(fact("still there")).await.unwrap();
        let count: i64 = client.query_one(ended, &[&"to-be-ended"]).await.unwrap().get(0);
        assert_eq!(count, 1);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(ids(&two, "there").await.len(), 1);
        assert_eq!(ids(&one, "here").await.len(), 1);
    });
}

#[test]
fn what_is_wrong_with_a_server_is_said() {
    let Some(url) = url() else { return };
    block(async {
        let (head, tail) = url.split_once('@').unwrap();
        let wrong = format!("{}:wrong@{tail}", head.rsplit_once(':').unwrap().0);
        let error = PostgresStore::connect(&wrong, "s", None, None).await.err().unwrap();
        assert!(error.to_string().contains("password"), "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
        let error = PostgresStore::connect(&url.replace("/postgres", "/nowhere"), "s", None, None).await.err();
        assert!(error.is_some());
        assert!(matches!(PostgresStore::connect(&url, " ", None, None).await.err(), Some(MemoryError::Invalid(_))));
    });
}
