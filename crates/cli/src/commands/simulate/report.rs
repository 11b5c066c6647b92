//! Report of simulated scenarios, as tables or as JSON.
//!
//! It has no colours, so there is none to switch off.

use std::fmt::Write;

use outflow_simulate::{FluidModel, Network, RunFigures, Scenario};
use serde_json::{Value, json};

use crate::terminal::millis;

/// Results of all simulated scenarios.
#[derive(Debug)]
pub(super) struct SimReport {
    seed: u64,
    network: Network,
    scenarios: Vec<(Scenario, FluidModel, Vec<RunFigures>)>,
}

impl SimReport {
    pub(super) const fn new(seed: u64, network: Network) -> Self {
        Self {
            seed,
            network,
            scenarios: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, scenario: Scenario, outcomes: Vec<RunFigures>) {
        let ideal = FluidModel::from_scenario(&scenario);
        self.scenarios.push((scenario, ideal, outcomes));
    }

    /// Formats one table per scenario.
    pub(super) fn to_tables(&self) -> String {
        let mut text = format!(
            "Strict API that counts by arrival; {:?} each way and up to {:?} more; seed {}.\n{LEGEND}\n",
            self.network.latency, self.network.jitter, self.seed
        );
        for (scenario, ideal, outcomes) in &self.scenarios {
            let (name, summary) = (scenario.name, scenario.summary);
            let makespan = ideal.makespan();
            push(
                &mut text,
                format_args!("\n{name}: {summary} (ideal {makespan:.0} s)\n{}\n", header()),
            );
            for outcome in outcomes {
                push(&mut text, format_args!("{}\n", row(outcome)));
            }
            if (2..=MAX_LISTED).contains(&scenario.tenant_count()) {
                for outcome in outcomes {
                    push(&mut text, format_args!("{}\n", tenants_row(ideal, outcome)));
                }
            }
        }
        text
    }

    /// Returns one JSON document.
    pub(super) fn to_json(&self) -> Value {
        let scenarios: Vec<_> = self
            .scenarios
            .iter()
            .map(|(scenario, ideal, outcomes)| scenario_json(scenario, ideal, outcomes))
            .collect();
        json!({
            "seed": self.seed,
            "latency_ms": millis(self.network.latency),
            "jitter_ms": millis(self.network.jitter),
            "scenarios": scenarios,
        })
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}

fn header() -> String {
    columns([
        "scheduler",
        "makespan",
        "over ideal",
        "throttles/job",
        "refused",
        "peak",
        "Jain",
        "off share",
    ])
}

fn row(outcome: &RunFigures) -> String {
    columns([
        outcome.scheduler.to_string().as_str(),
        &format!("{:.1} s", outcome.makespan),
        &format!("{:+.1} %", outcome.over_ideal),
        &format!("{:.2}", outcome.throttles_per_job),
        &outcome.refused.to_string(),
        &format!("{:.2}", outcome.peak),
        &format!("{:.4}", outcome.jain),
        &format!("{:.1}", outcome.off_share),
    ])
}

/// Aligns the first cell to the left and the others to the right.
fn columns(cells: [&str; 8]) -> String {
    let [name, makespan, over, throttles, refused, peak, jain, off_share] = cells;
    format!("  {name:<18} {makespan:>9} {over:>10} {throttles:>13} {refused:>7} {peak:>5} {jain:>6} {off_share:>9}")
}

fn tenants_row(ideal: &FluidModel, outcome: &RunFigures) -> String {
    let mut text = format!("  {:<18} done:", outcome.scheduler.to_string());
    for (name, (done, ideal)) in ('A'..).zip(outcome.done.iter().zip(&ideal.done)) {
        push(&mut text, format_args!(" {name} {done:.1} s (ideal {ideal:.0})"));
    }
    text
}

fn scenario_json(scenario: &Scenario, ideal: &FluidModel, outcomes: &[RunFigures]) -> Value {
    json!({
        "name": scenario.name.to_string(),
        "summary": scenario.summary,
        "jobs": scenario.jobs(),
        "tenants": scenario.tenant_count(),
        "ideal_s": ideal.makespan(),
        "runs": outcomes.iter().map(|outcome| run_json(ideal, outcome)).collect::<Vec<_>>(),
    })
}

fn run_json(ideal: &FluidModel, outcome: &RunFigures) -> Value {
    let tenants = outcome.done.iter().zip(&ideal.done).take(MAX_LISTED);
    json!({
        "scheduler": outcome.scheduler.to_string(),
        "makespan_s": outcome.makespan,
        "over_ideal_percent": outcome.over_ideal,
        "throttles_per_job": outcome.throttles_per_job,
        "refused": outcome.refused,
        "peak_window": outcome.peak,
        "jain": outcome.jain,
        "off_share_jobs": outcome.off_share,
        "first_tenants": tenants
            .map(|(done, ideal)| json!({ "done_s": done, "ideal_s": ideal }))
            .collect::<Vec<_>>(),
    })
}

/// Meaning of the columns.
pub(super) const LEGEND: &str = "\
ideal: jobs divided by the rate, as a fluid; no lower bound, since the first window may go at once.
makespan: from the first submission to the end of the last job.
throttles/job: starts of a job that found no quota or were throttled, until it was done.
refused: throttled by the API. peak: the fullest window over its limit. Jain: at half time, against the ideal.
off share: the largest distance of a tenant from its share while all had work, in jobs.
backoff: all jobs arrive at once here, so most waits reach the maximum of two minutes and end together;
with a steady arrival of jobs it does better.";

/// Largest number of tenants that are listed one by one.
const MAX_LISTED: usize = 5;
