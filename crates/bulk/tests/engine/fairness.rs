//! Order of the tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outflow::core::{Priority, Weight};
use outflow_bulk::{HandlerTask, JobSpec};
use outflow_mock::Script;
use outflow_store::{TenantRule, TenantStore};

use super::support::{Plan, World, arrivals, get, gets, name};

fn weight_rule(weight: u32) -> TenantRule {
    TenantRule {
        weight: Weight::new(weight).expect("a weight"),
        ..TenantRule::default()
    }
}

/// Counts a tenant's calls that arrived by this time.
fn arrived_by(world: &World, tenant: &str, then: Duration) -> usize {
    let ends = arrivals(&world.mock, tenant);
    ends.iter().filter(|at| **at < then).count()
}

// 30 a second by 3 : 2 : 1 is 15, 10 and 5: after ten seconds 150, 100 and 50, each within the contents of the
// windows at both ends.
#[tokio::test(start_paused = true)]
async fn tenants_share_by_their_weights() {
    let world = Plan::limited("30/s")
        .with(|settings| {
            for (tenant, weight) in [("a", 3), ("b", 2), ("c", 1)] {
                settings.tenants.insert(name(tenant), weight_rule(weight));
            }
        })
        .start()
        .await;
    let jobs = ["a", "b", "c"].into_iter().flat_map(|one| gets(one, 400));
    world.submit("weights", jobs.collect()).await;
    world
        .time
        .reaches(world.now().saturating_add(Duration::from_secs(10)))
        .await;
    let seconds = Duration::from_secs(10);
    let [a, b, c] = ["a", "b", "c"].map(|one| arrived_by(&world, one, seconds));
    assert!(a.abs_diff(3 * c) <= 3, "{a} {b} {c}");
    assert!(b.abs_diff(2 * c) <= 2, "{a} {b} {c}");
    assert!((297..=330).contains(&(a + b + c)), "{a} {b} {c}");
}

// Twenty thousand wait. Ten come later and each starts within two rounds: at 10 a second all are done after two
// seconds and a window.
#[tokio::test(start_paused = true)]
async fn one_tenants_many_jobs_do_not_delay_anothers_few() {
    let world = Plan::limited("10/s").start().await;
    world.submit("many", gets("big", 20_000)).await;
    world
        .time
        .reaches(world.now().saturating_add(Duration::from_secs(30)))
        .await;
    let before = world.mock.audit().count();
    world.submit("few", gets("small", 10)).await;
    world.finished("few").await;
    let audit = world.mock.audit();
    let later = audit.arrivals().iter().skip(before);
    let position = |wanted: &str| {
        let mut places = later.clone().enumerate();
        let path = format!("/{wanted}/");
        let found = places.find(|(_, one)| one.path.starts_with(&path));
        found.map(|(position, _)| position)
    };
    assert!(position("small").expect("it came") <= 3, "{:?}", position("small"));
    let all = audit.arrivals().iter().skip(before).take(23);
    let small = all.filter(|one| one.path.starts_with("/small/")).count();
    assert_eq!(small, 10);
}

// Low jobs get one start in 21 among high and normal ones of the same tenant, so they are done long before the
// others end.
#[tokio::test(start_paused = true)]
async fn low_priority_never_starves() {
    let world = Plan::limited("10/s").start().await;
    let mut jobs = Vec::new();
    for number in 0..420 {
        let mut job = get("t", number);
        job.priority = match number % 21 {
            0 => Priority::Low,
            1..=4 => Priority::Normal,
            _ => Priority::High,
        };
        jobs.push(job);
    }
    // The low jobs come first in the file; they must not start first, nor last.
    jobs.sort_by_key(|job| job.priority != Priority::Low);
    world.submit("classes", jobs).await;
    world
        .time
        .reaches(world.now().saturating_add(Duration::from_secs(20)))
        .await;
    let audit = world.mock.audit();
    let low = |one: &&outflow_mock::Arrival| {
        let number = one.path.rsplit('/').next().and_then(|text| text.parse::<u32>().ok());
        number.is_some_and(|number| number % 21 == 0)
    };
    let served = audit.arrivals().iter().filter(low).count();
    assert!((8..=12).contains(&served), "{served} of {}", audit.count());
}

// A cap of 2 a second on one of three: it gets 2, and the others share the rest.
#[tokio::test(start_paused = true)]
async fn a_capped_tenant_leaves_the_rest_to_the_others() {
    let world = Plan::limited("30/s")
        .with(|settings| {
            let capped = super::support::rate_rule("2/s");
            settings.tenants.insert(name("c"), capped);
        })
        .start()
        .await;
    let jobs = ["a", "b", "c"].into_iter().flat_map(|one| gets(one, 300));
    world.submit("capped", jobs.collect()).await;
    world
        .time
        .reaches(world.now().saturating_add(Duration::from_secs(10)))
        .await;
    let ten = Duration::from_secs(10);
    let [a, b, c] = ["a", "b", "c"].map(|one| arrived_by(&world, one, ten));
    assert!((18..=22).contains(&c), "{a} {b} {c}");
    assert!(a.abs_diff(b) <= 2, "{a} {b} {c}");
    assert!((297..=330).contains(&(a + b + c)), "{a} {b} {c}");
}

// Ten tasks of a second each, one at a time, of a tenant without a section of its own.
#[tokio::test(start_paused = true)]
async fn the_default_rule_limits_jobs_in_flight() {
    let (running, max) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&max));
    let world = Plan::scripted(Script::new())
        .with(|settings| settings.tenant.in_flight = Some(1))
        .start_with(|builder| {
            builder.handler("slow", move |task: HandlerTask| {
                let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
                async move {
                    let begun = now.fetch_add(1, Ordering::Relaxed) + 1;
                    peak.fetch_max(begun, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    now.fetch_sub(1, Ordering::Relaxed);
                    Ok(task.payload)
                }
            })
        })
        .await;
    let task = || JobSpec::task(name("t"), "slow", bytes::Bytes::new());
    let begun = world.now();
    world.submit("singly", (0..10).map(|_| task()).collect()).await;
    assert_eq!(world.finished("singly").await.counts.done, 10);
    assert_eq!(max.load(Ordering::Relaxed), 1);
    assert!(world.now().since(begun) >= Duration::from_secs(10));
}

// 3 : 1 of 40 a second for ten seconds, and 1 : 1 for ten more, each within the contents of the windows at both
// ends.
#[tokio::test(start_paused = true)]
async fn a_tenant_without_its_rule_gets_the_default_share() {
    let world = Plan::limited("40/s")
        .with(|settings| {
            settings.tenants.insert(name("a"), weight_rule(3));
        })
        .start()
        .await;
    let jobs = ["a", "b"].into_iter().flat_map(|one| gets(one, 900));
    world.submit("shares", jobs.collect()).await;
    let ten = Duration::from_secs(10);
    world.time.reaches(world.now().saturating_add(ten)).await;
    let first = ["a", "b"].map(|one| arrivals(&world.mock, one).len());
    assert!(first[0].abs_diff(3 * first[1]) <= 6, "{first:?}");
    let mut settings = (*world.engine.settings()).clone();
    settings.tenants.clear();
    world.engine.reconfigure(settings).await.expect("reconfigured");
    let report = world.store().tenant(&name("a")).await.expect("asked");
    let report = report.expect("known");
    assert_eq!((report.rule, report.ruled), (TenantRule::default(), false));
    world.time.reaches(world.now().saturating_add(ten)).await;
    let after = ["a", "b"].map(|one| arrivals(&world.mock, one).len());
    let [a, b] = [after[0] - first[0], after[1] - first[1]];
    assert!(a.abs_diff(b) <= 8, "{a} {b}");
}
