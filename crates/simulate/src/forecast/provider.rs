//! Model of a provider: routes to groups, and the limits of each group.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use outflow::{Api, Events, SystemClock, Upstream};
use outflow_core::{ClockPair, Cost, Decision, Limit, MeterSet, Nanos, ReceiptSet, RequestTiming, TooManyLimits};

use super::world::SimFlight;
use crate::error::SimulateError;

/// Groups of an API and their limits.
#[derive(Debug)]
pub(crate) struct SimulatedProvider {
    /// Resolves routes; it admits no call.
    upstream: Upstream,
    limits: Vec<Limit>,
    groups: Vec<(String, Vec<Limit>)>,
}

/// Group and cost of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallGroup {
    /// Index of the group.
    pub(crate) index: usize,
    /// Cost of the call.
    pub(crate) cost: Cost,
}

impl SimulatedProvider {
    /// Creates the model of an API.
    pub(crate) fn new(api: &Api) -> Result<Self, SimulateError> {
        let clock = Arc::new(SystemClock::new());
        let upstream = Upstream::new(&api.name, api.rules.clone(), clock, Events::new());
        let named = |group: &outflow::Group| (group.name.to_string(), group.limits.to_vec());
        Ok(Self {
            upstream: upstream.map_err(|why| SimulateError::Rules(why.into()))?,
            limits: api.rules.limits.clone(),
            groups: api.rules.groups.iter().map(named).collect(),
        })
    }

    /// Returns the group and the cost of a call. A group that only the rules' default names is added to the
    /// list.
    pub(crate) fn route(&mut self, method: &Method, path: &str) -> CallGroup {
        let target = self.upstream.route(method, path);
        let name = self.upstream.group_name(target);
        let known = self.groups.iter().position(|(known, _)| *known == name);
        let index = known.unwrap_or_else(|| {
            self.groups.push((name.to_string(), Vec::new()));
            self.groups.len() - 1
        });
        CallGroup {
            index,
            cost: target.cost(),
        }
    }

    /// Returns the names of the groups in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.groups.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns meters for all calls and for each group, of limits that are converted first.
    ///
    /// # Errors
    /// If there are more limits than a call can pass, which the rules do not allow.
    pub(crate) fn meters(&self, convert: impl Fn(&Limit) -> Limit) -> Result<ProviderMeters, TooManyLimits> {
        let set = |limits: &[Limit]| {
            let limits: Vec<_> = limits.iter().map(&convert).collect();
            MeterSet::new(&limits, ClockPair::default())
        };
        let groups = self.groups.iter().map(|(_, limits)| set(limits));
        Ok(ProviderMeters {
            all: set(&self.limits)?,
            groups: groups.collect::<Result<_, _>>()?,
        })
    }
}

/// Meters for all calls, and for each group.
#[derive(Debug)]
pub(crate) struct ProviderMeters {
    all: MeterSet,
    groups: Vec<MeterSet>,
}

impl ProviderMeters {
    /// Takes a call from all its meters if they allow it now.
    pub(crate) fn take(&mut self, now: Nanos, group: usize, cost: Cost) -> Decision<(ReceiptSet, ReceiptSet)> {
        let Some(own) = self.groups.get_mut(group) else {
            return Decision::Never;
        };
        match self.all.check(now, cost).and(own.check(now, cost)) {
            Decision::WaitUntil(at) => Decision::WaitUntil(at),
            Decision::Never => Decision::Never,
            Decision::Allow(_) => self.all.take(now, cost).and(own.take(now, cost)),
        }
    }

    /// Settles a call whose response arrives now; `floor` is the shortest round trip.
    pub(crate) fn settle(&mut self, now: Nanos, flight: SimFlight, floor: Option<Duration>) {
        let timing = RequestTiming::Answered {
            sent: flight.sent,
            answered: now,
        };
        let (all, own) = flight.receipts;
        self.all.settle(now, all, timing, floor);
        if let Some(meters) = self.groups.get_mut(flight.group) {
            meters.settle(now, own, timing, floor);
        }
    }
}
