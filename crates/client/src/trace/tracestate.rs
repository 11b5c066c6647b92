//! Vendor entries of a trace, passed on.
//!
//! Every entry is checked, because the header becomes part of our request: a list that breaks a
//! rule of the standard is dropped completely. Nothing is added.

use http::HeaderMap;
use smol_str::SmolStr;

/// Valid `tracestate`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceState(SmolStr);

impl TraceState {
    /// Parses a list; `None` unless every entry is valid and no key occurs twice.
    pub fn parse(list: &str) -> Option<Self> {
        let entries: Vec<_> = list
            .split(',')
            .map(|entry| entry.trim_matches([' ', '\t']))
            .filter(|entry| !entry.is_empty())
            .collect();
        let mut keys = Vec::with_capacity(entries.len());
        for entry in &entries {
            let (key, value) = entry.split_once('=')?;
            if keys.contains(&key) || !is_key(key) || !is_value(value) {
                return None;
            }
            keys.push(key);
        }
        let list = entries.join(",");
        let fits = (1..=MAX_ENTRIES).contains(&keys.len()) && list.len() <= MAX_BYTES;
        fits.then(|| Self(list.into()))
    }

    /// Joins the lists of all `tracestate` headers.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut lists = Vec::new();
        for value in headers.get_all(super::TRACESTATE) {
            lists.push(value.to_str().ok()?);
        }
        Self::parse(&lists.join(","))
    }

    /// Returns the list as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `name`, or `tenant@system`.
fn is_key(key: &str) -> bool {
    match key.split_once('@') {
        None => is_name(key, 256) && key.starts_with(|c: char| c.is_ascii_lowercase()),
        Some((tenant, system)) => {
            is_name(tenant, 241) && is_name(system, 14) && system.starts_with(|c: char| c.is_ascii_lowercase())
        }
    }
}

fn is_name(name: &str, max: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte);
    (1..=max).contains(&name.len()) && name.bytes().all(fits) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Printable, without entry separators.
fn is_value(value: &str) -> bool {
    let fits = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(fits) && !value.ends_with(' ')
}

/// Limits of the standard.
const MAX_ENTRIES: usize = 32;
const MAX_BYTES: usize = 512;
