//! Decides who failed: the job or its API.
//!
//! A failure that is the API's costs the job no retry. The API's health says so while it is not Normal. Before it
//! leaves Normal, the jobs do that started just before or just after: if three of them in a row failed too, the API
//! fails. If it served one of the three that started just after, the job itself fails. A failure without evidence
//! waits for some while other jobs can bring it, no longer than a few calls take, and is then the job's: one failing
//! job alone shows nothing.
//!
//! A job that failed while the API served others is no witness: jobs that can never succeed must not hold up all
//! others, nor each other. So a job that fails again, though the API served a call in between, pays for it. The last
//! jobs of a lane have no others beside them: after a quarter of an hour without a success, the next failure ends them all.

use std::time::Duration;

use outflow::core::Decision;
use outflow::{Target, Upstream};
use outflow_core::{HealthState, Nanos};
use outflow_store::{ClaimedJob, JobEnd};
use tokio::time::timeout;

use super::lane_history::{AttemptSign, LaneHistories, LaneHistory, SignKind};
use crate::scheduler::strategy::AttemptFailure;
use crate::settings::EngineSettings;

/// Cause of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailureCause {
    Api,
    Job,
    /// The evidence is not sufficient yet.
    Unclear,
}

/// The API when an attempt began.
pub(super) struct ApiBefore {
    pub(super) health: HealthState,
    /// Sending of the latest call that succeeded.
    pub(super) served: Option<Nanos>,
    pub(super) upstream: Upstream,
    pub(super) target: Target,
}

impl ApiBefore {
    /// Returns true if the API served no calls but probes.
    pub(super) const fn is_down(&self) -> bool {
        is_down(self.health)
    }

    /// Returns true if the API served a call after a job's failure.
    pub(super) fn has_served_since(&self, failed: Option<Nanos>) -> bool {
        failed.is_some_and(|failed| self.served > Some(failed))
    }
}

const fn is_down(state: HealthState) -> bool {
    !matches!(state, HealthState::Normal | HealthState::Throttle)
}

/// One failed attempt, and the evidence about it.
pub(super) struct FailureJudge<'a> {
    pub(super) job: &'a ClaimedJob,
    pub(super) began: Nanos,
    pub(super) took: Duration,
    pub(super) before: ApiBefore,
    pub(super) lane: &'a LaneHistory,
    pub(super) lanes: &'a LaneHistories,
    /// End of the job's last attempt, which failed.
    pub(super) failed_before: Option<Nanos>,
}

impl FailureJudge<'_> {
    /// Returns the end of the attempt if it does not use one retry: the API failed, or the job can never succeed. Waits
    /// for evidence for a while.
    pub(super) async fn api_failure(&self, settings: &EngineSettings, failure: &AttemptFailure) -> Option<JobEnd> {
        self.lane.record(AttemptSign {
            job: self.job.token.job,
            began: self.began,
            ended: self.before.upstream.now(),
            outcome: self.sign(),
        });
        let clear = timeout(self.patience(), self.wait_for_evidence()).await;
        match clear.unwrap_or_else(|_| self.cause()) {
            FailureCause::Api => Some(JobEnd::ApiFailed {
                after: self.wait(settings),
                message: failure.message.clone(),
            }),
            // Further attempts would keep the API asleep for other callers.
            FailureCause::Job if self.is_left_alone() => {
                self.lane.abandon();
                Some(JobEnd::Failed {
                    message: failure.message.clone(),
                    result: failure.result.clone(),
                })
            }
            FailureCause::Job | FailureCause::Unclear => None,
        }
    }

    async fn wait_for_evidence(&self) -> FailureCause {
        loop {
            let mut changed = std::pin::pin!(self.lane.changed.notified());
            changed.as_mut().enable();
            match self.cause() {
                FailureCause::Unclear if self.lane.has_others() && !self.lanes.is_closing() => changed.await,
                cause => return cause,
            }
        }
    }

    /// Returns the time in which a few further calls start and end: a limit counts calls in flight, so that calls
    /// without a response may go one after the other.
    fn patience(&self) -> Duration {
        let one = self.start_distance().saturating_add(self.took);
        one.saturating_mul(FEW_STARTS).clamp(MIN_PATIENCE, MAX_PATIENCE)
    }

    /// Returns the time in which twice as many other jobs start as failed. Jobs that can never succeed would take the
    /// whole rate of a slowed API.
    fn turn_of_others(&self) -> Duration {
        let failed = u32::try_from(self.lane.failed_jobs()).unwrap_or(u32::MAX);
        let turns = failed.saturating_mul(TURNS_OF_OTHERS);
        self.start_distance().saturating_mul(turns).min(MAX_TURN)
    }

    /// Returns the time between two starts by the slowest limit in effect.
    fn start_distance(&self) -> Duration {
        let ApiBefore { upstream, target, .. } = &self.before;
        let limits = upstream.effective_limits(*target);
        let spaces = limits.iter().map(|limit| {
            let quantity = u32::try_from(limit.rate.quantity()).unwrap_or(u32::MAX);
            limit.rate.per() / quantity.max(1)
        });
        spaces.max().unwrap_or_default()
    }

    const fn sign(&self) -> SignKind {
        if is_suspect(self.job) {
            SignKind::FailedAgain
        } else {
            SignKind::Failed
        }
    }

    /// Returns the cause, as far as it shows.
    fn cause(&self) -> FailureCause {
        if self.before.has_served_since(self.failed_before) || self.is_left_alone() {
            return if self.is_throttled() {
                FailureCause::Api
            } else {
                FailureCause::Job
            };
        }
        let neighbours = self.lane.neighbours(self.job.token.job, self.began);
        if self.is_unhealthy() || neighbours.all_failed() {
            return FailureCause::Api;
        }
        if neighbours.is_complete() {
            return FailureCause::Job;
        }
        FailureCause::Unclear
    }

    /// Returns true if the API's health explains the failure. In Throttle most calls are served, so it explains only
    /// some failures of one job; of a suspect it explains none.
    fn is_unhealthy(&self) -> bool {
        let ApiBefore { upstream, target, .. } = &self.before;
        let states = [self.before.health, upstream.state(*target)];
        self.is_throttled() || (!is_suspect(self.job) && states.into_iter().any(is_down))
    }

    fn is_throttled(&self) -> bool {
        let ApiBefore { upstream, target, .. } = &self.before;
        let is_slow = [self.before.health, upstream.state(*target)].contains(&HealthState::Throttle);
        is_slow && !is_suspect(self.job) && self.excuses() < MAX_EXCUSES
    }

    /// Returns true if only jobs are left that failed before, and an API that served others has served none for long.
    fn is_left_alone(&self) -> bool {
        let ApiBefore { upstream, served, .. } = &self.before;
        let Some(failing) = self.lane.failing_without_others() else {
            return false;
        };
        let is_long = |served: Nanos| upstream.now().since(served.max(failing)) >= LAST_JOBS_EXCUSED;
        self.failed_before.is_some() && served.is_some_and(is_long)
    }

    /// Returns how many failed attempts of the job cost it no retry.
    const fn excuses(&self) -> u32 {
        let ClaimedJob {
            attempt,
            retries,
            throttles,
            ..
        } = self.job;
        attempt
            .saturating_sub(*retries)
            .saturating_sub(*throttles)
            .saturating_sub(1)
    }

    /// Returns the wait until the API accepts calls again, and some more, so that others go first. A deadline ends the
    /// wait.
    fn wait(&self, settings: &EngineSettings) -> Duration {
        let ApiBefore { upstream, target, .. } = &self.before;
        let asleep = match upstream.check(*target) {
            // A probe in flight decides, and has no known end.
            Decision::WaitUntil(Nanos::MAX) | Decision::Allow(()) | Decision::Never => Duration::ZERO,
            Decision::WaitUntil(at) => at.since(upstream.now()).min(MAX_WAIT),
        };
        let own = settings
            .backoff
            .delay(self.excuses().saturating_add(1), fastrand::u64(..));
        let own = own.saturating_add(self.turn_of_others());
        let wait = asleep.saturating_add(own);
        match self.job.deadline {
            Some(deadline) => wait.min(deadline.since(upstream.timer().wall())),
            None => wait,
        }
    }
}

/// Returns true if a job failed before while the API served others.
pub(super) const fn is_suspect(job: &ClaimedJob) -> bool {
    job.retries > 0
}

/// Starts that bring evidence: as many as witnesses, and one that was in flight before.
const FEW_STARTS: u32 = 4;

/// A limit may count calls that broke off for some seconds, which delays further ones.
const MIN_PATIENCE: Duration = Duration::from_mins(1);

/// A failed job is retried after this, at any rate.
const MAX_PATIENCE: Duration = Duration::from_mins(10);

/// Excuses of a job in Throttle, where most calls are served: of a million jobs that each fail with a probability of
/// a quarter, one uses up these and its retries.
const MAX_EXCUSES: u32 = 6;

/// Longer than most outages: the last jobs survive one, and jobs that can never succeed end.
const LAST_JOBS_EXCUSED: Duration = Duration::from_mins(15);

/// Of three starts one is left to jobs that failed.
const TURNS_OF_OTHERS: u32 = 3;

/// At a slow rate, the last jobs of a run wait no longer for others.
const MAX_TURN: Duration = Duration::from_secs(30);

/// An operator may wake the API at any time.
const MAX_WAIT: Duration = Duration::from_mins(10);
