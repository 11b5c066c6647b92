//! `outflow config show`: every value in effect, and why it is this one.

use clap::Args;
use outflow::Config;
use outflow::config::{ValueOrigin, quoted};
use serde_json::{Value, json};

use super::super::config_args::ConfigArgs;
use super::super::control::AdminApi;
use super::default_file;
use crate::exit::Exit;
use crate::terminal::{TextTable, answer, answer_json};

/// Shows the configuration in effect, secrets masked.
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    config: ConfigArgs,
    /// Say where each value came from: default, preset, file and line, variable, flag.
    #[arg(long)]
    sources: bool,
    /// Ask the running program instead of reading files.
    #[arg(long)]
    running: bool,
    #[command(flatten)]
    admin: AdminApi,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl Show {
    /// Reads and shows it.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let document = if self.running {
            self.admin.get("/v1/config")?
        } else {
            let config = self.config.sources()?.read()?;
            let values: Vec<_> = effective(&config.client)?
                .iter()
                .map(Effective::json)
                .collect();
            json!({ "values": values })
        };
        if self.json {
            answer_json(&document)?;
        } else {
            answer(&self.text(&document))?;
        }
        Ok(Exit::Done)
    }

    /// A line for each value that there is.
    fn text(&self, document: &Value) -> String {
        let mut table = TextTable::default();
        let values = document.get("values").and_then(Value::as_array);
        for one in values.into_iter().flatten() {
            let word = |name: &str| one.get(name).and_then(Value::as_str);
            if let (Some(key), Some(value)) = (word("key"), word("value")) {
                let from = word("from").filter(|_| self.sources);
                let from = from.map(|from| format!("# {from}"));
                table.row([format!("{key} = {value}"), from.unwrap_or_default()]);
            }
        }
        table.text()
    }
}

/// A value in effect.
pub(crate) struct Effective {
    key: String,
    value: Option<String>,
    origin: ValueOrigin,
}

impl Effective {
    /// The value with where it came from.
    pub(crate) fn json(&self) -> Value {
        json!({
            "key": self.key,
            "value": self.value,
            "origin": kind(&self.origin),
            "from": self.origin.to_string(),
        })
    }
}

/// Every value in effect, with where it came from.
pub(crate) fn effective(config: &Config) -> anyhow::Result<Vec<Effective>> {
    let defaults = default_file::defaults()?.client;
    let value = |(key, origin): (&str, ValueOrigin)| {
        let written = match origin {
            ValueOrigin::Default => default_of(key, config, &defaults),
            ValueOrigin::Environment { .. } => config.origins.written(key).map(as_toml),
            _ => config.origins.written(key).map(str::to_owned),
        };
        Effective {
            key: key.to_owned(),
            value: written,
            origin,
        }
    };
    let values = config.origins.iter().map(value);
    // What is written inside of a list or a table is shown with it.
    let is_within = |key: &str| {
        let ends = key.match_indices(['.', '[']).map(|(end, _)| end);
        ends.filter_map(|end| key.get(..end))
            .any(|outer| config.origins.written(outer).is_some())
    };
    Ok(values.filter(|one| !is_within(&one.key)).collect())
}

/// A variable's value as a file would write it.
fn as_toml(value: &str) -> String {
    let is_literal = serde_json::from_str::<Value>(value).is_ok();
    if is_literal {
        value.to_owned()
    } else {
        quoted(value)
    }
}

/// What holds where nobody said anything. A few defaults depend on other keys.
fn default_of(key: &str, config: &Config, defaults: &Config) -> Option<String> {
    let Some((name, rest)) = key
        .strip_prefix("apis.")
        .and_then(|key| key.split_once('.'))
    else {
        return defaults.origins.written(key).map(str::to_owned);
    };
    let api = config.api(name.trim_matches('"'))?;
    let is_breaker = |text: Option<&str>| text == Some("\"breaker\"");
    let profile = config
        .origins
        .written(&format!("apis.{name}.health.profile"));
    match rest {
        "limits" if api.rules.limits.is_empty() => Some("[]".to_owned()),
        "limits"
            if config
                .origins
                .written(&format!("apis.{name}.rate_limit_per_sec"))
                .is_some() =>
        {
            None
        }
        "connect_timeout" => Some(format!("\"{}ms\"", api.timeouts.connect.as_millis())),
        "read_timeout" => Some(format!("\"{}ms\"", api.timeouts.read.as_millis())),
        _ if rest.starts_with("health.") && is_breaker(profile) => None,
        _ => {
            let example = format!("{}{rest}", default_file::EXAMPLE);
            defaults.origins.written(&example).map(str::to_owned)
        }
    }
}

const fn kind(origin: &ValueOrigin) -> &'static str {
    match origin {
        ValueOrigin::Default => "default",
        ValueOrigin::Preset { .. } => "preset",
        ValueOrigin::Text { .. } => "file",
        ValueOrigin::Environment { .. } => "environment",
        ValueOrigin::Runtime => "runtime",
    }
}
