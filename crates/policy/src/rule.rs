//! Rules of a person: which calls are allowed, asked for, denied. Deny wins over ask wins over allow.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// `permissions` is the only one that there is yet.
    pub domain: String,
    pub rules: Vec<Rule>,
}

/// The domain of rules that decide calls.
pub const PERMISSIONS: &str = "permissions";
/// The event at which they are asked.
pub const BEFORE: &str = "tool.before";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub id: String,
    pub description: String,
    pub when: String,
    pub condition: Condition,
    pub action: Action,
    /// 1 to 100; of two that say the same the higher one is named.
    pub priority: u8,
    pub examples: Vec<Example>,
}

/// All that is given must fit; of one kind, any pattern. `*` stands for anything, `**` in a path for any folders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Relative to the workspace, or absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Each simple command of a command line, its words with one space between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// `allow`, `ask`, `deny`, each alone or with a reason: `deny: REASON`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Action {
    Word(Effect),
    Reasoned(Reasoned),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reasoned {
    Allow(String),
    Ask(String),
    Deny(String),
}

/// From the weakest to the one that wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    pub given: Given,
    /// Whether the condition holds.
    pub expect: bool,
}

/// One call, as an example says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Action {
    pub fn effect(&self) -> Effect {
        match self {
            Action::Word(effect) => *effect,
            Action::Reasoned(Reasoned::Allow(_)) => Effect::Allow,
            Action::Reasoned(Reasoned::Ask(_)) => Effect::Ask,
            Action::Reasoned(Reasoned::Deny(_)) => Effect::Deny,
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Action::Word(_) => None,
            Action::Reasoned(Reasoned::Allow(reason) | Reasoned::Ask(reason) | Reasoned::Deny(reason)) => Some(reason),
        }
    }
}

/// What is about to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt {
    /// More than one name where a call has several, such as a capability and the tool that runs it.
    pub tools: Vec<String>,
    /// Absolute, and relative where it lies in the workspace.
    pub paths: Vec<String>,
    /// Folders that are meant with all that lies in them, as `paths`.
    pub folders: Vec<String>,
    /// Without ports.
    pub hosts: Vec<String>,
    /// Endings of hosts that are meant with all names before them; all hosts where it is empty.
    pub endings: Vec<String>,
    pub commands: Vec<SimpleCommand>,
}

/// One program start of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    pub program: String,
    pub args: Vec<String>,
    /// Places that its words name, as [`Attempt::paths`].
    pub paths: Vec<String>,
    /// Those of them that are folders.
    pub folders: Vec<String>,
    /// What it starts is only known when it runs.
    pub unknown: bool,
    /// What it is given is only known when it runs.
    pub unknown_args: bool,
}

/// What the rules say to an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    pub effect: Effect,
    pub rule: String,
    /// With the rule's name, for the refusal and the audit.
    pub reason: String,
}

/// How a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    No,
    /// It cannot be told before it runs.
    Perhaps,
    Yes,
}

/// A rule that can be asked.
#[derive(Debug, Clone)]
pub struct Compiled {
    rule: Rule,
    tools: Vec<GlobMatcher>,
    paths: Vec<GlobMatcher>,
    hosts: Vec<GlobMatcher>,
    commands: Vec<GlobMatcher>,
}

impl Compiled {
    /// The error says what is wrong with the rule, without its name.
    pub fn new(rule: Rule) -> Result<Compiled, String> {
        let Rule { id, condition, priority, when, .. } = &rule;
        if id.is_empty() || id.chars().count() > 64 || id.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("its id has 1 to 64 characters and no spaces".to_owned());
        }
        if when != BEFORE {
            return Err(format!("`when: {when}` is not known; rules of permissions are asked at {BEFORE}"));
        }
        if !(1..=100).contains(priority) {
            return Err(format!("priority {priority} is outside 1 to 100"));
        }
        if *condition == Condition::default() {
            return Err("its condition is empty: name tools, paths, hosts or commands".to_owned());
        }
        let all =
            |patterns: &[String], whole: bool| patterns.iter().map(|p| glob(p, whole)).collect::<Result<Vec<_>, _>>();
        Ok(Compiled {
            tools: all(&condition.tools, true)?,
            paths: all(&condition.paths, false)?,
            hosts: all(&condition.hosts.iter().map(|host| host.to_lowercase()).collect::<Vec<_>>(), true)?,
            commands: all(&condition.commands, true)?,
            rule,
        })
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Whether the condition holds; what cannot be told holds where that is the careful answer.
    pub fn matches(&self, attempt: &Attempt) -> bool {
        self.holds(attempt) >= if self.rule.action.effect() == Effect::Allow { Holds::Yes } else { Holds::Perhaps }
    }

    fn holds(&self, attempt: &Attempt) -> Holds {
        let condition = &self.rule.condition;
        if !self.tools.is_empty() && !any(&self.tools, &attempt.tools) {
            return Holds::No;
        }
        let by_host = held(&self.hosts, &attempt.hosts, || {
            attempt.endings.iter().any(|ending| condition.hosts.iter().any(|host| may_end(host, ending)))
        });
        if attempt.commands.is_empty() {
            if !self.commands.is_empty() {
                return Holds::No;
            }
            let by_path = held(&self.paths, &attempt.paths, || self.lies_in(&attempt.folders));
            return by_host.min(by_path);
        }
        let each = attempt.commands.iter().map(|command| self.holds_for(command));
        // What is allowed must be allowed as a whole; what is denied is so by any part.
        let held = if self.rule.action.effect() == Effect::Allow { each.min() } else { each.max() };
        by_host.min(held.unwrap_or(Holds::No))
    }

    fn holds_for(&self, command: &SimpleCommand) -> Holds {
        let by_path = held(&self.paths, &command.paths, || {
            command.unknown || command.unknown_args || self.lies_in(&command.folders)
        });
        by_path.min(self.by_line(command))
    }

    fn by_line(&self, command: &SimpleCommand) -> Holds {
        let fits = |text: &str| self.commands.iter().any(|pattern| pattern.is_match(text));
        let base = command.program.rsplit('/').next().unwrap_or_default();
        let line = |program: &str, from: usize| {
            let words = command.args.iter().skip(from).map(String::as_str);
            std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
        };
        let whole = |from| fits(&line(&command.program, from)) || fits(&line(base, from));
        // `git -C . push` is a `git push`. Which options have a value is the program's own affair, so both are tried; what is
        // allowed is so only as it stands.
        let careful = self.rule.action.effect() != Effect::Allow;
        if self.commands.is_empty() || whole(0) || (careful && (1..=before_the_subcommand(&command.args)).any(whole)) {
            return Holds::Yes;
        }
        let is_its = |pattern: &String| {
            let first = pattern.split(' ').next().unwrap_or_default();
            first.contains(SPECIAL) || first == command.program || first == base
        };
        let perhaps = command.unknown || (command.unknown_args && self.rule.condition.commands.iter().any(is_its));
        if perhaps { Holds::Perhaps } else { Holds::No }
    }

    /// Whether something that the condition names may lie in one of the folders.
    fn lies_in(&self, folders: &[String]) -> bool {
        folders.iter().any(|folder| self.rule.condition.paths.iter().any(|path| may_lie_in(path, folder)))
    }

    fn ruling(&self, held: Holds) -> Ruling {
        let Rule { id, action, description, .. } = &self.rule;
        let reason = action.reason().unwrap_or(description);
        let (effect, reason) = match held {
            Holds::Perhaps => {
                (Effect::Ask, format!("rule `{id}`: it cannot be told beforehand whether it applies ({reason})"))
            }
            Holds::Yes | Holds::No => (action.effect(), format!("rule `{id}`: {reason}")),
        };
        Ruling { effect, rule: id.clone(), reason }
    }
}

/// What the rules together say; none: they say nothing.
pub fn judge<'a>(rules: impl IntoIterator<Item = &'a Compiled>, attempt: &Attempt) -> Option<Ruling> {
    let matching = rules
        .into_iter()
        .filter(|rule| rule.matches(attempt))
        .map(|rule| (rule.ruling(rule.holds(attempt)), rule.rule.priority));
    matching.max_by_key(|(ruling, priority)| (ruling.effect, *priority)).map(|(ruling, _)| ruling)
}

/// What has a meaning of its own in a pattern.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

fn any(patterns: &[GlobMatcher], texts: &[String]) -> bool {
    texts.iter().any(|text| patterns.iter().any(|pattern| pattern.is_match(text)))
}

/// A part of a condition: one that says nothing holds.
fn held(patterns: &[GlobMatcher], texts: &[String], perhaps: impl Fn() -> bool) -> Holds {
    match patterns.is_empty() || any(patterns, texts) {
        true => Holds::Yes,
        false if perhaps() => Holds::Perhaps,
        false => Holds::No,
    }
}

/// Whether a host that a rule's pattern is of may have this ending.
fn may_end(pattern: &str, ending: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let tail = pattern.rsplit(SPECIAL).next().unwrap_or_default();
    tail.ends_with(ending) || (tail.len() < pattern.len() && ending.ends_with(tail))
}

/// Whether a path that a rule's pattern is of may lie in this folder; the workspace's own is empty.
fn may_lie_in(pattern: &str, folder: &str) -> bool {
    let (fixed, free) = pattern.split_at(pattern.find(SPECIAL).unwrap_or(pattern.len()));
    let folder = folder.trim_end_matches('/');
    let below = match folder {
        "" => true,
        _ => fixed.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
    };
    // Whatever stands before it, `**` goes on into every folder.
    below || (free.contains("**") && folder.starts_with(fixed.trim_end_matches('/')))
}

/// How many words may stand before a subcommand: options, and after each perhaps its value.
fn before_the_subcommand(args: &[String]) -> usize {
    let is_option = |at: usize| args.get(at).is_some_and(|arg| arg.starts_with('-'));
    (0..args.len()).take_while(|&at| is_option(at) || (at > 0 && is_option(at - 1))).count()
}

fn glob(pattern: &str, whole: bool) -> Result<GlobMatcher, String> {
    if pattern.trim().is_empty() || pattern.len() > 500 {
        return Err("a pattern has 1 to 500 characters".to_owned());
    }
    // In a path `*` stays in its folder. A backslash is itself: these are no paths of Windows.
    let glob = GlobBuilder::new(pattern).literal_separator(!whole).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|e| format!("the pattern {pattern:?}: {}", e.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(condition: Condition, action: Action) -> Compiled {
        Compiled::new(Rule {
            id: "r".to_owned(),
            description: "because".to_owned(),
            when: BEFORE.to_owned(),
            condition,
            action,
            priority: 50,
            examples: Vec::new(),
        })
        .unwrap()
    }

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn command(line: &str) -> SimpleCommand {
        let mut parts = line.split(' ').map(str::to_owned);
        let program = parts.next().unwrap();
        SimpleCommand { unknown: program == "…", program, args: parts.collect(), ..SimpleCommand::default() }
    }

    fn shell(lines: &[&str]) -> Attempt {
        Attempt {
            tools: words(&["shell_exec"]),
            commands: lines.iter().map(|l| command(l)).collect(),
            ..Attempt::default()
        }
    }

    #[test]
    fn deny_wins_over_ask_over_allow_whatever_the_order() {
        let tools = || Condition { tools: words(&["file_*"]), ..Condition::default() };
        let attempt = Attempt { tools: words(&["file_write"]), ..Attempt::default() };
        let (allow, ask, deny) = (Effect::Allow, Effect::Ask, Effect::Deny);
        for (effects, wins) in [
            (vec![allow], allow),
            (vec![ask, allow], ask),
            (vec![allow, ask], ask),
            (vec![deny, allow, ask], deny),
            (vec![ask, allow, deny], deny),
        ] {
            let rules: Vec<Compiled> = effects.iter().map(|effect| rule(tools(), Action::Word(*effect))).collect();
            assert_eq!(judge(&rules, &attempt).unwrap().effect, wins, "{effects:?}");
        }
        let other = Attempt { tools: words(&["http_request"]), ..Attempt::default() };
        assert_eq!(judge(&[rule(tools(), Action::Word(deny))], &other), None);
    }

    #[test]
    fn a_command_is_denied_by_any_part_and_allowed_only_as_a_whole() {
        let pushes = || Condition { commands: words(&["git push*"]), ..Condition::default() };
        let deny = rule(pushes(), Action::Reasoned(Reasoned::Deny("no".to_owned())));
        let allow = rule(pushes(), Action::Word(Effect::Allow));
        for (lines, denied, allowed) in [
            (vec!["git push origin"], true, true),
            (vec!["/usr/bin/git push"], true, true),
            (vec!["ls", "git push"], true, false),
            (vec!["git pull"], false, false),
            (vec!["echo git push"], false, false),
            // Options before it, with a value or without, do not hide it; nor are they allowed with it.
            (vec!["git -C . push"], true, false),
            (vec!["git --no-pager push origin"], true, false),
            (vec!["git -c a=b --git-dir=.git --work-tree . push"], true, false),
            (vec!["git -C . pull"], false, false),
            (vec!["git stash push"], false, false),
            // What is not known may be it.
            (vec!["… push"], true, false),
        ] {
            assert_eq!((deny.matches(&shell(&lines)), allow.matches(&shell(&lines))), (denied, allowed), "{lines:?}");
        }
        let ruling = judge([&deny], &shell(&["… x"])).unwrap();
        assert_eq!(ruling.effect, Effect::Ask, "what cannot be told is asked: {}", ruling.reason);
    }

    #[test]
    fn what_lies_in_a_folder_and_what_ends_a_host_is_perhaps_meant() {
        let secret = rule(
            Condition { paths: words(&["secret/**", "**/.env"]), ..Condition::default() },
            Action::Word(Effect::Deny),
        );
        let only = rule(Condition { paths: words(&["secret/*"]), ..Condition::default() }, Action::Word(Effect::Deny));
        for (folder, by_both, by_one) in
            [("", true, true), ("secret", true, true), ("notes", true, false), ("secretly", true, false)]
        {
            let attempt = Attempt { tools: words(&["x"]), folders: words(&[folder]), ..Attempt::default() };
            assert_eq!((secret.matches(&attempt), only.matches(&attempt)), (by_both, by_one), "{folder:?}");
            assert!(judge([&secret], &attempt).is_none_or(|ruling| ruling.effect == Effect::Ask));
        }
        let evil = rule(
            Condition { hosts: words(&["evil.com", "*.bad.org"]), ..Condition::default() },
            Action::Word(Effect::Deny),
        );
        for (ending, met) in [
            ("", true),
            (".com", true),
            (".evil.com", false),
            (".bad.org", true),
            (".a.bad.org", true),
            (".org", true),
            (".net", false),
        ] {
            let attempt = Attempt { tools: words(&["x"]), endings: words(&[ending]), ..Attempt::default() };
            assert_eq!(evil.matches(&attempt), met, "{ending:?}");
        }
        let mut open = command("git x");
        open.unknown_args = true;
        let pushes =
            rule(Condition { commands: words(&["git push*"]), ..Condition::default() }, Action::Word(Effect::Deny));
        let attempt = |command: &SimpleCommand| Attempt {
            tools: words(&["shell_exec"]),
            commands: vec![command.clone()],
            ..Attempt::default()
        };
        assert!(pushes.matches(&attempt(&open)), "what it is given may be `push`");
        open.program = "echo".to_owned();
        assert!(!pushes.matches(&attempt(&open)), "but of git alone");
    }

    #[test]
    fn a_path_keeps_to_its_folders() {
        let secret = rule(
            Condition { paths: words(&["secret/**", "*.key"]), ..Condition::default() },
            Action::Word(Effect::Deny),
        );
        for (path, held) in
            [("secret/a", true), ("secret/a/b", true), ("x.key", true), ("a/x.key", false), ("secretly/a", false)]
        {
            let attempt = Attempt { tools: words(&["file_read"]), paths: words(&[path]), ..Attempt::default() };
            assert_eq!(secret.matches(&attempt), held, "{path}");
        }
        let mut read = command("cat secret/a");
        read.paths = words(&["secret/a"]);
        let attempt = Attempt { tools: words(&["shell_exec"]), commands: vec![read], ..Attempt::default() };
        assert!(secret.matches(&attempt), "a command line by the places that its words name");
    }
}
