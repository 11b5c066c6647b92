//! What a caller says about one call, in headers of ours.
//!
//! They are taken out before anything is handed on: no API ever sees one. A value that is none, or a
//! name that there is not, is a mistake of the caller and is told instead of guessed at: a priority
//! that is silently ignored is found out in the next outage.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow::config::{InvalidValue, read_duration};
use outflow::core::{Cost, Priority};
use outflow::{CacheDirective, Call, WaitMode};
use smol_str::SmolStr;

/// What was said about a call.
#[derive(Debug, Default)]
pub(crate) struct CallOverrides {
    cost: Option<Cost>,
    priority: Option<Priority>,
    within: Option<Duration>,
    group: Option<SmolStr>,
    idempotent: bool,
    cache: CacheDirective,
    mode: Option<WaitMode>,
    max_wait: Option<Duration>,
}

/// A header that says nothing that can be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InvalidControl {
    /// Its name.
    pub(crate) header: SmolStr,
    /// What to write instead.
    pub(crate) advice: String,
}

impl CallOverrides {
    /// Takes what is said out of the headers.
    pub(crate) fn take(headers: &mut HeaderMap) -> Result<Self, InvalidControl> {
        let mut steering = Self::default();
        // Most callers say nothing, and then nothing is collected.
        let ours: Vec<HeaderName> = headers
            .keys()
            .filter(|name| is_ours(name))
            .cloned()
            .collect();
        for name in ours {
            let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
            headers.remove(&name);
            let advice = match values.as_slice() {
                [value] => steering.apply_header(name.as_str(), value),
                _ => Err("send it once".to_owned()),
            };
            advice.map_err(|advice| InvalidControl {
                header: name.as_str().into(),
                advice,
            })?;
        }
        Ok(steering)
    }

    /// Tells the call.
    pub(crate) fn steer(self, mut call: Call) -> Call {
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
        if let Some(within) = self.within {
            call = call.timeout(within);
        }
        if self.idempotent {
            call = call.idempotent();
        }
        call.priority(self.priority.unwrap_or(Priority::Normal))
            .cache(self.cache)
    }

    /// Whether the cache has nothing to do with the call.
    pub(crate) fn is_around_the_cache(&self) -> bool {
        self.cache == CacheDirective::Bypass
    }

    fn apply_header(&mut self, name: &str, value: &HeaderValue) -> Result<(), String> {
        let value = value.to_str().unwrap_or_default().trim();
        match name {
            "outflow-cost" => self.cost = Some(cost(value)?),
            "outflow-priority" => self.priority = Some(parse_choice(value, &PRIORITIES)?),
            "outflow-deadline" | "outflow-timeout" => {
                let span = span(value)?;
                self.within = Some(self.within.map_or(span, |other| other.min(span)));
            }
            "outflow-max-wait" => self.max_wait = Some(parse_duration(value)?),
            "outflow-group" => self.group = Some(group(value)?),
            "outflow-idempotent" => self.idempotent = parse_choice(value, &TRUTHS)?,
            "outflow-cache" => self.cache = parse_choice(value, &CACHES)?,
            "outflow-mode" => self.mode = Some(parse_choice(value, &MODES)?),
            _ => return Err(format!("there is no such header: known are {KNOWN}")),
        }
        Ok(())
    }
}

/// Whether a header is one of those that only we and our callers write.
pub(crate) fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with("outflow-")
}

fn cost(value: &str) -> Result<Cost, String> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let units = digits.then(|| value.parse().ok()).flatten();
    units
        .map(Cost::new)
        .ok_or_else(|| "write a whole number like 3".to_owned())
}

fn span(value: &str) -> Result<Duration, String> {
    match parse_duration(value)? {
        Duration::ZERO => Err("no time is too little: write it like \"2s\"".to_owned()),
        span => Ok(span),
    }
}

fn parse_duration(value: &str) -> Result<Duration, String> {
    read_duration(value).map_err(InvalidValue::into_advice)
}

fn group(value: &str) -> Result<SmolStr, String> {
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

const TRUTHS: [(&str, bool); 2] = [("true", true), ("false", false)];

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
        let steering = CallOverrides::take(&mut headers);
        assert_eq!(headers.len(), 1, "ours is taken out");
        steering
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_what_to_write() {
        for (name, value, advice) in [
            ("outflow-cost", "-1", "write a whole number like 3"),
            ("outflow-cost", "1.5", "write a whole number like 3"),
            (
                "outflow-cost",
                "99999999999999999999",
                "write a whole number like 3",
            ),
            ("outflow-priority", "urgent", "write high or normal or low"),
            (
                "outflow-deadline",
                "2",
                "write \"2s\" for seconds or \"2ms\" for milliseconds",
            ),
            (
                "outflow-timeout",
                "0s",
                "no time is too little: write it like \"2s\"",
            ),
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
            let mistaken = parse(name, value).expect_err(value);
            assert_eq!((&*mistaken.header, &*mistaken.advice), (name, advice));
        }
        let mistaken = parse("outflow-prority", "high").expect_err("no such header");
        assert!(mistaken.advice.contains("Outflow-Priority"), "{mistaken:?}");
    }

    #[test]
    fn one_thing_said_twice_is_no_choice_of_ours() {
        let mut headers = HeaderMap::new();
        headers.append("outflow-cost", HeaderValue::from_static("1"));
        headers.append("outflow-cost", HeaderValue::from_static("2"));
        let mistaken = CallOverrides::take(&mut headers).expect_err("two costs");
        assert_eq!(mistaken.advice, "send it once");
    }
}
