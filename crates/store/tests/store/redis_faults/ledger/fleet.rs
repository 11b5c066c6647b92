//! Processes that call an API under one limit, each with its own connection and lease. Each call is counted
//! where it arrives.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use outflow_core::{
    Clock, Cost, FactsObserver, LeaseMark, LeaseRequest, LeaseTerms, Limit, MAX_LIMITS, Nanos, QuotaLease, QuotaLedger,
    Rate, WallTime,
};
use outflow_store::{RedisLedger, RedisOptions};
use outflow_sync::Mutex;
use outflow_testkit::{Background, FaultProxy, RedisOptions as ServerOptions, RedisServer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Limit of all processes together.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
pub(super) const QUANTITY: u64 = 50;

/// Times of calls to the API, and of their responses back: one after the other.
const TRIPS_MS: [u64; 4] = [5, 50, 150, 20];

/// Timeout of a renewal: that of `[shared.redis]` if the user sets none.
pub(super) const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest call. A user's is ten seconds; what a killed process holds counts for so long, and a test waits.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Repetitions of an unanswered renewal in the term of a lease, as an upstream has them.
const REPEATS_PER_TERM: u32 = 40;

/// Time since the first reading, which all processes of a test share.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestClock(Instant);

impl TestClock {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TestClock {
    fn now(&self) -> Nanos {
        Nanos::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).expect("soon")).saturating_add(WINDOW)
    }

    fn wall(&self) -> WallTime {
        WallTime::EPOCH
    }
}

/// Processes that share a limit, and the arrivals of all their calls.
pub(super) struct Fleet {
    clock: TestClock,
    arrivals: Arc<Mutex<Vec<Nanos>>>,
    members: Vec<Member>,
}

struct Member {
    lease: Arc<MemberLease>,
    ledger: RedisLedger,
    calls: Background<()>,
}

impl Fleet {
    /// Starts processes that call as fast as the limit allows, and waits until they do.
    pub(super) async fn start(options: &RedisOptions, count: usize) -> Self {
        let mut fleet = Self::new();
        for _ in 0..count {
            fleet.join(options);
        }
        fleet.wait_for_calls(QUANTITY, START).await;
        fleet
    }

    /// Builds a fleet without processes.
    pub(super) fn new() -> Self {
        Self {
            clock: TestClock::new(),
            arrivals: Arc::default(),
            members: Vec::new(),
        }
    }

    /// Starts one more process.
    pub(super) fn join(&mut self, options: &RedisOptions) {
        let ledger = RedisLedger::open(options, Arc::new(self.clock)).expect("a ledger");
        let ttl = ledger.terms().ttl;
        let terms = LeaseTerms {
            ttl,
            timeout: CALL_TIMEOUT,
            repeat: ttl / REPEATS_PER_TERM,
        };
        let rate = Rate::new(QUANTITY, WINDOW).expect("a rate");
        let lease = QuotaLease::new(terms, &[Limit::sliding(rate)], seed_of(self.clock, self.members.len()));
        let lease = Arc::new(MemberLease(Mutex::new(lease)));
        let observer: Arc<dyn FactsObserver> = Arc::<MemberLease>::clone(&lease);
        ledger.watch(ACCOUNT, Arc::downgrade(&observer));
        let caller = Caller {
            clock: self.clock,
            ledger: ledger.clone(),
            lease,
            arrivals: Arc::clone(&self.arrivals),
            answered: Arc::default(),
        };
        self.members.push(Member {
            lease: Arc::clone(&caller.lease),
            ledger,
            calls: Background::start(caller.call_for_ever()),
        });
    }

    /// Kills all processes: what they hold is lost.
    pub(super) fn kill(&mut self) {
        self.members.clear();
    }

    /// Returns the reasons for which renewals fail.
    pub(super) fn failures(&self) -> Vec<String> {
        let failure = |member: &Member| member.lease.0.lock().failure().map(str::to_owned);
        self.members.iter().filter_map(failure).collect()
    }

    /// Returns the number of arrivals so far.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.arrivals.lock().len()).expect("few")
    }

    /// Waits until every process knows that its ledger does not answer.
    pub(super) async fn wait_until_failing(&self) {
        let begun = Instant::now();
        while self.failures().len() < self.members.len() {
            assert!(begun.elapsed() < START, "some still have answers");
            sleep(POLL).await;
        }
    }

    /// Waits for so many further arrivals, and returns the time that it took.
    pub(super) async fn wait_for_calls(&self, count: u64, within: Duration) -> Duration {
        let (begun, before) = (Instant::now(), self.count());
        while self.count() < before + count {
            assert!(
                !self.members.iter().any(|member| member.calls.is_over()),
                "a process ended"
            );
            let seen = self.count() - before;
            let failures = self.failures();
            assert!(
                begun.elapsed() < within,
                "{seen} of {count} calls in {within:?}: {failures:?}"
            );
            sleep(POLL).await;
        }
        begun.elapsed()
    }

    /// Asserts that no window had more arrivals than the limit allows.
    pub(super) fn assert_kept(&self) {
        let mut arrivals = self.arrivals.lock().clone();
        arrivals.sort_unstable();
        let reach = usize::try_from(QUANTITY).expect("few");
        let begin = arrivals.first().copied().unwrap_or(Nanos::ZERO);
        for (first, beyond) in arrivals.iter().zip(arrivals.iter().skip(reach)) {
            let end = first.saturating_add(WINDOW);
            let seen = arrivals.iter().filter(|at| (first..&end).contains(at)).count();
            assert!(
                beyond.since(*first) >= WINDOW,
                "{seen} arrivals of {QUANTITY} in the window from {:?} on",
                first.since(begin)
            );
        }
    }

    /// Returns a ledger of the first process.
    pub(super) fn ledger(&self) -> &RedisLedger {
        &self.members.first().expect("one").ledger
    }
}

/// The lease of a process, which looks at its account once others changed the facts, as an upstream's does.
#[derive(Debug)]
struct MemberLease(Mutex<QuotaLease>);

impl FactsObserver for MemberLease {
    fn facts_changed(&self, _account: &str) {
        self.0.lock().refresh();
    }
}

/// One process: it calls whenever its lease has a unit, and sends the renewals that are due.
struct Caller {
    clock: TestClock,
    ledger: RedisLedger,
    lease: Arc<MemberLease>,
    arrivals: Arc<Mutex<Vec<Nanos>>>,
    answered: Arc<Notify>,
}

impl Caller {
    async fn call_for_ever(self) {
        let (mut in_flight, mut trips) = (
            FuturesUnordered::new(),
            TRIPS_MS.map(Duration::from_millis).into_iter().cycle(),
        );
        loop {
            let (mark, renewal) = {
                let (mut lease, now) = (self.lease.0.lock(), self.clock.now());
                let mark = lease.spend(now, Cost::ONE);
                (mark, lease.next_renewal(now))
            };
            if let Some(renewal) = renewal {
                self.send_renewal(renewal);
            }
            if let Some((mark, trip)) = mark.zip(trips.next()) {
                in_flight.push(self.call(mark, trip));
                continue;
            }
            tokio::select! {
                () = self.answered.notified() => {}
                Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
                () = sleep(POLL) => {}
            }
        }
    }

    async fn call(&self, mark: LeaseMark, trip: Duration) {
        sleep(trip).await;
        self.arrivals.lock().push(self.clock.now());
        sleep(trip).await;
        let now = self.clock.now();
        // The latest possible arrival is the response.
        self.lease.0.lock().arrive(now, mark, Cost::ONE, [now; MAX_LIMITS]);
    }

    fn send_renewal(&self, request: Arc<LeaseRequest>) {
        let (lease, clock, answered) = (Arc::clone(&self.lease), self.clock, Arc::clone(&self.answered));
        let sent = Arc::clone(&request);
        let reply = move |answer| {
            let (mut lease, now) = (lease.0.lock(), clock.now());
            match answer {
                Ok(answer) => drop(lease.deposit(now, &sent, answer)),
                Err(error) => lease.fail(now, &sent, &error),
            }
            answered.notify_one();
        };
        self.ledger.renew(ACCOUNT, request, Box::new(reply));
    }
}

/// Server, the proxy to it, and the options of processes behind the proxy.
pub(super) struct LedgerServer {
    pub(super) server: RedisServer,
    pub(super) proxy: FaultProxy,
    pub(super) options: RedisOptions,
}

impl LedgerServer {
    pub(super) async fn start(options: ServerOptions) -> Self {
        let server = RedisServer::start(options).expect("a server");
        let proxy = FaultProxy::start(server.address().expect("a port"));
        let proxy = proxy.await.expect("a proxy");
        let options = options_at(format!("redis://{}/", proxy.address()));
        Self { server, proxy, options }
    }
}

/// Returns the options that a user has.
pub(super) fn options_at(url: impl Into<String>) -> RedisOptions {
    RedisOptions {
        timeout: RENEWAL_TIMEOUT,
        ..RedisOptions::new(url)
    }
}

/// Names of processes differ in each test and each life of a process.
fn seed_of(clock: TestClock, member: usize) -> u64 {
    clock.now().as_nanos() ^ (u64::try_from(member).expect("few") << 48)
}

pub(super) const ACCOUNT: &str = "api";

/// A fleet that shares a fresh account begins within this.
pub(super) const START: Duration = Duration::from_secs(10);

/// Interval between two looks at a condition.
const POLL: Duration = Duration::from_millis(2);
