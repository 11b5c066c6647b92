//! Usage of one limit by one caller.
//!
//! Each kind in its simplest form: a log, a window and a sum, a level. A window is half-open: usage
//! at `t` counts up to, and not at, `t` plus the window.

use std::collections::VecDeque;
use std::time::Duration;

use outflow_core::{ClockPair, LimitKind, Nanos};

use crate::quota::Quota;

/// State of one limit for one caller.
#[derive(Debug)]
pub(crate) enum Counter {
    /// The sum is stored next to the log: adding it up for every request would dominate the
    /// server's work at high limits.
    Sliding {
        log: VecDeque<(Nanos, u64)>,
        used: u64,
    },
    Fixed {
        opened: Option<Nanos>,
        used: u64,
    },
    Aligned {
        window: u128,
        used: u64,
    },
    /// The level is in units times nanoseconds of the span, so that no refill is ever rounded.
    Bucket {
        level: u128,
        at: Nanos,
    },
}

/// Time at which units fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FitTime {
    Now,
    At(Nanos),
    Never,
}

/// Usage of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsageLevel {
    pub(crate) used: u64,
    /// Time until the whole quota is back without further requests.
    pub(crate) resets_in: Duration,
}

impl Counter {
    pub(crate) fn new(quota: &Quota, now: Nanos) -> Self {
        match quota.kind {
            LimitKind::Sliding => Self::Sliding {
                log: VecDeque::new(),
                used: 0,
            },
            LimitKind::Fixed => Self::Fixed { opened: None, used: 0 },
            LimitKind::Aligned => Self::Aligned { window: 0, used: 0 },
            LimitKind::Bucket { burst } => Self::Bucket {
                level: u128::from(burst) * per(quota),
                at: now,
            },
        }
    }

    /// Returns the time at which the units fit, given the usage so far.
    pub(crate) fn fits(&mut self, quota: &Quota, moment: ClockPair, units: u64) -> FitTime {
        if units > quota.capacity() {
            return FitTime::Never;
        }
        self.forget(quota, moment);
        let quota_left = quota.capacity() - units;
        match self {
            Self::Sliding { used, .. } | Self::Fixed { used, .. } | Self::Aligned { used, .. }
                if *used <= quota_left =>
            {
                FitTime::Now
            }
            Self::Sliding { log, used } => earliest(log, *used, quota_left, quota.window()),
            Self::Fixed { .. } | Self::Aligned { .. } => {
                FitTime::At(moment.now.saturating_add(self.until_window_ends(quota, moment)))
            }
            Self::Bucket { level, .. } => {
                let missing = (u128::from(units) * per(quota)).saturating_sub(*level);
                match missing.div_ceil(u128::from(quota.rate.quantity())) {
                    0 => FitTime::Now,
                    wait => FitTime::At(moment.now.saturating_add(nanos(wait))),
                }
            }
        }
    }

    /// Charges units now.
    pub(crate) fn charge(&mut self, quota: &Quota, moment: ClockPair, units: u64) {
        self.forget(quota, moment);
        match self {
            Self::Sliding { log, used } => {
                log.push_back((moment.now, units));
                *used += units;
            }
            Self::Fixed { opened, used } => {
                opened.get_or_insert(moment.now);
                *used = used.saturating_add(units);
            }
            Self::Aligned { used, .. } => *used = used.saturating_add(units),
            Self::Bucket { level, .. } => {
                *level = level.saturating_sub(u128::from(units) * per(quota));
            }
        }
    }

    /// Returns the usage, and the time until it is zero.
    pub(crate) fn level(&mut self, quota: &Quota, moment: ClockPair) -> UsageLevel {
        self.forget(quota, moment);
        match self {
            Self::Sliding { log, used } => UsageLevel {
                used: *used,
                resets_in: log.back().map_or(Duration::ZERO, |(at, _)| {
                    at.saturating_add(quota.window()).since(moment.now)
                }),
            },
            Self::Fixed { used, .. } | Self::Aligned { used, .. } => UsageLevel {
                used: *used,
                resets_in: self.until_window_ends(quota, moment),
            },
            Self::Bucket { level, .. } => {
                let full = u128::from(quota.capacity()) * per(quota);
                let whole = u64::try_from(*level / per(quota)).unwrap_or(u64::MAX);
                UsageLevel {
                    used: quota.capacity().saturating_sub(whole),
                    resets_in: nanos(full.saturating_sub(*level).div_ceil(u128::from(quota.rate.quantity()))),
                }
            }
        }
    }

    /// Drops usage that no longer counts.
    fn forget(&mut self, quota: &Quota, moment: ClockPair) {
        let window = quota.window();
        match self {
            Self::Sliding { log, used } => {
                let gone = |(at, _): &mut (Nanos, u64)| at.saturating_add(window) <= moment.now;
                while let Some((_, units)) = log.pop_front_if(gone) {
                    *used -= units;
                }
            }
            Self::Fixed { opened, used } => {
                if opened.is_some_and(|at| at.saturating_add(window) <= moment.now) {
                    (*opened, *used) = (None, 0);
                }
            }
            Self::Aligned { window, used } => {
                let current = moment.wall.as_duration().as_nanos() / per(quota);
                if current != *window {
                    (*window, *used) = (current, 0);
                }
            }
            Self::Bucket { level, at } => {
                let refill = moment.now.since(*at).as_nanos() * u128::from(quota.rate.quantity());
                let full = u128::from(quota.capacity()) * per(quota);
                *level = level.saturating_add(refill).min(full);
                *at = moment.now;
            }
        }
    }

    fn until_window_ends(&self, quota: &Quota, moment: ClockPair) -> Duration {
        match self {
            Self::Fixed { opened: Some(at), .. } => at.saturating_add(quota.window()).since(moment.now),
            Self::Aligned { .. } => nanos(per(quota) - moment.wall.as_duration().as_nanos() % per(quota)),
            Self::Fixed { opened: None, .. } | Self::Sliding { .. } | Self::Bucket { .. } => Duration::ZERO,
        }
    }
}

/// Returns the first instant at which at most `quota` of the log still counts.
fn earliest(log: &VecDeque<(Nanos, u64)>, mut used: u64, quota_left: u64, window: Duration) -> FitTime {
    let mut fits = FitTime::Now;
    for (at, units) in log {
        if used <= quota_left {
            break;
        }
        used -= units;
        fits = FitTime::At(at.saturating_add(window));
    }
    fits
}

fn per(quota: &Quota) -> u128 {
    quota.window().as_nanos()
}

fn nanos(span: u128) -> Duration {
    Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX))
}
