//! What one caller has used of one limit.
//!
//! Each kind in its plainest form: a log of what happened, a window and a sum, a level. A window is
//! half-open: what was used at `t` counts up to, and not at, `t` plus the window.

use std::collections::VecDeque;
use std::time::Duration;

use outflow_core::{ClockPair, LimitKind, Nanos};

use crate::quota::Quota;

/// The state of one limit for one caller.
#[derive(Debug)]
pub(crate) enum Counter {
    /// The sum is kept beside the log: adding it up for every request would be the server's whole
    /// work at high limits.
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

/// When something fits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fits {
    Now,
    At(Nanos),
    Never,
}

/// How a limit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    pub(crate) used: u64,
    /// Until all of it is there again if nobody asks for more.
    pub(crate) resets_in: Duration,
}

impl Counter {
    pub(crate) fn new(quota: &Quota, now: Nanos) -> Self {
        match quota.kind {
            LimitKind::Sliding => Self::Sliding {
                log: VecDeque::new(),
                used: 0,
            },
            LimitKind::Fixed => Self::Fixed {
                opened: None,
                used: 0,
            },
            LimitKind::Aligned => Self::Aligned { window: 0, used: 0 },
            LimitKind::Bucket { burst } => Self::Bucket {
                level: u128::from(burst) * per(quota),
                at: now,
            },
        }
    }

    /// When so many units fit, given what was used before.
    pub(crate) fn fits(&mut self, quota: &Quota, moment: ClockPair, units: u64) -> Fits {
        if units > quota.capacity() {
            return Fits::Never;
        }
        self.forget(quota, moment);
        let room = quota.capacity() - units;
        match self {
            Self::Sliding { used, .. } | Self::Fixed { used, .. } | Self::Aligned { used, .. }
                if *used <= room =>
            {
                Fits::Now
            }
            Self::Sliding { log, used } => earliest(log, *used, room, quota.window()),
            Self::Fixed { .. } | Self::Aligned { .. } => Fits::At(
                moment
                    .now
                    .saturating_add(self.until_window_ends(quota, moment)),
            ),
            Self::Bucket { level, .. } => {
                let missing = (u128::from(units) * per(quota)).saturating_sub(*level);
                match missing.div_ceil(u128::from(quota.rate.quantity())) {
                    0 => Fits::Now,
                    wait => Fits::At(moment.now.saturating_add(nanos(wait))),
                }
            }
        }
    }

    /// Uses so many units now.
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

    /// How much is used, and how long until nothing is.
    pub(crate) fn level(&mut self, quota: &Quota, moment: ClockPair) -> Level {
        self.forget(quota, moment);
        match self {
            Self::Sliding { log, used } => Level {
                used: *used,
                resets_in: log.back().map_or(Duration::ZERO, |(at, _)| {
                    at.saturating_add(quota.window()).since(moment.now)
                }),
            },
            Self::Fixed { used, .. } | Self::Aligned { used, .. } => Level {
                used: *used,
                resets_in: self.until_window_ends(quota, moment),
            },
            Self::Bucket { level, .. } => {
                let full = u128::from(quota.capacity()) * per(quota);
                let whole = u64::try_from(*level / per(quota)).unwrap_or(u64::MAX);
                Level {
                    used: quota.capacity().saturating_sub(whole),
                    resets_in: nanos(
                        full.saturating_sub(*level)
                            .div_ceil(u128::from(quota.rate.quantity())),
                    ),
                }
            }
        }
    }

    /// Lets go of what no longer counts.
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
            Self::Fixed {
                opened: Some(at), ..
            } => at.saturating_add(quota.window()).since(moment.now),
            Self::Aligned { .. } => {
                nanos(per(quota) - moment.wall.as_duration().as_nanos() % per(quota))
            }
            Self::Fixed { opened: None, .. } | Self::Sliding { .. } | Self::Bucket { .. } => {
                Duration::ZERO
            }
        }
    }
}

/// The first instant at which at most `room` of the log still counts.
fn earliest(log: &VecDeque<(Nanos, u64)>, mut used: u64, room: u64, window: Duration) -> Fits {
    let mut fits = Fits::Now;
    for (at, units) in log {
        if used <= room {
            break;
        }
        used -= units;
        fits = Fits::At(at.saturating_add(window));
    }
    fits
}

fn per(quota: &Quota) -> u128 {
    quota.window().as_nanos()
}

fn nanos(span: u128) -> Duration {
    Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX))
}
