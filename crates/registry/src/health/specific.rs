//! Capabilities that were written for one value: a city, a currency, a file in the code, of which their own description
//! speaks, and which no argument can change.

use super::words::{Form, form, given, is_ordinary, number, parts, scalars, speaks_of};
use super::{Source, Subject};
use jarvis_protocol::{Capability, CapabilityName, request_value};

/// So many values of one form in the code are a table, in which any of them may stand.
const TABLE: usize = 5;

/// Where a value stands beside the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Name,
    Sentence,
    Trigger,
    /// The only value that an argument has in any recorded call.
    Example,
}

impl Place {
    pub fn as_str(self) -> &'static str {
        match self {
            Place::Name => "name",
            Place::Sentence => "sentence",
            Place::Trigger => "trigger",
            Place::Example => "example",
        }
    }
}

/// A value that should be a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specific {
    pub name: CapabilityName,
    pub value: String,
    pub found_in: Vec<Place>,
}

pub fn specific(subjects: &[Subject]) -> Vec<Specific> {
    subjects.iter().filter(|s| s.is_active()).flat_map(of_one).collect()
}

fn of_one(subject: &Subject) -> Vec<Specific> {
    let Some(source) = subject.sound() else { return Vec::new() };
    let capability = &subject.capability;
    let mut found: Vec<Specific> = Vec::new();
    // The name of a capability that is called could be no parameter.
    for literal in source.literals.iter().filter(|literal| !source.calls.contains(literal)) {
        for value in parts(literal) {
            let Some(form) = form(value) else { continue };
            if found.iter().any(|f| f.value == value) || is_table(source, form) {
                continue;
            }
            let found_in = places(capability, value, form);
            if !found_in.is_empty() {
                found.push(Specific { name: capability.name.clone(), value: value.to_owned(), found_in });
            }
        }
    }
    found.extend(percentage(capability, source));
    found.extend(asked_once(capability, source).filter(|once| !found.iter().any(|f| f.value == once.value)));
    found
}

/// Without parameters: a date or a text in quotes that the sentence names and the code knows.
fn asked_once(capability: &Capability, source: &Source) -> Option<Specific> {
    let value = request_value(&capability.capability).filter(|value| number(value).is_none())?;
    let written = source.literals.iter().any(|literal| literal.trim() == value);
    (capability.takes().is_empty() && written).then(|| Specific {
        name: capability.name.clone(),
        value: value.to_owned(),
        found_in: vec![Place::Sentence],
    })
}

fn is_table(source: &Source, of: Form) -> bool {
    // Numbers are no table for being many: loops and formulas are full of them.
    of != Form::Number && source.literals.iter().filter(|l| form(l) == Some(of)).count() >= TABLE
}

fn places(capability: &Capability, value: &str, form: Form) -> Vec<Place> {
    if only_value(capability, value) {
        return vec![Place::Example];
    }
    if carried(capability, value) {
        return Vec::new();
    }
    if form == Form::Number && !telling_number(capability, value) {
        return Vec::new();
    }
    let mut places = Vec::new();
    let in_name = form != Form::Number && capability.name.as_str().split('_').any(|word| word == value.to_lowercase());
    if in_name {
        places.push(Place::Name);
    }
    if speaks_of(&capability.capability, value, form) {
        places.push(Place::Sentence);
    }
    if capability.triggers.iter().any(|trigger| speaks_of(trigger, value, form)) {
        places.push(Place::Trigger);
    }
    places
}

/// Without any parameter even a round number is what somebody once asked for.
fn telling_number(capability: &Capability, value: &str) -> bool {
    number(value).is_some_and(|n| if capability.takes().is_empty() { n >= 3.0 } else { !is_ordinary(n) })
}

/// Does an argument carry this value already, or is it a result that has a name?
fn carried(capability: &Capability, value: &str) -> bool {
    let mut known = given(capability);
    scalars(&capability.parameters, &mut known);
    let answers = capability.examples.iter().filter_map(|example| example.returns.as_ref());
    known.extend(answers.filter_map(|answer| answer.as_str().map(str::to_owned)));
    known.iter().any(|text| text == value)
}

/// Is it what some argument is in every recorded call, with the code knowing this value alone?
fn only_value(capability: &Capability, value: &str) -> bool {
    if number(value).is_some() || in_schema(capability, value) {
        return false;
    }
    capability.takes().iter().any(|parameter| {
        let mut values = capability.examples.iter().filter_map(|example| example.args.get(parameter.name)).peekable();
        values.peek().is_some() && values.all(|given| given.as_str() == Some(value))
    })
}

fn in_schema(capability: &Capability, value: &str) -> bool {
    let mut known = Vec::new();
    scalars(&capability.parameters, &mut known);
    known.iter().any(|text| text == value)
}

/// `Adds 19% tax` with `* 0.19` or `* 1.19` in the code.
fn percentage(capability: &Capability, source: &Source) -> Option<Specific> {
    let sentence = &capability.capability;
    let (before, _) = sentence.split_once(['%', '％']).or_else(|| sentence.split_once(" percent"))?;
    let digits = before.trim_end().rsplit(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
    let percent: f64 = digits.parse().ok()?;
    let near =
        |n: f64| [percent / 100.0, 1.0 + percent / 100.0, 1.0 - percent / 100.0].iter().any(|w| (w - n).abs() < 1e-9);
    let written = source.literals.iter().any(|literal| number(literal).is_some_and(near));
    let given = given(capability).iter().any(|text| text.parse::<f64>().ok() == Some(percent));
    (written && !given && percent > 0.0).then(|| Specific {
        name: capability.name.clone(),
        value: format!("{digits}%"),
        found_in: vec![Place::Sentence],
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::subject;
    use super::*;
    use jarvis_protocol::Example;
    use serde_json::{Value, json};

    fn found(subject: Subject) -> Vec<(String, Vec<&'static str>)> {
        specific(&[subject])
            .into_iter()
            .map(|s| (s.value, s.found_in.into_iter().map(Place::as_str).collect()))
            .collect()
    }

    fn example(mut subject: Subject, args: Value, returns: Value) -> Subject {
        let example = serde_json::from_value::<Example>(json!({"args": args, "returns": returns})).unwrap();
        subject.capability.examples.push(example);
        subject
    }

    #[test]
    fn a_city_a_currency_a_file_and_a_path_in_the_code_are_found() {
        let url = "https://wttr.example/Berlin?format=j1";
        assert_eq!(
            found(subject("weather_berlin", "Tells the weather in Berlin.", &[], "", &[url, "temp"])),
            [("Berlin".to_owned(), vec!["name", "sentence"])]
        );
        let mut beijing = subject("weather_now", "查询北京的天气。", &[], "", &["北京"]);
        beijing.capability.triggers = vec!["北京今天冷不冷".to_owned()];
        assert_eq!(found(beijing), [("北京".to_owned(), vec!["sentence", "trigger"])]);
        let money =
            subject("to_euros", "Converts an amount of USD to euros.", &[("amount", "number")], "", &["USD", "EUR"]);
        assert_eq!(found(money), [("USD".to_owned(), vec!["sentence"])]);
        let file =
            subject("sum_sales", "Adds up the sales in report.csv.", &[("column", "string")], "", &["report.csv", ","]);
        assert_eq!(found(file), [("report.csv".to_owned(), vec!["sentence"])]);
    }

    #[test]
    fn a_number_that_was_asked_for_once_is_found() {
        let tax = subject("add_tax", "Adds 19% tax to a price.", &[("price", "number")], "", &["1.19"]);
        assert_eq!(found(tax), [("19%".to_owned(), vec!["sentence"])]);
        let primes = subject("sum_primes", "Adds up the first 100 primes.", &[], "", &["100", "2"]);
        assert_eq!(found(primes), [("100".to_owned(), vec!["sentence"])]);
        let year =
            subject("days_since", "Counts the days since 1776.", &[("today", "string")], "", &["1776", "86400000"]);
        assert_eq!(found(year), [("1776".to_owned(), vec!["sentence"])]);
    }

    #[test]
    fn a_date_or_a_text_that_was_asked_for_once_is_found() {
        let once = subject("days_since", "Counts the days since 2024-02-10.", &[], "", &["2024-02-10", "86400000"]);
        assert_eq!(found(once), [("2024-02-10".to_owned(), vec!["sentence"])]);
        assert_eq!(found(subject("back", "把「上海自来水」倒过来。", &[], "", &["上海自来水"])).len(), 1);
        let quoted = subject("back", "Reverses \"hello\".", &[], "", &["hello"]);
        assert_eq!(found(quoted), [("hello".to_owned(), vec!["sentence"])]);
    }

    #[test]
    fn an_argument_that_the_code_knows_one_value_of_is_found() {
        let rate = subject("rate", "Tells a rate.", &[("currency", "string")], "", &["CHF", "unknown"]);
        assert_eq!(
            found(example(rate, json!({"currency": "CHF"}), json!(1.05))),
            [("CHF".to_owned(), vec!["example"])]
        );
    }

    #[test]
    fn ordinary_constants_tables_labels_and_values_that_arguments_carry_are_no_alarm() {
        let n = [("n", "number")];
        let text = [("text", "string")];
        let quiet = [
            subject("halve", "Divides a number by 2.", &n, "", &["2"]),
            subject("percent_of", "Gives a share in percent, 100 for all.", &n, "", &["100"]),
            subject("to_bytes", "Encodes a text as utf-8 bytes.", &text, "", &["utf-8", "UTF-8"]),
            subject("circle_area", "The area of a circle, by π = 3.14159.", &n, "", &["3.14159", "2"]),
            subject("sha_256", "The SHA-256 digest of a text as hex.", &text, "", &["SHA-256", "hex", "256"]),
            subject("to_json", "Turns CSV into JSON.", &text, "", &["JSON", "CSV", ",", "\n"]),
            subject("uuid", "Makes a v4 UUID.", &[], "", &["4", "-"]),
            subject("roman", "Writes a number in Roman numerals.", &n, "", &["XIV", "Not a Roman numeral", "M"]),
            subject("seconds", "Turns days into seconds, 86400 each.", &n, "", &["86400"]),
            subject("leap", "Is a year a leap year of the Gregorian calendar?", &n, "", &["400", "100", "4"]),
            subject("now", "The time now in UTC.", &[], "", &["UTC", "T"]),
            subject("shout", "Turns a text into capitals. Total silence ends.", &text, "", &["Total", "!"]),
            subject(
                "date_days",
                "计算两个日期之间的天数。",
                &[("a", "string"), ("b", "string")],
                "",
                &["天", "86400000"],
            ),
        ];
        for subject in quiet {
            let name = subject.capability.name.clone();
            assert_eq!(found(subject), [], "{name}");
        }
        let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        assert_eq!(found(subject("weekday", "Tells whether a date is a Monday.", &text, "", &days)), []);
        let convert = subject("convert", "Converts between USD and EUR.", &[("from", "string")], "", &["USD", "EUR"]);
        let convert = example(convert, json!({"from": "USD"}), json!(1));
        assert_eq!(found(example(convert, json!({"from": "EUR"}), json!(2))), []);
        let leap = subject("run_nian", "判断是不是闰年。", &n, "", &["闰年", "平年"]);
        assert_eq!(found(example(leap, json!({"n": 2024}), json!("闰年"))), []);
        let mut choice = subject("area", "Area in Hectare or Acre.", &[("unit", "string")], "", &["Hectare", "Acre"]);
        choice.capability.parameters["properties"]["unit"]["enum"] = json!(["Hectare", "Acre"]);
        assert_eq!(found(example(choice, json!({"unit": "Acre"}), json!(1))), []);
    }

    #[test]
    fn what_is_switched_off_or_edited_is_not_looked_at() {
        let mut off = subject("weather_berlin", "The weather in Berlin.", &[], "", &["Berlin"]);
        off.capability.status = jarvis_protocol::Status::Disabled;
        assert_eq!(found(off), []);
    }
}
