//! Reads the rules of one API: what it allows, and how its callers are treated.

use std::time::Duration;

use outflow_core::{AdaptiveMode, Dialect, Dialects, Limit, LimitKind, Share};

use super::limits::{bucket, limits};
use super::rate_share::RateShare;
use super::reader::{FieldValue, TableReader, ValueError};
use super::tree::TreeValue;
use super::value_readers::{choice, duration, share, span, whole};
use super::{groups, health, policy};
use crate::rules::{AlertThresholds, DEFAULT_GROUP, Group, Rules, WaitMode};

/// Reads all that stands behind the door; `timeout` is how long one attempt can take.
pub(super) fn read(fields: &TableReader<'_>, timeout: Duration) -> Rules {
    let mut rules = Rules {
        timeout,
        ..Rules::unlimited()
    };
    let portion = fields.read("rate_share", RateShare::read);
    let portion = portion.unwrap_or(RateShare::ALL);
    let own = own_limits(fields);
    let limits = own.iter().flatten();
    rules.limits = limits.map(|limit| portion.apply(*limit)).collect();
    groups::read(fields, &mut rules, portion);
    if own.is_none() {
        fall_back(fields, &mut rules, portion);
    }
    groups::check(fields, &rules);
    log_entries(fields, &rules);
    patience(fields, &mut rules);
    rules.policy = policy::read(fields);
    rules.thresholds = thresholds(fields);
    health::read(fields, &mut rules);
    rules
}

fn own_limits(fields: &TableReader<'_>) -> Option<Vec<Limit>> {
    let bucket = bucket(fields);
    let listed = limits(fields);
    match (bucket, listed) {
        (None, None) if !fields.has("limits") => None,
        (bucket, listed) => Some(
            bucket
                .into_iter()
                .chain(listed.unwrap_or_default())
                .collect(),
        ),
    }
}

/// Where nothing is said, five calls a second: for the API, or for what no group of it takes.
fn fall_back(fields: &TableReader<'_>, rules: &mut Rules, portion: RateShare) {
    let usual = Rules::with_default_limit().limits.into_iter();
    let usual: Vec<_> = usual.map(|limit| portion.apply(limit)).collect();
    if rules.groups.is_empty() {
        rules.limits = usual;
    } else if !fields.section("groups").has(DEFAULT_GROUP) {
        rules.groups.push(Group::new(DEFAULT_GROUP, usual));
    }
}

/// An exact log that may hold fewer entries than its limit would forget what still counts.
fn log_entries(fields: &TableReader<'_>, rules: &Rules) {
    let most = fields.read("max_log_entries", |item| whole(item, 1..=u64::MAX));
    let grouped = rules.groups.iter().flat_map(|group| &*group.limits);
    let logged = rules.limits.iter().chain(grouped);
    let largest = logged
        .filter(|limit| limit.kind() == LimitKind::Sliding)
        .map(Limit::capacity)
        .max();
    if let (Some(most), Some(largest)) = (most, largest)
        && most < largest
    {
        let wrong = ValueError::new(format!(
            "a log of {most} entries forgets calls that a limit of {largest} still counts"
        ));
        let help = format!("use at least {largest}, or leave it out");
        fields.tell("max_log_entries", wrong.help(help));
    }
}

fn patience(fields: &TableReader<'_>, rules: &mut Rules) {
    let mode = fields.read("rate_limit_mode", |item| choice(item, &MODES));
    rules.mode = mode.unwrap_or_default();
    if let Some(max_wait) = fields.read("max_wait", duration) {
        rules.max_wait = max_wait;
    }
    let queue = fields.read("queue", |item| match whole(item, 0..=MOST_WAITERS)? {
        0 => Err(ValueError::new("nobody could wait").help("say `rate_limit_mode = \"reject\"`")),
        queue => Ok(queue),
    });
    if let Some(queue) = queue.and_then(|queue| usize::try_from(queue).ok()) {
        rules.queue = queue;
    }
    let adaptive = fields.read("adaptive", |item| choice(item, &ADAPTIVES));
    rules.adaptive = adaptive.unwrap_or_default();
    if let Some(dialects) = fields.read("dialects", |item| Ok(dialects(item))) {
        rules.dialects = dialects;
    }
}

fn dialects(item: &FieldValue<'_>) -> Dialects {
    match &item.node.value {
        TreeValue::Text(word) if word == "all" => Dialects::ALL,
        TreeValue::Text(word) if word == "none" => Dialects::NONE,
        _ => {
            let listed = item.each(|item| choice(item, &DIALECTS));
            listed.into_iter().fold(Dialects::NONE, Dialects::with)
        }
    }
}

fn thresholds(fields: &TableReader<'_>) -> AlertThresholds {
    let usual = AlertThresholds::default();
    let usage = fields.read("usage_alert", some_share);
    let memory = fields.read("memory_threshold_mb", |item| {
        whole(item, 1..=MOST_MEGABYTES)
    });
    let every = fields.read("cleanup_interval", span);
    AlertThresholds {
        usage: usage.unwrap_or(usual.usage),
        memory: memory.map_or(usual.memory, |megabytes| megabytes * 1_000_000),
        statistics_every: every.unwrap_or(usual.statistics_every),
    }
}

/// An alert at nothing would never rest.
fn some_share(item: &FieldValue<'_>) -> Result<Share, ValueError> {
    match share(item)? {
        Share::NONE => Err(ValueError::new("this must be above 0").help("write it like \"80%\"")),
        share => Ok(share),
    }
}

/// A waiter is about half a kilobyte: more of them would be gigabytes.
const MOST_WAITERS: u64 = 10_000_000;

/// A terabyte.
const MOST_MEGABYTES: u64 = 1_000_000;

const MODES: [(&str, WaitMode); 2] = [("wait", WaitMode::Wait), ("reject", WaitMode::Reject)];

const ADAPTIVES: [(&str, AdaptiveMode); 3] = [
    ("off", AdaptiveMode::Off),
    ("guard", AdaptiveMode::Guard),
    ("learn", AdaptiveMode::Learn),
];

const DIALECTS: [(&str, Dialect); 7] = [
    ("ietf", Dialect::Ietf),
    ("x-ratelimit", Dialect::XRateLimit),
    ("openai", Dialect::OpenAi),
    ("anthropic", Dialect::Anthropic),
    ("upbit", Dialect::Upbit),
    ("binance", Dialect::Binance),
    ("shopify", Dialect::Shopify),
];
