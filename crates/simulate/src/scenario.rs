//! Scenarios: jobs and arrivals of tenants, and the rate of the API.

use std::fmt;

use outflow_core::Nanos;

/// Names of the scenarios.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ScenarioName {
    /// 3 tenants of 5,000 jobs, 10/s each.
    Headline,
    /// 1,000 jobs of one tenant at 100/s.
    Thousand,
    /// Two tenants join a busy one for a while, shared 30/s.
    ComeAndGo,
    /// 10,000, 1,000 and 100 jobs, shared 30/s.
    Asymmetric,
    /// Weights 3 : 2 : 1, shared 30/s.
    Weights,
    /// Weights 3 : 2 : 1, the third capped at 2/s, shared 30/s.
    Capped,
    /// Shared 30/s, of which half for 100 s.
    Halved,
    /// 1,000 tenants of 15 jobs, shared 300/s.
    Many,
}

impl ScenarioName {
    /// All scenarios, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::Headline,
        Self::Thousand,
        Self::ComeAndGo,
        Self::Asymmetric,
        Self::Weights,
        Self::Capped,
        Self::Halved,
        Self::Many,
    ];

    /// Returns its name on the command line.
    pub const fn name(self) -> &'static str {
        self.texts().0
    }

    /// Returns its help text.
    pub const fn description(self) -> &'static str {
        self.texts().1
    }

    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Headline => ("headline", "3 tenants of 5,000 jobs, 10/s each"),
            Self::Thousand => ("thousand", "1,000 jobs of one tenant at 100/s"),
            Self::ComeAndGo => ("come_and_go", "Two tenants join a busy one for a while, shared 30/s"),
            Self::Asymmetric => ("asymmetric", "10,000, 1,000 and 100 jobs, shared 30/s"),
            Self::Weights => ("weights", "Weights 3 : 2 : 1, shared 30/s"),
            Self::Capped => ("capped", "Weights 3 : 2 : 1, the third capped at 2/s, shared 30/s"),
            Self::Halved => ("halved", "Shared 30/s, of which half for 100 s"),
            Self::Many => ("many", "1,000 tenants of 15 jobs, shared 300/s"),
        }
    }
}

impl fmt::Display for ScenarioName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: ScenarioName,
    /// Its numbers, in one line.
    pub summary: &'static str,
    pub(crate) tenants: Vec<TenantPlan>,
    pub(crate) enforced: EnforcedRate,
    /// Later rates per second, in order of time.
    pub(crate) changes: Vec<RateChange>,
}

/// Work of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct TenantPlan {
    pub(crate) jobs: u64,
    pub(crate) at: Nanos,
    pub(crate) weight: u32,
    /// The tenant's own limit per second, which only the client knows.
    pub(crate) cap: Option<u64>,
}

/// Rate per second that the API enforces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EnforcedRate {
    /// For each tenant.
    PerTenant(u64),
    /// For all tenants together.
    Shared(u64),
}

/// Change of the rate per second at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateChange {
    pub(crate) at: Nanos,
    pub(crate) rate: u64,
}

impl Scenario {
    /// Returns the scenario of a name.
    pub fn named(name: ScenarioName) -> Self {
        let scenario = |summary, tenants: Vec<TenantPlan>, enforced| Self {
            name,
            summary,
            tenants,
            enforced,
            changes: Vec::new(),
        };
        match name {
            ScenarioName::Headline => scenario(
                "15,000 jobs: 3 tenants x 5,000 at 10/s each",
                vec![TenantPlan::from_jobs(5_000); 3],
                EnforcedRate::PerTenant(10),
            ),
            ScenarioName::Thousand => scenario(
                "1,000 jobs of one tenant at 100/s",
                vec![TenantPlan::from_jobs(1_000)],
                EnforcedRate::Shared(100),
            ),
            ScenarioName::ComeAndGo => scenario(
                "shared 30/s: A 6,000 at 0 s, B 300 at 60 s, C 300 at 90 s",
                vec![
                    TenantPlan::from_jobs(6_000),
                    TenantPlan::from_jobs(300).arriving_at(60),
                    TenantPlan::from_jobs(300).arriving_at(90),
                ],
                EnforcedRate::Shared(30),
            ),
            ScenarioName::Asymmetric => scenario(
                "shared 30/s: A 10,000, B 1,000, C 100",
                vec![
                    TenantPlan::from_jobs(10_000),
                    TenantPlan::from_jobs(1_000),
                    TenantPlan::from_jobs(100),
                ],
                EnforcedRate::Shared(30),
            ),
            ScenarioName::Weights => scenario(
                "shared 30/s: weights 3 : 2 : 1, 1,800 jobs each",
                weighted(),
                EnforcedRate::Shared(30),
            ),
            ScenarioName::Capped => scenario(
                "shared 30/s: weights 3 : 2 : 1, the third capped at 2/s",
                capped(),
                EnforcedRate::Shared(30),
            ),
            ScenarioName::Halved => Self {
                changes: vec![RateChange::new(50, 15), RateChange::new(150, 30)],
                ..scenario(
                    "shared 30/s, 15/s from 50 s to 150 s: 3 tenants x 2,000",
                    vec![TenantPlan::from_jobs(2_000); 3],
                    EnforcedRate::Shared(30),
                )
            },
            ScenarioName::Many => scenario(
                "shared 300/s: 1,000 tenants x 15",
                vec![TenantPlan::from_jobs(15); 1_000],
                EnforcedRate::Shared(300),
            ),
        }
    }

    /// Returns the number of tenants.
    pub fn tenant_count(&self) -> usize {
        self.tenants.len()
    }

    /// Returns the number of jobs.
    pub fn jobs(&self) -> u64 {
        self.tenants.iter().map(|plan| plan.jobs).sum()
    }
}

impl TenantPlan {
    const fn from_jobs(jobs: u64) -> Self {
        Self {
            jobs,
            at: Nanos::ZERO,
            weight: 1,
            cap: None,
        }
    }

    const fn arriving_at(mut self, second: u64) -> Self {
        self.at = Nanos::from_secs(second);
        self
    }

    const fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }
}

impl RateChange {
    const fn new(second: u64, rate: u64) -> Self {
        Self {
            at: Nanos::from_secs(second),
            rate,
        }
    }
}

fn weighted() -> Vec<TenantPlan> {
    let plan = |weight| TenantPlan::from_jobs(1_800).with_weight(weight);
    vec![plan(3), plan(2), plan(1)]
}

fn capped() -> Vec<TenantPlan> {
    let mut plans = weighted();
    if let Some(third) = plans.last_mut() {
        third.cap = Some(2);
        third.jobs = 200;
    }
    plans
}
