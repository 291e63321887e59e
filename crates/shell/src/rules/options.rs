//! Options and operands of a command, by the usual conventions.

use crate::expand::Arg;

pub(crate) struct Options<'a> {
    /// Each option as `-x` or `--name`, with its value.
    pub flags: Vec<(String, Option<Arg>)>,
    pub operands: Vec<&'a Arg>,
}

impl<'a> Options<'a> {
    /// `valued` are the options that take a value. Clusters (`-rf`), attached values (`-ofile`, `--name=value`) and `--` are known.
    pub fn read(args: &'a [Arg], valued: &[&str]) -> Options<'a> {
        Options::read_until(args, valued, false).0
    }

    /// Only the options before the first operand; the rest is returned.
    pub fn leading(args: &'a [Arg], valued: &[&str]) -> (Options<'a>, &'a [Arg]) {
        let (options, used) = Options::read_until(args, valued, true);
        (options, &args[used.min(args.len())..])
    }

    fn read_until(args: &'a [Arg], valued: &[&str], stop: bool) -> (Options<'a>, usize) {
        let mut options = Options { flags: Vec::new(), operands: Vec::new() };
        let mut at = 0;
        let mut only_operands = false;
        while let Some(arg) = args.get(at) {
            let text = arg.text.as_str();
            if only_operands || !text.starts_with('-') || text == "-" {
                if stop {
                    return (options, at);
                }
                options.operands.push(arg);
                at += 1;
                continue;
            }
            at += 1;
            if text == "--" {
                if stop {
                    return (options, at);
                }
                only_operands = true;
                continue;
            }
            let mut next = |options: &mut Options, name: &str| {
                let value = args.get(at).cloned();
                at += 1;
                options.flags.push((name.to_owned(), value));
            };
            if let Some(long) = text.strip_prefix("--") {
                match long.split_once('=') {
                    Some((name, value)) => options.flags.push((format!("--{name}"), Some(arg.with(value)))),
                    None if valued.contains(&text) => next(&mut options, text),
                    None => options.flags.push((text.to_owned(), None)),
                }
                continue;
            }
            if valued.contains(&text) {
                next(&mut options, text);
                continue;
            }
            for (i, c) in text.char_indices().skip(1) {
                let name = format!("-{c}");
                if valued.contains(&name.as_str()) {
                    let rest = &text[i + c.len_utf8()..];
                    if rest.is_empty() {
                        next(&mut options, &name);
                    } else {
                        options.flags.push((name, Some(arg.with(rest))));
                    }
                    break;
                }
                options.flags.push((name, None));
            }
        }
        (options, at)
    }

    fn is(given: &str, name: &str) -> bool {
        // Long options may be cut short.
        given == name || (given.len() > 3 && given.starts_with("--") && name.starts_with(given))
    }

    pub fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(given, _)| names.iter().any(|name| Options::is(given, name)))
    }

    pub fn values<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'s Arg> {
        self.flags
            .iter()
            .filter(|(given, _)| names.iter().any(|name| Options::is(given, name)))
            .filter_map(|(_, value)| value.as_ref())
    }

    pub fn value<'s>(&'s self, names: &'s [&str]) -> Option<&'s Arg> {
        self.values(names).next()
    }
}
