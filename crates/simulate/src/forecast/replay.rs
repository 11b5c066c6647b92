//! Access log as a load.

use std::collections::HashMap;

use http::Method;
use outflow_core::{Nanos, Timestamp};
use serde_json::Value;

use super::load::LoadCall;
use super::provider::SimulatedProvider;
use crate::error::SimulateError;

/// Parses all readable lines in order of time; time starts with the first.
///
/// # Errors
/// If no line is readable.
pub(crate) fn read(text: &str, provider: &mut SimulatedProvider) -> Result<Vec<LoadCall>, SimulateError> {
    let mut tenants = HashMap::new();
    let mut calls: Vec<_> = text
        .lines()
        .filter_map(parse_line)
        .map(|entry| {
            let group = provider.route(&entry.method, &entry.path);
            let next = tenants.len();
            LoadCall {
                at: entry.at,
                tenant: *tenants.entry(entry.tenant).or_insert(next),
                group: group.index,
                cost: group.cost,
            }
        })
        .collect();
    calls.sort_by_key(|call| call.at);
    let Some(first) = calls.first().map(|call| call.at) else {
        return Err(SimulateError::NoLines);
    };
    for call in &mut calls {
        call.at = Nanos::ZERO.saturating_add(call.at.since(first));
    }
    Ok(calls)
}

#[derive(PartialEq, Debug)]
struct ReplayEntry {
    at: Nanos,
    tenant: String,
    method: Method,
    path: String,
}

fn parse_line(text: &str) -> Option<ReplayEntry> {
    if text.trim_start().starts_with('{') {
        parse_json(text)
    } else {
        parse_combined(text)
    }
}

/// Parses `host ident user [time] "GET /path HTTP/1.1" ...`; the host is the tenant.
fn parse_combined(text: &str) -> Option<ReplayEntry> {
    let (before, rest) = text.split_once('[')?;
    let (time, rest) = rest.split_once(']')?;
    let request = rest.split('"').nth(1)?;
    let mut words = request.split(' ');
    Some(ReplayEntry {
        at: nanos(Timestamp::read_access_log(time)?)?,
        tenant: before.split(' ').next()?.to_owned(),
        method: words.next()?.parse().ok()?,
        path: without_query(words.next()?),
    })
}

fn parse_json(text: &str) -> Option<ReplayEntry> {
    let line: Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| line.get(name).and_then(Value::as_str);
    let at = match line.get("ts")? {
        Value::Number(number) => Timestamp::read_unix(&number.to_string())?,
        Value::String(text) => Timestamp::read(text)?,
        _ => return None,
    };
    Some(ReplayEntry {
        at: nanos(at)?,
        tenant: field("tenant").unwrap_or_default().to_owned(),
        method: field("method").unwrap_or("GET").parse().ok()?,
        path: without_query(field("path")?),
    })
}

fn nanos(at: Timestamp) -> Option<Nanos> {
    let nanos = at.0.as_duration().as_nanos();
    u64::try_from(nanos).ok().map(Nanos::from_nanos)
}

fn without_query(path: &str) -> String {
    path.split('?').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_give_the_same_entry() {
        let combined = "10.0.0.7 - - [10/Oct/2026:13:15:36 +0000] \"POST /orders?a=b HTTP/1.1\" 200 5 \"-\" \"curl\"";
        let json = "{\"ts\": 1791638136, \"method\": \"POST\", \"path\": \"/orders\", \"tenant\": \"10.0.0.7\"}";
        let entry = parse_line(combined).expect("a line");
        assert_eq!((entry.path.as_str(), &entry.method), ("/orders", &Method::POST));
        assert_eq!(parse_line(json), Some(entry));
        for wrong in ["", "{}", "{", "GET / HTTP/1.1", "a [b] \"c\""] {
            assert_eq!(parse_line(wrong), None, "{wrong}");
        }
    }
}
