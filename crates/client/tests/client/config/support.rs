//! One API with the keys of a test.

use std::time::Duration;

use outflow::Api;
use outflow::config::{Config, Diagnostics, Environment, Source};
use outflow::core::Limit;

pub(crate) const STOCK: &str = "[apis.stock]\nbase_url = \"https://stock.example\"\n";

pub(crate) fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let environment: Environment = variables.iter().copied().collect();
    Config::read(&[Source::new("outflow.toml", text)], &environment)
}

pub(crate) fn with(more: &str, variables: &[(&str, &str)]) -> Api {
    let config = read(&format!("{STOCK}{more}"), variables);
    let config = config.expect("no error");
    config.apis.into_iter().next().expect("one API")
}

pub(crate) fn rates(limits: &[Limit]) -> Vec<String> {
    limits.iter().map(|limit| limit.rate().to_string()).collect()
}

pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
