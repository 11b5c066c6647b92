//! The engine's series on the client's metrics page, and its alerts.

use std::time::Duration;

use outflow::core::CongestionAlert;
use outflow_bulk::{BulkEvent, EngineSettings, SchedulerKind};
use tokio::sync::broadcast::error::RecvError;

use super::support::{Plan, get, gets, value};

fn at_ten_a_second(settings: &mut EngineSettings) {
    settings.global_rate = 10;
    settings.workers.min = Some(20);
}

// 600 jobs at ten a second: the computed wait of the last is 61 seconds, more than 30 times the base.
#[tokio::test(start_paused = true)]
async fn a_tenant_has_series_only_while_it_has_jobs() {
    let world = Plan::limited("10/s").start().await;
    world.submit("a", gets("acme", 600)).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let level = |level: &str| {
        let series = format!("bulk_action_congestion_level{{groupId=\"acme\",level=\"{level}\"}}");
        value(&world, &series)
    };
    assert_eq!((level("CRITICAL"), level("NONE")), (Some(1.0), Some(0.0)));
    let waiting = value(&world, "bulk_action_congestion_non_ready_count{groupId=\"acme\"}");
    let queued = value(&world, "outflow_bulk_jobs{state=\"queued\"}");
    assert_eq!(waiting, queued);
    assert!(
        waiting.is_some_and(|jobs| (500.0..600.0).contains(&jobs)),
        "{waiting:?}"
    );
    let backoffs = "bulk_action_congestion_backoff_ms_count{groupId=\"acme\"}";
    assert_eq!(value(&world, backoffs), Some(600.0));
    world.finished("a").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let page = world.metrics.render();
    assert!(!page.contains("groupId"), "{page}");
    for (series, expected) in [
        ("outflow_bulk_settled_total{how=\"done\"}", 600.0),
        ("outflow_bulk_settled_total{how=\"put_off\"}", 0.0),
        ("outflow_bulk_jobs{state=\"queued\"}", 0.0),
        ("outflow_bulk_jobs{state=\"in_flight\"}", 0.0),
        ("outflow_bulk_fenced_total", 0.0),
        ("outflow_bulk_reaped_total", 0.0),
        ("outflow_bulk_store_errors_total", 0.0),
        ("outflow_bulk_drift", 0.0),
        ("outflow_bulk_workers{state=\"busy\"}", 0.0),
    ] {
        assert_eq!(value(&world, series), Some(expected), "{series}");
    }
    // The sum of floor(position / 10) for the positions 1 to 600; no throttle is subtracted.
    let saved = value(&world, "bulk_action_congestion_saved_spins_total");
    assert_eq!(saved, Some(17_760.0));
    assert_eq!(world.engine.saved_spins(), 17_760);
}

// The formula counts only waits that were really given, and each is one throttle of a job.
#[tokio::test(start_paused = true)]
async fn every_deferral_counts_one_backoff() {
    let plan = Plan::limited("10/s").with(at_ten_a_second);
    let plan = plan.with(|settings| settings.scheduler = SchedulerKind::Backoff);
    let world = plan.start().await;
    world.submit("a", gets("acme", 100)).await;
    let report = world.finished("a").await;
    let deferred = value(&world, "outflow_bulk_settled_total{how=\"put_off\"}");
    let backoffs = "bulk_action_congestion_backoff_ms_count{groupId=\"acme\"}";
    assert_eq!(value(&world, backoffs), deferred);
    let throttles = u32::try_from(report.counts.throttles).expect("few");
    assert_eq!(deferred, Some(f64::from(throttles)));
    assert!(throttles > 0, "nothing was deferred");
}

// 4,000 jobs at ten a second: critical until fewer than 290 wait, which is after 371 seconds. Most computed
// waits are longer than two minutes, and none is cut off: the scheduler defers nothing.
#[tokio::test(start_paused = true)]
async fn a_lasting_critical_level_raises_an_alert_and_its_end_clears_it() {
    let world = Plan::limited("10/s").start().await;
    let mut events = world.engine.events();
    let begun = world.now();
    world.submit("a", gets("acme", 4_000)).await;
    let mut alerts = Vec::new();
    while alerts.len() < 2 {
        match events.recv().await {
            Ok(BulkEvent::Alert { alert, raised, tenant }) => {
                assert_eq!(tenant.as_str(), "acme");
                alerts.push((alert, raised, world.now().since(begun).as_secs()));
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => panic!("the engine is gone"),
        }
    }
    let order: Vec<_> = alerts.iter().map(|one| (one.0, one.1)).collect();
    let critical = CongestionAlert::Critical;
    assert_eq!(order, [(critical, true), (critical, false)], "{alerts:?}");
    assert!((300..=310).contains(&alerts[0].2), "{alerts:?}");
}

// 10,050 tenants with a job each, and after all of them by name one with 50: it has the most, and the sum
// includes every tenant. One call an hour: no count changes while the page is read.
#[tokio::test(start_paused = true)]
async fn the_largest_of_many_tenants_is_named_and_all_are_counted() {
    let world = Plan::limited("1/h").with(at_ten_a_second).start().await;
    let small = (0..10_050).map(|number| get(&format!("t{number:05}"), 0));
    let jobs = small.chain(gets("zz", 50));
    world.submit("a", jobs.collect()).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let page = world.metrics.render();
    let waiting: Vec<(&str, f64)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("bulk_action_congestion_non_ready_count{groupId="))
        .filter_map(|line| line.split_once("} "))
        .map(|(group, count)| (group, count.parse().expect("a number")))
        .collect();
    assert_eq!(waiting.len(), 101, "a hundred and the rest");
    assert!(waiting.contains(&("\"zz\"", 50.0)), "{waiting:?}");
    let all: f64 = waiting.iter().map(|(_, count)| count).sum();
    assert_eq!(Some(all), value(&world, "outflow_bulk_jobs{state=\"queued\"}"));
    assert!(all > 10_000.0, "{all}");
}
