//! A limit that a server told in a header, for as long as it is believed.
//!
//! A server that tells its limit does so with every response, so one that no longer does has
//! changed its mind, or it was another server behind the same name. Believing a header for ever
//! would leave a client slow until its restart. It says nothing about refusals.

use core::time::Duration;

use super::fine_rate::FineRate;
use crate::{Nanos, Rate};

#[derive(Clone, Copy, Debug)]
pub(super) struct AdvertisedLimit {
    pub(super) rate: Rate,
    /// Since when it has been told without another in between.
    pub(super) since: Nanos,
    /// Believed before this instant.
    pub(super) until: Nanos,
}

impl AdvertisedLimit {
    /// Heard at `now`, where `configured` was thought to be the limit.
    pub(super) fn new(now: Nanos, rate: Rate, configured: Rate) -> Self {
        let windows = rate.per().max(configured.per()).saturating_mul(WINDOWS);
        Self {
            rate,
            since: now,
            until: now.saturating_add(windows.max(AT_LEAST)),
        }
    }

    /// The same, if this is only what was told before.
    pub(super) fn after(self, before: Option<Self>) -> Self {
        let repeated = before.filter(|before| before.rate == self.rate);
        let since = repeated.map_or(self.since, |before| before.since);
        Self { since, ..self }
    }

    /// Over the span of the configured rate.
    pub(super) fn over(self, configured: Rate) -> FineRate {
        FineRate::from_rate(self.rate).over(self.rate, configured)
    }
}

/// Some servers tell their limit only with the first call of a window, or only when little is left;
/// ten windows without a word are more than chance.
const WINDOWS: u32 = 10;
/// A pause in the traffic is no change of mind, and ten windows of a second are soon over.
const AT_LEAST: Duration = Duration::from_mins(10);
