//! What the engine tells of itself on the client's page, and whom it calls.

use std::time::Duration;

use outflow::core::CongestionAlert;
use outflow_bulk::{BulkEvent, EngineSettings, SchedulerKind};
use tokio::sync::broadcast::error::RecvError;

use super::support::{Plan, get, gets, value};

fn at_ten_a_second(settings: &mut EngineSettings) {
    settings.global_rate = 10;
    settings.workers.min = 20;
}

// 600 jobs at ten a second: the last is reckoned to wait 61 seconds, which is more than 30 times the base.
#[tokio::test(start_paused = true)]
async fn a_tenant_is_on_the_page_while_it_has_work_and_not_after() {
    let world = Plan::limited("10/s").with(at_ten_a_second).start().await;
    world.submit("a", gets("acme", 600)).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let level = |level: &str| {
        let series = format!("bulk_action_congestion_level{{groupId=\"acme\",level=\"{level}\"}}");
        value(&world, &series)
    };
    assert_eq!((level("CRITICAL"), level("NONE")), (Some(1.0), Some(0.0)));
    let waiting = value(
        &world,
        "bulk_action_congestion_non_ready_count{groupId=\"acme\"}",
    );
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
    // The sum of floor(place / 10) for the places 1 to 600, less no refusal at all.
    let saved = value(&world, "bulk_action_congestion_saved_spins_total");
    assert_eq!(saved, Some(17_760.0));
}

// Under the formula a wait is one that really was given, and each is one throttle of a job.
#[tokio::test(start_paused = true)]
async fn waits_that_were_given_are_counted_as_often_as_jobs_were_put_off() {
    let plan = Plan::limited("10/s").with(at_ten_a_second);
    let plan = plan.with(|settings| settings.scheduler = SchedulerKind::Backoff);
    let world = plan.start().await;
    world.submit("a", gets("acme", 100)).await;
    let report = world.finished("a").await;
    let put_off = value(&world, "outflow_bulk_settled_total{how=\"put_off\"}");
    let backoffs = "bulk_action_congestion_backoff_ms_count{groupId=\"acme\"}";
    assert_eq!(value(&world, backoffs), put_off);
    let throttles = u32::try_from(report.tally.throttles).expect("few");
    assert_eq!(put_off, Some(f64::from(throttles)));
    assert!(throttles > 0, "nothing was put off");
}

// 4,000 jobs at ten a second: critical until fewer than 290 wait, which is after 371 seconds; and most were
// reckoned to wait for longer than two minutes.
#[tokio::test(start_paused = true)]
async fn somebody_is_called_when_it_stays_critical_and_told_when_it_is_over() {
    let world = Plan::limited("10/s").with(at_ten_a_second).start().await;
    let mut news = world.engine.events();
    let begun = world.now();
    world.submit("a", gets("acme", 4_000)).await;
    let mut told = Vec::new();
    while told.len() < 4 {
        match news.recv().await {
            Ok(BulkEvent::Alert {
                alert,
                raised,
                tenant,
            }) => {
                assert_eq!(tenant.as_str(), "acme");
                told.push((alert, raised, world.now().since(begun).as_secs()));
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => panic!("the engine is gone"),
        }
    }
    let order: Vec<_> = told.iter().map(|one| (one.0, one.1)).collect();
    assert_eq!(
        order.first_chunk(),
        Some(&[
            (CongestionAlert::Capped, true),
            (CongestionAlert::Critical, true)
        ]),
        "{told:?}"
    );
    let critical = told.iter().find(|one| one.0 == CongestionAlert::Critical);
    assert!(
        critical.is_some_and(|one| (300..=310).contains(&one.2)),
        "{told:?}"
    );
    assert!(told.iter().skip(2).all(|one| !one.1), "{told:?}");
}

// 10,050 tenants with a job each, and after all of them by name one with 50: it has the most, and nobody
// is left out of the sum. One call an hour: nothing moves while the page is read.
#[tokio::test(start_paused = true)]
async fn the_largest_of_very_many_tenants_is_named_and_all_are_counted() {
    let world = Plan::limited("1/h").with(at_ten_a_second).start().await;
    let small = (0..10_050).map(|number| get(&format!("t{number:05}"), 0));
    let orders = small.chain(gets("zz", 50));
    world.submit("a", orders.collect()).await;
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
    assert_eq!(
        Some(all),
        value(&world, "outflow_bulk_jobs{state=\"queued\"}")
    );
    assert!(all > 10_000.0, "{all}");
}
