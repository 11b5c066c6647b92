//! The contenders.
//!
//! Two kinds: contenders with a queue that wake the next task, and contenders whose tasks all sleep and retry
//! together. The second kind is skipped where it would take minutes.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::MonotonicClock;
use outflow::{AttemptResult, Events, Permit, Refusal, Rules, SystemClock, Target, Upstream};
use outflow_core::{Accounting, AdaptiveMode, HealthConfig, HealthSettings, Rate};
use throttle_net::{Queue, SlidingWindowLog};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tower::{Service as _, ServiceExt as _};

use super::case::Case;
use super::race::{self, Outcome};
use super::wait_limit::WaitLimit;
use super::{Limit, bytes, cancel};
use crate::contenders::{governor as peer, tower_resilience};
use crate::measure::Plan;
use crate::tasks;

/// One contender of any type.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) race: fn(Case) -> Option<Outcome>,
    pub(crate) under_cancel: fn() -> Option<f64>,
    pub(crate) bytes: fn(u32) -> Option<f64>,
    herd: bool,
}

impl Entrant {
    fn queue<L: WaitLimit>(name: &'static str) -> Self {
        Self {
            name,
            race: race::race::<L>,
            under_cancel: cancel::used::<L>,
            bytes: bytes::per_waiter::<L>,
            herd: false,
        }
    }

    fn herd<L: WaitLimit>(name: &'static str) -> Self {
        Self {
            herd: true,
            ..Self::queue::<L>(name)
        }
    }
}

/// Returns all of them, ours first.
pub(crate) fn all() -> Vec<Entrant> {
    vec![
        Entrant::queue::<Ours>("ours"),
        Entrant::herd::<Arc<peer::OnOsClock>>("governor until_ready, OS clock"),
        Entrant::queue::<Arc<leaky_bucket::RateLimiter>>("leaky-bucket, fair"),
        Entrant::queue::<Refilled>("tokio Semaphore + refill task"),
        Entrant::herd::<Arc<SlidingWindowLog>>("throttle-net log"),
        Entrant::herd::<Arc<Queue<SlidingWindowLog, ()>>>("throttle-net Queue over its log"),
        Entrant::herd::<Tower>("tower-resilience log (service)"),
        Entrant::queue::<Reserved>("a slot reserved, one sleep"),
    ]
}

/// Returns the contenders that finish a case in time.
pub(crate) fn able(plan: Plan, case: Case) -> Vec<Entrant> {
    let in_time = |entrant: &Entrant| !(entrant.herd && case.is_too_much_for_a_herd(plan));
    all().into_iter().filter(in_time).collect()
}

/// `Upstream`, counting from the send, with health and without a limit on calls in flight.
#[derive(Clone)]
pub(crate) struct Ours {
    upstream: Upstream,
    target: Target,
}

impl Ours {
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }
}

impl WaitLimit for Ours {
    type Permit = Result<Permit, Refusal>;

    fn new(limit: Limit) -> Self {
        let rate = Rate::new(u64::from(limit.quantity), limit.window);
        let rules = Rules {
            limits: rate
                .map(|rate| outflow_core::Limit::sliding(rate).counted(Accounting::Send))
                .into_iter()
                .collect(),
            // Only the queue is measured: nothing else may end or delay a wait.
            queue: usize::MAX,
            max_wait: LONG,
            health: unbounded(),
            adaptive: AdaptiveMode::Off,
            ..Rules::unlimited()
        };
        let timer = Arc::new(SystemClock::new());
        let upstream = Upstream::new("bench", rules, timer, Events::new());
        #[expect(clippy::expect_used, reason = "one limit cannot contradict itself")]
        let upstream = upstream.expect("one limit");
        let target = upstream.route(&http::Method::GET, "/");
        Self { upstream, target }
    }

    fn wait(&self) -> impl Future<Output = Self::Permit> + Send {
        self.upstream.acquire(self.target())
    }

    fn settle(permit: Self::Permit) -> bool {
        let Ok(mut permit) = permit else {
            return false;
        };
        permit.sending();
        permit.settle(AttemptResult::status(200));
        true
    }
}

/// Returns the default health with as many in flight as there are tasks.
fn unbounded() -> HealthConfig {
    let settings = HealthSettings {
        concurrency: Some(u32::MAX),
        ..HealthSettings::ADAPTIVE
    };
    HealthConfig::new(settings).unwrap_or_default()
}

impl WaitLimit for Arc<peer::OnOsClock> {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        let quota = peer::quota(limit.quantity, limit.window);
        Self::new(governor::RateLimiter::direct_with_clock(quota, MonotonicClock))
    }

    async fn wait(&self) {
        self.until_ready().await;
    }
}

impl WaitLimit for Arc<leaky_bucket::RateLimiter> {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        let quantity = usize::try_from(limit.quantity).unwrap_or(usize::MAX);
        let bucket = leaky_bucket::RateLimiter::builder()
            .max(quantity)
            .initial(quantity)
            .refill(quantity)
            .interval(limit.window)
            .fair(true)
            .build();
        Self::new(bucket)
    }

    async fn wait(&self) {
        self.acquire_one().await;
    }
}

/// A common hand-written limiter: a task refills a semaphore once in a window.
#[derive(Clone)]
pub(crate) struct Refilled {
    permits: Arc<Semaphore>,
}

impl WaitLimit for Refilled {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        let most = usize::try_from(limit.quantity).unwrap_or(usize::MAX);
        let permits = Arc::new(Semaphore::new(most));
        let refilled = Arc::downgrade(&permits);
        tasks::start(async move {
            let mut every = interval(limit.window);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            every.tick().await;
            loop {
                every.tick().await;
                let Some(permits) = refilled.upgrade() else {
                    return;
                };
                permits.add_permits(most.saturating_sub(permits.available_permits()));
            }
        });
        Self { permits }
    }

    async fn wait(&self) {
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }
}

impl WaitLimit for Arc<SlidingWindowLog> {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        Self::new(SlidingWindowLog::new(limit.quantity, limit.window))
    }

    async fn wait(&self) {
        // It refuses only costs above its limit.
        let _passed = self.acquire().await;
    }
}

impl WaitLimit for Arc<Queue<SlidingWindowLog, ()>> {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        let queue = Queue::builder().capacity(1 << 20);
        Self::new(queue.build(SlidingWindowLog::new(limit.quantity, limit.window)))
    }

    async fn wait(&self) {
        // It refuses only when it is full.
        let _passed = self.acquire((), 0, None).await;
    }
}

/// Its service around an empty one; one clone for each call, as tower intends.
#[derive(Clone)]
pub(crate) struct Tower {
    service: tower_resilience::Log,
}

impl WaitLimit for Tower {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        #[expect(clippy::expect_used, reason = "the configuration is valid")]
        let service = tower_resilience::patient_log(limit.quantity, limit.window, LONG).expect("a limit and a window");
        Self { service }
    }

    async fn wait(&self) {
        let mut service = self.service.clone();
        if let Ok(ready) = service.ready().await {
            let _passed = ready.call(()).await;
        }
    }
}

/// The simplest queue: every task takes the next slot of an even pace and sleeps until then. The slot of a
/// cancelled waiter is lost.
#[derive(Clone)]
pub(crate) struct Reserved {
    slots: Arc<Slots>,
}

struct Slots {
    limit: Limit,
    opened: Instant,
    taken: AtomicU64,
}

impl WaitLimit for Reserved {
    type Permit = ();

    fn new(limit: Limit) -> Self {
        let slots = Slots {
            limit,
            opened: Instant::now(),
            taken: AtomicU64::new(0),
        };
        Self { slots: Arc::new(slots) }
    }

    async fn wait(&self) {
        let mine = self.slots.taken.fetch_add(1, Ordering::Relaxed) + 1;
        sleep_until(self.slots.opened + self.slots.limit.ideal(mine)).await;
    }
}

/// Longer than the wait of the last task, so that none is refused.
const LONG: Duration = Duration::from_hours(50 * 365 * 24);
