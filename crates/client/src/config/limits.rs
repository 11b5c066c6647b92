//! Reads limits in each of their forms.
//!
//! `"10/s"` is enough for most; a table says the rest; `rate_limit_per_sec` is short for one limit, and
//! `rate_base` with `bucket_capacity` for a token bucket. A process that shares an API with others takes
//! its part of every limit here, once, so that nothing later needs to know.

use std::time::Duration;

use outflow_core::{Accounting, CountBy, Limit, Pacing, Rate};

use super::reader::{FieldValue, TableReader, ValueError};
use super::tree::TreeValue;
use super::units::decimal_millionths;
use super::value_readers::{choice, duration, per_second, rate, share, span, whole};

/// The limits that a table speaks of; `None` if it says nothing about them.
pub(super) fn limits(fields: &TableReader<'_>) -> Option<Vec<Limit>> {
    let listed = fields.read("limits", |item| Ok(item.each(limit)));
    let short = fields.read("rate_limit_per_sec", per_second);
    if fields.has("limits") && fields.has("rate_limit_per_sec") {
        let wrong =
            ValueError::new("`limits` and `rate_limit_per_sec` both say how fast calls may go");
        fields.tell(
            "rate_limit_per_sec",
            wrong.help("put all of them into `limits`"),
        );
    }
    listed.or_else(|| short.map(|rate| vec![Limit::sliding(rate)]))
}

/// The bucket of `rate_base` and `bucket_capacity`.
pub(super) fn bucket(fields: &TableReader<'_>) -> Option<Limit> {
    let base = fields.read("rate_base", base_rate);
    let capacity = fields.read("bucket_capacity", |item| whole(item, 1..=MOST_SAVED));
    if fields.has("bucket_capacity") && !fields.has("rate_base") {
        let wrong = ValueError::new("a capacity alone is no limit");
        fields.tell("bucket_capacity", wrong.help("say `rate_base` too"));
    }
    let base = base?;
    let capacity = capacity.unwrap_or_else(|| in_one_second(base));
    Limit::bucket(base, capacity).ok()
}

fn limit(item: &FieldValue<'_>) -> Result<Limit, ValueError> {
    match &item.node.value {
        TreeValue::Table(_) => detailed(&item.fields()?),
        _ => rate(item).map(Limit::sliding),
    }
}

fn detailed(fields: &TableReader<'_>) -> Result<Limit, ValueError> {
    let rate = fields.read("rate", rate);
    let kind = fields.read("kind", |item| choice(item, &KINDS));
    let burst = fields.read("burst", |item| whole(item, 1..=MOST_SAVED));
    let limit =
        rate.and_then(|rate| of_kind(fields, kind.unwrap_or(LimitForm::Sliding), rate, burst));
    let limit = limit.map(|limit| refined(fields, limit));
    if !fields.has("rate") {
        fields.tell(
            "rate",
            ValueError::new("a limit needs its rate").help("say `rate = \"10/s\"`"),
        );
    }
    if fields.has("burst") && !matches!(kind, Some(LimitForm::Bucket)) {
        let wrong = ValueError::new("only a bucket saves up for a burst");
        fields.tell("burst", wrong.help("say `kind = \"bucket\"` or drop it"));
    }
    let limit = limit.ok_or(ValueError::Told);
    fields.finish();
    limit
}

fn of_kind(
    fields: &TableReader<'_>,
    kind: LimitForm,
    rate: Rate,
    burst: Option<u64>,
) -> Option<Limit> {
    let made = match kind {
        LimitForm::Sliding => Ok(Limit::sliding(rate)),
        LimitForm::Fixed => Ok(Limit::fixed(rate)),
        LimitForm::Aligned => Limit::aligned(rate),
        LimitForm::Bucket => Limit::bucket(rate, burst.unwrap_or(rate.quantity())),
    };
    made.map_err(|wrong| fields.tell("rate", ValueError::new(wrong.to_string())))
        .ok()
}

fn refined(fields: &TableReader<'_>, limit: Limit) -> Limit {
    let counts = fields.read("counts", |item| choice(item, &MEASURES));
    let accounting = fields.read("accounting", |item| choice(item, &ACCOUNTINGS));
    let guard = fields.read("guard", duration);
    let pacing = fields.read("pacing", pacing);
    let warn_below = fields.read("warn_below", share);
    let limit = limit.measured_in(counts.unwrap_or_default());
    let limit = limit.counted(accounting.unwrap_or_default());
    let limit = guard.map_or(limit, |guard| limit.guarded(guard));
    let limit = limit.paced(pacing.unwrap_or_default());
    warn_below.map_or(limit, |share| limit.warning_below(share))
}

fn pacing(item: &FieldValue<'_>) -> Result<Pacing, ValueError> {
    let TreeValue::Table(_) = &item.node.value else {
        return choice(item, &[("off", Pacing::Off), ("soft", Pacing::SOFT)]);
    };
    let fields = item.fields()?;
    let max_delay = fields.read("max_delay", span);
    fields.finish();
    max_delay
        .map(|max_delay| Pacing::Soft { max_delay })
        .ok_or_else(|| {
            ValueError::new("soft pacing needs its cap").help("say `max_delay = \"500ms\"`")
        })
}

/// So many a second, with a fraction if need be: a bucket has no window that a fraction would stretch.
fn base_rate(item: &FieldValue<'_>) -> Result<Rate, ValueError> {
    match &item.node.value {
        TreeValue::Decimal(number) => decimal_millionths(number)
            .and_then(|millionths| u64::try_from(millionths).ok())
            .and_then(of_millionths)
            .ok_or_else(|| ValueError::new("this is no rate").help("write it like 35 or \"35/s\"")),
        TreeValue::Whole(_) => per_second(item),
        _ => rate(item),
    }
}

fn of_millionths(millionths: u64) -> Option<Rate> {
    let common = common_divisor(millionths, MILLION);
    Rate::new(
        millionths / common,
        Duration::from_secs(MILLION).checked_div(u32::try_from(common).ok()?)?,
    )
    .ok()
}

const fn common_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => common_divisor(b, a % b),
    }
}

/// What comes back in a second, at least one.
fn in_one_second(rate: Rate) -> u64 {
    let units = u128::from(rate.quantity()) * 1_000_000_000 / rate.per().as_nanos();
    u64::try_from(units).unwrap_or(u64::MAX).max(1)
}

#[derive(Clone, Copy)]
enum LimitForm {
    Sliding,
    Fixed,
    Aligned,
    Bucket,
}

const KINDS: [(&str, LimitForm); 4] = [
    ("sliding", LimitForm::Sliding),
    ("fixed", LimitForm::Fixed),
    ("aligned", LimitForm::Aligned),
    ("bucket", LimitForm::Bucket),
];

const MEASURES: [(&str, CountBy); 5] = [
    ("cost", CountBy::Cost),
    ("calls", CountBy::Calls),
    ("tokens", CountBy::Tokens),
    ("input_tokens", CountBy::InputTokens),
    ("output_tokens", CountBy::OutputTokens),
];

const ACCOUNTINGS: [(&str, Accounting); 3] = [
    ("send", Accounting::Send),
    ("safe", Accounting::Safe),
    ("tight", Accounting::Tight),
];

const MILLION: u64 = 1_000_000;

/// A trillion: more than any provider lets anyone save up.
const MOST_SAVED: u64 = 1_000_000_000_000;
