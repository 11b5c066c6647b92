//! A limit that a server advertised in a header, for as long as it is believed.
//!
//! A server that advertises its limit does so with every response. One that stops has changed its
//! mind, or another server answers behind the same name. Believing a header for ever would leave a
//! client slow until its restart. This file does not judge throttles.

use core::time::Duration;

use super::fine_rate::FineRate;
use crate::{Nanos, Rate};

#[derive(Clone, Copy, Debug)]
pub(super) struct AdvertisedLimit {
    pub(super) rate: Rate,
    /// Start of the period in which the server advertised this limit and no other.
    pub(super) since: Nanos,
    /// The limit is believed before this instant.
    pub(super) until: Nanos,
}

impl AdvertisedLimit {
    /// Builds a limit that was read at `now`, while `configured` was assumed.
    pub(super) fn new(now: Nanos, rate: Rate, configured: Rate) -> Self {
        let windows = rate.per().max(configured.per()).saturating_mul(WINDOWS);
        Self {
            rate,
            since: now,
            until: now.saturating_add(windows.max(MIN_BELIEF)),
        }
    }

    /// Keeps the earlier start if `before` advertised the same rate.
    pub(super) fn after(self, before: Option<Self>) -> Self {
        let repeated = before.filter(|before| before.rate == self.rate);
        let since = repeated.map_or(self.since, |before| before.since);
        Self { since, ..self }
    }

    /// Returns the rate over the span of the configured rate.
    pub(super) fn over(self, configured: Rate) -> FineRate {
        FineRate::from_rate(self.rate).over(self.rate, configured)
    }
}

/// Some servers advertise their limit only with the first call of a window, or when little is left.
/// Ten windows without a header are more than chance.
const WINDOWS: u32 = 10;
/// A pause in traffic is no change of mind, and ten windows of a second are short.
const MIN_BELIEF: Duration = Duration::from_mins(10);
