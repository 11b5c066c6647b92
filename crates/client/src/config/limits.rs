//! Reads limits in each of their forms.
//!
//! `"10/s"` is the short form, and a table has all keys; `rate_limit_per_sec` is one limit, and
//! `rate_base` with `bucket_capacity` is a token bucket.

use std::time::Duration;

use outflow_config::value_readers::{
    read_choice, read_duration, read_integer, read_per_second, read_positive_duration, read_rate, read_share,
};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError, decimal_millionths};
use outflow_core::{Accounting, CountBy, Limit, Pacing, Rate};

/// Reads the limits of a table; `None` if it sets none.
pub(super) fn read_limits(table: &TableReader<'_>) -> Option<Vec<Limit>> {
    let listed = table.read("limits", |item| Ok(item.read_items(read_limit)));
    let short = table.read("rate_limit_per_sec", read_per_second);
    if table.has("limits") && table.has("rate_limit_per_sec") {
        let error = ValueError::new("`limits` and `rate_limit_per_sec` both say how fast calls may go");
        table.report("rate_limit_per_sec", error.help("put all of them into `limits`"));
    }
    listed.or_else(|| short.map(|rate| vec![Limit::sliding(rate)]))
}

/// Reads the bucket of `rate_base` and `bucket_capacity`.
pub(super) fn read_bucket(table: &TableReader<'_>) -> Option<Limit> {
    let base = table.read("rate_base", read_base_rate);
    let capacity = table.read("bucket_capacity", |item| read_integer(item, 1..=MAX_BURST));
    if table.has("bucket_capacity") && !table.has("rate_base") {
        let error = ValueError::new("a capacity alone is no limit");
        table.report("bucket_capacity", error.help("say `rate_base` too"));
    }
    let base = base?;
    let capacity = capacity.unwrap_or_else(|| units_per_second(base));
    Limit::bucket(base, capacity).ok()
}

fn read_limit(item: &FieldValue<'_>) -> Result<Limit, ValueError> {
    match &item.node.value {
        TreeValue::Table(_) => read_limit_table(&item.table()?),
        _ => read_rate(item).map(Limit::sliding),
    }
}

fn read_limit_table(table: &TableReader<'_>) -> Result<Limit, ValueError> {
    let rate = table.read("rate", read_rate);
    let kind = table.read("kind", read_choice(&LimitForm::NAMED));
    let burst = table.read("burst", |item| read_integer(item, 1..=MAX_BURST));
    let limit = rate.and_then(|rate| limit_of_kind(table, kind.unwrap_or(LimitForm::Sliding), rate, burst));
    let limit = limit.map(|limit| refine_limit(table, limit));
    if !table.has("rate") {
        table.report(
            "rate",
            ValueError::new("a limit needs its rate").help("say `rate = \"10/s\"`"),
        );
    }
    if table.has("burst") && !matches!(kind, Some(LimitForm::Bucket)) {
        let error = ValueError::new("only a bucket saves up for a burst");
        table.report("burst", error.help("say `kind = \"bucket\"` or drop it"));
    }
    let limit = limit.ok_or(ValueError::Reported);
    table.finish();
    limit
}

fn limit_of_kind(table: &TableReader<'_>, kind: LimitForm, rate: Rate, burst: Option<u64>) -> Option<Limit> {
    let made = match kind {
        LimitForm::Sliding => Ok(Limit::sliding(rate)),
        LimitForm::Fixed => Ok(Limit::fixed(rate)),
        LimitForm::Aligned => Limit::aligned(rate),
        LimitForm::Bucket => Limit::bucket(rate, burst.unwrap_or(rate.quantity())),
    };
    made.map_err(|error| table.report("rate", ValueError::new(error.to_string())))
        .ok()
}

fn refine_limit(table: &TableReader<'_>, limit: Limit) -> Limit {
    let counts = table.read("counts", read_choice(&CountBy::NAMED));
    let accounting = table.read("accounting", read_accounting);
    let guard = table.read("guard", read_duration);
    let pacing = table.read("pacing", read_pacing);
    let warn_below = table.read("warn_below", read_share);
    let limit = limit.measured_in(counts.unwrap_or_default());
    let limit = accounting
        .flatten()
        .map_or(limit, |accounting| limit.counted(accounting));
    let limit = guard.map_or(limit, |guard| limit.guarded(guard));
    let limit = limit.paced(pacing.unwrap_or_default());
    warn_below.map_or(limit, |share| limit.warning_below(share))
}

/// Reads `"auto"` as `None`, or an accounting.
fn read_accounting(item: &FieldValue<'_>) -> Result<Option<Accounting>, ValueError> {
    let [send, safe, tight] = Accounting::NAMED.map(|(name, value)| (name, Some(value)));
    read_choice(&[("auto", None), send, safe, tight])(item)
}

fn read_pacing(item: &FieldValue<'_>) -> Result<Pacing, ValueError> {
    let TreeValue::Table(_) = &item.node.value else {
        return read_choice(&[("off", Pacing::Off), ("soft", Pacing::SOFT)])(item);
    };
    let table = item.table()?;
    let max_delay = table.read("max_delay", read_positive_duration);
    table.finish();
    max_delay
        .map(|max_delay| Pacing::Soft { max_delay })
        .ok_or_else(|| ValueError::new("soft pacing needs its cap").help("say `max_delay = \"500ms\"`"))
}

/// Reads units per second, with a fraction: a bucket has no window that a fraction would extend.
fn read_base_rate(item: &FieldValue<'_>) -> Result<Rate, ValueError> {
    match &item.node.value {
        TreeValue::Decimal(number) => decimal_millionths(number)
            .and_then(|millionths| u64::try_from(millionths).ok())
            .and_then(rate_from_millionths)
            .ok_or_else(|| ValueError::new("this is no rate").help("write it like 35 or \"35/s\"")),
        TreeValue::Integer(_) => read_per_second(item),
        _ => read_rate(item),
    }
}

fn rate_from_millionths(millionths: u64) -> Option<Rate> {
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

/// Returns the units that a bucket regains in one second, at least one.
fn units_per_second(rate: Rate) -> u64 {
    let units = u128::from(rate.quantity()) * 1_000_000_000 / rate.per().as_nanos();
    u64::try_from(units).unwrap_or(u64::MAX).max(1)
}

outflow_core::named_enum! {
    enum LimitForm {
        Sliding = "sliding",
        Fixed = "fixed",
        Aligned = "aligned",
        Bucket = "bucket",
    }
}

const MILLION: u64 = 1_000_000;

/// More than any provider's bucket holds.
const MAX_BURST: u64 = 1_000_000_000_000;
