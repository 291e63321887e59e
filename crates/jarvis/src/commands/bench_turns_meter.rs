//! Adds up the spans that the library crates mark (`sandbox`, `audit`, `session`, …), by the turn they belong to.

use crate::error::{Outcome, failed};
use jarvis_protocol::ErrorKind;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The name of the span around one turn.
pub const TURN: &str = "turn";

thread_local! {
    /// Spans that are entered on this thread, the innermost last.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Hears every span of jarvis's own crates in this process.
#[derive(Clone, Default)]
pub struct Meter(Arc<Inner>);

#[derive(Default)]
struct Inner {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
    turns: Mutex<HashMap<u64, Spent>>,
}

struct Open {
    name: &'static str,
    turn: u64,
    since: Instant,
    handles: usize,
}

/// What the parts of one turn took, each from its beginning to its end.
#[derive(Debug, Clone, Default)]
pub struct Spent(BTreeMap<&'static str, Duration>);

impl Spent {
    pub fn of(&self, part: &str) -> Duration {
        self.0.get(part).copied().unwrap_or_default()
    }

    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }
}

impl Meter {
    pub fn install() -> Outcome<Meter> {
        let meter = Meter::default();
        tracing::subscriber::set_global_default(meter.clone())
            .map_err(|e| failed(ErrorKind::Internal, format!("the meter cannot listen: {e}")))?;
        Ok(meter)
    }

    /// Of a turn that is over.
    pub fn spent(&self, turn: &tracing::Span) -> Spent {
        let id = turn.id().map_or(0, |id| id.into_u64());
        lock(&self.0.turns).remove(&id).unwrap_or_default()
    }
}

impl Subscriber for Meter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("jarvis")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.last.fetch_add(1, Ordering::Relaxed) + 1;
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if attributes.is_contextual() => ENTERED.with_borrow(|entered| entered.last().copied()),
            None => None,
        };
        let mut open = lock(&self.0.open);
        let name = attributes.metadata().name();
        let turn = match parent.and_then(|parent| open.get(&parent)) {
            _ if name == TURN => id,
            Some(parent) => parent.turn,
            // Outside of any turn; nobody asks for it.
            None => 0,
        };
        open.insert(id, Open { name, turn, since: Instant::now(), handles: 1 });
        Id::from_non_zero_u64(NonZeroU64::MIN.saturating_add(id - 1))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|entered| *entered == id.into_u64()) {
                entered.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(open) = lock(&self.0.open).get_mut(&id.into_u64()) {
            open.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut all = lock(&self.0.open);
        let Some(open) = all.get_mut(&id.into_u64()) else { return false };
        open.handles -= 1;
        if open.handles > 0 {
            return false;
        }
        let Some(open) = all.remove(&id.into_u64()) else { return false };
        drop(all);
        if open.name != TURN && open.turn != 0 {
            let mut turns = lock(&self.0.turns);
            *turns.entry(open.turn).or_default().0.entry(open.name).or_default() += open.since.elapsed();
        }
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
