//! Reads what tenants may: one rule for all, and others for those who are named.

use outflow_core::{Priority, Weight};
use smol_str::SmolStr;

use super::super::reader::{FieldValue, TableReader, ValueError};
use super::super::tree::TreeValue;
use super::super::value_readers::{choice, rate, whole};
use super::{BulkConfig, BulkTenant};

/// Reads `tenant`, and `tenants.NAME` over it.
pub(super) fn read(bulk: &TableReader<'_>, section: &mut BulkConfig) {
    section.tenant = rule(&bulk.section("tenant"), BulkTenant::default());
    for (entry, item) in bulk.section("tenants").entries() {
        let name = name(&entry.name);
        let name = name.map_err(|wrong| bulk.book().report(entry.at, &item.key, wrong));
        let fields = item.fields().map_err(|wrong| item.report(wrong));
        if let (Ok(name), Ok(fields)) = (name, fields) {
            let own = rule(&fields, section.tenant);
            section.tenants.insert(name, own);
        }
    }
}

/// What is not said is as for everybody.
fn rule(fields: &TableReader<'_>, usual: BulkTenant) -> BulkTenant {
    let weight = fields.read("weight", weight);
    let priority = fields.read("priority", |item| choice(item, &PRIORITIES));
    let rate = fields.read("rate", |item| or_none(item, rate));
    let in_flight = fields.read("in_flight", |item| or_none(item, count));
    fields.finish();
    BulkTenant {
        weight: weight.unwrap_or(usual.weight),
        priority: priority.unwrap_or(usual.priority),
        rate: rate.unwrap_or(usual.rate),
        in_flight: in_flight.unwrap_or(usual.in_flight),
    }
}

/// A tenant is called as whoever submits for it says, so more is allowed than in names of our own.
fn name(written: &str) -> Result<SmolStr, ValueError> {
    let odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if written.is_empty() || written.len() > LONGEST_NAME || written.contains(odd) {
        let wrong = ValueError::new("this is no tenant's name");
        return Err(wrong.help("use 1 to 128 bytes without spaces and control characters"));
    }
    Ok(SmolStr::new(written))
}

fn weight(item: &FieldValue<'_>) -> Result<Weight, ValueError> {
    let weight = count(item)?;
    Weight::new(weight).map_err(|wrong| ValueError::new(wrong.to_string()))
}

fn count(item: &FieldValue<'_>) -> Result<u32, ValueError> {
    whole(item, 1..=MOST).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// `"none"` where everybody has a bound and this one has not.
fn or_none<T>(
    item: &FieldValue<'_>,
    read: impl FnOnce(&FieldValue<'_>) -> Result<T, ValueError>,
) -> Result<Option<T>, ValueError> {
    match &item.node.value {
        TreeValue::Text(word) if word == "none" => Ok(None),
        _ => read(item).map(Some),
    }
}

const PRIORITIES: [(&str, Priority); 3] = [
    ("low", Priority::Low),
    ("normal", Priority::Normal),
    ("high", Priority::High),
];

/// A tenant that weighs a million times another starves it, whatever the order.
const MOST: u64 = 1_000_000;

/// As of the names that a store takes.
const LONGEST_NAME: usize = 128;
