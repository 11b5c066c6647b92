//! Limits that several processes share, with simulated processes on one ledger in virtual time.
//!
//! Each process is an [`Upstream`] with the defaults that a user has. Calls take 20 ms and up to 20 ms of
//! jitter each way; the API counts them as they arrive.

mod faults;
mod limits;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use outflow::core::{Clock as _, Limit, Nanos};
use outflow::{AttemptResult, Events, LimitSharing, Rules, SharedTimer, Target, Upstream};
use outflow_sync::Mutex;
use outflow_testkit::{Background, EventRecorder, LedgerLink, MemoryLedger, VirtualTime};

use crate::support::{ms, parsed};

/// A host with an API in front of it, which counts arrivals.
struct Host {
    time: VirtualTime,
    ledger: Arc<MemoryLedger>,
    api: Arc<CountingApi>,
    limits: Vec<Limit>,
}

/// Arrivals at an API, and its answers.
#[derive(Default)]
struct CountingApi {
    arrivals: Mutex<Vec<Nanos>>,
    /// The API answers 429 with this `Retry-After` before the end of it.
    closed_until: Mutex<Nanos>,
}

/// A process that calls the API.
struct Process {
    upstream: Upstream,
    link: Arc<LedgerLink>,
    recorder: EventRecorder,
    callers: Vec<Background<()>>,
    sent: Arc<Mutex<u64>>,
}

impl Host {
    fn new(limits: &[&str]) -> Self {
        let time = VirtualTime::new();
        Self {
            ledger: MemoryLedger::new(time.clone()),
            api: Arc::default(),
            limits: limits.iter().map(|rate| Limit::sliding(parsed(rate))).collect(),
            time,
        }
    }

    fn now(&self) -> Nanos {
        self.time.now()
    }

    /// Starts a process that does not call yet.
    fn process(&self) -> Process {
        self.process_with(&Rules {
            limits: self.limits.clone(),
            ..Rules::unlimited()
        })
    }

    fn process_with(&self, rules: &Rules) -> Process {
        let events = Events::new();
        let recorder = EventRecorder::subscribed_to(&events);
        let timer: SharedTimer = Arc::new(self.time.clone());
        let upstream = Upstream::new("api", rules.clone(), timer, events).expect("the rules fit together");
        let link = self.ledger.connect(LEDGER_TRANSFER);
        upstream.share(LimitSharing::on_host(Arc::<LedgerLink>::clone(&link), "api".into()));
        Process {
            upstream,
            link,
            recorder,
            callers: Vec::new(),
            sent: Arc::default(),
        }
    }

    /// Starts a process that calls as fast as it may.
    fn busy_process(&self) -> Process {
        let mut process = self.process();
        process.call_with(CALLERS, self);
        process
    }

    /// Returns the most arrivals in any window of this length.
    fn most_in(&self, window: Duration) -> usize {
        let mut arrivals = self.api.arrivals.lock().clone();
        arrivals.sort_unstable();
        let mut first = 0;
        let mut most = 0;
        for (index, at) in arrivals.iter().enumerate() {
            while at.since(arrivals[first]) >= window {
                first += 1;
            }
            most = most.max(index - first + 1);
        }
        most
    }

    fn arrivals(&self) -> usize {
        self.api.arrivals.lock().len()
    }

    fn arrivals_since(&self, begin: Nanos) -> usize {
        let arrivals = self.api.arrivals.lock();
        arrivals.iter().filter(|at| **at >= begin).count()
    }
}

impl Process {
    /// Starts so many callers, each of which calls again and again.
    fn call_with(&mut self, callers: usize, host: &Host) {
        for _ in 0..callers {
            let (upstream, api) = (self.upstream.clone(), Arc::clone(&host.api));
            let (time, sent) = (host.time.clone(), Arc::clone(&self.sent));
            self.callers.push(Background::start(async move {
                loop {
                    if call_once(&upstream, &api, &time).await {
                        *sent.lock() += 1;
                    }
                }
            }));
        }
    }

    /// Ends it as `kill -9` does: nothing of it is reported any more.
    fn kill(self) {
        self.link.cut();
    }

    /// Ends it as a shutdown does, once its calls have ended.
    async fn shut_down(mut self) {
        self.upstream.close();
        while !self.upstream.is_idle() {
            tokio::time::sleep(ms(1)).await;
        }
        self.callers.clear();
        self.upstream.leave_accounts();
        tokio::time::sleep(ms(5)).await;
    }

    fn target(&self) -> Target {
        self.upstream.group("default").expect("every API has it")
    }

    fn sent(&self) -> u64 {
        *self.sent.lock()
    }
}

/// Calls once. Returns false if the upstream refused.
async fn call_once(upstream: &Upstream, api: &CountingApi, time: &VirtualTime) -> bool {
    let Ok(mut permit) = upstream
        .acquire(upstream.group("default").expect("every API has it"))
        .await
    else {
        tokio::time::sleep(ms(5)).await;
        return false;
    };
    if permit.is_revoked() {
        return false;
    }
    permit.sending();
    tokio::time::sleep(latency()).await;
    let now = time.now();
    api.arrivals.lock().push(now);
    let closed = Some(api.closed_until.lock().since(now)).filter(|left| !left.is_zero());
    tokio::time::sleep(latency()).await;
    match closed {
        Some(left) => {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from(left.as_secs() + 1));
            permit.settle(AttemptResult::response(429, &headers));
        }
        None => {
            permit.settle(AttemptResult::status(200));
        }
    }
    true
}

fn latency() -> Duration {
    ms(20) + Duration::from_micros(fastrand::u64(0..20_000))
}

/// Enough that the limit binds, and that a process has many calls in flight.
const CALLERS: usize = 40;

/// Time of one transfer to a ledger on the same host, and of its work.
const LEDGER_TRANSFER: Duration = ms(1);
