//! A provider as its rules describe it: which call is of which group, and what each group allows.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use outflow::{Api, Events, SystemClock, Upstream};
use outflow_core::{
    Accounting, ClockPair, Cost, Decision, Limit, MeterSet, Nanos, ReceiptSet, RequestTiming,
    TooManyLimits,
};

use crate::error::SimulateError;

/// The groups of an API and their limits.
#[derive(Debug)]
pub(crate) struct SimulatedProvider {
    /// Knows the routes; it is never asked for leave.
    door: Upstream,
    limits: Vec<Limit>,
    groups: Vec<(String, Vec<Limit>)>,
}

/// Where a call belongs, and what it costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallLane {
    /// The place of its group in the list.
    pub(crate) place: usize,
    /// Its cost.
    pub(crate) cost: Cost,
}

impl SimulatedProvider {
    /// The provider that an API is.
    pub(crate) fn new(api: &Api) -> Result<Self, SimulateError> {
        let clock = Arc::new(SystemClock::new());
        let door = Upstream::new(&api.name, api.rules.clone(), clock, Events::new());
        let named = |group: &outflow::Group| (group.name.to_string(), group.limits.to_vec());
        Ok(Self {
            door: door.map_err(|why| SimulateError::Rules(why.into()))?,
            limits: api.rules.limits.clone(),
            groups: api.rules.groups.iter().map(named).collect(),
        })
    }

    /// Where a call belongs. A group that only the rules' default names is added to the list.
    pub(crate) fn lane(&mut self, method: &Method, path: &str) -> CallLane {
        let target = self.door.route(method, path);
        let name = self.door.group_name(target);
        let known = self.groups.iter().position(|(known, _)| *known == name);
        let place = known.unwrap_or_else(|| {
            self.groups.push((name.to_string(), Vec::new()));
            self.groups.len() - 1
        });
        CallLane {
            place,
            cost: target.cost(),
        }
    }

    /// The names of the groups, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.groups.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Meters for all calls and for each group, as the client keeps them.
    ///
    /// # Errors
    /// If there are more limits than a call can pass, which the rules do not allow.
    pub(crate) fn meters(&self) -> Result<ProviderMeters, TooManyLimits> {
        ProviderMeters::new(&self.limits, &self.groups)
    }

    /// The same as a server keeps them: by what arrives, and to the letter.
    ///
    /// # Errors
    /// As [`Self::meters`].
    pub(crate) fn judge(&self) -> Result<ProviderMeters, TooManyLimits> {
        let plain = |limits: &[Limit]| -> Vec<Limit> {
            let plain = limits.iter().map(|limit| limit.counted(Accounting::Send));
            plain.collect()
        };
        let groups = self.groups.iter();
        let groups: Vec<_> = groups
            .map(|(name, limits)| (name.clone(), plain(limits)))
            .collect();
        ProviderMeters::new(&plain(&self.limits), &groups)
    }
}

/// Meters for all calls, and for each group.
#[derive(Debug)]
pub(crate) struct ProviderMeters {
    all: MeterSet,
    groups: Vec<MeterSet>,
}

impl ProviderMeters {
    fn new(limits: &[Limit], groups: &[(String, Vec<Limit>)]) -> Result<Self, TooManyLimits> {
        let set = |limits: &[Limit]| MeterSet::new(limits, ClockPair::default());
        let groups = groups.iter().map(|(_, limits)| set(limits));
        Ok(Self {
            all: set(limits)?,
            groups: groups.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a call may go now; if so, it is taken everywhere.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        lane: usize,
        cost: Cost,
    ) -> Decision<(ReceiptSet, ReceiptSet)> {
        let Some(own) = self.groups.get_mut(lane) else {
            return Decision::Never;
        };
        match self.all.check(now, cost).and(own.check(now, cost)) {
            Decision::WaitUntil(at) => Decision::WaitUntil(at),
            Decision::Never => Decision::Never,
            Decision::Allow(_) => self.all.take(now, cost).and(own.take(now, cost)),
        }
    }

    /// Tells how a call went.
    pub(crate) fn settle(&mut self, lane: usize, grants: (ReceiptSet, ReceiptSet), end: CallEnd) {
        let CallEnd {
            answered,
            journey,
            floor,
        } = end;
        self.all.settle(answered, grants.0, journey, floor);
        if let Some(own) = self.groups.get_mut(lane) {
            own.settle(answered, grants.1, journey, floor);
        }
    }
}

/// How a call went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallEnd {
    pub(crate) answered: Nanos,
    pub(crate) journey: RequestTiming,
    pub(crate) floor: Option<Duration>,
}
