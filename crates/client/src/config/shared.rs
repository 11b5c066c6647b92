//! Section `[shared]`: where processes keep their common limits.

use std::path::PathBuf;
use std::time::Duration;

use outflow_config::value_readers::{read_choice, read_name, read_path, read_positive_duration, read_text};
use outflow_config::{
    Environment, FieldValue, SecretKeys, Section, SectionChanges, TableReader, ValueError, read_fields, read_secret,
};
use outflow_ledger::LedgerDir;
use secrecy::{ExposeSecret as _, SecretString};
use smol_str::SmolStr;

/// Limits that processes share.
#[derive(Clone, Debug, Default)]
pub struct SharedSection {
    /// Who shares the limits; `None` leaves it to the program.
    pub limits: Option<SharedLimits>,
    /// Directory of the accounts; `None` is the user's state directory.
    pub dir: Option<PathBuf>,
    /// The user's state directory, if the environment names one.
    pub default_dir: Option<PathBuf>,
    /// Server of the accounts, if the section names one.
    pub redis: Option<SharedRedis>,
}

/// Redis or Valkey server of shared limits.
#[derive(Clone, Debug)]
pub struct SharedRedis {
    /// Its URL, which may contain its password.
    pub url: SecretString,
    /// File of trusted certificate authorities; `None` trusts the machine's.
    pub ca_file: Option<PathBuf>,
    /// Prefix of all keys: programs that share limits use the same.
    pub name: SmolStr,
    /// Timeout of a renewal.
    pub timeout: Duration,
}

outflow_core::named_enum! {
    /// Processes that share limits.
    pub enum SharedLimits {
        /// None: each process counts its own calls, from its start.
        Off = "off",
        /// All of this host. Where that is not possible the process works alone, with a warning.
        Auto = "auto",
        /// All of this host. A process that cannot share does not start.
        Host = "host",
        /// All that use the same server. Without it, no call under a limit starts.
        Redis = "redis",
    }
}

impl SharedSection {
    /// Returns the directory of the accounts.
    pub fn ledger_dir(&self) -> Option<&PathBuf> {
        self.dir.as_ref().or(self.default_dir.as_ref())
    }
}

impl Section for SharedSection {
    const NAME: &'static str = "shared";

    fn read(table: &TableReader<'_>, environment: &Environment) -> Self {
        let variable = |name: &str| environment.value(name).map(PathBuf::from);
        let mut section = Self {
            default_dir: LedgerDir::default_path(variable),
            ..Self::default()
        };
        read_fields!(table => section,
            limits: |item| read_choice(&SharedLimits::NAMED)(item).map(Some),
            dir: |item| read_path(item).map(Some),
        );
        section.redis = read_redis(&table.section("redis"), environment);
        section
    }

    fn restart_keys(&self, new: &Self) -> Vec<String> {
        let server = |section: &Self| {
            let redis = section.redis.as_ref()?;
            Some((
                redis.url.expose_secret().to_owned(),
                redis.ca_file.clone(),
                redis.name.clone(),
                redis.timeout,
            ))
        };
        SectionChanges::differing([
            ("shared.limits", self.limits != new.limits),
            ("shared.dir", self.dir != new.dir),
            ("shared.redis", server(self) != server(new)),
        ])
    }
}

fn read_redis(table: &TableReader<'_>, environment: &Environment) -> Option<SharedRedis> {
    let url = read_secret(table, environment, REDIS_URL);
    let ca_file = table.read("ca_file", read_path);
    let name = table.read("name", read_key_prefix);
    let timeout = table.read("timeout", read_positive_duration);
    table.finish();
    Some(SharedRedis {
        url: url?,
        ca_file,
        name: name.unwrap_or(SmolStr::new_static(DEFAULT_NAME)),
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
    })
}

fn read_key_prefix(item: &FieldValue<'_>) -> Result<SmolStr, ValueError> {
    read_name(read_text(item)?)
}

const REDIS_URL: SecretKeys = SecretKeys {
    inline: "url",
    variable: "url_env",
    file: "url_file",
};

const DEFAULT_NAME: &str = "outflow";

/// A healthy server responds within milliseconds, and a lease lasts for five seconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
