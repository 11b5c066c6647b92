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
use ceiling::Ceiling;
use level::Level;
use told::Told;

mod ceiling;
mod level;
mod snapshot;
mod told;

pub use snapshot::LearnedSnapshot;

/// How far evidence may move a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adaptive {
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
pub enum Reaction {
    /// The limit shrank: a new generation begins.
    Shrunk,
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
pub struct Learned {
    mode: Adaptive,
    configured: Rate,
    level: Level,
    /// Where the last refusal came.
    ceiling: Option<Ceiling>,
    told: Option<Told>,
    shrunk: Option<Nanos>,
    /// The last refusal that lowered the rate, while its wave may still be coming in.
    wave: Option<Wave>,
    clean_since: Nanos,
    held_until: Nanos,
    drifting: Option<Drifting>,
    last: Nanos,
}

/// A refusal that lowered the rate.
#[derive(Clone, Copy, Debug)]
struct Wave {
    since: Nanos,
    refused_at: Level,
    /// What was let through when it came, in units.
    admitted: u64,
}

/// Since when in this process, and how long in those before.
#[derive(Clone, Copy, Debug)]
struct Drifting {
    since: Nanos,
    before: Duration,
}

impl Learned {
    /// So many let through are enough to go by: of eight, one more or less is about the blur that there
    /// always is. Fewer may be chance.
    pub const TELLING: u64 = 8;

    /// Begins at the configured rate. With [`Adaptive::Learn`] that is only the first guess: choose
    /// one that is surely low enough.
    pub const fn new(mode: Adaptive, configured: Rate, now: Nanos) -> Self {
        Self {
            mode,
            configured,
            level: Level::of(configured),
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
        if self.level == Level::of(self.configured) {
            return self.configured;
        }
        self.level.rate(self.configured)
    }

    /// Takes a piece of evidence. It never raises the rate.
    pub fn evidence(&mut self, now: Nanos, evidence: Evidence) -> Reaction {
        let now = self.advance(now);
        if self.mode == Adaptive::Off {
            return Reaction::Unmoved;
        }
        match evidence {
            Evidence::Throttled { sent, admitted } => {
                self.clean_since = now;
                self.throttled(now, sent, admitted)
            }
            Evidence::Limit(told) => self.hear(now, told),
            Evidence::QuotaUntil(until) => {
                self.hold(until);
                Reaction::Unmoved
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
        if self.mode == Adaptive::Off || now < self.held_until {
            return;
        }
        let span = self.window();
        if let Some(wave) = self.wave.filter(|wave| now.since(wave.since) < span) {
            self.recount(wave, admitted);
        }
        if now.since(self.clean_since) < span {
            return;
        }
        let tried = Level::units(admitted).doubled();
        if tried <= self.level {
            // Of a burst that has only begun little has passed yet: those behind it say more.
            return;
        }
        self.clean_since = now;
        let grown = self.grown(now).min(tried).min(self.top());
        self.level = self.level.max(grown);
        if self.level >= Level::of(self.configured) {
            self.drifting = None;
        }
    }

    /// How far the rate in effect is from the configured one, if it is; there is nothing to differ
    /// from while learning.
    pub fn drift(&self, now: Nanos) -> Option<Drift> {
        let drifting = self.drifting.filter(|_| self.mode == Adaptive::Guard)?;
        let here = now.max(self.last).since(drifting.since);
        Some(Drift {
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
            self.ceiling = self.ceiling.or(Some(Ceiling::remembered(at)));
        }
        self.last
    }

    /// Calls sent before the last shrink are the rest of the wave that caused it.
    fn step_down(&mut self, now: Nanos, sent: Nanos, to: Level) -> Reaction {
        if self.shrunk.is_some_and(|shrunk| sent <= shrunk) {
            return Reaction::SameWave;
        }
        let before = self.ceiling.take();
        self.ceiling = Some(Ceiling::hit(now, self.level, before, self.window()));
        self.shrunk = Some(now);
        if to == self.level {
            // As low as refusals alone go: it is not the rate that is wrong.
            return Reaction::Unmoved;
        }
        self.lower(now, to);
        Reaction::Shrunk
    }

    fn hear(&mut self, now: Nanos, told: Rate) -> Reaction {
        let heard = Told::at(now, told, self.configured);
        self.told = Some(heard);
        let told = heard.over(self.configured);
        if told >= self.level {
            return Reaction::Unmoved;
        }
        self.clean_since = now;
        self.wave = None;
        self.shrunk = Some(now);
        self.lower(now, told);
        Reaction::Shrunk
    }

    fn lower(&mut self, now: Nanos, to: Level) {
        self.level = to;
        if self.level < Level::of(self.configured) && self.drifting.is_none() {
            self.drifting = Some(Drifting {
                since: now,
                before: Duration::ZERO,
            });
        }
    }

    fn hold(&mut self, until: Nanos) {
        self.held_until = self.held_until.max(until);
    }

    fn throttled(&mut self, now: Nanos, sent: Nanos, admitted: u64) -> Reaction {
        let refused_at = self.level;
        let reaction = self.step_down(now, sent, self.shrunk_to(admitted));
        match (reaction, self.wave) {
            (Reaction::Shrunk, _) => {
                self.wave = Some(Wave {
                    since: now,
                    refused_at,
                    admitted,
                });
                self.place_ceiling(refused_at, admitted);
                reaction
            }
            (Reaction::SameWave, Some(wave)) => self.count_on(now, wave, admitted),
            (_, _) => reaction,
        }
    }

    /// The first refusal of a wave may overtake what was let through before it, so that there was too
    /// little to count by. Another of the same wave then tells more.
    fn count_on(&mut self, now: Nanos, wave: Wave, admitted: u64) -> Reaction {
        let counted = wave.refused_at.shrunk_to(admitted, self.floor());
        let news = !self.is_telling(wave.admitted) && self.is_telling(admitted);
        if !news || counted >= self.level {
            return Reaction::SameWave;
        }
        self.lower(now, counted);
        self.wave = Some(Wave { admitted, ..wave });
        self.place_ceiling(wave.refused_at, admitted);
        Reaction::Shrunk
    }

    /// Whether so much was let through that it can be counted by.
    fn is_telling(&self, admitted: u64) -> bool {
        admitted >= Self::TELLING && self.configured.per() <= LONGEST_COUNTED
    }

    /// What one refusal leaves. It may mislead, so it takes three quarters at most, unless enough was
    /// let through to count by: then the count itself is the limit that the server has. A refusal that
    /// was looked for, where the last one came, says nothing new.
    fn shrunk_to(&self, admitted: u64) -> Level {
        let tried = |ceiling: Ceiling| ceiling.is_tried_at(self.last, self.level);
        if self.ceiling.is_some_and(tried) {
            return self.level.eased().max(self.floor()).min(self.level);
        }
        let least = if self.is_telling(admitted) {
            self.floor()
        } else {
            self.floor().max(self.level.quarter())
        };
        self.level.shrunk_to(admitted, least)
    }

    /// What got through of a wave that was refused, and still a step below where it was.
    fn recount(&mut self, wave: Wave, admitted: u64) {
        let most = wave.refused_at.eased().min(self.top());
        let counted = Level::units(admitted).min(most);
        if counted > self.level {
            self.level = counted;
            self.place_ceiling(wave.refused_at, admitted);
        }
    }

    /// The ceiling is where the refusal came, unless what was let through can be counted by and is far
    /// below that: then it is there, for nothing between the two was ever let through.
    fn place_ceiling(&mut self, refused_at: Level, admitted: u64) {
        let counted = self.is_telling(admitted)
            && self.level == Level::units(admitted)
            && self.level.is_far_below(refused_at);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.at = if counted { self.level } else { refused_at };
        }
    }

    fn grown(&self, now: Nanos) -> Level {
        match self.ceiling {
            None if self.mode == Adaptive::Learn => self.level.doubled(),
            Some(ceiling) if ceiling.holds(now, self.level) => self.level,
            Some(ceiling) if self.level.is_near(ceiling.at) => self.level.plus(CAREFUL_STEP),
            _ => self.level.plus(STEP),
        }
    }

    fn window(&self) -> Duration {
        self.configured.per().max(SHORTEST_WINDOW)
    }

    /// The highest that growth may reach.
    fn top(&self) -> Level {
        let configured = match self.mode {
            Adaptive::Learn => Level::MAX,
            Adaptive::Off | Adaptive::Guard => Level::of(self.configured),
        };
        self.told.map_or(configured, |told| {
            configured.min(told.over(self.configured))
        })
    }

    /// Refusals alone never lower the rate below this: slower, there would be too few calls to
    /// learn from that the server has healed.
    const fn floor(&self) -> Level {
        Level::of(self.configured).share(FLOOR)
    }
}

/// The limit in effect is not the one that was configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drift {
    /// What was configured.
    pub configured: Rate,
    /// What the evidence allows.
    pub evidence: Rate,
    /// For how long they have differed, restarts included.
    pub lasting: Duration,
}

impl fmt::Display for Drift {
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
/// Over a longer span, what stopped us may be another limit with a shorter window: a burst that is cut
/// short says nothing about an hour.
const LONGEST_COUNTED: Duration = SHORTEST_WINDOW;
