//! Limits that only the store knows: of each tenant, and of all.

use std::sync::Arc;

use outflow_core::{Cost, Rate};
use outflow_store::{CooldownScope, JobQueue, StoreControl, StoreLimits, TenantRule, TenantStore};
use outflow_sync::Mutex;
use outflow_testkit::Background;
use tokio::time::{Instant, sleep};

use super::*;

/// The limits of tenants alone.
const OWN: Option<StoreLimits> = Some(StoreLimits { global: None });

async fn limit_tenant(fixture: &RedisFixture, tenant: &str, units: u64, millis: u64) {
    let rule = TenantRule {
        rate: Some(Rate::new(units, Duration::from_millis(millis)).expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_rule(&name(tenant), rule).await.expect("ruled");
}

/// Claims as a worker does, until it has this many jobs or the store hands out none for this span.
async fn claim_within(store: &RedisStore, most: usize, span: Duration) -> Vec<ClaimedJob> {
    let (mut jobs, mut last) = (Vec::new(), Instant::now());
    while jobs.len() < most && last.elapsed() < span {
        let claims = claim(store, "worker", most - jobs.len(), OWN).await;
        if !claims.jobs.is_empty() {
            last = Instant::now();
        }
        jobs.extend(claims.jobs);
        let wait = claims.next.unwrap_or(Duration::from_millis(1));
        sleep(wait.min(Duration::from_millis(5))).await;
    }
    jobs
}

/// Ends claims whose calls arrived this long ago.
async fn settle_arrived(fixture: &RedisFixture, jobs: &[ClaimedJob], age: Duration) {
    let ends = jobs.iter().map(|job| Settlement {
        arrived: Some(age),
        ..done(job)
    });
    fixture.settle(ends.collect()).await;
}

fn most_in_window(arrivals: &mut [Instant], window: Duration) -> usize {
    arrivals.sort_unstable();
    let within = |from: Instant| {
        arrivals
            .iter()
            .filter(|at| **at >= from && **at < from + window)
            .count()
    };
    arrivals.iter().map(|at| within(*at)).max().unwrap_or(0)
}

/// Runs jobs as a machine does whose calls take up to 30 ms each way: returns the arrivals.
async fn run_machine(store: RedisStore, session: &'static str, seed: u64) -> Vec<Instant> {
    let (store, arrivals) = (Arc::new(store), Arc::new(Mutex::new(Vec::new())));
    let (mut number, mut calls) = (seed, Vec::new());
    while store.job_counts().await.expect("counts").open() > 0 {
        let claims = claim(&store, session, 7, OWN).await;
        for job in claims.jobs {
            number += 1;
            let (there, back) = (number * 17 % 30, number * 11 % 30);
            let (store, arrivals) = (Arc::clone(&store), Arc::clone(&arrivals));
            calls.push(Background::start(async move {
                sleep(Duration::from_millis(there)).await;
                let arrival = Instant::now();
                arrivals.lock().push(arrival);
                sleep(Duration::from_millis(back)).await;
                let arrived = Some(arrival.elapsed());
                let end = Settlement { arrived, ..done(&job) };
                store.settle(&name(session), vec![end]).await.expect("settled");
            }));
        }
        let wait = claims.next.unwrap_or(LONGEST_WAIT);
        sleep(wait.min(LONGEST_WAIT)).await;
    }
    arrivals.lock().clone()
}

const LONGEST_WAIT: Duration = Duration::from_millis(20);

// Twenty in 250 ms, for 120 jobs on three machines: however long a call takes, no window at the API has more.
#[tokio::test]
async fn no_window_has_more_arrivals_than_a_tenants_rate_on_three_machines() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 20, 250).await;
    fixture.submit("a", 120).await;
    let begun = Instant::now();
    let (one, two, three) = tokio::join!(
        run_machine(connect(&fixture.server).await, "one", 1),
        run_machine(connect(&fixture.server).await, "two", 2),
        run_machine(connect(&fixture.server).await, "three", 3),
    );
    let mut arrivals = [one, two, three].concat();
    assert_eq!(arrivals.len(), 120);
    assert!(most_in_window(&mut arrivals, Duration::from_millis(250)) <= 20);
    assert!(begun.elapsed() >= Duration::from_millis(1_250), "five windows at least");
    fixture.assert_balanced().await;
}

// Five in half a minute are in flight. Two of them come back without a call: two others start at once.
#[tokio::test]
async fn a_returned_job_gives_its_units_back() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 5, 30_000).await;
    fixture.submit("a", 20).await;
    let jobs = claim_within(&fixture.store, 9, Duration::from_millis(1_500)).await;
    assert_eq!(jobs.len(), 5);
    assert!(jobs.iter().all(|job| job.holds_units));
    let returned = jobs[..2].iter().map(|job| end(job, JobEnd::Returned));
    fixture.settle(returned.collect()).await;
    let again = claim_within(&fixture.store, 9, Duration::from_millis(600)).await;
    assert_eq!(again.len(), 2);
    fixture.assert_balanced().await;
}

// Two in 300 ms are in flight for 500 ms: their units are held, and count for another window after their arrival.
#[tokio::test]
async fn a_call_in_flight_holds_its_units_longer_than_a_window() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 2, 300).await;
    fixture.submit("a", 9).await;
    let jobs = claim_within(&fixture.store, 9, Duration::from_millis(500)).await;
    assert_eq!(jobs.len(), 2);
    settle_arrived(&fixture, &jobs, Duration::ZERO).await;
    let settled = Instant::now();
    let next = claim_within(&fixture.store, 1, Duration::from_secs(5)).await;
    assert!(
        settled.elapsed() >= Duration::from_millis(299),
        "{:?}",
        settled.elapsed()
    );
    // Its call arrived 400 ms ago, by the worker's clock.
    settle_arrived(&fixture, &next, Duration::from_millis(400)).await;
    let more = claim_within(&fixture.store, 2, Duration::from_millis(250)).await;
    assert!(!more.is_empty(), "it counts no more");
}

// A worker dies with both of two units in 1.2 s. Its calls arrived when it was recovered, at the latest.
#[tokio::test]
async fn calls_of_a_dead_worker_count_from_its_recovery() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 2, 1_200).await;
    fixture.submit("a", 9).await;
    let request = |max| ClaimRequest {
        lane: name("api"),
        session: name("victim"),
        max,
        lease: Duration::from_millis(700),
        recoveries: 2,
        limits: OWN,
        cost: None,
    };
    let mut lost = 0;
    while lost < 2 {
        let claims = fixture.store.claim(request(2 - lost), &mut AllowAll).await;
        lost += claims.expect("claimed").jobs.len();
        sleep(Duration::from_millis(5)).await;
    }
    while fixture.store.reap(10, 2).await.expect("reaped").returned < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    let reaped = Instant::now();
    let next = claim_within(&fixture.store, 1, Duration::from_secs(5)).await;
    assert_eq!(next.len(), 1);
    assert!(
        reaped.elapsed() >= Duration::from_millis(1_190),
        "{:?}",
        reaped.elapsed()
    );
    fixture.assert_balanced().await;
}

// Twenty of twenty in ten seconds arrived. A window of eleven seconds has no quota left, and a limit of twenty-five
// has five.
#[tokio::test]
async fn a_changed_limit_keeps_its_usage() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 20, 10_000).await;
    fixture.submit("a", 60).await;
    let quick = Duration::from_millis(400);
    let jobs = claim_within(&fixture.store, 50, quick).await;
    assert_eq!(jobs.len(), 20);
    settle_arrived(&fixture, &jobs, Duration::ZERO).await;
    limit_tenant(&fixture, "a", 20, 11_000).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(claim_within(&fixture.store, 50, quick).await.len(), 0);
    limit_tenant(&fixture, "a", 25, 10_000).await;
    // A parked tenant is looked at again after five seconds, because its limit may have changed.
    let more = claim_within(&fixture.store, 5, Duration::from_secs(6)).await;
    assert_eq!(more.len(), 5);
    assert_eq!(claim_within(&fixture.store, 50, quick).await.len(), 0);
}

// A tenant that waits for its own limit does not block the lane.
#[tokio::test]
async fn a_tenant_at_its_own_limit_lets_others_go() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 2, 30_000).await;
    fixture.submit("a", 5).await;
    fixture.submit("b", 45).await;
    let jobs = claim_within(&fixture.store, 60, Duration::from_millis(1_200)).await;
    assert_eq!(jobs.iter().filter(|job| job.tenant == name("a")).count(), 2);
    assert_eq!(jobs.len(), 47);
    fixture.assert_balanced().await;
}

// Costs of 4 against 10 in half a minute: two start, and one more that costs one never does before them.
#[tokio::test]
async fn a_window_is_counted_by_cost() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 10, 30_000).await;
    let costly = |n: usize| NewJob {
        cost: Cost::new(4),
        ..job("a", n)
    };
    let jobs = SubmitBatch::from_jobs((0..5).map(costly).collect());
    fixture.store.submit(jobs).await.expect("submitted");
    let jobs = claim_within(&fixture.store, 9, Duration::from_millis(1_500)).await;
    assert_eq!(jobs.len(), 2);
    fixture.settle(vec![end(&jobs[0], JobEnd::Returned)]).await;
    assert_eq!(
        claim_within(&fixture.store, 9, Duration::from_millis(1_500))
            .await
            .len(),
        1
    );
    fixture.assert_balanced().await;
}

// Ten starts a second for two lanes. They count from the claim: settling them changes nothing.
#[tokio::test]
async fn the_rate_of_all_tenants_counts_starts_in_all_lanes() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 8).await;
    let other = |n| NewJob {
        lane: name("other"),
        ..job("b", n)
    };
    let others = SubmitBatch::from_jobs((0..8).map(other).collect());
    fixture.store.submit(others).await.expect("submitted");
    let global = Some(StoreLimits { global: Some(10) });
    let begun = Instant::now();
    let first = claim_of("api", &fixture.store, "worker", (20, global)).await.jobs;
    let second = claim_of("other", &fixture.store, "worker", (20, global)).await;
    assert_eq!((first.len(), second.jobs.len()), (8, 2));
    fixture.finish(&first).await;
    let wait = second.next.expect("an instant");
    assert!(wait <= Duration::from_millis(1_005), "{wait:?}");
    let mut rest = 0;
    while rest < 6 {
        rest += claim_of("other", &fixture.store, "worker", (20, global))
            .await
            .jobs
            .len();
        sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    fixture.assert_balanced().await;
}

// Two in 30 s, for jobs that were claimed without a check: two may start, and what was not sent is given back.
#[tokio::test]
async fn a_start_outside_of_a_claim_counts_like_any_other() {
    let fixture = RedisFixture::new().await;
    limit_tenant(&fixture, "a", 2, 30_000).await;
    fixture.submit("a", 4).await;
    let jobs = fixture.claim(4).await.jobs;
    let worker = name("worker");
    let count = async |job: &ClaimedJob| {
        let counted = fixture.store.count_start(&worker, job.token, StoreLimits::default());
        counted.await.expect("asked")
    };
    assert_eq!((count(&jobs[0]).await, count(&jobs[1]).await), (None, None));
    assert!(count(&jobs[2]).await.is_some(), "two are held");
    fixture.settle(vec![end(&jobs[2], JobEnd::Returned)]).await;
    assert!(count(&jobs[3]).await.is_some(), "it held nothing");
    fixture.settle(vec![end(&jobs[0], JobEnd::Returned)]).await;
    assert_eq!(count(&jobs[3]).await, None);
    settle_arrived(&fixture, &[jobs[1].clone(), jobs[3].clone()], Duration::ZERO).await;
    assert!(
        claim(&fixture.store, "worker", 5, OWN).await.jobs.is_empty(),
        "claims see it, too"
    );
    let gone = fixture
        .store
        .count_start(&worker, jobs[1].token, StoreLimits::default());
    assert!(gone.await.expect("asked").is_some(), "its claim has ended");
    fixture.assert_balanced().await;
}

// A tenant has five in three seconds of its own: after a loss its usage is unknown, and others go.
#[tokio::test]
async fn a_tenants_own_window_is_waited_out_after_a_loss() {
    let fixture = RedisFixture::new().await;
    fixture.server.command(&["FLUSHALL"]).expect("flushed");
    fixture.store.job_counts().await.expect_err("lost");
    fixture.store.reinitialize().await.expect("reinitialized");
    let lost = Instant::now();
    limit_tenant(&fixture, "a", 5, 3_000).await;
    fixture.submit("a", 3).await;
    fixture.submit("b", 3).await;
    let jobs = claim_within(&fixture.store, 3, Duration::from_secs(1)).await;
    assert!(jobs.iter().all(|job| job.tenant == name("b")), "{jobs:?}");
    assert_eq!(jobs.len(), 3);
    let next = claim_within(&fixture.store, 1, Duration::from_secs(5)).await;
    assert_eq!(next.len(), 1, "a may again");
    assert!(lost.elapsed() >= Duration::from_millis(2_900), "{:?}", lost.elapsed());
}

#[tokio::test]
async fn a_throttled_lane_waits_and_a_throttled_tenant_lets_others_go() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    fixture.submit("b", 2).await;
    let jobs = fixture.claim(2).await.jobs;
    let wait = |cooldown| JobEnd::Throttled {
        after: Duration::from_millis(60),
        cooldown,
    };
    let (a, b) = (&jobs[0], &jobs[1]);
    fixture.settle(vec![end(a, wait(CooldownScope::Tenant)), done(b)]).await;
    let claims = fixture.claim(4).await;
    assert_eq!(payloads(&claims.jobs), ["b-1"]);
    let next = claims.next.expect("a tenant returns");
    assert!(
        next <= Duration::from_millis(60) && next > Duration::from_millis(5),
        "{next:?}"
    );
    sleep(next).await;
    let jobs = fixture.claim(4).await.jobs;
    assert_eq!(payloads(&jobs), ["a-0", "a-1"]);
    fixture.submit("c", 1).await;
    fixture.settle(vec![end(&jobs[0], wait(CooldownScope::Lane))]).await;
    let claims = fixture.claim(4).await;
    assert!(claims.jobs.is_empty());
    sleep(claims.next.expect("the lane opens")).await;
    assert_eq!(fixture.claim(4).await.jobs.len(), 2);
    fixture.assert_balanced().await;
}
