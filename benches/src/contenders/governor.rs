//! governor: GCRA in one atomic word, on the OS clock and on its own default clock.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// One limit on the OS clock.
pub(crate) type OnOsClock = Direct<MonotonicClock>;
/// One limit on governor's default clock, a reader of the CPU's counter.
pub(crate) type OnDefaultClock = Direct<DefaultClock>;
/// A limit per name, on the OS clock.
pub(crate) type Keyed =
    RateLimiter<String, DashMapStateStore<String>, MonotonicClock, NoOpMiddleware<<MonotonicClock as Clock>::Instant>>;

type Direct<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Returns a quota of `limit` per `window`, all of which may start at once.
pub(crate) fn quota(limit: u32, window: Duration) -> Quota {
    let limit = NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN);
    Quota::with_period(window / limit.get())
        .unwrap_or_else(|| Quota::per_second(limit))
        .allow_burst(limit)
}

pub(crate) fn on_os_clock(quota: Quota) -> OnOsClock {
    RateLimiter::direct_with_clock(quota, MonotonicClock)
}

pub(crate) fn on_default_clock(quota: Quota) -> OnDefaultClock {
    RateLimiter::direct_with_clock(quota, DefaultClock::default())
}

pub(crate) fn keyed(quota: Quota) -> Keyed {
    RateLimiter::new(quota, DashMapStateStore::default(), MonotonicClock)
}
