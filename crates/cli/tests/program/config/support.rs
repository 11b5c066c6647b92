//! One API and a reader for the text of a test.

use outflow::config::{Diagnostics, Environment, Source};
use outflow_cli::ProgramConfig;

pub(crate) const STOCK: &str = "[apis.stock]\nbase_url = \"https://stock.example\"\n";

pub(crate) fn read(text: &str, variables: &[(&str, &str)]) -> Result<ProgramConfig, Diagnostics> {
    let environment: Environment = variables.iter().copied().collect();
    ProgramConfig::read(&[Source::new("outflow.toml", text)], &environment)
}
