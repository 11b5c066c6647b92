//! Bans for callers that continue after refusals, longer each time.
//!
//! A caller collects a strike with every refused request and with every one sent while banned. At
//! the configured number of strikes it is banned, and each further ban is a multiple of the last. A
//! request that passes clears the strikes, not the number of earlier bans.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::Nanos;

/// Conditions and duration of bans.
///
/// ```
/// use std::time::Duration;
/// use outflow_mock::Bans;
///
/// let bans = Bans::after(5).lasting(Duration::from_secs(120)).growing_by(2);
/// # let _ = bans;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bans {
    strikes: u32,
    first: Duration,
    factor: u32,
    longest: Duration,
}

impl Bans {
    /// Bans after this many refused requests in a row: two minutes, doubled each time, up to three
    /// days.
    pub fn after(strikes: u32) -> Self {
        Self {
            strikes: strikes.max(1),
            first: Duration::from_mins(2),
            factor: 2,
            longest: Duration::from_hours(72),
        }
    }

    /// Sets the duration of the first ban.
    #[must_use]
    pub fn lasting(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// Sets the growth factor of each further ban.
    #[must_use]
    pub fn growing_by(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the maximum duration.
    #[must_use]
    pub fn at_most(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    fn span(&self, earlier: u32) -> Duration {
        let grown = self.factor.saturating_pow(earlier);
        self.first.saturating_mul(grown).min(self.longest)
    }
}

/// Banned callers.
#[derive(Debug, Default)]
pub(crate) struct BanList {
    rule: Option<Bans>,
    offenders: HashMap<Arc<str>, Offender>,
}

#[derive(Debug, Default)]
struct Offender {
    strikes: u32,
    bans: u32,
    until: Nanos,
}

impl BanList {
    pub(crate) fn new(rule: Option<Bans>) -> Self {
        Self {
            rule,
            offenders: HashMap::new(),
        }
    }

    /// Returns the end of a caller's ban. The request itself counts as a strike.
    pub(crate) fn banned(&mut self, caller: &Arc<str>, now: Nanos) -> Option<Nanos> {
        if self.offenders.get(caller)?.until <= now {
            return None;
        }
        self.strike(caller, now);
        self.offenders.get(caller).map(|offender| offender.until)
    }

    /// Records a refusal; returns the end of the ban if it causes one.
    pub(crate) fn strike(&mut self, caller: &Arc<str>, now: Nanos) -> Option<Nanos> {
        let rule = self.rule?;
        let offender = self.offenders.entry(Arc::clone(caller)).or_default();
        offender.strikes += 1;
        if offender.strikes < rule.strikes {
            return None;
        }
        offender.strikes = 0;
        offender.until = now.saturating_add(rule.span(offender.bans));
        offender.bans += 1;
        Some(offender.until)
    }

    /// Records that a caller's request passed.
    pub(crate) fn passed(&mut self, caller: &Arc<str>) {
        if let Some(offender) = self.offenders.get_mut(caller) {
            offender.strikes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two strikes, 10 s, times 3, at most 50 s: the bans last 10, 30 and 50 s.
    #[test]
    fn bans_grow_for_callers_that_continue() {
        let secs = Duration::from_secs;
        let rule = Bans::after(2).lasting(secs(10)).growing_by(3).at_most(secs(50));
        let mut list = BanList::new(Some(rule));
        let caller: Arc<str> = "k".into();
        let at = Nanos::from_secs;
        assert_eq!(list.strike(&caller, at(0)), None);
        list.passed(&caller);
        assert_eq!(list.strike(&caller, at(1)), None, "a pass takes strikes away");
        assert_eq!(list.strike(&caller, at(1)), Some(at(11)));
        assert_eq!(list.banned(&caller, at(10)), Some(at(11)));
        assert_eq!(list.banned(&caller, at(10)), Some(at(40)), "it went on");
        assert_eq!(list.banned(&caller, at(40)), None);
        assert_eq!(list.strike(&caller, at(40)), None);
        assert_eq!(list.strike(&caller, at(40)), Some(at(90)));
        assert_eq!(list.banned(&"other".into(), at(50)), None);
    }
}
