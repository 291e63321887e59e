//! The contract of a store of notes, over Markdown and SQLite.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Meanings, block};
use jarvis_memory::{Embed, SqliteStore};
use std::sync::Arc;

fn store(home: &tempfile::TempDir, embedder: Option<Arc<dyn Embed>>) -> SqliteStore {
    SqliteStore::open(&home.path().join("memory"), &home.path().join("memory.db"), embedder).unwrap()
}

macro_rules! contract {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let home = tempfile::tempdir().unwrap();
            block(common::$name(&store(&home, None)));
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
    let home = tempfile::tempdir().unwrap();
    let store = store(&home, None);
    block(async { jarvis_memory::MemoryStore::add(&store, common::fact("ein Text 你好")).await.unwrap() });
    common::any_query_is_plain_text(&store);
}

#[test]
fn meaning_is_found_across_words_and_languages() {
    let home = tempfile::tempdir().unwrap();
    let meanings = Arc::new(Meanings::default());
    block(common::meaning_is_found_across_words_and_languages(&store(&home, Some(meanings.clone())), &meanings));
}

#[test]
fn writers_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    block(common::writers_at_once_lose_nothing(&store(&home, None), &store(&home, None)));
}
