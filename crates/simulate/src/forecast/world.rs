//! Plays a load in the order of time: calls come, wait for their turn, go, and come back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outflow::Rules;
use outflow_core::{
    Cost, Decision, FairQueue, MinRtt, Nanos, Priority, ReceiptSet, RequestTiming, Tenant, Weight,
};

use super::load::LoadCall;
use super::provider::{CallEnd, ProviderMeters, SimulatedProvider};
use super::wait_histogram::WaitHistogram;
use crate::network::Network;

/// A provider and a client, and what is between them.
pub(crate) struct LoadWorld {
    ours: ProviderMeters,
    /// The provider's own count of what we send.
    theirs: ProviderMeters,
    /// The provider's count if everybody sent at once.
    naive: ProviderMeters,
    lanes: Vec<GroupQueue>,
    flights: BTreeMap<(Nanos, u64), SimFlight>,
    round_trips: MinRtt,
    network: Network,
    max_wait: Duration,
    room: usize,
    in_flight: u32,
    concurrency: u32,
    told: LoadHistory,
}

/// What happened.
#[derive(Debug, Default)]
pub struct LoadHistory {
    /// Each group, in the order of the rules.
    pub groups: Vec<(String, GroupHistory)>,
    /// The waits of each tenant's calls.
    pub tenants: Vec<WaitHistogram>,
    /// From the first call to the last.
    pub offered: Duration,
    /// From the first call to the last answer.
    pub took: Duration,
}

/// What happened to one group.
#[derive(Clone, Debug, Default)]
pub struct GroupHistory {
    /// The number of calls.
    pub calls: u64,
    /// Refused by the provider if all were sent at once.
    pub naive_refusals: u64,
    /// Refused by the provider as we send them.
    pub refusals: u64,
    /// Given up by us: too many wait, or for too long.
    pub given_up: u64,
    /// The waits of the calls that were sent.
    pub waits: WaitHistogram,
    /// The longest that the wait queue became.
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
        let (sum, squares) = means.iter().fold((0.0, 0.0), |(sum, squares), mean| {
            (sum + mean, squares + mean * mean)
        });
        let count = f64::from(u32::try_from(means.len()).unwrap_or(u32::MAX));
        if squares > 0.0 {
            sum * sum / (count * squares)
        } else {
            1.0
        }
    }
}

/// The calls of one group that wait.
#[derive(Default)]
struct GroupQueue {
    order: FairQueue,
    tenants: BTreeMap<usize, (Tenant, VecDeque<LoadCall>)>,
    by_slot: Vec<usize>,
    waiting: usize,
    /// When it is worth asking again.
    wake: Option<Nanos>,
}

struct SimFlight {
    lane: usize,
    sent: Nanos,
    grants: (ReceiptSet, ReceiptSet),
}

impl LoadWorld {
    /// Nobody has called yet.
    ///
    /// # Errors
    /// If the rules hold more limits than a call can pass.
    pub(crate) fn new(
        provider: SimulatedProvider,
        network: Network,
        rules: &Rules,
    ) -> Result<Self, outflow_core::TooManyLimits> {
        let names = provider.names();
        let lanes = names.iter().map(|_| GroupQueue::default()).collect();
        let groups = names
            .iter()
            .map(|name| (name.clone(), GroupHistory::default()));
        Ok(Self {
            ours: provider.meters()?,
            theirs: provider.judge()?,
            naive: provider.judge()?,
            lanes,
            flights: BTreeMap::new(),
            round_trips: MinRtt::default(),
            network,
            max_wait: rules.max_wait,
            room: rules.queue,
            in_flight: 0,
            concurrency: rules.health.settings().concurrency,
            told: LoadHistory {
                groups: groups.collect(),
                ..LoadHistory::default()
            },
        })
    }

    /// Plays until nothing is left to do.
    pub(crate) fn play(mut self, calls: impl Iterator<Item = LoadCall>) -> LoadHistory {
        let mut calls = calls.peekable();
        loop {
            let coming = calls.peek().map(|call| call.at);
            let back = self.flights.first_key_value().map(|((at, _), _)| *at);
            let wake = self.lanes.iter().filter_map(|lane| lane.wake).min();
            let Some(now) = [coming, back, wake].into_iter().flatten().min() else {
                break;
            };
            while let Some(call) = calls.next_if(|call| call.at <= now) {
                self.come(call);
            }
            while let Some(entry) = self.flights.first_entry()
                && entry.key().0 <= now
            {
                let flight = entry.remove();
                self.come_back(now, flight);
            }
            self.serve(now);
        }
        self.told
    }

    fn come(&mut self, call: LoadCall) {
        self.told.offered = call.at.since(Nanos::ZERO);
        let naive = self.naive.take(call.at, call.lane, call.cost).is_allow();
        let waiting: usize = self.lanes.iter().map(|lane| lane.waiting).sum();
        let is_full = waiting >= self.room;
        let (Some(lane), Some((_, told))) = (
            self.lanes.get_mut(call.lane),
            self.told.groups.get_mut(call.lane),
        ) else {
            return;
        };
        told.calls += 1;
        told.naive_refusals += u64::from(!naive);
        if is_full {
            told.given_up += 1;
            return;
        }
        lane.push(call);
        told.most_waiting = told.most_waiting.max(lane.waiting);
    }

    fn come_back(&mut self, now: Nanos, flight: SimFlight) {
        self.in_flight -= 1;
        self.told.took = now.since(Nanos::ZERO);
        let floor = self.round_trips.observe(now, now.since(flight.sent));
        let journey = RequestTiming::Answered {
            sent: flight.sent,
            answered: now,
        };
        let end = CallEnd {
            answered: now,
            journey,
            floor,
        };
        self.ours.settle(flight.lane, flight.grants, end);
        for lane in &mut self.lanes {
            lane.wake = None;
        }
    }

    fn serve(&mut self, now: Nanos) {
        for place in 0..self.lanes.len() {
            while self.in_flight < self.concurrency && self.serve_one(now, place) {}
        }
    }

    /// Whether somebody of the group could go or gave up, so that the next may be asked.
    fn serve_one(&mut self, now: Nanos, place: usize) -> bool {
        let Some(lane) = self.lanes.get_mut(place) else {
            return false;
        };
        if lane.wake.is_some_and(|at| now < at) {
            return false;
        }
        lane.wake = None;
        let Some(call) = lane.first(now) else {
            return false;
        };
        if now.since(call.at) > self.max_wait {
            lane.pop(call, Cost::ZERO);
            return self.note(place, |told| told.given_up += 1);
        }
        match self.ours.take(now, place, call.cost) {
            Decision::Allow(grants) => {
                lane.pop(call, call.cost);
                self.send(now, call, grants);
                true
            }
            Decision::WaitUntil(at) => {
                lane.wake = Some(at);
                false
            }
            Decision::Never => {
                lane.pop(call, Cost::ZERO);
                self.note(place, |told| told.given_up += 1)
            }
        }
    }

    fn send(&mut self, now: Nanos, call: LoadCall, grants: (ReceiptSet, ReceiptSet)) {
        let there = now.saturating_add(self.network.draw());
        let back = there.saturating_add(self.network.draw());
        let taken = self.theirs.take(there, call.lane, call.cost).is_allow();
        let waited = now.since(call.at);
        self.note(call.lane, |told| {
            told.waits.add(waited);
            told.refusals += u64::from(!taken);
        });
        if self.told.tenants.len() <= call.tenant {
            let tenants = call.tenant + 1;
            self.told
                .tenants
                .resize_with(tenants, WaitHistogram::default);
        }
        if let Some(waits) = self.told.tenants.get_mut(call.tenant) {
            waits.add(waited);
        }
        self.in_flight += 1;
        let number = self
            .told
            .groups
            .iter()
            .map(|(_, told)| told.waits.count())
            .sum();
        let flight = SimFlight {
            lane: call.lane,
            sent: now,
            grants,
        };
        self.flights.insert((back, number), flight);
    }

    fn note(&mut self, place: usize, tell: impl FnOnce(&mut GroupHistory)) -> bool {
        if let Some((_, told)) = self.told.groups.get_mut(place) {
            tell(told);
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

    /// The first call of the tenant whose turn it is. Tenants joined in the order of their slots.
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
