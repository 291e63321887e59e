//! How long a registration takes in a large registry. Figures, not a test:
//! cargo test --release -p jarvis-registry --test speed -- --ignored --nocapture
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a figure is printed")]

mod common;

use common::{CODE, Home, capability, register};
use std::time::Instant;

/// Entries as jarvis writes them, with an index that was taken over.
fn with_entries(count: usize) -> Home {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "first_one", CODE);
    let text = std::fs::read_to_string(home.index()).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let list = value["capabilities"].as_array_mut().unwrap();
    let first = list[0].clone();
    for i in 1..count {
        let mut next = first.clone();
        next["name"] = format!("made_up_{i}").into();
        next["tool_path"] = format!("tools/made_up_{i}.ts").into();
        std::fs::write(home.root().join(format!("tools/made_up_{i}.ts")), CODE).unwrap();
        list.push(next);
    }
    std::fs::write(home.index(), serde_json::to_string_pretty(&value).unwrap()).unwrap();
    home
}

#[test]
#[ignore = "prints figures"]
fn registering_into_a_large_registry() {
    for count in [0, 100, 1_600, 10_000] {
        let home = if count == 0 { Home::new() } else { with_entries(count) };
        let registry = home.registry();
        // Takes the index over.
        register(&registry, "warm_up", CODE);
        let time = |mut work: Box<dyn FnMut(usize) + '_>| {
            let mut took: Vec<f64> = (0..15)
                .map(|i| {
                    let start = Instant::now();
                    work(i);
                    start.elapsed().as_secs_f64() * 1000.0
                })
                .collect();
            took.sort_by(f64::total_cmp);
            took[took.len() / 2]
        };
        let warm = time(Box::new(|i| {
            registry.register(common::version_of(capability(&format!("new_{i}")), CODE)).unwrap();
        }));
        let cold = time(Box::new(|i| {
            home.registry().register(common::version_of(capability(&format!("cold_{i}")), CODE)).unwrap();
        }));
        let bytes = std::fs::metadata(home.index()).unwrap().len();
        println!("{count:>6} entries ({:>8} bytes): register {warm:.1} ms, in a new process {cold:.1} ms", bytes);
    }
}
