//! Ours: the health machine behind the lock that a program would put around it, and without one.

use std::time::Duration;

use parking_lot::Mutex;

use outflow::SystemClock;
use outflow_core::{Clock as _, Health, HealthConfig, HealthDecision, HealthTicket, Nanos, Outcome};

/// Returns a healthy machine.
pub(crate) fn well(now: Nanos) -> Health {
    Health::new(HealthConfig::default(), now)
}

/// Returns a machine in a cooldown of an hour.
pub(crate) fn shut_out(now: Nanos) -> Health {
    let mut health = well(now);
    let ban = Outcome::BANNED.with_retry_after(Duration::from_hours(1));
    if let Some(ticket) = ticket(&mut health, now) {
        let _ = health.record(now, ticket, ban, 0);
    }
    health
}

/// Returns a ticket if the machine allows it.
#[inline]
pub(crate) fn ticket(health: &mut Health, now: Nanos) -> Option<HealthTicket> {
    match health.admission(now) {
        HealthDecision::Go(ticket) => Some(ticket),
        HealthDecision::Cooling { .. } | HealthDecision::Blocked { .. } | HealthDecision::Overdue => None,
    }
}

/// Takes a ticket and records a success, if the machine allows it.
#[inline]
pub(crate) fn cycle(health: &mut Health, sent: Nanos, answered: Nanos) -> bool {
    ticket(health, sent).is_some_and(|ticket| {
        let _ = health.record(answered, ticket, Outcome::SUCCESS, 0);
        true
    })
}

/// A machine that threads share.
pub(crate) struct SharedHealth {
    pub(crate) clock: SystemClock,
    health: Mutex<Health>,
}

impl SharedHealth {
    pub(crate) fn new(make: impl Fn(Nanos) -> Health) -> Self {
        let clock = SystemClock::new();
        Self {
            clock,
            health: Mutex::new(make(clock.now())),
        }
    }

    /// Locks and decides.
    #[inline]
    pub(crate) fn admits(&self, now: Nanos) -> bool {
        self.ticket(now).is_some()
    }

    /// Locks, decides, and locks again to record a success: the request runs in between.
    #[inline]
    pub(crate) fn cycles(&self, clock: impl Fn() -> Nanos) -> bool {
        self.ticket(clock()).is_some_and(|ticket| {
            let now = clock();
            let mut health = self.health.lock();
            let _ = health.record(now, ticket, Outcome::SUCCESS, 0);
            true
        })
    }

    #[inline]
    fn ticket(&self, now: Nanos) -> Option<HealthTicket> {
        let mut health = self.health.lock();
        ticket(&mut health, now)
    }
}
