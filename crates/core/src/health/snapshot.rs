//! The machine at one instant, for logs, metrics and people.

use core::time::Duration;

use super::{CircuitState, Health, HealthOverride, HealthState, TransitionFigures, TransitionReason};
use crate::{Nanos, OutcomeCounts};

/// All facts about an API's health at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthSnapshot {
    /// The state.
    pub state: HealthState,
    /// The state in the terms of a circuit breaker.
    pub circuit: CircuitState,
    /// Start of the state.
    pub since: Nanos,
    /// Time at which a timer leaves it, if one will.
    pub until: Option<Nanos>,
    /// Reason of the last transition; `None` if there was none.
    pub reason: Option<TransitionReason>,
    /// Figures that led to this state.
    pub figures: TransitionFigures,
    /// The operator's override, if there is one.
    pub hold: Option<HealthOverride>,
    /// End of the cooldown that the server asked for, if in the future.
    pub cooling_until: Option<Nanos>,
    /// The outcomes of this state that count.
    pub counts: OutcomeCounts,
    /// Throttled calls in a row.
    pub streak: u32,
    /// Failures of any kind in a row.
    pub failures: u32,
    /// Duration of the next Sleep without a server's time, before its jitter.
    pub cooldown: Duration,
    /// Recoveries that failed in a row.
    pub failed_recoveries: u32,
    /// Number of generations so far. Each transition starts one, and so does a lowered limit
    /// without a transition. Outcomes of requests from an earlier generation change nothing.
    pub generation: u64,
    /// Progress of a ramp to full speed.
    pub ramp: RampStage,
    /// Number of probes in flight.
    pub probes_out: u32,
}

/// Progress of Normal to full speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RampStage {
    /// No ramp is running.
    None,
    /// The rate grows until this next step and beyond.
    Ramping {
        /// Time of the next step.
        next: Nanos,
        /// Time of the last step, if it is within a thousand.
        end: Option<Nanos>,
    },
}

impl HealthSnapshot {
    /// Returns the share of failures in parts per million: in this state or, where none was counted and the API
    /// is not well, in the outcomes that led to it.
    pub fn error_ppm(&self) -> u32 {
        let counts = if self.counts == OutcomeCounts::default() && self.state != HealthState::Normal {
            &self.figures.counts
        } else {
            &self.counts
        };
        counts.failure_ppm()
    }

    /// Copies the machine's state at `now`, which must be its latest time.
    pub(super) fn from_health(health: &Health, now: Nanos) -> Self {
        Self {
            state: health.state,
            circuit: health.circuit(),
            since: health.since,
            until: health.leaves_at(),
            reason: health.reason,
            figures: health.figures,
            hold: health.hold,
            cooling_until: (health.cooling_until > now).then_some(health.cooling_until),
            counts: health.window.counts(),
            streak: health.streak,
            failures: health.failures,
            cooldown: health.next_cooldown(now).span(),
            failed_recoveries: health.failed_recoveries,
            generation: health.generation,
            ramp: match health.ramp {
                None => RampStage::None,
                Some(ramp) => RampStage::Ramping {
                    next: ramp.next(),
                    end: ramp.end(health.settings()),
                },
            },
            probes_out: health.probes.in_flight(),
        }
    }
}
