//! What happens in the engine, told to whoever listens, and how far an action is.

pub(crate) mod event_log;

use std::time::Duration;

use outflow_core::CongestionAlert;
use outflow_store::{ActionReport, ActionStage, JobCounts, Name, SettleResult};

use crate::progress::throughput::EndRate;

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum BulkEvent {
    /// Jobs were taken.
    Submitted {
        /// Their action.
        action: Option<Name>,
        /// How many.
        jobs: u64,
    },
    /// A claim ended.
    Settled {
        /// The job.
        id: Name,
        /// For whom.
        tenant: Name,
        /// Its action.
        action: Option<Name>,
        /// How.
        how: SettleResult,
    },
    /// An action is over.
    Finished {
        /// As it was at its end.
        report: ActionReport,
    },
    /// Jobs of a dead worker are back in their lines, or buried.
    Reaped {
        /// Back in their lines.
        returned: u64,
        /// Buried.
        buried: u64,
    },
    /// The lease was lost: others have this process's jobs.
    LeaseLost,
    /// The store could not do what it was asked, and is asked again; or it says what befell it.
    Trouble {
        /// What it said.
        words: String,
    },
    /// Something about a tenant is worth calling somebody for, or is so no more. What to do about it is
    /// its [`advice`](CongestionAlert::advice). Of the hundred tenants with the most jobs.
    Alert {
        /// Whose.
        tenant: Name,
        /// What.
        alert: CongestionAlert,
        /// Whether it began, or is over.
        raised: bool,
    },
    /// The store's counts and its jobs differ. That is a mistake in the store.
    Drift {
        /// By how much.
        jobs: u64,
    },
}

/// How far an action is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ActionProgress {
    /// Its stage.
    pub stage: ActionStage,
    /// Its jobs.
    pub tally: JobCounts,
    /// The part of them that is over, of a million.
    pub over_ppm: u32,
    /// How long until the rest is, as fast as it went lately, and never less than what limits and start times
    /// need; nothing before the first is over, or while it is stopped, or a tenant or an API that is stopped
    /// holds it up.
    pub eta: Option<Duration>,
}

impl ActionProgress {
    /// Of an action that goes so fast, and whose jobs that wait need at least so long or nobody knows how long.
    pub(crate) fn new(
        report: &ActionReport,
        (speed, least): (Option<EndRate>, Option<Duration>),
    ) -> Self {
        let tally = report.tally;
        let (over, all) = (tally.over(), tally.submitted());
        let part = u128::from(over) * MILLION / u128::from(all.max(1));
        let is_known = over > 0 && !report.is_stopped();
        let known = speed.filter(|_| is_known).zip(least);
        let eta = known.map(|(speed, least)| speed.until_over(tally.open()).max(least));
        Self {
            stage: report.stage,
            tally,
            over_ppm: u32::try_from(part).unwrap_or(u32::MAX),
            eta,
        }
    }
}

const MILLION: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use outflow_core::WallTime;
    use outflow_store::ActionSpec;

    use super::*;

    const LEAST: Duration = Duration::from_secs(29);
    const SPEED: Option<EndRate> = Some(EndRate {
        over: 25,
        span: Duration::from_secs(10),
    });

    // 25 of 100 in ten seconds: thirty more.
    #[test]
    fn the_rest_takes_as_long_as_what_is_over_did() {
        let report = ActionReport {
            spec: ActionSpec::new(Name::new("a").expect("a name")),
            stage: ActionStage::Running,
            paused: false,
            held: 0,
            tally: JobCounts {
                queued: 70,
                in_flight: 5,
                done: 20,
                dead: 5,
                ..JobCounts::default()
            },
            opened: WallTime::EPOCH,
            started: Some(WallTime::EPOCH),
            ended: None,
        };
        let progress = ActionProgress::new(&report, (SPEED, Some(LEAST)));
        assert_eq!(progress.over_ppm, 250_000);
        assert_eq!(progress.eta, Some(Duration::from_secs(30)));
        let slow = ActionProgress::new(&report, (SPEED, Some(2 * LEAST)));
        assert_eq!(slow.eta, Some(2 * LEAST), "no faster than limits allow");
        let held = ActionReport {
            held: 1,
            ..report.clone()
        };
        let progress = ActionProgress::new(&held, (SPEED, Some(LEAST)));
        assert_eq!(
            progress.eta, None,
            "it does not end before a tenant goes on"
        );
        let still = ActionProgress::new(&report, (SPEED, None));
        assert_eq!(still.eta, None, "an API is held");
        assert_eq!(ActionProgress::new(&report, (None, Some(LEAST))).eta, None);
    }
}
