//! Readers for values of HTTP: URLs and methods.

use http::Method;
use outflow_config::value_readers::read_text;
use outflow_config::{FieldValue, ValueError, escape_name, nearest_name, unknown_name};

use crate::base_url::{BaseUrl, InvalidBaseUrl};

/// Reads the URL of an API or a proxy.
pub(super) fn read_url(item: &FieldValue<'_>) -> Result<BaseUrl, ValueError> {
    read_text(item)?
        .parse()
        .map_err(|error: InvalidBaseUrl| ValueError::new(error.to_string()))
}

/// Reads a method.
pub(super) fn read_method(item: &FieldValue<'_>) -> Result<Method, ValueError> {
    let written = read_text(item)?;
    let upper = written.to_ascii_uppercase();
    if upper != written {
        let error = ValueError::new("methods are written in capitals");
        return Err(error.help(format!("write \"{}\"", escape_name(&upper))));
    }
    if let Some(near) = nearest_name(written, METHODS.into_iter()).filter(|near| *near != written) {
        return Err(unknown_name("method", written, std::iter::once(near)));
    }
    Method::from_bytes(written.as_bytes())
        .map_err(|_| ValueError::new("this is no method").help("write it like \"GET\""))
}

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];
