//! The limit that a server really has, as far as its answers tell.
//!
//! Configuration can be wrong: providers lower a limit without notice, and share a key among
//! programs. Sending at the configured rate and retrying would then be refused for ever; asking
//! health to sort it out would stop everything for what a slightly lower rate cures. So evidence
//! shrinks the limit in effect at once, to what the server let through, and time without evidence
//! lets it grow back slowly: it rests where it was last refused before it tries that again, and
//! longer each time. It never goes above what was configured, and it does not park anyone: waiting
//! for a ban or a quota to end is the cooldown's part, here they only say that nothing was learned
//! meanwhile.

use core::fmt;
use core::time::Duration;

use crate::{Nanos, Rate};
use advertised_limit::AdvertisedLimit;
use fine_rate::FineRate;
use throttle_burst::ThrottleBurst;
use upper_bound::UpperBound;

mod advertised_limit;
mod fine_rate;
mod snapshot;
mod throttle_burst;
mod upper_bound;

pub use snapshot::AdaptiveSnapshot;

/// How far evidence may move a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AdaptiveMode {
    /// The configured limit holds whatever happens.
    Off,
    /// Evidence lowers the limit for a while, never raises it.
    #[default]
    Guard,
    /// No limit is known: what was configured is where the search begins.
    Learn,
}

/// Something that a server did or said about its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// It refused a call: slow down.
    Throttled {
        /// When the refused call was sent.
        sent: Nanos,
        /// What it let through in the window before, in units.
        admitted: u64,
    },
    /// It told its limit, which is believed for ten windows and at least ten minutes unless it is
    /// told again.
    Limit(Rate),
    /// A quota is used up until then; the rate itself was right.
    QuotaUntil(Nanos),
    /// It banned us until then: we were far too fast.
    Ban {
        /// When the call that was answered with the ban was sent.
        sent: Nanos,
        /// When the ban ends.
        until: Nanos,
    },
}

/// What a piece of evidence changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitChange {
    /// The limit shrank: a new generation begins.
    Shrunk,
    /// The limit grew, because the server said so.
    Raised,
    /// It was about a call sent before the last shrink, and so is answered already.
    SameWave,
    /// It is remembered, or not to be learned from; the limit stays.
    Unmoved,
}

/// A limit in effect, moved by evidence.
///
/// ```
/// use outflow_core::{Adaptive, Evidence, Learned, Nanos, Rate};
///
/// let mut learned = Learned::new(Adaptive::Guard, "50/s".parse()?, Nanos::ZERO);
/// let now = Nanos::from_secs(10);
/// learned.evidence(now, Evidence::Throttled { sent: Nanos::from_secs(9), admitted: 30 });
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
    /// Where the last refusal came.
    ceiling: Option<UpperBound>,
    told: Option<AdvertisedLimit>,
    shrunk: Option<Nanos>,
    /// The last refusal that lowered the rate, while its wave may still be coming in.
    wave: Option<ThrottleBurst>,
    clean_since: Nanos,
    held_until: Nanos,
    drifting: Option<DriftSpan>,
    last: Nanos,
}

/// Since when in this process, and how long in those before.
#[derive(Clone, Copy, Debug)]
struct DriftSpan {
    since: Nanos,
    before: Duration,
}

impl AdaptiveLimit {
    /// So many let through are enough to go by: of eight, one more or less is about the blur that there
    /// always is. Fewer may be chance.
    pub const TELLING: u64 = 8;

    /// Begins at the configured rate. With [`AdaptiveMode::Learn`] that is only the first guess: choose
    /// one that is surely low enough.
    pub const fn new(mode: AdaptiveMode, configured: Rate, now: Nanos) -> Self {
        Self {
            mode,
            configured,
            level: FineRate::from_rate(configured),
            ceiling: None,
            told: None,
            shrunk: None,
            wave: None,
            clean_since: now,
            held_until: Nanos::ZERO,
            drifting: None,
            last: now,
        }
    }

    /// The rate to keep to.
    pub fn effective(&self) -> Rate {
        if self.level == FineRate::from_rate(self.configured) {
            return self.configured;
        }
        self.level.rate(self.configured)
    }

    /// Takes a piece of evidence. Only one raises the rate: a server that tells a higher limit than it
    /// told before, and never above what was configured.
    pub fn evidence(&mut self, now: Nanos, evidence: Evidence) -> LimitChange {
        let now = self.advance(now);
        if self.mode == AdaptiveMode::Off {
            return LimitChange::Unmoved;
        }
        match evidence {
            Evidence::Throttled { sent, admitted } => {
                self.clean_since = now;
                self.throttled(now, sent, admitted)
            }
            Evidence::Limit(told) => self.on_advertised(now, told),
            Evidence::QuotaUntil(until) => {
                self.hold(until);
                LimitChange::Unmoved
            }
            Evidence::Ban { sent, until } => {
                self.clean_since = now;
                self.hold(until);
                self.wave = None;
                let shrunk = self.level.halved(self.floor());
                self.step_down(now, sent, shrunk)
            }
        }
    }

    /// Takes a success, with what the server let through in the window before it. Once a whole
    /// window was clean the rate grows one step, but not beyond twice what was let through: a rate
    /// that nobody used was not tried. A success of the wave that was just refused is no growth but
    /// a better count of what got through, and corrects the shrink at once.
    pub fn clean(&mut self, now: Nanos, admitted: u64) {
        let now = self.advance(now);
        if self.mode == AdaptiveMode::Off || now < self.held_until {
            return;
        }
        let span = self.window();
        if let Some(wave) = self.wave.filter(|wave| now.since(wave.since) < span) {
            self.recount(wave, admitted);
        }
        if now.since(self.clean_since) < span {
            return;
        }
        let tried = FineRate::units(admitted).doubled();
        if tried <= self.level {
            // Of a burst that has only begun little has passed yet: those behind it say more.
            return;
        }
        self.clean_since = now;
        let grown = self.grown(now).min(tried).min(self.top());
        self.rise_to(self.level.max(grown));
    }

    /// How far the rate in effect is from the configured one, if it is; there is nothing to differ
    /// from while learning.
    pub fn drift(&self, now: Nanos) -> Option<LimitDrift> {
        let drifting = self.drifting.filter(|_| self.mode == AdaptiveMode::Guard)?;
        let here = now.max(self.last).since(drifting.since);
        Some(LimitDrift {
            configured: self.configured,
            evidence: self.effective(),
            lasting: drifting.before.saturating_add(here),
        })
    }

    /// Brings it to `now`, or leaves it at the latest time seen. What was told and not repeated is
    /// no longer a bound then, only the likeliest place of the next refusal.
    fn advance(&mut self, now: Nanos) -> Nanos {
        self.last = self.last.max(now);
        if let Some(lapsed) = self.told.take_if(|told| told.until <= self.last) {
            let at = lapsed.over(self.configured);
            self.ceiling = self.ceiling.or(Some(UpperBound::remembered(at)));
        }
        self.last
    }

    /// Calls sent before the last shrink are the rest of the wave that caused it.
    fn step_down(&mut self, now: Nanos, sent: Nanos, to: FineRate) -> LimitChange {
        if self.shrunk.is_some_and(|shrunk| sent <= shrunk) {
            return LimitChange::SameWave;
        }
        let before = self.ceiling.take();
        self.ceiling = Some(UpperBound::hit(now, self.level, before, self.window()));
        self.shrunk = Some(now);
        if to == self.level {
            // As low as refusals alone go: it is not the rate that is wrong.
            return LimitChange::Unmoved;
        }
        self.lower(now, to);
        LimitChange::Shrunk
    }

    fn on_advertised(&mut self, now: Nanos, told: Rate) -> LimitChange {
        let heard = AdvertisedLimit::new(now, told, self.configured).after(self.told);
        let before = self.told.replace(heard);
        let told = heard.over(self.configured);
        if before.is_some_and(|before| self.is_lifted(now, before, told)) {
            return self.raise();
        }
        if told >= self.level {
            return LimitChange::Unmoved;
        }
        self.clean_since = now;
        self.wave = None;
        self.shrunk = Some(now);
        self.lower(now, told);
        LimitChange::Shrunk
    }

    /// Whether a limit that stood for a while is now told to be higher. Servers behind one name that
    /// contradict each other lift nothing.
    fn is_lifted(&self, now: Nanos, before: AdvertisedLimit, told: FineRate) -> bool {
        told > before.over(self.configured) && now.since(before.since) >= self.window()
    }

    /// The server lifted what it had told, so whatever it refused before, it refused under another limit.
    fn raise(&mut self) -> LimitChange {
        (self.ceiling, self.wave) = (None, None);
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

    fn grown(&self, now: Nanos) -> FineRate {
        match self.ceiling {
            None if self.mode == AdaptiveMode::Learn => self.level.doubled(),
            Some(ceiling) if ceiling.holds(now, self.level) => self.level,
            Some(ceiling) if self.level.is_near(ceiling.at) => self.level.plus(CAREFUL_STEP),
            _ => self.level.plus(STEP),
        }
    }

    fn window(&self) -> Duration {
        self.configured.per().max(SHORTEST_WINDOW)
    }

    /// The highest that growth may reach.
    fn top(&self) -> FineRate {
        let configured = match self.mode {
            AdaptiveMode::Learn => FineRate::MAX,
            AdaptiveMode::Off | AdaptiveMode::Guard => FineRate::from_rate(self.configured),
        };
        self.told.map_or(configured, |told| {
            configured.min(told.over(self.configured))
        })
    }

    /// Refusals alone never lower the rate below this: slower, there would be too few calls to
    /// learn from that the server has healed.
    const fn floor(&self) -> FineRate {
        FineRate::from_rate(self.configured).share(FLOOR)
    }
}

/// The limit in effect is not the one that was configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitDrift {
    /// What was configured.
    pub configured: Rate,
    /// What the evidence allows.
    pub evidence: Rate,
    /// For how long they have differed, restarts included.
    pub lasting: Duration,
}

impl fmt::Display for LimitDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "configured {}, evidence says {}",
            self.configured, self.evidence
        )
    }
}

/// Shorter windows tell nothing that the network does not blur.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);
/// Growth per clean window, in parts per million. At 3 % a halved rate is back after 24 windows,
/// and a limit that is found anew is overstepped by little.
const STEP: u32 = 30_000;
/// Growth near the last refusal, the likeliest place of the next: six times as many windows pass
/// between one overstepping and another.
const CAREFUL_STEP: u32 = 5_000;
/// One per cent of the configured rate, in parts per million.
const FLOOR: u32 = 10_000;
