//! Plays the scenarios of recovery and prints their figures; with the name of a scenario its run, too.
//!
//! `cargo run -p outflow-testkit --features client --example recovery -- 35/s 50 "503 for"`

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_testkit::recovery::{RecoveryPlan, RecoveryScenario, RunRecord};
use tokio::runtime::{Builder, Runtime};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| words.get(index).map(String::as_str);
    let limits = limits(word(0).unwrap_or_default());
    let latency = Duration::from_millis(word(1).and_then(|word| word.parse().ok()).unwrap_or(50));
    let by_minute = limits.iter().any(|limit| limit.ends_with("min"));
    let is_wanted = |scenario: &RecoveryScenario| word(2).is_none_or(|name| scenario.name.contains(name));
    for scenario in RecoveryScenario::all(by_minute, Duration::ZERO) {
        if !is_wanted(&scenario) {
            continue;
        }
        let plan = RecoveryPlan::new(limits, latency, scenario);
        if word(2).is_some() {
            show("busy", &paused().block_on(plan.run_busy()));
            show("open", &paused().block_on(plan.run_open()));
        }
        println!("{:32} {}", plan.scenario.name, paused().block_on(plan.run()));
    }
}

fn limits(word: &str) -> &'static [&'static str] {
    match word {
        "5/s" => &["5/s"],
        "500/min" => &["500/min"],
        "50/s+100/min" => &["50/s", "100/min"],
        _ => &["35/s"],
    }
}

fn paused() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime")
}

fn show(load: &str, run: &RunRecord) {
    for (at, what) in &run.moves {
        println!("  {at:8.2} {:?} -> {:?} ({:?})", what.from, what.to, what.reason);
    }
    for (at, drift) in &run.drifts {
        let words = drift.map_or("as configured".to_owned(), |drift| drift.to_string());
        println!("  {at:8.2} {words}");
    }
    let failed: Vec<f64> = run.failed.iter().map(|call| call.over.as_secs_f64()).collect();
    for (what, times) in [
        ("good", &run.good),
        ("sent", &run.sent),
        ("refused", &run.refused),
        ("failed", &failed),
    ] {
        println!("{load} {what} {:?}", RunRecord::by_second(times));
    }
    let mut reasons = BTreeMap::new();
    for call in &run.failed {
        let words = call.why.split(';').next().unwrap_or_default();
        *reasons.entry(words).or_insert(0) += 1;
    }
    println!("{load} failed {reasons:?}");
}
