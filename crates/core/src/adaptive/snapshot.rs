//! Adaptive state that survives a restart.
//!
//! A snapshot holds speeds, not clock readings of a process that has ended. The learned rate
//! survives; the time it rested does not.

use core::time::Duration;

use super::advertised_limit::AdvertisedLimit;
use super::fine_rate::FineRate;
use super::upper_bound::UpperBound;
use super::{AdaptiveLimit, AdaptiveMode, DriftSpan};
use crate::{Nanos, Rate};

/// Adaptive state as plain data, for a caller that stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveSnapshot {
    /// The configured rate at the time of learning.
    pub configured: Rate,
    /// The effective rate, in millionths of a unit per configured span.
    pub level: u128,
    /// Rate of the last throttle, in the same unit.
    pub upper_bound: Option<u128>,
    /// The limit that the server last advertised.
    pub advertised: Option<Rate>,
    /// Remaining time for which the advertised limit is believed.
    pub advertised_for: Duration,
    /// Remaining time of a ban or a spent quota.
    pub held_for: Duration,
    /// Time since the effective rate has differed from the configured one.
    pub drifting_for: Option<Duration>,
}

impl AdaptiveSnapshot {
    /// Ages the snapshot by the time it was stored.
    #[must_use]
    pub fn aged(mut self, by: Duration) -> Self {
        self.advertised_for = self.advertised_for.saturating_sub(by);
        self.held_for = self.held_for.saturating_sub(by);
        self.drifting_for = self.drifting_for.map(|span| span.saturating_add(by));
        self
    }
}

impl AdaptiveLimit {
    /// Returns everything worth keeping over a restart, as plain data.
    pub fn snapshot(&self, now: Nanos) -> AdaptiveSnapshot {
        let mut stored = self.clone();
        let now = stored.advance(now);
        AdaptiveSnapshot {
            configured: stored.configured,
            level: stored.level.millionths(),
            upper_bound: stored.upper_bound.map(|upper_bound| upper_bound.at.millionths()),
            advertised: stored.advertised.map(|advertised| advertised.rate),
            advertised_for: stored
                .advertised
                .map_or(Duration::ZERO, |advertised| advertised.until.since(now)),
            held_for: stored.held_until.since(now),
            drifting_for: stored.drifting.map(|d| d.before.saturating_add(now.since(d.since))),
        }
    }

    /// Continues from a snapshot, perhaps under another configuration: the learned rate is a speed
    /// and stays one.
    pub fn restore(mode: AdaptiveMode, configured: Rate, snapshot: &AdaptiveSnapshot, now: Nanos) -> Self {
        let mut learned = Self::new(mode, configured, now);
        if mode == AdaptiveMode::Off {
            return learned;
        }
        let moved = |level| FineRate::from_millionths(level).over(snapshot.configured, configured);
        let drifted = snapshot.drifting_for.is_some() || mode == AdaptiveMode::Learn;
        learned.advertised = snapshot.advertised.map(|rate| AdvertisedLimit {
            rate,
            since: now,
            until: now.saturating_add(snapshot.advertised_for),
        });
        learned.upper_bound = snapshot.upper_bound.map(|at| UpperBound::remembered(moved(at), now));
        learned.advance(now);
        learned.held_until = now.saturating_add(snapshot.held_for);
        if drifted {
            learned.level = moved(snapshot.level);
        }
        learned.level = learned.level.min(learned.top());
        if learned.level < FineRate::from_rate(configured) {
            learned.drifting = Some(DriftSpan {
                since: now,
                before: snapshot.drifting_for.unwrap_or_default(),
            });
        }
        learned
    }
}
