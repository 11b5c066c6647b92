//! The admin API's answers as people read them.
//!
//! A field that is not there is shown as a dash: a newer or an older program may be at the other end.

use std::fmt::Write as _;

use serde_json::Value;

use crate::terminal::TextTable;

/// Every API with its states.
pub(super) fn status(snapshot: &Value) -> String {
    let mut table = TextTable::new([
        "api",
        "group",
        "state",
        "until",
        "in flight",
        "waiting",
        "errors",
    ]);
    for api in list(snapshot, "apis") {
        for health in list(api, "health") {
            table.row([
                text(api, "name"),
                text(health, "group"),
                state(health),
                health.get("until_ms").map_or_else(dash, span),
                text(health, "in_flight"),
                text(api, "waiting"),
                health.get("error_ppm").map_or_else(dash, percent),
            ]);
        }
    }
    let mut told = table.text();
    if let (Some(version), Some(up)) = (snapshot.get("version"), snapshot.get("uptime_ms")) {
        // Writing to a string cannot fail.
        let _whole = writeln!(told, "\noutflow {}, up for {}", plain(version), span(up));
    }
    told
}

/// Every limit with its use.
pub(super) fn limits(snapshot: &Value) -> String {
    let mut table = TextTable::new([
        "api",
        "group",
        "limit",
        "in effect",
        "kind",
        "used",
        "next in",
    ]);
    for api in list(snapshot, "apis") {
        add_limits(&mut table, api, api, "all");
        for group in list(api, "groups") {
            add_limits(&mut table, api, group, &text(group, "name"));
        }
    }
    table.text()
}

fn add_limits(table: &mut TextTable, api: &Value, owner: &Value, group: &str) {
    for limit in list(owner, "limits") {
        table.row([
            text(api, "name"),
            group.to_owned(),
            text(limit, "configured"),
            text(limit, "effective"),
            text(limit, "kind"),
            format!("{} of {}", text(limit, "used"), text(limit, "capacity")),
            limit.get("predicted_delay_ms").map_or_else(dash, span),
        ]);
    }
}

/// What would become of a call.
pub(super) fn outlook(outlook: &Value) -> String {
    let mut told = String::new();
    for (name, value) in [
        ("group", text(outlook, "group")),
        ("cost", text(outlook, "cost")),
        ("state", text(outlook, "state")),
        ("decision", text(outlook, "decision")),
        ("wait", outlook.get("delay_ms").map_or_else(dash, span)),
        ("because", text(outlook, "text")),
    ] {
        // Writing to a string cannot fail.
        let _whole = writeln!(told, "{name:9} {value}");
    }
    told
}

/// The states of one API after a change.
pub(super) fn health(healths: &Value) -> String {
    let mut table = TextTable::new(["api", "group", "state"]);
    for health in list(healths, "health") {
        table.row([text(healths, "api"), text(health, "group"), state(health)]);
    }
    table.text()
}

fn state(health: &Value) -> String {
    let state = text(health, "state");
    match health.get("held") {
        None | Some(Value::Null) => state,
        Some(_) => format!("{state} (held)"),
    }
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).map_or_else(dash, plain)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => dash(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Milliseconds as people say them.
fn span(millis: &Value) -> String {
    match millis.as_u64() {
        None => dash(),
        Some(millis @ 0..1_000) => format!("{millis} ms"),
        Some(millis @ 1_000..60_000) => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        Some(millis) => {
            let minutes = millis / 60_000;
            format!("{} h {} min", minutes / 60, minutes % 60)
        }
    }
}

/// Parts of a million as people say them.
fn percent(ppm: &Value) -> String {
    let tenths = ppm.as_u64().map(|ppm| ppm / 1_000);
    tenths.map_or_else(dash, |tenths| format!("{}.{} %", tenths / 10, tenths % 10))
}

fn dash() -> String {
    "-".to_owned()
}

/// What a reload changed, and what waits for the next start.
pub(super) fn reload(document: &Value) -> String {
    let mut text = String::from("the configuration was read again\n");
    for (key, said) in [
        ("added", "added"),
        ("removed", "removed"),
        ("changed", "changed"),
        ("restart", "in effect at the next start"),
    ] {
        let names = document.get(key).and_then(Value::as_array);
        let names: Vec<_> = names
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !names.is_empty() {
            text.push_str(&["  ", said, ": ", &names.join(", "), "\n"].concat());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // What nobody has to look at is not listed.
    #[test]
    fn a_reload_says_what_is_different_and_what_waits() {
        let document = serde_json::json!({
            "added": [], "removed": [], "changed": ["shop", "mail"], "restart": ["server.listen"]
        });
        assert_eq!(
            reload(&document),
            "the configuration was read again\n  changed: shop, mail\n  in effect at the next start: \
             server.listen\n"
        );
    }

    #[test]
    fn a_snapshot_is_a_row_for_each_state() {
        let snapshot = json!({
            "version": "1.2.3", "uptime_ms": 3_720_000,
            "apis": [{ "name": "shop", "waiting": 3, "health": [
                { "group": null, "state": "Sleep", "held": "offline", "until_ms": 1_500,
                  "in_flight": 0, "error_ppm": 215_000 },
            ]}],
        });
        let told = status(&snapshot);
        assert!(
            told.contains("shop  -      Sleep (held)  1.5 s  0          3        21.5 %"),
            "{told}"
        );
        assert!(told.contains("outflow 1.2.3, up for 1 h 2 min"), "{told}");
    }

    #[test]
    fn what_is_not_told_is_a_dash() {
        assert_eq!(outlook(&json!({})).matches(" -\n").count(), 6);
        assert_eq!(limits(&Value::Null).lines().count(), 1);
    }
}
