//! Headers and bodies of the command line.

use std::io::Read;

use anyhow::Context;
use http::{HeaderName, HeaderValue};
use outflow::Call;
use serde_json::Value;

use crate::command_line::UsageError;

/// Parses `Name: value`.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), UsageError> {
    let read = text.split_once(':').and_then(|(name, value)| {
        let name = HeaderName::try_from(name.trim()).ok()?;
        Some((name, HeaderValue::from_str(value.trim()).ok()?))
    });
    // The message omits the text, since a header may hold a key.
    read.ok_or_else(|| UsageError("invalid header: write it like `-H 'Accept: text/plain'`".to_owned()))
}

/// Body of a request.
#[derive(Debug, PartialEq)]
pub(super) enum BodyInput {
    /// Bytes without a type.
    Bytes(Vec<u8>),
    /// JSON, with its content type.
    Json(Value),
}

impl BodyInput {
    /// Adds the body to a call.
    pub(super) fn add_to(self, call: Call) -> Call {
        match self {
            Self::Bytes(bytes) => call.body(bytes),
            Self::Json(value) => call.json(&value),
        }
    }
}

/// Reads the body, if the command line has one.
pub(super) fn body(data: Option<&str>, json: Option<&str>) -> anyhow::Result<Option<BodyInput>> {
    if let Some(data) = data {
        return Ok(Some(BodyInput::Bytes(bytes(data)?)));
    }
    let Some(json) = json else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&bytes(json)?);
    let value = value.map_err(|error| UsageError(format!("the body is not JSON: {error}")))?;
    Ok(Some(BodyInput::Json(value)))
}

fn bytes(data: &str) -> anyhow::Result<Vec<u8>> {
    if data == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.context("cannot read the body from the standard input")?;
        return Ok(bytes);
    }
    match data.strip_prefix('@') {
        Some(file) => std::fs::read(file).with_context(|| format!("cannot read `{file}`")),
        None => Ok(data.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let (name, value) = header("X-A:  b: c ").expect("one");
        assert_eq!((name.as_str(), value.as_bytes()), ("x-a", b"b: c".as_slice()));
        for wrong in ["no colon", ": value", "a b: c", "a: \u{1}"] {
            assert!(header(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn json_is_checked_before_it_is_sent() {
        assert!(body(None, Some("{\"a\":")).is_err());
        let json = body(None, Some("[1]")).expect("read");
        assert_eq!(json, Some(BodyInput::Json(serde_json::json!([1]))));
        assert_eq!(body(None, None).expect("nothing"), None);
    }
}
