//! Server, proxy in front of it, and a store that knows only the proxy.

use std::time::Duration;

use bytes::Bytes;
use outflow_store::{
    AllowAll, ClaimRequest, ClaimedJob, JobEnd, JobQueue, Name, NewJob, RedisOptions, RedisStore, SettleResult,
    Settlement, StoreControl, StoreResult, SubmitBatch,
};
use outflow_testkit::{FaultProxy, RedisOptions as ServerOptions, RedisServer};

/// Server, the proxy to it, and a store behind the proxy.
pub(crate) struct ProxyFixture {
    pub(crate) server: RedisServer,
    pub(crate) proxy: FaultProxy,
    pub(crate) store: RedisStore,
}

impl ProxyFixture {
    pub(crate) async fn new(options: ServerOptions) -> Self {
        Self::with(options, |_| {}).await
    }

    /// Starts one with other options of the store.
    pub(crate) async fn with(options: ServerOptions, change: impl FnOnce(&mut RedisOptions)) -> Self {
        let server = RedisServer::start(options).expect("a server");
        let proxy = FaultProxy::start(server.address().expect("a port"));
        let proxy = proxy.await.expect("a proxy");
        let mut options = RedisOptions::new(format!("redis://{}/", proxy.address()));
        options.timeout = CALL_TIMEOUT;
        change(&mut options);
        let store = RedisStore::connect(options).await.expect("connected");
        Self { server, proxy, store }
    }

    /// Submits jobs named by this word and their numbers.
    pub(crate) async fn submit(&self, word: &str, count: usize) -> StoreResult<()> {
        submit(&self.store, word, count).await
    }

    /// Waits until the store answers, within the allowed outage.
    pub(crate) async fn wait_until_back(&self) {
        let back = async {
            while let Err(error) = self.store.job_counts().await {
                assert!(error.is_passing(), "{error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let within = tokio::time::timeout(RECOVERY_TIME, back).await;
        within.expect("back within five seconds");
    }

    /// Works on all available jobs, and returns their names.
    pub(crate) async fn work_off(&self, session: &str) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let jobs = claim(&self.store, session, 1_000).await.expect("claimed");
            if jobs.is_empty() {
                return names;
            }
            names.extend(jobs.iter().map(|job| job.id.to_string()));
            let settled = settle(&self.store, session, &jobs).await.expect("settled");
            assert!(settled.iter().all(|one| *one == SettleResult::Done), "{settled:?}");
        }
    }

    /// Asserts that the audit finds no difference.
    pub(crate) async fn assert_balanced(&self) {
        let drift = self.store.audit().await.expect("counted");
        assert_eq!(drift, 0, "{:?}", self.store.job_counts().await);
    }
}

pub(crate) async fn submit(store: &RedisStore, word: &str, count: usize) -> StoreResult<()> {
    let jobs = (0..count).map(|number| {
        let mut job = NewJob::new(name("a"), name("api"), Bytes::from_static(b"x"));
        job.id = Some(name(&format!("{word}-{number}")));
        job
    });
    store.submit(SubmitBatch::from_jobs(jobs.collect())).await.map(drop)
}

/// Claims under a lease of a second.
pub(crate) async fn claim(store: &RedisStore, session: &str, most: usize) -> StoreResult<Vec<ClaimedJob>> {
    let request = ClaimRequest {
        lane: name("api"),
        session: name(session),
        max: most,
        lease: LEASE,
        recoveries: 2,
        limits: None,
        cost: None,
    };
    Ok(store.claim(request, &mut AllowAll).await?.jobs)
}

pub(crate) async fn settle(store: &RedisStore, session: &str, jobs: &[ClaimedJob]) -> StoreResult<Vec<SettleResult>> {
    let ends = jobs.iter().map(|job| Settlement {
        token: job.token,
        end: JobEnd::Done {
            took: Duration::from_millis(1),
            result: None,
        },
        arrived: None,
    });
    store.settle(&name(session), ends.collect()).await
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn setting(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// Long enough for two calls, and short enough to wait for.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// Timeout of a call in these tests; the default is two seconds.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Time that the store may need after the end of a fault.
pub(crate) const RECOVERY_TIME: Duration = Duration::from_secs(5);
