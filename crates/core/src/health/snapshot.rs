//! The machine at a glance, for logs, metrics and people.

use core::time::Duration;

use super::{CircuitState, Health, HealthOverride, HealthState, TransitionReason};
use crate::{Nanos, OutcomeCounts};

/// Everything that can be told about an API's health at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthSnapshot {
    /// The state.
    pub state: HealthState,
    /// The same in the words of a circuit breaker.
    pub circuit: CircuitState,
    /// Since when.
    pub since: Nanos,
    /// When a timer leaves it, if one will.
    pub until: Option<Nanos>,
    /// What led here; nothing has yet if it is `None`.
    pub reason: Option<TransitionReason>,
    /// The operator's hold, if there is one.
    pub hold: Option<HealthOverride>,
    /// Until when nobody calls because the server asked, if that is in the future.
    pub cooling_until: Option<Nanos>,
    /// The outcomes of this state that count.
    pub counts: OutcomeCounts,
    /// Refusals in a row, or failures where those make the streak.
    pub streak: u32,
    /// How long the next Sleep of our own choosing is, before its jitter.
    pub cooldown: Duration,
    /// Recoveries that failed in a row.
    pub failed_recoveries: u32,
    /// How many waves began so far. Each state entered begins one, and so does a limit that was
    /// lowered without a move; outcomes of requests sent in an earlier wave change nothing.
    pub generation: u64,
    /// How far a ramp to full speed has come.
    pub ramp: RampStage,
    /// Probes that are out.
    pub probes_out: u32,
}

/// Whether Normal is already at full speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RampStage {
    /// No ramp is under way.
    None,
    /// The rate grows until this next step and beyond.
    Ramping {
        /// When it grows next.
        next: Nanos,
    },
}

impl Health {
    /// The machine as it is now.
    pub fn snapshot(&mut self, now: Nanos) -> HealthSnapshot {
        let now = self.clamped(now);
        self.window.refresh(now);
        HealthSnapshot {
            state: self.state,
            circuit: self.circuit(),
            since: self.since,
            until: self.leaves_at(),
            reason: self.reason,
            hold: self.hold,
            cooling_until: (self.cooling_until > now).then_some(self.cooling_until),
            counts: self.window.counts(),
            streak: self.streak,
            cooldown: self.cooldown.span(),
            failed_recoveries: self.failed_recoveries,
            generation: self.generation,
            ramp: match self.ramp {
                None => RampStage::None,
                Some(ramp) => RampStage::Ramping { next: ramp.next() },
            },
            probes_out: self.probes.out(),
        }
    }
}
