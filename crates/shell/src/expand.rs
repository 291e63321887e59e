//! From words to arguments: braces, tilde, variables, splitting. A word with several possible values gives several.

use crate::listing;
use crate::paths::{Paths, UNKNOWN};
use crate::state::{State, Text, Value, known};
use crate::tree::{Param, ParamOp, Piece, Quoting, Word};

/// Combinations of one command's words that are judged one by one.
const MAX_INSTANCES: usize = 24;
const MAX_ALTERNATIVES: usize = 64;
const MAX_BRACES: usize = 24;
const MAX_BRACE_WORDS: usize = 256;
const MAX_ARGS: usize = 4096;
const MAX_ARG_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Arg {
    /// Without quotes; `UNKNOWN` stands for a part that cannot be told.
    pub text: String,
    /// No part is unknown.
    pub known: bool,
    /// It stands for the names that match it.
    pub glob: bool,
    /// A part of it is cut out of a path (`${HOME%/*}/x`), so that where it leads cannot be told.
    pub cut: bool,
}

impl Arg {
    pub fn new(text: impl Into<String>) -> Arg {
        Arg { text: text.into(), known: true, glob: false, cut: false }
    }

    pub fn unknown() -> Arg {
        Arg { text: UNKNOWN.to_string(), known: false, glob: false, cut: false }
    }

    pub fn shown(&self) -> String {
        self.text.replace(UNKNOWN, "…")
    }

    /// The same argument with other text, as unknown or glob as before.
    pub fn with(&self, text: impl Into<String>) -> Arg {
        Arg { text: text.into(), ..self.clone() }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub state: &'a State,
    pub paths: &'a Paths,
}

#[derive(Clone)]
enum Unit<'a> {
    Plain(char),
    Quoted(char),
    /// `''`: no text, but an argument.
    Empty,
    Piece(&'a Piece),
}

/// A partly built list of arguments.
#[derive(Clone, Default)]
struct Partial {
    done: Vec<Arg>,
    open: Option<Arg>,
}

impl Partial {
    fn open(&mut self) -> &mut Arg {
        self.open.get_or_insert_with(|| Arg::new(""))
    }

    fn close(&mut self) {
        self.done.extend(self.open.take());
    }

    fn push(&mut self, c: char) {
        let arg = self.open();
        if arg.text.len() < MAX_ARG_BYTES {
            arg.text.push(c);
        } else {
            arg.known = false;
        }
    }

    fn unknown(&mut self) {
        self.push(UNKNOWN);
        self.open().known = false;
    }

    fn value(&mut self, value: &Value, quoting: Quoting, splits: bool) {
        let Some(value) = value else { return self.unknown() };
        if quoting == Quoting::Quoted {
            let arg = self.open();
            arg.glob |= value.glob;
            value.text.chars().for_each(|c| self.push(c));
            return;
        }
        if !splits && !value.text.is_empty() {
            return self.unknown();
        }
        for c in value.text.chars() {
            if matches!(c, ' ' | '\t' | '\n') {
                self.close();
            } else {
                self.push(c);
                self.open().glob |= matches!(c, '*' | '?' | '[') || value.glob;
            }
        }
    }
}

impl Env<'_> {
    /// Every list of arguments the words can become.
    pub fn instances(&self, words: &[Word]) -> Vec<Vec<Arg>> {
        let mut all: Vec<Vec<Vec<Arg>>> = Vec::new();
        let mut size = 0;
        for word in words {
            if size > MAX_ARGS {
                all.push(vec![vec![Arg::unknown()]]);
                break;
            }
            let alternatives = self.alternatives(word);
            size += alternatives.iter().map(Vec::len).max().unwrap_or(0);
            all.push(alternatives);
        }
        let mut product = 1usize;
        for alternatives in &all {
            product = product.saturating_mul(alternatives.len().max(1));
        }
        let mut instances = vec![Vec::new()];
        if product <= MAX_INSTANCES {
            for alternatives in all {
                if let [only] = alternatives.as_slice() {
                    instances.iter_mut().for_each(|instance| instance.extend_from_slice(only));
                    continue;
                }
                instances = instances
                    .iter()
                    .flat_map(|start| alternatives.iter().map(move |more| [start.as_slice(), more].concat()))
                    .collect();
            }
        } else {
            // Too many to try: each program once with the first values, once with all values of every word.
            let firsts = all.iter().skip(1).flat_map(|a| a.first().cloned().unwrap_or_default());
            let every = all.iter().skip(1).flat_map(|a| a.iter().flatten().cloned());
            let tails: [Vec<Arg>; 2] = [firsts.collect(), every.collect()];
            let heads = all.first().cloned().unwrap_or_default();
            instances = heads.iter().flat_map(|h| tails.iter().map(move |t| [h.as_slice(), t].concat())).collect();
        }
        for instance in &mut instances {
            if instance.len() > MAX_ARGS {
                instance.truncate(MAX_ARGS);
                instance.push(Arg::unknown());
            }
        }
        instances
    }

    /// Every list of arguments one word can become, without repetition.
    pub fn alternatives(&self, word: &Word) -> Vec<Vec<Arg>> {
        let Some(braced) = braces(units(&word.pieces)) else { return vec![vec![Arg::unknown()]] };
        let mut lists = vec![Vec::new()];
        for units in braced {
            let more = self.fields(&units, true);
            if lists.len() * more.len() > MAX_ALTERNATIVES {
                return vec![vec![Arg::unknown()]];
            }
            lists = lists.iter().flat_map(|l| more.iter().map(move |m| [l.as_slice(), m].concat())).collect();
        }
        lists.dedup();
        lists
    }

    /// The values of a word that is not split: assignments, targets of redirections, patterns of `${…}`.
    pub fn values(&self, word: &Word) -> Vec<Value> {
        let lists = self.fields(&units(&word.pieces), false);
        let value = |list: &Vec<Arg>| match list.as_slice() {
            [] => known(""),
            [arg] if arg.known => known(&arg.text).map(|t| Text { glob: arg.glob && has_loop_glob(word), ..t }),
            _ => None,
        };
        lists.iter().map(value).collect()
    }

    /// What an assignment holds that is not followed: the elements of an array, and a path that is cut.
    pub fn elements(&self, word: &Word) -> Vec<Arg> {
        let arrays = word.pieces.iter().filter_map(|p| if let Piece::Array(words) = p { Some(words) } else { None });
        let elements = arrays.flatten().flat_map(|w| self.alternatives(w)).flatten();
        elements.chain(self.unsplit(word).into_iter().filter(|a| a.cut)).collect()
    }

    /// The argument a word that is not split becomes, in each of its values.
    pub fn unsplit(&self, word: &Word) -> Vec<Arg> {
        self.fields(&units(&word.pieces), false).into_iter().map(|l| l.into_iter().next().unwrap_or_default()).collect()
    }

    fn fields(&self, units: &[Unit], splits: bool) -> Vec<Vec<Arg>> {
        let mut partials = vec![Partial::default()];
        let units = self.tilde(units, &mut partials[0]);
        for unit in units {
            match unit {
                Unit::Plain(c) => partials.iter_mut().for_each(|p| {
                    p.push(*c);
                    p.open().glob |= matches!(c, '*' | '?' | '[');
                }),
                Unit::Quoted(c) => partials.iter_mut().for_each(|p| p.push(*c)),
                Unit::Empty => partials.iter_mut().for_each(|p| {
                    p.open();
                }),
                Unit::Piece(piece) => {
                    if let Some(arguments) = self.all_arguments(piece) {
                        for (i, argument) in arguments.iter().enumerate() {
                            for partial in &mut partials {
                                if i > 0 {
                                    partial.close();
                                }
                                partial.value(argument, Quoting::Quoted, true);
                            }
                        }
                        continue;
                    }
                    if self.cuts(piece, units) {
                        partials.iter_mut().for_each(|p| p.open().cut = true);
                    }
                    let (mut values, quoting) = self.piece_values(piece);
                    let quoting = if splits { quoting } else { Quoting::Quoted };
                    values.dedup();
                    if partials.len() * values.len() > MAX_ALTERNATIVES {
                        // Mostly unset variables as padding: taken as empty, but not as known.
                        for partial in &mut partials {
                            if let Some(value) = values.iter().flatten().next() {
                                partial.value(&Some(value.clone()), quoting, !self.state.splits_strangely);
                            }
                            partial.open().known = false;
                        }
                        continue;
                    }
                    partials = partials
                        .iter()
                        .flat_map(|partial| {
                            values.iter().map(move |value| {
                                let mut partial = partial.clone();
                                if quoting == Quoting::Quoted {
                                    partial.open();
                                }
                                partial.value(value, quoting, !self.state.splits_strangely);
                                partial
                            })
                        })
                        .collect();
                }
            }
        }
        partials
            .into_iter()
            .map(|mut p| {
                p.close();
                p.done
            })
            .collect()
    }

    /// Whether the piece is a part of a value, by an operator that is not followed, in a word that is a path.
    fn cuts(&self, piece: &Piece, units: &[Unit]) -> bool {
        let Piece::Param(param, _) = piece else { return false };
        let cut = match &param.op {
            // The name without its folder, and all elements of an array, are no path cut short.
            ParamOp::Other(op) => !op.as_plain().is_some_and(|op| op == "##*/" || op.starts_with('[')),
            ParamOp::TrimEnd(_) => self.param(param).contains(&None),
            _ => false,
        };
        let slash = |v: &Value| v.as_ref().is_some_and(|t| t.text.contains('/'));
        cut && (self.variable(&param.name).iter().any(slash)
            || units.iter().any(|u| matches!(u, Unit::Plain('/') | Unit::Quoted('/'))))
    }

    /// A leading `~` or `~user`, which becomes part of `partial`; returns the units after it.
    fn tilde<'u, 'p>(&self, units: &'u [Unit<'p>], partial: &mut Partial) -> &'u [Unit<'p>] {
        if !matches!(units.first(), Some(Unit::Plain('~'))) {
            return units;
        }
        let end = units.iter().position(|u| matches!(u, Unit::Plain('/'))).unwrap_or(units.len());
        let mut name = String::new();
        for unit in &units[..end] {
            match unit {
                Unit::Plain(c) => name.push(*c),
                _ => return units,
            }
        }
        match self.paths.absolute(&name, None) {
            Some(home) => {
                home.chars().for_each(|c| partial.push(c));
                &units[end..]
            }
            None => units,
        }
    }

    /// The arguments of the function being followed, for `"$@"` and `$*`.
    fn all_arguments(&self, piece: &Piece) -> Option<&[Value]> {
        let Piece::Param(param, _) = piece else { return None };
        if param.op != ParamOp::None || !matches!(param.name.as_str(), "@" | "*") {
            return None;
        }
        self.state.arguments.as_deref()
    }

    fn piece_values(&self, piece: &Piece) -> (Vec<Value>, Quoting) {
        match piece {
            Piece::Plain(text) | Piece::Quoted(text) => (vec![known(text)], Quoting::Quoted),
            Piece::Param(param, quoting) => (self.param(param), *quoting),
            Piece::Command(script, quoting) => match listing::output(&script.body, *self) {
                Some(text) => (vec![known(text.trim_end_matches('\n'))], *quoting),
                None => (vec![None, known("")], *quoting),
            },
            Piece::Process(_) => (vec![known("/dev/fd/63")], Quoting::Quoted),
            Piece::Number(_) => (vec![known("0")], Quoting::Quoted),
            Piece::Array(_) => (vec![None], Quoting::Quoted),
        }
    }

    fn param(&self, param: &Param) -> Vec<Value> {
        let base = self.variable(&param.name);
        let empty = |v: &Value| v.as_ref().is_none_or(|t| t.text.is_empty());
        match &param.op {
            ParamOp::None | ParamOp::Required(_) => base,
            ParamOp::Length => vec![known("0")],
            ParamOp::Other(_) => vec![None, known("")],
            ParamOp::Default(word) | ParamOp::Assign(word) => {
                let stand_in = if base.iter().any(empty) { self.values(word) } else { Vec::new() };
                let mut values: Vec<Value> =
                    base.into_iter().filter(|v| v.as_ref().is_none_or(|t| !t.text.is_empty())).collect();
                values.extend(stand_in);
                values
            }
            ParamOp::Alternate(word) => {
                let mut values = self.values(word);
                if base.iter().any(empty) {
                    values.push(known(""));
                }
                values
            }
            // What is left of the name may be any name in the same folder; a cut path may be any folder above.
            ParamOp::TrimEnd(end) => {
                let within_name = end.as_literal().is_some_and(|end| !end.contains(['/', '*', '?', '[']));
                let mut values = Vec::new();
                for value in base {
                    match value {
                        Some(t) if t.text.is_empty() => values.push(known("")),
                        Some(t) => {
                            let (folder, slash) = t.text.rsplit_once('/').map_or(("", ""), |(f, _)| (f, "/"));
                            values.push(Some(Text { text: format!("{folder}{slash}*"), glob: true }));
                            if !slash.is_empty() && !within_name {
                                values.push(None);
                            }
                        }
                        None => values.push(None),
                    }
                }
                values
            }
        }
    }

    /// What a variable can hold: what the command itself put there, else what the environment is known to hold.
    fn variable(&self, name: &str) -> Vec<Value> {
        if let Some(values) = self.state.variable(name) {
            return values.iter().cloned().collect();
        }
        match name {
            "HOME" => vec![known(&self.paths.home)],
            "PWD" => self.state.folders().map(|f| f.and_then(known)).collect(),
            "TMPDIR" => vec![known("/tmp")],
            "IFS" => vec![known(" ")],
            // Its entries are the system's own; what a command adds is seen beside it.
            "PATH" => vec![known("/usr/local/bin:/usr/bin:/bin")],
            "SHELL" | "BASH" => vec![known("/bin/bash")],
            "?" | "#" | "$" | "!" | "RANDOM" | "SECONDS" | "LINENO" | "UID" | "EUID" | "BASHPID" | "SRANDOM"
            | "EPOCHSECONDS" | "COLUMNS" | "LINES" | "SHLVL" => vec![known("0")],
            "0" | "-" | "_" | "OLDPWD" | "USER" | "LOGNAME" | "HOSTNAME" | "PPID" => vec![None],
            _ => {
                let argument = name.parse::<usize>().ok().zip(self.state.arguments.as_ref());
                match argument {
                    Some((n, arguments)) => {
                        vec![arguments.get(n.wrapping_sub(1)).cloned().unwrap_or_else(|| known(""))]
                    }
                    // Unset and so empty, as far as this command says; the environment may know better.
                    None => vec![known(""), None],
                }
            }
        }
    }
}

/// Only the variable of a loop over a glob stands for names; `x=*` is the star itself.
fn has_loop_glob(word: &Word) -> bool {
    !word.pieces.iter().any(|p| matches!(p, Piece::Plain(t) if t.contains(['*', '?', '['])))
}

fn units(pieces: &[Piece]) -> Vec<Unit<'_>> {
    let mut units = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Plain(text) => units.extend(text.chars().map(Unit::Plain)),
            Piece::Quoted(text) if text.is_empty() => units.push(Unit::Empty),
            Piece::Quoted(text) => units.extend(text.chars().map(Unit::Quoted)),
            _ => units.push(Unit::Piece(piece)),
        }
    }
    units
}

/// Brace expansion; None when it makes too many words to follow.
fn braces(units: Vec<Unit<'_>>) -> Option<Vec<Vec<Unit<'_>>>> {
    if units.iter().filter(|u| matches!(u, Unit::Plain('{'))).count() > MAX_BRACES {
        return None;
    }
    let words = brace_words(&units);
    // `{$a,}b` is `$ab b`: bash expands braces before it looks for names.
    let renames = |word: &Vec<Unit>| {
        word.windows(2).any(|pair| match pair {
            [Unit::Piece(Piece::Param(param, Quoting::Unquoted)), Unit::Plain(c)] => {
                param.bare && (c.is_ascii_alphanumeric() || *c == '_')
            }
            _ => false,
        })
    };
    (words.len() <= MAX_BRACE_WORDS && !words.iter().any(renames)).then_some(words)
}

fn brace_words<'a>(units: &[Unit<'a>]) -> Vec<Vec<Unit<'a>>> {
    for (start, unit) in units.iter().enumerate() {
        if !matches!(unit, Unit::Plain('{')) {
            continue;
        }
        let (mut depth, mut commas, mut end) = (0, Vec::new(), None);
        for (i, unit) in units.iter().enumerate().skip(start + 1) {
            match unit {
                Unit::Plain('{') => depth += 1,
                Unit::Plain('}') if depth == 0 => {
                    end = Some(i);
                    break;
                }
                Unit::Plain('}') => depth -= 1,
                Unit::Plain(',') if depth == 0 => commas.push(i),
                _ => {}
            }
        }
        let Some(end) = end else { continue };
        let choices: Vec<Vec<Unit>> = if commas.is_empty() {
            match sequence(&units[start + 1..end]) {
                Some(choices) => choices,
                None => continue,
            }
        } else {
            let mut from = start + 1;
            let mut choices = Vec::new();
            for to in commas.into_iter().chain([end]) {
                choices.push(units[from..to].to_vec());
                from = to + 1;
            }
            choices
        };
        let rests = brace_words(&units[end + 1..]);
        let mut words = Vec::new();
        for choice in choices {
            for middle in brace_words(&choice) {
                for rest in &rests {
                    if words.len() > MAX_BRACE_WORDS {
                        return words;
                    }
                    words.push([&units[..start], &middle, rest].concat());
                }
            }
        }
        return words;
    }
    vec![units.to_vec()]
}

/// `1..9` and `a..e`; of long sequences the ends, since all are but numbers.
fn sequence<'a>(units: &[Unit<'a>]) -> Option<Vec<Vec<Unit<'a>>>> {
    let mut text = String::new();
    for unit in units {
        match unit {
            Unit::Plain(c) => text.push(*c),
            _ => return None,
        }
    }
    let mut parts = text.split("..");
    let (from, to) = (parts.next()?, parts.next()?);
    let plain = |text: &str| text.chars().map(Unit::Plain).collect();
    if let (Ok(a), Ok(b)) = (from.parse::<i64>(), to.parse::<i64>()) {
        let (low, high) = (a.min(b), a.max(b));
        return Some(if high.saturating_sub(low) <= 30 {
            (low..=high).map(|n| plain(&n.to_string())).collect()
        } else {
            vec![plain(from), plain(to)]
        });
    }
    let (mut a, mut b) = (from.chars(), to.chars());
    match (a.next(), a.next(), b.next(), b.next()) {
        (Some(a), None, Some(b), None) if a.is_ascii() && b.is_ascii() => {
            let (low, high) = (a.min(b), a.max(b));
            Some((low..=high).map(|c| vec![Unit::Plain(c)]).collect())
        }
        _ => None,
    }
}
