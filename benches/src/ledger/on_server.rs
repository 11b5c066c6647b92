//! Ours on a server: leases of several accounts, renewed at once.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use outflow::SystemClock;
use outflow_core::{
    CallArrivals, LeaseAnswer, LeaseRequest, LeaseUnits, LedgerError, Limit, MAX_LIMITS, QuotaLedger, QuotaWant,
};
use outflow_store::{RedisLedger, RedisOptions};
use outflow_testkit::RedisServer;

use super::{IN_FLIGHT, Limiter};

/// Leases of accounts, each with its own holder.
pub(super) struct OnServer {
    ledger: RedisLedger,
    lease: u64,
    holders: Vec<Holder>,
    replies: (Sender<Reply>, Receiver<Reply>),
}

type Reply = (usize, Result<LeaseAnswer, LedgerError>);

struct Holder {
    account: String,
    number: u64,
    joined: u64,
    held: u64,
}

impl OnServer {
    /// Connects; each renewal leases so many units and reports as many arrivals.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn new(server: &RedisServer, lease: u64) -> io::Result<Self> {
        Self::with_accounts(server, lease, IN_FLIGHT)
    }

    pub(super) fn with_accounts(server: &RedisServer, lease: u64, accounts: usize) -> io::Result<Self> {
        let options = RedisOptions::new(server.url());
        let ledger = RedisLedger::open(&options, Arc::new(SystemClock::new())).map_err(io::Error::other)?;
        let holders = (0..accounts).map(|number| Holder {
            account: format!("bench-{accounts}-{lease}-{number}"),
            number: 0,
            joined: 0,
            held: 0,
        });
        Ok(Self {
            ledger,
            lease,
            holders: holders.collect(),
            replies: channel(),
        })
    }

    fn renew(&mut self, place: usize) {
        let Some(holder) = self.holders.get_mut(place) else {
            return;
        };
        holder.number += 1;
        let arrived = (holder.held > 0).then(|| CallArrivals {
            units: LeaseUnits::new(holder.held, holder.held),
            ages: [Duration::from_millis(1); MAX_LIMITS],
        });
        holder.held = 0;
        let request = Arc::new(LeaseRequest {
            holder: 1,
            number: holder.number,
            joined: holder.joined,
            limits: vec![limit()],
            arrived: arrived.into_iter().collect(),
            returned: LeaseUnits::ZERO,
            wanted: QuotaWant::calls(self.lease),
            ttl: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            facts_seen: 0,
            facts: None,
        });
        let reply = self.replies.0.clone();
        let account = holder.account.clone();
        self.ledger.renew(
            &account,
            request,
            Box::new(move |answer| {
                let _the_benchmark_may_have_ended = reply.send((place, answer));
            }),
        );
    }
}

impl Limiter for OnServer {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn acquire(&mut self, permits: u64) -> io::Result<u64> {
        let mut acquired = 0;
        while acquired < permits {
            let all = self.holders.len();
            (0..all).for_each(|place| self.renew(place));
            for _ in 0..all {
                let (place, answer) = self.replies.1.recv_timeout(PATIENCE).map_err(io::Error::other)?;
                let answer = answer.map_err(io::Error::other)?;
                if let Some(holder) = self.holders.get_mut(place) {
                    (holder.joined, holder.held) = (answer.joined, answer.granted.calls);
                }
                acquired += answer.granted.calls;
            }
        }
        Ok(acquired)
    }
}

/// A limit that is never full, so that each renewal gets what it wants.
fn limit() -> Limit {
    Limit::sliding("100000000/s".parse().expect("a rate"))
}

const PATIENCE: Duration = Duration::from_secs(10);
