//! Does the search find what fits, and say that nothing fits? In English and Chinese, in small and large registries.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{Home, capability, name};
use jarvis_protocol::Capability;
use jarvis_registry::{FITS, Registry};
use serde_json::json;
use std::time::{Duration, Instant};

fn define(of: &str, sentence: &str, triggers: &[&str], params: &[(&str, &str)]) -> Capability {
    let mut cap = Capability::new(name(of), sentence);
    cap.triggers = triggers.iter().map(|t| (*t).to_owned()).collect();
    let properties: serde_json::Map<_, _> =
        params.iter().map(|(n, kind)| ((*n).to_owned(), json!({"type": kind}))).collect();
    let required: Vec<&str> = params.iter().map(|(n, _)| *n).collect();
    cap.parameters = json!({"type": "object", "required": required, "properties": properties});
    cap
}

#[rustfmt::skip]
fn library() -> Vec<Capability> {
    vec![
        define("fibonacci_number", "Computes the nth Fibonacci number", &["a Fibonacci number is asked for"], &[("n", "integer")]),
        define("days_between_dates", "Counts the days between two dates", &["how many days lie between two dates"], &[("start", "string"), ("end", "string")]),
        define("fahrenheit_to_celsius", "Converts a temperature from Fahrenheit to Celsius", &["a temperature in degrees Fahrenheit is wanted in Celsius"], &[("degrees", "number")]),
        define("count_vowels", "Counts the vowels in a text", &["the vowels of a sentence are to be counted"], &[("text", "string")]),
        define("is_prime", "Checks whether a number is prime", &["it is asked whether a number is a prime"], &[("n", "integer")]),
        define("reverse_words", "Reverses the order of the words in a text", &["words should come in reverse order"], &[("text", "string")]),
        define("base64_encode", "Encodes a text as base64", &["the base64 encoding of a text is wanted"], &[("text", "string")]),
        define("sort_numbers", "Sorts a list of numbers ascending or descending", &["numbers are to be put in order"], &[("numbers", "array")]),
        define("greatest_common_divisor", "Computes the greatest common divisor of two integers", &["the gcd of two numbers is wanted"], &[("a", "integer"), ("b", "integer")]),
        define("csv_to_json", "Converts CSV text with a header into JSON", &["CSV should be turned into JSON"], &[("csv", "string")]),
        define("weekday_of_date", "Tells the weekday of a date", &["the day of the week of a date is asked for"], &[("date", "string")]),
        define("roman_to_integer", "Converts a Roman numeral to an integer", &["the value of a Roman numeral is wanted"], &[("numeral", "string")]),
        define("word_frequency", "Counts how often a word occurs in a text", &["occurrences of a word are to be counted"], &[("text", "string"), ("word", "string")]),
        define("compound_interest", "Calculates compound interest on a principal", &["the growth of a deposit over years is asked for"], &[("principal", "number"), ("rate", "number"), ("years", "number")]),
        define("sha256_hash", "Computes the SHA-256 hash of a text", &["a checksum or digest of a text is wanted"], &[("text", "string")]),
        define("chinese_id_check", "校验身份证号码是否有效", &["需要判断一个身份证号是不是真的"], &[("id", "string")]),
        define("lunar_date", "把公历日期换算成农历日期", &["想知道某天是农历几月几日"], &[("date", "string")]),
        define("sum_of_multiples", "计算一个范围内所有能被某数整除的数的和", &["求能被 7 整除的数之和"], &[("low", "integer"), ("high", "integer"), ("divisor", "integer")]),
        define("pinyin_of_text", "把汉字转换成拼音", &["需要一段中文的拼音"], &[("text", "string")]),
        define("rmb_uppercase", "把金额数字转换成人民币大写", &["开发票时要写大写金额"], &[("amount", "number")]),
    ]
}

fn fill(home: &Home, capabilities: &[Capability]) -> Registry {
    std::fs::create_dir_all(home.root()).unwrap();
    std::fs::write(home.index(), json!({"version": "1.0.0", "capabilities": capabilities}).to_string()).unwrap();
    home.registry()
}

#[rustfmt::skip]
const FITTING: [(&str, &str); 36] = [
    ("What is the 90th Fibonacci number?", "fibonacci_number"),
    ("fibonacci(12)", "fibonacci_number"),
    ("How many days are there between 2024-02-10 and 2024-03-05?", "days_between_dates"),
    ("number of days from 1 May to 3 June, between those dates", "days_between_dates"),
    ("Convert 98.6 degrees Fahrenheit to Celsius.", "fahrenheit_to_celsius"),
    ("It's 70 fahrenheit outside, what is that in celsius?", "fahrenheit_to_celsius"),
    ("Count the vowels in the sentence: The quick brown fox jumps over the lazy dog", "count_vowels"),
    ("Is 1000003 a prime number?", "is_prime"),
    ("check if 97 is prime", "is_prime"),
    ("Reverse the order of the words in: one two three four", "reverse_words"),
    ("Give me the base64 encoding of the text hello world", "base64_encode"),
    ("encode \"days and primes\" in base64", "base64_encode"),
    ("Sort these numbers in descending order: 5, 17, 2, 99, 43", "sort_numbers"),
    ("What is the greatest common divisor of 1071 and 462?", "greatest_common_divisor"),
    ("gcd of 12 and 18", "greatest_common_divisor"),
    ("Turn this CSV into JSON: name,age\nann,30\nbob,25", "csv_to_json"),
    ("What weekday was 2000-01-01?", "weekday_of_date"),
    ("which day of the week is the date 2025-12-24", "weekday_of_date"),
    ("Convert the roman numeral MCMXCIV to a number", "roman_to_integer"),
    ("How many times does the word 'the' occur in: the cat and the dog and the bird", "word_frequency"),
    ("compound interest on 1000 at 5% for 10 years", "compound_interest"),
    ("sha256 of hello", "sha256_hash"),
    ("I need the SHA-256 checksum for the text abc", "sha256_hash"),
    ("校验身份证号码 11010519491231002X", "chinese_id_check"),
    ("请问这个身份证号是否有效：11010519491231002X", "chinese_id_check"),
    ("2024年2月10日是农历几月几日？", "lunar_date"),
    ("把公历 2025-01-29 换算成农历", "lunar_date"),
    ("计算 1 到 1000 之间所有能被 7 整除的数的和", "sum_of_multiples"),
    ("求 50 到 300 里能被 9 整除的数之和", "sum_of_multiples"),
    ("帮我把“你好世界”转换成拼音", "pinyin_of_text"),
    ("这段汉字的拼音是什么：天气很好", "pinyin_of_text"),
    ("金额 12345.67 的人民币大写怎么写", "rmb_uppercase"),
    ("发票大写金额：888", "rmb_uppercase"),
    ("reverse_words please: a b c", "reverse_words"),
    ("word_frequency", "word_frequency"),
    ("Counting occurrences of the word 'is' in this text: it is what it is", "word_frequency"),
];

#[rustfmt::skip]
const NOTHING: [&str; 26] = [
    "hi there", "谢谢", "thanks a lot, that was helpful", "你好，你是谁？", "who are you?", "Tell me a joke",
    "What is the capital of France?", "中国的首都是哪里", "What's the weather in Berlin?", "今天天气怎么样",
    "Translate good morning into Spanish", "把这句话翻译成英文", "Convert 5 miles to kilometers",
    "Write a poem about autumn", "写一首关于秋天的诗", "Send an email to Bob", "给老板发一封邮件",
    "Extract all e-mail addresses from this page", "What is the square root of 2?", "生成一个随机密码",
    "Generate a random password", "Resize this image to 200 pixels", "Explain recursion", "解释一下递归",
    "Find the shortest path in a graph", "Factor the polynomial x^2 - 1",
];

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

/// Capabilities about made-up things, with words that real ones share.
fn filler(count: usize) -> Vec<Capability> {
    let (verbs, things) = (
        ["Calculates", "Converts", "Lists", "Checks", "Formats"],
        ["invoice", "planet", "ticket", "song", "route", "recipe", "牌照", "股票"],
    );
    (0..count)
        .map(|i| {
            let thing = format!("{}{}", things[i % 8], ["", " price", " name", " age", " size"][i / 8 % 5]);
            let made_up: String = format!("{i:05}").bytes().map(|b| (b'a' + (b - b'0') * 2) as char).collect();
            define(
                &format!("filler_{i}"),
                &format!("{} the {thing} of zq{made_up}", verbs[i % 5]),
                &[&format!("the {thing} of zq{made_up} is asked for"), "a value is given"],
                &[("input", "string")],
            )
        })
        .collect()
}

#[test]
fn times_of_a_large_registry() {
    let home = Home::new();
    let mut all = library();
    all.extend(filler(10_000));
    let registry = fill(&home, &all);
    let clock = |what: &str, work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        println!("{what}: {:?}", start.elapsed());
    };
    clock("read 10,020 entries", &mut || drop(registry.get(&name("is_prime")).unwrap()));
    clock("first search", &mut || drop(registry.search("prime number", 8).unwrap()));
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..10 {
        for query in FITTING.iter().map(|(q, _)| *q).chain(NOTHING) {
            let start = Instant::now();
            registry.search(query, 8).unwrap();
            times.push(start.elapsed());
        }
    }
    times.sort();
    println!("search of {}: median {:?}, p99 {:?}", all.len(), times[times.len() / 2], times[times.len() * 99 / 100]);
    clock("find_similar", &mut || drop(registry.find_similar(&all[9]).unwrap()));
    clock("first register (takes the index over)", &mut || drop(common::register(&registry, "new_one", common::CODE)));
    clock("register", &mut || drop(common::register(&registry, "new_two", common::CODE)));
    clock("search after it", &mut || drop(registry.search("prime number", 8).unwrap()));

    let home = Home::new();
    let registry = home.registry();
    let mut times: Vec<Duration> = (0..100)
        .map(|i| {
            let start = Instant::now();
            common::register(&registry, &format!("cap_{i}"), common::CODE);
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("register, up to 100 entries: median {:?}, p99 {:?}", times[50], times[98]);
    let start = Instant::now();
    assert_eq!(home.registry().list().unwrap().capabilities.len(), 100);
    println!("open and list 100: {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(home.registry().history(&name("cap_3")).unwrap().len(), 1);
    println!("open and history: {:?}", start.elapsed());
}
