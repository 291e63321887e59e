//! How many threads to compute with. They wait for each other at every layer, so when other programs take the cores, two
//! are not a little slower than one but ten times and more. What each way costs is measured as the answer comes.

use std::time::Duration;

/// Tokens for which one thread is kept after several were too slow; doubled each time they still are.
const REST: u32 = 64;
const LONGEST_REST: u32 = 1024;
/// What one thread needs is known roughly only, before it has answered alone.
const TOLERANCE: f64 = 1.5;
/// A step with several threads is broken off after this many times what one thread needs, and done again by one.
const PATIENCE: f64 = 2.5;

#[derive(Debug)]
pub(super) struct Threads {
    most: usize,
    /// Seconds for a token of an answer at one thread.
    single: Option<f64>,
    /// Steps in a row that several threads took longer for than one would.
    slow: u32,
    /// Tokens still to compute with one thread.
    resting: u32,
    next_rest: u32,
}

impl Threads {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), single: None, slow: 0, resting: 0, next_rest: REST }
    }

    /// The first step: with one thread, to learn what that costs. It should be a small one.
    pub(super) fn learning(&self) -> bool {
        self.single.is_none() && self.most > 1
    }

    /// Threads for the next step.
    pub(super) fn next(&self) -> usize {
        if self.resting > 0 || self.learning() { 1 } else { self.most }
    }

    /// When to break off a step of `tokens` with so many threads.
    pub(super) fn limit(&self, threads: usize, tokens: usize) -> Option<Duration> {
        let single = self.single.filter(|_| threads > 1)?;
        Some(Duration::from_secs_f64(single * work(tokens) * PATIENCE))
    }

    /// A step of `tokens` took `time` with `threads`, or was broken off after that.
    pub(super) fn took(&mut self, threads: usize, tokens: usize, time: Duration) {
        let cost = time.as_secs_f64() / work(tokens);
        if threads == 1 {
            self.single = Some(self.single.map_or(cost, |old| 0.8 * old + 0.2 * cost));
            self.resting = self.resting.saturating_sub(u32::try_from(tokens).unwrap_or(u32::MAX));
            return;
        }
        let Some(single) = self.single else { return };
        if cost <= single * TOLERANCE {
            self.slow = 0;
            self.next_rest = REST;
            return;
        }
        self.slow += 1;
        if self.slow >= 2 || cost >= single * PATIENCE {
            self.slow = 0;
            self.resting = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(LONGEST_REST);
        }
    }
}

/// The work of a step, in tokens of a single answer. Many tokens at once share the reading of the weights: measured with
/// a 1.5B model in 4-bit, about half of the work each at 22 tokens, a quarter to a third at 256.
fn work(tokens: usize) -> f64 {
    let share = match tokens {
        0..=8 => 1.0,
        9..=64 => 0.5,
        _ => 0.35,
    };
    tokens.max(1) as f64 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers `n` tokens on a machine where a token takes these milliseconds. Returns how many were computed by one
    /// thread, and the milliseconds it took.
    fn answer(threads: &mut Threads, n: usize, one: u64, two: u64) -> (usize, u64) {
        let (mut single, mut total) = (0, 0);
        let mut left = n;
        while left > 0 {
            let with = threads.next();
            let needs = Duration::from_millis(if with == 1 { one } else { two });
            let time = threads.limit(with, 1).map_or(needs, |limit| limit.min(needs));
            threads.took(with, 1, time);
            total += time.as_millis() as u64;
            if time == needs {
                left -= 1;
                single += usize::from(with == 1);
            }
        }
        (single, total)
    }

    #[test]
    fn an_idle_machine_is_used_whole() {
        let mut threads = Threads::new(2);
        assert_eq!(answer(&mut threads, 200, 40, 21).0, 1);
    }

    #[test]
    fn on_a_busy_machine_one_thread_does_all_and_trying_more_costs_little() {
        let mut threads = Threads::new(2);
        let (single, time) = answer(&mut threads, 1000, 50, 4000);
        assert_eq!(single, 1000);
        assert!(time < 1000 * 50 * 104 / 100, "{time}");
        assert!(threads.next() == 1, "the next prompt is read as carefully");
    }

    #[test]
    fn all_threads_come_back_when_the_machine_is_idle_again() {
        let mut threads = Threads::new(2);
        answer(&mut threads, 100, 50, 600);
        answer(&mut threads, 200, 40, 21);
        assert_eq!(answer(&mut threads, 100, 40, 21).0, 0);
    }

    #[test]
    fn one_step_a_little_slow_changes_nothing() {
        let mut threads = Threads::new(2);
        answer(&mut threads, 10, 40, 21);
        threads.took(2, 1, Duration::from_millis(60));
        assert_eq!(threads.next(), 2);
    }

    #[test]
    fn a_prompt_is_not_taken_for_an_answer_of_as_many_tokens() {
        let mut threads = Threads::new(2);
        threads.took(1, 16, Duration::from_millis(320));
        threads.took(2, 256, Duration::from_millis(1740));
        assert_eq!(answer(&mut threads, 50, 40, 28).0, 0);
    }
}
