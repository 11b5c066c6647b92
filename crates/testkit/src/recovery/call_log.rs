//! What happened in one run.

use std::time::Duration;

use outflow::{Error, Response};
use outflow_core::{HealthState, HealthTransition, LimitDrift};
use outflow_mock::{Arrival, ArrivalVerdict};

use super::bed::RecoveryBed;
use super::load::OWN_PATH;

/// Ends of calls and changes of state so far, since the beginning of the run.
#[derive(Default)]
pub(super) struct CallLog {
    pub(super) good: Vec<Duration>,
    pub(super) failed: Vec<FailedCall>,
    pub(super) unconnected: Vec<Duration>,
    pub(super) moves: Vec<(Duration, HealthTransition)>,
    pub(super) drifts: Vec<(Duration, Option<LimitDrift>)>,
}

/// Call without a useful answer.
#[derive(Clone, Debug)]
pub struct FailedCall {
    /// Instant of its start.
    pub began: Duration,
    /// Instant of its end.
    pub over: Duration,
    /// Its end in words.
    pub why: String,
}

impl CallLog {
    pub(super) fn finish(&mut self, began: Duration, over: Duration, result: Result<Response, Error>) -> bool {
        let why = match result {
            Ok(response) if is_useful(response.status().as_u16()) => {
                self.good.push(over);
                return true;
            }
            Ok(response) => response.status().to_string(),
            Err(error) => error.to_string(),
        };
        self.failed.push(FailedCall { began, over, why });
        false
    }
}

/// A 404 is an answer that the caller asked for.
const fn is_useful(status: u16) -> bool {
    status < 400 || status == 404
}

/// Everything that one run showed, in seconds since its beginning.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// Ends of calls with a useful answer.
    pub good: Vec<f64>,
    /// Calls without one.
    pub failed: Vec<FailedCall>,
    /// Calls that reached the server, or tried to.
    pub sent: Vec<f64>,
    /// Calls that got a 429.
    pub refused: Vec<f64>,
    /// End of the latest wait that the server asked for.
    pub asked_until: f64,
    /// Transitions of health.
    pub moves: Vec<(f64, HealthTransition)>,
    /// Changes of limits in effect.
    pub drifts: Vec<(f64, Option<LimitDrift>)>,
    /// Calls of the open load.
    pub offered: Vec<f64>,
}

impl RunRecord {
    /// Returns what a run showed so far.
    pub(super) fn collect(bed: &RecoveryBed) -> Self {
        let log = bed.log.lock();
        let audit = bed.mock.audit();
        let since = |at: outflow_core::Nanos| at.since(bed.server_origin).as_secs_f64();
        let own: Vec<_> = audit.arrivals().iter().filter(|call| &*call.path == OWN_PATH).collect();
        let mut sent: Vec<_> = own.iter().map(|call| since(call.at)).collect();
        sent.extend(seconds(&log.unconnected));
        sent.sort_by(f64::total_cmp);
        let refused = own.iter().filter(|call| is_throttled(call)).map(|call| since(call.at));
        Self {
            good: seconds(&log.good),
            failed: log.failed.clone(),
            sent,
            refused: refused.collect(),
            asked_until: audit.waits().iter().map(|wait| since(wait.until)).fold(0.0, f64::max),
            moves: log.moves.iter().map(|(at, what)| (at.as_secs_f64(), *what)).collect(),
            drifts: log.drifts.iter().map(|(at, what)| (at.as_secs_f64(), *what)).collect(),
            offered: Vec::new(),
        }
    }

    /// Returns how often Normal was left.
    pub fn times_left_normal(&self) -> usize {
        let left = |transition: &HealthTransition| transition.from == HealthState::Normal;
        self.moves.iter().filter(|(_, transition)| left(transition)).count()
    }

    /// Returns the number of instants in each second, for a look at a run.
    pub fn by_second(times: &[f64]) -> Vec<usize> {
        let mut counts = Vec::new();
        for at in times {
            let second = Duration::from_secs_f64(*at).as_secs();
            let second = usize::try_from(second).unwrap_or(usize::MAX);
            if counts.len() <= second {
                counts.resize(second.saturating_add(1), 0);
            }
            if let Some(count) = counts.get_mut(second) {
                *count += 1;
            }
        }
        counts
    }
}

fn is_throttled(call: &Arrival) -> bool {
    matches!(call.verdict, ArrivalVerdict::Refused(_)) || call.status == Some(429)
}

fn seconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(Duration::as_secs_f64).collect()
}
