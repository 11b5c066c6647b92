//! The Prometheus page, and the JSON line without Prometheus.

mod strict_parser;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::sample_events::{self, event};
use outflow::core::{HealthState, OutcomeCounts, WallTime};
use outflow::event::{CallFinished, EventKind};
use outflow::metrics::{ApiLabels, GaugeSnapshot, GaugeSource, Metrics};
use outflow::{Event, Observer, Refusal, RefusalReason, ndjson};
use smol_str::{SmolStr, format_smolstr};

/// Gauges of an API in trouble.
struct SickApi;

impl GaugeSource for SickApi {
    fn read(&self, report: &mut dyn FnMut(&str, GaugeSnapshot)) {
        let counts = OutcomeCounts {
            success: 40,
            throttled: 5,
            server: 3,
            network: 1,
            other: 1,
        };
        let reading = GaugeSnapshot {
            state: HealthState::Sleep,
            counts,
            error_ppm: 200_000,
            rate: 17.5,
            concurrency: 2,
            waiting: 9,
            in_flight: 1,
        };
        report("tmdb", reading);
        report("not configured", reading);
    }

    fn lines_dropped(&self) -> u64 {
        6
    }
}

fn tmdb() -> Metrics {
    Metrics::new([ApiLabels::new("tmdb", ["movies"])])
}

fn observed(events: impl IntoIterator<Item = Event>) -> Metrics {
    let metrics = tmdb();
    for event in events {
        metrics.observe(&event);
    }
    metrics
}

/// Returns the samples of a page that are neither zero nor buckets.
fn counted(page: &str) -> Vec<String> {
    page.lines()
        .filter(|line| !line.starts_with('#') && !line.contains("_bucket{"))
        .filter(|line| !line.ends_with(" 0") && !line.ends_with(" 0.0"))
        .map(str::to_owned)
        .collect()
}

// One event of every kind and a gauge source: the page shows exactly this.
#[test]
fn every_event_is_counted_where_it_belongs() {
    let mut events = sample_events::every("movies");
    for event in &mut events {
        event.api = "tmdb".into();
    }
    let metrics = observed(events);
    metrics.add_source(Arc::new(SickApi));
    let expected: Vec<_> = include_str!("metrics/counted.txt").lines().collect();
    assert_eq!(counted(&metrics.render()), expected);
}

// All series of an API without groups, zeros included, without histogram buckets.
#[test]
fn every_series_exists_before_the_first_event() {
    let page = Metrics::new([ApiLabels::new("tmdb", [])]).render();
    let shown: Vec<_> = page
        .lines()
        .filter(|line| !line.contains("api=\"other\"") && !line.contains("_bucket{"))
        .collect();
    let expected: Vec<_> = include_str!("metrics/empty.txt").lines().collect();
    assert_eq!(shown, expected);
}

#[test]
fn the_page_obeys_every_rule_of_its_format() {
    let hostile = "a\"b\\c\nd{}= # x";
    let metrics = Metrics::new([ApiLabels::new(hostile, [hostile]), ApiLabels::new("tmdb", [])]);
    metrics.add_source(Arc::new(SickApi));
    for text in [hostile, "tmdb", "unknown"] {
        for event in sample_events::every(text) {
            metrics.observe(&event);
        }
    }
    let series = strict_parser::check(&metrics.render());
    assert!(series.len() > 700, "{} series", series.len());
}

// A million paths, names and codes, each a chance for a new series.
#[test]
fn no_caller_can_add_a_series() {
    let metrics = observed(sample_events::every("movies"));
    for code in 0..1_000 {
        let attempt = outflow::core::AttemptReport::status(code);
        let what = sample_events::settled("x", attempt, outflow::core::OutcomeClass::Success);
        metrics.observe(&event("x", what));
    }
    let before = strict_parser::check(&metrics.render());
    for number in 0..1_000_000_u32 {
        let name = format_smolstr!("/n/{number}");
        let finished = CallFinished {
            path: name.clone(),
            group: name.clone(),
            request_id: name.clone(),
            ..sample_events::finished("x")
        };
        let api = if number % 2 == 0 { "tmdb" } else { &*name };
        metrics.observe(&event(api, EventKind::Finished(Box::new(finished))));
        let refusal = Refusal {
            reason: RefusalReason::UnknownGroup(name.clone()),
            retry_after: None,
        };
        let waited = std::time::Duration::ZERO;
        let refused = EventKind::Refused {
            group: name.clone(),
            endpoint: Some(name.clone()),
            refusal,
            waited,
        };
        metrics.observe(&event(api, refused));
    }
    let after = strict_parser::check(&metrics.render());
    assert_eq!(before, after, "the names of series");
    let codes = after.iter().filter(|name| name.contains("code=")).count();
    assert_eq!(codes, 502, "each of HTTP, one for the rest, one for none");
}

// The names are written twice: at their definition and in the counters.
#[test]
fn every_reason_and_cause_has_its_own_series() {
    use outflow::core::{HealthTransition, Nanos, Rate, TransitionFigures, TransitionReason};
    use outflow::{StateCause, WaitReason};
    let metrics = tmdb();
    let reasons = [
        TransitionReason::ErrorRatio,
        TransitionReason::Streak,
        TransitionReason::RetryAfter,
        TransitionReason::Banned,
        TransitionReason::ErrorRatioHeld,
        TransitionReason::SuccessWindowOk,
        TransitionReason::SleepOver,
        TransitionReason::ProbesOk,
        TransitionReason::ProbesAnswered,
        TransitionReason::ProbeFailed,
        TransitionReason::ProbeTimedOut,
        TransitionReason::RecoveriesExhausted,
        TransitionReason::AutoRecover,
        TransitionReason::Forced,
        TransitionReason::Released,
    ];
    for reason in reasons {
        let transition = HealthTransition {
            from: HealthState::Normal,
            to: HealthState::Sleep,
            reason,
            at: Nanos::ZERO,
            until: None,
            figures: TransitionFigures::default(),
        };
        let (group, vitals) = (None, sample_events::vitals());
        metrics.observe(&event(
            "tmdb",
            EventKind::Moved {
                group,
                transition,
                vitals,
            },
        ));
    }
    let limit = Rate::per_second(1).expect("not zero");
    for cause in [
        RefusalReason::TooLate(WaitReason::Turn),
        RefusalReason::Never { limit },
        RefusalReason::Busy(WaitReason::Turn),
        RefusalReason::Blocked(Box::new(StateCause::new(HealthState::Sleep))),
        RefusalReason::QueueFull,
        RefusalReason::UnknownGroup(SmolStr::default()),
        RefusalReason::ShuttingDown,
        RefusalReason::Removed,
    ] {
        let refusal = Refusal {
            reason: cause,
            retry_after: None,
        };
        let refused = EventKind::Refused {
            group: "movies".into(),
            endpoint: None,
            refusal,
            waited: std::time::Duration::ZERO,
        };
        metrics.observe(&event("tmdb", refused));
    }
    let page = metrics.render();
    let ones = |name: &str| {
        page.lines()
            .filter(|line| line.starts_with(name) && line.ends_with(" 1"))
            .filter(|line| !line.contains("=\"other\"}"))
            .count()
    };
    assert_eq!(ones("outflow_transitions_total{"), 15, "{page}");
    assert_eq!(ones("outflow_refused_total{"), 8, "{page}");
    assert!(page.contains("external_circuit_state{api=\"tmdb\",state=\"OPEN\"} 1.0\n"));
    assert!(page.contains("external_circuit_state{api=\"tmdb\",state=\"CLOSED\"} 0.0\n"));
}

#[test]
fn counters_survive_a_new_configuration() {
    let metrics = observed(sample_events::every("movies"));
    metrics.observe(&event("tmdb", sample_events::permits("movies")[1].clone()));
    metrics.register([ApiLabels::new("tmdb", ["shows"]), ApiLabels::new("github", [])]);
    metrics.observe(&event("tmdb", sample_events::permits("shows")[1].clone()));
    let page = metrics.render();
    for series in [
        "outflow_admitted_total{api=\"tmdb\",group=\"movies\"} 1\n",
        "outflow_admitted_total{api=\"tmdb\",group=\"shows\"} 1\n",
        "outflow_admitted_total{api=\"github\",group=\"default\"} 0\n",
        "outflow_admitted_total{api=\"other\",group=\"other\"} 1\n",
    ] {
        assert!(page.contains(series), "{series} in {page}");
    }
}

#[test]
fn no_count_is_lost_between_threads() {
    let metrics = tmdb();
    let admitted = event("tmdb", sample_events::permits("movies")[1].clone());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| metrics.observe(&admitted)));
        }
    });
    let page = metrics.render();
    assert!(page.contains("outflow_admitted_total{api=\"tmdb\",group=\"movies\"} 40000\n"));
    assert!(page.contains("external_ratelimit_wait_seconds_count{api=\"tmdb\"} 40000\n"));
    assert!(page.contains("external_ratelimit_wait_seconds_sum{api=\"tmdb\"} 10000.0\n"));
}

#[test]
fn the_json_line_holds_the_same_numbers() {
    let mut events = sample_events::every("movies");
    for event in &mut events {
        event.api = "tmdb".into();
    }
    let metrics = observed(events);
    metrics.add_source(Arc::new(SickApi));
    let line = ndjson::snapshot_line(&metrics, WallTime::from_unix_secs(sample_events::NOON));
    assert_eq!(line.matches('\n').count(), 1);
    let read: serde_json::Value = serde_json::from_str(&line).expect("valid");
    assert_eq!(read["ts"], "2024-05-01T10:00:00.000Z");
    let tmdb = &read["apis"]["tmdb"];
    let names: BTreeSet<_> = tmdb.as_object().expect("an object").keys().collect();
    assert_eq!(names.len(), 12, "{names:?}");
    assert_eq!(tmdb["requests_total"]["429"], 1);
    assert_eq!(tmdb["requests_total"]["none"], 1);
    assert_eq!(tmdb["cache_hits_total"], 1);
    assert_eq!(tmdb["cache_miss_total"], 0);
    assert_eq!(tmdb["count_429"], 5);
    assert_eq!(tmdb["count_other"], 2);
    assert_eq!(tmdb["rate_current"], 17.5);
    assert_eq!(tmdb["err_rate_30s"], 0.2);
    assert_eq!(tmdb["latency_ms"]["count"], 2);
    assert_eq!(tmdb["latency_ms"]["buckets"]["25"], 0);
    assert_eq!(tmdb["latency_ms"]["buckets"]["50"], 2);
    assert_eq!(tmdb["latency_ms"]["buckets"]["+Inf"], 2);
    assert_eq!(tmdb["sleep_ms"]["sum"], 2_900.0);
}
