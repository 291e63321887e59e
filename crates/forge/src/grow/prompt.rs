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

/// How a function that is begun anew begins, at the start of a line; the body of one has no such line.
const BEGINNINGS: [&str; 6] = [
    "export default function",
    "export default async function",
    "export function run",
    "export async function run",
    "function run(",
    "async function run(",
];
const FENCE: &str = "```";

/// The whole function; generation stops before the brace that closes it. Some servers do not go on after `opening` but
/// begin their reply anew, often in a fence: then that stands alone.
pub(crate) fn code_of(opening: &str, text: &str) -> String {
    let begun = opening.trim_end();
    let reply = text.trim_start().strip_prefix(begun);
    let rest = reply.unwrap_or(text);
    let code = if let Some(anew) = lines_from(rest, &BEGINNINGS) {
        unfenced(anew).to_owned()
    } else if let Some((before, helper)) = helper_begun(begun)
        && let Some(anew) = lines_from(rest, &[helper])
    {
        format!("{before}{}", unfenced(anew))
    } else if let Some(inside) = rest.trim_start().strip_prefix(FENCE) {
        // The rest of the function alone, behind a fence with the name of a language.
        let body = inside.split_once('\n').map_or(inside, |(_, body)| body);
        format!("{}{}", opening, unfenced(body))
    } else if reply.is_some() {
        unfenced(text).to_owned()
    } else {
        format!("{opening}{}", unfenced(text))
    };
    let code = code.trim_end();
    if is_closed(code) { format!("{code}\n") } else { format!("{code}\n}}\n") }
}

/// From the first line on that begins so. What is indented is part of a body, unless it is the very beginning.
fn lines_from<'a>(text: &'a str, beginnings: &[&str]) -> Option<&'a str> {
    let first = text.trim_start();
    let others = text.match_indices('\n').map(|(at, _)| &text[at + 1..]);
    std::iter::once(first).chain(others).find(|rest| beginnings.iter().any(|b| rest.starts_with(b)))
}

/// Up to the fence that closes it.
fn unfenced(text: &str) -> &str {
    text.find("\n```").map_or(text, |at| &text[..at]).trim_end().trim_end_matches(FENCE)
}

/// The code before a helper that is to be written, and the beginning of that.
fn helper_begun(opening: &str) -> Option<(&str, &str)> {
    let at = opening.rfind("\n\nfunction ")? + 2;
    opening.ends_with('(').then(|| opening.split_at(at))
}

fn is_closed(code: &str) -> bool {
    let count = |brace: char| code.matches(brace).count();
    code.ends_with("\n}") || code.ends_with('}') && count('{') == count('}')
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
    use super::{code_of, missing_helper};

    const OPENING: &str = "export default function run({ n }: { n: number }) {\n";
    const WHOLE: &str = "export default function run({ n }: { n: number }) {\n  return n * 2;\n}\n";

    #[test]
    fn a_reply_that_goes_on_begins_anew_or_is_fenced_is_one_function() {
        let joined = [
            // Gone on, as asked; with a fence at its end; closed by itself.
            "  return n * 2;",
            "  return n * 2;\n}\n```\nThis doubles `n`.",
            // The same again, bare, in a fence, after words, and cut off before its last brace.
            WHOLE,
            &format!("```typescript\n{WHOLE}```"),
            &format!("```ts\n{WHOLE}```\nIt doubles."),
            &format!("Here is the corrected function:\n\n```typescript\n{}", WHOLE.trim_end().trim_end_matches("\n}")),
            &format!("\n\nHere it is:\n{WHOLE}"),
            // The rest alone in a fence.
            "```typescript\n  return n * 2;\n}\n```",
        ];
        for reply in joined {
            assert_eq!(code_of(OPENING, &format!("{OPENING}{reply}")), WHOLE, "{reply}");
        }
        // Without what it was given: another sample, or a server that repeats.
        for reply in ["  return n * 2;\n}", WHOLE, &format!("```typescript\n{WHOLE}```")] {
            assert_eq!(code_of(OPENING, reply), WHOLE, "{reply}");
        }
        let other = "function run(args) { return '```' + args.n; }";
        assert_eq!(code_of(OPENING, &format!("{OPENING}{other}")), format!("{other}\n"));
    }

    #[test]
    fn a_helper_that_is_begun_anew_is_put_behind_the_code_that_calls_it() {
        let code = "export default function run({ n }) {\n  return isPrime(n);\n}";
        let opening = format!("{code}\n\nfunction isPrime(");
        let wanted = format!("{code}\n\nfunction isPrime(n) {{\n  return n > 1;\n}}\n");
        for reply in [
            "n) {\n  return n > 1;",
            "function isPrime(n) {\n  return n > 1;",
            "```js\nfunction isPrime(n) {\n  return n > 1;\n}\n```",
        ] {
            assert_eq!(code_of(&opening, &format!("{opening}{reply}")), wanted, "{reply}");
        }
        assert_eq!(code_of(&opening, &format!("{opening}```ts\n{WHOLE}```")), WHOLE);
    }

    #[test]
    fn a_helper_that_was_never_written_is_recognised() {
        let code = "export default function run({ n }) {\n  return isPrime(n);\n}";
        assert_eq!(missing_helper(code, "ReferenceError: isPrime is not defined (line 2)").as_deref(), Some("isPrime"));
        assert_eq!(missing_helper(code, "ReferenceError: m is not defined (line 2)"), None);
        assert_eq!(missing_helper(code, "TypeError: isPrime is not a function"), None);
    }
}
