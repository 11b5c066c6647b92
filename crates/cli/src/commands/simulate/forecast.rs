//! Forecast of a load against a provider: waits, and throttled calls with and without Outflow.
//!
//! The load is an access log or synthetic; the provider is an API of a configuration or a preset. Limits and
//! fair queue are those of production; a second set of plain meters counts arrivals as the provider. Provider
//! failures are not simulated.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::config::{Environment, Source, quoted, read_duration};
use outflow::{Api, Config};
use outflow_core::Rate;
use outflow_simulate::{Network, RateLoad, SimulateError, forecast_log, forecast_rate};

use super::forecast_report::ForecastReport;
use crate::command_line::UsageError;
use crate::commands::config_args::existing_sources;
use crate::commands::init::find_preset;
use crate::terminal::say;

/// Load and provider of a forecast.
#[derive(Args, Default)]
pub(super) struct LoadArgs {
    /// Replay this access log (combined log format, or lines of JSON with `ts`, `method`, `path`).
    #[arg(long, value_name = "FILE", conflicts_with = "rate", help_heading = LOADS)]
    replay: Option<PathBuf>,
    /// Simulate calls at this rate instead, such as 12/s.
    #[arg(long, value_name = "RATE", help_heading = LOADS)]
    rate: Option<Rate>,
    /// Simulate calls for this time.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = read_duration, help_heading = LOADS)]
    duration: Option<Duration>,
    /// Divide the calls among this number of tenants.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = LOADS)]
    tenants: Option<u32>,
    /// Use this path, which decides the group of the calls.
    #[arg(long, value_name = "PATH", default_value = "/", help_heading = LOADS)]
    path: Option<String>,
    /// Simulate the API of this name in the configuration.
    #[arg(long, value_name = "NAME", conflicts_with = "preset", help_heading = LOADS)]
    api: Option<String>,
    /// Simulate the provider of this preset.
    #[arg(long, value_name = "NAME", help_heading = LOADS)]
    preset: Option<String>,
    /// Read the API from this configuration file; later files override earlier ones.
    #[arg(long, short, value_name = "FILE", help_heading = LOADS)]
    config: Vec<PathBuf>,
}

impl LoadArgs {
    /// Returns true if the command line names a load.
    pub(super) const fn is_given(&self) -> bool {
        self.replay.is_some() || self.rate.is_some()
    }

    /// Simulates the load.
    pub(super) fn play(&self, network: Network, seed: u64) -> anyhow::Result<ForecastReport> {
        let api = self.provider()?;
        match (&self.replay, self.rate) {
            (Some(file), _) => {
                let bytes = std::fs::read(file);
                let bytes = bytes.with_context(|| format!("cannot read `{}`", file.display()))?;
                // Logs contain user agents, which may be any bytes.
                let text = String::from_utf8_lossy(&bytes);
                let played = forecast_log(&api, network, &text);
                let (history, read) = played.map_err(|error| match error {
                    SimulateError::NoLines => UsageError(error.to_string()).into(),
                    error => anyhow::Error::from(error),
                })?;
                warn_unread(&text, read);
                Ok(ForecastReport::new(&api.name, history))
            }
            (None, Some(rate)) => {
                let load = RateLoad {
                    rate,
                    duration: self.duration.unwrap_or(Duration::from_hours(1)),
                    tenants: self.tenants.unwrap_or(1),
                    path: self.path.as_deref().unwrap_or("/"),
                    seed,
                };
                let history = forecast_rate(&api, network, load)?;
                Ok(ForecastReport::new(&api.name, history))
            }
            (None, None) => Err(UsageError("name a load: use `--replay` or `--rate`".to_owned()).into()),
        }
    }

    fn provider(&self) -> anyhow::Result<Api> {
        let config = match &self.preset {
            Some(name) => preset_config(name)?,
            None => existing_sources(self.config.clone())?.read()?.client,
        };
        let names: Vec<_> = config.apis.iter().map(|api| api.name.to_string()).collect();
        let chosen = self.api.as_ref().or(match names.as_slice() {
            [only] => Some(only),
            _ => None,
        });
        let api = chosen.and_then(|name| config.api(name));
        api.cloned().ok_or_else(|| {
            let names = names.join(", ");
            UsageError(format!("choose an API with `--api`: there are {names}")).into()
        })
    }
}

/// Warns about skipped lines: a smaller load gives an optimistic forecast.
fn warn_unread(text: &str, read: usize) {
    let has_call = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let lines = text.lines().filter(has_call).count();
    let unread = lines.saturating_sub(read);
    if unread > 0 {
        say!("skipped {unread} of {lines} lines that are unreadable");
    }
}

/// Returns a configuration of one provider. Its address does not matter here.
fn preset_config(name: &str) -> anyhow::Result<Config> {
    let name = quoted(find_preset(name)?.name());
    let text = format!("[apis.{name}]\npreset = {name}\nbase_url = \"https://modelled.example\"\n");
    Ok(Config::read(&[Source::new("--preset", text)], &Environment::empty())?)
}

const LOADS: &str = "Your own load against a provider";
