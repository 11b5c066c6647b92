//! Order of the tenants.

use std::collections::HashMap;

use outflow_core::{Cost, Priority, Weight};
use outflow_store::{JobQueue, SubmitBatch, TenantRule, TenantStore};

use super::*;

fn counts(jobs: &[ClaimedJob]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for job in jobs {
        *counts.entry(job.tenant.to_string()).or_insert(0) += 1;
    }
    counts
}

async fn weigh(fixture: &RedisFixture, tenant: &str, weight: u32) {
    let rule = TenantRule {
        weight: Weight::new(weight).expect("a weight"),
        ..TenantRule::default()
    };
    fixture.store.set_rule(&name(tenant), rule).await.expect("ruled");
}

// Three tenants of 3 : 2 : 1 in claims of 7, 10 and 13: no multiple of 6.
#[tokio::test]
async fn tenants_are_served_by_weight() {
    let fixture = RedisFixture::new().await;
    for (tenant, weight) in [("a", 3), ("b", 2), ("c", 1)] {
        fixture.submit(tenant, 200).await;
        weigh(&fixture, tenant, weight).await;
    }
    let mut jobs = Vec::new();
    for max in [7, 10, 13].into_iter().cycle().take(18) {
        jobs.extend(fixture.claim(max).await.jobs);
        let seen = counts(&jobs);
        let share = |tenant: &str| seen.get(tenant).copied().unwrap_or(0);
        let (a, b, c) = (share("a"), share("b"), share("c"));
        assert!((a * 2).abs_diff(b * 3) <= 5, "{a} {b} {c}");
        assert!((a).abs_diff(c * 3) <= 4, "{a} {b} {c}");
    }
    fixture.assert_balanced().await;
}

// A tenant of jobs that cost 5 gets a fifth of the jobs and equal service.
#[tokio::test]
async fn service_is_counted_by_cost() {
    let fixture = RedisFixture::new().await;
    let dear = |n| NewJob {
        cost: Cost::new(5),
        ..job("dear", n)
    };
    fixture
        .store
        .submit(SubmitBatch::from_jobs((0..100).map(dear).collect()))
        .await
        .expect("submitted");
    fixture.submit("cheap", 300).await;
    let seen = counts(&fixture.claim(120).await.jobs);
    assert!(
        seen["dear"].abs_diff(20) <= 1 && seen["cheap"].abs_diff(100) <= 1,
        "{seen:?}"
    );
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn classes_of_a_tenant_share_sixteen_to_four_to_one() {
    let fixture = RedisFixture::new().await;
    let jobs = (0..300).flat_map(|n| {
        [Priority::Low, Priority::Normal, Priority::High].map(|priority| NewJob {
            priority,
            ..job("a", n)
        })
    });
    fixture
        .store
        .submit(SubmitBatch::from_jobs(jobs.collect()))
        .await
        .expect("submitted");
    let mut seen = [0_u32; 3];
    for _ in 0..10 {
        for job in fixture.claim(21).await.jobs {
            let class = [Priority::Low, Priority::Normal, Priority::High]
                .iter()
                .position(|class| *class == job.priority);
            seen[class.expect("a class")] += 1;
        }
    }
    assert!(
        seen[0].abs_diff(10) <= 1 && seen[1].abs_diff(40) <= 1 && seen[2].abs_diff(160) <= 2,
        "{seen:?}"
    );
    fixture.assert_balanced().await;
}

// The class of its best job multiplies a tenant's share by four.
#[tokio::test]
async fn a_tenant_with_high_priority_jobs_gets_four_times_the_share() {
    let fixture = RedisFixture::new().await;
    let urgent = |n| NewJob {
        priority: Priority::High,
        ..job("urgent", n)
    };
    fixture
        .store
        .submit(SubmitBatch::from_jobs((0..100).map(urgent).collect()))
        .await
        .expect("submitted");
    fixture.submit("usual", 100).await;
    let seen = counts(&fixture.claim(50).await.jobs);
    assert!(seen["urgent"].abs_diff(40) <= 1, "{seen:?}");
}

#[tokio::test]
async fn no_tenant_has_more_in_flight_than_its_bound() {
    let fixture = RedisFixture::new().await;
    let rule = TenantRule {
        in_flight: Some(3),
        ..TenantRule::default()
    };
    fixture.store.set_rule(&name("a"), rule).await.expect("ruled");
    fixture.submit("a", 10).await;
    let jobs = fixture.claim(10).await.jobs;
    assert_eq!(jobs.len(), 3);
    assert!(fixture.claim(10).await.jobs.is_empty());
    fixture.finish(&jobs[..2]).await;
    assert_eq!(payloads(&fixture.claim(10).await.jobs), ["a-3", "a-4"]);
    fixture.assert_balanced().await;
}

// The clock is set where doubles have a resolution of a millionth: places must be rebased.
#[tokio::test]
async fn order_holds_after_years_of_service() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 50).await;
    fixture.submit("b", 50).await;
    weigh(&fixture, "b", 3).await;
    let shift = "local f = '{outflow}:f:api' local w = '{outflow}:w:api'
        for _, t in ipairs({'a', 'b'}) do
          local mark, place, index, jobs = struct.unpack('>Bddd', redis.call('HGET', w, t))
          place = place + 2^34
          redis.call('HSET', w, t, struct.pack('>Bddd', mark, place, index, jobs))
          redis.call('ZADD', f, place, t)
        end return 1";
    fixture.server.command(&["EVAL", shift, "0"]).expect("shifted");
    let seen = counts(&fixture.claim(40).await.jobs);
    assert!(seen["b"].abs_diff(30) <= 1, "{seen:?}");
    let seen = counts(&fixture.claim(12).await.jobs);
    assert!(seen["b"].abs_diff(9) <= 1, "{seen:?}");
    let places = fixture
        .server
        .command(&["ZSCORE", "{outflow}:f:api", "a"])
        .expect("a score");
    assert!(places.parse::<f64>().expect("a number") < 1e6, "{places}");
    fixture.submit("c", 5).await;
    let seen = counts(&fixture.claim(10).await.jobs);
    assert!(
        seen["c"].abs_diff(2) <= 1,
        "a newcomer begins with the others: {seen:?}"
    );
    fixture.assert_balanced().await;
}

// Four queued jobs end at their deadline. The one behind them is claimed and returned, and goes
// before one that was submitted meanwhile.
#[tokio::test]
async fn a_returned_job_goes_before_newer_ones_after_expirations() {
    let fixture = RedisFixture::new().await;
    let late = |n| NewJob {
        deadline: Some(outflow_core::WallTime::from_unix_secs(1)),
        ..job("a", n)
    };
    let mut jobs: Vec<_> = (0..4).map(late).collect();
    jobs.push(job("a", 4));
    fixture
        .store
        .submit(SubmitBatch::from_jobs(jobs))
        .await
        .expect("submitted");
    assert_eq!(fixture.store.reap(100, 3).await.expect("reaped").expired, 4);
    let claimed = fixture.claim(1).await.jobs;
    assert_eq!(payloads(&claimed), ["a-4"]);
    fixture
        .store
        .submit(SubmitBatch::from_jobs(vec![job("a", 5)]))
        .await
        .expect("submitted");
    fixture.settle(vec![end(&claimed[0], JobEnd::Returned)]).await;
    assert_eq!(payloads(&fixture.claim(9).await.jobs), ["a-4", "a-5"]);
    fixture.assert_balanced().await;
}
