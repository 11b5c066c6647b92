//! Evaluates the audit of the API: arrival times, tenants and statuses.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use outflow_core::Nanos;
use outflow_mock::{Arrival, ArrivalVerdict, Audit};

use super::scenario::{LimitScope, Scenario, Wave};
use crate::measure::approx;

/// Result of one run, from the audit alone.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Judged {
    /// Calls that the API throttled.
    pub(super) refused: f64,
    /// Highest number of calls in any second, throttled ones included, divided by the limit.
    pub(super) peak: f64,
    /// Jobs that never succeeded, and jobs that succeeded more than once.
    pub(super) lost: f64,
    pub(super) doubled: f64,
    /// Jain's index of the tenants' throughput while all had jobs; 1 is perfectly even.
    pub(super) jain: f64,
    /// Largest distance of any tenant from its share in that time, in jobs.
    pub(super) astray: f64,
    /// The last tenant's end compared with its ideal: as a ratio, and in seconds for tenants that joined later.
    pub(super) finish: f64,
    pub(super) late: f64,
}

impl Judged {
    /// Evaluates a run that started at this instant of the API's clock.
    pub(super) fn from_audit(audit: &Audit, scenario: &Scenario, begun: Nanos) -> Self {
        let passed = audit.only(|arrival| arrival.verdict == ArrivalVerdict::Allowed);
        let passed = Passed {
            arrivals: passed.arrivals(),
            scenario,
            begun,
        };
        let distinct = passed.distinct();
        Self {
            refused: approx(audit.refused()),
            peak: peak(audit, scenario),
            lost: approx(scenario.jobs()) - distinct,
            doubled: approx(passed.arrivals.len()) - distinct,
            jain: passed.jain(),
            astray: passed.astray(),
            finish: passed.worst(|wave, end| end.as_secs_f64() / wave.ideal.as_secs_f64()),
            late: passed.worst(|wave, end| {
                let late = end.as_secs_f64() - wave.ideal.as_secs_f64();
                if wave.at.is_zero() { f64::MIN } else { late }
            }),
        }
    }
}

/// The successful calls.
struct Passed<'a> {
    arrivals: &'a [Arrival],
    scenario: &'a Scenario,
    begun: Nanos,
}

impl Passed<'_> {
    fn distinct(&self) -> f64 {
        let paths: HashSet<_> = self.arrivals.iter().map(|a| &a.path).collect();
        approx(paths.len())
    }

    /// Returns the calls of the time in which all tenants have jobs.
    fn contested(&self) -> impl Iterator<Item = &Arrival> {
        let until = self.scenario.fair_until.unwrap_or_default();
        self.arrivals
            .iter()
            .take_while(move |arrival| arrival.at.since(self.begun) < until)
    }

    fn jain(&self) -> f64 {
        let mut had: HashMap<&str, f64> = HashMap::new();
        for arrival in self.contested() {
            *had.entry(&arrival.caller).or_insert(0.0) += 1.0;
        }
        let weighed = self
            .scenario
            .waves
            .iter()
            .map(|wave| had.get(&*wave.tenant).copied().unwrap_or(0.0) / approx(wave.weight));
        let (mut sum, mut squares) = (0.0, 0.0);
        for part in weighed {
            sum += part;
            squares += part * part;
        }
        sum * sum / (approx(self.scenario.waves.len()) * squares)
    }

    /// Compares after each window's worth of calls: within a window the order of the tenants decides.
    fn astray(&self) -> f64 {
        let waves = &self.scenario.waves;
        let mut had: HashMap<&str, f64> = HashMap::new();
        let mut worst = 0.0_f64;
        for (place, arrival) in (1_u64..).zip(self.contested()) {
            *had.entry(&arrival.caller).or_insert(0.0) += 1.0;
            if !place.is_multiple_of(self.scenario.limit.quantity) {
                continue;
            }
            for wave in waves {
                let share = approx(place) * approx(wave.share) / approx(shares(waves));
                let had = had.get(&*wave.tenant).copied().unwrap_or(0.0);
                worst = worst.max((had - share).abs());
            }
        }
        worst
    }

    /// Returns the highest value of `part` over the tenants' ends; NaN if a tenant has none.
    fn worst(&self, part: impl Fn(&Wave, Duration) -> f64) -> f64 {
        let mut ends: HashMap<&str, Duration> = HashMap::new();
        for arrival in self.arrivals {
            ends.insert(&arrival.caller, arrival.at.since(self.begun));
        }
        let each = self.scenario.waves.iter().map(|wave| {
            let end = ends.get(&*wave.tenant);
            end.map_or(f64::NAN, |end| part(wave, *end))
        });
        each.fold(f64::MIN, |worst, one| if one.is_nan() { one } else { worst.max(one) })
    }
}

fn shares(waves: &[Wave]) -> u64 {
    waves.iter().map(|wave| wave.share).sum::<u64>().max(1)
}

/// Returns the worst tenant if each has its own limit. For a limit that changes, the highest value counts.
fn peak(audit: &Audit, scenario: &Scenario) -> f64 {
    let most = match scenario.limit.whose {
        LimitScope::Everyone => audit.most_in_any_window(WINDOW),
        LimitScope::EachTenant => {
            let each = scenario
                .waves
                .iter()
                .map(|wave| audit.of_caller(&wave.tenant).most_in_any_window(WINDOW));
            each.max().unwrap_or(0)
        }
    };
    approx(most) / approx(scenario.limit.quantity)
}

/// Window of all limits here.
const WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::scenario::TimeScale;
    use super::*;

    fn call(millis: u64, tenant: &str, number: u64) -> Arrival {
        Arrival {
            caller: tenant.into(),
            path: format!("/{tenant}/{number}").into(),
            ..Arrival::at(Nanos::from_millis(millis))
        }
    }

    fn scenario(name: &str) -> Scenario {
        let mut all = Scenario::all(TimeScale::scaled(1)).into_iter();
        all.find(|scenario| scenario.name == name).expect("known")
    }

    // Sixty calls at thirty a second, of which A has 30, B 20 and C 10: exactly their shares.
    #[test]
    fn a_run_that_keeps_the_weights_has_no_deviation() {
        let mut calls = Vec::new();
        for round in 0..10 {
            for (place, tenant) in (0_u64..).zip(["A", "B", "A", "C", "A", "B"]) {
                let number = round * 6 + place;
                calls.push(call(number * 34, tenant, number));
            }
        }
        let weights = scenario(super::super::scenario::WEIGHTS);
        let judged = Judged::from_audit(&Audit::from_arrivals(calls), &weights, Nanos::ZERO);
        assert!(judged.astray < 0.1, "{judged:?}");
        assert!((judged.jain - 1.0).abs() < 1e-9, "{judged:?}");
    }

    // First come, first served: all of the first 150 calls are A's.
    #[test]
    fn a_tenant_with_all_calls_has_the_lowest_fairness() {
        let calls = (0..150).map(|number| call(number * 33, "A", number)).collect();
        let asymmetric = scenario(super::super::scenario::ASYMMETRIC);
        let judged = Judged::from_audit(&Audit::from_arrivals(calls), &asymmetric, Nanos::ZERO);
        assert!((judged.jain - 1.0 / 3.0).abs() < 1e-9, "{judged:?}");
        assert!(judged.finish.is_nan(), "B and C never finished: {judged:?}");
    }

    // Eleven calls of B in one second where ten are allowed; one of its jobs succeeded twice, and all but
    // twenty-one of fifteen thousand are missing.
    #[test]
    fn an_exceeded_window_a_loss_and_a_repeat_are_counted() {
        let mut calls: Vec<_> = (0..11).map(|number| call(number * 90, "B", number)).collect();
        calls.extend((0..11).map(|number| call(1_100 + number * 100, "A", number % 10)));
        let headline = scenario(super::super::scenario::HEADLINE);
        let judged = Judged::from_audit(&Audit::from_arrivals(calls), &headline, Nanos::ZERO);
        let seen = (judged.peak, judged.doubled, judged.lost);
        assert_eq!(seen, (1.1, 1.0, 15_000.0 - 21.0));
    }
}
