//! Shared limits: no window exceeds its limit.

use outflow_core::{CountBy, Rate};
use outflow_store::{JobQueue, SharedLimit, StoreControl, SubmitBatch, TenantRule, TenantStore};

use super::*;

fn plan(lane: &[(u64, u64)]) -> SharedLimits {
    let rate = |(units, millis): (u64, u64)| Rate::new(units, Duration::from_millis(millis)).expect("a rate");
    let limit = |(place, of)| SharedLimit {
        name: format!("L{place} api"),
        rate: rate(of),
        measure: CountBy::Cost,
    };
    SharedLimits {
        limits: (0..).zip(lane.iter().copied()).map(limit).collect(),
        guard: GUARD,
        // A loaded machine claims again this late.
        horizon: Duration::from_millis(300),
    }
}

const GUARD: Duration = Duration::from_millis(25);

/// Start on the server's clock in microseconds, and its cost.
type Start = (u64, u64);

fn most_in_window(starts: &mut [Start], window: u64) -> u64 {
    starts.sort_unstable();
    let within = |from: u64| {
        let inside = starts.iter().filter(|(at, _)| (from..from + window).contains(at));
        inside.map(|(_, cost)| cost).sum()
    };
    starts.iter().map(|(at, _)| within(*at)).max().unwrap_or(0)
}

/// Claims as a worker does until no jobs are left: the starts with their tenants.
async fn drain(store: &RedisStore, session: &str, plan: &SharedLimits) -> Vec<(Start, Name)> {
    drain_lane(store, (session, "api"), plan).await
}

async fn drain_lane(store: &RedisStore, (session, lane): (&str, &str), plan: &SharedLimits) -> Vec<(Start, Name)> {
    let mut starts = Vec::new();
    while store.job_counts().await.expect("counts").queued > 0 {
        let claims = claim_of(lane, store, session, (7, Some(plan.clone()))).await;
        for job in &claims.jobs {
            let at = claims.decided.expect("the server's time") + job.starts_in;
            let at = u64::try_from(at.as_micros()).expect("small");
            assert!(job.starts_in <= plan.horizon, "{:?}", job.starts_in);
            starts.push(((at, job.cost.units()), job.tenant.clone()));
        }
        if claims.jobs.len() < 7 {
            tokio::time::sleep(claims.next.unwrap_or(Duration::from_millis(1))).await;
        }
    }
    starts
}

// Three machines, two limits at once: 20 in 200 ms and 60 in 800 ms. 150 jobs take about two
// seconds.
#[tokio::test]
async fn no_window_holds_more_starts_than_its_limit_on_three_machines() {
    let fixture = RedisFixture::new().await;
    for tenant in ["a", "b", "c"] {
        fixture.submit(tenant, 50).await;
    }
    let plan = plan(&[(20, 200), (60, 800)]);
    let (second, third) = (connect(&fixture.server).await, connect(&fixture.server).await);
    let (one, two, three) = tokio::join!(
        drain(&fixture.store, "one", &plan),
        drain(&second, "two", &plan),
        drain(&third, "three", &plan),
    );
    let mut starts: Vec<Start> = [one, two, three].concat().into_iter().map(|(start, _)| start).collect();
    assert_eq!(starts.len(), 150);
    assert!(most_in_window(&mut starts, 200_000) <= 20);
    assert!(most_in_window(&mut starts, 800_000) <= 60);
    let took = starts[149].0 - starts[0].0;
    let ideal = 149 * 825_000 / 60;
    assert!(took <= ideal + ideal / 20, "{took} of {ideal}: the limit is used");
    fixture.assert_balanced().await;
}

// 30 jobs each at the default 25 in 250 ms and at an own 50: both use all of theirs, and neither
// more.
#[tokio::test]
async fn each_tenant_keeps_to_its_own_rate() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 30).await;
    fixture.submit("b", 30).await;
    let rule = |units| TenantRule {
        rate: Some(Rate::new(units, Duration::from_millis(250)).expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_default_rule(rule(25)).await.expect("ruled");
    let own = fixture.store.set_rule(&name("b"), rule(50)).await;
    own.expect("ruled");
    let starts = drain(&fixture.store, "one", &plan(&[])).await;
    for (tenant, max) in [("a", 25), ("b", 50)] {
        let of = |(start, whose): &(Start, Name)| (*whose == name(tenant)).then_some(*start);
        let mut own: Vec<Start> = starts.iter().filter_map(of).collect();
        assert_eq!(own.len(), 30);
        assert!(most_in_window(&mut own, 250_000) <= max, "{tenant}");
        let took = own[29].0 - own[0].0;
        let ideal = 29 * 275_000 / max;
        assert!(took <= ideal + ideal / 5, "{tenant}: {took} of {ideal}");
    }
}

// The lane allows 100 in 200 ms, and each of two tenants 10 in 250, which bind. Their starts are
// still known ahead, by most of the 100 ms, or a busy worker would come late for each.
#[tokio::test]
async fn a_start_under_the_tenants_own_limit_is_known_ahead() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 20).await;
    fixture.submit("b", 20).await;
    let rule = TenantRule {
        rate: Some(Rate::new(10, Duration::from_millis(250)).expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_default_rule(rule).await.expect("ruled");
    let plan = SharedLimits {
        horizon: Duration::from_millis(100),
        ..plan(&[(100, 200)])
    };
    let mut ahead = Vec::new();
    while fixture.store.job_counts().await.expect("counts").queued > 0 {
        let claims = claim(&fixture.store, "one", 50, Some(plan.clone())).await;
        ahead.extend(claims.jobs.iter().map(|job| job.starts_in));
        tokio::time::sleep(claims.next.unwrap_or_default()).await;
    }
    // The first claim has quota for four of each at once; the others follow one by one.
    let short = ahead.iter().skip(8).filter(|ahead| **ahead < plan.horizon / 2);
    assert!(short.count() <= 2, "{ahead:?}");
    fixture.assert_balanced().await;
}

// A tenant that waits for its own limit does not block the lane: 5 in 500 ms for one, the rest of
// 50 in 500 ms for another without a limit.
#[tokio::test]
async fn a_tenant_at_its_own_limit_lets_others_go_first() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 5).await;
    fixture.submit("b", 45).await;
    let rule = TenantRule {
        rate: Some(Rate::new(5, Duration::from_millis(475)).expect("a rate")),
        ..TenantRule::default()
    };
    fixture.store.set_rule(&name("a"), rule).await.expect("ruled");
    let plan = SharedLimits {
        horizon: Duration::from_millis(600),
        ..plan(&[(50, 475)])
    };
    let jobs = claim(&fixture.store, "one", 50, Some(plan)).await.jobs;
    assert_eq!(jobs.len(), 50);
    let step = Duration::from_millis(10);
    for (n, job) in (0..).zip(&jobs) {
        assert!(job.starts_in.abs_diff(step * n) < step / 10, "{n}: {job:?}");
    }
    let of_a: Vec<_> = jobs.iter().filter(|job| job.tenant == name("a")).collect();
    let starts: Vec<_> = of_a.iter().map(|job| job.starts_in.as_millis()).collect();
    assert_eq!(starts, [0, 100, 200, 300, 400]);
}

// Costs of 1 and 4 against 10 in 200 ms: their sum counts.
#[tokio::test]
async fn a_window_is_counted_by_cost() {
    let fixture = RedisFixture::new().await;
    let costs = |n: usize| NewJob {
        cost: outflow_core::Cost::new(if n.is_multiple_of(3) { 4 } else { 1 }),
        ..job("a", n)
    };
    fixture
        .store
        .submit(SubmitBatch::from_jobs((0..40).map(costs).collect()))
        .await
        .expect("submitted");
    let starts = drain(&fixture.store, "one", &plan(&[(10, 200)])).await;
    let mut starts: Vec<Start> = starts.into_iter().map(|(start, _)| start).collect();
    assert!(most_in_window(&mut starts, 200_000) <= 10);
    fixture.assert_balanced().await;
}

// Twelve jobs of 10 against 50 in 200 ms: five of them fill a window, and the last starts after
// eleven fifths of it.
#[tokio::test]
async fn jobs_of_equal_cost_use_all_of_a_limit() {
    let fixture = RedisFixture::new().await;
    let dear = |n: usize| NewJob {
        cost: outflow_core::Cost::new(10),
        ..job("a", n)
    };
    let jobs = SubmitBatch::from_jobs((0..12).map(dear).collect());
    fixture.store.submit(jobs).await.expect("submitted");
    let starts = drain(&fixture.store, "one", &plan(&[(50, 200)])).await;
    let mut starts: Vec<Start> = starts.into_iter().map(|(start, _)| start).collect();
    assert!(most_in_window(&mut starts, 200_000) <= 50);
    let (took, ideal) = (starts[11].0 - starts[0].0, 11 * 225_000 / 5);
    assert!(took <= ideal + ideal / 5, "{took} of {ideal}");
}

// Ten in 200 ms for two lanes: one has jobs of 1 and the other, a little later, jobs of 4.
#[tokio::test]
async fn a_lane_without_costs_shares_a_limit_with_one_that_has_them() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 40).await;
    let plan = plan(&[(10, 200)]);
    let second = connect(&fixture.server).await;
    let dear = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let job = |n: usize| NewJob {
            lane: name("dear"),
            cost: outflow_core::Cost::new(4),
            ..job("b", n)
        };
        let jobs = SubmitBatch::from_jobs((0..10).map(job).collect());
        second.submit(jobs).await.expect("submitted");
        drain_lane(&second, ("two", "dear"), &plan).await
    };
    let cheap = drain(&fixture.store, "one", &plan);
    let (one, two) = tokio::join!(cheap, dear);
    let starts = [one, two].concat();
    let mut starts: Vec<Start> = starts.into_iter().map(|(start, _)| start).collect();
    assert_eq!(starts.len(), 50);
    assert!(most_in_window(&mut starts, 200_000) <= 10);
    fixture.assert_balanced().await;
}

// 30 in a window of 1.5 s, 70 jobs of two machines: a window's worth starts within a second, and
// the next when it has left the window. The stored runs cost a thousandth of the window.
#[tokio::test]
async fn the_units_of_a_long_window_are_usable_within_a_second() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 35).await;
    fixture.submit("b", 35).await;
    let plan = plan(&[(30, 1_500)]);
    let second = connect(&fixture.server).await;
    let (one, two) = tokio::join!(drain(&fixture.store, "one", &plan), drain(&second, "two", &plan),);
    let starts = [one, two].concat();
    let mut starts: Vec<Start> = starts.into_iter().map(|(start, _)| start).collect();
    assert_eq!(starts.len(), 70);
    assert!(most_in_window(&mut starts, 1_500_000) <= 30);
    let after = |nth: usize| starts[nth].0 - starts[0].0;
    assert!(after(29) <= 1_050_000, "{}", after(29));
    // Twice the window with its guard, and a third of a second for the last ten.
    assert!(after(69) <= 2 * 1_525_000 + 430_000, "{}", after(69));
    fixture.assert_balanced().await;
}

// The usage of a long window survives claims one at a time, and is forgotten with it.
#[tokio::test]
async fn the_usage_of_a_long_window_is_stored_while_it_counts() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 40).await;
    let plan = SharedLimits {
        horizon: Duration::from_millis(1_200),
        ..plan(&[(20, 1_200)])
    };
    let mut given = 0;
    let wait = loop {
        let claims = claim(&fixture.store, "one", 1, Some(plan.clone())).await;
        if claims.jobs.is_empty() {
            break claims.next.expect("a wait");
        }
        given += 1;
    };
    assert_eq!(given, 20);
    assert!(wait <= Duration::from_millis(100), "{wait:?}");
    let key = "{outflow}:u:L0 api";
    let left = fixture.server.command(&["PTTL", key]).expect("asked");
    let left: u64 = left.trim().parse().expect("a time");
    assert!((1_200..=5_000).contains(&left), "{left}");
}

// Of ten jobs only every other can still start. The others leave no gap in the five in 1.2 s,
// wherever they are in the order.
#[tokio::test]
async fn jobs_that_do_not_start_use_no_quota() {
    let fixture = RedisFixture::new().await;
    let late = outflow_core::WallTime::since_epoch(Duration::from_secs(1));
    let jobs = (0..10).map(|n: usize| NewJob {
        deadline: n.is_multiple_of(2).then_some(late),
        ..job("a", n)
    });
    let jobs = fixture.store.submit(SubmitBatch::from_jobs(jobs.collect())).await;
    jobs.expect("submitted");
    let plan = SharedLimits {
        horizon: Duration::from_secs(1),
        ..plan(&[(5, 1_200)])
    };
    let claims = claim(&fixture.store, "one", 10, Some(plan)).await;
    assert_eq!((claims.jobs.len(), claims.expired), (5, 5));
    let starts: Vec<_> = claims.jobs.iter().map(|job| job.starts_in).collect();
    let apart = |n: u32| Duration::from_millis(200) * n;
    for (n, start) in (0..).zip(&starts) {
        assert!(start.abs_diff(apart(n)) < Duration::from_millis(1), "{starts:?}");
    }
}

// Two lanes, and 20 in 200 ms for both together.
#[tokio::test]
async fn lanes_share_a_common_limit() {
    let fixture = RedisFixture::new().await;
    let other = |n| NewJob {
        lane: name("other"),
        ..job("b", n)
    };
    fixture.submit("a", 30).await;
    let others = fixture
        .store
        .submit(SubmitBatch::from_jobs((0..30).map(other).collect()));
    others.await.expect("submitted");
    let of = |lane: &str| {
        let mut plan = plan(&[(100, 200), (20, 200)]);
        plan.limits[0].name = format!("L0 {lane}");
        plan.limits[1].name = "A".to_owned();
        plan
    };
    let (api, other) = (of("api"), of("other"));
    let (one, two) = tokio::join!(
        drain_lane(&fixture.store, ("one", "api"), &api),
        drain_lane(&fixture.store, ("two", "other"), &other),
    );
    let starts = [one, two].concat();
    let mut starts: Vec<Start> = starts.into_iter().map(|(start, _)| start).collect();
    assert_eq!(starts.len(), 60);
    assert!(most_in_window(&mut starts, 200_000) <= 20);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn unused_quota_expires() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 100).await;
    let plan = SharedLimits {
        horizon: Duration::ZERO,
        ..plan(&[(10, 100)])
    };
    assert_eq!(claim(&fixture.store, "one", 50, Some(plan.clone())).await.jobs.len(), 1);
    tokio::time::sleep(Duration::from_millis(150)).await;
    let claims = claim(&fixture.store, "one", 50, Some(plan)).await;
    assert_eq!(claims.jobs.len(), 1, "no burst after a pause");
    let next = claims.next.expect("a slot");
    assert!(next <= Duration::from_micros(12_500), "{next:?}");
}

#[tokio::test]
async fn a_throttled_lane_waits_and_a_throttled_tenant_lets_others_go() {
    let fixture = RedisFixture::new().await;
    fixture.submit("a", 2).await;
    fixture.submit("b", 2).await;
    let jobs = fixture.claim(2).await.jobs;
    let wait = |park| outflow_store::JobEnd::Throttled {
        after: Duration::from_millis(60),
        cooldown: park,
    };
    let (a, b) = (&jobs[0], &jobs[1]);
    fixture
        .settle(vec![end(a, wait(outflow_store::CooldownScope::Tenant)), done(b)])
        .await;
    let claims = fixture.claim(4).await;
    assert_eq!(payloads(&claims.jobs), ["b-1"]);
    let next = claims.next.expect("a tenant returns");
    assert!(
        next <= Duration::from_millis(60) && next > Duration::from_millis(5),
        "{next:?}"
    );
    tokio::time::sleep(next).await;
    let jobs = fixture.claim(4).await.jobs;
    assert_eq!(payloads(&jobs), ["a-0", "a-1"]);
    fixture.submit("c", 1).await;
    fixture
        .settle(vec![end(&jobs[0], wait(outflow_store::CooldownScope::Lane))])
        .await;
    let claims = fixture.claim(4).await;
    assert!(claims.jobs.is_empty());
    tokio::time::sleep(claims.next.expect("the lane opens")).await;
    assert_eq!(fixture.claim(4).await.jobs.len(), 2);
    fixture.assert_balanced().await;
}
