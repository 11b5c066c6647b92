//! What state an API is in, and what may therefore be sent to it.
//!
//! One machine per API watches every outcome and answers three questions: may this go, how fast, and
//! when to look again. A circuit breaker beside a throttle would be two machines watching the same
//! responses until they disagree; here the circuit is a view of the state.
//!
//! Nothing waits in here. Recording an outcome answers at once, a wait is an answer to the next
//! sender, and a timer is an instant that [`Health::next_wakeup`] names and [`Health::wake`] serves.
//! Outcomes of requests sent before the last move change no state: one overload wave, however many
//! were in flight, is one step. The machine scales rates and never raises one, and it does not count
//! requests against limits; that is a [`Meter`](crate::Meter)'s work.

mod answer;
mod config;
mod cooldown;
mod mistake;
mod operator;
mod probe;
mod ramp;
mod record;
mod snapshot;
mod state;
mod wake;

use core::time::Duration;

pub use answer::{Admission, Change, Ticket};
pub use config::{Escalation, Factor, HealthConfig, HealthSettings, Streak};
pub use mistake::{HealthMistake, InvalidHealth};
pub use snapshot::{RampStage, Snapshot};
pub use state::{Circuit, Hold, Reason, State, Transition};

use crate::backoff::uniform;
use crate::time::span_nanos;
use crate::{ErrorWindow, Nanos, Rate};
use cooldown::Cooldown;
use probe::Probes;
use ramp::Ramp;

/// The health of one API.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Admission, Health, HealthConfig, Nanos, Outcome, State};
///
/// let now = Nanos::from_secs(1);
/// let mut health = Health::new(HealthConfig::default(), now);
/// let Admission::Go(ticket) = health.admission(now) else { unreachable!() };
///
/// let ban = Outcome::BANNED.asking_to_wait(Duration::from_secs(60));
/// let change = health.record(now, ticket, ban, 0);
/// assert_eq!(change.transition().map(|t| t.to), Some(State::Sleep));
///
/// let back = Nanos::from_secs(61);
/// assert_eq!(health.next_wakeup(), Some(back));
/// assert_eq!(health.wake(back, 0).map(|t| t.to), Some(State::HalfOpen));
/// ```
#[derive(Clone, Debug)]
pub struct Health {
    state: State,
    hold: Option<Hold>,
    generation: u64,
    /// The latest time seen; time that runs backwards stands still.
    latest: Nanos,
    /// When a timer is due, [`Nanos::MAX`] if none is running.
    due: Nanos,
    /// Until when the server wants nobody to call, whatever the state.
    cooling_until: Nanos,
    /// When a timer leaves this state, [`Nanos::MAX`] if none does.
    until: Nanos,
    since: Nanos,
    reason: Option<Reason>,
    streak: u32,
    successes: u32,
    confirming: Option<Confirming>,
    failed_recoveries: u32,
    cooldown: Cooldown,
    ramp: Option<Ramp>,
    probes: Probes,
    window: ErrorWindow,
    config: HealthConfig,
}

impl Health {
    /// A machine in Normal, at full speed, that has seen nothing.
    pub fn new(config: HealthConfig, now: Nanos) -> Self {
        let settings = config.settings();
        Self {
            state: State::Normal,
            hold: None,
            generation: 0,
            latest: now,
            due: Nanos::MAX,
            cooling_until: Nanos::ZERO,
            until: Nanos::MAX,
            since: now,
            reason: None,
            streak: 0,
            successes: 0,
            confirming: None,
            failed_recoveries: 0,
            cooldown: Cooldown::first(settings),
            ramp: None,
            probes: Probes::NONE,
            window: ErrorWindow::new(settings.window, settings.window_length, now),
            config,
        }
    }

    /// Whether a request may be sent now. Ask before waiting for a limit and again right before
    /// sending: the state may have changed in between.
    #[inline]
    pub fn admission(&mut self, now: Nanos) -> Admission {
        let now = self.clamped(now);
        if self.is_due(now) {
            return Admission::Overdue;
        }
        match self.state {
            State::Normal | State::Throttle if now >= self.cooling_until => {
                Admission::Go(Ticket::plain(self.generation))
            }
            _ => self.restricted(now),
        }
    }

    /// The state now.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The state in the words of a circuit breaker.
    pub const fn circuit(&self) -> Circuit {
        self.state.circuit()
    }

    /// The variables it runs on.
    pub const fn config(&self) -> &HealthConfig {
        &self.config
    }

    /// What is left of a configured rate in this state. Ask again after every transition, every
    /// wake-up and every change of the variables.
    #[must_use]
    pub fn effective(&self, rate: Rate) -> Rate {
        match (self.state, self.ramp) {
            (State::Normal, None) => rate,
            (State::Normal, Some(ramp)) => self.slowed(rate, ramp.multiple()),
            (State::Throttle, _) => self.slowed(rate, WHOLE),
            // While nothing goes, the rate is already that of the probes to come.
            (State::HalfOpen | State::Sleep | State::CacheOnly, _) => {
                rate.at_most(self.settings().probe_rate)
            }
        }
    }

    /// How many requests may be in flight in this state.
    pub fn concurrency(&self) -> u32 {
        let settings = self.settings();
        match self.state {
            State::Normal => settings.concurrency,
            State::Throttle => {
                let share = u64::from(settings.throttle_share.as_parts_per_million());
                let left = u64::from(settings.concurrency) * share / WHOLE;
                u32::try_from(left).unwrap_or(u32::MAX).max(1)
            }
            State::HalfOpen => settings.probe_concurrency,
            State::Sleep | State::CacheOnly => 0,
        }
    }

    /// A random delay for one caller who is let go after a wait that the server asked for, so that
    /// not all go at once.
    pub fn release_jitter(&self, entropy: u64) -> Duration {
        let most = span_nanos(self.settings().release_jitter);
        Duration::from_nanos(uniform(most, entropy))
    }

    /// Begins a new wave without a move: a limit was just lowered because of a refusal, so the
    /// refusals of all that is still in flight say nothing new and push the state no further.
    /// While probes are out nothing changes: each of them decides by itself.
    pub fn begin_wave(&mut self, now: Nanos) {
        self.clamped(now);
        if matches!(self.state, State::Normal | State::Throttle) {
            self.generation = self.generation.wrapping_add(1);
        }
    }

    /// When [`Health::wake`] has something to do, if nothing else happens before.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        (self.due < Nanos::MAX).then_some(self.due)
    }

    /// The answer where not everyone may go; apart, so that the way of a healthy request is short.
    fn restricted(&mut self, now: Nanos) -> Admission {
        match self.state {
            State::Sleep | State::CacheOnly => self.blocked(),
            _ if now < self.cooling_until => Admission::Cooling {
                until: self.cooling_until,
            },
            _ => self.probe(now),
        }
    }

    fn blocked(&self) -> Admission {
        Admission::Blocked {
            state: self.state,
            until: self.next_wakeup(),
        }
    }

    fn probe(&mut self, now: Nanos) -> Admission {
        let settings = self.config.settings();
        let (timeout, most) = (settings.probe_timeout, settings.probe_concurrency);
        let Some(slot) = self.probes.send(now, timeout, most) else {
            return self.blocked();
        };
        self.reschedule();
        Admission::Go(Ticket::probe(self.generation, slot))
    }

    /// Throttle's rate times `multiple` millionths.
    fn slowed(&self, rate: Rate, multiple: u64) -> Rate {
        let settings = self.settings();
        let share = u64::from(settings.throttle_share.as_parts_per_million());
        let part = rate.scaled(share.saturating_mul(multiple) / WHOLE);
        let floor = settings.throttle_floor.scaled(multiple);
        rate.at_most(if part.cmp_speed(floor).is_lt() {
            floor
        } else {
            part
        })
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

    /// Goes to another state, where everything begins anew.
    fn enter(&mut self, now: Nanos, step: Step) -> Transition {
        let from = core::mem::replace(&mut self.state, step.to);
        self.generation = self.generation.wrapping_add(1);
        self.since = now;
        self.until = step.until;
        self.reason = Some(step.reason);
        self.streak = 0;
        self.successes = 0;
        self.confirming = None;
        self.probes = Probes::NONE;
        self.ramp = None;
        self.window.clear(now);
        if step.to == State::Normal {
            self.return_to_normal(now, step.reason);
        }
        self.reschedule();
        Transition {
            from,
            to: step.to,
            reason: step.reason,
            at: now,
            until: self.leaves_at(),
        }
    }

    /// When a timer leaves this state, if one does.
    fn leaves_at(&self) -> Option<Nanos> {
        (self.until < Nanos::MAX).then_some(self.due)
    }

    fn return_to_normal(&mut self, now: Nanos, reason: Reason) {
        let settings = self.config.settings();
        self.failed_recoveries = 0;
        self.cooldown = Cooldown::first(settings);
        // An operator who says Normal means full speed.
        if matches!(reason, Reason::ProbesOk | Reason::ProbesAnswered) {
            self.ramp = Ramp::start(now, settings);
        }
    }
}

/// A ratio that was seen and must persist before it is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Confirming {
    reason: Reason,
    since: Nanos,
    held: Duration,
}

/// Where to go, why, and when a timer leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    to: State,
    reason: Reason,
    until: Nanos,
}

impl Step {
    /// A step into a state that no timer leaves.
    const fn to(to: State, reason: Reason) -> Self {
        Self {
            to,
            reason,
            until: Nanos::MAX,
        }
    }
}

/// All of a rate, in millionths.
const WHOLE: u64 = 1_000_000;
