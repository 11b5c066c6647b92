//! Redis store, on a real server for each test.

mod audit;
mod chunks;
mod claim_order;
mod cleanup;
mod contract;
mod foreign_keys;
mod job_cost;
mod lanes;
mod lifecycle;
mod malformed_jobs;
mod many_jobs;
mod mixed_costs;
mod script_calls;
mod server_faults;
mod submit_batcher;
mod tenant_limits;

use std::time::Duration;

use bytes::Bytes;
use outflow_store::{
    AllowAll, ClaimBatch, ClaimRequest, ClaimedJob, JobEnd, JobQueue, Name, NewJob, RedisOptions, RedisStore,
    SettleResult, Settlement, StoreControl, StoreLimits, SubmitBatch,
};
use outflow_testkit::{RedisOptions as ServerOptions, RedisServer};

/// Server with a store on it.
struct RedisFixture {
    server: RedisServer,
    store: RedisStore,
}

impl RedisFixture {
    async fn new() -> Self {
        Self::with(ServerOptions::default()).await
    }

    async fn with(options: ServerOptions) -> Self {
        let server = RedisServer::start(options).expect("a server");
        let store = connect(&server).await;
        Self { server, store }
    }

    async fn submit(&self, tenant: &str, count: usize) {
        let jobs = (0..count).map(|n| job(tenant, n)).collect();
        let submitted = self
            .store
            .submit(SubmitBatch::from_jobs(jobs))
            .await
            .expect("submitted");
        assert_eq!(submitted.receipts.len(), count);
    }

    async fn claim(&self, most: usize) -> ClaimBatch {
        claim(&self.store, "worker", most, None).await
    }

    async fn settle(&self, ends: Vec<Settlement>) -> Vec<SettleResult> {
        let settled = self.store.settle(&name("worker"), ends).await;
        settled.expect("settled")
    }

    async fn finish(&self, jobs: &[ClaimedJob]) {
        let ends = jobs.iter().map(done).collect();
        for settled in self.settle(ends).await {
            assert_eq!(settled, SettleResult::Done);
        }
    }

    async fn assert_balanced(&self) {
        assert_eq!(
            self.store.audit().await.expect("counted"),
            0,
            "{:?}",
            self.store.job_counts().await
        );
    }
}

async fn connect(server: &RedisServer) -> RedisStore {
    RedisStore::connect(RedisOptions::new(server.url()))
        .await
        .expect("connected")
}

async fn claim(store: &RedisStore, session: &str, most: usize, limits: Option<StoreLimits>) -> ClaimBatch {
    claim_of("api", store, session, (most, limits)).await
}

async fn claim_of(
    lane: &str,
    store: &RedisStore,
    session: &str,
    (most, limits): (usize, Option<StoreLimits>),
) -> ClaimBatch {
    let request = ClaimRequest {
        lane: name(lane),
        session: name(session),
        max: most,
        lease: Duration::from_secs(30),
        recoveries: 2,
        limits,
        cost: None,
    };
    store.claim(request, &mut AllowAll).await.expect("claimed")
}

fn job(tenant: &str, n: usize) -> NewJob {
    NewJob::new(name(tenant), name("api"), Bytes::from(format!("{tenant}-{n}")))
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn done(job: &ClaimedJob) -> Settlement {
    end(
        job,
        JobEnd::Done {
            took: Duration::from_millis(3),
            result: None,
        },
    )
}

fn end(job: &ClaimedJob, end: JobEnd) -> Settlement {
    Settlement {
        token: job.token,
        end,
        arrived: None,
    }
}

fn payloads(jobs: &[ClaimedJob]) -> Vec<String> {
    let text = |job: &ClaimedJob| String::from_utf8(job.payload.to_vec()).expect("text");
    jobs.iter().map(text).collect()
}

/// Returns the server's clock in microseconds.
fn server_time(server: &RedisServer) -> u64 {
    let script = "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000000 + t[2])";
    let answer = server.command(&["EVAL", script, "0"]).expect("a time");
    answer.parse().expect("a number")
}
