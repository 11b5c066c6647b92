//! One machine that lives through a history of events, with every answer checked.

use core::time::Duration;
use std::collections::VecDeque;

use outflow_core::{
    Escalation, Health, HealthConfig, HealthDecision, HealthOverride, HealthSettings, HealthState, HealthTicket,
    HealthTransition, Nanos, Outcome, ProbePatience, Rate, ThrottleExit, TransitionReason,
};

use super::api::rate;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Acquires a ticket and keeps it.
    Send,
    /// Reports the outcome of the oldest ticket, acquiring one if there is none.
    Answer(Outcome),
    Abandon,
    /// Serves timers now.
    Wake,
    /// Serves timers when the next one is due.
    WakeWhenDue,
    Pass(Duration),
    /// A response shows this latency.
    Observe(Duration),
    StepBack(Duration),
    Force(HealthOverride),
    Release,
    /// Applies the other configuration of the two.
    Configure,
}

pub(super) struct World {
    pub(super) health: Health,
    pub(super) now: Nanos,
    pub(super) tickets: VecDeque<HealthTicket>,
    configs: [HealthConfig; 2],
    entropy: u64,
    /// Above and below every floor and ceiling of the machine, in several spans.
    rates: [Rate; 4],
    pub(super) edges: Vec<(HealthState, HealthState, TransitionReason)>,
}

impl World {
    pub(super) fn new(configs: &[HealthConfig; 2]) -> Self {
        let now = Nanos::from_secs(1_000_000);
        Self {
            health: Health::new(configs[0], now),
            now,
            tickets: VecDeque::new(),
            configs: *configs,
            entropy: 0,
            rates: ["35/s", "7/s", "1/100ms", "100/min"].map(rate),
            edges: Vec::new(),
        }
    }

    pub(super) fn step(&mut self, event: Event) {
        self.happen(event);
        for rate in &self.rates {
            let left = self.health.effective(*rate);
            assert!(left.cmp_speed(*rate).is_le(), "{rate} raised to {left}");
        }
    }

    fn happen(&mut self, event: Event) {
        self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
        match event {
            Event::Send => {
                let sent = self.ask();
                self.tickets.extend(sent);
            }
            Event::Answer(outcome) => {
                let ticket = self.tickets.pop_front().or_else(|| self.ask());
                if let Some(ticket) = ticket {
                    let change = self.health.record(self.now, ticket, outcome, self.entropy);
                    self.note(change.transition());
                }
            }
            Event::Abandon => {
                if let Some(ticket) = self.tickets.pop_front() {
                    self.health.abandon(self.now, ticket);
                }
            }
            Event::Wake => self.wake(),
            Event::WakeWhenDue => {
                self.now = self.now.max(self.health.next_wakeup().unwrap_or(self.now));
                self.wake();
            }
            Event::Pass(span) => self.now = self.now.saturating_add(span),
            Event::Observe(latency) => self.health.observe_latency(latency),
            Event::StepBack(span) => self.now = self.now.saturating_sub(span),
            Event::Force(hold) => {
                let forced = self.health.force(self.now, hold);
                self.note(Some(forced));
            }
            Event::Release => {
                let released = self.health.release(self.now);
                self.note(released);
            }
            Event::Configure => {
                self.configs.swap(0, 1);
                self.health.configure(self.now, self.configs[0]);
            }
        }
    }

    fn wake(&mut self) {
        let woken = self.health.wake(self.now, self.entropy);
        self.note(woken);
    }

    /// Asks like a client, and checks every answer against its promise.
    fn ask(&mut self) -> Option<HealthTicket> {
        let latest = self.health.snapshot(self.now);
        match self.health.admission(self.now) {
            HealthDecision::Go(ticket) => {
                assert!(latest.cooling_until.is_none(), "sent during a cooldown");
                assert_eq!(ticket.is_probe(), latest.state == HealthState::HalfOpen);
                assert!(!matches!(latest.state, HealthState::Sleep | HealthState::CacheOnly));
                Some(ticket)
            }
            HealthDecision::Cooling { until } => {
                assert_eq!(Some(until), latest.cooling_until);
                assert!(until > self.now);
                None
            }
            HealthDecision::Blocked { state, until } => {
                assert_eq!(state, latest.state);
                assert!(until.is_none_or(|until| until > self.now));
                None
            }
            HealthDecision::Overdue => {
                self.wake();
                self.ask()
            }
        }
    }

    fn note(&mut self, transition: Option<HealthTransition>) {
        let Some(HealthTransition { from, to, reason, .. }) = transition else {
            return;
        };
        let settings = self.configs[0].settings();
        assert!(
            is_legal(settings, from, to, reason),
            "{from} to {to} by {reason} under {settings:?}"
        );
        assert_eq!(self.health.state(), to);
        self.edges.push((from, to, reason));
    }

    /// An operator ends a `CacheOnly` that has no timer; nothing else may wait for one.
    fn release_from(&mut self, state: HealthState) {
        let waits = self.configs[0].settings().auto_recover.is_none();
        assert!(state == HealthState::CacheOnly && waits, "stuck in {state}");
        self.step(Event::Force(HealthOverride::CacheOnly));
        self.step(Event::Release);
    }

    /// The API succeeds from now on. Returns the time until Normal.
    pub(super) fn heal(&mut self) -> Duration {
        let began = self.now;
        if self.health.snapshot(self.now).hold.is_some() {
            self.step(Event::Release);
        }
        for _ in 0..10_000 {
            if self.health.state() == HealthState::Normal && self.health.snapshot(self.now).hold.is_none() {
                return self.now.since(began);
            }
            self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
            match self.health.admission(self.now) {
                HealthDecision::Go(ticket) => {
                    self.now = self.now.saturating_add(Duration::from_millis(100));
                    let entropy = self.entropy;
                    let change = self.health.record(self.now, ticket, Outcome::SUCCESS, entropy);
                    self.note(change.transition());
                }
                HealthDecision::Cooling { until } | HealthDecision::Blocked { until: Some(until), .. } => {
                    assert!(until > self.now);
                    self.now = until;
                }
                HealthDecision::Overdue => self.wake(),
                HealthDecision::Blocked { until: None, state } => self.release_from(state),
            }
        }
        panic!("stuck in {}", self.health.state());
    }
}

/// The edges that exist; any other is a defect.
fn is_legal(settings: &HealthSettings, from: HealthState, to: HealthState, reason: TransitionReason) -> bool {
    use HealthState::{CacheOnly, HalfOpen, Normal, Sleep, Throttle};
    let edge = (from, to);
    match reason {
        TransitionReason::ErrorRatio => edge == (Normal, escalated(settings)),
        TransitionReason::Streak => {
            let by_failures = settings.n_failures.is_some() && edge == (Normal, Sleep);
            by_failures || [(Normal, escalated(settings)), (Throttle, Sleep)].contains(&edge)
        }
        TransitionReason::RetryAfter | TransitionReason::Banned => {
            matches!(edge, (Normal | Throttle | HalfOpen, Sleep))
        }
        TransitionReason::ErrorRatioHeld => settings.p_sleep.is_some() && edge == (Throttle, Sleep),
        TransitionReason::SuccessWindowOk => edge == (Throttle, exit(settings)),
        TransitionReason::SleepOver => edge == (Sleep, HalfOpen),
        TransitionReason::LateResponse => {
            settings.probe_patience == ProbePatience::Latency && edge == (Sleep, HalfOpen)
        }
        TransitionReason::ProbesOk | TransitionReason::ProbesAnswered => edge == (HalfOpen, Normal),
        TransitionReason::ProbeFailed | TransitionReason::ProbeTimedOut => edge == (HalfOpen, Sleep),
        TransitionReason::RecoveriesExhausted => settings.cache_only_after.is_some() && edge == (HalfOpen, CacheOnly),
        TransitionReason::AutoRecover => edge == (CacheOnly, Sleep),
        TransitionReason::Forced => to != HalfOpen,
        TransitionReason::Released => matches!(
            edge,
            (Normal, Normal) | (Throttle, Throttle) | (Sleep | CacheOnly, Sleep | HalfOpen)
        ),
    }
}

const fn escalated(settings: &HealthSettings) -> HealthState {
    match settings.escalation {
        Escalation::Throttle => HealthState::Throttle,
        Escalation::Sleep => HealthState::Sleep,
    }
}

const fn exit(settings: &HealthSettings) -> HealthState {
    match settings.throttle_exit {
        ThrottleExit::Normal => HealthState::Normal,
        ThrottleExit::HalfOpen => HealthState::HalfOpen,
    }
}
