//! What is wrong with the shape of a job, said in words of the file and not of the program.
//!
//! Only looked for when a line could not be read: the reader itself says what types it expected, which
//! nobody knows who writes a file.

use serde_json::Value;

/// Everything that is wrong with the shape of this line, or that it is no JSON at all.
pub(super) fn of_text(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(value) => of_value(&value),
        Err(error) => format!(
            "is no JSON from column {} on: write {EXAMPLE} on one line",
            error.column()
        ),
    }
}

/// The same for what is JSON.
pub(super) fn of_value(value: &Value) -> String {
    let Some(fields) = value.as_object() else {
        return format!("is no object: write one such as {EXAMPLE}");
    };
    let wrong = fields.iter().filter_map(|(name, value)| {
        let advice = advice(name, value)?;
        Some(format!("{name}: {advice}"))
    });
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() {
        return "has a field twice: leave one of them out".to_owned();
    }
    wrong.join("; ")
}

/// What to write instead, if this is not what the field takes.
fn advice(name: &str, value: &Value) -> Option<String> {
    let (fits, advice) = match name {
        "id" | "tenant" | "api" | "method" | "path" | "body" | "body_base64" | "timeout"
        | "idempotency_key" => (value.is_string(), "write a text in quotes"),
        "cost" => (value.is_u64(), "write a whole number"),
        "max_retries" => (
            value
                .as_u64()
                .is_some_and(|count| u32::try_from(count).is_ok()),
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
        _ => return Some("is not known: `outflow bulk run --help` names all fields".to_owned()),
    };
    let left_out = value.is_null() && name != "headers";
    (!fits && !left_out).then(|| advice.to_owned())
}

const EXAMPLE: &str = r#"{"api": "shop", "path": "/orders/1"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    // No word of it is one of the program's own types.
    #[test]
    fn a_shape_is_told_in_words_of_the_file() {
        for (text, said) in [
            ("nope", "is no JSON from column"),
            ("[]", "is no object"),
            (r#"{"cost":"3"}"#, "cost: write a whole number"),
            (r#"{"deadlin":1}"#, "deadlin: is not known"),
            (
                r#"{"headers":{"a":1},"priority":"x"}"#,
                "; priority: write low",
            ),
            (r#"{"api":"a","api":"b"}"#, "has a field twice"),
        ] {
            let told = of_text(text);
            assert!(told.contains(said), "{told}");
            assert!(
                !told.contains("struct") && !told.contains("ident"),
                "{told}"
            );
        }
    }
}
