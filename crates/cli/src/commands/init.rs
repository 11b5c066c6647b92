//! `outflow init`: writes a first configuration.
//!
//! The file is short: one API, and the settings that users change first. All other keys are in `outflow
//! config default`. An existing file is replaced only with `--force`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use outflow::Preset;

use super::config_args::DEFAULT_FILE;
use crate::command_line::UsageError;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, say};

/// Write a commented configuration, for a known provider or any API.
#[derive(Args)]
pub(crate) struct InitCommand {
    /// Use the published limits of this provider; `list` prints the names.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Write to this file.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    path: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

impl InitCommand {
    /// Writes the file and prints the next steps.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.preset.as_deref() == Some("list") {
            let names = Preset::ALL.map(|preset| format!("{}\n", preset.name()));
            return answer(&names.concat()).map(|()| Exit::Done);
        }
        let preset = self.preset.as_deref().map(find_preset).transpose()?;
        let config = StarterConfig::from_preset(preset);
        self.write(&config.text)?;
        let path = self.path.display();
        let option = if self.path.as_os_str() == DEFAULT_FILE {
            String::new()
        } else {
            format!(" {path}")
        };
        say!("wrote {}", terminal.strong(&path.to_string()));
        let unset = config.variable.filter(|variable| std::env::var_os(variable).is_none());
        if let Some(variable) = unset {
            say!("next:  export {variable}=...   (your key; it stays out of the file)");
        }
        say!("next:  outflow check{option}");
        say!("next:  outflow serve{}", option.replacen(' ', " -c ", 1));
        Ok(Exit::Done)
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let path = self.path.display();
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let mut file = options.open(&self.path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow::Error::new(UsageError(format!(
                "`{path}` exists: choose another with `--path`, or replace it with `--force`"
            ))),
            _ => anyhow::Error::new(error).context(format!("cannot write `{path}`")),
        })?;
        let written = file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write `{path}`"))
    }
}

pub(super) fn find_preset(name: &str) -> Result<Preset, UsageError> {
    Preset::named(name).ok_or_else(|| {
        let names = Preset::ALL.map(Preset::name).join(", ");
        UsageError(format!("unknown preset `{name}`: use one of {names}"))
    })
}

/// First configuration, and the variable that holds the key.
struct StarterConfig {
    text: String,
    variable: Option<&'static str>,
}

impl StarterConfig {
    fn from_preset(preset: Option<Preset>) -> Self {
        let Some(preset) = preset else {
            return Self {
                text: format!("{HEAD}{EXAMPLE}"),
                variable: None,
            };
        };
        let name = preset.name();
        let variable = key_variable(preset);
        let key = match &variable {
            Some(variable) => format!(
                "# The variable that holds your key, which never belongs in this file.\napi_key_env = \"{variable}\"\n"
            ),
            None => String::new(),
        };
        let base_url = if preset.text().contains("\nbase_url") {
            String::new()
        } else {
            format!(
                "# The address of your account: the preset says its form.\nbase_url = \"{}\"\n",
                own_address(name)
            )
        };
        let text = format!("{HEAD}[apis.{name}]\n{PRESET}preset = \"{name}\"\n{base_url}{key}{COMMON}");
        Self { text, variable }
    }
}

/// Returns the form of an address that differs for each account.
fn own_address(preset: &str) -> String {
    match preset {
        "shopify" => "https://SHOP.myshopify.com/admin/api/2025-10".to_owned(),
        other => format!("https://ACCOUNT.{other}.example"),
    }
}

/// Returns the first variable of the provider's key that is set, or else the usual one.
fn key_variable(preset: Preset) -> Option<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let set = preset.key_variables().find(is_set);
    set.or_else(|| preset.key_variables().next())
}

const HEAD: &str = "\
# The limits of your providers. Point the base URL of any program at
#   http://127.0.0.1:7070/NAME/PATH
# where NAME is the name in [apis.NAME], and every call waits for its permit.
#
# outflow check             reports all errors of this file, and sends nothing
# outflow serve             starts the sidecar
# outflow config default    prints every key with its default and meaning

";

const EXAMPLE: &str = "\
[apis.example]
# The address of the API: the only required key.
base_url = \"https://api.example.com\"
# The limits of the API, all enforced exactly. The provider's documentation states them.
limits = [\"5/s\"]
# The variable that holds your key, which never belongs in this file.
#api_key_env = \"EXAMPLE_API_KEY\"
# Endpoints with limits of their own.
#routes = [{ methods = [\"POST\"], path = \"/orders/**\", group = \"orders\" }]
#groups.orders.limits = [\"2/s\"]
# The longest attempt, and the longest wait of a call for its permit.
timeout = \"10s\"
max_wait = \"30s\"
# Cache responses by their own headers, and use them while the API is unavailable.
#cache = \"standard\"
";

const PRESET: &str = "\
# The provider's published limits, groups and headers. Your keys override them.
";

const COMMON: &str = "\
# The share of this process in the limits, if several use one key: \"1/2\" for two of them.
#rate_share = \"1/2\"
# The longest wait of a call for its permit, instead of the preset's.
#max_wait = \"30s\"
# Cache responses by their own headers, and use them while the API is unavailable.
#cache = \"standard\"
";
