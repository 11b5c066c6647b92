//! Workloads: jobs of each tenant and their times, the API's limits, and the ideal duration.
//!
//! The ideal is the number of jobs divided by the rate. An API that allows a whole window's quota at once makes
//! the true bound one window shorter, which is not required.

use std::time::Duration;

use outflow_mock::Dialect;

/// A workload for every contender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) limit: Limit,
    pub(super) waves: Vec<Wave>,
    /// Limits a second, each from its instant on.
    pub(super) changes: Vec<(Duration, u64)>,
    /// Form in which the API reports its limit, if it does.
    pub(super) dialect: Option<Dialect>,
    /// Ideal end of all jobs.
    pub(super) ideal: Duration,
    /// Time until which every tenant has jobs, so that fairness can be measured.
    pub(super) fair_until: Option<Duration>,
    /// Other load on the host.
    pub(super) host: Host,
    /// Number of rounds: one run has no spread.
    pub(super) rounds: usize,
}

/// Other load on the host during a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    /// Other scenarios, as long as the host stays mostly idle.
    Shared,
    /// Load on every core, and no other scenario.
    Loaded,
}

/// Limit of the API for any second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limit {
    pub(super) quantity: u64,
    pub(super) whose: LimitScope,
}

/// Calls that share the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimitScope {
    EachTenant,
    Everyone,
}

/// Jobs of one tenant that are submitted together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wave {
    pub(super) tenant: String,
    pub(super) jobs: u64,
    pub(super) at: Duration,
    /// Weight of the tenant.
    pub(super) weight: u64,
    /// Rate limit of the tenant, configured by its operator; the API does not know it.
    pub(super) cap: Option<u64>,
    /// Share of the limit while all tenants have jobs.
    pub(super) share: u64,
    /// Ideal end of these jobs.
    pub(super) ideal: Duration,
}

/// Scaling of a stated scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimeScale {
    /// Factor of the rates.
    pub(super) rate: u64,
    /// Divisor of the jobs.
    pub(super) fewer: u64,
}

impl TimeScale {
    /// A tenth of the jobs at twice the rate: all scenarios take half a minute.
    pub(super) const QUICK: Self = Self { rate: 2, fewer: 10 };

    /// Returns all jobs at a multiple of the rates.
    pub(super) fn scaled(rate: u64) -> Self {
        Self { rate, fewer: 1 }
    }

    /// Scales a duration that is stated in seconds.
    fn secs(self, stated: u64) -> Duration {
        Duration::from_millis(stated * 1_000 / (self.rate * self.fewer))
    }

    /// Returns the number of rounds for this ideal duration. A median needs three. Runs that take minutes at
    /// the stated rates, and all quick runs, have one.
    fn rounds(self, ideal: Duration) -> usize {
        if self.fewer == 1 && ideal <= SHORT { 3 } else { 1 }
    }
}

impl Scenario {
    /// Returns all scenarios.
    pub(super) fn all(scale: TimeScale) -> Vec<Self> {
        let mut all = vec![
            Self::headline(scale),
            Self::thousand(),
            Self::come_and_go(scale),
            Self::asymmetric(scale),
            Self::weights(scale),
            Self::capped(scale),
            Self::halved(scale),
            Self::halved_in_silence(scale),
            Self::many(scale),
            Self::makespan_loaded(),
        ];
        for scenario in &mut all {
            scenario.rounds = scale.rounds(scenario.ideal);
        }
        all
    }

    /// Returns the calls a second while all tenants have jobs.
    pub(super) fn calls_per_second(&self) -> u64 {
        match self.limit.whose {
            LimitScope::Everyone => self.limit.quantity,
            LimitScope::EachTenant => self.limit.quantity * u64::try_from(self.waves.len()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the jobs of all tenants.
    pub(super) fn jobs(&self) -> u64 {
        self.waves.iter().map(|wave| wave.jobs).sum()
    }

    /// Returns three tenants with five thousand jobs each, ten a second for each.
    fn headline(scale: TimeScale) -> Self {
        let limit = Limit {
            quantity: 10 * scale.rate,
            whose: LimitScope::EachTenant,
        };
        let wave = |tenant| Wave::at_once(tenant, 5_000 / scale.fewer, scale.secs(500));
        Self {
            fair_until: Some(scale.secs(250)),
            ..Self::new(HEADLINE, limit, ["A", "B", "C"].map(wave).to_vec())
        }
    }

    /// Returns a thousand jobs of one tenant at a hundred a second. It is short and never scaled.
    fn thousand() -> Self {
        let ideal = Duration::from_secs(10);
        let wave = Wave::at_once("A", 1_000, ideal);
        Self::new(THOUSAND, Limit::shared(100), vec![wave])
    }

    /// Returns two small tenants join and leave while a large one runs.
    fn come_and_go(scale: TimeScale) -> Self {
        let wave = |tenant, jobs, at, ideal| Wave {
            at: scale.secs(at),
            ..Wave::at_once(tenant, jobs / scale.fewer, scale.secs(ideal))
        };
        let waves = vec![
            wave("A", 6_000, 0, 220),
            wave("B", 300, 60, 80),
            wave("C", 300, 90, 110),
        ];
        Self::new(COME_AND_GO, Limit::shared(30 * scale.rate), waves)
    }

    /// Returns a large, a middling and a small tenant start together.
    fn asymmetric(scale: TimeScale) -> Self {
        let wave = |tenant, jobs, ideal| Wave::at_once(tenant, jobs / scale.fewer, scale.secs(ideal));
        let waves = vec![wave("A", 10_000, 370), wave("B", 1_000, 70), wave("C", 100, 10)];
        Self {
            fair_until: Some(scale.secs(5)),
            ..Self::new(ASYMMETRIC, Limit::shared(30 * scale.rate), waves)
        }
    }

    /// Returns three tenants with weights of 3, 2 and 1, and workloads that end together.
    fn weights(scale: TimeScale) -> Self {
        let wave = |tenant, weight| Wave {
            weight,
            share: weight,
            ..Wave::at_once(tenant, weight * 1_000 / scale.fewer, scale.secs(200))
        };
        let waves = vec![wave("A", 3), wave("B", 2), wave("C", 1)];
        Self {
            fair_until: Some(scale.secs(190)),
            ..Self::new(WEIGHTS, Limit::shared(30 * scale.rate), waves)
        }
    }

    /// Returns these weights, with the third tenant limited to two a second: 16.8, 11.2 and 2.
    fn capped(scale: TimeScale) -> Self {
        let wave = |tenant, weight, share: u64| Wave {
            weight,
            // Of thirty a second, in tenths.
            share,
            ..Wave::at_once(tenant, share * 10 / scale.fewer, scale.secs(100))
        };
        let capped = Wave {
            cap: Some(2 * scale.rate),
            ..wave("C", 1, 20)
        };
        let waves = vec![wave("A", 3, 168), wave("B", 2, 112), capped];
        Self {
            fair_until: Some(scale.secs(90)),
            ..Self::new(CAPPED, Limit::shared(30 * scale.rate), waves)
        }
    }

    /// Returns a run in which the API halves its limit for a while, and reports it with every response.
    fn halved(scale: TimeScale) -> Self {
        Self {
            dialect: Some(Dialect::Ietf),
            ..Self::halved_in_silence(scale).named(HALVED)
        }
    }

    /// Returns a run in which the API halves its limit and reports it only by throttling. No client can know
    /// when the limit rises again: finding out costs throttles, so there is no ideal.
    fn halved_in_silence(scale: TimeScale) -> Self {
        let full = 30 * scale.rate;
        let wave = Wave::at_once("A", 6_000 / scale.fewer, scale.secs(250));
        Self {
            changes: vec![(scale.secs(50), full / 2), (scale.secs(150), full)],
            ..Self::new(SILENT, Limit::shared(full), vec![wave])
        }
    }

    /// Returns a thousand tenants with fifteen jobs each. Fewer jobs would leave no fairness to measure.
    fn many(scale: TimeScale) -> Self {
        let ideal = Duration::from_millis(50_000 / scale.rate);
        let wave = |number| Wave::at_once(&format!("T{number}"), 15, ideal);
        Self {
            fair_until: Some(ideal / 2),
            ..Self::new(MANY, Limit::shared(300 * scale.rate), (0..1_000).map(wave).collect())
        }
    }

    /// Returns the headline's jobs at a thousand a second for each tenant, on a loaded host. It is short and
    /// about this rate, so it is never scaled.
    fn makespan_loaded() -> Self {
        let limit = Limit {
            quantity: 1_000,
            whose: LimitScope::EachTenant,
        };
        let wave = |tenant| Wave::at_once(tenant, 5_000, Duration::from_secs(5));
        Self {
            host: Host::Loaded,
            ..Self::new(MAKESPAN_LOADED, limit, ["A", "B", "C"].map(wave).to_vec())
        }
    }

    fn new(name: &'static str, limit: Limit, waves: Vec<Wave>) -> Self {
        let ideal = waves.iter().map(|wave| wave.ideal).max();
        Self {
            name,
            limit,
            waves,
            changes: Vec::new(),
            dialect: None,
            ideal: ideal.unwrap_or_default(),
            fair_until: None,
            host: Host::Shared,
            rounds: 1,
        }
    }

    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

impl Limit {
    fn shared(quantity: u64) -> Self {
        Self {
            quantity,
            whose: LimitScope::Everyone,
        }
    }
}

impl Wave {
    /// Returns jobs of a tenant with default settings that exist from the start.
    fn at_once(tenant: &str, jobs: u64, ideal: Duration) -> Self {
        Self {
            tenant: tenant.to_owned(),
            jobs,
            at: Duration::ZERO,
            weight: 1,
            cap: None,
            share: 0,
            ideal,
        }
    }
}

/// Prefix of the figures, except those of the first scenario.
pub(super) const HEADLINE: &str = "headline";
pub(super) const THOUSAND: &str = "thousand";
pub(super) const COME_AND_GO: &str = "come_and_go";
pub(super) const ASYMMETRIC: &str = "asymmetric";
pub(super) const WEIGHTS: &str = "weights";
pub(super) const CAPPED: &str = "weights_capped";
pub(super) const HALVED: &str = "halved";
pub(super) const SILENT: &str = "halved_in_silence";
pub(super) const MANY: &str = "many";
pub(super) const MAKESPAN_LOADED: &str = "makespan_loaded";

/// Three rounds of a scenario up to this length take minutes, even for contenders that need twice as long.
const SHORT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    // At every scale, the jobs of a scenario divided by its rate are its ideal duration.
    #[test]
    fn the_ideal_is_the_number_of_jobs_divided_by_the_rate() {
        for scale in [TimeScale::scaled(1), TimeScale::scaled(10), TimeScale::QUICK] {
            for scenario in Scenario::all(scale).iter().filter(|s| s.changes.is_empty()) {
                let secs = scenario.ideal.as_millis() * u128::from(scenario.calls_per_second());
                let jobs = u128::from(scenario.jobs()) * 1_000;
                assert_eq!(secs, jobs, "{} at {scale:?}", scenario.name);
            }
        }
    }

    // Ten times as fast the headline takes 50 s and has three rounds; as stated it takes 500 s and has one.
    #[test]
    fn short_scenarios_have_three_rounds_except_in_a_quick_run() {
        let rounds = |scale, name| {
            let all = Scenario::all(scale);
            let scenario = all.into_iter().find(|scenario| scenario.name == name);
            scenario.map(|scenario| scenario.rounds)
        };
        let of = |scale| [HEADLINE, THOUSAND, MAKESPAN_LOADED].map(|name| rounds(scale, name));
        assert_eq!(of(TimeScale::scaled(10)), [Some(3), Some(3), Some(3)]);
        assert_eq!(of(TimeScale::scaled(1)), [Some(1), Some(3), Some(3)]);
        assert_eq!(of(TimeScale::QUICK), [Some(1), Some(1), Some(1)]);
    }

    // 200 s of jobs, and 100 s in which half of the rate is allowed: 50 s more.
    #[test]
    fn a_halved_limit_costs_half_of_its_time() {
        let halved = Scenario::halved(TimeScale::scaled(1));
        assert_eq!((halved.jobs(), halved.ideal.as_secs()), (6_000, 250));
    }
}
