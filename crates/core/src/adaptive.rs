//! The limit that a server really enforces, as far as its responses show it.
//!
//! Configuration can be wrong: providers lower a limit without notice, and programs share a key.
//! Sending at the configured rate would then be throttled for ever. Leaving it to health would stop
//! all calls where a slightly lower rate is enough.
//!
//! A throttle is evidence about the rate only if something passed and the limit was in use: where
//! nothing passes, the rate is not the cause. Evidence lowers the effective limit at once, to the
//! amount the server let through, and once per burst: a lowered limit is tried before it is lowered
//! again. Clean windows raise it quickly. Growth rests just below the last throttled rate before it
//! tries that rate again; the longer the bound has stood, the longer the rest. The limit never
//! exceeds the configured one. It blocks no caller: waiting for a ban or a quota to end is the
//! cooldown's task.

use core::time::Duration;

use crate::{Nanos, Rate};
use advertised_limit::AdvertisedLimit;
use fine_rate::FineRate;
use full_window::FullWindow;
use limit_drift::DriftSpan;
use rate_evidence::RateEvidence;
use throttle_burst::{ThrottleBurst, ThrottleCounts};
use upper_bound::UpperBound;

mod advertised_limit;
mod fine_rate;
mod full_window;
mod limit_drift;
mod rate_evidence;
mod snapshot;
mod throttle_burst;
mod upper_bound;

pub use limit_drift::LimitDrift;
pub use snapshot::AdaptiveSnapshot;

named_enum! {
    /// Degree to which evidence may change a limit.
    #[derive(Default)]
    pub enum AdaptiveMode {
        /// The configured limit holds; evidence is ignored.
        Off = "off",
        /// Evidence lowers the limit for a while, never raises it.
        #[default]
        Guard = "guard",
        /// No limit is known: the configured rate is where the search begins.
        Learn = "learn",
    }
}

/// Something a server did or said about its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The server throttled a call.
    Throttled {
        /// Time at which the throttled call was sent.
        sent: Nanos,
        /// Units let through in the window before.
        admitted: u64,
        /// Units of the limit that were used in that window.
        used: u64,
    },
    /// The server advertised its limit. It is believed for ten windows and at least ten minutes,
    /// unless it is repeated.
    Limit(Rate),
    /// A quota is used up until this instant; the rate itself was right.
    QuotaUntil(Nanos),
    /// The server banned the client until an instant: the rate was far too high.
    Ban {
        /// Time at which the banned call was sent.
        sent: Nanos,
        /// End of the ban.
        until: Nanos,
    },
}

/// Success of a call, with the units that the server let through in the window before it. The
/// window has a blurred start, so there are two counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedUnits {
    /// Time at which the call was sent.
    pub sent: Nanos,
    /// Units that are surely in the window.
    pub surely: u64,
    /// Units that may be in the window.
    pub possibly: u64,
}

/// Effect of a piece of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitChange {
    /// The limit shrank: a new generation begins.
    Shrunk,
    /// The limit grew: the server raised its advertised limit, or a long window was not full after all.
    Raised,
    /// The call was sent before the last shrink, so the limit reacted to it already.
    SameBurst,
    /// The limit shrank because a long window stays full. The throttle still counts in health.
    FullWindow,
    /// The limit stays: the evidence is stored or carries no information about the rate.
    Unmoved,
}

/// An effective limit that follows evidence.
///
/// ```
/// use outflow_core::{AdaptiveMode, Evidence, AdaptiveLimit, Nanos, Rate};
///
/// let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, "50/s".parse()?, Nanos::ZERO);
/// let now = Nanos::from_secs(10);
/// let throttled = Evidence::Throttled { sent: Nanos::from_secs(9), admitted: 30, used: 31 };
/// learned.evidence(now, throttled);
/// assert_eq!(learned.effective().to_string(), "30/s");
/// let drift = learned.drift(now).expect("it differs");
/// assert_eq!(drift.to_string(), "configured 50/s, evidence says 30/s");
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    mode: AdaptiveMode,
    configured: Rate,
    level: FineRate,
    /// Rate of the last throttle.
    upper_bound: Option<UpperBound>,
    advertised: Option<AdvertisedLimit>,
    shrunk: Option<Nanos>,
    /// The rate before the last shrink by a throttle.
    before_shrink: FineRate,
    /// The last throttle that lowered the rate, while its burst may still be coming in.
    burst: Option<ThrottleBurst>,
    /// True if a call that was sent after the last shrink has passed.
    is_tried: bool,
    rate_evidence: RateEvidence,
    /// Throttles since a long window may be full.
    full_window: FullWindow,
    clean_since: Nanos,
    held_until: Nanos,
    drifting: Option<DriftSpan>,
    last: Nanos,
}

impl AdaptiveLimit {
    /// Eight units let through are enough to count by: one more or less is about the usual blur.
    /// Fewer may be chance.
    pub const MIN_COUNTED: u64 = 8;

    /// Starts at the configured rate. With [`AdaptiveMode::Learn`] that is only the first guess:
    /// choose one that is surely low enough.
    pub const fn new(mode: AdaptiveMode, configured: Rate, now: Nanos) -> Self {
        Self {
            mode,
            configured,
            level: FineRate::from_rate(configured),
            upper_bound: None,
            advertised: None,
            shrunk: None,
            before_shrink: FineRate::from_rate(configured),
            burst: None,
            is_tried: true,
            rate_evidence: RateEvidence::NONE,
            full_window: FullWindow::NONE,
            clean_since: now,
            held_until: Nanos::ZERO,
            drifting: None,
            last: now,
        }
    }

    /// Returns the rate to keep to.
    pub fn effective(&self) -> Rate {
        if self.level == FineRate::from_rate(self.configured) {
            return self.configured;
        }
        self.level.rate(self.configured)
    }

    /// Applies a piece of evidence. Only one kind raises the rate: a server that advertises a
    /// higher limit than before, and never above the configured one.
    pub fn evidence(&mut self, now: Nanos, evidence: Evidence) -> LimitChange {
        let now = self.advance(now);
        if self.mode == AdaptiveMode::Off {
            return LimitChange::Unmoved;
        }
        match evidence {
            Evidence::Throttled { sent, admitted, used } => {
                self.throttled(now, sent, ThrottleCounts { admitted, used })
            }
            Evidence::Limit(advertised) => self.on_advertised(now, advertised),
            Evidence::QuotaUntil(until) => {
                self.hold(until);
                LimitChange::Unmoved
            }
            Evidence::Ban { sent, until } => {
                self.clean_since = now;
                self.hold(until);
                self.burst = None;
                if self.shrunk.is_some_and(|shrunk| sent <= shrunk) {
                    return LimitChange::SameBurst;
                }
                self.step_down(now, self.level.halved(self.floor()))
            }
        }
    }

    /// Applies a success. After a clean window the rate grows one step, but not beyond twice the
    /// units let through: an unused rate was not tested.
    ///
    /// A success of the burst that was just throttled is no growth. It improves the count of units
    /// let through and corrects the shrink at once.
    pub fn clean(&mut self, now: Nanos, passed: PassedUnits) {
        let now = self.advance(now);
        self.rate_evidence.record_pass(now, self.window());
        if self.shrunk.is_none_or(|shrunk| passed.sent > shrunk) {
            self.is_tried = true;
            self.passed_again(now, passed.surely);
        }
        if self.mode == AdaptiveMode::Off || now < self.held_until {
            return;
        }
        let span = self.window();
        if let Some(burst) = self.burst.filter(|burst| now.since(burst.since) < span) {
            self.recount(burst, passed.surely);
        }
        if now.since(self.clean_since) < span {
            return;
        }
        let tried = FineRate::units(passed.possibly).doubled();
        if tried <= self.level {
            // Little of a burst that has only begun has passed yet; later successes count more.
            return;
        }
        self.clean_since = now;
        let grown = self.grown(now).min(tried).min(self.top());
        self.rise_to(self.level.max(grown));
    }

    /// Takes back the shrink of this instant, whose throttle turned out not to be about the rate. A later
    /// shrink stays.
    pub fn retract(&mut self, shrunk: Nanos) -> LimitChange {
        if self.shrunk != Some(shrunk) {
            return LimitChange::Unmoved;
        }
        self.is_tried = true;
        self.full_window.clear();
        self.return_to(self.before_shrink)
    }

    /// Moves the state to `now`, or keeps the latest time seen. An advertised limit that was not
    /// repeated is no longer a bound then, only the likeliest rate of the next throttle.
    fn advance(&mut self, now: Nanos) -> Nanos {
        self.last = self.last.max(now);
        if let Some(lapsed) = self.advertised.take_if(|advertised| advertised.until <= self.last) {
            let at = lapsed.over(self.configured);
            self.upper_bound = self.upper_bound.or(Some(UpperBound::remembered(at, self.last)));
        }
        self.last
    }

    /// Lowers the rate and places the upper bound at the old one.
    fn step_down(&mut self, now: Nanos, to: FineRate) -> LimitChange {
        let before = self.upper_bound.take();
        self.upper_bound = Some(UpperBound::hit(now, self.level, before, self.configured.per()));
        (self.shrunk, self.before_shrink) = (Some(now), self.level);
        if to >= self.level {
            // Throttles alone lower the rate no further: the rate is not the cause.
            return LimitChange::Unmoved;
        }
        self.is_tried = false;
        self.lower(now, to);
        LimitChange::Shrunk
    }

    fn on_advertised(&mut self, now: Nanos, advertised: Rate) -> LimitChange {
        let heard = AdvertisedLimit::new(now, advertised, self.configured).after(self.advertised);
        let before = self.advertised.replace(heard);
        let advertised = heard.over(self.configured);
        if before.is_some_and(|before| self.is_lifted(now, before, advertised)) {
            return self.raise();
        }
        if advertised >= self.level {
            return LimitChange::Unmoved;
        }
        self.clean_since = now;
        self.burst = None;
        (self.shrunk, self.before_shrink) = (Some(now), advertised);
        self.is_tried = false;
        self.full_window.clear();
        self.lower(now, advertised);
        LimitChange::Shrunk
    }

    /// Returns true if a limit that held for a while is now advertised higher. Contradicting
    /// servers behind one name raise nothing.
    fn is_lifted(&self, now: Nanos, before: AdvertisedLimit, advertised: FineRate) -> bool {
        advertised > before.over(self.configured) && now.since(before.since) >= self.window()
    }

    /// Forgets earlier throttles: the server raised its limit, so they happened under another one.
    fn raise(&mut self) -> LimitChange {
        (self.upper_bound, self.burst) = (None, None);
        let raised = self.top();
        if raised <= self.level {
            return LimitChange::Unmoved;
        }
        self.rise_to(raised);
        LimitChange::Raised
    }

    fn rise_to(&mut self, level: FineRate) {
        self.level = level;
        if self.level >= FineRate::from_rate(self.configured) {
            self.drifting = None;
        }
    }

    fn lower(&mut self, now: Nanos, to: FineRate) {
        self.level = to;
        if self.level < FineRate::from_rate(self.configured) && self.drifting.is_none() {
            self.drifting = Some(DriftSpan {
                since: now,
                before: Duration::ZERO,
            });
        }
    }

    fn hold(&mut self, until: Nanos) {
        self.held_until = self.held_until.max(until);
    }

    /// Returns the rate after one step of growth. Below the upper bound growth stops, and tries the
    /// bound in careful steps after its rest. Above the bound it is forgotten.
    fn grown(&mut self, now: Nanos) -> FineRate {
        let step = if self.is_long() { LONG_STEP } else { STEP };
        let up = self.level.plus(step);
        let Some(bound) = self.upper_bound else {
            return match self.mode {
                AdaptiveMode::Learn => self.level.doubled(),
                AdaptiveMode::Off | AdaptiveMode::Guard => up,
            };
        };
        let is_near = self.level.is_near(bound.at);
        if self.level.whole() > bound.at.whole() && !is_near {
            self.upper_bound = None;
            return up;
        }
        let below = bound.at.below();
        if bound.is_rested(now) && (is_near || self.level.plus(GRAIN) >= below) {
            let careful = if self.is_long() {
                LONG_CAREFUL_STEP
            } else {
                CAREFUL_STEP
            };
            return self.level.plus(careful).max(self.level.plus_quarter_unit());
        }
        up.min(below)
    }

    /// Returns true for windows whose units come back too late to count a burst by.
    fn is_long(&self) -> bool {
        self.configured.per() > SHORTEST_WINDOW
    }

    fn window(&self) -> Duration {
        self.configured.per().max(SHORTEST_WINDOW)
    }

    /// Returns the highest rate that growth may reach.
    fn top(&self) -> FineRate {
        let configured = match self.mode {
            AdaptiveMode::Learn => FineRate::MAX,
            AdaptiveMode::Off | AdaptiveMode::Guard => FineRate::from_rate(self.configured),
        };
        self.advertised.map_or(configured, |advertised| {
            configured.min(advertised.over(self.configured))
        })
    }

    /// Returns the lowest rate that throttles alone can cause. Below it, too few calls would show
    /// that the server has recovered.
    const fn floor(&self) -> FineRate {
        FineRate::from_rate(self.configured).share(FLOOR)
    }
}

/// The network blurs counts over shorter windows.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);
/// Growth per clean window, in parts per million: from half to the full rate in four windows.
const STEP: u32 = 250_000;
/// Growth per clean window of a long window.
const LONG_STEP: u32 = 500_000;
/// Growth near the last throttle, the likeliest rate of the next.
const CAREFUL_STEP: u32 = 30_000;
/// The same for long windows.
const LONG_CAREFUL_STEP: u32 = 60_000;
/// Less than any step, in parts per million.
const GRAIN: u32 = 1_000;
/// One per cent of the configured rate, in parts per million.
const FLOOR: u32 = 10_000;
