//! `outflow config show`: all values in effect, and their origins.

use clap::Args;
use outflow::Config;
use outflow::config::{ValueOrigin, quoted};
use serde_json::{Value, json};

use super::{default_file, health_values};
use crate::admin_client::AdminApi;
use crate::commands::json_fields::list;
use crate::exit::Exit;
use crate::terminal::{TextTable, answer, answer_json};

/// Show the configuration in effect, with secrets masked.
#[derive(Args)]
pub(crate) struct ShowCommand {
    /// Show the origin of each value: default, preset, file and line, variable or flag.
    #[arg(long)]
    sources: bool,
    /// Show the configuration of the running program instead of reading files.
    #[arg(long)]
    running: bool,
    #[command(flatten)]
    admin: AdminApi,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl ShowCommand {
    /// Reads the configuration and prints it.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let document = if self.running {
            self.admin.get("/v1/config")?
        } else {
            let config = self.admin.config.sources()?.read()?;
            let values: Vec<_> = effective_values(&config.client)?
                .iter()
                .map(EffectiveValue::to_json)
                .collect();
            json!({ "values": values })
        };
        if self.json {
            answer_json(&document)?;
        } else {
            answer(&self.to_text(&document))?;
        }
        Ok(Exit::Done)
    }

    /// Formats one line for each value.
    fn to_text(&self, document: &Value) -> String {
        let mut table = TextTable::default();
        for one in list(document, "values") {
            let field = |name: &str| one.get(name).and_then(Value::as_str);
            if let (Some(key), Some(value)) = (field("key"), field("value")) {
                let from = field("from").filter(|_| self.sources);
                let from = from.map(|from| format!("# {from}"));
                table.row([format!("{key} = {value}"), from.unwrap_or_default()]);
            }
        }
        table.text()
    }
}

/// Value in effect, with its origin.
pub(crate) struct EffectiveValue {
    key: String,
    value: Option<String>,
    origin: ValueOrigin,
}

impl EffectiveValue {
    /// Returns the value and its origin as JSON.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "key": self.key,
            "value": self.value,
            "origin": origin_kind(&self.origin),
            "from": self.origin.to_string(),
        })
    }
}

/// Returns all values in effect with their origins.
pub(crate) fn effective_values(config: &Config) -> anyhow::Result<Vec<EffectiveValue>> {
    let defaults = default_file::defaults()?.client;
    let value = |(key, origin): (&str, ValueOrigin)| {
        let written = match origin {
            ValueOrigin::Default => default_value(key, config, &defaults),
            ValueOrigin::Environment { .. } => config.origins.written(key).map(to_toml),
            _ => config.origins.written(key).map(str::to_owned),
        };
        EffectiveValue {
            key: key.to_owned(),
            value: written,
            origin,
        }
    };
    let values = config.origins.iter().map(value);
    // Values inside of a list or a table are shown with it.
    let is_within = |key: &str| {
        let ends = key.match_indices(['.', '[']).map(|(end, _)| end);
        ends.filter_map(|end| key.get(..end))
            .any(|outer| config.origins.written(outer).is_some())
    };
    Ok(values.filter(|one| !is_within(&one.key)).collect())
}

/// Formats the value of a variable as TOML.
fn to_toml(value: &str) -> String {
    let is_literal = serde_json::from_str::<Value>(value).is_ok();
    if is_literal { value.to_owned() } else { quoted(value) }
}

/// Returns the default of a key. A few defaults depend on other keys.
fn default_value(key: &str, config: &Config, defaults: &Config) -> Option<String> {
    let Some((name, rest)) = key.strip_prefix("apis.").and_then(|key| key.split_once('.')) else {
        return defaults.origins.written(key).map(str::to_owned);
    };
    let api = config.api(name.trim_matches('"'))?;
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
        "concurrency" => Some(health_values::concurrency(&api.rules)),
        "connect_timeout" => Some(format!("\"{}ms\"", api.timeouts.connect.as_millis())),
        "read_timeout" => Some(format!("\"{}ms\"", api.timeouts.read.as_millis())),
        _ => {
            let health = rest.strip_prefix("health.");
            let health = health.and_then(|key| health_values::written(&api.rules, key));
            let example = format!("{}{rest}", default_file::EXAMPLE);
            health.or_else(|| defaults.origins.written(&example).map(str::to_owned))
        }
    }
}

const fn origin_kind(origin: &ValueOrigin) -> &'static str {
    match origin {
        ValueOrigin::Default => "default",
        ValueOrigin::Preset { .. } => "preset",
        ValueOrigin::Text { .. } => "file",
        ValueOrigin::Environment { .. } => "environment",
        ValueOrigin::Runtime => "runtime",
    }
}
