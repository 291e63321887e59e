//! Definitions and requests to search with.

use super::{Home, name};
use jarvis_protocol::Capability;
use jarvis_registry::Registry;
use serde_json::json;

pub fn define(of: &str, sentence: &str, triggers: &[&str], params: &[(&str, &str)]) -> Capability {
    let mut cap = Capability::new(name(of), sentence);
    cap.triggers = triggers.iter().map(|t| (*t).to_owned()).collect();
    let properties: serde_json::Map<_, _> =
        params.iter().map(|(n, kind)| ((*n).to_owned(), json!({"type": kind}))).collect();
    let required: Vec<&str> = params.iter().map(|(n, _)| *n).collect();
    cap.parameters = json!({"type": "object", "required": required, "properties": properties});
    cap
}

#[rustfmt::skip]
pub fn library() -> Vec<Capability> {
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

/// A registry that holds these, as if they had always been there.
pub fn fill(home: &Home, capabilities: &[Capability]) -> Registry {
    std::fs::create_dir_all(home.root()).unwrap();
    std::fs::write(home.index(), json!({"version": "1.0.0", "capabilities": capabilities}).to_string()).unwrap();
    home.registry()
}

#[rustfmt::skip]
pub const FITTING: [(&str, &str); 36] = [
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
pub const NOTHING: [&str; 26] = [
    "hi there", "谢谢", "thanks a lot, that was helpful", "你好，你是谁？", "who are you?", "Tell me a joke",
    "What is the capital of France?", "中国的首都是哪里", "What's the weather in Berlin?", "今天天气怎么样",
    "Translate good morning into Spanish", "把这句话翻译成英文", "Convert 5 miles to kilometers",
    "Write a poem about autumn", "写一首关于秋天的诗", "Send an email to Bob", "给老板发一封邮件",
    "Extract all e-mail addresses from this page", "What is the square root of 2?", "生成一个随机密码",
    "Generate a random password", "Resize this image to 200 pixels", "Explain recursion", "解释一下递归",
    "Find the shortest path in a graph", "Factor the polynomial x^2 - 1",
];

/// Capabilities about made-up things, with words that real ones share.
pub fn filler(count: usize) -> Vec<Capability> {
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
