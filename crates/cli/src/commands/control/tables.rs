//! Text tables of the admin API's responses.

use std::fmt::Write as _;

use serde_json::Value;

use crate::commands::json_fields::{dash, field, list, part, percent};
use crate::terminal::TextTable;

/// Formats all APIs with their health states.
pub(super) fn status(snapshot: &Value) -> String {
    let mut table = TextTable::new([
        "api",
        "group",
        "state",
        "until",
        "rate",
        "in flight",
        "waiting",
        "errors",
        "reason",
    ]);
    for api in list(snapshot, "apis") {
        for health in list(api, "health") {
            table.row([
                field(api, "name"),
                field(health, "group"),
                state(health),
                until(health),
                rate(health),
                format!("{} of {}", field(health, "in_flight"), field(health, "concurrency")),
                field(api, "waiting"),
                percent(health, "error_ppm"),
                field(health, "why"),
            ]);
        }
    }
    let mut output = table.text();
    if snapshot.get("version").is_some() && snapshot.get("uptime_ms").is_some() {
        let (version, up) = (field(snapshot, "version"), span(snapshot, "uptime_ms"));
        // Writing to a string cannot fail.
        let _infallible = writeln!(output, "\noutflow {version}, up for {up}");
    }
    output
}

/// Formats the end of a state. Only an operator ends an override.
fn until(health: &Value) -> String {
    match part(health, "held") {
        Value::Null => span(health, "until_ms"),
        _ => "release".to_owned(),
    }
}

/// Formats the rate in effect, with the configured one where they differ and the group whose limit it is.
fn rate(health: &Value) -> String {
    let (mut rate, configured) = (field(health, "rate"), field(health, "configured_rate"));
    if rate != configured {
        rate = format!("{rate} of {configured}");
    }
    match part(health, "rate_group").as_str() {
        Some(group) if field(health, "group") != group => format!("{rate} ({group})"),
        _ => rate,
    }
}

/// Formats all limits with their use.
pub(super) fn limits(snapshot: &Value) -> String {
    let mut table = TextTable::new([
        "api",
        "group",
        "limit",
        "in effect",
        "kind",
        "used",
        "all processes",
        "next in",
        "reason",
    ]);
    for api in list(snapshot, "apis") {
        add_limits(&mut table, api, api, "all");
        for group in list(api, "groups") {
            add_limits(&mut table, api, group, &field(group, "name"));
        }
    }
    table.text()
}

fn add_limits(table: &mut TextTable, api: &Value, owner: &Value, group: &str) {
    for limit in list(owner, "limits") {
        table.row([
            field(api, "name"),
            group.to_owned(),
            field(limit, "configured"),
            field(limit, "effective"),
            field(limit, "kind"),
            format!("{} of {}", field(limit, "used"), field(limit, "capacity")),
            all_processes(limit),
            span(limit, "predicted_delay_ms"),
            field(limit, "lowered"),
        ]);
    }
}

/// Formats the use of a limit by all processes that share it.
fn all_processes(limit: &Value) -> String {
    let shared = part(limit, "shared");
    let number = |name| part(shared, name).as_u64().unwrap_or(0);
    match (number("processes"), number("arrived") + number("held")) {
        (0, _) => dash(),
        (1, used) => format!("{used}, 1 process"),
        (processes, used) => format!("{used}, {processes} processes"),
    }
}

/// Formats the accounts that processes share.
pub(super) fn accounts(document: &Value) -> String {
    let mut table = TextTable::new(["account", "limit", "arrived", "held", "held by"]);
    for account in list(document, "accounts") {
        let leases: Vec<String> = list(account, "leases").iter().map(Value::to_string).collect();
        for limit in list(account, "limits") {
            table.row([
                field(account, "account"),
                field(limit, "limit"),
                field(limit, "arrived"),
                field(limit, "held"),
                if leases.is_empty() { dash() } else { leases.join(" + ") },
            ]);
        }
    }
    let place = match document.get("dir") {
        Some(_) => field(document, "dir"),
        None => format!("Redis, under the name {}", field(document, "redis")),
    };
    format!("{}\nin {place}\n", table.text())
}

/// Formats the wait estimate of a call.
pub(super) fn wait_estimate(estimate: &Value) -> String {
    let mut output = String::new();
    for (name, value) in [
        ("group", field(estimate, "group")),
        ("cost", field(estimate, "cost")),
        ("state", field(estimate, "state")),
        ("decision", field(estimate, "decision")),
        ("wait", span(estimate, "delay_ms")),
        ("retry in", span(estimate, "retry_after_ms")),
        ("because", field(estimate, "text")),
    ] {
        // Writing to a string cannot fail.
        let _infallible = writeln!(output, "{name:9} {value}");
    }
    if let Some(bound) = part(estimate, "bound").as_str() {
        let _infallible = writeln!(output, "{:9} {bound}", "bound");
    }
    output
}

/// Formats the health states of one API.
pub(super) fn health(healths: &Value) -> String {
    let mut table = TextTable::new(["api", "group", "state"]);
    for health in list(healths, "health") {
        table.row([field(healths, "api"), field(health, "group"), state(health)]);
    }
    table.text()
}

fn state(health: &Value) -> String {
    let state = field(health, "state");
    match part(health, "held") {
        Value::Null => state,
        _ => format!("{state} (held)"),
    }
}

/// Formats milliseconds in readable units.
fn span(value: &Value, key: &str) -> String {
    match part(value, key).as_u64() {
        None => dash(),
        Some(millis @ 0..1_000) => format!("{millis} ms"),
        Some(millis @ 1_000..60_000) => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        Some(millis) => {
            let minutes = millis / 60_000;
            format!("{} h {} min", minutes / 60, minutes % 60)
        }
    }
}

/// Formats the changes of a reload, and the keys that need a restart.
pub(super) fn reload(document: &Value) -> String {
    let mut text = String::from("the configuration was reloaded\n");
    for (key, label) in [
        ("added", "added"),
        ("removed", "removed"),
        ("changed", "changed"),
        ("restart", "in effect after a restart"),
    ] {
        let names: Vec<_> = list(document, key).iter().filter_map(Value::as_str).collect();
        if !names.is_empty() {
            text.push_str(&["  ", label, ": ", &names.join(", "), "\n"].concat());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Empty lists are omitted.
    #[test]
    fn a_reload_lists_changes_and_restart_keys() {
        let document = serde_json::json!({
            "added": [], "removed": [], "changed": ["shop", "mail"], "restart": ["server.listen"]
        });
        assert_eq!(
            reload(&document),
            "the configuration was reloaded\n  changed: shop, mail\n  in effect after a restart: \
             server.listen\n"
        );
    }

    /// Returns the cells of a row.
    fn cells(table: &str, row: usize) -> Vec<&str> {
        let line = table.lines().nth(row).unwrap_or_default();
        let cells = line.split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn a_snapshot_is_a_row_for_each_state_with_its_reason() {
        let snapshot = json!({
            "version": "1.2.3", "uptime_ms": 3_720_000,
            "apis": [{ "name": "shop", "waiting": 3, "health": [
                { "group": null, "state": "Sleep", "held": null, "until_ms": 1_500, "rate": "19/s",
                  "rate_group": "orders", "configured_rate": "35/s", "in_flight": 0, "concurrency": 16, "error_ppm": 215_000,
                  "why": "8 calls in a row failed" },
                { "group": "mail", "state": "Sleep", "held": "offline", "until_ms": 0, "rate": "35/s",
                  "rate_group": "mail", "configured_rate": "35/s", "in_flight": 0, "concurrency": 0, "error_ppm": 0, "why": null },
            ]}],
        });
        let table = status(&snapshot);
        let asleep = [
            "shop",
            "-",
            "Sleep",
            "1.5 s",
            "19/s of 35/s (orders)",
            "0 of 16",
            "3",
            "21.5 %",
            "8 calls in a row failed",
        ];
        assert_eq!(cells(&table, 1), asleep);
        let held = [
            "shop",
            "mail",
            "Sleep (held)",
            "release",
            "35/s",
            "0 of 0",
            "3",
            "0.0 %",
            "-",
        ];
        assert_eq!(cells(&table, 2), held);
        assert!(table.contains("outflow 1.2.3, up for 1 h 2 min"), "{table}");
    }

    #[test]
    fn an_explanation_says_where_concurrency_binds() {
        let bound = "4 of 4 calls in flight: concurrency binds, not the limit 500/min; raise `concurrency`";
        let estimate = wait_estimate(&json!({ "bound": bound }));
        assert!(estimate.ends_with(&format!("bound     {bound}\n")), "{estimate}");
    }

    #[test]
    fn a_missing_field_is_a_dash() {
        assert_eq!(wait_estimate(&json!({})).matches(" -\n").count(), 7);
        assert_eq!(limits(&Value::Null).lines().count(), 1);
    }
}
