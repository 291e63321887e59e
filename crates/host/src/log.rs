//! The events of a session, numbered. Readers follow it at their own pace; one that is too slow is told what it missed,
//! so nobody who stops reading keeps memory or holds up the session.

use crate::host::Tap;
use jarvis_protocol::Event;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Events that are kept for whoever comes back.
const MOST_EVENTS: usize = 8192;
/// And their bytes as JSON.
const MOST_BYTES: usize = 4 << 20;

#[derive(Debug, Clone)]
pub struct Numbered {
    /// From 1 on, without a gap.
    pub number: u64,
    pub event: Arc<Event>,
    pub json: Arc<str>,
}

/// What a reader gets next.
#[derive(Debug, Clone)]
pub enum Followed {
    Event(Numbered),
    /// Events up to this number are not kept any more.
    Missed {
        up_to: u64,
    },
}

pub(crate) struct Log {
    kept: Mutex<Kept>,
    last: watch::Sender<u64>,
    tap: Option<Tap>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Numbered>,
    bytes: usize,
    next: u64,
    ended: bool,
}

impl Log {
    pub fn new(tap: Option<Tap>) -> Self {
        Self { kept: Mutex::new(Kept { next: 1, ..Kept::default() }), last: watch::Sender::new(0), tap }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, event: Event) {
        if let Some(tap) = &self.tap {
            tap(&event);
        }
        // Plain data: it always becomes JSON.
        let json: Arc<str> = serde_json::to_string(&event).unwrap_or_default().into();
        let mut kept = self.lock();
        let number = kept.next;
        kept.next += 1;
        kept.bytes += json.len();
        kept.events.push_back(Numbered { number, event: Arc::new(event), json });
        while kept.events.len() > MOST_EVENTS || (kept.bytes > MOST_BYTES && kept.events.len() > 1) {
            if let Some(old) = kept.events.pop_front() {
                kept.bytes -= old.json.len();
            }
        }
        drop(kept);
        self.last.send_replace(number);
    }

    /// Nothing comes any more: readers end once they have all.
    pub fn end(&self) {
        self.lock().ended = true;
        self.last.send_modify(|_| {});
    }

    /// The number of the last event; 0 before the first.
    pub fn last(&self) -> u64 {
        // Not what readers are woken by: that is a moment later, and a reader may have the event by then.
        self.lock().next - 1
    }

    /// Who reads it now.
    pub fn readers(&self) -> usize {
        self.last.receiver_count()
    }
}

/// Reads a session's events from some number on.
pub struct Reader {
    log: Arc<Log>,
    after: u64,
    news: watch::Receiver<u64>,
}

impl Reader {
    pub(crate) fn new(log: Arc<Log>, after: u64) -> Self {
        let news = log.last.subscribe();
        Self { log, after, news }
    }

    /// The next event; `None` when the session is closed and all was read. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Followed> {
        loop {
            self.news.mark_unchanged();
            if let Some(found) = self.kept() {
                return found;
            }
            self.news.changed().await.ok()?;
        }
    }

    /// Outer `None`: nothing yet.
    fn kept(&mut self) -> Option<Option<Followed>> {
        let kept = self.log.lock();
        let Some(first) = kept.events.front().map(|event| event.number) else {
            return kept.ended.then_some(None);
        };
        if self.after + 1 < first {
            self.after = first - 1;
            return Some(Some(Followed::Missed { up_to: self.after }));
        }
        let at = usize::try_from(self.after + 1 - first).unwrap_or(usize::MAX);
        match kept.events.get(at) {
            Some(event) => {
                self.after = event.number;
                Some(Some(Followed::Event(event.clone())))
            }
            None => kept.ended.then_some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: impl Into<String>) -> Event {
        Event::Notice { message: message.into() }
    }

    async fn number(reader: &mut Reader) -> u64 {
        match reader.next().await {
            Some(Followed::Event(event)) => event.number,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_reader_gets_what_was_and_what_comes_and_goes_on_where_it_was() {
        let log = Arc::new(Log::new(None));
        log.push(notice("一"));
        log.push(notice("two"));
        let mut reader = Reader::new(log.clone(), 0);
        assert_eq!(number(&mut reader).await, 1);
        assert_eq!(number(&mut reader).await, 2);
        let (again, _) = tokio::join!(number(&mut reader), async { log.push(notice("three")) });
        assert_eq!(again, 3);
        assert_eq!(number(&mut Reader::new(log.clone(), 2)).await, 3);
        log.end();
        assert!(reader.next().await.is_none());
    }

    #[tokio::test]
    async fn one_that_is_too_slow_is_told_what_it_missed_and_memory_stays_bounded() {
        let log = Arc::new(Log::new(None));
        let mut reader = Reader::new(log.clone(), 0);
        let long = "长".repeat(100_000);
        (0..100).for_each(|_| log.push(notice(long.as_str())));
        assert!(log.lock().bytes <= MOST_BYTES);
        let Some(Followed::Missed { up_to }) = reader.next().await else { panic!("nothing was missed") };
        assert!(up_to > 80, "{up_to}");
        assert_eq!(number(&mut reader).await, up_to + 1);
        // One event that is larger than all that is kept is still told.
        log.push(notice("x".repeat(MOST_BYTES + 1)));
        let mut last = Reader::new(log.clone(), log.last() - 1);
        assert_eq!(number(&mut last).await, 101);
    }

    #[tokio::test]
    async fn a_number_that_is_not_there_yet_is_waited_for() {
        let log = Arc::new(Log::new(None));
        let mut reader = Reader::new(log.clone(), 1);
        log.push(notice("1"));
        let (second, ()) = tokio::join!(number(&mut reader), async { log.push(notice("2")) });
        assert_eq!(second, 2);
    }
}
