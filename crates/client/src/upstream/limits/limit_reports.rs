//! Reports of limits: their rates, their usage and their drift.

use outflow_core::{HealthSnapshot, Limit, LimitDrift, Nanos};

use super::super::explain::LimitRates;
use super::super::report::LimitReport;
use super::ScopeLimits;
use super::limit_state::LimitState;
use crate::event::DriftChange;

impl ScopeLimits {
    /// Reports each limit in effect.
    /// `health` is that of their circuit, if they follow one.
    pub(in crate::upstream) fn reports(
        &mut self,
        now: Nanos,
        waiting: u64,
        health: Option<&HealthSnapshot>,
    ) -> Vec<LimitReport> {
        let usage: Vec<_> = self.meters.usage(now, waiting).collect();
        let shared: Vec<_> = (0..usage.len()).map(|index| self.shared_usage(index)).collect();
        let rates: Vec<_> = self.rates(now).collect();
        let usage = usage.into_iter().zip(shared);
        let limits = self.meters.statuses(now).zip(usage).zip(&self.states).zip(rates);
        let report =
            |((((limit, _), (usage, shared)), state), rates): ((((&Limit, _), _), &LimitState), LimitRates)| {
                LimitReport {
                    limit: *limit,
                    usage,
                    shared,
                    drift: state.adaptive.drift(now),
                    lowered: rates.lowered(health, now),
                    history: state.history(),
                }
            };
        limits.map(report).collect()
    }

    /// Returns the drifts that changed since the last call, with the direction of the change.
    pub(in crate::upstream) fn take_drift(
        &mut self,
        now: Nanos,
    ) -> impl Iterator<Item = (Option<LimitDrift>, DriftChange)> {
        let drifts = self.states.iter_mut().map(move |state| {
            let drift = state.adaptive.drift(now);
            Some((drift, state.update_drift(drift)?))
        });
        drifts.flatten()
    }

    /// Returns the rates of each limit.
    pub(in crate::upstream) fn rates(&mut self, now: Nanos) -> impl Iterator<Item = LimitRates> {
        let processes = self.processes();
        let limits = self.meters.statuses(now).zip(&self.configured).zip(&self.states);
        limits.map(move |(((limit, _), configured), state)| LimitRates {
            processes,
            configured: configured.rate(),
            adapted: state.adaptive.effective(),
            effective: limit.rate(),
            drifting: state.adaptive.drift(now).map(|drift| drift.lasting),
        })
    }
}
