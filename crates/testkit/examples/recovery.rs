//! Plays the scenarios of recovery and prints their figures.
//!
//! `cargo run -p outflow-testkit --features client --example recovery -- LIMITS MILLISECONDS [SCENARIO] [PHASE]`: with a
//! scenario it prints its run, too.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_testkit::recovery::{RecoveryPlan, RecoveryScenario, RunRecord};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| words.get(index).map(String::as_str);
    let limits: Vec<&'static str> = match word(0) {
        Some("5/s") => vec!["5/s"],
        Some("500/min") => vec!["500/min"],
        Some("50/s+100/min") => vec!["50/s", "100/min"],
        _ => vec!["35/s"],
    };
    let latency = Duration::from_millis(word(1).and_then(|word| word.parse().ok()).unwrap_or(50));
    let phase = Duration::from_millis(word(3).and_then(|word| word.parse().ok()).unwrap_or(0));
    let by_minute = limits.iter().any(|limit| limit.ends_with("min"));
    for scenario in RecoveryScenario::all(by_minute, phase) {
        if word(2).is_some_and(|wanted| !scenario.name.contains(wanted)) {
            continue;
        }
        let plan = RecoveryPlan::new(&limits, latency, scenario);
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime")
        };
        if word(2).is_some() {
            show("busy", &runtime().block_on(plan.run_busy()));
            show("open", &runtime().block_on(plan.run_open()));
        }
        let began = std::time::Instant::now();
        let figures = runtime().block_on(plan.run());
        println!("{:32} {figures} [{:.1} s]", plan.scenario.name, began.elapsed().as_secs_f64());
    }
}

fn show(load: &str, run: &RunRecord) {
    for (at, what) in run.moves.iter().take(60) {
        println!("  {at:8.2} {:?} -> {:?} ({:?})", what.from, what.to, what.reason);
    }
    for (at, drift) in run.drifts.iter().take(60) {
        let words = drift.map_or("as configured".to_owned(), |drift| drift.to_string());
        println!("  {at:8.2} {words}");
    }
    println!("{load} good {:?}", RunRecord::by_second(&run.good));
    println!("{load} sent {:?}", RunRecord::by_second(&run.sent));
    println!("{load} refused {:?}", RunRecord::by_second(&run.refused));
    let failed: Vec<f64> = run.failed.iter().map(|call| call.over.as_secs_f64()).collect();
    println!("{load} failed {:?}", RunRecord::by_second(&failed));
    let mut reasons = BTreeMap::new();
    for call in &run.failed {
        let words = call.why.split(';').next().unwrap_or_default();
        *reasons.entry(words).or_insert(0) += 1;
    }
    println!("{load} failed {reasons:?}");
}
