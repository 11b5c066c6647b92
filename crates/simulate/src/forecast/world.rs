//! Event loop of a forecast: plays arrivals, permits, sends and responses in order of time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outflow::Rules;
use outflow_core::{Accounting, Cost, Decision, FairQueue, Limit, MinRtt, Nanos, Priority, ReceiptSet, Tenant, Weight};

use super::load::LoadCall;
use super::provider::{ProviderMeters, SimulatedProvider};
use super::wait_histogram::WaitHistogram;
use crate::network::Network;
use crate::outcome::jain;

/// State of a forecast: client, provider and calls in flight.
pub(crate) struct LoadWorld {
    client: ProviderMeters,
    /// The provider's count of the client's calls.
    server: ProviderMeters,
    /// The provider's count if every call were sent at once.
    naive: ProviderMeters,
    groups: Vec<GroupQueue>,
    flights: BTreeMap<(Nanos, u64), SimFlight>,
    round_trips: MinRtt,
    network: Network,
    max_wait: Duration,
    queue_limit: usize,
    in_flight: u32,
    concurrency: u32,
    history: LoadHistory,
}

/// Result of a forecast.
#[derive(Debug, Default)]
pub struct LoadHistory {
    /// Results of each group, in the order of the rules.
    pub groups: Vec<(String, GroupHistory)>,
    /// Waits of each tenant's calls.
    pub tenants: Vec<WaitHistogram>,
    /// From the first call to the last.
    pub offered: Duration,
    /// From the first call to the last answer.
    pub took: Duration,
}

/// Result of one group.
#[derive(Clone, Debug, Default)]
pub struct GroupHistory {
    /// Number of calls.
    pub calls: u64,
    /// Throttled by the provider if all calls were sent at once.
    pub naive_refusals: u64,
    /// Throttled by the provider with Outflow.
    pub refusals: u64,
    /// Refused by Outflow: the queue was full, or the wait too long.
    pub given_up: u64,
    /// Waits of the calls that were sent.
    pub waits: WaitHistogram,
    /// Longest wait queue.
    pub most_waiting: usize,
}

impl LoadHistory {
    /// Returns Jain's index of the tenants' mean waits: 1 if all are equal, 1/n if one of n has all.
    pub fn fairness(&self) -> f64 {
        let means: Vec<_> = self
            .tenants
            .iter()
            .filter(|waits| waits.count() > 0)
            .map(|waits| waits.mean().as_secs_f64())
            .collect();
        jain(&means)
    }
}

/// Wait queue of one group.
#[derive(Default)]
struct GroupQueue {
    order: FairQueue,
    tenants: BTreeMap<usize, (Tenant, VecDeque<LoadCall>)>,
    by_slot: Vec<usize>,
    waiting: usize,
    /// Instant of the next possible permit.
    wake: Option<Nanos>,
}

/// Call in flight, with its receipts of all calls and of its group.
pub(super) struct SimFlight {
    pub(super) group: usize,
    pub(super) sent: Nanos,
    pub(super) receipts: (ReceiptSet, ReceiptSet),
}

impl LoadWorld {
    /// Creates the state before the first call.
    ///
    /// # Errors
    /// If the rules hold more limits than a call can pass.
    pub(crate) fn new(
        provider: SimulatedProvider,
        network: Network,
        rules: &Rules,
    ) -> Result<Self, outflow_core::TooManyLimits> {
        let names = provider.names();
        let queues = names.iter().map(|_| GroupQueue::default()).collect();
        // A server counts by arrival, and exactly.
        let by_arrival = |limit: &Limit| limit.counted(Accounting::Send);
        let histories = names.iter().map(|name| (name.clone(), GroupHistory::default()));
        Ok(Self {
            client: provider.meters(Limit::clone)?,
            server: provider.meters(by_arrival)?,
            naive: provider.meters(by_arrival)?,
            groups: queues,
            flights: BTreeMap::new(),
            round_trips: MinRtt::default(),
            network,
            max_wait: rules.max_wait,
            queue_limit: rules.queue,
            in_flight: 0,
            concurrency: rules.concurrency(),
            history: LoadHistory {
                groups: histories.collect(),
                ..LoadHistory::default()
            },
        })
    }

    /// Plays all calls.
    pub(crate) fn play(mut self, calls: impl Iterator<Item = LoadCall>) -> LoadHistory {
        let mut calls = calls.peekable();
        loop {
            let arrival = calls.peek().map(|call| call.at);
            let back = self.flights.first_key_value().map(|((at, _), _)| *at);
            let wake = self.groups.iter().filter_map(|group| group.wake).min();
            let Some(now) = [arrival, back, wake].into_iter().flatten().min() else {
                break;
            };
            while let Some(call) = calls.next_if(|call| call.at <= now) {
                self.arrive(call);
            }
            while let Some(entry) = self.flights.first_entry()
                && entry.key().0 <= now
            {
                let flight = entry.remove();
                self.complete(now, flight);
            }
            self.serve(now);
        }
        self.history
    }

    fn arrive(&mut self, call: LoadCall) {
        self.history.offered = call.at.since(Nanos::ZERO);
        let naive = self.naive.take(call.at, call.group, call.cost).is_allow();
        let waiting: usize = self.groups.iter().map(|group| group.waiting).sum();
        let is_full = waiting >= self.queue_limit;
        let (Some(queue), Some((_, history))) =
            (self.groups.get_mut(call.group), self.history.groups.get_mut(call.group))
        else {
            return;
        };
        history.calls += 1;
        history.naive_refusals += u64::from(!naive);
        if is_full {
            history.given_up += 1;
            return;
        }
        queue.push(call);
        history.most_waiting = history.most_waiting.max(queue.waiting);
    }

    fn complete(&mut self, now: Nanos, flight: SimFlight) {
        self.in_flight -= 1;
        self.history.took = now.since(Nanos::ZERO);
        let floor = self.round_trips.observe(now, now.since(flight.sent));
        self.client.settle(now, flight, floor);
        for group in &mut self.groups {
            group.wake = None;
        }
    }

    fn serve(&mut self, now: Nanos) {
        for group in 0..self.groups.len() {
            while self.in_flight < self.concurrency && self.serve_one(now, group) {}
        }
    }

    /// Sends or refuses the first call of a group. Returns true if the next call may follow.
    fn serve_one(&mut self, now: Nanos, group: usize) -> bool {
        let Some(queue) = self.groups.get_mut(group) else {
            return false;
        };
        if queue.wake.is_some_and(|at| now < at) {
            return false;
        }
        queue.wake = None;
        let Some(call) = queue.first(now) else {
            return false;
        };
        if now.since(call.at) > self.max_wait {
            queue.pop(call, Cost::ZERO);
            return self.record(group, |history| history.given_up += 1);
        }
        match self.client.take(now, group, call.cost) {
            Decision::Allow(receipts) => {
                queue.pop(call, call.cost);
                self.send(now, call, receipts);
                true
            }
            Decision::WaitUntil(at) => {
                queue.wake = Some(at);
                false
            }
            Decision::Never => {
                queue.pop(call, Cost::ZERO);
                self.record(group, |history| history.given_up += 1)
            }
        }
    }

    fn send(&mut self, now: Nanos, call: LoadCall, receipts: (ReceiptSet, ReceiptSet)) {
        let there = now.saturating_add(self.network.draw());
        let back = there.saturating_add(self.network.draw());
        let accepted = self.server.take(there, call.group, call.cost).is_allow();
        let waited = now.since(call.at);
        self.record(call.group, |history| {
            history.waits.add(waited);
            history.refusals += u64::from(!accepted);
        });
        if self.history.tenants.len() <= call.tenant {
            let tenants = call.tenant + 1;
            self.history.tenants.resize_with(tenants, WaitHistogram::default);
        }
        if let Some(waits) = self.history.tenants.get_mut(call.tenant) {
            waits.add(waited);
        }
        self.in_flight += 1;
        let number = self
            .history
            .groups
            .iter()
            .map(|(_, history)| history.waits.count())
            .sum();
        let flight = SimFlight {
            group: call.group,
            sent: now,
            receipts,
        };
        self.flights.insert((back, number), flight);
    }

    fn record(&mut self, group: usize, update: impl FnOnce(&mut GroupHistory)) -> bool {
        if let Some((_, history)) = self.history.groups.get_mut(group) {
            update(history);
        }
        true
    }
}

impl GroupQueue {
    fn push(&mut self, call: LoadCall) {
        let (order, by_slot) = (&mut self.order, &mut self.by_slot);
        let (tenant, queue) = self.tenants.entry(call.tenant).or_insert_with(|| {
            by_slot.push(call.tenant);
            let tenant = order.join(Weight::ONE, Priority::Normal);
            (tenant, VecDeque::new())
        });
        queue.push_back(call);
        self.waiting += 1;
        self.order.enter(*tenant);
    }

    /// Returns the first call of the next tenant. Tenants joined in the order of their slots.
    fn first(&mut self, now: Nanos) -> Option<LoadCall> {
        let slot = usize::try_from(self.order.next(now)?.slot()).ok()?;
        let (_, queue) = self.tenants.get(self.by_slot.get(slot)?)?;
        queue.front().copied()
    }

    fn pop(&mut self, call: LoadCall, cost: Cost) {
        let Some((tenant, queue)) = self.tenants.get_mut(&call.tenant) else {
            return;
        };
        queue.pop_front();
        self.waiting -= 1;
        self.order.charge(*tenant, cost);
        if queue.is_empty() {
            self.order.set_idle(*tenant);
        }
    }
}
