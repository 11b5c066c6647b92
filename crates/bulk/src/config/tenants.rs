//! Reads the rules of tenants: one for all, and others for single tenants.

use outflow_config::value_readers::{read_choice, read_integer, read_rate};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError};
use outflow_core::{Priority, Weight};
use outflow_store::{Name, TenantRule};

use crate::settings::EngineSettings;

/// Reads `tenant`, and `tenants.NAME` over it.
pub(super) fn read_tenants(bulk: &TableReader<'_>, settings: &mut EngineSettings) {
    settings.tenant = read_rule(&bulk.section("tenant"), TenantRule::default());
    let tenants = bulk.section("tenants");
    for (entry, item) in tenants.entries() {
        let name = check_name(&entry.name).map_err(|error| tenants.report_name(entry, error));
        let table = item.table().map_err(|error| item.report(error));
        if let (Ok(name), Ok(table)) = (name, table) {
            let own = read_rule(&table, settings.tenant);
            settings.tenants.insert(name, own);
        }
    }
}

/// Reads a rule; absent keys are as in `default`.
fn read_rule(table: &TableReader<'_>, default: TenantRule) -> TenantRule {
    let weight = table.read("weight", read_weight);
    let priority = table.read("priority", read_choice(&PRIORITIES));
    let rate = table.read("rate", |item| or_none(item, read_rate));
    let in_flight = table.read("in_flight", |item| or_none(item, read_count));
    table.finish();
    TenantRule {
        weight: weight.unwrap_or(default.weight),
        priority: priority.unwrap_or(default.priority),
        rate: rate.unwrap_or(default.rate),
        in_flight: in_flight.unwrap_or(default.in_flight),
    }
}

/// Checks a tenant's name. The submitter chooses it, so more is allowed than in our own names.
fn check_name(written: &str) -> Result<Name, ValueError> {
    Name::new(written).map_err(|_| {
        let error = ValueError::new("this is no tenant's name");
        error.help("use 1 to 128 bytes without spaces and control characters")
    })
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
