//! An API on virtual time: a machine, a clock and a stream of entropy, and ways into each state.

use core::time::Duration;

use outflow_core::{
    Health, HealthChange, HealthConfig, HealthDecision, HealthSettings, HealthState, HealthTicket, HealthTransition,
    Nanos, Outcome, Rate, TransitionReason,
};

pub(crate) struct Api {
    pub(crate) health: Health,
    pub(crate) now: Nanos,
    entropy: u64,
}

impl Api {
    /// A machine in Normal, an hour into its timeline.
    pub(crate) fn new(settings: &HealthSettings) -> Self {
        let now = Nanos::from_secs(3_600);
        let config = HealthConfig::new(*settings).expect("valid");
        Self {
            health: Health::new(config, now),
            now,
            entropy: 7,
        }
    }

    pub(crate) fn usual() -> Self {
        Self::new(&HealthSettings::CAUTIOUS)
    }

    pub(crate) fn entropy(&mut self) -> u64 {
        self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.entropy ^ (self.entropy >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
    }

    pub(crate) fn pass_millis(&mut self, millis: u64) {
        self.pass(Duration::from_millis(millis));
    }

    pub(crate) fn wake(&mut self) -> Option<HealthTransition> {
        let entropy = self.entropy();
        self.health.wake(self.now, entropy)
    }

    /// Passes the time to the next timer and serves it.
    pub(crate) fn wake_when_due(&mut self) -> Option<HealthTransition> {
        self.now = self.health.next_wakeup().expect("a timer").max(self.now);
        self.wake()
    }

    /// Sends a request, which must be allowed.
    pub(crate) fn send(&mut self) -> HealthTicket {
        match self.health.admission(self.now) {
            HealthDecision::Go(ticket) => ticket,
            refused => panic!("{refused:?} at {:?}", self.now),
        }
    }

    pub(crate) fn answer(&mut self, ticket: HealthTicket, outcome: Outcome) -> HealthChange {
        let entropy = self.entropy();
        self.health.record(self.now, ticket, outcome, entropy)
    }

    /// One request and its outcome at the same instant.
    pub(crate) fn call(&mut self, outcome: Outcome) -> HealthChange {
        let ticket = self.send();
        self.answer(ticket, outcome)
    }

    /// Returns the last change of equal calls.
    pub(crate) fn calls(&mut self, count: u32, outcome: Outcome) -> HealthChange {
        (0..count).fold(HealthChange::None, |_, _| self.call(outcome))
    }

    pub(crate) fn state(&self) -> HealthState {
        self.health.state()
    }

    /// Three throttles in a row.
    pub(crate) fn throttled() -> Self {
        let mut api = Self::usual();
        let change = api.calls(3, Outcome::THROTTLED);
        assert_eq!(moved(change), Some((HealthState::Throttle, TransitionReason::Streak)));
        api
    }

    /// A ban of a minute.
    pub(crate) fn asleep() -> Self {
        Self::asleep_with(&HealthSettings::CAUTIOUS)
    }

    fn asleep_with(settings: &HealthSettings) -> Self {
        let mut api = Self::new(settings);
        let change = api.call(Outcome::BANNED.with_retry_after(Duration::from_mins(1)));
        assert_eq!(moved(change), Some((HealthState::Sleep, TransitionReason::Banned)));
        api
    }

    /// A ban that has ended.
    pub(crate) fn half_open() -> Self {
        Self::half_open_with(&HealthSettings::CAUTIOUS)
    }

    pub(crate) fn half_open_with(settings: &HealthSettings) -> Self {
        let mut api = Self::asleep_with(settings);
        let woken = api.wake_when_due().map(|t| (t.to, t.reason));
        assert_eq!(woken, Some((HealthState::HalfOpen, TransitionReason::SleepOver)));
        api
    }

    /// Five recoveries that failed, and a timer that tries again.
    pub(crate) fn cache_only() -> Self {
        let mut api = Self::half_open_with(&RECOVERING);
        for _ in 0..4 {
            api.call(Outcome::SERVER_FAILED);
            api.wake_when_due();
        }
        let change = api.call(Outcome::SERVER_FAILED);
        assert_eq!(
            moved(change),
            Some((HealthState::CacheOnly, TransitionReason::RecoveriesExhausted))
        );
        api
    }

    pub(crate) fn in_state(state: HealthState) -> Self {
        match state {
            HealthState::Normal => Self::usual(),
            HealthState::Throttle => Self::throttled(),
            HealthState::Sleep => Self::asleep(),
            HealthState::HalfOpen => Self::half_open(),
            HealthState::CacheOnly => Self::cache_only(),
        }
    }
}

pub(crate) fn rate(text: &str) -> Rate {
    text.parse().expect("valid")
}

/// Returns the target and the reason of a change.
pub(crate) fn moved(change: HealthChange) -> Option<(HealthState, TransitionReason)> {
    change.transition().map(|t| (t.to, t.reason))
}

/// A cautious machine that leaves `CacheOnly` by itself.
pub(crate) const RECOVERING: HealthSettings = HealthSettings {
    auto_recover: Some(Duration::from_mins(15)),
    ..HealthSettings::CAUTIOUS
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) const STATES: [HealthState; 5] = [
    HealthState::Normal,
    HealthState::Throttle,
    HealthState::Sleep,
    HealthState::HalfOpen,
    HealthState::CacheOnly,
];
