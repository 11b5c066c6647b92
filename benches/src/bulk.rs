//! `bulk`: jobs of several tenants through an API that throttles early calls.
//!
//! Every contender has its own mock API on a real socket for every scenario. The mock counts by arrival and
//! records each call, so its audit decides. A contender itself reports only its duration and its deferrals.
//! Rates of this size leave the machine idle, so scenarios run concurrently while they need less than
//! [`MAX_CALLS_PER_SECOND`] calls a second together. Larger ones run alone, and so does the scenario with a
//! loaded host. Short scenarios have three rounds; every contender runs in each.
//!
//! A contender is one file that implements [`Contender`] and a line in [`contenders`].

mod bench_run;
mod bullmq;
mod contender;
mod judge;
mod load;
mod ours;
mod rows;
mod scenario;

use std::io;

use tokio::runtime::Runtime;

use crate::clock;
use crate::figure::Figure;
use crate::measure::Plan;
use crate::tasks::Flavour;
use bench_run::BenchRun;
use contender::Contender;
use rows::Runs;
use scenario::{Host, Scenario, TimeScale};

/// Runs every scenario, `scale` times as fast as stated.
pub(crate) fn figures(plan: Plan, scale: u64) -> Vec<Figure> {
    clock::since_begin();
    let scale = if plan.is_thorough() {
        TimeScale::scaled(scale)
    } else {
        TimeScale::QUICK
    };
    let runs = Flavour::Multi.runtime().and_then(|runtime| all(&runtime, scale));
    match runs {
        Ok(runs) => rows::figures(&runs, scale),
        Err(why) => vec![Figure::missing("bulk", "", &format!("missing: {why}"))],
    }
}

/// Runs every scenario with every contender that takes it, in rounds; the last contender of a round starts the
/// next one.
fn all(runtime: &Runtime, scale: TimeScale) -> io::Result<Runs> {
    let mut runs = Runs::default();
    let mut here = contenders(&mut runs);
    let scenarios = Scenario::all(scale);
    let rounds = scenarios.iter().map(|scenario| scenario.rounds).max();
    for number in 0..rounds.unwrap_or(0) {
        let again = scenarios.iter().filter(|s| s.rounds > number);
        round(runtime, again, &here, &mut runs)?;
        here.rotate_right(1);
    }
    Ok(runs)
}

/// Runs each of these scenarios once with every contender that takes it.
fn round<'a>(
    runtime: &Runtime,
    scenarios: impl Iterator<Item = &'a Scenario>,
    here: &[Box<dyn Contender>],
    runs: &mut Runs,
) -> io::Result<()> {
    let pairs = scenarios.flat_map(|scenario| {
        let willing = here.iter().filter(|contender| contender.takes(scenario));
        willing.map(move |contender| (scenario, contender.as_ref()))
    });
    let mut waiting = pairs.peekable();
    while waiting.peek().is_some() {
        let (mut heat, mut taken) = (Vec::new(), 0);
        while let Some((scenario, contender)) =
            waiting.next_if(|(next, _)| heat.is_empty() || taken + load_share(next) <= MAX_CALLS_PER_SECOND)
        {
            taken += load_share(scenario);
            heat.push(BenchRun::begin(runtime, scenario, contender)?);
        }
        for bench_run in heat {
            let verdict = bench_run.finish()?;
            eprintln!("{verdict}");
            runs.add(verdict);
        }
    }
    Ok(())
}

/// Returns the part of [`MAX_CALLS_PER_SECOND`] that a scenario takes; a loaded host leaves none.
fn load_share(scenario: &Scenario) -> u64 {
    match scenario.host {
        Host::Shared => scenario.calls_per_second(),
        Host::Loaded => MAX_CALLS_PER_SECOND.max(scenario.calls_per_second()),
    }
}

/// Returns the contenders that run here and reports the missing ones.
fn contenders(runs: &mut Runs) -> Vec<Box<dyn Contender>> {
    let mut here: Vec<Box<dyn Contender>> = Vec::new();
    for ours in ours::Ours::all() {
        here.push(Box::new(ours));
    }
    match bullmq::BullMq::installed() {
        Ok(peer) => here.push(Box::new(peer)),
        Err(why) => {
            eprintln!("SKIPPED without {}: {why}", bullmq::NAME);
            runs.missing.push(bullmq::NAME);
        }
    }
    here
}

/// Calls a second that two cores send, answer and record without delay.
const MAX_CALLS_PER_SECOND: u64 = 2_000;
