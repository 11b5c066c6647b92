//! Servers that die, freeze, fill up, lose data, or hold unexpected data.

use std::time::Duration;

use outflow_core::Rate;
use outflow_store::{
    JobQueue, RedisOptions, ReplicaWait, SettleResult, StoreControl, StoreLimits, SubmitBatch, TenantRule, TenantStore,
};
use outflow_testkit::Keep;

use super::*;

fn setting(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

async fn refusal(server: &RedisServer) -> String {
    let refused = RedisStore::connect(RedisOptions::new(server.url())).await;
    refused.expect_err("refused").to_string()
}

#[tokio::test]
async fn acknowledged_jobs_survive_a_kill() {
    let mut fixture = RedisFixture::with(ServerOptions {
        keep: Keep::EveryWrite,
        ..ServerOptions::default()
    })
    .await;
    fixture.submit("a", 100).await;
    let jobs = fixture.claim(40).await.jobs;
    fixture.finish(&jobs[..20]).await;
    fixture.server.restart().expect("restarted");
    // The old connection is gone; the first call may report that.
    let first = fixture.store.job_counts().await;
    if let Err(error) = first {
        assert!(error.is_passing(), "{error}");
    }
    let counts = fixture.store.job_counts().await.expect("reconnected");
    assert_eq!((counts.queued, counts.in_flight, counts.done), (60, 20, 20));
    fixture.finish(&jobs[20..]).await;
    assert_eq!(fixture.claim(100).await.jobs.len(), 60);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn an_absent_server_is_reported_and_found_again() {
    let mut fixture = RedisFixture::with(ServerOptions {
        keep: Keep::EveryWrite,
        ..ServerOptions::default()
    })
    .await;
    fixture.submit("a", 1).await;
    fixture.server.kill().expect("killed");
    for _ in 0..3 {
        let error = fixture
            .store
            .submit(SubmitBatch::from_jobs(vec![job("a", 1)]))
            .await
            .expect_err("away");
        assert!(error.is_passing(), "{error}");
    }
    fixture.server.restart().expect("restarted");
    let mut tries = 0;
    while fixture.store.job_counts().await.is_err() {
        tries += 1;
        assert!(tries < 5, "not found again");
    }
    fixture.assert_balanced().await;
}

// A call of 300 ms to a frozen server: its result is doubtful, and repeating it settles it.
#[tokio::test]
async fn a_frozen_server_leaves_doubt_and_no_second_job() {
    let mut server = RedisServer::start(ServerOptions::default()).expect("a server");
    let options = RedisOptions {
        timeout: Duration::from_millis(300),
        ..RedisOptions::new(server.url())
    };
    let store = RedisStore::connect(options).await.expect("connected");
    let named = NewJob {
        id: Some(name("order-1")),
        ..job("a", 0)
    };
    store
        .submit(SubmitBatch::from_jobs(vec![job("a", 9)]))
        .await
        .expect("the script is known");
    server.freeze().expect("frozen");
    let error = store
        .submit(SubmitBatch::from_jobs(vec![named.clone()]))
        .await
        .expect_err("frozen");
    assert!(error.is_doubtful(), "{error}");
    let error = store
        .submit(SubmitBatch::from_jobs(vec![named.clone()]))
        .await
        .expect_err("frozen");
    assert!(error.is_passing(), "{error}");
    server.thaw().expect("thawed");
    let mut tries = 0;
    while store.submit(SubmitBatch::from_jobs(vec![named.clone()])).await.is_err() {
        tries += 1;
        assert!(tries < 20, "not found again");
    }
    assert_eq!(
        store.job_counts().await.expect("counts").queued,
        2,
        "one job of that name"
    );
    assert_eq!(store.audit().await.expect("counted"), 0);
}

/// Polls every tenth of a second until the queue is reinitialized; every poll reports the loss.
async fn until_reinitialized(store: &RedisStore) {
    let begun = async {
        while let Err(error) = store.job_counts().await {
            let words = error.to_string();
            assert!(error.is_lost() && words.contains("the queue was lost"), "{words}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(20), begun).await;
    within.expect("reinitialized");
}

/// Gives each tenant ten units in this window.
async fn limit_tenants(store: &RedisStore, window: Duration) {
    let rule = TenantRule {
        rate: Some(Rate::new(10, window).expect("a rate")),
        ..TenantRule::default()
    };
    store.set_default_rule(rule).await.expect("ruled");
}

const LIMITS: Option<StoreLimits> = Some(StoreLimits { global: None });

/// Asserts that a limit stays closed for its window, since its usage is unknown.
async fn assert_closed_for_a_window(store: &RedisStore) {
    limit_tenants(store, Duration::from_millis(300)).await;
    let claims = claim(store, "worker", 5, LIMITS).await;
    assert!(claims.jobs.is_empty());
    tokio::time::sleep(claims.next.expect("it opens")).await;
    let claims = claim(store, "worker", 5, LIMITS).await;
    assert!(!claims.jobs.is_empty());
}

// Every caller has two seconds to see the loss.
#[tokio::test]
async fn an_emptied_server_is_a_loss_and_not_finished_work() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 5).await;
    let jobs = fixture.claim(1).await.jobs;
    let flushed = tokio::time::Instant::now();
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    let ends = vec![done(&jobs[0])];
    let settled = fixture.store.settle(&name("worker"), ends).await;
    assert!(settled.expect_err("lost").is_damaged());
    assert!(fixture.store.lost());
    until_reinitialized(&fixture.store).await;
    assert!(flushed.elapsed() >= Duration::from_secs(2));
    assert!(!fixture.store.lost());
    fixture.submit("a", 5).await;
    assert_closed_for_a_window(&fixture.store).await;
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_caller_can_reinitialize_at_once() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 5).await;
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    fixture.store.job_counts().await.expect_err("lost");
    fixture.store.reinitialize().await.expect("reinitialized");
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 0);
    fixture.submit("a", 5).await;
    assert_closed_for_a_window(&fixture.store).await;
}

// One worker holds the first claim of both queues; it settles the lost one.
#[tokio::test]
async fn a_claim_of_a_lost_queue_is_fenced_in_the_new_one() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    let before = fixture.claim(1).await.jobs;
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    fixture.store.job_counts().await.expect_err("lost");
    fixture.store.reinitialize().await.expect("reinitialized");
    fixture.submit("a", 1).await;
    let after = fixture.claim(1).await.jobs;
    let ends = vec![done(&before[0])];
    let settled = fixture.store.settle(&name("worker"), ends).await;
    assert_eq!(settled.expect("settled"), [SettleResult::Fenced]);
    assert_eq!(fixture.store.job_counts().await.expect("counts").in_flight, 1);
    fixture.finish(&after).await;
    assert_eq!(fixture.store.job_counts().await.expect("counts").done, 1);
    fixture.assert_balanced().await;
}

// No earlier process is left, and only the functions prove that there was one.
#[tokio::test]
async fn limits_stay_closed_for_a_window_on_an_emptied_server() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    let newcomer = connect(&fixture.server).await;
    let jobs = (0..5).map(|n| job("a", n)).collect();
    newcomer.submit(SubmitBatch::from_jobs(jobs)).await.expect("submitted");
    assert_closed_for_a_window(&newcomer).await;
}

// A machine that starts after the loss creates the queue without knowing of it; the older one joins
// it, and its knowledge of used limits applies to both.
#[tokio::test]
async fn an_older_process_closes_the_limits_for_newer_ones_after_a_loss() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 1).await;
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    let newcomer = RedisStore::connect(RedisOptions::new(fixture.server.url())).await;
    let newcomer = newcomer.expect("connected");
    newcomer
        .submit(SubmitBatch::from_jobs(vec![job("a", 1), job("a", 2)]))
        .await
        .expect("submitted");
    fixture.store.job_counts().await.expect_err("lost");
    fixture.store.reinitialize().await.expect("joined");
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 2);
    assert_closed_for_a_window(&newcomer).await;
}

// One window from the reconnect.
#[tokio::test]
async fn limits_stay_closed_for_a_window_after_a_restart() {
    let mut fixture = RedisFixture::with(ServerOptions {
        keep: Keep::EveryWrite,
        ..ServerOptions::default()
    })
    .await;
    let window = Duration::from_millis(1_500);
    limit_tenants(&fixture.store, window).await;
    fixture.submit("a", 20).await;
    assert!(!claim(&fixture.store, "one", 5, LIMITS).await.jobs.is_empty());
    fixture.server.restart().expect("restarted");
    while fixture.store.job_counts().await.is_err() {}
    let moved = fixture.server.command(&["HGET", "{outflow}:epoch", "moved"]);
    let moved: u64 = moved.expect("read").parse().expect("a time");
    // The tenant may still wait for its next spaced start.
    let mut asked = (Duration::ZERO, 0);
    while asked.0 < Duration::from_millis(200) {
        tokio::time::sleep(asked.0).await;
        let claims = claim(&fixture.store, "one", 5, LIMITS).await;
        assert!(claims.jobs.is_empty(), "its counters may be old");
        asked = (claims.next.expect("jobs wait"), server_time(&fixture.server));
    }
    let closed = Duration::from_micros(asked.1 - moved) + asked.0;
    assert!(closed >= window, "{closed:?}");
    assert!(closed < window + Duration::from_millis(200), "{closed:?}");
}

// Two megabytes are full after some thousand jobs. Existing jobs can still be done.
#[tokio::test]
async fn a_full_server_accepts_no_partial_batch_and_hands_out_its_jobs() {
    let settings = vec![setting("maxmemory", "3mb")];
    let fixture = RedisFixture::with(ServerOptions {
        settings,
        ..ServerOptions::default()
    })
    .await;
    let mut taken = 0;
    let error = loop {
        let jobs = (0..500).map(|n| NewJob {
            payload: Bytes::from(vec![b'x'; 200]),
            ..job(["a", "b"][n % 2], n)
        });
        match fixture.store.submit(SubmitBatch::from_jobs(jobs.collect())).await {
            Ok(_) => taken += 500,
            Err(error) => break error,
        }
        assert!(taken < 100_000, "never full");
    };
    assert!(error.is_full() && error.is_passing(), "{error}");
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, taken);
    fixture.assert_balanced().await;
    let mut done = 0;
    while done < taken {
        let jobs = fixture.claim(100).await.jobs;
        assert!(!jobs.is_empty(), "{done} of {taken}");
        fixture.finish(&jobs).await;
        done += u64::try_from(jobs.len()).expect("few");
    }
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_server_that_may_evict_keys_is_refused() {
    let settings = vec![setting("maxmemory-policy", "allkeys-lru")];
    let server = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    })
    .expect("a server");
    assert!(refusal(&server).await.contains("noeviction"));
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    fixture.server.command(&["SCRIPT", "FLUSH"]).expect("flushed");
    fixture.submit("a", 2).await;
    fixture.server.command(&["SCRIPT", "FLUSH"]).expect("flushed");
    assert_eq!(fixture.claim(9).await.jobs.len(), 4);
}

// Foreign keys in place of a list, a set of returned jobs, a session and the queue's own sets.
#[tokio::test]
async fn a_foreign_key_is_named_and_nothing_is_changed() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    fixture
        .server
        .command(&["SET", "{outflow}:l:2:3:api:b", "mine"])
        .expect("set");
    let both = SubmitBatch::from_jobs(vec![job("a", 7), job("c", 8), job("b", 9)]);
    let error = fixture.store.submit(both).await.expect_err("a foreign key");
    assert!(
        error.is_damaged() && error.to_string().contains("{outflow}:l:2:3:api:b"),
        "{error}"
    );
    fixture.assert_balanced().await;
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 2);

    fixture
        .server
        .command(&["SET", "{outflow}:s:worker", "mine"])
        .expect("set");
    let request = ClaimRequest {
        lane: name("api"),
        session: name("worker"),
        max: 5,
        lease: Duration::from_secs(5),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let error = fixture
        .store
        .claim(request, &mut AllowAll)
        .await
        .expect_err("a foreign key");
    assert!(error.to_string().contains("{outflow}:s:worker"), "{error}");
    fixture.assert_balanced().await;
    fixture.server.command(&["DEL", "{outflow}:s:worker"]).expect("deleted");
    let jobs = fixture.claim(5).await.jobs;
    assert_eq!(payloads(&jobs), ["a-0", "a-1"]);

    fixture
        .server
        .command(&["SET", "{outflow}:b:2:3:api:a", "mine"])
        .expect("set");
    let ends = vec![done(&jobs[0]), end(&jobs[1], outflow_store::JobEnd::Returned)];
    let error = fixture
        .store
        .settle(&name("worker"), ends.clone())
        .await
        .expect_err("a foreign key");
    assert!(error.to_string().contains("{outflow}:b:2:3:api:a"), "{error}");
    fixture.assert_balanced().await;
    fixture
        .server
        .command(&["DEL", "{outflow}:b:2:3:api:a"])
        .expect("deleted");
    assert_eq!(fixture.settle(ends).await, [SettleResult::Done, SettleResult::Waits]);
    fixture.assert_balanced().await;

    fixture.server.command(&["DEL", "{outflow}:who"]).expect("deleted");
    fixture.server.command(&["SET", "{outflow}:who", "mine"]).expect("set");
    assert!(refusal(&fixture.server).await.contains("{outflow}:who"));
}

#[tokio::test]
async fn without_confirmation_by_a_replica_a_submission_is_doubtful() {
    let fixture = RedisFixture::new().await;
    let wait = ReplicaWait {
        count: 1,
        timeout: Duration::from_millis(50),
    };
    let options = RedisOptions {
        wait_replicas: Some(wait),
        ..RedisOptions::new(fixture.server.url())
    };
    let careful = RedisStore::connect(options.clone()).await.expect("connected");
    let error = careful
        .submit(SubmitBatch::from_jobs(vec![job("a", 0)]))
        .await
        .expect_err("no replica");
    assert!(error.is_doubtful(), "{error}");
    let address = fixture.server.address().expect("a port");
    let replica = RedisServer::start(ServerOptions {
        settings: vec![setting("replicaof", &format!("{} {}", address.ip(), address.port()))],
        ..ServerOptions::default()
    });
    let replica = replica.expect("a replica");
    let mut tries = 0;
    while careful.submit(SubmitBatch::from_jobs(vec![job("a", 1)])).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the replica never confirmed");
    }
    // A replica is not written to; once promoted it is another server with this queue.
    let error = RedisStore::connect(RedisOptions::new(replica.url()))
        .await
        .expect_err("a replica");
    assert!(error.is_passing(), "{error}");
    replica.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    let promoted = connect(&replica).await;
    assert_eq!(promoted.audit().await.expect("counted"), 0);
    let bad = ReplicaWait {
        count: 1,
        timeout: Duration::from_secs(2),
    };
    let options = RedisOptions {
        wait_replicas: Some(bad),
        ..options
    };
    assert!(RedisStore::connect(options).await.expect_err("too long").is_refused());
}

// One node that has all slots works; one that has none reports it.
#[tokio::test]
async fn a_cluster_node_works_if_it_has_the_slots() {
    let settings = vec![setting("cluster-enabled", "yes")];
    let server = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    })
    .expect("a server");
    let error = RedisStore::connect(RedisOptions::new(server.url()))
        .await
        .expect_err("no slots");
    assert!(error.is_passing() || error.is_refused(), "{error}");
    server
        .command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])
        .expect("slots");
    let mut tries = 0;
    let store = loop {
        match RedisStore::connect(RedisOptions::new(server.url())).await {
            Ok(store) => break store,
            Err(error) => assert!(error.is_passing() && tries < 100, "{error}"),
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let fixture = RedisFixture { server, store };
    for tenant in ["a", "b{c}", "{x}"] {
        fixture.submit(tenant, 3).await;
    }
    let jobs = fixture.claim(9).await.jobs;
    assert_eq!(jobs.len(), 9);
    fixture.finish(&jobs).await;
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_password_is_required_and_never_shown() {
    let settings = vec![setting("requirepass", "hunter2")];
    let server = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    })
    .expect("a server");
    let with = |password: &str| RedisOptions::new(server.url().replace("redis://", &format!("redis://:{password}@")));
    let store = RedisStore::connect(with("hunter2")).await.expect("connected");
    assert!(!format!("{store:?}").contains("hunter2"));
    for options in [
        RedisOptions::new(server.url()),
        with("hunter3"),
        RedisOptions::new("http://:hunter2@x"),
    ] {
        assert!(!format!("{options:?}").contains("hunter"));
        let error = RedisStore::connect(options).await.expect_err("refused");
        assert!(
            error.is_refused() && !format!("{error} {error:?}").contains("hunter"),
            "{error}"
        );
    }
}
