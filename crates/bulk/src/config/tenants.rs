//! Reads the rules of tenants: one for all, and others for single tenants.

use outflow_config::value_readers::{read_choice, read_integer, read_rate};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError};
use outflow_core::{Priority, Weight};
use smol_str::SmolStr;

use super::{BulkConfig, BulkTenant};

/// Reads `tenant`, and `tenants.NAME` over it.
pub(super) fn read_tenants(bulk: &TableReader<'_>, section: &mut BulkConfig) {
    section.tenant = read_rule(&bulk.section("tenant"), BulkTenant::default());
    let tenants = bulk.section("tenants");
    for (entry, item) in tenants.entries() {
        let name = check_name(&entry.name).map_err(|error| tenants.report_name(entry, error));
        let table = item.table().map_err(|error| item.report(error));
        if let (Ok(name), Ok(table)) = (name, table) {
            let own = read_rule(&table, section.tenant);
            section.tenants.insert(name, own);
        }
    }
}

/// Reads a rule; absent keys are as in `default`.
fn read_rule(table: &TableReader<'_>, default: BulkTenant) -> BulkTenant {
    let weight = table.read("weight", read_weight);
    let priority = table.read("priority", read_choice(&PRIORITIES));
    let rate = table.read("rate", |item| or_none(item, read_rate));
    let in_flight = table.read("in_flight", |item| or_none(item, read_count));
    table.finish();
    BulkTenant {
        weight: weight.unwrap_or(default.weight),
        priority: priority.unwrap_or(default.priority),
        rate: rate.unwrap_or(default.rate),
        in_flight: in_flight.unwrap_or(default.in_flight),
    }
}

/// Checks a tenant's name. The submitter chooses it, so more is allowed than in our own names.
fn check_name(written: &str) -> Result<SmolStr, ValueError> {
    let odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if written.is_empty() || written.len() > MAX_NAME || written.contains(odd) {
        let error = ValueError::new("this is no tenant's name");
        return Err(error.help("use 1 to 128 bytes without spaces and control characters"));
    }
    Ok(SmolStr::new(written))
}

fn read_weight(item: &FieldValue<'_>) -> Result<Weight, ValueError> {
    let weight = read_count(item)?;
    Weight::new(weight).map_err(|error| ValueError::new(error.to_string()))
}

fn read_count(item: &FieldValue<'_>) -> Result<u32, ValueError> {
    read_integer(item, 1..=MAX_COUNT).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Reads `"none"` for a tenant without the bound that all others have.
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

/// A tenant with a million times the weight of another starves it.
const MAX_COUNT: u64 = 1_000_000;

/// As in the names of a store.
const MAX_NAME: usize = 128;
