//! Reads one API: its URL, credential, timeouts, retries and rules.

use std::time::Duration;

use outflow_config::value_readers::{
    read_choice, read_duration, read_integer, read_path, read_positive_duration, read_share, read_size, read_text,
};
use outflow_config::{Environment, FieldValue, TableReader, TreeValue, ValueError, read_fields};
use outflow_core::{Backoff, RetryBudgetSettings, Share};
use smol_str::SmolStr;

use super::http_values::{read_headers, read_method, read_url};
use super::{credential, rules, unreachable_routes};
use crate::api::{AddressPolicy, Api, CacheMode, Proxy, RetryConfig, StaleOffline, ThrottledRetry, Timeouts, TlsTrust};
use crate::base_url::BaseUrl;
use crate::preset::Preset;

/// Reads `[apis.NAME]`; `None` without a base URL.
pub(super) fn read_api(name: SmolStr, table: &TableReader<'_>, environment: &Environment) -> Option<Api> {
    let base_url = read_base_url(table);
    let timeouts = read_timeouts(table);
    let rules = rules::read_rules(table, timeouts.attempt);
    let credential = credential::read_credential(table, environment);
    let headers = read_headers(&table.section("headers"));
    let retry = read_retry(table);
    let (cache, stale_if_error, stale_offline) = read_caching(table);
    let methods = table.read("methods", |item| Ok(item.read_items(read_method)));
    let methods = methods.unwrap_or_default();
    let proxy = table.read("proxy", read_proxy);
    let trust = table.read("trust", read_trust);
    let addresses = table.read("addresses", read_choice(&AddressPolicy::NAMED));
    let redirects = table.read("redirects", |item| read_integer(item, 0..=MAX_REDIRECTS));
    let max_body = table.read("max_body", read_size);
    let account = table.read("limits_account", read_account);
    table.finish();
    let default = Api::new(&name, base_url?);
    if let Some(routes) = table.field("routes") {
        unreachable_routes::check_prefix(&routes, default.base_url.prefix());
        unreachable_routes::check_methods(&routes, &rules, &methods);
    }
    Some(Api {
        credential,
        headers,
        rules,
        timeouts,
        retry,
        account,
        cache,
        stale_if_error,
        stale_offline,
        methods,
        proxy: proxy.unwrap_or_default(),
        trust: trust.unwrap_or_default(),
        addresses: addresses.unwrap_or_default(),
        redirects: redirects.unwrap_or(default.redirects),
        max_body: max_body.unwrap_or(default.max_body),
        ..default
    })
}

/// Reads the name of an account. Its groups have accounts below it, so it has no slash.
fn read_account(item: &FieldValue<'_>) -> Result<SmolStr, ValueError> {
    let name = read_text(item)?;
    if name.is_empty() || name.len() > LONGEST_ACCOUNT || name.contains('/') {
        let error = ValueError::new("this is no name of an account");
        return Err(error.help("use 1 to 64 bytes without a slash, such as `limits_account = \"tmdb-team\"`"));
    }
    Ok(SmolStr::new(name))
}

/// Files of accounts are named after them.
const LONGEST_ACCOUNT: usize = 64;

fn read_base_url(table: &TableReader<'_>) -> Option<BaseUrl> {
    let base_url = table.read("base_url", read_url);
    let preset = table.field("preset").and_then(|item| read_text(&item).ok());
    // An unknown preset is reported already, and it may be the one that sets the URL.
    let unknown = preset.is_some_and(|name| Preset::named(name).is_none());
    if !table.has("base_url") && !unknown {
        let error = ValueError::new("this API has no `base_url`");
        let help = "say where it is: `base_url = \"https://api.example.com\"`";
        table.report("base_url", error.help(help));
    }
    base_url
}

/// Limits the parts of an attempt to its timeout; a longer part that a user wrote is a warning.
fn read_timeouts(table: &TableReader<'_>) -> Timeouts {
    let default = Timeouts::default();
    let written = table.read("timeout", read_positive_duration);
    let attempt = written.unwrap_or(default.attempt);
    let part = |name, default: Duration| {
        let span = table.read(name, read_positive_duration);
        if span.is_some_and(|span| span > attempt) {
            let error = ValueError::warning(format!("`timeout` ends the attempt before `{name}` does"));
            table.report(name, error.help("make it shorter than `timeout`"));
        }
        span.unwrap_or(default)
    };
    Timeouts {
        attempt,
        connect: part("connect_timeout", default.connect.min(attempt)),
        read: part("read_timeout", attempt),
    }
}

fn read_retry(table: &TableReader<'_>) -> RetryConfig {
    let default = RetryConfig::default();
    let count = table.read("retry_count", |item| read_integer(item, 0..=MAX_RETRIES));
    let throttled = table.read("retry_429", read_choice(&ThrottledRetry::NAMED));
    let written = table.section("retry");
    let backoff = read_backoff(&written.section("backoff"));
    let budget = read_budget(&written.section("budget"));
    written.finish();
    RetryConfig {
        count: count.unwrap_or(default.count),
        throttled: throttled.unwrap_or(default.throttled),
        backoff: backoff.unwrap_or(default.backoff),
        budget,
    }
}

fn read_backoff(table: &TableReader<'_>) -> Option<Backoff> {
    let base = table.read("base", read_positive_duration).unwrap_or(BACKOFF_BASE);
    let cap = table.read("cap", read_positive_duration);
    let cap = cap.unwrap_or(BACKOFF_CAP.max(base));
    let jitter = table.read("jitter", read_jitter).flatten();
    table.finish();
    let made = match jitter {
        None => Backoff::full_jitter(base, cap),
        Some(jitter) => Backoff::added_jitter(base, jitter, cap),
    };
    made.map_err(|error| table.report("cap", ValueError::new(error.to_string())))
        .ok()
}

/// Reads `"full"` as `None`, or the most that is added to a fixed wait.
fn read_jitter(item: &FieldValue<'_>) -> Result<Option<Duration>, ValueError> {
    match &item.node.value {
        TreeValue::Text(word) if word == "full" => Ok(None),
        _ => read_positive_duration(item).map(Some),
    }
}

fn read_budget(table: &TableReader<'_>) -> RetryBudgetSettings {
    let mut budget = RetryBudgetSettings::default();
    read_fields!(table => budget,
        share: read_share,
        per_second: |item| read_integer(item, 0..=MAX_PER_SECOND),
        ttl: read_ttl,
    );
    if budget.share == Share::NONE && budget.per_second == 0 {
        let error = ValueError::new("such a budget allows no retry at all");
        table.report("share", error.help("say `retry_count = 0` instead"));
    }
    table.finish();
    budget
}

fn read_ttl(item: &FieldValue<'_>) -> Result<Duration, ValueError> {
    match read_positive_duration(item)? {
        ttl if ttl < MIN_TTL => {
            Err(ValueError::new("an earned retry would expire at once").help("use a second or more"))
        }
        ttl => Ok(ttl),
    }
}

/// Reads the cache mode, how long a stale response may replace a failed call, and which one serves without calls.
fn read_caching(table: &TableReader<'_>) -> (CacheMode, Duration, StaleOffline) {
    let mode = table.read("cache", read_cache_mode).unwrap_or_default();
    let stale = table.read("stale_if_error", read_duration).unwrap_or_default();
    let offline = table.read("stale_offline", read_choice(&StaleOffline::NAMED));
    let offline = offline.unwrap_or_default();
    for (key, is_set) in [
        ("stale_if_error", stale > Duration::ZERO),
        ("stale_offline", offline == StaleOffline::Any),
    ] {
        if mode == CacheMode::Off && is_set {
            let error = ValueError::warning("this API's responses are not cached, so none can be served stale");
            table.report(key, error.help("say `cache = \"standard\"`"));
        }
    }
    (mode, stale, offline)
}

/// Reads `"off"`, `"standard"` or `{ force = "5m" }`.
fn read_cache_mode(item: &FieldValue<'_>) -> Result<CacheMode, ValueError> {
    let TreeValue::Table(_) = &item.node.value else {
        let words = [("off", CacheMode::Off), ("standard", CacheMode::Standard)];
        return read_choice(&words)(item);
    };
    let table = item.table()?;
    let force = table.read("force", read_positive_duration);
    table.finish();
    if !table.has("force") {
        return Err(
            ValueError::new("this does not say how long responses are cached").help("say `cache = { force = \"5m\" }`")
        );
    }
    force.map(CacheMode::Force).ok_or(ValueError::Reported)
}

/// Reads `"none"`, `"env"` or a URL.
fn read_proxy(item: &FieldValue<'_>) -> Result<Proxy, ValueError> {
    match read_text(item)? {
        "none" => Ok(Proxy::None),
        "env" => Ok(Proxy::Environment),
        written if written.contains("://") => read_url(item).map(Proxy::Url),
        _ => Err(ValueError::new("this is no proxy")
            .help("write \"none\", \"env\" or a URL such as \"http://proxy.example:3128\"")),
    }
}

/// Reads `"system"`, `"anybody"` or `{ file = "ca.pem" }`.
fn read_trust(item: &FieldValue<'_>) -> Result<TlsTrust, ValueError> {
    if let TreeValue::Table(_) = &item.node.value {
        let table = item.table()?;
        let file = table.read("file", read_path);
        table.finish();
        if !table.has("file") {
            return Err(ValueError::new("this names no file").help("say `file = \"ca.pem\"`"));
        }
        return file.map(TlsTrust::File).ok_or(ValueError::Reported);
    }
    let words = [("system", &TlsTrust::System), ("anybody", &TlsTrust::AnyCertificate)];
    let trusted = read_choice(&words)(item)?;
    if *trusted == TlsTrust::AnyCertificate {
        item.report(
            ValueError::warning("anyone on the network path can read the keys and answer in the API's name")
                .help("use it for a test at most; for a private authority say { file = \"ca.pem\" }"),
        );
    }
    Ok(trusted.clone())
}

/// As in [`Backoff::default`], whose parts are private.
const BACKOFF_BASE: Duration = Duration::from_millis(1_500);
const BACKOFF_CAP: Duration = Duration::from_secs(30);

/// Each retry doubles the wait: more retries than this never happen.
const MAX_RETRIES: u32 = 100;

/// The limit of browsers.
const MAX_REDIRECTS: u8 = 20;

/// A larger budget has no effect.
const MAX_PER_SECOND: u32 = 1_000_000;

/// A call must be able to use the retry that it earned.
const MIN_TTL: Duration = Duration::from_secs(1);
