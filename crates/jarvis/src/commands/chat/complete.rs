//! What Tab offers: the commands, and what a command takes.

use super::own::Own;
use super::slash::{self, Offer};
use crate::config::Settings;
use crate::home::Home;
use crate::{kept, model, term};
use jarvis_memory::SessionQuery;
use reedline::{Completer, CompletionResult, Span, Suggestion};

/// More sessions are found by `/sessions`.
const SESSIONS: u64 = 20;
/// Columns of what stands beside an offer; the menu cuts it further where the terminal is narrow.
const ABOUT: usize = 60;

pub struct Commands {
    pub settings: Settings,
    pub home: Home,
    pub workspace: String,
    pub own: Own,
}

impl Completer for Commands {
    fn complete(&mut self, line: &str, at: usize) -> CompletionResult {
        let typed = line.get(..at).unwrap_or_default();
        let from = typed.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
        let offers = self.offers(typed).into_iter().map(|(value, about, goes_on)| Suggestion {
            value,
            description: Some(term::cut(&about, ABOUT)),
            span: Span::new(from, at),
            append_whitespace: goes_on,
            ..Suggestion::default()
        });
        CompletionResult::fresh(offers.collect::<Vec<_>>())
    }
}

impl Commands {
    /// Each with what it is, and whether more is to be typed behind it.
    fn offers(&self, typed: &str) -> Vec<(String, String, bool)> {
        if !typed.starts_with('/') || typed.contains('\n') {
            return Vec::new();
        }
        let Some((name, argument)) = typed.split_once(' ') else {
            let known = slash::ALL.iter().map(|s| (s.name.to_owned(), s.about.to_owned(), s.offer != Offer::Nothing));
            let own = self.own.words().into_iter().map(|word| (word.name, word.about, !word.arguments.is_empty()));
            return known.chain(own).filter(|(name, ..)| name.starts_with(typed)).collect();
        };
        let Some(slash) = slash::ALL.iter().find(|slash| slash.name == name) else {
            return self.arguments(name, argument);
        };
        let all = match slash.offer {
            Offer::Nothing => Vec::new(),
            Offer::Models => model::known(&self.settings),
            Offer::Sessions => self.sessions(),
        };
        let fits = all.into_iter().filter(|(value, _)| value.starts_with(argument));
        fits.map(|(value, about)| (value, about, false)).collect()
    }

    /// Of a person's own command: those that are not there yet.
    fn arguments(&self, name: &str, typed: &str) -> Vec<(String, String, bool)> {
        let Some(word) = self.own.words().into_iter().find(|word| word.name == name) else { return Vec::new() };
        let (before, begun) = typed.rsplit_once(char::is_whitespace).unwrap_or(("", typed));
        let given = |argument: &str| before.split_whitespace().any(|word| word.starts_with(argument));
        let offers = word.arguments.into_iter().map(|argument| argument + "=");
        let fits = offers.filter(|argument| argument.starts_with(begun) && !given(argument));
        fits.map(|argument| (argument, word.about.clone(), false)).collect()
    }

    /// Nothing is offered where they cannot be read; the command itself says why.
    fn sessions(&self) -> Vec<(String, String)> {
        let query =
            SessionQuery { workspace: Some(self.workspace.clone()), limit: SESSIONS, ..SessionQuery::default() };
        let page = kept::sessions(&self.home).ok().and_then(|store| store.list(&query).ok());
        let sessions = page.map(|page| page.sessions).unwrap_or_default();
        sessions.into_iter().map(|session| (session.id.clone(), session.name().to_owned())).collect()
    }
}
