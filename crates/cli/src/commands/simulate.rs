//! `outflow simulate`: loads and bulk scenarios in virtual time, on the real core.
//!
//! The crate `outflow-simulate` computes the figures; this command reads its flags and prints them.

mod forecast;
mod forecast_report;
mod report;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use outflow::Api;
use outflow_simulate::{Network, RunFigures, Scenario, ScenarioName, SchedulerName};

use self::forecast_report::ForecastReport;
use self::report::SimReport;
use crate::terminal::{answer, answer_json};

/// Simulate traffic in virtual time: your own load against a provider, or bulk scenarios that compare
/// schedulers.
#[derive(Args)]
#[command(after_help = report::LEGEND)]
pub(crate) struct SimulateCommand {
    /// Simulate only this scenario; repeat for several.
    #[arg(long, value_name = "NAME", value_parser = named_parser(ScenarioName::ALL, |name| (name.name(), name.description())))]
    scenario: Vec<ScenarioName>,
    /// Simulate only this scheduler; repeat for several.
    #[arg(long, value_name = "NAME", value_parser = named_parser(SchedulerName::ALL, |name| (name.name(), name.description())))]
    scheduler: Vec<SchedulerName>,
    /// Set the shortest one-way latency, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=60_000))]
    latency: u64,
    /// Add a random latency up to this, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=60_000))]
    jitter: u64,
    /// Seed the random numbers.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    forecast: forecast::LoadArgs,
}

impl SimulateCommand {
    /// Runs the simulation and prints its report.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.forecast.is_given() {
            return self.forecast();
        }
        let report = self.play()?;
        if self.json {
            return answer_json(&report.to_json());
        }
        answer(&report.to_tables())
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
        for name in chosen(&self.scenario, &ScenarioName::ALL) {
            let scenario = Scenario::named(name);
            let outcomes: anyhow::Result<Vec<_>> = chosen(&self.scheduler, &SchedulerName::ALL)
                .into_iter()
                .map(|scheduler| self.play_one(&scenario, scheduler))
                .collect();
            report.add(scenario, outcomes?);
        }
        Ok(report)
    }

    fn play_one(&self, scenario: &Scenario, name: SchedulerName) -> anyhow::Result<RunFigures> {
        let _progress = SimProgress::show(scenario, name);
        Ok(outflow_simulate::play(scenario, name, self.network())?)
    }

    fn network(&self) -> Network {
        let (latency, jitter) = (self.latency, self.jitter);
        Network::new(Duration::from_millis(latency), Duration::from_millis(jitter), self.seed)
    }
}

/// Returns the values named on the command line, or all of them.
fn chosen<T: Copy + PartialEq>(named: &[T], all: &[T]) -> Vec<T> {
    let all = all.iter().copied();
    all.filter(|value| named.is_empty() || named.contains(value)).collect()
}

/// Parses the name of one of these values, which have names and help texts.
fn named_parser<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    texts: fn(T) -> (&'static str, &'static str),
) -> impl TypedValueParser<Value = T> {
    let known = all.map(|value| {
        let (name, help) = texts(value);
        PossibleValue::new(name).help(help)
    });
    PossibleValuesParser::new(known).try_map(move |text| {
        let mut all = all.into_iter();
        all.find(|value| texts(*value).0 == text).ok_or("unknown name")
    })
}

/// Plays a log against an API. Returns the report and the number of lines that were read, for fuzzers.
#[must_use]
pub fn forecast_json(api: &Api, log: &str) -> Option<(serde_json::Value, usize)> {
    let network = Network::new(Duration::from_millis(20), Duration::from_millis(2), 1);
    let (history, read) = outflow_simulate::forecast_log(api, network, log).ok()?;
    Some((ForecastReport::new(&api.name, history).to_json(), read))
}

/// Progress on a terminal; dropping it clears the line.
struct SimProgress;

impl SimProgress {
    fn show(scenario: &Scenario, scheduler: SchedulerName) -> Option<Self> {
        let mut terminal = io::stderr();
        if !terminal.is_terminal() {
            return None;
        }
        // A terminal that cannot be written to does not change the result.
        let _ = write!(terminal, "\rsimulating {}: {scheduler} ...   ", scenario.name);
        let _ = terminal.flush();
        Some(Self)
    }
}

impl Drop for SimProgress {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    }
}
