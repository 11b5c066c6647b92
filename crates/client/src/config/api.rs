//! Reads one API: where it is, who we are there, how patient we are, and its rules.

use std::time::Duration;

use outflow_core::{Backoff, RetryBudgetSettings, Share};
use smol_str::SmolStr;

use super::environment::Environment;
use super::reader::{FieldValue, TableReader, ValueError};
use super::tree::TreeValue;
use super::value_readers::{choice, duration, method, path, share, size, span, text, url, whole};
use super::{credential, rules, unreachable_routes};
use crate::api::{AddressPolicy, Api, CacheMode, Proxy, RetryConfig, Timeouts, TlsTrust};
use crate::base_url::BaseUrl;
use crate::preset::Preset;

/// Reads `[apis.NAME]`; `None` if it says not even where the API is.
pub(super) fn read(
    name: SmolStr,
    fields: &TableReader<'_>,
    environment: &Environment,
) -> Option<Api> {
    let base_url = base_url(fields);
    let timeouts = timeouts(fields);
    let rules = rules::read(fields, timeouts.attempt);
    let credential = credential::read(fields, environment);
    let retry = retry(fields);
    let (cache, stale_if_error) = read_cache(fields);
    let methods = fields.read("methods", |item| Ok(item.each(method)));
    let methods = methods.unwrap_or_default();
    let proxy = fields.read("proxy", proxy);
    let trust = fields.read("trust", trust);
    let addresses = fields.read("addresses", |item| choice(item, &ADDRESSES));
    let redirects = fields.read("redirects", |item| whole(item, 0..=MOST_REDIRECTS));
    let largest_body = fields.read("largest_body", size);
    fields.finish();
    let usual = Api::new(&name, base_url?);
    if let Some(routes) = fields.item("routes") {
        unreachable_routes::check_prefix(&routes, usual.base_url.prefix());
        unreachable_routes::check_methods(&routes, &rules, &methods);
    }
    Some(Api {
        credential,
        rules,
        timeouts,
        retry,
        cache,
        stale_if_error,
        methods,
        proxy: proxy.unwrap_or_default(),
        trust: trust.unwrap_or_default(),
        addresses: addresses.unwrap_or_default(),
        redirects: redirects
            .and_then(|count| u8::try_from(count).ok())
            .unwrap_or(usual.redirects),
        largest_body: largest_body.unwrap_or(usual.largest_body),
        ..usual
    })
}

fn base_url(fields: &TableReader<'_>) -> Option<BaseUrl> {
    let base_url = fields.read("base_url", url);
    let preset = fields.item("preset").and_then(|item| text(&item).ok());
    // An unknown preset has been told already, and it may have been the one to say where.
    let unknown = preset.is_some_and(|name| Preset::named(name).is_none());
    if !fields.has("base_url") && !unknown {
        let wrong = ValueError::new("this API has no `base_url`");
        let help = "say where it is: `base_url = \"https://api.example.com\"`";
        fields.tell("base_url", wrong.help(help));
    }
    base_url
}

/// The parts of an attempt take no longer than the whole, unless that was said, which is a warning.
fn timeouts(fields: &TableReader<'_>) -> Timeouts {
    let usual = Timeouts::default();
    let said = fields.read("timeout", span);
    let attempt = said.unwrap_or(usual.attempt);
    let part = |name, usual: Duration| {
        let span = fields.read(name, span);
        if span.is_some_and(|span| span > attempt) {
            let wrong =
                ValueError::warning(format!("`timeout` ends the attempt before `{name}` does"));
            fields.tell(name, wrong.help("make it shorter than `timeout`"));
        }
        span.unwrap_or(usual)
    };
    Timeouts {
        attempt,
        connect: part("connect_timeout", usual.connect.min(attempt)),
        read: part("read_timeout", attempt),
    }
}

fn retry(fields: &TableReader<'_>) -> RetryConfig {
    let usual = RetryConfig::default();
    let count = fields.read("retry_count", |item| whole(item, 0..=MOST_RETRIES));
    let written = fields.section("retry");
    let backoff = backoff(&written.section("backoff"));
    let budget = budget(&written.section("budget"));
    written.finish();
    RetryConfig {
        count: count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(usual.count),
        backoff: backoff.unwrap_or(usual.backoff),
        budget,
    }
}

fn backoff(fields: &TableReader<'_>) -> Option<Backoff> {
    let base = fields.read("base", span).unwrap_or(BACKOFF_BASE);
    let cap = fields.read("cap", span);
    let cap = cap.unwrap_or(BACKOFF_CAP.max(base));
    let jitter = fields.read("jitter", jitter).flatten();
    fields.finish();
    let made = match jitter {
        None => Backoff::full_jitter(base, cap),
        Some(jitter) => Backoff::added_jitter(base, jitter, cap),
    };
    made.map_err(|wrong| fields.tell("cap", ValueError::new(wrong.to_string())))
        .ok()
}

/// `"full"`, or how much is added to a wait that is otherwise fixed.
fn jitter(item: &FieldValue<'_>) -> Result<Option<Duration>, ValueError> {
    match &item.node.value {
        TreeValue::Text(word) if word == "full" => Ok(None),
        _ => span(item).map(Some),
    }
}

fn budget(fields: &TableReader<'_>) -> RetryBudgetSettings {
    let usual = RetryBudgetSettings::default();
    let earned = fields.read("share", share).unwrap_or(usual.share);
    let per_second = fields.read("per_second", |item| whole(item, 0..=MOST_PER_SECOND));
    let per_second = per_second
        .and_then(|count| u32::try_from(count).ok())
        .unwrap_or(usual.per_second);
    let ttl = fields.read("ttl", ttl).unwrap_or(usual.ttl);
    if earned == Share::NONE && per_second == 0 {
        let wrong = ValueError::new("such a budget allows no retry at all");
        fields.tell("share", wrong.help("say `retry_count = 0` instead"));
    }
    fields.finish();
    RetryBudgetSettings {
        share: earned,
        per_second,
        ttl,
    }
}

fn ttl(item: &FieldValue<'_>) -> Result<Duration, ValueError> {
    match span(item)? {
        ttl if ttl < SHORTEST_TTL => {
            Err(ValueError::new("what is earned would expire at once").help("use a second or more"))
        }
        ttl => Ok(ttl),
    }
}

/// Whether answers are kept, and how long they are good for when the API fails.
fn read_cache(fields: &TableReader<'_>) -> (CacheMode, Duration) {
    let mode = fields.read("cache", cache).unwrap_or_default();
    let stale = fields.read("stale_if_error", duration).unwrap_or_default();
    if mode == CacheMode::Off && stale > Duration::ZERO {
        let wrong =
            ValueError::warning("no answer of this API is kept, so none can be given stale");
        fields.tell("stale_if_error", wrong.help("say `cache = \"standard\"`"));
    }
    (mode, stale)
}

/// Reads `"off"`, `"standard"` or `{ force = "5m" }`.
fn cache(item: &FieldValue<'_>) -> Result<CacheMode, ValueError> {
    let TreeValue::Table(_) = &item.node.value else {
        let words = [("off", CacheMode::Off), ("standard", CacheMode::Standard)];
        return choice(item, &words);
    };
    let fields = item.fields()?;
    let force = fields.read("force", span);
    fields.finish();
    if !fields.has("force") {
        return Err(ValueError::new("this says not how long answers are kept")
            .help("say `cache = { force = \"5m\" }`"));
    }
    force.map(CacheMode::Force).ok_or(ValueError::Told)
}

/// Reads `"none"`, `"env"` or a URL.
fn proxy(item: &FieldValue<'_>) -> Result<Proxy, ValueError> {
    match text(item)? {
        "none" => Ok(Proxy::None),
        "env" => Ok(Proxy::Environment),
        written if written.contains("://") => url(item).map(Proxy::Url),
        _ => Err(ValueError::new("this is no proxy")
            .help("write \"none\", \"env\" or a URL such as \"http://proxy.example:3128\"")),
    }
}

/// Reads `"system"`, `"anybody"` or `{ file = "ca.pem" }`.
fn trust(item: &FieldValue<'_>) -> Result<TlsTrust, ValueError> {
    if let TreeValue::Table(_) = &item.node.value {
        let fields = item.fields()?;
        let file = fields.read("file", path);
        fields.finish();
        if !fields.has("file") {
            return Err(ValueError::new("this names no file").help("say `file = \"ca.pem\"`"));
        }
        return file.map(TlsTrust::File).ok_or(ValueError::Told);
    }
    let trusted = choice(
        item,
        &[
            ("system", &TlsTrust::System),
            ("anybody", &TlsTrust::AnyCertificate),
        ],
    )?;
    if *trusted == TlsTrust::AnyCertificate {
        item.report(
            ValueError::warning(
                "anybody on the way can read the keys and answer in the API's name",
            )
            .help("use it for a test at most; for a private authority say { file = \"ca.pem\" }"),
        );
    }
    Ok(trusted.clone())
}

/// As of [`Backoff::default`], which keeps its parts to itself.
const BACKOFF_BASE: Duration = Duration::from_millis(1_500);
const BACKOFF_CAP: Duration = Duration::from_secs(30);

/// Each retry doubles the wait; after a hundred of them it is no longer a retry.
const MOST_RETRIES: u64 = 100;

/// As browsers do.
const MOST_REDIRECTS: u64 = 20;

/// A budget without bounds is none.
const MOST_PER_SECOND: u64 = 1_000_000;

/// A call that earned a retry must live to see it.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

const ADDRESSES: [(&str, AddressPolicy); 2] = [
    ("public", AddressPolicy::Public),
    ("any", AddressPolicy::Any),
];
