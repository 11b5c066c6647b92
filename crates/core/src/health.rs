//! The health state of an API, and the calls it permits.
//!
//! One machine per API watches every outcome. It decides if a call may go, at which rate, and when
//! to check again. A circuit breaker next to a throttle would be two machines that watch the same
//! responses until they disagree; here the circuit is a view of the state.
//!
//! Nothing waits in here. Recording an outcome returns at once, and a wait is an answer to the next
//! caller. A timer is an instant that [`Health::next_wakeup`] names and [`Health::wake`] serves.
//!
//! Outcomes of requests sent before the last transition change no state: one overload burst,
//! however large, is one step. The machine scales rates and never raises one. It does not count
//! requests against limits; that is the task of a [`Meter`](crate::Meter).

mod config;
mod cooldown;
mod decision;
mod effective_limits;
mod invalid_config;
mod on_outcome;
mod operator_override;
mod outage;
mod probe;
mod ramp;
mod rules;
mod snapshot;
mod state;
mod timers;

use core::time::Duration;

pub use config::{HealthConfig, HealthSettings, RateFactor};
pub use decision::{HealthChange, HealthDecision, HealthTicket};
pub use invalid_config::{HealthConfigError, InvalidHealth};
pub use on_outcome::SharedWait;
pub use rules::{CooldownRule, Escalation, ProbeInstant, ProbePatience, RampRule, ThrottleExit};
pub use snapshot::{HealthSnapshot, RampStage};
pub use state::{CircuitState, HealthOverride, HealthState, HealthTransition, TransitionFigures, TransitionReason};

use crate::backoff::uniform;
use crate::time::span_nanos;
use crate::{ErrorWindow, Nanos};
use cooldown::Cooldown;
use outage::{Outage, OutageCause};
use probe::ProbeSlots;
use ramp::Ramp;

/// Health of one API.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{HealthDecision, Health, HealthConfig, Nanos, Outcome, HealthState};
///
/// let now = Nanos::from_secs(1);
/// let mut health = Health::new(HealthConfig::default(), now);
/// let HealthDecision::Go(ticket) = health.admission(now) else { unreachable!() };
///
/// let ban = Outcome::BANNED.with_retry_after(Duration::from_secs(60));
/// let change = health.record(now, ticket, ban, 0);
/// assert_eq!(change.transition().map(|t| t.to), Some(HealthState::Sleep));
///
/// let back = Nanos::from_secs(61);
/// assert_eq!(health.next_wakeup(), Some(back));
/// assert_eq!(health.wake(back, 0).map(|t| t.to), Some(HealthState::HalfOpen));
/// ```
#[derive(Clone, Debug)]
pub struct Health {
    state: HealthState,
    hold: Option<HealthOverride>,
    generation: u64,
    /// Latest time seen; earlier times count as this one.
    latest: Nanos,
    /// Time of the next timer, [`Nanos::MAX`] if none is running.
    due: Nanos,
    /// End of the cooldown that the server asked for, in any state.
    cooling_until: Nanos,
    /// Time at which a timer leaves this state, [`Nanos::MAX`] if none does.
    until: Nanos,
    since: Nanos,
    reason: Option<TransitionReason>,
    /// The outcomes that led to this state.
    figures: TransitionFigures,
    /// Throttled calls in a row.
    streak: u32,
    /// Failures in a row.
    failures: u32,
    successes: u32,
    confirming: Option<ConfirmingRatio>,
    failed_recoveries: u32,
    cooldown: Cooldown,
    outage: Option<Outage>,
    /// Usual latency in nanoseconds.
    latency: u64,
    limits: LimitContext,
    ramp: Option<Ramp>,
    probes: ProbeSlots,
    window: ErrorWindow,
    config: HealthConfig,
}

impl Health {
    /// Builds a machine in Normal, at full speed, without outcomes.
    pub fn new(config: HealthConfig, now: Nanos) -> Self {
        let settings = config.settings();
        Self {
            state: HealthState::Normal,
            hold: None,
            generation: 0,
            latest: now,
            due: Nanos::MAX,
            cooling_until: Nanos::ZERO,
            until: Nanos::MAX,
            since: now,
            reason: None,
            figures: TransitionFigures::default(),
            streak: 0,
            failures: 0,
            successes: 0,
            confirming: None,
            failed_recoveries: 0,
            cooldown: Cooldown::first(settings),
            outage: None,
            latency: FIRST_LATENCY,
            limits: LimitContext::default(),
            ramp: None,
            probes: ProbeSlots::NONE,
            window: ErrorWindow::new(settings.window, settings.window_length, now),
            config,
        }
    }

    /// Decides if a request may be sent now. Ask before waiting for a limit and again right before
    /// sending: the state may have changed in between.
    #[inline]
    pub fn admission(&mut self, now: Nanos) -> HealthDecision {
        let now = self.clamped(now);
        if self.is_due(now) {
            return HealthDecision::Overdue;
        }
        match self.state {
            HealthState::Normal | HealthState::Throttle if now >= self.cooling_until => {
                HealthDecision::Go(HealthTicket::plain(self.generation))
            }
            _ => self.restricted(now),
        }
    }

    /// Returns the end of the wait that the server asked for; the past if it asked for none.
    pub const fn cooling_until(&self) -> Nanos {
        self.cooling_until
    }

    /// Returns the instant at which a ramp reaches the full rate, if the rate grows back.
    pub fn ramp_end(&self) -> Option<Nanos> {
        self.ramp.and_then(|ramp| ramp.end(self.settings()))
    }

    /// Returns the state.
    pub const fn state(&self) -> HealthState {
        self.state
    }

    /// Returns the operator's override, if there is one.
    pub const fn operator_override(&self) -> Option<HealthOverride> {
        self.hold
    }

    /// Returns the state in the terms of a circuit breaker.
    pub const fn circuit(&self) -> CircuitState {
        self.state.circuit()
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &HealthConfig {
        &self.config
    }

    /// Draws a random delay for one caller that is released after a server's wait, so that callers
    /// do not go all at once.
    pub fn release_jitter(&self, entropy: u64) -> Duration {
        let max = span_nanos(self.settings().release_jitter);
        Duration::from_nanos(uniform(max, entropy))
    }

    /// Starts a new generation without a transition: a limit was just lowered because of a
    /// throttle. Throttles of requests still in flight are no news then and do not push the state
    /// further. With probes in flight nothing changes: each of them decides by itself.
    pub fn begin_generation(&mut self, now: Nanos) {
        self.clamped(now);
        if matches!(self.state, HealthState::Normal | HealthState::Throttle) {
            self.generation = self.generation.wrapping_add(1);
        }
    }

    /// Learns the usual latency from a response.
    pub const fn observe_latency(&mut self, round_trip: Duration) {
        let nanos = round_trip.as_nanos();
        let nanos = if nanos > LONGEST_LATENCY {
            LONGEST_LATENCY
        } else {
            nanos
        };
        #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "bounded above")]
        let nanos = nanos as u64;
        self.latency = self.latency - self.latency / 10 + nanos / 10;
    }

    /// Sets the facts about the API's limits that some settings depend on.
    pub const fn set_limits(&mut self, limits: LimitContext) {
        self.limits = limits;
    }

    /// Returns the time of the next timer for [`Health::wake`], if nothing else happens before.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        (self.due < Nanos::MAX).then_some(self.due)
    }

    /// Returns the machine's state at `now`.
    pub fn snapshot(&mut self, now: Nanos) -> HealthSnapshot {
        let now = self.clamped(now);
        self.window.refresh(now);
        HealthSnapshot::from_health(self, now)
    }

    /// Decides in states that restrict calls; separate, so that the path of a healthy request is
    /// short.
    fn restricted(&mut self, now: Nanos) -> HealthDecision {
        match self.state {
            HealthState::Sleep | HealthState::CacheOnly => self.blocked(),
            _ if now < self.cooling_until => HealthDecision::Cooling {
                until: self.cooling_until,
            },
            _ => self.probe(now),
        }
    }

    fn blocked(&self) -> HealthDecision {
        HealthDecision::Blocked {
            state: self.state,
            until: self.next_wakeup(),
        }
    }

    fn probe(&mut self, now: Nanos) -> HealthDecision {
        let settings = self.config.settings();
        let max = match self.probes.good() {
            0 => settings.probe_start,
            _ => settings.probe_concurrency,
        };
        let Some(slot) = self.probes.send(now, max) else {
            return self.blocked();
        };
        self.reschedule();
        HealthDecision::Go(HealthTicket::probe(self.generation, slot))
    }

    fn settings(&self) -> &HealthSettings {
        self.config.settings()
    }

    #[inline]
    fn clamped(&mut self, now: Nanos) -> Nanos {
        self.latest = self.latest.max(now);
        self.latest
    }

    #[inline]
    fn is_due(&self, now: Nanos) -> bool {
        now >= self.due && self.due < Nanos::MAX
    }

    /// Enters another state and resets everything that belongs to one state.
    fn enter(&mut self, now: Nanos, step: HealthStep) -> HealthTransition {
        let from = core::mem::replace(&mut self.state, step.to);
        self.outage = Some(self.outage_after(now, step.reason));
        self.generation = self.generation.wrapping_add(1);
        self.since = now;
        self.until = step.until;
        self.reason = Some(step.reason);
        self.figures = self.figures_at(now);
        self.streak = 0;
        self.failures = 0;
        self.successes = 0;
        self.confirming = None;
        self.probes = ProbeSlots::NONE;
        self.ramp = None;
        self.window.clear(now);
        if step.to == HealthState::Normal {
            self.return_to_normal(now, step.reason);
        }
        self.reschedule();
        HealthTransition {
            from,
            to: step.to,
            reason: step.reason,
            at: now,
            until: self.leaves_at(),
            figures: self.figures,
        }
    }

    /// Returns the outcomes of the state that ends now. A state that counted none, such as a Sleep, passes on
    /// those that led to it.
    fn figures_at(&mut self, now: Nanos) -> TransitionFigures {
        self.window.refresh(now);
        let figures = TransitionFigures {
            streak: self.streak,
            failures: self.failures,
            counts: self.window.counts(),
        };
        if figures.is_empty() { self.figures } else { figures }
    }

    /// Returns the time at which a timer leaves this state, if one does.
    fn leaves_at(&self) -> Option<Nanos> {
        (self.until < Nanos::MAX).then_some(self.due)
    }

    fn return_to_normal(&mut self, now: Nanos, reason: TransitionReason) {
        let settings = self.config.settings();
        self.failed_recoveries = 0;
        self.cooldown = Cooldown::first(settings);
        let cause = self.outage.take().map(|outage| outage.cause);
        let by_probes = matches!(reason, TransitionReason::ProbesOk | TransitionReason::ProbesAnswered);
        let ramps = match settings.ramp_after {
            RampRule::Always => by_probes,
            RampRule::Throttles => {
                cause == Some(OutageCause::Throttles) && (by_probes || reason == TransitionReason::SuccessWindowOk)
            }
            RampRule::Never => false,
        };
        if ramps {
            self.ramp = Ramp::start(now, settings);
        }
    }
}

/// Facts about the limits of an API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitContext {
    /// The longest window. After throttled calls a Sleep takes at least a tenth of it.
    pub longest_window: Duration,
    /// Number of requests in flight with which the limits bind.
    pub concurrency: u32,
}

impl Default for LimitContext {
    fn default() -> Self {
        Self {
            longest_window: Duration::ZERO,
            concurrency: 16,
        }
    }
}

/// An error ratio that was seen and must persist before it is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ConfirmingRatio {
    reason: TransitionReason,
    since: Nanos,
    held: Duration,
}

/// Target of a transition, its reason, and the time at which a timer leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HealthStep {
    to: HealthState,
    reason: TransitionReason,
    until: Nanos,
}

impl HealthStep {
    /// Builds a step into a state that no timer leaves.
    const fn to(to: HealthState, reason: TransitionReason) -> Self {
        Self {
            to,
            reason,
            until: Nanos::MAX,
        }
    }
}

/// 200 ms, until a response shows another.
const FIRST_LATENCY: u64 = 200_000_000;

/// A minute: longer latencies say nothing more about patience.
const LONGEST_LATENCY: u128 = 60_000_000_000;
