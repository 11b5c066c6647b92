//! The client's side of a run, event by event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fastrand::Rng;
use outflow_core::{ClockPair, Cost, Decision, MeterSet, MinRtt, Nanos, ReceiptSet, RequestTiming};

use super::network::Network;
use super::server::StrictServer;
use super::{CallWeights, CellFigures, OracleCell};

/// A cell in progress.
#[derive(Debug)]
pub(super) struct Simulation {
    cell: OracleCell,
    network: Network,
    weights: Rng,
    server: StrictServer,
    set: MeterSet,
    min_rtt: MinRtt,
    calls: Vec<SentCall>,
    events: BinaryHeap<Reverse<(Nanos, SimulatedEvent)>>,
    next_cost: Cost,
    burst_left: u64,
    last_sent: Nanos,
}

/// A call that was sent.
#[derive(Debug)]
struct SentCall {
    receipts: Option<ReceiptSet>,
    sent: Nanos,
    cost: u64,
    is_refused: bool,
}

/// Next step of a call, by its index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SimulatedEvent {
    Arrives(usize),
    IsAnswered(usize),
    TimesOut(usize),
}

impl Simulation {
    #[expect(clippy::expect_used, reason = "limits are constants of a test")]
    pub(super) fn new(cell: OracleCell) -> Self {
        let set = MeterSet::new(&cell.client_limits(), ClockPair::default()).expect("few limits");
        let mut simulation = Self {
            cell,
            network: Network::new(cell.shape, cell.seed),
            weights: Rng::with_seed(!cell.seed),
            server: StrictServer::new(cell.rates()),
            set,
            min_rtt: MinRtt::default(),
            calls: Vec::with_capacity(cell.calls),
            events: BinaryHeap::new(),
            next_cost: Cost::ONE,
            burst_left: burst(cell),
            last_sent: Nanos::ZERO,
        };
        simulation.next_cost = simulation.draw_cost();
        simulation
    }

    /// Sends all calls, each as soon as the limits allow it.
    pub(super) fn run(mut self) -> CellFigures {
        let mut now = Nanos::ZERO;
        while self.calls.len() < self.cell.calls {
            now = self.send_all(now);
            self.advance_to(now);
        }
        self.advance_to(Nanos::MAX);
        let allowed = self.cell.allowed_in(self.last_sent.since(Nanos::ZERO));
        CellFigures {
            refused: self.server.refused,
            goodput: Duration::from_secs(self.server.accepted).as_secs_f64() / allowed,
        }
    }

    /// Sends what fits now. Returns the time of the next attempt.
    #[expect(clippy::panic, reason = "a limit smaller than a call is an error of the test")]
    fn send_all(&mut self, now: Nanos) -> Nanos {
        while self.calls.len() < self.cell.calls {
            match self.set.take(now, self.next_cost) {
                Decision::Allow(receipts) => self.send(now, receipts),
                Decision::WaitUntil(at) => {
                    let event = self.events.peek().map_or(at, |Reverse((event, _))| *event);
                    return at.min(event).max(now);
                }
                Decision::Never => panic!("a call is larger than a limit"),
            }
            if self.burst_left == 0 {
                self.burst_left = burst(self.cell);
                if let Some(idle) = self.network.idle_time() {
                    return now.saturating_add(idle);
                }
            }
        }
        now
    }

    fn send(&mut self, now: Nanos, receipts: ReceiptSet) {
        let index = self.calls.len();
        let trip = self.network.trip(now, index >= self.cell.calls / 2);
        let arrival = now.saturating_add(trip.there);
        self.events.push(Reverse((arrival, SimulatedEvent::Arrives(index))));
        let end = match trip.back {
            Some(back) => (arrival.saturating_add(back), SimulatedEvent::IsAnswered(index)),
            None => (now.saturating_add(TIMEOUT), SimulatedEvent::TimesOut(index)),
        };
        self.events.push(Reverse(end));
        self.calls.push(SentCall {
            receipts: Some(receipts),
            sent: now,
            cost: self.next_cost.units(),
            is_refused: false,
        });
        self.burst_left = self.burst_left.saturating_sub(self.next_cost.units());
        self.next_cost = self.draw_cost();
        self.last_sent = now;
    }

    fn advance_to(&mut self, now: Nanos) {
        while self.events.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((at, event))) = self.events.pop() else {
                return;
            };
            match event {
                SimulatedEvent::Arrives(index) => {
                    if let Some(call) = self.calls.get_mut(index) {
                        call.is_refused = !self.server.accept(at, call.cost);
                    }
                }
                SimulatedEvent::IsAnswered(index) => self.settle(at, index, true),
                SimulatedEvent::TimesOut(index) => self.settle(at, index, false),
            }
        }
    }

    /// Settles a call as the client does.
    fn settle(&mut self, now: Nanos, index: usize, is_answered: bool) {
        let Some(call) = self.calls.get_mut(index) else {
            return;
        };
        let Some(receipts) = call.receipts.take() else {
            return;
        };
        let (timing, floor) = if is_answered {
            let timing = RequestTiming::Answered {
                sent: call.sent,
                answered: now,
            };
            if call.is_refused {
                self.min_rtt.observe_throttle();
            }
            (timing, self.min_rtt.observe(now, now.since(call.sent)))
        } else {
            (RequestTiming::Lost { until: now }, self.min_rtt.floor(now))
        };
        self.set.settle(now, receipts, timing, floor);
    }

    fn draw_cost(&mut self) -> Cost {
        match self.cell.weights {
            CallWeights::Unit => Cost::ONE,
            CallWeights::OneToFive => Cost::new(self.weights.u64(1..=5)),
        }
    }
}

/// Returns the units of a burst: three windows' worth of the first limit.
fn burst(cell: OracleCell) -> u64 {
    cell.rates().next().map_or(0, |rate| 3 * rate.quantity())
}

/// The client's default timeout.
const TIMEOUT: Duration = Duration::from_secs(10);
