//! Ours: the whole door, as a program opens it, beside limiter, breaker and bulkhead of the others.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outflow::{AttemptResult, Events, Permit, Rules, SystemClock, Target, Upstream};
use outflow_core::{Accounting, HealthConfig, HealthSettings, Limit, Rate};

/// An open door and what is asked of it.
pub(crate) struct OursDoor {
    door: Upstream,
    target: Target,
}

impl OursDoor {
    /// One exact limit counted as calls arrive, the usual health, and so many in flight; `None` if a
    /// number makes no sense. The limit has no guard: it is a thousand times a window of one
    /// microsecond and would turn an allowing limit into a refusing one.
    pub(crate) fn open(limit: u32, window: Duration, in_flight: u32) -> Option<Self> {
        let settings = HealthSettings {
            concurrency: in_flight,
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
        let door = Upstream::new("bench", rules, timer, Events::new()).ok()?;
        let target = door.route(&http::Method::GET, "/");
        Some(Self { door, target })
    }

    /// Asks without waiting.
    #[inline]
    pub(crate) fn at_once(&self) -> Option<Permit> {
        self.door.try_acquire(self.target).ok()
    }

    /// Asks as those do who would wait.
    #[inline]
    pub(crate) fn polled(&self) -> Option<Permit> {
        let context = &mut Context::from_waker(Waker::noop());
        match pin!(self.door.acquire(self.target)).poll(context) {
            Poll::Ready(permit) => permit.ok(),
            Poll::Pending => None,
        }
    }

    /// The call went and came back well; false if there was none.
    #[inline]
    pub(crate) fn went(permit: Option<Permit>) -> bool {
        let Some(mut permit) = permit else {
            return false;
        };
        permit.sending();
        permit.settle(AttemptResult::status(200));
        true
    }
}
