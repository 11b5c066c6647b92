//! What a load would meet at a provider: who waits and for how long, what would be refused, with us and
//! without.
//!
//! The load is an access log or made of dice; the provider is an API of a configuration or a preset. The
//! limits and the fair order are the real ones and decide as they would; the provider is a second set of
//! plain meters that counts what arrives. Failures are not foreseen: a provider is as well as its limits.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::config::{Environment, Source, quoted, read_duration};
use outflow::{Api, Config, Preset};
use outflow_core::Rate;
use outflow_simulate::{Network, RateLoad, SimulateError, forecast_log, forecast_rate};

use super::forecast_report::ForecastReport;
use crate::command_line::UsageError;
use crate::commands::config_args::found;
use crate::terminal::say;

/// A load, and whom it is for.
#[derive(Args, Default)]
pub(super) struct LoadArgs {
    /// Play this access log (combined log format, or lines of JSON with `ts`, `method`, `path`).
    #[arg(long, value_name = "FILE", conflicts_with = "rate", help_heading = LOADS)]
    replay: Option<PathBuf>,
    /// Play calls at this rate instead, such as 12/s.
    #[arg(long, value_name = "RATE", help_heading = LOADS)]
    rate: Option<Rate>,
    /// For how long they come.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = read_duration, help_heading = LOADS)]
    duration: Option<Duration>,
    /// How many tenants make them.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = LOADS)]
    tenants: Option<u32>,
    /// The path of those calls, which decides their group.
    #[arg(long, value_name = "PATH", default_value = "/", help_heading = LOADS)]
    path: Option<String>,
    /// The provider is the API of this name in the configuration.
    #[arg(long, value_name = "NAME", conflicts_with = "preset", help_heading = LOADS)]
    api: Option<String>,
    /// The provider is a preset.
    #[arg(long, value_name = "NAME", help_heading = LOADS)]
    preset: Option<String>,
    /// The configuration that holds the API; later files lie over earlier ones.
    #[arg(long, short, value_name = "FILE", help_heading = LOADS)]
    config: Vec<PathBuf>,
}

impl LoadArgs {
    /// Whether a load was named at all.
    pub(super) const fn is_one(&self) -> bool {
        self.replay.is_some() || self.rate.is_some()
    }

    /// Plays it to its end.
    pub(super) fn play(&self, network: Network, seed: u64) -> anyhow::Result<ForecastReport> {
        let api = self.provider()?;
        match (&self.replay, self.rate) {
            (Some(file), _) => {
                let bytes = std::fs::read(file);
                let bytes =
                    bytes.with_context(|| format!("`{}` cannot be read", file.display()))?;
                // What clients call themselves is in such logs, and may be anything.
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
            (None, None) => {
                Err(UsageError("name a load with `--replay` or `--rate`".to_owned()).into())
            }
        }
    }

    fn provider(&self) -> anyhow::Result<Api> {
        let config = match &self.preset {
            Some(name) => preset(name)?,
            None => found(self.config.clone())?.read()?.client,
        };
        let names: Vec<_> = config.apis.iter().map(|api| api.name.to_string()).collect();
        let wanted = self.api.as_ref().or(match names.as_slice() {
            [only] => Some(only),
            _ => None,
        });
        let api = wanted.and_then(|name| config.api(name));
        api.cloned().ok_or_else(|| {
            let names = names.join(", ");
            UsageError(format!(
                "say which API is meant with `--api`: there are {names}"
            ))
            .into()
        })
    }
}

/// A load that is smaller than the real one foresees too little.
fn warn_unread(text: &str, read: usize) {
    let says = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let lines = text.lines().filter(says).count();
    let unread = lines.saturating_sub(read);
    if unread > 0 {
        say!("{unread} of {lines} lines could not be read, and are left out");
    }
}

/// A configuration of one provider. Where it is makes no difference here.
fn preset(name: &str) -> anyhow::Result<Config> {
    if Preset::named(name).is_none() {
        let names = Preset::ALL.map(Preset::name).join(", ");
        return Err(UsageError(format!("there is no preset `{name}`: there are {names}")).into());
    }
    let name = quoted(name);
    let text = format!("[apis.{name}]\npreset = {name}\nbase_url = \"https://modelled.example\"\n");
    Ok(Config::read(
        &[Source::new("--preset", text)],
        &Environment::empty(),
    )?)
}

const LOADS: &str = "A load of your own against a provider";
