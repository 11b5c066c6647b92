//! What is to be done: who has how many jobs and when, what the API allows, and what would be ideal.
//!
//! Ideal is the work divided by the rate: an API that lets a whole window's worth in at once makes the real
//! bound one window shorter, which nobody is asked to use.

use std::time::Duration;

use outflow_mock::Dialect;

/// A task for every contender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) limit: Limit,
    pub(super) waves: Vec<Wave>,
    /// What the API allows a second from these instants on.
    pub(super) changes: Vec<(Duration, u64)>,
    /// How it tells what it allows, if it does.
    pub(super) tells: Option<Dialect>,
    /// When everything is over if nothing is lost.
    pub(super) ideal: Duration,
    /// Until when every tenant has work, so that fairness can be asked for.
    pub(super) fair_until: Option<Duration>,
    /// What else the host has to do.
    pub(super) host: Host,
    /// How often everybody does it: one run has no spread.
    pub(super) rounds: usize,
}

/// What the host does beside a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    /// Other scenarios, as many as leave it idle most of the time.
    Shared,
    /// Other work on every core, and no other scenario.
    Loaded,
}

/// What the API allows in any second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limit {
    pub(super) quantity: u64,
    pub(super) whose: Whose,
}

/// Whose calls count together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    EachTenant,
    Everyone,
}

/// Jobs of one tenant that are submitted together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wave {
    pub(super) tenant: String,
    pub(super) jobs: u64,
    pub(super) at: Duration,
    /// Its claim against other tenants.
    pub(super) weight: u64,
    /// What it may have at most in a second, as its operator says; the API does not know.
    pub(super) cap: Option<u64>,
    /// Its part of what is allowed while all have work, beside those of the others.
    pub(super) share: u64,
    /// When it is over if nothing is lost.
    pub(super) ideal: Duration,
}

/// How much faster and how much less than it is stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pace {
    /// Rates are so many times as high.
    pub(super) rate: u64,
    /// Jobs are divided by this.
    pub(super) fewer: u64,
}

impl Pace {
    /// A tenth of the jobs at twice the rate: everything in half a minute.
    pub(super) const QUICK: Self = Self { rate: 2, fewer: 10 };

    /// All jobs at a multiple of the rates.
    pub(super) fn scaled(rate: u64) -> Self {
        Self { rate, fewer: 1 }
    }

    /// How long something takes that is stated in seconds.
    fn secs(self, stated: u64) -> Duration {
        Duration::from_millis(stated * 1_000 / (self.rate * self.fewer))
    }

    /// How often something is done that takes so long at best. A median needs three; what takes minutes at
    /// the stated rates is done once, and so is everything in a quick run.
    fn rounds(self, ideal: Duration) -> usize {
        if self.fewer == 1 && ideal <= SHORT {
            3
        } else {
            1
        }
    }
}

impl Scenario {
    /// All of them.
    pub(super) fn all(pace: Pace) -> Vec<Self> {
        let mut all = vec![
            Self::headline(pace),
            Self::thousand(),
            Self::come_and_go(pace),
            Self::asymmetric(pace),
            Self::weights(pace),
            Self::capped(pace),
            Self::halved(pace),
            Self::halved_in_silence(pace),
            Self::many(pace),
            Self::makespan_loaded(),
        ];
        for scenario in &mut all {
            scenario.rounds = pace.rounds(scenario.ideal);
        }
        all
    }

    /// Calls a second while all have work.
    pub(super) fn calls_per_second(&self) -> u64 {
        match self.limit.whose {
            Whose::Everyone => self.limit.quantity,
            Whose::EachTenant => {
                self.limit.quantity * u64::try_from(self.waves.len()).unwrap_or(u64::MAX)
            }
        }
    }

    /// All jobs of all tenants.
    pub(super) fn jobs(&self) -> u64 {
        self.waves.iter().map(|wave| wave.jobs).sum()
    }

    /// Three tenants with five thousand jobs each, ten a second for each.
    fn headline(pace: Pace) -> Self {
        let limit = Limit {
            quantity: 10 * pace.rate,
            whose: Whose::EachTenant,
        };
        let wave = |tenant| Wave::at_once(tenant, 5_000 / pace.fewer, pace.secs(500));
        Self {
            fair_until: Some(pace.secs(250)),
            ..Self::of(HEADLINE, limit, ["A", "B", "C"].map(wave).to_vec())
        }
    }

    /// A thousand jobs of one tenant at a hundred a second. It is short as it is, so it is never scaled.
    fn thousand() -> Self {
        let ideal = Duration::from_secs(10);
        let wave = Wave::at_once("A", 1_000, ideal);
        Self::of(THOUSAND, Limit::shared(100), vec![wave])
    }

    /// Two small tenants come and go while a large one runs.
    fn come_and_go(pace: Pace) -> Self {
        let wave = |tenant, jobs, at, ideal| Wave {
            at: pace.secs(at),
            ..Wave::at_once(tenant, jobs / pace.fewer, pace.secs(ideal))
        };
        let waves = vec![
            wave("A", 6_000, 0, 220),
            wave("B", 300, 60, 80),
            wave("C", 300, 90, 110),
        ];
        Self::of(COME_AND_GO, Limit::shared(30 * pace.rate), waves)
    }

    /// A large, a middling and a small tenant begin together.
    fn asymmetric(pace: Pace) -> Self {
        let wave = |tenant, jobs, ideal| Wave::at_once(tenant, jobs / pace.fewer, pace.secs(ideal));
        let waves = vec![
            wave("A", 10_000, 370),
            wave("B", 1_000, 70),
            wave("C", 100, 10),
        ];
        Self {
            fair_until: Some(pace.secs(5)),
            ..Self::of(ASYMMETRIC, Limit::shared(30 * pace.rate), waves)
        }
    }

    /// Three tenants with weights of 3, 2 and 1, and work that ends together.
    fn weights(pace: Pace) -> Self {
        let wave = |tenant, weight| Wave {
            weight,
            share: weight,
            ..Wave::at_once(tenant, weight * 1_000 / pace.fewer, pace.secs(200))
        };
        let waves = vec![wave("A", 3), wave("B", 2), wave("C", 1)];
        Self {
            fair_until: Some(pace.secs(190)),
            ..Self::of(WEIGHTS, Limit::shared(30 * pace.rate), waves)
        }
    }

    /// The same weights, and the third tenant may have two a second only: 16.8, 11.2 and 2.
    fn capped(pace: Pace) -> Self {
        let wave = |tenant, weight, share: u64| Wave {
            weight,
            // Of thirty a second, in tenths.
            share,
            ..Wave::at_once(tenant, share * 10 / pace.fewer, pace.secs(100))
        };
        let capped = Wave {
            cap: Some(2 * pace.rate),
            ..wave("C", 1, 20)
        };
        let waves = vec![wave("A", 3, 168), wave("B", 2, 112), capped];
        Self {
            fair_until: Some(pace.secs(90)),
            ..Self::of(CAPPED, Limit::shared(30 * pace.rate), waves)
        }
    }

    /// The API allows half as much for a while, and says so with every answer.
    fn halved(pace: Pace) -> Self {
        Self {
            tells: Some(Dialect::Ietf),
            ..Self::halved_in_silence(pace).named(HALVED)
        }
    }

    /// The same, and it tells nobody but those it refuses. When it allows more again nobody can know: to
    /// find out costs refusals, so there is no ideal to be asked for.
    fn halved_in_silence(pace: Pace) -> Self {
        let full = 30 * pace.rate;
        let wave = Wave::at_once("A", 6_000 / pace.fewer, pace.secs(250));
        Self {
            changes: vec![(pace.secs(50), full / 2), (pace.secs(150), full)],
            ..Self::of(SILENT, Limit::shared(full), vec![wave])
        }
    }

    /// A thousand tenants with fifteen jobs each. With fewer jobs there would be nothing to be fair about.
    fn many(pace: Pace) -> Self {
        let ideal = Duration::from_millis(50_000 / pace.rate);
        let wave = |number| Wave::at_once(&format!("T{number}"), 15, ideal);
        Self {
            fair_until: Some(ideal / 2),
            ..Self::of(
                MANY,
                Limit::shared(300 * pace.rate),
                (0..1_000).map(wave).collect(),
            )
        }
    }

    /// The headline's jobs at a thousand a second for each tenant, on a host that has other things to do.
    /// It is short and about this rate, so it is never scaled.
    fn makespan_loaded() -> Self {
        let limit = Limit {
            quantity: 1_000,
            whose: Whose::EachTenant,
        };
        let wave = |tenant| Wave::at_once(tenant, 5_000, Duration::from_secs(5));
        Self {
            host: Host::Loaded,
            ..Self::of(MAKESPAN_LOADED, limit, ["A", "B", "C"].map(wave).to_vec())
        }
    }

    fn of(name: &'static str, limit: Limit, waves: Vec<Wave>) -> Self {
        let ideal = waves.iter().map(|wave| wave.ideal).max();
        Self {
            name,
            limit,
            waves,
            changes: Vec::new(),
            tells: None,
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
            whose: Whose::Everyone,
        }
    }
}

impl Wave {
    /// Jobs that are there from the beginning, of a tenant like all others.
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

/// What figures are called after, all but the first's.
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

/// Three rounds of what takes no longer are a matter of minutes, also for contenders that take twice as long.
const SHORT: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    // Whatever the pace, the work of a scenario divided by its rate is the time that is called ideal.
    #[test]
    fn the_ideal_is_the_work_divided_by_the_rate() {
        for pace in [Pace::scaled(1), Pace::scaled(10), Pace::QUICK] {
            for scenario in Scenario::all(pace).iter().filter(|s| s.changes.is_empty()) {
                let secs = scenario.ideal.as_millis() * u128::from(scenario.calls_per_second());
                let jobs = u128::from(scenario.jobs()) * 1_000;
                assert_eq!(secs, jobs, "{} at {pace:?}", scenario.name);
            }
        }
    }

    // Ten times as fast the headline is 50 s and worth three rounds; as stated it is 500 s and is not.
    #[test]
    fn what_is_short_is_done_three_times_but_not_in_a_quick_run() {
        let rounds = |pace, name| {
            let all = Scenario::all(pace);
            let scenario = all.into_iter().find(|scenario| scenario.name == name);
            scenario.map(|scenario| scenario.rounds)
        };
        let of = |pace| [HEADLINE, THOUSAND, MAKESPAN_LOADED].map(|name| rounds(pace, name));
        assert_eq!(of(Pace::scaled(10)), [Some(3), Some(3), Some(3)]);
        assert_eq!(of(Pace::scaled(1)), [Some(1), Some(3), Some(3)]);
        assert_eq!(of(Pace::QUICK), [Some(1), Some(1), Some(1)]);
    }

    // 200 s of work, and 100 s in which half of it is done: 50 s more.
    #[test]
    fn a_halved_limit_costs_half_of_its_time() {
        let halved = Scenario::halved(Pace::scaled(1));
        assert_eq!((halved.jobs(), halved.ideal.as_secs()), (6_000, 250));
    }
}
