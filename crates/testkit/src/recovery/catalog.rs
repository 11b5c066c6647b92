//! The scenarios of the table of recoveries.

use std::time::Duration;

use outflow_core::Share;
use outflow_mock::{Fault, MockResponse, RetryAfterForm, ScriptedFault, ThrottleResponse};

use super::scenario::{RecoveryScenario, TroubleKind};

impl RecoveryScenario {
    /// Returns every scenario. Limits by the minute need more time before and after, and `phase` moves
    /// the instant of healing.
    pub fn all(by_minute: bool, phase: Duration) -> Vec<Self> {
        let times = ScenarioTimes::new(by_minute, phase);
        let mut all = times.of_throttles();
        all.extend(times.of_limits());
        all.extend(times.of_outages());
        all.extend(times.of_errors());
        all.extend(times.of_restarts());
        all
    }

    /// Returns the scenario of this name.
    ///
    /// # Panics
    /// If there is none.
    #[expect(clippy::expect_used, reason = "a test that names no scenario must end at once")]
    pub fn named(name: &str, by_minute: bool) -> Self {
        let mut all = Self::all(by_minute, Duration::ZERO).into_iter();
        all.find(|scenario| scenario.name == name).expect("a known name")
    }
}

/// Instants that the scenarios share.
struct ScenarioTimes {
    begin: Duration,
    after: Duration,
    phase: Duration,
    endless: Duration,
}

impl ScenarioTimes {
    fn new(by_minute: bool, phase: Duration) -> Self {
        let (begin, after) = if by_minute { (180, 900) } else { (60, 300) };
        Self {
            begin: secs(begin),
            after: secs(after),
            phase,
            endless: if by_minute { secs(900) } else { secs(600) },
        }
    }

    /// Trouble from the beginning on, for a span and the phase.
    fn during(&self, name: &'static str, span: u64, kind: TroubleKind) -> RecoveryScenario {
        let heal = self.begin + secs(span) + self.phase;
        RecoveryScenario::new(name, self.begin, Some(heal), self.after).with(self.begin, heal, kind)
    }

    /// Trouble for as long as it is watched.
    fn endless(&self, name: &'static str) -> RecoveryScenario {
        RecoveryScenario::new(name, Duration::ZERO, None, self.endless)
    }

    fn of_throttles(&self) -> Vec<RecoveryScenario> {
        vec![
            self.during("429 for 20 s", 20, TroubleKind::Failing(bare(429))),
            self.idle_throttles(),
            self.retry_after_a_minute(),
        ]
    }

    fn idle_throttles(&self) -> RecoveryScenario {
        let (begin, name) = (self.begin, "three 429s on an idle API");
        let mut scenario = RecoveryScenario::new(name, begin, Some(begin + secs(9)), self.after);
        scenario.is_idle = true;
        [0, 4, 8].into_iter().fold(scenario, |scenario, at| {
            let from = begin + secs(at);
            scenario.with(from, from + secs(4), TroubleKind::Once(bare(429)))
        })
    }

    /// The first 429 names a minute, and each later one what is left of it.
    fn retry_after_a_minute(&self) -> RecoveryScenario {
        let (begin, name) = (self.begin, "one 429, Retry-After 60");
        let scenario = RecoveryScenario::new(name, begin, Some(begin + secs(60)), self.after);
        (0..60).fold(scenario, |scenario, passed| {
            let from = begin + secs(passed);
            let rest = ThrottleResponse::new(429, secs(60 - passed));
            scenario.with(from, from + secs(1), TroubleKind::Failing(rest.into()))
        })
    }

    fn of_limits(&self) -> Vec<RecoveryScenario> {
        let half = Share::percent(50);
        let mut silent = self.during("half for 5 min, silent", 300, TroubleKind::Capacity(half));
        silent.demand = half;
        let mut reported = self.during("half for 5 min, with headers", 300, TroubleKind::Capacity(half));
        (reported.demand, reported.sends_headers) = (half, true);
        let quarter = Share::percent(25);
        let lasting = self.endless("a quarter for ever");
        let end = lasting.end();
        let mut lasting = lasting.with(Duration::ZERO, end, TroubleKind::Capacity(quarter));
        lasting.demand = quarter;
        let mut shared = self.endless("another client, half of the key");
        (shared.demand, shared.shares_key) = (half, true);
        vec![silent, reported, lasting, shared]
    }

    fn of_outages(&self) -> Vec<RecoveryScenario> {
        let polite = ThrottleResponse::new(503, secs(10));
        vec![
            self.during("503 for 2 min", 120, TroubleKind::Failing(bare(503))),
            self.during("refused for 2 min", 120, TroubleKind::Refusing),
            self.during("hang for 2 min", 120, TroubleKind::Failing(Fault::Hang.into())),
            self.during("503, Retry-After 10, 2 min", 120, TroubleKind::Failing(polite.into())),
            self.flapping(),
        ]
    }

    fn flapping(&self) -> RecoveryScenario {
        let (begin, name) = (self.begin, "flapping 10 s/10 s, 5 min");
        let scenario = RecoveryScenario::new(name, begin, Some(begin + secs(290)), self.after);
        (0..15).fold(scenario, |scenario, turn| {
            let from = begin + secs(20 * turn);
            scenario.with(from, from + secs(10), TroubleKind::Failing(bare(503)))
        })
    }

    fn of_errors(&self) -> Vec<RecoveryScenario> {
        let chance = |percent| TroubleKind::Chance(Share::percent(percent), bare(500));
        let few = self.endless("5 % random 500s");
        let end = few.end();
        let missing = MockResponse::status(404).into();
        vec![
            few.with(Duration::ZERO, end, chance(5)),
            self.during("25 % random 500s, 5 min", 300, chance(25)),
            self.during("404s for 1 min", 60, TroubleKind::Neutral(missing)),
        ]
    }

    fn of_restarts(&self) -> Vec<RecoveryScenario> {
        let zero = Duration::ZERO;
        let (begin, name) = (self.begin, "restart of the server");
        let (back, well) = (begin + secs(20), begin + secs(40));
        let server = RecoveryScenario::new(name, begin, Some(well), self.after)
            .with(begin, back, TroubleKind::Refusing)
            .with(back, well, TroubleKind::Capacity(Share::percent(50)))
            .with(back, well, TroubleKind::Slow(5));
        let client = RecoveryScenario::new("restart of the client", zero, Some(zero), self.after);
        vec![client, server]
    }
}

/// A response with this status and no wait.
fn bare(status: u16) -> ScriptedFault {
    let response = ThrottleResponse::new(status, Duration::ZERO);
    response.with_retry_after(RetryAfterForm::Nothing).into()
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}
