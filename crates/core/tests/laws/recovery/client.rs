//! A client that always has another call, with a sliding window, an adaptive limit and a health
//! machine as the real one connects them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use outflow_core::{
    AdaptiveLimit, AdaptiveMode, Evidence, Health, HealthConfig, HealthDecision, HealthState, HealthTicket,
    HealthTransition, LimitChange, LimitContext, Nanos, Outcome, PassedUnits, Rate,
};

use super::SECOND;
use super::bad_day::{BadDay, FaultyServer, ServerAnswer};

pub(super) const RATE: usize = 35;
const TIMEOUT: Duration = Duration::from_secs(10);
const SHORTEST_TRIP: Duration = Duration::from_millis(50);
const GUARD: Duration = Duration::from_millis(2);

/// Next event, in the order of instants; a number is that of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientEvent {
    Arrives(usize),
    Returns(usize, ServerAnswer),
    Forgotten,
}

struct SentCall {
    at: Nanos,
    /// Way of its response.
    back: Duration,
    ticket: Option<HealthTicket>,
}

pub(super) struct SimulatedClient {
    pub(super) health: Health,
    pub(super) log: CallLog,
    learned: AdaptiveLimit,
    server: FaultyServer,
    now: Nanos,
    noise: u64,
    events: BinaryHeap<Reverse<(Nanos, ClientEvent)>>,
    calls: Vec<SentCall>,
    in_flight: u32,
    /// Calls that the meter counts: until a window after the latest instant of their arrival.
    counted: u64,
}

impl SimulatedClient {
    pub(super) fn new(day: BadDay, noise: u64) -> Self {
        let mut health = Health::new(HealthConfig::default(), Nanos::ZERO);
        health.set_limits(LimitContext {
            longest_window: SECOND,
            concurrency: 4,
        });
        let configured = Rate::per_second(RATE.try_into().expect("small")).expect("valid");
        Self {
            health,
            log: CallLog::default(),
            learned: AdaptiveLimit::new(AdaptiveMode::Guard, configured, Nanos::ZERO),
            server: FaultyServer::new(day, RATE),
            now: Nanos::ZERO,
            noise,
            events: BinaryHeap::new(),
            calls: Vec::new(),
            in_flight: 0,
            counted: 0,
        }
    }

    pub(super) fn run_until(&mut self, end: Nanos) {
        while self.now < end {
            while self.send_if_allowed() {}
            self.step();
        }
    }

    /// Half of a round trip of 50 to 60 ms.
    fn one_way(&mut self) -> Duration {
        Duration::from_micros(25_000 + self.entropy() % 5_000)
    }

    fn entropy(&mut self) -> u64 {
        self.noise = self.noise.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.noise ^ (self.noise >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    }

    fn at(&mut self, at: Nanos, event: ClientEvent) {
        self.events.push(Reverse((at, event)));
    }

    fn send_if_allowed(&mut self) -> bool {
        let rate = self.health.effective(self.learned.effective());
        let limit = if rate.per() == SECOND { rate.quantity() } else { 1 };
        let is_probing = self.health.state() == HealthState::HalfOpen;
        if self.counted >= limit || (self.in_flight >= self.health.concurrency() && !is_probing) {
            return false;
        }
        match self.health.admission(self.now) {
            HealthDecision::Go(ticket) => self.send(ticket),
            HealthDecision::Overdue => self.wake(),
            HealthDecision::Cooling { .. } | HealthDecision::Blocked { .. } => return false,
        }
        true
    }

    fn send(&mut self, ticket: HealthTicket) {
        self.in_flight += 1;
        self.counted += 1;
        self.log.sent.push(self.now);
        let [there, back] = [self.one_way(), self.one_way()];
        self.at(self.now.saturating_add(there), ClientEvent::Arrives(self.calls.len()));
        let jitter = (there + back).saturating_sub(SHORTEST_TRIP);
        self.at(self.now.saturating_add(SECOND + jitter + GUARD), ClientEvent::Forgotten);
        self.calls.push(SentCall {
            at: self.now,
            back,
            ticket: Some(ticket),
        });
    }

    fn wake(&mut self) {
        let entropy = self.entropy();
        let woken = self.health.wake(self.now, entropy);
        self.log.note(woken);
    }

    fn step(&mut self) {
        let next = self.events.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
        if let Some(due) = self.health.next_wakeup().filter(|due| *due < next) {
            self.now = due;
            return self.wake();
        }
        let Some(Reverse((at, event))) = self.events.pop() else {
            panic!("nothing left to wait for in {}", self.health.state());
        };
        self.now = at;
        match event {
            ClientEvent::Arrives(call) => self.arrive(call),
            ClientEvent::Returns(call, answer) => self.returned(call, answer),
            ClientEvent::Forgotten => self.counted -= 1,
        }
    }

    fn arrive(&mut self, call: usize) {
        let answer = self.server.arrive(self.now);
        let back = match answer {
            ServerAnswer::Hangs => self.calls[call].at.saturating_add(TIMEOUT),
            _ => self.now.saturating_add(self.calls[call].back),
        };
        self.at(back, ClientEvent::Returns(call, answer));
    }

    fn returned(&mut self, call: usize, answer: ServerAnswer) {
        self.in_flight -= 1;
        let sent = self.calls[call].at;
        match answer {
            ServerAnswer::Passed => {
                self.health.observe_latency(self.now.since(sent));
                self.record(call, Outcome::SUCCESS);
                self.log.good.push(self.now);
                self.learn_success(sent);
            }
            ServerAnswer::Throttled => self.throttled(call, sent),
            ServerAnswer::Failed => self.record(call, Outcome::SERVER_FAILED),
            ServerAnswer::Hangs => self.record(call, Outcome::NETWORK_FAILED),
        }
    }

    fn learn_success(&mut self, sent: Nanos) {
        let passed = PassedUnits {
            sent,
            surely: within(&self.log.good, self.now, SECOND * 15 / 16),
            possibly: within(&self.log.good, self.now, SECOND * 17 / 16),
        };
        self.learned.clean(self.now, passed);
    }

    fn throttled(&mut self, call: usize, sent: Nanos) {
        self.log.throttled.push(self.now);
        let evidence = Evidence::Throttled {
            sent,
            admitted: within(&self.log.good, self.now, SECOND * 17 / 16),
            used: within(&self.log.sent, self.now, SECOND),
        };
        match self.learned.evidence(self.now, evidence) {
            LimitChange::Shrunk => {
                self.record(call, Outcome::THROTTLED.explained());
                self.health.begin_generation(self.now);
            }
            LimitChange::SameBurst => self.record(call, Outcome::THROTTLED.explained()),
            _ => self.record(call, Outcome::THROTTLED),
        }
    }

    fn record(&mut self, call: usize, outcome: Outcome) {
        let entropy = self.entropy();
        if let Some(ticket) = self.calls[call].ticket.take() {
            let change = self.health.record(self.now, ticket, outcome, entropy);
            self.log.note(change.transition());
        }
    }
}

fn within(log: &[Nanos], now: Nanos, span: Duration) -> u64 {
    let young = log.iter().rev().take_while(|at| now.since(**at) < span);
    u64::try_from(young.count()).expect("few")
}

/// Instants of all calls.
#[derive(Default)]
pub(super) struct CallLog {
    pub(super) sent: Vec<Nanos>,
    pub(super) good: Vec<Nanos>,
    pub(super) throttled: Vec<Nanos>,
    pub(super) flaps: usize,
}

impl CallLog {
    fn note(&mut self, transition: Option<HealthTransition>) {
        self.flaps += usize::from(transition.is_some_and(|t| t.from == HealthState::Normal));
    }

    pub(super) fn sent_between(&self, from: Nanos, to: Nanos) -> usize {
        between(&self.sent, from, to)
    }

    /// Returns the time after which 95 % of the rate pass for five seconds and for thirty.
    pub(super) fn settled_after(&self, healed: Nanos) -> Option<Duration> {
        let half_seconds = (0..500).map(|half| Duration::from_millis(half * 500));
        half_seconds.into_iter().find(|after| {
            let from = healed.saturating_add(*after);
            [5, 30].into_iter().all(|secs| {
                let to = from.saturating_add(Duration::from_secs(secs));
                between(&self.good, from, to) * 100 >= RATE * usize::try_from(secs).expect("small") * 95
            })
        })
    }
}

fn between(log: &[Nanos], from: Nanos, to: Nanos) -> usize {
    log.partition_point(|at| *at < to) - log.partition_point(|at| *at < from)
}
