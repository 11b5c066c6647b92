//! Figures of a run.

use outflow_core::Nanos;

use super::fluid_model::{FluidModel, served_by};
use super::scenario::Scenario;
use super::scheduler::SchedulerName;
use super::world::SimHistory;

/// Figures of one run.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// The scheduler.
    pub scheduler: SchedulerName,
    /// End of the last job, in seconds.
    pub makespan: f64,
    /// Excess over the ideal, in per cent.
    pub over_ideal: f64,
    /// Throttles of a job until it is done, on average.
    pub throttles_per_job: f64,
    /// Requests that the API throttled.
    pub refused: u64,
    /// The fullest window at the API, over its limit.
    pub peak: f64,
    /// Jain's index of the service at half time against the ideal: 1 is perfect.
    pub jain: f64,
    /// Largest distance of a tenant from its share while all had work, in jobs.
    pub off_share: f64,
    /// End of each tenant, in seconds.
    pub done: Vec<f64>,
}

impl RunFigures {
    /// Computes the figures of a run.
    pub(crate) fn new(scenario: &Scenario, scheduler: SchedulerName, history: &SimHistory) -> Self {
        let ideal = FluidModel::from_scenario(scenario).makespan();
        let done = done(scenario, history);
        let makespan = done.iter().copied().fold(0.0, f64::max);
        Self {
            scheduler,
            makespan,
            over_ideal: (makespan / ideal - 1.0) * 100.0,
            throttles_per_job: history.throttles.per_job(),
            refused: history.throttled,
            peak: real(history.peak.arrived) / real(history.peak.allowed),
            jain: jain(&half_time_parts(scenario, history, ideal / 2.0)),
            off_share: off_share(scenario, history),
            done,
        }
    }
}

fn done(scenario: &Scenario, history: &SimHistory) -> Vec<f64> {
    let mut done = vec![0.0_f64; scenario.tenants.len()];
    for service in &history.served {
        if let Some(last) = done.get_mut(service.tenant) {
            *last = last.max(seconds(service.done));
        }
    }
    done
}

/// Returns the service of each tenant by half time, over its ideal service.
fn half_time_parts(scenario: &Scenario, history: &SimHistory, half_time: f64) -> Vec<f64> {
    let mut served = vec![0.0; scenario.tenants.len()];
    for service in &history.served {
        if seconds(service.done) <= half_time
            && let Some(count) = served.get_mut(service.tenant)
        {
            *count += 1.0;
        }
    }
    let ideal = served_by(scenario, half_time);
    let due = served.iter().zip(ideal).filter(|(_, ideal)| *ideal > 0.0);
    due.map(|(served, ideal)| served / ideal).collect()
}

/// Returns Jain's index: the square of the sum over the sum of squares, per head.
pub(crate) fn jain(parts: &[f64]) -> f64 {
    let sum: f64 = parts.iter().sum();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    if squares > 0.0 {
        sum * sum / (squares * parts.iter().map(|_| 1.0).sum::<f64>())
    } else {
        1.0
    }
}

/// Returns the largest distance from the shares, from the last arrival of a tenant until the first has no job
/// left. Capped tenants are omitted: their part is not their weight's.
fn off_share(scenario: &Scenario, history: &SimHistory) -> f64 {
    let last_arrival = scenario.tenants.iter().map(|plan| plan.at).max();
    let shares: Vec<_> = scenario
        .tenants
        .iter()
        .map(|plan| plan.cap.map_or(f64::from(plan.weight), |_| 0.0))
        .collect();
    let weights: f64 = shares.iter().sum();
    let mut left: Vec<_> = scenario.tenants.iter().map(|plan| plan.jobs).collect();
    let mut served = vec![0.0; shares.len()];
    let (mut total, mut furthest) = (0.0, 0.0_f64);
    for service in &history.served {
        let tenant = service.tenant;
        let counts = last_arrival <= Some(service.sent);
        let (Some(left), Some(share)) = (left.get_mut(tenant), shares.get(tenant)) else {
            continue;
        };
        *left -= 1;
        if counts && *share > 0.0 {
            total += 1.0;
            if let Some(count) = served.get_mut(tenant) {
                *count += 1.0;
            }
            let apart = served.iter().zip(&shares).filter(|(_, share)| **share > 0.0);
            furthest = apart
                .map(|(served, share)| (served - total * share / weights).abs())
                .fold(furthest, f64::max);
        }
        if *left == 0 {
            break;
        }
    }
    furthest
}

/// Converts a count to a floating-point number.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "shown, never compared exactly: 52 bits are plenty"
)]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// Converts an instant to seconds.
pub(crate) fn seconds(at: Nanos) -> f64 {
    real(at.as_nanos()) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    // One of four served and three not is the worst of four: a quarter.
    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_one_of_n() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
    }
}
