//! Control headers: options of one call, set by the caller in `Outflow-*` headers.
//!
//! They are removed before the request is forwarded: no API ever sees one. An unknown name or an invalid value
//! is an error of the caller and is reported: a silently ignored priority would show only in the next outage.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow::config::{InvalidValue, read_duration};
use outflow::core::{Cost, Priority};
use outflow::{CacheDirective, Call, WaitMode};
use smol_str::SmolStr;

/// Options of one call that the caller set.
#[derive(Debug, Default)]
pub(crate) struct CallOverrides {
    cost: Option<Cost>,
    priority: Option<Priority>,
    timeout: Option<Duration>,
    group: Option<SmolStr>,
    idempotent: bool,
    cache: CacheDirective,
    mode: Option<WaitMode>,
    max_wait: Option<Duration>,
}

/// Control header with an unknown name or an invalid value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InvalidControl {
    /// Name of the header.
    pub(crate) header: SmolStr,
    /// Valid values, or the known names.
    pub(crate) advice: String,
}

impl CallOverrides {
    /// Takes the control headers out of the headers.
    pub(crate) fn take(headers: &mut HeaderMap) -> Result<Self, InvalidControl> {
        let mut overrides = Self::default();
        // Most requests have none, and an empty vector allocates nothing.
        let ours: Vec<HeaderName> = headers.keys().filter(|name| is_outflow_header(name)).cloned().collect();
        for name in ours {
            let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
            headers.remove(&name);
            let advice = match values.as_slice() {
                [value] => overrides.set(name.as_str(), value),
                _ => Err("send it once".to_owned()),
            };
            advice.map_err(|advice| InvalidControl {
                header: name.as_str().into(),
                advice,
            })?;
        }
        Ok(overrides)
    }

    /// Sets the options of the call.
    pub(crate) fn apply(self, mut call: Call) -> Call {
        if let Some(cost) = self.cost {
            call = call.cost(cost);
        }
        if let Some(group) = &self.group {
            call = call.group(group);
        }
        if let Some(mode) = self.mode {
            call = call.mode(mode);
        }
        if let Some(max_wait) = self.max_wait {
            call = call.max_wait(max_wait);
        }
        if let Some(timeout) = self.timeout {
            call = call.timeout(timeout);
        }
        if self.idempotent {
            call = call.idempotent();
        }
        call.priority(self.priority.unwrap_or(Priority::Normal))
            .cache(self.cache)
    }

    /// Returns true if the call bypasses the cache.
    pub(crate) fn bypasses_cache(&self) -> bool {
        self.cache == CacheDirective::Bypass
    }

    fn set(&mut self, name: &str, value: &HeaderValue) -> Result<(), String> {
        let value = value.to_str().unwrap_or_default().trim();
        match name {
            "outflow-cost" => self.cost = Some(parse_cost(value)?),
            "outflow-priority" => self.priority = Some(parse_choice(value, &PRIORITIES)?),
            "outflow-deadline" | "outflow-timeout" => {
                let timeout = parse_timeout(value)?;
                self.timeout = Some(self.timeout.map_or(timeout, |other| other.min(timeout)));
            }
            "outflow-max-wait" => self.max_wait = Some(parse_duration(value)?),
            "outflow-group" => self.group = Some(parse_group(value)?),
            "outflow-idempotent" => self.idempotent = parse_choice(value, &BOOLS)?,
            "outflow-cache" => self.cache = parse_choice(value, &CACHES)?,
            "outflow-mode" => self.mode = Some(parse_choice(value, &MODES)?),
            _ => return Err(format!("there is no such header: known are {KNOWN}")),
        }
        Ok(())
    }
}

/// Returns true for a header that only the sidecar and its callers write.
pub(crate) fn is_outflow_header(name: &HeaderName) -> bool {
    name.as_str().starts_with("outflow-")
}

fn parse_cost(value: &str) -> Result<Cost, String> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let units = digits.then(|| value.parse().ok()).flatten();
    units
        .map(Cost::new)
        .ok_or_else(|| "write a whole number like 3".to_owned())
}

fn parse_timeout(value: &str) -> Result<Duration, String> {
    match parse_duration(value)? {
        Duration::ZERO => Err("zero is too short: write it like \"2s\"".to_owned()),
        timeout => Ok(timeout),
    }
}

fn parse_duration(value: &str) -> Result<Duration, String> {
    read_duration(value).map_err(InvalidValue::into_advice)
}

fn parse_group(value: &str) -> Result<SmolStr, String> {
    if value.is_empty() {
        return Err("write the name of a group".to_owned());
    }
    Ok(value.into())
}

fn parse_choice<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == value);
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("write {}", words.join(" or "))
    })
}

const PRIORITIES: [(&str, Priority); 3] = [
    ("high", Priority::High),
    ("normal", Priority::Normal),
    ("low", Priority::Low),
];

const BOOLS: [(&str, bool); 2] = [("true", true), ("false", false)];

const CACHES: [(&str, CacheDirective); 3] = [
    ("default", CacheDirective::Configured),
    ("bypass", CacheDirective::Bypass),
    ("only", CacheDirective::Only),
];

const MODES: [(&str, WaitMode); 2] = [("wait", WaitMode::Wait), ("reject", WaitMode::Reject)];

const KNOWN: &str = "Outflow-Cost, Outflow-Priority, Outflow-Deadline, Outflow-Timeout, \
                     Outflow-Max-Wait, Outflow-Group, Outflow-Idempotent, Outflow-Cache, \
                     Outflow-Mode and Outflow-Token";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &'static str, value: &'static str) -> Result<CallOverrides, InvalidControl> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers.insert("accept", HeaderValue::from_static("*/*"));
        let overrides = CallOverrides::take(&mut headers);
        assert_eq!(headers.len(), 1, "the control header is taken out");
        overrides
    }

    #[test]
    fn an_invalid_control_header_is_reported_with_advice() {
        for (name, value, advice) in [
            ("outflow-cost", "-1", "write a whole number like 3"),
            ("outflow-cost", "1.5", "write a whole number like 3"),
            ("outflow-cost", "99999999999999999999", "write a whole number like 3"),
            ("outflow-priority", "urgent", "write high or normal or low"),
            (
                "outflow-deadline",
                "2",
                "write \"2s\" for seconds or \"2ms\" for milliseconds",
            ),
            ("outflow-timeout", "0s", "zero is too short: write it like \"2s\""),
            (
                "outflow-max-wait",
                "soon",
                "write it like \"10s\", \"1m30s\" or \"250ms\"",
            ),
            ("outflow-group", "", "write the name of a group"),
            ("outflow-idempotent", "yes", "write true or false"),
            ("outflow-cache", "no", "write default or bypass or only"),
            ("outflow-mode", "Wait", "write wait or reject"),
        ] {
            let invalid = parse(name, value).expect_err(value);
            assert_eq!((&*invalid.header, &*invalid.advice), (name, advice));
        }
        let invalid = parse("outflow-prority", "high").expect_err("no such header");
        assert!(invalid.advice.contains("Outflow-Priority"), "{invalid:?}");
    }

    #[test]
    fn a_repeated_control_header_is_invalid() {
        let mut headers = HeaderMap::new();
        headers.append("outflow-cost", HeaderValue::from_static("1"));
        headers.append("outflow-cost", HeaderValue::from_static("2"));
        let invalid = CallOverrides::take(&mut headers).expect_err("two costs");
        assert_eq!(invalid.advice, "send it once");
    }
}
