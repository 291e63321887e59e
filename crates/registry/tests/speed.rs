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

/// Milliseconds that this thread has had of the processor.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

#[test]
#[ignore = "prints figures"]
fn registering_into_a_large_registry() {
    let counts = std::env::var("JARVIS_TEST_ENTRIES").unwrap_or("0,100,1600,10000".to_owned());
    for count in counts.split(',').map(|n| n.parse::<usize>().unwrap()) {
        let home = if count == 0 { Home::new() } else { with_entries(count) };
        let registry = home.registry();
        // Takes the index over.
        register(&registry, "warm_up", CODE);
        // The wall's time, and the processor's, which a busy machine leaves alone.
        let time = |mut work: Box<dyn FnMut(usize) + '_>| {
            let mut took: Vec<(f64, f64)> = (0..15)
                .map(|i| {
                    let (start, cpu) = (Instant::now(), on_processor());
                    work(i);
                    (start.elapsed().as_secs_f64() * 1000.0, on_processor() - cpu)
                })
                .collect();
            took.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (wall, _) = took[took.len() / 2];
            took.sort_by(|a, b| a.1.total_cmp(&b.1));
            format!("{wall:.1} ms ({:.1} ms of the processor)", took[took.len() / 2].1)
        };
        let warm = time(Box::new(|i| {
            registry.register(common::version_of(capability(&format!("new_{i}")), CODE)).unwrap();
        }));
        let cold = time(Box::new(|i| {
            home.registry().register(common::version_of(capability(&format!("cold_{i}")), CODE)).unwrap();
        }));
        let bytes = std::fs::metadata(home.index()).unwrap().len();
        println!("{count:>6} entries ({:>8} bytes): register {warm}, in a new process {cold}", bytes);
    }
}
