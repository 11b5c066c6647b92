//! Ideal scheduler as a fluid: each tenant with work flows at its fair part of the rate, and unused parts go
//! to the others.
//!
//! The model uses floating point and serves comparison only; it knows neither windows nor single jobs. It is
//! no lower bound: a window that is filled at once ends up to one window earlier.

use super::outcome::{real, seconds};
use super::scenario::{EnforcedRate, Scenario, TenantPlan};

/// Ideal course of a scenario.
#[derive(Clone, Debug)]
pub struct FluidModel {
    /// End of each tenant, in seconds.
    pub done: Vec<f64>,
}

impl FluidModel {
    /// Computes the ideal course of a scenario.
    pub fn from_scenario(scenario: &Scenario) -> Self {
        let mut fluid = FluidQueue::new(scenario);
        fluid.flow_until(f64::INFINITY);
        Self { done: fluid.done }
    }

    /// Returns the end of the last tenant, in seconds.
    pub fn makespan(&self) -> f64 {
        self.done.iter().copied().fold(0.0, f64::max)
    }
}

/// Returns the ideal service of each tenant by this second, in jobs.
pub(crate) fn served_by(scenario: &Scenario, second: f64) -> Vec<f64> {
    let mut fluid = FluidQueue::new(scenario);
    fluid.flow_until(second);
    fluid.served
}

struct FluidQueue<'a> {
    scenario: &'a Scenario,
    now: f64,
    served: Vec<f64>,
    done: Vec<f64>,
}

impl<'a> FluidQueue<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let tenants = scenario.tenants.len();
        Self {
            scenario,
            now: 0.0,
            served: vec![0.0; tenants],
            done: vec![f64::INFINITY; tenants],
        }
    }

    /// Flows from one change of the rates to the next.
    fn flow_until(&mut self, end: f64) {
        while self.now < end && self.done.iter().any(|done| done.is_infinite()) {
            let speeds = self.speeds();
            let next = self.next_change(&speeds).min(end);
            if !next.is_finite() {
                return;
            }
            let span = next - self.now;
            self.now = next;
            for (i, plan) in self.scenario.tenants.iter().enumerate() {
                let (Some(served), Some(done), Some(speed)) =
                    (self.served.get_mut(i), self.done.get_mut(i), speeds.get(i))
                else {
                    continue;
                };
                *served += speed * span;
                if *speed > 0.0 && real(plan.jobs) - *served < ROUNDING {
                    *served = real(plan.jobs);
                    *done = next;
                }
            }
        }
    }

    fn has_work(&self, tenant: usize, plan: &TenantPlan) -> bool {
        let arrived = seconds(plan.at) <= self.now;
        arrived && self.done.get(tenant).is_some_and(|done| done.is_infinite())
    }

    fn speeds(&self) -> Vec<f64> {
        let tenants = self.scenario.tenants.iter().enumerate();
        let demands: Vec<_> = tenants
            .map(|(i, plan)| self.has_work(i, plan).then_some(plan))
            .collect();
        match self.scenario.enforced {
            EnforcedRate::PerTenant(rate) => demands.iter().map(|plan| plan.map_or(0.0, |_| real(rate))).collect(),
            EnforcedRate::Shared(rate) => share(&demands, self.rate(rate)),
        }
    }

    fn rate(&self, first: u64) -> f64 {
        let changes = self.scenario.changes.iter().rev();
        let mut past = changes.filter(|change| seconds(change.at) <= self.now);
        real(past.next().map_or(first, |change| change.rate))
    }

    /// Returns the next instant at which a tenant arrives, a tenant is done or the rate changes.
    fn next_change(&self, speeds: &[f64]) -> f64 {
        let scenario = self.scenario;
        let arrivals = scenario.tenants.iter().map(|plan| seconds(plan.at));
        let changes = scenario.changes.iter().map(|change| seconds(change.at));
        let known = arrivals.chain(changes).filter(|at| *at > self.now);
        let progress = scenario.tenants.iter().zip(&self.served).zip(speeds);
        let ends = progress
            .filter(|(_, speed)| **speed > 0.0)
            .map(|((plan, served), speed)| self.now + (real(plan.jobs) - served) / speed);
        known.chain(ends).fold(f64::INFINITY, f64::min)
    }
}

/// Divides a rate by weight; a capped tenant leaves its unused part to the others.
fn share(demands: &[Option<&TenantPlan>], rate: f64) -> Vec<f64> {
    let mut speeds = vec![None; demands.len()];
    loop {
        let spent: f64 = speeds.iter().flatten().sum();
        let open = demands.iter().zip(&speeds).filter(|(_, speed)| speed.is_none());
        let weights: f64 = open.filter_map(|(plan, _)| plan.map(weight)).sum();
        let part = |plan: &TenantPlan| (rate - spent) / weights * weight(plan);
        let mut settled = true;
        for (plan, speed) in demands.iter().zip(&mut speeds) {
            if let Some(plan) = plan
                && speed.is_none()
                && cap(plan) < part(plan)
            {
                *speed = Some(cap(plan));
                settled = false;
            }
        }
        if settled {
            let all = demands.iter().zip(speeds);
            return all
                .map(|(plan, speed)| speed.unwrap_or_else(|| plan.map_or(0.0, part)))
                .collect();
        }
    }
}

fn weight(plan: &TenantPlan) -> f64 {
    f64::from(plan.weight)
}

fn cap(plan: &TenantPlan) -> f64 {
    plan.cap.map_or(f64::INFINITY, real)
}

/// Less than this part of a job is a rounding error.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::super::scenario::ScenarioName;
    use super::*;

    // Expected times of the scenarios.
    #[test]
    fn the_ideal_times_are_those_of_the_scenarios() {
        let cases: [(ScenarioName, &[f64]); 7] = [
            (ScenarioName::Headline, &[500.0, 500.0, 500.0]),
            (ScenarioName::Thousand, &[10.0]),
            (ScenarioName::ComeAndGo, &[220.0, 80.0, 110.0]),
            (ScenarioName::Asymmetric, &[370.0, 70.0, 10.0]),
            (ScenarioName::Weights, &[120.0, 150.0, 180.0]),
            (ScenarioName::Halved, &[250.0, 250.0, 250.0]),
            (ScenarioName::Many, &[50.0]),
        ];
        for (name, expected) in cases {
            let ideal = FluidModel::from_scenario(&Scenario::named(name));
            for (done, expected) in ideal.done.iter().zip(expected) {
                assert!((done - expected).abs() < 1e-3, "{name}: {:?}", ideal.done);
            }
        }
    }

    // 2/s for the third leaves 28/s: 16.8 and 11.2.
    #[test]
    fn the_unused_part_of_a_capped_tenant_goes_to_the_others() {
        let served = served_by(&Scenario::named(ScenarioName::Capped), 10.0);
        let expected = [168.0, 112.0, 20.0];
        for (served, expected) in served.iter().zip(expected) {
            assert!((served - expected).abs() < 1e-6, "{served} {expected}");
        }
    }
}
