//! Ours: the whole `Upstream`, compared with limiter, breaker and bulkhead of the others.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outflow::{AttemptResult, Events, Permit, Rules, SystemClock, Target, Upstream};
use outflow_core::{Accounting, HealthConfig, HealthSettings, Limit, Rate};

/// An upstream and the acquired target.
pub(crate) struct OursUpstream {
    upstream: Upstream,
    target: Target,
}

impl OursUpstream {
    /// Creates an upstream with one exact limit counted on arrival, the default health, and this many in
    /// flight; `None` if a number is invalid. The limit has no guard: a guard is a thousand times a window of
    /// one microsecond and would turn an allowing limit into a refusing one.
    pub(crate) fn new(limit: u32, window: Duration, in_flight: u32) -> Option<Self> {
        let settings = HealthSettings {
            concurrency: Some(in_flight),
            ..HealthSettings::ADAPTIVE
        };
        let limit = Limit::sliding(Rate::new(u64::from(limit), window).ok()?)
            .counted(Accounting::Tight)
            .guarded(Duration::ZERO);
        let rules = Rules {
            limits: vec![limit],
            health: HealthConfig::new(settings).ok()?,
            ..Rules::unlimited()
        };
        let timer = Arc::new(SystemClock::new());
        let upstream = Upstream::new("bench", rules, timer, Events::new()).ok()?;
        let target = upstream.route(&http::Method::GET, "/");
        Some(Self { upstream, target })
    }

    /// Acquires a permit without waiting.
    #[inline]
    pub(crate) fn try_acquire(&self) -> Option<Permit> {
        self.upstream.try_acquire(self.target).ok()
    }

    /// Acquires a permit like a caller that would wait.
    #[inline]
    pub(crate) fn acquire_polled(&self) -> Option<Permit> {
        let context = &mut Context::from_waker(Waker::noop());
        match pin!(self.upstream.acquire(self.target)).poll(context) {
            Poll::Ready(permit) => permit.ok(),
            Poll::Pending => None,
        }
    }

    /// Sends and settles a successful call; returns false without a permit.
    #[inline]
    pub(crate) fn settle(permit: Option<Permit>) -> bool {
        let Some(mut permit) = permit else {
            return false;
        };
        permit.sending();
        permit.settle(AttemptResult::status(200));
        true
    }
}
