//! `outflow init`: writes a configuration to begin with.
//!
//! What it writes is short: the one API that was asked for, and what people change first. Every other
//! key is in `outflow config default`. A file that is there is never written over unasked.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use outflow::Preset;

use super::config_args::USUAL;
use crate::command_line::UsageError;
use crate::exit::Exit;
use crate::terminal::{Terminal, answer, say};

/// Writes a commented configuration to begin with, for a known provider or any API.
#[derive(Args)]
pub(crate) struct Init {
    /// A provider whose published limits are known; `outflow init --preset list` names them.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Where to write it.
    #[arg(long, value_name = "FILE", default_value = USUAL)]
    path: PathBuf,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
}

impl Init {
    /// Writes the file and says what to do next.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.preset.as_deref() == Some("list") {
            let names = Preset::ALL.map(|preset| format!("{}\n", preset.name()));
            return answer(&names.concat()).map(|()| Exit::Done);
        }
        let preset = self.preset.as_deref().map(known).transpose()?;
        let starter = StarterConfig::from_preset(preset);
        self.write(&starter.text)?;
        let path = self.path.display();
        let option = if self.path.as_os_str() == USUAL {
            String::new()
        } else {
            format!(" {path}")
        };
        say!("wrote {}", terminal.strong(&path.to_string()));
        if let Some(variable) = starter.variable {
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
                "`{path}` is there already: keep it, name another with `--path`, or say `--force`"
            ))),
            _ => anyhow::Error::new(error).context(format!("`{path}` cannot be written")),
        })?;
        let written = file.write_all(text.as_bytes());
        written.with_context(|| format!("`{path}` cannot be written"))
    }
}

fn known(name: &str) -> Result<Preset, UsageError> {
    Preset::named(name).ok_or_else(|| {
        let names = Preset::ALL.map(Preset::name).join(", ");
        UsageError(format!("there is no preset `{name}`: there are {names}"))
    })
}

/// A configuration to begin with, and the variable of the key that it names.
struct StarterConfig {
    text: String,
    variable: Option<String>,
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
        let variable = takes_a_key(preset).then(|| format!("{}_API_KEY", name.to_uppercase()));
        let key = match &variable {
            Some(variable) => format!(
                "# Your key is in this variable, and never in this file.\napi_key_env = \"{variable}\"\n"
            ),
            None => String::new(),
        };
        let place = if preset.text().contains("\nbase_url") {
            String::new()
        } else {
            format!("# Where yours is.\nbase_url = \"https://YOURS.{name}.example\"\n")
        };
        let text =
            format!("{HEAD}[apis.{name}]\n{PRESET}preset = \"{name}\"\n{place}{key}{COMMON}");
        Self { text, variable }
    }
}

/// Whether a provider is asked with a key that is sent as it is.
fn takes_a_key(preset: Preset) -> bool {
    preset.text().lines().any(|line| line.starts_with("key = ")) || preset.name() == "tmdb"
}

const HEAD: &str = "\
# What your providers allow, said once. Then point the base URL of any program at
#   http://127.0.0.1:7070/NAME/PATH
# where NAME is the name in [apis.NAME], and every call waits for its turn.
#
# outflow check             says what is wrong with this file, and sends nothing
# outflow serve             governs
# outflow config default    shows every key, with its default and what it means

";

const EXAMPLE: &str = "\
[apis.example]
# Where it is. The one key that an API must have.
base_url = \"https://api.example.com\"
# What it allows: all of them at once, exactly. Read it in the provider's documentation.
limits = [\"5/s\"]
# Your key is in a variable, and never in this file.
#api_key_env = \"EXAMPLE_API_KEY\"
# Endpoints with limits of their own.
#routes = [{ methods = [\"POST\"], path = \"/orders/**\", group = \"orders\" }]
#groups.orders.limits = [\"2/s\"]
# One attempt, and how long a call waits for its turn at most.
timeout = \"10s\"
max_wait = \"30s\"
# Keep answers as they say themselves, for when the API is not there.
#cache = \"standard\"
";

const PRESET: &str = "\
# The provider's published limits, groups and headers. Whatever you write here wins over it.
";

const COMMON: &str = "\
# The part of the limits that this process takes, if others use the same key: \"1/2\" for two of them.
#rate_share = \"1/2\"
# How long a call waits for its turn at most.
max_wait = \"30s\"
# Keep answers as they say themselves, for when the API is not there.
#cache = \"standard\"
";
