//! What the memory takes: `cargo run --release -p jarvis-memory --example memory -- [NOTES…]` (10000 and 100000 unless
//! said). Notes are made up of words of two languages, some frequent and most rare, as in real text. Vectors of 384
//! numbers come from a stand-in that takes no time, so that what is measured is the search.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for measuring")]

use futures::future::BoxFuture;
use jarvis_memory::{Embed, Filter, MemoryStore, NewSession, NoteKind, Query, SessionStore, SqliteStore};
use jarvis_protocol::{ErrorBody, Message, Usage};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DIMENSIONS: usize = 384;
const SEARCHES: usize = 300;

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    /// By Zipf's law, roughly: the first of `end` far more often than the last.
    fn skewed(&mut self, end: usize) -> usize {
        let uniform = self.below(1 << 24) as f64 / f64::from(1 << 24);
        ((end as f64).powf(uniform) - 1.0) as usize
    }
}

const WORDS: usize = 20_000;

fn english(n: usize) -> String {
    let syllables = ["ka", "lo", "mi", "ren", "tas", "vu", "shor", "pel", "dan", "gri", "no", "beth"];
    let mut word = String::new();
    let mut rest = n + 1;
    while rest > 0 {
        word += syllables[rest % syllables.len()];
        rest /= syllables.len();
    }
    word
}

fn chinese(n: usize) -> String {
    // Two characters a word, of the 2,000 from U+4E00 on.
    let character = |n: usize| char::from_u32(0x4e00 + (n % 2000) as u32).unwrap();
    [character(n * 7), character(n * 13 + n / 2000)].iter().collect()
}

fn text(numbers: &mut Numbers, words: usize) -> String {
    let is_chinese = numbers.below(2) == 0;
    let word = |n| if is_chinese { chinese(n) } else { english(n) };
    let words: Vec<String> = (0..words).map(|_| word(numbers.skewed(WORDS))).collect();
    words.join(if is_chinese { "" } else { " " })
}

struct StandIn;

impl Embed for StandIn {
    fn model(&self) -> &str {
        "stand-in"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ErrorBody>> {
        let vector = |text: &String| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let mut numbers = Numbers(hasher.finish());
            (0..DIMENSIONS).map(|_| numbers.below(2001) as f32 - 1000.0).collect()
        };
        let vectors = texts.iter().map(vector).collect();
        Box::pin(async move { Ok(vectors) })
    }
}

fn write_notes(folder: &Path, count: usize) {
    let mut numbers = Numbers(7);
    for i in 0..count {
        let below = folder.join(format!("fact/{:03}", i / 500));
        std::fs::create_dir_all(&below).unwrap();
        let length = 12 + numbers.below(40);
        let head = format!(
            "---\nid: n-{i}\ntype: fact\ndate: 2026-{:02}-{:02}\nimportance: {}\n---\n\n",
            1 + i % 12,
            1 + i % 28,
            1 + i % 5
        );
        std::fs::write(below.join(format!("n-{i}.md")), head + &text(&mut numbers, length) + "\n").unwrap();
    }
}

fn row(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1000.0;
    println!("| {what} | {:.2} | {:.2} | {:.2} |", ms(times.len() / 2), ms(times.len() * 99 / 100), ms(times.len()));
}

async fn searches(what: &str, store: &SqliteStore, filter: &Filter) {
    let mut numbers = Numbers(99);
    // The first one loads what the others find in memory.
    store.search(&Query::new(text(&mut numbers, 2))).await.unwrap();
    let mut times = Vec::new();
    let mut found = 0;
    for _ in 0..SEARCHES {
        let length = 1 + numbers.below(6);
        let query = Query { filter: filter.clone(), ..Query::new(text(&mut numbers, length)) };
        let start = Instant::now();
        found += store.search(&query).await.unwrap().found.len();
        times.push(start.elapsed());
    }
    row(&format!("{what} ({:.1} found)", found as f64 / SEARCHES as f64), &mut times);
}

#[tokio::main]
async fn main() {
    let mut counts: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![10_000, 100_000];
    }
    println!("| what | median ms | p99 ms | max ms |\n|---|---|---|---|");
    for count in counts {
        let home = tempfile::tempdir().unwrap();
        let (folder, index) = (home.path().join("memory"), home.path().join("memory.db"));
        write_notes(&folder, count);
        let store = SqliteStore::open(&folder, &index, None).unwrap();
        let start = Instant::now();
        store.search(&Query::new("")).await.unwrap();
        row(&format!("{count} notes: index made from the files"), &mut [start.elapsed()]);
        // So that what is measured are not looks at files that were written a moment ago.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let store = SqliteStore::open(&folder, &index, None).unwrap();
        let start = Instant::now();
        store.search(&Query::new("")).await.unwrap();
        row(&format!("{count} notes: first search of a process"), &mut [start.elapsed()]);
        searches(&format!("{count} notes: search by words"), &store, &Filter::default()).await;
        let filter = Filter { min_importance: Some(4), kinds: vec![NoteKind::Fact], ..Filter::default() };
        searches(&format!("{count} notes: search by words, filtered"), &store, &filter).await;
        let store = SqliteStore::open(&folder, &index, Some(Arc::new(StandIn))).unwrap();
        store.reindex().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        searches(&format!("{count} notes: search by words and meaning"), &store, &Filter::default()).await;
        let mut times = Vec::new();
        for i in 0..20 {
            let start = Instant::now();
            store.add(jarvis_memory::Draft::new(NoteKind::Fact, format!("one more {i}"))).await.unwrap();
            times.push(start.elapsed());
        }
        row(&format!("{count} notes: adding one"), &mut times);
    }
    let home = tempfile::tempdir().unwrap();
    let sessions = SessionStore::open(&home.path().join("jarvis.db")).unwrap();
    let mut writer = sessions.create(NewSession::default()).unwrap();
    let mut numbers = Numbers(5);
    let mut times = Vec::new();
    for _ in 0..1000 {
        let message = [Message::user(text(&mut numbers, 60))];
        let start = Instant::now();
        writer.append(&message, Usage::default()).unwrap();
        times.push(start.elapsed());
    }
    row("session: append of a message, on disk", &mut times);
    let id = writer.id().to_owned();
    drop(writer);
    let start = Instant::now();
    sessions.resume(&id).unwrap();
    row("session: resume, 1000 messages", &mut [start.elapsed()]);
}
