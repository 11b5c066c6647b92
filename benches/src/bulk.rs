//! `bulk`: jobs of several tenants through an API that refuses what is too early.
//!
//! Every contender has a strict API of its own on a real socket for every scenario, which counts by arrival
//! and remembers each call: it is the judge, and what a contender says of itself is only how long it took
//! and how often it was put off. Rates of this size leave the machine idle, so scenarios run at the same
//! time, as many as together ask for less than [`AT_ONCE`] calls a second; those that ask for more run alone,
//! and so does the one that is about a loaded host. What is short is done in three rounds: everybody does
//! everything once, and then everybody again.
//!
//! A contender of ours is one file that keeps to [`Contender`] and a line in [`contenders`].

mod bullmq;
mod contender;
mod judge;
mod load;
mod ours;
mod rows;
mod scenario;
mod stand;

use std::io;

use tokio::runtime::Runtime;

use crate::clock;
use crate::figure::Figure;
use crate::measure::Plan;
use crate::tasks::Flavour;
use contender::Contender;
use rows::Runs;
use scenario::{Host, Pace, Scenario};
use stand::Stand;

/// Everything that is promised about many jobs, `scale` times as fast as it is stated.
pub(crate) fn figures(plan: Plan, scale: u64) -> Vec<Figure> {
    clock::since_begin();
    let pace = if plan.is_thorough() {
        Pace::scaled(scale)
    } else {
        Pace::QUICK
    };
    let runs = Flavour::Multi
        .runtime()
        .and_then(|runtime| all(&runtime, pace));
    match runs {
        Ok(runs) => rows::told(&runs, pace),
        Err(why) => vec![Figure::missing("bulk", "", &format!("missing: {why}"))],
    }
}

/// Every scenario by everyone who takes it, in rounds; who went last goes first in the next one.
fn all(runtime: &Runtime, pace: Pace) -> io::Result<Runs> {
    let mut runs = Runs::default();
    let mut here = contenders(&mut runs);
    let scenarios = Scenario::all(pace);
    let rounds = scenarios.iter().map(|scenario| scenario.rounds).max();
    for number in 0..rounds.unwrap_or(0) {
        let again = scenarios.iter().filter(|s| s.rounds > number);
        round(runtime, again, &here, &mut runs)?;
        here.rotate_right(1);
    }
    Ok(runs)
}

/// Each of these scenarios once by everyone who takes it.
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
            waiting.next_if(|(next, _)| heat.is_empty() || taken + room(next) <= AT_ONCE)
        {
            taken += room(scenario);
            heat.push(Stand::begin(runtime, scenario, contender)?);
        }
        for stand in heat {
            let verdict = stand.finish()?;
            eprintln!("{verdict}");
            runs.add(verdict);
        }
    }
    Ok(())
}

/// How much of [`AT_ONCE`] a scenario takes: what is about a loaded host leaves none.
fn room(scenario: &Scenario) -> u64 {
    match scenario.host {
        Host::Shared => scenario.calls_per_second(),
        Host::Loaded => AT_ONCE.max(scenario.calls_per_second()),
    }
}

/// Those that run here; the others are said to be missing.
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

/// Calls a second that two cores send, answer and write down without falling behind.
const AT_ONCE: u64 = 2_000;
