//! The earliest instant at which a call fits the limits, after the calls ahead of it.

use std::time::Duration;

use outflow_core::{Accounting, Cost, Decision, Limit, LimitKind, MeterStatus, Nanos, Rate, UnitCost};

use super::super::explain::LimitRates;
use super::super::in_flight::UnansweredAttempt;
use super::super::wait_queue::QueueAhead;
use super::ScopeLimits;
use super::limit_state::LimitState;

/// The earliest start of a call, and the limit that delays it.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct EarliestFit {
    pub(in crate::upstream) at: Nanos,
    pub(in crate::upstream) limit: Option<FittingLimit>,
}

/// Limit that delays a call.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) enum FittingLimit {
    /// The limit at this index.
    Index(usize),
    /// A limit of this rate, of which the API said that nothing is left.
    Named(Rate),
}

/// Now, and the first instant at which the circuit allows a start.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct FitTime {
    pub(in crate::upstream) now: Nanos,
    pub(in crate::upstream) from: Nanos,
    pub(in crate::upstream) pace: FitPace,
}

/// Rate at which the calls ahead start.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) enum FitPace {
    /// The rate in effect: what a caller reads.
    Current,
    /// The rate that is back soon, if trouble ends as quickly as it began: what decides a refusal.
    Recovered {
        /// True while the rate grows back to full within seconds.
        is_ramping: bool,
    },
}

impl ScopeLimits {
    /// Returns the earliest fit of a cost behind the calls `ahead`.
    pub(in crate::upstream) fn find_fit(&mut self, time: FitTime, ahead: QueueAhead, cost: Cost) -> EarliestFit {
        let itself = QueueAhead {
            count: 1,
            cost: self.fitting_cost(cost).units(),
        };
        self.find_last_fit(time, ahead.and(itself))
    }

    /// Returns the earliest fit if no call in flight gets a response.
    pub(in crate::upstream) fn find_fit_if_lost(
        &mut self,
        time: FitTime,
        ahead: QueueAhead,
        cost: Cost,
        in_flight: &[UnansweredAttempt],
    ) -> EarliestFit {
        let lost = in_flight.iter().map(|attempt| (attempt.cost, attempt.until));
        let lost = self.meters.with_lost(time.now, lost);
        let known = std::mem::replace(&mut self.meters, lost);
        let fit = self.find_fit(time, ahead, cost);
        self.meters = known;
        fit
    }

    /// Returns the earliest fit of the last of some calls.
    fn find_last_fit(&mut self, time: FitTime, all: QueueAhead) -> EarliestFit {
        let cooldown = self.cooldown;
        let mut latest = EarliestFit {
            at: time.from.max(cooldown.until),
            limit: cooldown
                .limit
                .filter(|_| cooldown.until > time.from)
                .map(FittingLimit::Named),
        };
        let time = FitTime {
            from: latest.at,
            ..time
        };
        for index in 0..self.configured.len() {
            let fit = self.find_fit_in(index, all, time);
            if fit.at > latest.at {
                latest = fit;
            }
        }
        match self.account_opens_at(time.now, Cost::new(all.cost)) {
            Some(at) if at > latest.at => EarliestFit {
                at,
                limit: self.fullest_shared().map(FittingLimit::Index),
            },
            _ => latest,
        }
    }

    /// Returns the rates of a limit that delays a call.
    pub(in crate::upstream) fn rates_of(&mut self, limit: FittingLimit, now: Nanos) -> Option<LimitRates> {
        let processes = self.processes();
        match limit {
            FittingLimit::Index(index) => self.rates(now).nth(index),
            FittingLimit::Named(rate) => self
                .rates(now)
                .find(|rates| rates.effective == rate)
                .or(Some(LimitRates {
                    configured: rate,
                    adapted: rate,
                    effective: rate,
                    drifting: None,
                    processes,
                })),
        }
    }

    /// Returns the part of `all` that fits by an instant.
    pub(in crate::upstream) fn count_fitting(&mut self, until: Nanos, time: FitTime, all: QueueAhead) -> QueueAhead {
        let total = all.cost.max(all.count);
        let mut fits = |part: u64| self.find_last_fit(time, all.part(part, total)).at <= until;
        if fits(total) {
            return all;
        }
        let (mut fitting, mut failing) = (0, total);
        while failing - fitting > 1 {
            let middle = fitting + (failing - fitting) / 2;
            if fits(middle) {
                fitting = middle;
            } else {
                failing = middle;
            }
        }
        all.part(fitting, total)
    }

    /// Returns the earliest fit of the last of some calls in one limit. In a sliding window each unit
    /// fits one window after the unit a full capacity before it; an empty bucket refills evenly.
    fn find_fit_in(&mut self, index: usize, all: QueueAhead, time: FitTime) -> EarliestFit {
        let unlimited = EarliestFit {
            at: time.from,
            limit: None,
        };
        let status = self.meters.statuses(time.now).nth(index);
        let Some((limit, status)) = status.map(|(limit, status)| (*limit, status)) else {
            return unlimited;
        };
        let delaying = Some(FittingLimit::Index(index));
        let total = all.units(limit.measure().unit_cost());
        if total == 0 {
            return unlimited;
        }
        if has_windows(&limit) {
            let at = find_window(total, &limit, &status, time.from);
            return EarliestFit { at, limit: delaying };
        }
        let capacity = limit.capacity().max(1);
        let rest = match limit.kind() {
            LimitKind::Bucket { .. } => total.min(capacity),
            _ => (total - 1) % capacity + 1,
        };
        let first = match self.meters.check_units(time.now, index, rest) {
            Decision::WaitUntil(at) => at.saturating_add(self.account_delay(&limit)),
            Decision::Allow(()) | Decision::Never => time.now,
        };
        let at = first.max(time.from);
        let at = at.saturating_add(time_for(total - rest, self.pace_rate(index, &limit, time)));
        EarliestFit { at, limit: delaying }
    }

    /// Returns true if a limit may be back at its configured rate soon.
    pub(in crate::upstream) fn may_recover(&self, now: Nanos) -> bool {
        let lowered = |state: &LimitState| {
            state
                .adaptive
                .drift(now)
                .is_some_and(|drift| drift.lasting < RECENT_DRIFT)
        };
        self.states.iter().any(lowered)
    }

    /// Returns the rate at which the calls ahead start. Trouble that began a moment ago often ends as quickly: a limit
    /// that evidence lowered just now refuses no caller that it could serve as configured, and a ramp none that it
    /// serves when it is over.
    fn pace_rate(&self, index: usize, limit: &Limit, time: FitTime) -> Rate {
        let (Some(state), FitPace::Recovered { is_ramping }) = (self.states.get(index), time.pace) else {
            return limit.rate();
        };
        match state.adaptive.drift(time.now) {
            Some(drift) if drift.lasting < RECENT_DRIFT => drift.configured,
            _ if is_ramping => state.adaptive.effective(),
            _ => limit.rate(),
        }
    }
}

/// The default wait of a caller.
const RECENT_DRIFT: Duration = Duration::from_secs(30);

impl QueueAhead {
    /// Returns their units in a limit.
    const fn units(self, unit_cost: UnitCost) -> u64 {
        unit_cost.total_units(self.count, self.cost)
    }

    /// Returns `part` of `total` of them, rounded down to calls that fit completely.
    fn part(self, part: u64, total: u64) -> Self {
        let scale = |all: u64| {
            let share = u128::from(all) * u128::from(part) / u128::from(total.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        Self {
            count: scale(self.count),
            cost: scale(self.cost),
        }
    }
}

/// Returns true if all units return together. A window that begins with use is metered as a sliding one
/// where arrivals count, because the arrival that began it is unknown.
fn has_windows(limit: &Limit) -> bool {
    match limit.kind() {
        LimitKind::Aligned => true,
        LimitKind::Fixed => limit.accounting() == Accounting::Send,
        LimitKind::Sliding | LimitKind::Bucket { .. } => false,
    }
}

/// Returns the beginning of the window in which the last of `total` units fits.
fn find_window(total: u64, limit: &Limit, status: &MeterStatus, from: Nanos) -> Nanos {
    let (capacity, window) = (limit.capacity().max(1), limit.rate().per());
    let (left, end) = if from < status.window_end {
        (status.remaining(), status.window_end)
    } else {
        (capacity, from.saturating_add(window))
    };
    let Some(beyond) = total.checked_sub(left).filter(|beyond| *beyond > 0) else {
        return from;
    };
    let full_windows = (beyond - 1) / capacity * capacity;
    end.saturating_add(time_for(full_windows, limit.rate()))
}

fn time_for(units: u64, rate: Rate) -> Duration {
    let nanos = rate.per().as_nanos().saturating_mul(u128::from(units));
    let nanos = nanos / u128::from(rate.quantity().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
