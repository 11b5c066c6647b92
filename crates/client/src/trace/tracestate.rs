//! What other tools put beside a trace, passed on.
//!
//! Checked entry by entry, because it goes into a request of ours: a list that breaks a rule of the
//! standard is dropped whole. Nothing is added to it.

use http::HeaderMap;
use smol_str::SmolStr;

/// A right `tracestate`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceState(SmolStr);

impl TraceState {
    /// Reads a list; `None` unless each of its entries is right and no key is there twice.
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
        let kept = entries.join(",");
        let fits = (1..=MOST_ENTRIES).contains(&keys.len()) && kept.len() <= MOST_BYTES;
        fits.then(|| Self(kept.into()))
    }

    /// The list of these headers: one list, however many headers it was sent in.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut lists = Vec::new();
        for value in headers.get_all(super::TRACESTATE) {
            lists.push(value.to_str().ok()?);
        }
        Self::parse(&lists.join(","))
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `name`, or `tenant@system`.
fn is_key(key: &str) -> bool {
    match key.split_once('@') {
        None => is_name(key, 256) && key.starts_with(|c: char| c.is_ascii_lowercase()),
        Some((tenant, system)) => {
            is_name(tenant, 241)
                && is_name(system, 14)
                && system.starts_with(|c: char| c.is_ascii_lowercase())
        }
    }
}

fn is_name(name: &str, most: usize) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte);
    (1..=most).contains(&name.len())
        && name.bytes().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Printable, without what separates entries.
fn is_value(value: &str) -> bool {
    let fits = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(fits) && !value.ends_with(' ')
}

/// The standard's own bounds.
const MOST_ENTRIES: usize = 32;
const MOST_BYTES: usize = 512;
