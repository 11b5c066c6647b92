//! `outflow simulate`: the bulk scenarios in virtual time, on the real core.
//!
//! Hours of traffic pass in seconds because nothing waits: a queue of events is played in order of
//! time, and the fair order, the meters and the congestion formula decide as they would in
//! production. What judges them is a model of the strictest server, which shares no code with the
//! meters it judges. The same seed always gives the same output.

mod fluid_model;
mod forecast;
pub(crate) mod fuzzing;
mod network;
mod outcome;
mod report;
mod scenario;
mod scheduler;
mod server;
mod world;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;

use network::Network;
use outcome::RunFigures;
use report::SimReport;
use scenario::{Scenario, ScenarioName};
use scheduler::SchedulerName;
use world::SimWorld;

use crate::terminal::{answer, answer_json};

/// Foresees traffic in virtual time: your own load against a provider, or bulk scenarios by which
/// schedulers are compared.
#[derive(Args)]
#[command(after_help = report::LEGEND)]
pub(crate) struct Simulate {
    /// Play only this scenario (may be given several times).
    #[arg(long, value_name = "NAME")]
    scenario: Vec<ScenarioName>,
    /// Play only this scheduler (may be given several times).
    #[arg(long, value_name = "NAME")]
    scheduler: Vec<SchedulerName>,
    /// The shortest way to the API or back, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=60_000))]
    latency: u64,
    /// How much longer a way may take, evenly spread, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=60_000))]
    jitter: u64,
    /// Where the dice begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    forecast: forecast::LoadArgs,
}

impl Simulate {
    /// Plays what was asked for and prints it.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.forecast.is_one() {
            return self.forecast();
        }
        let report = self.play()?;
        answer(&if self.json {
            report.to_json()
        } else {
            report.to_tables()
        })
    }

    fn forecast(&self) -> anyhow::Result<()> {
        let report = self.forecast.play(self.network(), self.seed)?;
        if self.json {
            return answer_json(&report.to_json());
        }
        answer(&report.to_table())
    }

    fn play(&self) -> anyhow::Result<SimReport> {
        let mut report = SimReport::new(self.seed, self.network());
        for name in chosen(&self.scenario) {
            let scenario = Scenario::named(name);
            let outcomes: anyhow::Result<Vec<_>> = chosen(&self.scheduler)
                .into_iter()
                .map(|scheduler| self.play_one(&scenario, scheduler))
                .collect();
            report.add(scenario, outcomes?);
        }
        Ok(report)
    }

    fn play_one(&self, scenario: &Scenario, name: SchedulerName) -> anyhow::Result<RunFigures> {
        let _progress = SimProgress::show(scenario, name);
        let scheduler = name.build(scenario)?;
        let history = SimWorld::new(scenario, self.network(), scheduler).play()?;
        Ok(RunFigures::new(scenario, name, &history))
    }

    fn network(&self) -> Network {
        let (latency, jitter) = (self.latency, self.jitter);
        Network::new(
            Duration::from_millis(latency),
            Duration::from_millis(jitter),
            self.seed,
        )
    }
}

/// What was named on the command line, or everything.
fn chosen<T: clap::ValueEnum + PartialEq>(named: &[T]) -> Vec<T> {
    let all = T::value_variants().iter();
    all.filter(|value| named.is_empty() || named.contains(value))
        .cloned()
        .collect()
}

/// Says on a terminal what is being played, and wipes it away afterwards.
struct SimProgress;

impl SimProgress {
    fn show(scenario: &Scenario, scheduler: SchedulerName) -> Option<Self> {
        let mut terminal = io::stderr();
        if !terminal.is_terminal() {
            return None;
        }
        // A terminal that cannot be written to does not change the result.
        let _ = write!(terminal, "\rplaying {}: {scheduler} ...   ", scenario.name);
        let _ = terminal.flush();
        Some(Self)
    }
}

impl Drop for SimProgress {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    }
}

#[cfg(test)]
mod tests;
