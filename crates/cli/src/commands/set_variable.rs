//! `outflow set`: changes one variable of an API in a running program.
//!
//! The program validates the value as it does a line of its configuration, and records who set it.

use clap::Args;
use http::Method;
use outflow::config::show_value;
use serde_json::{Value, json};

use crate::admin_client::{AdminTarget, path};
use crate::exit::Exit;

/// Set one variable of an API in a running program, until it ends.
///
/// A variable of the health machine or of the rate has its name alone, such as `sleep_min` or `rate_base`; any
/// other key has its path below the API, such as `groups.orders.limits`.
#[derive(Args)]
pub(crate) struct SetVariableCommand {
    /// Select this API.
    api: String,
    /// Set this variable.
    #[arg(value_name = "VARIABLE")]
    variable: String,
    /// Use this value, as a configuration file or the environment would have it.
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: String,
    /// Write this reason to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

impl SetVariableCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let body = json!({ "variable": self.variable, "value": self.value, "reason": self.reason });
        let path = path(["v1", "apis", &self.api, "variables"]);
        let difference = self.target.admin.send(Method::PATCH, &path, Some(&body))?;
        self.target.print(&difference, |difference| self.result(difference))
    }

    fn result(&self, difference: &Value) -> String {
        let Self { api, variable, .. } = self;
        let value = show_value(variable, &self.value);
        let is_changed = difference["changed"].as_array().is_some_and(|names| !names.is_empty());
        if is_changed {
            format!("{api}: {variable} = {value}, until the program ends\n")
        } else {
            format!("{api}: {variable} was {value} already; nothing changed\n")
        }
    }
}
