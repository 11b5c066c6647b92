//! Functions and scripts, fast and general path: all have equal results.

use outflow_store::{JobQueue, StoreControl, SubmitBatch, SubmitReceipt, TenantRule, TenantStore};
use outflow_testkit::Keep;

use super::*;

/// Claims and finishes everything, seven at a time; returns the tenants in order.
async fn drain_tenants(store: &RedisStore) -> Vec<String> {
    let mut order = Vec::new();
    loop {
        let jobs = claim(store, "worker", 7, None).await.jobs;
        if jobs.is_empty() {
            return order;
        }
        order.extend(payloads(&jobs));
        let ends = jobs.iter().map(done).collect();
        store.settle(&name("worker"), ends).await.expect("settled");
    }
}

async fn submit(store: &RedisStore, tenant: &str, numbers: std::ops::Range<usize>) {
    let jobs = numbers.map(|n| job(tenant, n)).collect();
    store.submit(SubmitBatch::from_jobs(jobs)).await.expect("submitted");
}

pub(super) fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).expect("stats");
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next())
        .map_or(0, |calls| calls.parse().expect("a number"))
}

// Three tenants of different weights and lengths, so that they leave at different times; a bound
// that is never reached sends the second store to the general path.
#[tokio::test]
async fn the_general_and_the_fast_path_agree() {
    let (short, long) = (RedisFixture::new().await, RedisFixture::new().await);
    let mut orders = Vec::new();
    for (fixture, bound) in [(&short, None), (&long, Some(1_000))] {
        for (tenant, weight) in [("a", 3), ("b", 2), ("c", 1)] {
            let rule = TenantRule {
                weight: outflow_core::Weight::new(weight).expect("a weight"),
                in_flight: bound,
                ..TenantRule::default()
            };
            let ruled = fixture.store.set_rule(&name(tenant), rule).await;
            ruled.expect("ruled");
        }
        for (tenant, many) in [("a", 40), ("b", 60), ("c", 9)] {
            submit(&fixture.store, tenant, 0..many / 2).await;
            submit(&fixture.store, tenant, many / 2..many).await;
        }
        orders.push(drain_tenants(&fixture.store).await);
        fixture.assert_balanced().await;
    }
    assert_eq!(orders[0].len(), 109);
    assert_eq!(orders[0], orders[1]);
    let both = [&short, &long].map(|fixture| fixture.store.job_counts());
    let [short, long] = both;
    assert_eq!(short.await.expect("counts"), long.await.expect("counts"));
}

// Tenants come, leave while others wait and return before and after their debts are forgotten; two
// classes of b come at once. The default bound, which is never reached, sends the second store to
// the general path.
#[tokio::test]
async fn a_returning_tenant_gets_one_place_on_both_paths() {
    let (short, long) = (RedisFixture::new().await, RedisFixture::new().await);
    let bounded = TenantRule {
        in_flight: Some(1_000),
        ..TenantRule::default()
    };
    long.store.set_default_rule(bounded).await.expect("set");
    let mut orders = Vec::new();
    for fixture in [&short, &long] {
        let mut order = Vec::new();
        submit(&fixture.store, "a", 0..30).await;
        for round in 0..6 {
            let mut jobs: Vec<_> = ["b", "c", "d"].map(|tenant| job(tenant, round)).into();
            if round == 2 {
                let priority = outflow_core::Priority::High;
                jobs.push(NewJob {
                    priority,
                    ..job("b", 100)
                });
            }
            fixture
                .store
                .submit(SubmitBatch::from_jobs(jobs))
                .await
                .expect("submitted");
            let claimed = fixture.claim(2 + round).await.jobs;
            order.extend(payloads(&claimed));
            fixture.finish(&claimed).await;
            fixture.assert_balanced().await;
        }
        order.extend(drain_tenants(&fixture.store).await);
        fixture.assert_balanced().await;
        orders.push(order);
    }
    assert_eq!(orders[0].len(), 49);
    assert_eq!(orders[0], orders[1]);
    for tenant in ["a", "b", "c", "d"] {
        let tenant = name(tenant);
        let [short, long] = [&short, &long].map(|fixture| fixture.store.tenant(&tenant));
        let (short, long) = (short.await.expect("asked"), long.await.expect("asked"));
        let (short, long) = (short.expect("known"), long.expect("known"));
        assert_eq!(short.counts, long.counts, "{tenant}");
    }
    let active = [&short, &long].map(|fixture| fixture.store.active_tenants());
    for active in active {
        assert_eq!(active.await.expect("asked"), 0);
    }
}

// A user with all permissions except functions.
#[tokio::test]
async fn a_user_without_functions_uses_scripts() {
    let fixture = RedisFixture::new().await;
    let user = ["on", ">secret", "~*", "&*", "+@all", "-fcall", "-function"];
    let command = [&["ACL", "SETUSER", "plain"], user.as_slice()].concat();
    fixture.server.command(&command).expect("a user");
    let url = fixture.server.url();
    let url = url.replace("redis://", "redis://plain:secret@");
    let store = RedisStore::connect(RedisOptions::new(url)).await;
    let store = store.expect("connected");
    submit(&store, "a", 0..20).await;
    submit(&store, "a", 20..30).await;
    let jobs = claim(&store, "worker", 5, None).await.jobs;
    let mut ends: Vec<_> = jobs.iter().map(done).collect();
    ends[2].end = JobEnd::Returned;
    store.settle(&name("worker"), ends).await.expect("settled");
    assert_eq!(drain_tenants(&store).await.len(), 26);
    assert_eq!(store.job_counts().await.expect("counts").done, 30);
    assert_eq!(store.audit().await.expect("counted"), 0);
    assert_eq!(calls(&fixture.server, "fcall"), 0);
    assert!(calls(&fixture.server, "evalsha") > 5);
}

// The default rule applies to all tenants without their own, on any machine, and after a restart.
#[tokio::test]
async fn the_default_rule_applies_on_all_machines() {
    let mut fixture = RedisFixture::with(ServerOptions {
        keep: Keep::EveryWrite,
        ..ServerOptions::default()
    })
    .await;
    let rule = TenantRule {
        in_flight: Some(1),
        ..TenantRule::default()
    };
    fixture.store.set_default_rule(rule).await.expect("set");
    let other = connect(&fixture.server).await;
    submit(&other, "a", 0..5).await;
    assert_eq!(claim(&other, "other", 9, None).await.jobs.len(), 1);
    assert!(fixture.claim(9).await.jobs.is_empty());
    fixture.server.restart().expect("restarted");
    while fixture.store.job_counts().await.is_err() {}
    assert!(fixture.claim(9).await.jobs.is_empty());
    let report = fixture.store.tenant(&name("a")).await.expect("asked");
    assert_eq!(report.expect("known").rule, rule);
}

// The setting process died before all tenants were woken: setting the rule again wakes them.
#[tokio::test]
async fn an_interrupted_default_rule_change_is_completed() {
    let fixture = RedisFixture::new().await;
    let bounded = TenantRule {
        in_flight: Some(1),
        ..TenantRule::default()
    };
    fixture.store.set_default_rule(bounded).await.expect("set");
    submit(&fixture.store, "a", 0..3).await;
    assert_eq!(fixture.claim(9).await.jobs.len(), 1);
    let free = TenantRule::default();
    let usual = "redis.call('HSET', KEYS[1], 'usual', struct.pack('>ddddddd', 4, 0, 0, 0, 0, 1, 2)) \
                 return redis.call('HINCRBY', KEYS[1], 'usuals', 1)";
    let half = ["EVAL", usual, "1", "{outflow}:epoch"];
    fixture.server.command(&half).expect("half set");
    assert!(fixture.claim(9).await.jobs.is_empty(), "no claim woke it");
    fixture.store.set_default_rule(free).await.expect("set");
    assert_eq!(fixture.claim(9).await.jobs.len(), 2);
}

#[tokio::test]
async fn a_deleted_library_is_loaded_again() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    fixture.server.command(&["FUNCTION", "FLUSH"]).expect("flushed");
    fixture.submit("a", 2).await;
    fixture.server.command(&["FUNCTION", "FLUSH"]).expect("flushed");
    assert_eq!(fixture.claim(9).await.jobs.len(), 4);
    assert_eq!(calls(&fixture.server, "evalsha"), 0);
}

#[tokio::test]
async fn a_queue_of_another_layout_is_refused() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    let form = ["HSET", "{outflow}:epoch", "form", "1"];
    fixture.server.command(&form).expect("set");
    let error = RedisStore::connect(RedisOptions::new(fixture.server.url())).await;
    let error = error.expect_err("another layout");
    assert!(
        error.is_refused() && error.to_string().contains("another version"),
        "{error}"
    );
}

// 9,000 tenants in one batch, with and without names: more than fits on a script's stack.
#[tokio::test]
async fn the_largest_batches_succeed() {
    let fixture = RedisFixture::new().await;
    let options = RedisOptions {
        timeout: Duration::from_mins(1),
        ..RedisOptions::new(fixture.server.url())
    };
    let store = RedisStore::connect(options).await.expect("connected");
    for named in [false, true] {
        let jobs = (0..9_000).map(|n| NewJob {
            id: named.then(|| name(&format!("job-{n}"))),
            ..job(&format!("tenant-{n}"), n)
        });
        let submitted = store.submit(SubmitBatch::from_jobs(jobs.collect())).await;
        let receipts = submitted.expect("submitted").receipts;
        let taken = |receipt: &&SubmitReceipt| matches!(receipt, SubmitReceipt::Accepted { .. });
        assert_eq!(receipts.iter().filter(taken).count(), 9_000);
    }
    assert_eq!(store.job_counts().await.expect("counts").queued, 18_000);
}
