//! One run of a scenario.

use std::time::Duration;

use outflow_core::Rate;

use super::bed::{JITTER, RecoveryBed};
use super::call_log::RunRecord;
use super::figures::RecoveryFigures;
use super::load;
use super::scenario::RecoveryScenario;
use super::user_config::UserConfig;

/// A scenario with the configuration and the path to the server.
#[derive(Clone, Debug)]
pub struct RecoveryPlan {
    /// Configuration of the client.
    pub config: UserConfig,
    /// Limits of the server where they differ from the client's.
    pub server_limits: Option<Vec<Rate>>,
    /// Time of an exchange.
    pub latency: Duration,
    /// Random addition to each way.
    pub jitter: Duration,
    /// The bad day.
    pub scenario: RecoveryScenario,
    /// Number of workers of the busy load; `None` is enough for the limits.
    pub workers: Option<usize>,
    /// Source of all chance.
    pub seed: u64,
}

impl RecoveryPlan {
    /// Plans a scenario for a client with these limits and no other setting.
    pub fn new(limits: &[&'static str], latency: Duration, scenario: RecoveryScenario) -> Self {
        Self {
            config: UserConfig::with_limits(limits),
            server_limits: None,
            latency,
            jitter: JITTER,
            scenario,
            workers: None,
            seed: 1,
        }
    }

    /// Returns the calls a second that a client can make without a refusal. A call in flight may not have
    /// arrived, so it counts: if an exchange takes longer than a window, the exchange bounds the rate.
    pub fn speed(&self) -> f64 {
        let seconds = |rate: &Rate| rate.per().max(self.latency + 2 * self.jitter).as_secs_f64();
        let speed = |rate: Rate| rate.as_per_second() * rate.per().as_secs_f64() / seconds(&rate);
        self.config.rates().into_iter().map(speed).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn server_rates(&self) -> Vec<Rate> {
        self.server_limits.clone().unwrap_or_else(|| self.config.rates())
    }

    /// Runs the load that always uses the limit, and returns what happened.
    pub async fn run_busy(&self) -> RunRecord {
        self.report_changes();
        let bed = RecoveryBed::start(self);
        load::busy(&bed, self).await;
        RunRecord::collect(&bed)
    }

    /// Runs callers at four fifths of the limit with a deadline, and returns what happened.
    pub async fn run_open(&self) -> RunRecord {
        let bed = RecoveryBed::start(self);
        let offered = load::open(&bed, self).await;
        RunRecord {
            offered,
            ..RunRecord::collect(&bed)
        }
    }

    /// Runs both loads.
    pub async fn run(&self) -> RecoveryFigures {
        let busy = self.run_busy().await;
        let open = self.run_open().await;
        RecoveryFigures::new(self, &busy, &open)
    }

    /// Prints every setting that is not a default.
    fn report_changes(&self) {
        for change in self.config.changes() {
            println!("setting changed: {} ({})", change.line, change.reason);
        }
    }
}
