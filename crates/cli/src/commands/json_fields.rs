//! Fields of JSON documents of a running program, as text.
//!
//! A missing field is shown as a dash: the other program may be newer or older.

use serde_json::Value;

/// Returns a field of a document, or null.
pub(super) fn part<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// Returns a list of a document, or an empty one.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    part(value, key).as_array().map_or(&[], Vec::as_slice)
}

/// Formats a field.
pub(super) fn field(value: &Value, key: &str) -> String {
    match part(value, key) {
        Value::Null => dash(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats parts per million as a percentage.
pub(super) fn percent(value: &Value, key: &str) -> String {
    let tenths = part(value, key).as_u64().map(|ppm| ppm / 1_000);
    tenths.map_or_else(dash, |tenths| format!("{}.{} %", tenths / 10, tenths % 10))
}

/// Stands for a missing value.
pub(super) fn dash() -> String {
    "-".to_owned()
}
