//! Code without its values: what two pieces of code have in common, and in which values they differ. A lexical scan,
//! the same for TypeScript and Python: a regular expression that holds a quote may be read as the beginning of a text
//! up to the end of its line, which can hide siblings and never invents any.

use super::Subject;
use super::words::number;
use crate::{SIMILAR, similarity};
use jarvis_protocol::{CapabilityName, Runtime};
use std::collections::{BTreeMap, BTreeSet};

/// Code with each value replaced by a mark, and the values in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skeleton {
    pub form: String,
    pub values: Vec<String>,
}

/// Shorter code is alike by accident.
const TELLING: usize = 40;

/// Capabilities whose code differs in nothing but written-in values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Siblings {
    pub names: Vec<CapabilityName>,
    /// For each place where they differ: its value in each of `names`.
    pub differ: Vec<Vec<String>>,
}

/// Active capabilities that would be one, if the values in which they differ were parameters.
pub fn siblings(subjects: &[Subject]) -> Vec<Siblings> {
    let mut by_form: BTreeMap<(Language, String), Vec<Valued<'_>>> = BTreeMap::new();
    for subject in subjects.iter().filter(|s| s.is_active()) {
        let Some(source) = subject.sound() else { continue };
        let skeleton = skeleton(&source.text, subject.capability.runtime);
        if skeleton.form.len() >= TELLING {
            let key = (Language::of(subject.capability.runtime), skeleton.form);
            by_form.entry(key).or_default().push((subject, skeleton.values));
        }
    }
    by_form.into_values().filter_map(|alike| differing(&alike)).collect()
}

/// A capability and the values in its code.
type Valued<'a> = (&'a Subject, Vec<String>);

fn differing(alike: &[Valued<'_>]) -> Option<Siblings> {
    // The same code twice is a duplicate, and no sibling.
    let mut seen = BTreeSet::new();
    let alike: Vec<_> = alike.iter().filter(|(_, values)| seen.insert(values.clone())).collect();
    let (_, first) = alike.first()?;
    let places: Vec<usize> =
        (0..first.len()).filter(|at| alike.iter().any(|(_, values)| values.get(*at) != first.get(*at))).collect();
    if alike.len() < 2 || places.is_empty() || places.len() * 2 > first.len().max(2) {
        return None;
    }
    let value = |values: &[String], at: usize| values.get(at).cloned().unwrap_or_default();
    // Two formulas can differ in a factor and be about quite different things; texts that differ name what they are about.
    let numbers = places.iter().all(|at| alike.iter().all(|(_, values)| number(&value(values, *at)).is_some()));
    let same_meaning = |pair: &[&Valued<'_>]| match pair {
        [a, b] => similarity(&a.0.capability, &b.0.capability) >= SIMILAR,
        _ => true,
    };
    if numbers && !alike.windows(2).all(same_meaning) {
        return None;
    }
    Some(Siblings {
        names: alike.iter().map(|(subject, _)| subject.capability.name.clone()).collect(),
        differ: places.iter().map(|at| alike.iter().map(|(_, values)| value(values, *at)).collect()).collect(),
    })
}

/// Which languages are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Language {
    Script,
    Python,
}

impl Language {
    fn of(runtime: Runtime) -> Self {
        match runtime {
            Runtime::Typescript | Runtime::Deno => Language::Script,
            Runtime::Python => Language::Python,
        }
    }
}

pub(crate) fn skeleton(code: &str, runtime: Runtime) -> Skeleton {
    let mut scan = Scan { rest: code, form: String::new(), values: Vec::new(), python: runtime == Runtime::Python };
    while scan.step() {}
    Skeleton { form: scan.form.trim().to_owned(), values: scan.values }
}

/// The values written into code, by the same scan: for code that its own parser cannot be asked about now.
pub fn written_values(code: &str, runtime: Runtime) -> Vec<String> {
    skeleton(code, runtime).values
}

struct Scan<'a> {
    rest: &'a str,
    form: String,
    values: Vec<String>,
    python: bool,
}

impl Scan<'_> {
    /// Reads one piece; false at the end.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest.chars().next() else { return false };
        let line_comment = if self.python { "#" } else { "//" };
        if next.is_whitespace() {
            self.take(self.rest.len() - self.rest.trim_start().len());
            if !self.form.ends_with(' ') {
                self.form.push(' ');
            }
        } else if self.rest.starts_with(line_comment) {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if !self.python && self.rest.starts_with("/*") {
            self.take(self.rest.find("*/").map_or(self.rest.len(), |at| at + 2));
        } else if let Some(quote) = self.quote(next) {
            self.text(quote);
        } else if next.is_ascii_digit() {
            let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
            let number = self.take(end.unwrap_or(self.rest.len())).replace('_', "");
            self.value(number);
        } else if next.is_alphanumeric() || next == '_' || next == '$' {
            let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
            let word = self.take(end.unwrap_or(self.rest.len()));
            self.form.push_str(&word);
        } else {
            self.take(next.len_utf8());
            self.form.push(next);
        }
        true
    }

    fn quote(&self, next: char) -> Option<&'static str> {
        match next {
            '"' if self.python && self.rest.starts_with("\"\"\"") => Some("\"\"\""),
            '\'' if self.python && self.rest.starts_with("'''") => Some("'''"),
            '"' => Some("\""),
            '\'' => Some("'"),
            '`' if !self.python => Some("`"),
            _ => None,
        }
    }

    /// A text up to its quote; one that does not go over lines ends with its line at the latest.
    fn text(&mut self, quote: &'static str) {
        self.take(quote.len());
        let over_lines = quote.len() > 1 || quote == "`";
        let (mut end, mut escaped) = (self.rest.len(), false);
        for (at, c) in self.rest.char_indices() {
            if !escaped && self.rest[at..].starts_with(quote) || c == '\n' && !over_lines {
                end = at;
                break;
            }
            escaped = c == '\\' && !escaped;
        }
        let text = self.take(end);
        if self.rest.starts_with(quote) {
            self.take(quote.len());
        }
        if quote == "`" { self.template(&text) } else { self.value(text) }
    }

    /// Of a template the written parts are values, and what it puts in is form.
    fn template(&mut self, text: &str) {
        let mut rest = text;
        while let Some((written, tail)) = rest.split_once("${") {
            self.value(written.to_owned());
            let (inside, after) = tail.split_once('}').unwrap_or((tail, ""));
            self.form.push_str(&format!("{{{}}}", inside.trim()));
            rest = after;
        }
        self.value(rest.to_owned());
    }

    fn value(&mut self, value: String) {
        // Which capability is called is what the code does, and could be no parameter.
        if self.is_called() {
            self.form.push_str(&format!("'{value}'"));
            return;
        }
        self.form.push('§');
        self.values.push(value);
    }

    /// Does the form end with `capability(` or `ctx.call(`?
    fn is_called(&self) -> bool {
        let Some(before) = self.form.trim_end().strip_suffix('(') else { return false };
        let word = before.trim_end().rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).next();
        matches!(word, Some("capability" | "call"))
    }

    fn take(&mut self, bytes: usize) -> String {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::subject;
    use super::*;

    const WEATHER: &str = "export default async function run() {
  const page = await fetch('https://wttr.example/Berlin?format=j1'); // of today
  return (await page.json()).current[0].temp;
}";

    #[test]
    fn values_and_comments_are_no_part_of_the_form() {
        let a = skeleton(WEATHER, Runtime::Typescript);
        let b = skeleton(&WEATHER.replace("Berlin", "北京").replace("// of today", "/* now */"), Runtime::Typescript);
        assert_eq!(a.form, b.form);
        assert_eq!(a.values, ["https://wttr.example/Berlin?format=j1", "0"]);
        let code = "def run(args):\n  # it's fine\n  return \"it's\" + '''a\nb''' + str(1_000)\n";
        assert_eq!(skeleton(code, Runtime::Python).values, ["it's", "a\nb", "1000"]);
        let code = "return `https://x/${city}/a` + 'don\\'t' + \"\\\\\"";
        let read = skeleton(code, Runtime::Typescript);
        assert_eq!(read.values, ["https://x/", "/a", "don\\'t", "\\\\"]);
        assert!(read.form.contains("{city}"), "{}", read.form);
    }

    #[test]
    fn code_that_differs_in_values_alone_is_found_and_code_that_differs_otherwise_is_not() {
        let city = |of: &str, name: &str| subject(of, "Tells the weather.", &[], &WEATHER.replace("Berlin", name), &[]);
        let other =
            subject("word_count", "Counts words.", &[], "export default ({ text }) => text.split(' ').length", &[]);
        let found = siblings(&[city("weather_berlin", "Berlin"), other, city("weather_beijing", "北京")]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].names.iter().map(CapabilityName::as_str).collect::<Vec<_>>(),
            ["weather_berlin", "weather_beijing"]
        );
        assert_eq!(found[0].differ, [["https://wttr.example/Berlin?format=j1", "https://wttr.example/北京?format=j1"]]);
        assert!(siblings(&[city("weather_berlin", "Berlin"), city("weather_again", "Berlin")]).is_empty());
    }

    #[test]
    fn names_of_called_capabilities_are_no_values() {
        let code = |call: &str, name: &str, unit: &str| {
            format!("export default async ({{ a, b }}, ctx) => Number(await {call}('{name}', {{ a, b }})) + '{unit}'")
        };
        for call in ["capability", "ctx.call", "globalThis.capability"] {
            let made = |of: &str, name: &str, unit: &str| subject(of, "Rounds.", &[], &code(call, name, unit), &[]);
            assert!(
                siblings(&[made("round_sum", "sum", "km"), made("round_power", "power", "km")]).is_empty(),
                "{call}"
            );
            let found = siblings(&[made("round_sum", "sum", "km"), made("round_more", "sum", "miles")]);
            assert_eq!(found[0].differ, [["km", "miles"]], "{call}");
        }
        let python = "def run(args, ctx):\n  return capability( \"sum\", args) + 'x'\n";
        assert_eq!(skeleton(python, Runtime::Python).values, ["x"]);
    }

    #[test]
    fn two_formulas_of_one_shape_are_no_siblings() {
        let code =
            |a: &str, b: &str| format!("export default function run({{ value }}) {{ return value * {a} + {b}; }}");
        let to_f = subject("to_fahrenheit", "Converts Celsius.", &[("value", "number")], &code("1.8", "32"), &[]);
        let to_k = subject("to_reaumur", "Converts Kelvin.", &[("value", "number")], &code("0.8", "7"), &[]);
        assert!(siblings(&[to_f, to_k]).is_empty(), "all of its values differ: nothing is common but the shape");
        let times = |of: &str, says: &str, factor: &str| {
            let code = format!("export default function run({{ value }}) {{ return value * {factor}; }}");
            subject(of, says, &[("value", "number")], &code, &[])
        };
        let miles = times("km_to_miles", "Converts kilometres to miles.", "0.621371");
        let pounds = times("kg_to_pounds", "Gives the weight of a mass in pounds.", "2.20462");
        assert!(siblings(&[miles, pounds]).is_empty(), "another meaning");
        let vat = |percent: &str, factor: &str| {
            times(&format!("add_vat_{percent}"), "Adds value added tax to a price.", factor)
        };
        assert_eq!(siblings(&[vat("seven", "1.07"), vat("nineteen", "1.19")])[0].differ, [["1.07", "1.19"]]);
    }
}
