//! The ledger of shared limits that a configuration asks for, where it is a server.

use std::sync::Arc;

use outflow::SystemClock;
use outflow::config::{Config, SharedLimits, SharedSection};
use outflow::core::QuotaLedger;
use outflow_bulk::config::BulkConfig;
use outflow_config::{Document, ValueError};
use outflow_store::{RedisLedger, RedisOptions, StoreError};
use secrecy::ExposeSecret as _;

use crate::config::ProgramConfig;

/// Returns the server of the shared limits: the section's own, or that of the bulk jobs.
pub(crate) fn redis_options(shared: &SharedSection, bulk: &BulkConfig) -> Option<RedisOptions> {
    let own = || {
        let redis = shared.redis.as_ref()?;
        Some(RedisOptions {
            url: redis.url.expose_secret().to_owned(),
            ca_file: redis.ca_file.clone(),
            queue: redis.name.to_string(),
            timeout: redis.timeout,
            wait_replicas: None,
        })
    };
    let of_jobs = || {
        let options = bulk.store.redis_options()?;
        Some(RedisOptions {
            wait_replicas: None,
            ..options
        })
    };
    match shared.limits {
        Some(SharedLimits::Redis) => own().or_else(of_jobs),
        Some(SharedLimits::Auto) => of_jobs(),
        Some(SharedLimits::Host | SharedLimits::Off) | None => None,
    }
}

/// Opens the ledger of a server, if the limits are shared on one.
pub(crate) fn open(config: &ProgramConfig) -> Result<Option<RedisLedger>, StoreError> {
    let options = redis_options(&config.client.shared, &config.bulk);
    options
        .map(|options| RedisLedger::open(&options, Arc::new(SystemClock::new())))
        .transpose()
}

/// Returns the client's configuration with its ledger.
pub(crate) fn client_config(config: &ProgramConfig) -> Result<Config, StoreError> {
    let ledger = match open(config)? {
        Some(ledger) => Some::<Arc<dyn QuotaLedger>>(Arc::new(ledger)),
        None => None,
    };
    Ok(Config {
        ledger,
        ..config.client.clone()
    })
}

/// Reports limits on a server without an address.
pub(crate) fn check(document: &Document, shared: &SharedSection, bulk: &BulkConfig) {
    let section = document.root().subtable("shared");
    let redis = section.subtable("redis");
    // An address that is named and cannot be read has an error of its own.
    let is_named = redis.has("url_env") || redis.has("url_file");
    if shared.limits == Some(SharedLimits::Redis) && !is_named && redis_options(shared, bulk).is_none() {
        let error = ValueError::new("no address says where Redis is");
        let help = "name a variable that holds it: `redis.url_env = \"REDIS_URL\"`";
        section.report("limits", error.help(help));
    }
}
