//! Limiters that decide when a call is sent. All of them run in virtual time.
//!
//! governor's own waiting sleeps in real time, so it runs in a loop with the runtime's sleep, and its clock
//! reads the runtime's.

use std::future::Future;
use std::num::NonZeroU32;
use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos as GovernorNanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use outflow::{AttemptResult, Events, Permit, Refusal, Rules, SharedTimer, SystemClock, Target, Upstream};
use outflow_core::{Accounting, HealthConfig, HealthSettings, Limit};
use outflow_testkit::VirtualTime;
use throttle_net::{SlidingWindowLog, TokioClock};
use tokio::time::{Instant, sleep};

use super::cell::Cell;
use super::run::{self, Trip};
use crate::figure::Goal;

/// A limiter that grants permits, and learns the results of calls if it uses them.
pub(crate) trait Limiter: Clone + Send + Sync + 'static {
    /// Permit to send; ours reports through it.
    type Leave: Send + 'static;

    /// Waits for a permit.
    fn wait(&self) -> impl Future<Output = Self::Leave> + Send;

    /// Reports that the call is about to be sent.
    fn sending(_leave: &mut Self::Leave) {}

    /// Reports the response.
    fn answered(_leave: Self::Leave, _status: u16) {}
}

/// One contender of any type.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) short: &'static str,
    /// Goal of its goodput, as a share of the oracle's.
    pub(crate) goodput: Goal,
    /// Share of its own bound that it reached.
    pub(crate) of_bound: fn(&Trip) -> f64,
    pub(crate) run: fn(Cell, u64) -> Option<Trip>,
    pub(crate) run_for_real: fn(Cell, u64) -> Option<Trip>,
}

/// Returns all of them, ours first.
pub(crate) fn all() -> Vec<Entrant> {
    let peer = |name, run| Entrant {
        name,
        short: "",
        goodput: Goal::ShownHigher,
        of_bound: |trip| trip.of_safe,
        run,
        run_for_real: |_, _| None,
    };
    vec![
        Entrant {
            name: "ours, safe",
            short: "safe",
            goodput: Goal::ShownHigher,
            of_bound: |trip| trip.of_safe,
            run: |cell, windows| run::virtually(cell, windows, Ours::safe),
            run_for_real: |cell, windows| run::really(cell, windows, Ours::safe),
        },
        Entrant {
            name: "ours, tight",
            short: "tight",
            goodput: Goal::AtLeast(0.98),
            of_bound: |trip| trip.of_tight,
            run: |cell, windows| run::virtually(cell, windows, Ours::tight),
            run_for_real: |cell, windows| run::really(cell, windows, Ours::tight),
        },
        peer("governor", |cell, windows| {
            run::virtually(cell, windows, |cell, _| governor_of(cell, cell.quantity))
        }),
        peer("governor, burst 1", |cell, windows| {
            run::virtually(cell, windows, |cell, _| governor_of(cell, 1))
        }),
        peer("leaky-bucket", |cell, windows| {
            run::virtually(cell, windows, |cell, _| leaky(cell))
        }),
        peer("plain log by sending (throttle-net)", |cell, windows| {
            run::virtually(cell, windows, |cell, _| log(cell))
        }),
    ]
}

/// `Upstream`.
#[derive(Clone)]
pub(crate) struct Ours {
    upstream: Upstream,
    target: Target,
}

impl Ours {
    pub(crate) fn safe(cell: Cell, time: Time) -> Option<Self> {
        Self::counting(cell, time, Accounting::Safe)
    }

    pub(crate) fn tight(cell: Cell, time: Time) -> Option<Self> {
        Self::counting(cell, time, Accounting::Tight)
    }

    fn counting(cell: Cell, time: Time, accounting: Accounting) -> Option<Self> {
        // Only the count of arrivals is judged: no slot and no deadline may hold a call back.
        let settings = HealthSettings {
            concurrency: Some(u32::MAX),
            ..HealthSettings::ADAPTIVE
        };
        let rules = Rules {
            limits: vec![Limit::sliding(cell.rate()?).counted(accounting)],
            health: HealthConfig::new(settings).ok()?,
            // A call waits for its window, however long the queue is.
            max_wait: Duration::from_hours(24),
            ..Rules::unlimited()
        };
        let upstream = Upstream::new("strict", rules, time.timer(), Events::new()).ok()?;
        let target = upstream.route(&http::Method::GET, "/");
        Some(Self { upstream, target })
    }
}

/// Clock of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Time {
    Virtual,
    Real,
}

impl Time {
    fn timer(self) -> SharedTimer {
        match self {
            Self::Virtual => Arc::new(VirtualTime::new()),
            Self::Real => Arc::new(SystemClock::new()),
        }
    }
}

impl Limiter for Ours {
    type Leave = Result<Permit, Refusal>;

    fn wait(&self) -> impl Future<Output = Self::Leave> + Send {
        self.upstream.acquire(self.target)
    }

    fn sending(leave: &mut Self::Leave) {
        if let Ok(permit) = leave {
            permit.sending();
        }
    }

    fn answered(leave: Self::Leave, status: u16) {
        if let Ok(permit) = leave {
            permit.settle(AttemptResult::status(status));
        }
    }
}

type Governor = RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<RuntimeInstant>>;

fn governor_of(cell: Cell, burst: u32) -> Option<Arc<Governor>> {
    let quota = Quota::per_second(NonZeroU32::new(cell.quantity)?);
    let quota = quota.allow_burst(NonZeroU32::new(burst)?);
    let clock = RuntimeClock { origin: Instant::now() };
    Some(Arc::new(RateLimiter::direct_with_clock(quota, clock)))
}

impl Limiter for Arc<Governor> {
    type Leave = ();

    async fn wait(&self) {
        while let Err(not_until) = self.check() {
            sleep(not_until.wait_time_from(self.clock().now())).await;
        }
    }
}

/// The runtime's time, for governor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimeClock {
    origin: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RuntimeInstant(u64);

impl Clock for RuntimeClock {
    type Instant = RuntimeInstant;

    fn now(&self) -> RuntimeInstant {
        RuntimeInstant(GovernorNanos::from(self.origin.elapsed()).as_u64())
    }
}

impl Add<GovernorNanos> for RuntimeInstant {
    type Output = Self;

    fn add(self, span: GovernorNanos) -> Self {
        Self(self.0 + span.as_u64())
    }
}

impl Reference for RuntimeInstant {
    fn duration_since(&self, earlier: Self) -> GovernorNanos {
        self.0.saturating_sub(earlier.0).into()
    }

    fn saturating_sub(&self, span: GovernorNanos) -> Self {
        Self(self.0.saturating_sub(span.as_u64()))
    }
}

fn leaky(cell: Cell) -> Option<Arc<leaky_bucket::RateLimiter>> {
    let quantity = usize::try_from(cell.quantity).ok()?;
    let bucket = leaky_bucket::RateLimiter::builder()
        .max(quantity)
        .initial(quantity)
        .refill(quantity)
        .interval(Cell::window())
        .build();
    Some(Arc::new(bucket))
}

impl Limiter for Arc<leaky_bucket::RateLimiter> {
    type Leave = ();

    async fn wait(&self) {
        self.acquire_one().await;
    }
}

type Log = SlidingWindowLog<TokioClock>;

#[expect(clippy::unnecessary_wraps, reason = "all contenders have the same constructor")]
fn log(cell: Cell) -> Option<Arc<Log>> {
    let log = SlidingWindowLog::new(cell.quantity, Cell::window());
    Some(Arc::new(log.with_clock(TokioClock::new())))
}

impl Limiter for Arc<Log> {
    type Leave = ();

    async fn wait(&self) {
        // It refuses only costs above its limit.
        let _passed = self.acquire().await;
    }
}
