//! Errors in the shape of a job, in terms of the file.
//!
//! This module runs only after a parse error: serde's messages name types that authors of files do not know.

use serde_json::Value;

/// Describes all errors in the shape of a line, or its JSON syntax error.
pub(super) fn describe_text(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(value) => describe_value(&value),
        Err(error) => format!("invalid JSON at column {}: write {EXAMPLE} on one line", error.column()),
    }
}

/// Describes all errors in the shape of a JSON document.
pub(super) fn describe_value(value: &Value) -> String {
    let Some(fields) = value.as_object() else {
        return format!("not an object: write one such as {EXAMPLE}");
    };
    let errors = fields.iter().filter_map(|(name, value)| {
        let advice = advice(name, value)?;
        Some(format!("{name}: {advice}"))
    });
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() {
        return "has a field twice: remove one".to_owned();
    }
    errors.join("; ")
}

/// Returns advice if the value does not fit the field.
fn advice(name: &str, value: &Value) -> Option<String> {
    let (fits, advice) = match name {
        "id" | "tenant" | "api" | "method" | "path" | "body" | "body_base64" | "timeout" | "idempotency_key" => {
            (value.is_string(), "write a text in quotes")
        }
        "cost" => (value.is_u64(), "write a whole number"),
        "max_retries" => (
            value.as_u64().is_some_and(|count| u32::try_from(count).is_ok()),
            "write a whole number, of nine digits at most",
        ),
        "headers" => (
            value
                .as_object()
                .is_some_and(|headers| headers.values().all(Value::is_string)),
            "write an object of names and texts",
        ),
        "priority" => (
            value
                .as_str()
                .is_some_and(|word| ["low", "normal", "high"].contains(&word)),
            "write low, normal or high",
        ),
        "not_before" | "deadline" => (
            value.is_string() || value.is_number(),
            "write a date such as 2026-10-10T13:55:36Z, or seconds since 1970",
        ),
        "json" => (true, ""),
        _ => return Some("unknown field: `outflow bulk run --help` lists all fields".to_owned()),
    };
    let is_absent = value.is_null() && name != "headers";
    (!fits && !is_absent).then(|| advice.to_owned())
}

const EXAMPLE: &str = r#"{"api": "shop", "path": "/orders/1"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    // No message names a type of the program.
    #[test]
    fn errors_are_in_terms_of_the_file() {
        for (text, expected) in [
            ("nope", "invalid JSON at column"),
            ("[]", "not an object"),
            (r#"{"cost":"3"}"#, "cost: write a whole number"),
            (r#"{"deadlin":1}"#, "deadlin: unknown field"),
            (r#"{"headers":{"a":1},"priority":"x"}"#, "; priority: write low"),
            (r#"{"api":"a","api":"b"}"#, "has a field twice"),
        ] {
            let error = describe_text(text);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("struct") && !error.contains("ident"), "{error}");
        }
    }
}
