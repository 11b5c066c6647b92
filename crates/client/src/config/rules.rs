//! Reads the rules of one API: its limits, waiting, classification and health.

use std::time::Duration;

use outflow_config::value_readers::{read_choice, read_duration, read_integer, read_positive_duration, read_share};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError, read_fields};
use outflow_core::{AdaptiveMode, Dialect, Dialects, Limit, LimitKind, Share};

use super::limits::{read_bucket, read_limits};
use super::rate_share::RateShare;
use super::{groups, health, policy};
use crate::rules::{AlertThresholds, DEFAULT_GROUP, Group, Rules, WaitMode};

/// Reads the rules of an upstream; `timeout` is the longest duration of one attempt.
pub(super) fn read_rules(table: &TableReader<'_>, timeout: Duration) -> Rules {
    let mut rules = Rules {
        timeout,
        ..Rules::unlimited()
    };
    let share = table.read("rate_share", RateShare::read);
    let share = share.unwrap_or(RateShare::ALL);
    let own = read_own_limits(table);
    let limits = own.iter().flatten();
    rules.limits = limits.map(|limit| share.apply(*limit)).collect();
    groups::read_groups(table, &mut rules, share);
    if own.is_none() {
        add_default_limit(table, &mut rules, share);
    }
    groups::check_costs(table, &rules);
    check_log_entries(table, &rules);
    read_waiting(table, &mut rules);
    rules.policy = policy::read_policy(table);
    rules.thresholds = read_thresholds(table);
    health::read_health(table, &mut rules);
    rules
}

fn read_own_limits(table: &TableReader<'_>) -> Option<Vec<Limit>> {
    let bucket = read_bucket(table);
    let listed = read_limits(table);
    match (bucket, listed) {
        (None, None) if !table.has("limits") => None,
        (bucket, listed) => Some(bucket.into_iter().chain(listed.unwrap_or_default()).collect()),
    }
}

/// Adds the default limit of five calls per second: to the API, or to calls of no group.
fn add_default_limit(table: &TableReader<'_>, rules: &mut Rules, share: RateShare) {
    let default = Rules::with_default_limit().limits.into_iter();
    let default: Vec<_> = default.map(|limit| share.apply(limit)).collect();
    if rules.groups.is_empty() {
        rules.limits = default;
    } else if !table.section("groups").has(DEFAULT_GROUP) {
        rules.groups.push(Group::new(DEFAULT_GROUP, default));
    }
}

/// Reports a log with fewer entries than its limit: it would forget calls that still count.
fn check_log_entries(table: &TableReader<'_>, rules: &Rules) {
    let max = table.read("max_log_entries", |item| read_integer(item, 1..=u64::MAX));
    let grouped = rules.groups.iter().flat_map(|group| &*group.limits);
    let logged = rules.limits.iter().chain(grouped);
    let largest = logged
        .filter(|limit| limit.kind() == LimitKind::Sliding)
        .map(Limit::capacity)
        .max();
    if let (Some(max), Some(largest)) = (max, largest)
        && max < largest
    {
        let error = ValueError::new(format!(
            "a log of {max} entries forgets calls that a limit of {largest} still counts"
        ));
        let help = format!("use at least {largest}, or leave it out");
        table.report("max_log_entries", error.help(help));
    }
}

fn read_waiting(table: &TableReader<'_>, rules: &mut Rules) {
    let mode = table.read("rate_limit_mode", read_choice(&WaitMode::NAMED));
    rules.mode = mode.unwrap_or_default();
    read_fields!(table => rules,
        max_wait: read_duration,
        queue: |item| match read_integer(item, 0..=MAX_WAITERS)? {
            0 => Err(ValueError::new("no call could wait").help("say `rate_limit_mode = \"reject\"`")),
            queue => Ok(queue),
        },
        adaptive: read_choice(&AdaptiveMode::NAMED),
        dialects: |item| Ok(read_dialects(item)),
    );
}

fn read_dialects(item: &FieldValue<'_>) -> Dialects {
    match &item.node.value {
        TreeValue::Text(word) if word == "all" => Dialects::ALL,
        TreeValue::Text(word) if word == "none" => Dialects::NONE,
        _ => {
            let listed = item.read_items(read_choice(&Dialect::NAMED));
            listed.into_iter().fold(Dialects::NONE, Dialects::with)
        }
    }
}

fn read_thresholds(table: &TableReader<'_>) -> AlertThresholds {
    let default = AlertThresholds::default();
    let usage = table.read("usage_alert", read_positive_share);
    let memory = table.read("memory_threshold_mb", |item| read_integer(item, 1..=MAX_MEGABYTES));
    let every = table.read("cleanup_interval", read_positive_duration);
    AlertThresholds {
        usage: usage.unwrap_or(default.usage),
        memory: memory.map_or(default.memory, |megabytes| megabytes * 1_000_000),
        statistics_every: every.unwrap_or(default.statistics_every),
    }
}

/// Reads a share above zero: an alert at zero would never end.
fn read_positive_share(item: &FieldValue<'_>) -> Result<Share, ValueError> {
    match read_share(item)? {
        Share::NONE => Err(ValueError::new("this must be above 0").help("write it like \"80%\"")),
        share => Ok(share),
    }
}

/// A waiter needs about half a kilobyte: more waiters would need gigabytes.
const MAX_WAITERS: usize = 10_000_000;

/// A terabyte.
const MAX_MEGABYTES: u64 = 1_000_000;
