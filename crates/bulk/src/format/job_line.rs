//! Written form of a job: a JSON object in a file or a request, or a CSV row.
//!
//! Files and requests use the same fields, so a file for `bulk run` can be submitted unchanged. All errors of
//! a line are reported together. An unknown field is an error, since a misspelt deadline would have no
//! effect.

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

/// Written form of a job.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine {
    /// Id, if the line has one.
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

/// Priority among the jobs of a tenant.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum LinePriority {
    Low,
    Normal,
    High,
}

/// Instant: a date, or seconds since 1970.
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
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|_| shape_error::describe_text(text))
    }

    /// Reads a parsed JSON document.
    ///
    /// # Errors
    /// All errors of its form.
    pub fn from_value(value: Value) -> Result<Self, String> {
        Self::deserialize(&value).map_err(|_| shape_error::describe_value(&value))
    }

    /// Reads a CSV row by its column names. An empty field counts as absent.
    ///
    /// # Errors
    /// All errors of its form.
    pub fn from_row<'r>(cells: impl Iterator<Item = (&'r str, &'r str)>) -> Result<Self, String> {
        let mut object = serde_json::Map::new();
        for (name, text) in cells.filter(|(_, text)| !text.is_empty()) {
            object.insert(name.to_owned(), cell(name, text)?);
        }
        Self::from_value(Value::Object(object))
    }

    /// Converts the line into a job. A line without an id gets this one.
    ///
    /// # Errors
    /// All invalid fields of the line.
    pub fn into_spec(self, unnamed: Option<Name>) -> Result<JobSpec, String> {
        let mut errors = FieldErrors::default();
        let tenant = self.tenant.as_deref().unwrap_or(DEFAULT_TENANT);
        let tenant = errors.check("tenant", tenant.parse::<Name>());
        let id = self.id.as_deref().map(str::parse::<Name>);
        let id = id.and_then(|id| errors.check("id", id)).or(unnamed);
        let not_before = errors.check("not_before", instant(self.not_before.as_ref()));
        let deadline = errors.check("deadline", instant(self.deadline.as_ref()));
        let (cost, priority) = (self.cost.map(Cost::new), self.priority());
        let max_retries = self.max_retries;
        let call = self.call(&mut errors);
        let (Some(tenant), Some(call)) = (tenant, call) else {
            return Err(errors.join());
        };
        if !errors.messages.is_empty() {
            return Err(errors.join());
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

    /// Converts the line into a JSON document with this id.
    pub fn into_document(mut self, id: Option<Name>) -> Value {
        self.id = id.map(|id| id.to_string()).or(self.id);
        let mut written = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = written.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        written
    }

    fn priority(&self) -> Priority {
        match self.priority {
            Some(LinePriority::Low) => Priority::Low,
            Some(LinePriority::Normal) | None => Priority::Normal,
            Some(LinePriority::High) => Priority::High,
        }
    }

    fn call(self, errors: &mut FieldErrors) -> Option<HttpCall> {
        let method = self.method.as_deref().unwrap_or("GET").to_uppercase();
        let method = Method::from_bytes(method.as_bytes());
        let method = errors.check("method", method.map_err(|_| "use a method such as GET or POST"));
        let api = errors.check("api", self.api.as_deref().ok_or("name the API to call"));
        let path = self.path.as_deref().ok_or("name the path to call, such as /orders/7");
        let path = errors.check("path", path);
        let mut headers = headers(&self.headers, errors);
        let body = errors.check("body", self.body());
        if self.json.is_some() && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let timeout = errors.check("timeout", span(self.timeout.as_deref()));
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

/// Errors of the fields of a line.
#[derive(Default)]
struct FieldErrors {
    messages: Vec<String>,
}

impl FieldErrors {
    /// Returns the value, or records its error.
    fn check<T, E: Display>(&mut self, field: &str, value: Result<T, E>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(why) => {
                self.messages.push(format!("{field}: {why}"));
                None
            }
        }
    }

    fn join(&self) -> String {
        self.messages.join("; ")
    }
}

/// Parses a cell: numbers and JSON by column, all others as text.
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

fn headers(written: &BTreeMap<String, String>, errors: &mut FieldErrors) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in written {
        let read = HeaderName::try_from(name).ok().zip(HeaderValue::from_str(value).ok());
        // The message omits the value, which may be a key.
        let advice = format!("{name:?} is no header name, or its value has a control character");
        if let Some((name, value)) = errors.check("headers", read.ok_or(advice)) {
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
        Ok(Some(span)) if span < MIN_TIMEOUT => Err(format!(
            "the timeout is too short: use at least {}ms, or omit it",
            MIN_TIMEOUT.as_millis()
        )),
        Ok(span) => Ok(span),
        Err(why) => Err(why.to_string()),
    }
}

/// The store keeps timeouts in milliseconds, and zero means none.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// Tenant of lines without one: a file of one tenant need not repeat its name.
const DEFAULT_TENANT: &str = "default";

#[cfg(test)]
mod tests {
    use crate::JobWork;

    use super::*;

    fn parse(text: &str) -> Result<JobSpec, String> {
        JobLine::from_json(text).and_then(|line| line.into_spec(None))
    }

    fn call(spec: JobSpec) -> HttpCall {
        match spec.work {
            JobWork::Call(call) => call,
            JobWork::Task { .. } => panic!("a call"),
        }
    }

    #[test]
    fn a_short_line_is_a_call_with_defaults() {
        let spec = parse(r#"{"api":"up","path":"/a"}"#).expect("a job");
        assert_eq!(spec.tenant.as_str(), "default");
        assert_eq!((spec.id.as_ref(), spec.cost), (None, None));
        assert_eq!(call(spec), HttpCall::new("up", Method::GET, "/a"));
    }

    #[test]
    fn all_fields_of_a_line_are_read() {
        let text = r#"{"id":"o-1","tenant":"acme","api":"up","method":"post","path":"/a?b=c",
            "headers":{"X-A":"1"},"json":{"n":1},"cost":3,"priority":"high",
            "not_before":"1970-01-01T00:00:07Z","deadline":9,"max_retries":0,"timeout":"1.5s",
            "idempotency_key":"k"}"#;
        let spec = parse(text).expect("a job");
        assert_eq!(spec.id.as_ref().map(Name::as_str), Some("o-1"));
        assert_eq!((spec.cost, spec.priority), (Some(Cost::new(3)), Priority::High));
        assert_eq!(spec.not_before, Some(WallTime::from_unix_secs(7)));
        assert_eq!(spec.deadline, Some(WallTime::from_unix_secs(9)));
        assert_eq!(spec.max_retries, Some(0));
        let call = call(spec);
        assert_eq!((call.method, call.body), (Method::POST, Bytes::from("{\"n\":1}")));
        assert_eq!(call.headers[CONTENT_TYPE], "application/json");
        assert_eq!(call.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(call.idempotency_key.as_deref(), Some("k"));
    }

    // Six fields are invalid.
    #[test]
    fn all_errors_of_a_line_are_reported_together() {
        let text = r#"{"tenant":"two words","method":"G T","body":"a","json":1,"timeout":"5"}"#;
        let wrong = parse(text).expect_err("no job");
        for field in ["tenant: ", "method: ", "api: ", "path: ", "body: ", "timeout: "] {
            assert!(wrong.contains(field), "{field} in {wrong}");
        }
        for bad in [
            "",
            "[]",
            "{",
            r#"{"api":"up","path":"/","deadlin":1}"#,
            r#"{"api":"up","path":"/","timeout":"0s"}"#,
        ] {
            let wrong = parse(bad).expect_err(bad);
            assert!(!wrong.contains("line 1"), "{wrong}");
        }
    }

    // The store keeps whole milliseconds, and would lose a shorter timeout.
    #[test]
    fn a_timeout_below_a_millisecond_is_an_error() {
        let within = |span| format!("{{\"api\":\"up\",\"path\":\"/\",\"timeout\":\"{span}\"}}");
        let wrong = parse(&within("0.9ms")).expect_err("too short");
        assert!(wrong.contains("at least 1ms"), "{wrong}");
        let shortest = call(parse(&within("1ms")).expect("a job"));
        assert_eq!(shortest.timeout, Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_row_equals_its_line() {
        let row = [
            ("tenant", "acme"),
            ("api", "up"),
            ("path", "/a"),
            ("cost", "3"),
            ("headers", r#"{"X-A":"1"}"#),
            ("deadline", "9"),
            ("id", ""),
        ];
        let from_row = JobLine::from_row(row.into_iter()).and_then(|line| line.into_spec(None));
        let from_json =
            parse(r#"{"tenant":"acme","api":"up","path":"/a","cost":3,"headers":{"X-A":"1"},"deadline":9}"#);
        assert_eq!(from_row, from_json);
        let wrong = JobLine::from_row([("cost", "three")].into_iter()).expect_err("no number");
        assert!(wrong.contains("whole number"), "{wrong}");
    }
}
