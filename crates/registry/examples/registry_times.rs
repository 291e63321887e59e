//! Prints how long searching and registering take: `cargo run --release -p jarvis-registry --example registry_times`. `register
//! 500` does nothing but register, 500 times.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "an example prints, and may fail")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::corpus::{FITTING, NOTHING, fill, filler, library};
use common::{CODE, Home, name, register};
use std::time::{Duration, Instant};

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Of one line, in milliseconds.
fn row(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1000.0;
    let (median, p99) = (ms(times.len() / 2), ms(times.len() * 99 / 100));
    println!("| {what} | {} | {median:.3} | {p99:.3} |", times.len());
}

fn searching(entries: usize) {
    let mut all = library();
    all.extend(filler(entries - all.len()));
    let home = Home::new();
    let registry = fill(&home, &all);
    println!(
        "| read {entries} entries | 1 | {:.1} | |",
        1000.0 * timed(|| assert!(registry.list().is_ok())).as_secs_f64()
    );
    let first = timed(|| assert!(registry.search("prime number", 8).is_ok()));
    println!("| first search of {entries}, which builds the index | 1 | {:.1} | |", 1000.0 * first.as_secs_f64());
    let queries = || FITTING.iter().map(|(query, _)| *query).chain(NOTHING);
    let search = |query: &str| timed(|| assert!(registry.search(query, 8).is_ok()));
    row(&format!("search of {entries}"), (0..10).flat_map(|_| queries()).map(search).collect());
    let similar = |_| timed(|| assert!(registry.find_similar(&all[9]).is_ok()));
    row(&format!("find_similar among {entries}"), (0..10).map(similar).collect());
}

fn registering(count: usize) {
    let home = Home::new();
    let registry = home.registry();
    let one = |i: usize| timed(|| drop(register(&registry, &format!("cap_{}", i % 100), &format!("{CODE}// {i}\n"))));
    row("register, on disk and committed, up to 100 entries", (0..count).map(one).collect());
    // What the disk alone takes.
    let path = home.path().join("flushed");
    let flush = |i: usize| {
        std::fs::write(&path, i.to_string()).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        timed(|| file.sync_data().unwrap())
    };
    row("one fsync of a small file, for comparison", (0..100).map(flush).collect());
    let opened = |_| timed(|| assert!(home.registry().list().is_ok()));
    row("open and list 100 entries", (0..20).map(opened).collect());
    let history = |_| timed(|| assert!(home.registry().history(&name("cap_3")).is_ok()));
    row("open and read the history of one", (0..20).map(history).collect());
}

fn main() {
    println!("| what | times | median ms | p99 ms |\n|---|---|---|---|");
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, count] = args.as_slice()
        && what == "register"
    {
        return registering(count.parse().expect("a number"));
    }
    searching(10_020);
    searching(100_000);
    registering(200);
}
