//! Advice on limits that processes share: a directory that cannot be used, and keys that count apart.

use outflow::Api;
use outflow::config::SharedLimits;
use outflow_ledger::LedgerDir;
use secrecy::ExposeSecret as _;

use super::ConfigAdvice;
use crate::config::ProgramConfig;
use crate::shared_ledger;

/// Returns all advice on shared limits.
pub(super) fn find_advice(config: &ProgramConfig) -> impl Iterator<Item = ConfigAdvice> {
    check_dir(config).into_iter().chain(check_accounts(config))
}

/// Finds a directory of accounts that this user cannot use. One that does not exist yet is created at the start.
fn check_dir(config: &ProgramConfig) -> Option<ConfigAdvice> {
    let shared = &config.client.shared;
    let is_needed = matches!(shared.limits, Some(SharedLimits::Auto | SharedLimits::Host))
        && shared_ledger::redis_options(shared, &config.bulk).is_none();
    let path = shared.ledger_dir().filter(|path| is_needed && path.exists())?;
    let error = LedgerDir::open(path).err()?;
    Some(advise(
        config,
        "shared.dir",
        format!("{error}: each program counts its own calls, from its start"),
        "name a directory of this user in `shared.dir`, or set `shared.limits = \"off\"`",
    ))
}

/// Finds two APIs that use one key at one origin under different names: the provider counts them together.
fn check_accounts(config: &ProgramConfig) -> Option<ConfigAdvice> {
    if matches!(config.client.shared.limits, None | Some(SharedLimits::Off)) {
        return None;
    }
    let apis: Vec<&Api> = config.client.apis.iter().filter(|api| api.account.is_none()).collect();
    let (later, earlier) = apis.iter().enumerate().find_map(|(place, api)| {
        let earlier = apis.iter().take(place).find(|other| has_same_key(api, other))?;
        Some((api, earlier))
    })?;
    Some(advise(
        config,
        &format!("apis.{}.base_url", later.name),
        format!(
            "`{}` and `{}` call one origin with one key, and count apart",
            earlier.name, later.name
        ),
        "give both the same `limits_account` if the provider counts them together",
    ))
}

fn has_same_key(one: &Api, other: &Api) -> bool {
    let key = |api: &Api| Some(api.credential.as_ref()?.secret.expose_secret().to_owned());
    let is_same_origin =
        one.base_url.scheme() == other.base_url.scheme() && one.base_url.authority() == other.base_url.authority();
    is_same_origin && key(one).is_some_and(|own| key(other).as_deref() == Some(own.as_str()))
}

fn advise(config: &ProgramConfig, key: &str, message: String, help: &str) -> ConfigAdvice {
    let origin = config.client.origins.get(key);
    ConfigAdvice {
        key: key.to_owned(),
        origin: origin.map_or_else(|| "default".to_owned(), |origin| origin.to_string()),
        message,
        help: help.to_owned(),
    }
}
