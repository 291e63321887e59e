//! The words with which a small model is led to a decision. The leading messages never change, so their state is
//! computed once and kept.

use jarvis_forge::grow::typescript_type;
use jarvis_protocol::{Capability, Message};

/// Leading messages that are the same for every request.
pub(crate) const STABLE: usize = 1 + 2 * SHOTS.len();

const SYSTEM: &str = "You decide how a request is handled. Write one of:\n\
chat\n  for greetings, thanks, opinions, creative writing, translation and plain facts that need no calculation.\n\
use NAME\n  when a listed tool does exactly what is asked; then one line per input.\n\
build NAME: SENTENCE\n  for anything that must be computed, counted, converted, checked, sorted or transformed; then one \
line per input.\n\
An input line is `name = value`; every value is copied exactly from the request: numbers, \"text\" or [lists]. \
NAME and SENTENCE are general and name no value of the request.";

/// `(tools, request, decision)`.
const SHOTS: [(&str, &str, &str); 20] = [
    ("none", "What is 25 factorial?", "build factorial: Compute the factorial of n exactly\nn = 25"),
    ("none", "hello!", "chat"),
    (
        "none",
        "Which word is the longest in: deep blue mountain lake",
        "build longest_word: Find the longest word of a text\ntext = \"deep blue mountain lake\"",
    ),
    ("none", "把 255 转成二进制", "build to_binary: Convert a whole number to binary\nn = 255"),
    ("none", "Who wrote Hamlet?", "chat"),
    (
        "- factorial(n: number): Compute the factorial of n exactly",
        "How much is the factorial of 30?",
        "use factorial\nn = 30",
    ),
    (
        "none",
        "What date is 45 days after 2023-11-20?",
        "build date_after_days: Add a number of days to a date\ndate = \"2023-11-20\"\ndays = 45",
    ),
    (
        "- to_binary(n: number): Convert a whole number to binary",
        "Replace every a with o in banana",
        "build replace_letter: Replace every occurrence of a letter in a text\ntext = \"banana\"\nfrom = \"a\"\nto = \"o\"",
    ),
    ("none", "你好，你是谁？", "chat"),
    (
        "none",
        "Add up the second column:\nred;10\nblue;32",
        "build sum_column: Add up one column of delimited text\ntext = \"red;10\\nblue;32\"\ncolumn = 2\nseparator = \";\"",
    ),
    ("none", "Is 2024 a leap year?", "build is_leap_year: Tell whether a year is a leap year\nyear = 2024"),
    (
        "none",
        "Does the word abracadabra begin and end with the same letter?",
        "build same_ends: Tell whether a word begins and ends with the same letter\nword = \"abracadabra\"",
    ),
    ("none", "How many kilometres are 26.2 miles?", "build miles_to_km: Convert miles to kilometres\nmiles = 26.2"),
    ("none", "写一首关于春天的短诗", "chat"),
    (
        "- miles_to_km(miles: number): Convert miles to kilometres",
        "Earlier: How many kilometres are 26.2 miles? → 42.1648128\nRequest: and 3.5?",
        "use miles_to_km\nmiles = 3.5",
    ),
    ("none", "Write 58 in words", "build number_to_words: Write a whole number in English words\nn = 58"),
    ("none", "How do you say good morning in Spanish?", "chat"),
    ("none", "Explain photosynthesis in one sentence.", "chat"),
    (
        "- average(numbers: number[]): Compute the average of a list of numbers",
        "What is the largest of 4, 8 and 15?",
        "build largest: Find the largest of a list of numbers\nnumbers = [4, 8, 15]",
    ),
    (
        "none",
        "What is the average of 4, 8 and 15?",
        "build average: Compute the average of a list of numbers\nnumbers = [4, 8, 15]",
    ),
];

const CHAT: &str = "You are jarvis, a helpful assistant that runs on this computer and grows its own tools: asked \
to compute, convert, count or transform something, you write a small tool, prove it in a sandbox and keep it. Answer \
briefly and honestly, in the language of the person. You have no access to the internet.";

const CHAT_ZH: &str = "你是 jarvis，一个在这台电脑上运行、会自己造工具的助手：需要计算、转换、计数或处理文本时，\
你会写一个小工具，在沙箱里验证，然后保留下来。用中文回答，简短、诚实。你不能访问互联网。";

/// A small model answers in the language of its instructions, so they follow the person's.
pub(crate) fn chat(request: &str) -> &'static str {
    if is_chinese(request) { CHAT_ZH } else { CHAT }
}

pub(crate) fn now(request: &str, now: &str) -> String {
    if is_chinese(request) { format!("现在是 {now}。") } else { format!("It is now {now}.") }
}

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

fn task(tools: &str, request: &str) -> String {
    // A request that goes on from an earlier one brings its own lines.
    let label = if request.starts_with(EARLIER) { "" } else { "Request: " };
    format!("Tools: {tools}\n{label}{request}")
}

const EARLIER: &str = "Earlier: ";
/// Characters of the earlier question and of its answer that are shown.
const EARLIER_CHARS: usize = 200;

/// `request` with the exchange before it, where there is one.
pub(crate) fn in_context(request: &str, earlier: Option<(&str, &str)>) -> String {
    let Some((question, answer)) = earlier else { return request.to_owned() };
    let line = |text: &str| -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(EARLIER_CHARS).collect()
    };
    format!("{EARLIER}{} → {}\nRequest: {request}", line(question), line(answer))
}

pub(crate) fn decision(request: &str, known: &[Capability]) -> Vec<Message> {
    let mut messages = vec![Message::system(SYSTEM)];
    for (tools, request, decision) in SHOTS {
        messages.push(Message::user(shot(tools, request)));
        messages.push(Message::assistant(decision));
    }
    let tools = if known.is_empty() {
        "none".to_owned()
    } else {
        known.iter().map(|k| format!("\n- {}: {}", signature(k), k.capability)).collect::<String>()
    };
    messages.push(Message::user(task(&tools, request)));
    messages
}

/// Asks for the decision once more, with what was wrong.
pub(crate) fn again(problem: &str) -> String {
    format!("No: {problem}. Write it again, with every value of the request as an input.")
}

fn shot(tools: &str, request: &str) -> String {
    if tools == "none" { task(tools, request) } else { task(&format!("\n{tools}"), request) }
}

fn signature(known: &Capability) -> String {
    let typed: Vec<String> =
        known.takes().iter().map(|p| format!("{}: {}", p.name, typescript_type(p.schema))).collect();
    format!("{}({})", known.name, typed.join(", "))
}
