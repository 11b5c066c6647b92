//! What was learned, kept over a restart.
//!
//! A speed and the places it came from, not the clock readings of a process that has ended: what was
//! learned holds on, how long it was rested does not.

use core::time::Duration;

use super::advertised_limit::AdvertisedLimit;
use super::fine_rate::FineRate;
use super::upper_bound::UpperBound;
use super::{AdaptiveLimit, AdaptiveMode, DriftSpan};
use crate::{Nanos, Rate};

/// What was learned, as plain data for whoever keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveSnapshot {
    /// The configuration under which it was learned.
    pub configured: Rate,
    /// The rate in effect, in millionths of a unit per configured span.
    pub level: u128,
    /// Where the last refusal came, likewise.
    pub ceiling: Option<u128>,
    /// What the server last told as its limit.
    pub told: Option<Rate>,
    /// How much longer that is believed.
    pub told_for: Duration,
    /// How much longer a ban or a spent quota lasts.
    pub held_for: Duration,
    /// How long the rate has differed from the configured one.
    pub drifting_for: Option<Duration>,
}

impl AdaptiveSnapshot {
    /// The same after lying on disk for so long.
    #[must_use]
    pub fn aged(mut self, by: Duration) -> Self {
        self.told_for = self.told_for.saturating_sub(by);
        self.held_for = self.held_for.saturating_sub(by);
        self.drifting_for = self.drifting_for.map(|span| span.saturating_add(by));
        self
    }
}

impl AdaptiveLimit {
    /// All that is worth keeping over a restart, as plain data.
    pub fn snapshot(&self, now: Nanos) -> AdaptiveSnapshot {
        let mut kept = self.clone();
        let now = kept.advance(now);
        AdaptiveSnapshot {
            configured: kept.configured,
            level: kept.level.millionths(),
            ceiling: kept.ceiling.map(|ceiling| ceiling.at.millionths()),
            told: kept.told.map(|told| told.rate),
            told_for: kept
                .told
                .map_or(Duration::ZERO, |told| told.until.since(now)),
            held_for: kept.held_until.since(now),
            drifting_for: kept
                .drifting
                .map(|d| d.before.saturating_add(now.since(d.since))),
        }
    }

    /// Goes on from a snapshot, perhaps with another configuration: what was learned is a speed and
    /// is kept as one.
    pub fn restore(
        mode: AdaptiveMode,
        configured: Rate,
        snapshot: &AdaptiveSnapshot,
        now: Nanos,
    ) -> Self {
        let mut learned = Self::new(mode, configured, now);
        if mode == AdaptiveMode::Off {
            return learned;
        }
        let moved = |level| FineRate::from_millionths(level).over(snapshot.configured, configured);
        let drifted = snapshot.drifting_for.is_some() || mode == AdaptiveMode::Learn;
        learned.told = snapshot.told.map(|rate| AdvertisedLimit {
            rate,
            since: now,
            until: now.saturating_add(snapshot.told_for),
        });
        learned.ceiling = snapshot.ceiling.map(moved).map(UpperBound::remembered);
        learned.advance(now);
        learned.held_until = now.saturating_add(snapshot.held_for);
        learned.shrunk = Some(now);
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
