//! Does the search find what fits, and say that nothing fits? In English and Chinese, in small and large registries.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::corpus::{FITTING, NOTHING, define, fill, filler, library};
use common::{Home, capability};
use jarvis_protocol::{Capability, Status};
use jarvis_registry::{FITS, SIMILAR, Statuses, similarity};

#[test]
fn requests_find_their_capability_and_others_find_that_nothing_fits() {
    for size in [0, 2000] {
        let home = Home::new();
        let mut all = library();
        all.extend(filler(size));
        let registry = fill(&home, &all);
        let mut faults = Vec::new();
        let (mut first, mut in_five) = (0, 0);
        for (query, expected) in FITTING {
            let hits = registry.search(query, 5).unwrap();
            let told: Vec<String> = hits.iter().map(|h| format!("{} {:.2}", h.capability.name, h.score)).collect();
            first +=
                usize::from(hits.first().is_some_and(|h| h.capability.name.as_str() == expected && h.score >= FITS));
            in_five += usize::from(hits.iter().any(|h| h.capability.name.as_str() == expected));
            if hits.first().is_none_or(|h| h.capability.name.as_str() != expected || h.score < FITS) {
                faults.push(format!("{query} → {told:?}, not {expected}"));
            }
        }
        let mut nothing = 0;
        for query in NOTHING {
            let hits = registry.search(query, 1).unwrap();
            match hits.first().filter(|h| h.score >= FITS) {
                Some(hit) => faults.push(format!("{query} → {} {:.2}, not nothing", hit.capability.name, hit.score)),
                None => nothing += 1,
            }
        }
        println!(
            "{} entries: first {first}/36, in five {in_five}/36, nothing {nothing}/26\n{}",
            all.len(),
            faults.join("\n")
        );
        assert!(first >= 34 && in_five >= 35 && nothing >= 25);
    }
}

#[test]
fn the_same_requests_work_when_their_capability_is_the_only_one() {
    let all = library();
    let mut faults = Vec::new();
    for (query, expected) in FITTING {
        let home = Home::new();
        let only = all.iter().find(|c| c.name.as_str() == expected).cloned().unwrap();
        let other = all.iter().find(|c| c.name.as_str() != expected).cloned().unwrap();
        let hits = fill(&home, &[only]).search(query, 5).unwrap();
        if hits.first().is_none_or(|h| h.score < FITS) {
            faults.push(format!("{query} → {:?}", hits.first().map(|h| h.score)));
        }
        let hits = fill(&Home::new(), &[other]).search(query, 5).unwrap();
        if hits.first().is_some_and(|h| h.score >= FITS) {
            faults.push(format!("{query} → {} alone", hits[0].capability.name));
        }
    }
    println!("{}", faults.join("\n"));
    assert!(faults.len() <= 2);
}

#[test]
fn quarantined_ones_are_found_by_whoever_asks_for_them_and_never_by_a_model() {
    let mut all = library();
    let of = |all: &mut Vec<Capability>, name: &str, status| {
        all.iter_mut().find(|c| c.name.as_str() == name).unwrap().status = status;
    };
    of(&mut all, "is_prime", Status::Quarantined);
    of(&mut all, "csv_to_json", Status::Disabled);
    let home = Home::new();
    let registry = fill(&home, &all);
    let found = |query: &str, which| {
        let hits = registry.search_with(query, 5, which).unwrap();
        hits.into_iter().filter(|h| h.score >= FITS).map(|h| h.capability.status).next()
    };
    for query in ["is 97 a prime number?", "is_prime"] {
        assert_eq!(found(query, Statuses::WithQuarantined), Some(Status::Quarantined));
        assert_eq!(found(query, Statuses::Active), None);
    }
    assert_eq!(found("gcd of 12 and 18", Statuses::WithQuarantined), Some(Status::Active));
    assert_eq!(found("turn this CSV into JSON", Statuses::WithQuarantined), None);
}

#[test]
fn a_suppression_that_fits_better_than_the_triggers_is_told() {
    let home = Home::new();
    let mut cap = capability("fetch_title");
    cap.capability = "Gets the title of a web page".into();
    cap.triggers = vec!["the title of a page is wanted".into(), "网页的标题".into()];
    cap.suppression = vec!["the full text of the page is wanted".into(), "需要网页的全部正文".into()];
    let registry = fill(&home, &[cap]);
    let suppressed = |query: &str| registry.search(query, 1).unwrap()[0].suppressed_by.clone();
    assert_eq!(suppressed("title of this web page"), None);
    assert_eq!(suppressed("get the full text of a page").as_deref(), Some("the full text of the page is wanted"));
    assert_eq!(suppressed("给我网页的标题"), None);
    assert_eq!(suppressed("给我这个网页的全部正文").as_deref(), Some("需要网页的全部正文"));
}

#[test]
fn near_duplicates_are_found_by_name_and_by_meaning_with_the_same_kinds_of_values() {
    let home = Home::new();
    let registry = fill(&home, &library());
    let names = |candidate: &Capability| -> Vec<String> {
        registry.find_similar(candidate).unwrap().iter().map(|h| h.capability.name.to_string()).collect()
    };
    let gcd = define(
        "gcd",
        "Calculates the greatest common divisor of two numbers",
        &["gcd is wanted"],
        &[("x", "number"), ("y", "number")],
    );
    assert_eq!(names(&gcd), ["greatest_common_divisor"]);
    let vowels = define("vowel_counter", "Count vowels in text", &[], &[("sentence", "string")]);
    assert_eq!(names(&vowels), ["count_vowels"]);
    let pinyin = define("to_pinyin", "将汉字转为拼音", &["需要中文的拼音"], &[("s", "string")]);
    assert_eq!(names(&pinyin), ["pinyin_of_text"]);
    // The same words with another signature, and the same signature with another meaning.
    let many = define("gcd_of_list", "Computes the greatest common divisor", &[], &[("numbers", "array")]);
    assert!(names(&many).is_empty());
    let consonants = define("count_consonants", "Counts the consonants of a name", &[], &[("text", "string")]);
    assert!(names(&consonants).is_empty(), "{:?}", names(&consonants));
    let celsius = define("is_prime", "Something else", &[], &[("text", "string")]);
    assert_eq!(names(&celsius), ["is_prime"], "the name is taken");
}

#[test]
fn one_name_for_two_things_is_told_from_one_thing_said_in_other_words() {
    let word = |sentence: &str, triggers: &[&str]| define("convert_units", sentence, triggers, &[("value", "number")]);
    let celsius = word("Converts a temperature from Fahrenheit to Celsius", &["a temperature is wanted in Celsius"]);
    assert_eq!(similarity(&celsius, &celsius), 1.0);
    let reworded = word("Convert Fahrenheit temperatures into degrees Celsius", &["a Celsius temperature is wanted"]);
    let miles = word("Converts miles to kilometres", &["a distance in miles is wanted in kilometres"]);
    let empty = word("", &[]);
    for (a, b, same) in [
        (&celsius, &reworded, true),
        (&celsius, &miles, false),
        (&reworded, &miles, false),
        (&celsius, &empty, false),
        (&empty, &empty, false),
    ] {
        let (there, back) = (similarity(a, b), similarity(b, a));
        assert!((there - back).abs() < 1e-6 && (0.0..=1.0).contains(&there), "{there} {back}");
        assert_eq!(there >= SIMILAR, same, "{there}: {} / {}", a.capability, b.capability);
    }
    let pinyin = define("convert_units", "把汉字转换成拼音", &["需要一段中文的拼音"], &[("text", "string")]);
    let pinyin_too = define("convert_units", "将汉字转为拼音", &["需要中文的拼音"], &[("text", "string")]);
    assert!(similarity(&pinyin, &pinyin_too) >= SIMILAR, "{}", similarity(&pinyin, &pinyin_too));
    assert!(similarity(&pinyin, &celsius) < SIMILAR);
}

#[test]
fn likeness_without_a_registry_agrees_with_the_search_for_near_duplicates() {
    let all = library();
    for a in &all {
        for b in all.iter().filter(|b| b.name != a.name) {
            assert!(similarity(a, b) < SIMILAR, "{} {}: {}", a.name, b.name, similarity(a, b));
        }
    }
    let gcd = define(
        "gcd",
        "Calculates the greatest common divisor of two numbers",
        &["gcd is wanted"],
        &[("x", "number"), ("y", "number")],
    );
    let known = all.iter().find(|c| c.name.as_str() == "greatest_common_divisor").unwrap();
    assert!(similarity(&gcd, known) >= SIMILAR, "{}", similarity(&gcd, known));
}
