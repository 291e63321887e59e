//! The words with which a small model is led to one function. The first messages never change, so their state is
//! computed once and kept.

use super::Plan;
use jarvis_protocol::Message;

/// Leading messages that are the same for every request.
pub(crate) const STABLE: usize = 1 + 2 * SHOTS.len();

const SYSTEM: &str = "You write one TypeScript function that does exactly what is asked, for any values of its inputs. \
Plain TypeScript only: no imports, no packages, no network, no console. Return the result as a value. Helper functions \
go inside. Dates are handled in UTC. Whole numbers that can grow beyond 15 digits (powers, factorials, long sums, \
sequences) are computed with BigInt. Remember the edges: upper and lower case, both ends of a range, zero, text that is \
not English.";

/// `(request, function, code after the opening brace)`.
const SHOTS: [(&str, &str, &str, &str); 5] = [
    (
        "What is 25 factorial?",
        "factorial(n: number) — Compute the factorial of n exactly",
        "export default function run({ n }: { n: number }) {",
        "  let product = 1n;\n  for (let i = 2n; i <= BigInt(n); i++) product *= i;\n  return product;\n}",
    ),
    (
        "What date is 45 days after 2023-11-20?",
        "date_after_days(date: string, days: number) — Add a number of days to a date",
        "export default function run({ date, days }: { date: string, days: number }) {",
        "  const d = new Date(date + \"T00:00:00Z\");\n  d.setUTCDate(d.getUTCDate() + days);\n  return d.toISOString().slice(0, 10);\n}",
    ),
    (
        "Add up the second column:\nred;10\nblue;32",
        "sum_column(text: string, column: number, separator: string) — Add up one column of delimited text",
        "export default function run({ text, column, separator }: { text: string, column: number, separator: string }) {",
        "  const rows = text.trim().split(\"\\n\").map((line) => line.split(separator));\n  return rows.reduce((sum, row) => sum + Number(row[column - 1]), 0);\n}",
    ),
    (
        "Which word is the longest in: deep blue mountain lake",
        "longest_word(text: string) — Find the longest word of a text",
        "export default function run({ text }: { text: string }) {",
        "  const words = text.split(/\\s+/).filter((word) => word.length > 0);\n  return words.reduce((best, word) => (word.length > best.length ? word : best), \"\");\n}",
    ),
    (
        "判断 2024 年是不是闰年",
        "is_leap_year(year: number) — Tell whether a year is a leap year",
        "export default function run({ year }: { year: number }) {",
        "  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;\n}",
    ),
];

fn task(request: &str, function: &str) -> String {
    format!("Request: {request}\nFunction: {function}")
}

/// Characters of the request that the coder sees; the function is general, so a long text adds nothing.
const REQUEST_CHARS: usize = 600;

pub(crate) fn first(request: &str, plan: &Plan) -> Vec<Message> {
    let mut messages = vec![Message::system(SYSTEM)];
    for (request, function, opening, body) in SHOTS {
        messages.push(Message::user(task(request, function)));
        messages.push(Message::assistant(format!("{opening}\n{body}")));
    }
    let shown: String = request.chars().take(REQUEST_CHARS).collect();
    messages.push(Message::user(task(&shown, &format!("{} — {}", plan.signature(), plan.about))));
    messages
}

/// How the code must begin: the model cannot get the parameters wrong.
pub(crate) fn opening(plan: &Plan) -> String {
    let names = plan.input_names();
    if names.is_empty() {
        return "export default function run() {\n".to_owned();
    }
    format!("export default function run({{ {} }}: {{ {} }}) {{\n", names.join(", "), plan.typed_inputs())
}

/// The whole function; generation stops before the brace that closes it.
pub(crate) fn code_of(text: &str) -> String {
    let text = text.trim_end();
    let text = text.strip_suffix("```").map_or(text, str::trim_end);
    if text.ends_with("\n}") { format!("{text}\n") } else { format!("{text}\n}}\n") }
}

/// The function that code calls and nobody wrote, when that is what the problem is.
pub(crate) fn missing_helper(code: &str, problem: &str) -> Option<String> {
    let (_, rest) = problem.split_once("ReferenceError: ")?;
    let name = rest.split_once(" is not defined")?.0.trim().trim_matches(['\'', '`', '"']);
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && code.contains(&format!("{name}("))).then(|| name.to_owned())
}

/// Tells of the last failure only: a small model loses the thread in a long quarrel.
pub(crate) fn add_repair(conversation: &mut Vec<Message>, code: &str, problem: &str) {
    conversation.truncate(STABLE + 1);
    conversation.push(Message::assistant(code));
    conversation.push(Message::user(format!("That fails: {problem}\nWrite the function again, corrected.")));
}

#[cfg(test)]
mod tests {
    use super::missing_helper;

    #[test]
    fn a_helper_that_was_never_written_is_recognised() {
        let code = "export default function run({ n }) {\n  return isPrime(n);\n}";
        assert_eq!(missing_helper(code, "ReferenceError: isPrime is not defined (line 2)").as_deref(), Some("isPrime"));
        assert_eq!(missing_helper(code, "ReferenceError: m is not defined (line 2)"), None);
        assert_eq!(missing_helper(code, "TypeError: isPrime is not a function"), None);
    }
}
