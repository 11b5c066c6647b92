//! Readers for values of HTTP: URLs, methods and headers.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use outflow_config::value_readers::read_text;
use outflow_config::{FieldValue, TableReader, TreeEntry, ValueError, nearest_name, show_name, unknown_name};

use crate::base_url::{BaseUrl, InvalidBaseUrl};
use crate::client::{is_connection_header, is_identifying_name};

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
        return Err(error.help(format!("write \"{}\"", show_name(&upper))));
    }
    if let Some(near) = nearest_name(written, METHODS.into_iter()).filter(|near| *near != written) {
        return Err(unknown_name("method", written, std::iter::once(near)));
    }
    Method::from_bytes(written.as_bytes())
        .map_err(|_| ValueError::new("this is no method").help("write it like \"GET\""))
}

/// Reads the table `headers`: the names and values of an API's default headers.
pub(super) fn read_headers(table: &TableReader<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (entry, item) in table.entries() {
        item.record_origin();
        let name = header_name(entry).map_err(|error| table.report_name(entry, error));
        let value = header_value(&item).map_err(|error| item.report(error));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    headers
}

fn header_name(entry: &TreeEntry) -> Result<HeaderName, ValueError> {
    let name = HeaderName::from_bytes(entry.name.as_bytes())
        .map_err(|_| ValueError::new("this is no header's name").help("write it like \"Api-Version\""))?;
    if is_identifying_name(name.as_str()) {
        let error = ValueError::new("a key is never written into a configuration");
        return Err(error.help("name its variable in `api_key_env`, and its header in `key`"));
    }
    if is_connection_header(&name) {
        let error = ValueError::new("the connection sets this header");
        return Err(error.help("remove it"));
    }
    Ok(name)
}

fn header_value(item: &FieldValue<'_>) -> Result<HeaderValue, ValueError> {
    let error = || ValueError::new("this is no header's value").help("write plain characters on one line");
    HeaderValue::from_str(read_text(item)?).map_err(|_| error())
}

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];
