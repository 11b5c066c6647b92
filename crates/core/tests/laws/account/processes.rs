//! Processes that share an account over a bad network, with every true arrival.
//!
//! True time is known to the simulation alone. The account's clock and that of each process have an
//! offset of their own, messages are delayed, lost and repeated, and processes crash.

#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

use std::collections::HashMap;
use std::time::Duration;

use outflow_core::{
    Account, CallArrivals, ClockPair, LeaseRenewal, LeaseUnits, Limit, LimitKind, MAX_LIMITS, QuotaWant,
    RenewalRefusal, WallTime,
};

use crate::support::at;

/// Term of a lease and timeout of a call: short, so that many holders expire in one history.
pub(super) const TTL: u64 = 60_000_000;
pub(super) const TIMEOUT: u64 = 40_000_000;

/// Civil time at the origin of true time.
pub(super) const WALL: u64 = 1_700_000_000_123_456_789;

/// True arrival of one call.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub time: u64,
    pub cost: u64,
    /// Loosest quantity in force when its units were granted, for each limit.
    pub bounds: Vec<u64>,
}

#[derive(Debug, Clone)]
struct SentCall {
    ends: u64,
    arrives: u64,
    cost: u64,
}

/// Renewal of a process, kept until it is answered.
#[derive(Debug, Clone)]
struct Message {
    holder: u64,
    number: u64,
    joined: u64,
    arrived: Vec<CallArrivals>,
    returned: LeaseUnits,
    wanted: QuotaWant,
    config: usize,
    began: u64,
}

type Answered = Result<(u64, LeaseUnits), RenewalRefusal>;

#[derive(Debug)]
enum Delivery {
    Request {
        process: usize,
        message: Message,
        back: Option<u64>,
    },
    Answer {
        process: usize,
        message: Message,
        answer: Answered,
    },
}

#[derive(Debug, Clone, Default)]
struct Process {
    id: u64,
    number: u64,
    joined: u64,
    waiting: Option<Message>,
    lease: LeaseUnits,
    bounds: Vec<u64>,
    deadline: u64,
    flights: Vec<SentCall>,
    returns: bool,
    config: usize,
    skew: u64,
}

/// What happens to one transfer of a renewal: delays, and if a copy is lost or arrives twice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub there: u64,
    pub back: u64,
    pub fate: u8,
}

/// Processes, their network and their account.
pub(super) struct Processes {
    pub configs: [Vec<Limit>; 2],
    pub account: Account,
    pub arrivals: Vec<Arrival>,
    now: u64,
    /// Account's clock minus true time.
    account_offset: u64,
    all: Vec<Process>,
    deliveries: Vec<(u64, Delivery)>,
    /// Quantities in force at each grant.
    in_force: HashMap<(u64, u64), Vec<u64>>,
    next_id: u64,
}

impl Processes {
    pub(super) fn new(configs: [Vec<Limit>; 2], count: usize) -> Self {
        let account_offset = 500_000_000;
        let moment = ClockPair {
            now: at(account_offset),
            wall: WallTime::since_epoch(Duration::from_nanos(WALL)),
        };
        let mut processes = Self {
            configs,
            account: Account::new(moment),
            arrivals: Vec::new(),
            now: 0,
            account_offset,
            all: vec![Process::default(); count],
            deliveries: Vec::new(),
            in_force: HashMap::new(),
            next_id: 1,
        };
        for index in 0..count {
            processes.crash(index);
        }
        processes
    }

    /// Lets time pass, with all deliveries that fall into it.
    pub(super) fn pass(&mut self, nanos: u64) {
        let until = self.now + nanos;
        while let Some(next) = (0..self.deliveries.len()).min_by_key(|i| self.deliveries[*i].0)
            && self.deliveries[next].0 <= until
        {
            let (time, delivery) = self.deliveries.remove(next);
            self.now = self.now.max(time);
            self.deliver(delivery);
        }
        self.now = until;
    }

    /// Starts the process again under a new name; its calls in flight still arrive.
    pub(super) fn crash(&mut self, index: usize) {
        self.all[index] = Process {
            id: self.next_id,
            config: self.all[index].config,
            skew: 7_919_000_000 * self.next_id % 1_000_000_007,
            ..Process::default()
        };
        self.next_id += 1;
    }

    pub(super) fn reconfigure(&mut self, index: usize) {
        self.all[index].config ^= 1;
    }

    pub(super) fn return_units(&mut self, index: usize) {
        self.all[index].returns = true;
    }

    /// The account's clock steps back, and its UTC windows are placed again.
    pub(super) fn step_back(&mut self, by: u64) {
        self.account_offset = self.account_offset.saturating_sub(by);
        let moment = ClockPair {
            now: at(self.now + self.account_offset),
            wall: WallTime::since_epoch(Duration::from_nanos(WALL + self.now)),
        };
        self.account.realign(moment);
    }

    /// The account is stored and read again.
    pub(super) fn restart(&mut self) {
        let words = self.account.to_words();
        self.account = Account::from_words(&words).expect("its own words");
    }

    /// Sends a renewal, or repeats the one that has no answer.
    pub(super) fn renew(&mut self, index: usize, wanted: QuotaWant, transfer: Transfer) {
        let now = self.now;
        let process = &mut self.all[index];
        let message = match process.waiting.clone() {
            Some(message) => message,
            None => process.next_message(now, wanted),
        };
        process.waiting = Some(message.clone());
        let (copies, back) = match transfer.fate {
            0 => (0, None),
            1 => (1, None),
            2 => (2, Some(transfer.back)),
            _ => (1, Some(transfer.back)),
        };
        for copy in 0..copies {
            let request = Delivery::Request {
                process: index,
                message: message.clone(),
                back,
            };
            // The second copy comes much later: its holder may be gone by then.
            self.deliveries.push((now + transfer.there * (1 + 20 * copy), request));
        }
    }

    /// Sends one call if the lease has its units and is not past its deadline.
    pub(super) fn send(&mut self, index: usize, cost: u64, arrives_after: u64, ends_after: u64) {
        let now = self.now;
        let process = &mut self.all[index];
        let units = LeaseUnits::new(1, cost);
        let fits = process.lease.calls >= 1 && process.lease.cost >= cost;
        if !fits || now + process.skew >= process.deadline {
            return;
        }
        process.lease = process.lease.minus(units);
        let ends_after = ends_after.min(TIMEOUT);
        let flight = SentCall {
            arrives: now + arrives_after.min(ends_after),
            ends: now + ends_after,
            cost,
        };
        self.arrivals.push(Arrival {
            time: flight.arrives,
            cost,
            bounds: process.bounds.clone(),
        });
        process.flights.push(flight);
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Request { process, message, back } => {
                let answer = self.process(&message);
                if let Some(back) = back {
                    let delivery = Delivery::Answer {
                        process,
                        message,
                        answer,
                    };
                    self.deliveries.push((self.now + back, delivery));
                }
            }
            Delivery::Answer {
                process,
                message,
                answer,
            } => self.accept(process, &message, answer),
        }
    }

    fn process(&mut self, message: &Message) -> Answered {
        let renewal = LeaseRenewal {
            holder: message.holder,
            number: message.number,
            joined: message.joined,
            limits: &self.configs[message.config],
            arrived: &message.arrived,
            returned: message.returned,
            wanted: message.wanted,
            ttl: Duration::from_nanos(TTL),
            timeout: Duration::from_nanos(TIMEOUT),
            facts_seen: 0,
            facts: None,
        };
        let answer = self.account.renew(at(self.now + self.account_offset), &renewal)?;
        let in_force = |limit: &Limit| {
            let found = answer.limits.iter().find(|usage| {
                let kind = match limit.kind() {
                    LimitKind::Fixed => LimitKind::Sliding,
                    kind => kind,
                };
                let same_kind = std::mem::discriminant(&kind) == std::mem::discriminant(&usage.kind);
                same_kind && usage.measure == limit.measure() && usage.rate.per() == limit.rate().per()
            });
            found.map_or(u64::MAX, |usage| usage.rate.quantity())
        };
        let bounds: Vec<u64> = self.configs[0].iter().map(in_force).collect();
        // A first renewal that is repeated after its lease ran out joins a second time.
        let known = self.in_force.entry((message.holder, message.number)).or_default();
        known.resize(bounds.len(), 0);
        for (loosest, bound) in known.iter_mut().zip(bounds) {
            *loosest = (*loosest).max(bound);
        }
        Ok((answer.joined, answer.granted))
    }

    fn accept(&mut self, index: usize, message: &Message, answer: Answered) {
        let process = &mut self.all[index];
        let awaited = process.waiting.as_ref().map(|waiting| (waiting.holder, waiting.number));
        if awaited != Some((message.holder, message.number)) {
            return;
        }
        match answer {
            Ok((joined, granted)) => {
                process.joined = joined;
                let bounds = &self.in_force[&(message.holder, message.number)];
                if process.lease == LeaseUnits::ZERO || process.bounds.is_empty() {
                    process.bounds.clone_from(bounds);
                }
                for (loosest, bound) in process.bounds.iter_mut().zip(bounds) {
                    *loosest = (*loosest).max(*bound);
                }
                process.lease = process.lease.plus(granted);
                process.deadline = message.began + TTL;
                process.waiting = None;
            }
            Err(RenewalRefusal::UnknownHolder) => self.crash(index),
            Err(RenewalRefusal::OldNumber) => {}
        }
    }
}

impl Process {
    fn next_message(&mut self, now: u64, wanted: QuotaWant) -> Message {
        self.number += 1;
        let finished = self.flights.extract_if(.., |flight| flight.ends <= now);
        // Every second limit knows the arrival exactly, the others only the end of the flight.
        let arrived = finished.map(|flight| CallArrivals {
            units: LeaseUnits::new(1, flight.cost),
            ages: std::array::from_fn::<_, MAX_LIMITS, _>(|limit| {
                let by = if limit % 2 == 0 { flight.arrives } else { flight.ends };
                Duration::from_nanos(now - by)
            }),
        });
        let arrived = arrived.collect();
        let returned = if std::mem::take(&mut self.returns) {
            self.lease
        } else {
            LeaseUnits::ZERO
        };
        self.lease = self.lease.minus(returned);
        Message {
            holder: self.id,
            number: self.number,
            joined: self.joined,
            arrived,
            returned,
            wanted,
            config: self.config,
            began: now + self.skew,
        }
    }
}
