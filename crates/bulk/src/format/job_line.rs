//! One job as people write it: an object of JSON, in a file, in a request or made of a row of CSV.
//!
//! The same words everywhere, so that a file that was run alone can be submitted to a running program as
//! it is. Everything that is wrong with a line is told at once; a word that is not known is wrong too,
//! since a deadline that was misspelt is a deadline that is not kept.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use outflow::config::read_duration;
use outflow_core::{Cost, Priority, Timestamp, WallTime};
use outflow_store::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape_error;
use crate::{HttpCall, JobSpec};

/// One job, as it is written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine {
    /// The id, if the line names one.
    pub id: Option<String>,
    tenant: Option<String>,
    api: Option<String>,
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
    json: Option<Value>,
    cost: Option<u64>,
    priority: Option<LinePriority>,
    not_before: Option<LineTime>,
    deadline: Option<LineTime>,
    max_retries: Option<u32>,
    timeout: Option<String>,
    idempotency_key: Option<String>,
}

/// How urgent a job is among those of its tenant.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum LinePriority {
    Low,
    Normal,
    High,
}

/// A point in time: a date, or a number since 1970.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum LineTime {
    Number(serde_json::Number),
    Text(String),
}

impl JobLine {
    /// Parses a line of JSON.
    ///
    /// # Errors
    /// All errors of its form.
    pub fn of_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|_| shape_error::of_text(text))
    }

    /// Reads a parsed JSON document.
    ///
    /// # Errors
    /// All errors of its form.
    pub fn of_value(value: Value) -> Result<Self, String> {
        Self::deserialize(&value).map_err(|_| shape_error::of_value(&value))
    }

    /// Reads a CSV row by its column names. An empty field counts as absent.
    ///
    /// # Errors
    /// All errors of its form.
    pub fn of_row<'r>(cells: impl Iterator<Item = (&'r str, &'r str)>) -> Result<Self, String> {
        let mut object = serde_json::Map::new();
        for (name, text) in cells.filter(|(_, text)| !text.is_empty()) {
            object.insert(name.to_owned(), cell(name, text)?);
        }
        Self::of_value(Value::Object(object))
    }

    /// Converts the line into a job. A line without an id gets this one.
    ///
    /// # Errors
    /// All invalid fields of the line.
    pub fn order(self, unnamed: Option<Name>) -> Result<JobSpec, String> {
        let mut wrong = LineError::default();
        let tenant = self.tenant.as_deref().unwrap_or(NOBODY);
        let tenant = wrong.check("tenant", tenant.parse::<Name>());
        let id = self.id.as_deref().map(str::parse::<Name>);
        let id = id.and_then(|id| wrong.check("id", id)).or(unnamed);
        let not_before = wrong.check("not_before", instant(self.not_before.as_ref()));
        let deadline = wrong.check("deadline", instant(self.deadline.as_ref()));
        let (cost, priority) = (self.cost.map(Cost::new), self.urgency());
        let max_retries = self.max_retries;
        let call = self.call(&mut wrong);
        let (Some(tenant), Some(call)) = (tenant, call) else {
            return Err(wrong.words());
        };
        if !wrong.words.is_empty() {
            return Err(wrong.words());
        }
        Ok(JobSpec {
            id,
            cost,
            priority,
            not_before: not_before.flatten(),
            deadline: deadline.flatten(),
            max_retries,
            ..JobSpec::call(tenant, call)
        })
    }

    /// The same as a document, under this name.
    pub fn named(mut self, id: Option<Name>) -> Value {
        self.id = id.map(|id| id.to_string()).or(self.id);
        let mut written = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = written.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        written
    }

    fn urgency(&self) -> Priority {
        match self.priority {
            Some(LinePriority::Low) => Priority::Low,
            Some(LinePriority::Normal) | None => Priority::Normal,
            Some(LinePriority::High) => Priority::High,
        }
    }

    fn call(self, wrong: &mut LineError) -> Option<HttpCall> {
        let method = self.method.as_deref().unwrap_or("GET").to_uppercase();
        let method = Method::from_bytes(method.as_bytes());
        let method = wrong.check("method", method.map_err(|_| "use one such as GET or POST"));
        let api = wrong.check("api", self.api.as_deref().ok_or("say which API is called"));
        let path = self
            .path
            .as_deref()
            .ok_or("say what is called, such as /orders/7");
        let path = wrong.check("path", path);
        let mut headers = headers(&self.headers, wrong);
        let body = wrong.check("body", self.body());
        if self.json.is_some() && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let timeout = wrong.check("timeout", span(self.timeout.as_deref()));
        let mut call = HttpCall::new(api?, method?, path?);
        call.headers = headers;
        call.body = body?;
        call.timeout = timeout?;
        call.idempotency_key = self.idempotency_key;
        Some(call)
    }

    fn body(&self) -> Result<Bytes, &'static str> {
        match (&self.body, &self.body_base64, &self.json) {
            (None, None, None) => Ok(Bytes::new()),
            (Some(text), None, None) => Ok(Bytes::from(text.clone())),
            (None, Some(coded), None) => {
                let bytes = BASE64.decode(coded).map(Bytes::from);
                bytes.map_err(|_| "body_base64 is not base64: encode it with padding")
            }
            (None, None, Some(json)) => Ok(Bytes::from(json.to_string())),
            _ => Err("give one of body, body_base64 and json, not several"),
        }
    }
}

/// What is wrong with a line.
#[derive(Default)]
struct LineError {
    words: Vec<String>,
}

impl LineError {
    /// The value, or nothing and a note.
    fn check<T, E: Display>(&mut self, field: &str, value: Result<T, E>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(why) => {
                self.words.push(format!("{field}: {why}"));
                None
            }
        }
    }

    fn words(&self) -> String {
        self.words.join("; ")
    }
}

/// Numbers and documents are written as such; the rest is text.
fn cell(name: &str, text: &str) -> Result<Value, String> {
    match name {
        "json" | "headers" => serde_json::from_str(text)
            .map_err(|_| format!("{name}: write JSON in this column, in quotes that are doubled")),
        "cost" | "max_retries" => {
            let number = text.parse::<u64>();
            number
                .map(Value::from)
                .map_err(|_| format!("{name}: write a whole number, not {text:?}"))
        }
        "not_before" | "deadline" => {
            let number = text.parse::<serde_json::Number>().map(Value::Number);
            Ok(number.unwrap_or_else(|_| Value::from(text)))
        }
        _ => Ok(Value::from(text)),
    }
}

fn headers(written: &BTreeMap<String, String>, wrong: &mut LineError) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in written {
        let read = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::from_str(value).ok());
        // Not the value itself: it may be a key.
        let advice = format!("{name:?} is no header, or its value holds a control character");
        if let Some((name, value)) = wrong.check("headers", read.ok_or(advice)) {
            headers.append(name, value);
        }
    }
    headers
}

fn instant(when: Option<&LineTime>) -> Result<Option<WallTime>, &'static str> {
    let Some(when) = when else {
        return Ok(None);
    };
    let read = match when {
        LineTime::Number(number) => Timestamp::read_unix(&number.to_string()),
        LineTime::Text(text) => Timestamp::read(text),
    };
    let read = read.ok_or("write a date such as 2026-10-10T13:55:36Z, or seconds since 1970")?;
    Ok(Some(read.0))
}

fn span(text: Option<&str>) -> Result<Option<Duration>, String> {
    match text.map(read_duration).transpose() {
        Ok(Some(span)) if span < SHORTEST => Err(format!(
            "nothing is done in less than a millisecond: say at least {}ms, or leave it out",
            SHORTEST.as_millis()
        )),
        Ok(span) => Ok(span),
        Err(why) => Err(why.to_string()),
    }
}

/// Jobs are kept with their time in whole milliseconds, and none is no time at all.
const SHORTEST: Duration = Duration::from_millis(1);

/// Whose jobs are that say nothing of it: a file of one tenant need not repeat its name.
const NOBODY: &str = "default";

#[cfg(test)]
mod tests {
    use crate::JobWork;

    use super::*;

    fn order(text: &str) -> Result<JobSpec, String> {
        JobLine::of_json(text).and_then(|line| line.order(None))
    }

    fn call(order: JobSpec) -> HttpCall {
        match order.work {
            JobWork::Call(call) => call,
            JobWork::Task { .. } => panic!("a call"),
        }
    }

    #[test]
    fn a_short_line_is_a_call_on_the_usual_terms() {
        let order = order(r#"{"api":"up","path":"/a"}"#).expect("a job");
        assert_eq!(order.tenant.as_str(), "default");
        assert_eq!((order.id.as_ref(), order.cost), (None, None));
        assert_eq!(call(order), HttpCall::new("up", Method::GET, "/a"));
    }

    #[test]
    fn every_word_of_a_long_line_is_kept() {
        let text = r#"{"id":"o-1","tenant":"acme","api":"up","method":"post","path":"/a?b=c",
            "headers":{"X-A":"1"},"json":{"n":1},"cost":3,"priority":"high",
            "not_before":"1970-01-01T00:00:07Z","deadline":9,"max_retries":0,"timeout":"1.5s",
            "idempotency_key":"k"}"#;
        let order = order(text).expect("a job");
        assert_eq!(order.id.as_ref().map(Name::as_str), Some("o-1"));
        assert_eq!(
            (order.cost, order.priority),
            (Some(Cost::new(3)), Priority::High)
        );
        assert_eq!(order.not_before, Some(WallTime::from_unix_secs(7)));
        assert_eq!(order.deadline, Some(WallTime::from_unix_secs(9)));
        assert_eq!(order.max_retries, Some(0));
        let call = call(order);
        assert_eq!(
            (call.method, call.body),
            (Method::POST, Bytes::from("{\"n\":1}"))
        );
        assert_eq!(call.headers[CONTENT_TYPE], "application/json");
        assert_eq!(call.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(call.idempotency_key.as_deref(), Some("k"));
    }

    // Everything at once: four fields are wrong.
    #[test]
    fn all_that_is_wrong_with_a_line_is_told_together() {
        let text = r#"{"tenant":"two words","method":"G T","body":"a","json":1,"timeout":"5"}"#;
        let wrong = order(text).expect_err("no job");
        for field in [
            "tenant: ",
            "method: ",
            "api: ",
            "path: ",
            "body: ",
            "timeout: ",
        ] {
            assert!(wrong.contains(field), "{field} in {wrong}");
        }
        for bad in [
            "",
            "[]",
            "{",
            r#"{"api":"up","path":"/","deadlin":1}"#,
            r#"{"api":"up","path":"/","timeout":"0s"}"#,
        ] {
            let wrong = order(bad).expect_err(bad);
            assert!(!wrong.contains("line 1"), "{wrong}");
        }
    }

    // A job is kept with its time in whole milliseconds, and would lose one that is shorter.
    #[test]
    fn a_time_that_cannot_be_kept_is_refused() {
        let within = |span| format!("{{\"api\":\"up\",\"path\":\"/\",\"timeout\":\"{span}\"}}");
        let wrong = order(&within("0.9ms")).expect_err("too short");
        assert!(wrong.contains("at least 1ms"), "{wrong}");
        let shortest = call(order(&within("1ms")).expect("a job"));
        assert_eq!(shortest.timeout, Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_row_says_the_same_as_a_line() {
        let row = [
            ("tenant", "acme"),
            ("api", "up"),
            ("path", "/a"),
            ("cost", "3"),
            ("headers", r#"{"X-A":"1"}"#),
            ("deadline", "9"),
            ("id", ""),
        ];
        let of_row = JobLine::of_row(row.into_iter()).and_then(|line| line.order(None));
        let of_json = order(
            r#"{"tenant":"acme","api":"up","path":"/a","cost":3,"headers":{"X-A":"1"},"deadline":9}"#,
        );
        assert_eq!(of_row, of_json);
        let wrong = JobLine::of_row([("cost", "three")].into_iter()).expect_err("no number");
        assert!(wrong.contains("whole number"), "{wrong}");
    }
}
