//! Counts, host by host, what one run or one jail asked for, sent, received and was denied.

use crate::pool::lock;
use jarvis_protocol::Egress;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Hosts counted one by one; code that asks for more of them fills neither memory nor the audit.
const MOST_HOSTS: usize = 100;
const OTHERS: &str = "(others)";

#[derive(Debug, Default)]
pub(crate) struct HostTally {
    requests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    denied: AtomicU64,
}

impl HostTally {
    pub(crate) fn requested(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<String, Arc<HostTally>>>);

impl Tally {
    /// The counts of one host (with its port, where it is not the usual one).
    pub(crate) fn host(&self, host: &str) -> Arc<HostTally> {
        let mut hosts = lock(&self.0);
        let known = hosts.contains_key(host) || hosts.len() < MOST_HOSTS;
        // A name has 253 characters at most; what is longer is none.
        let name = if known && host.len() <= 260 { host } else { OTHERS };
        Arc::clone(hosts.entry(name.to_owned()).or_default())
    }

    /// Requests made and bytes moved so far: requests, sent, received.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        lock(&self.0).values().fold((0, 0, 0), |(requests, sent, received), host| {
            (
                requests + host.requests.load(Relaxed),
                sent + host.sent.load(Relaxed),
                received + host.received.load(Relaxed),
            )
        })
    }

    /// By name.
    pub(crate) fn egress(&self) -> Vec<Egress> {
        lock(&self.0)
            .iter()
            .map(|(host, tally)| Egress {
                host: host.clone(),
                requests: tally.requests.load(Relaxed),
                sent_bytes: tally.sent.load(Relaxed),
                received_bytes: tally.received.load(Relaxed),
                denied: tally.denied.load(Relaxed),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_counted_apart_up_to_a_limit() {
        let tally = Tally::default();
        for _ in 0..2 {
            tally.host("a.example").requested();
        }
        tally.host("a.example").sent(10);
        for n in 0..500 {
            tally.host(&format!("x{n}.example")).denied();
        }
        tally.host(&"y".repeat(1000)).denied();
        let egress = tally.egress();
        assert_eq!(egress.len(), MOST_HOSTS + 1);
        let of = |host: &str| egress.iter().find(|e| e.host == host).cloned().unwrap();
        assert_eq!((of("a.example").requests, of("a.example").sent_bytes), (2, 10));
        assert_eq!(of(OTHERS).denied, 500 - 99 + 1);
        assert_eq!(tally.totals(), (2, 10, 0));
    }
}
