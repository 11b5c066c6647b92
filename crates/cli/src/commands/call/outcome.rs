//! Result of a call, and its output.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use outflow::event::{CacheLabel, Event, EventKind};
use outflow::{Call, Error, Observer, Outflow, RefusalReason, SystemClock};
use outflow_core::Clock;
use outflow_sync::Mutex;
use serde_json::{Map, Value, json};

use super::OutputArgs;
use super::explain::CallExplanation;
use crate::exit::Exit;
use crate::terminal::{answer, answer_bytes, answer_json, millis, say, show};

/// Response or error of a call, and its timing.
pub(super) struct CallResult {
    ended: Result<ResponseView, Error>,
    timing: CallTiming,
}

struct ResponseView {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    from_cache: Option<CacheLabel>,
}

impl ResponseView {
    fn print(&self, output: &OutputArgs) -> anyhow::Result<()> {
        if output.include {
            answer(&format_head(self))?;
        }
        match &output.output {
            Some(file) => {
                std::fs::write(file, &self.body).with_context(|| format!("`{}` cannot be written", file.display()))
            }
            None => answer_bytes(&self.body),
        }
    }
}

struct CallTiming {
    waited: Duration,
    attempts: u32,
    /// From the send to the first byte, for the last attempt with a response.
    first_byte: Option<Duration>,
    total: Duration,
}

impl CallResult {
    /// Makes the call and measures it.
    pub(super) async fn new(client: &Outflow, call: Call) -> Self {
        let (clock, round_trips) = (SystemClock::new(), Arc::new(RoundTripTimes::default()));
        client.events().subscribe(round_trips.clone());
        let began = clock.now();
        let sent = call.send().await;
        let (waited, attempts) = match &sent {
            Ok(response) => (response.waited(), response.attempts()),
            Err(error) => (Duration::ZERO, error.attempts()),
        };
        let ended = match sent {
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers().clone());
                let from_cache = response.from_cache();
                response.bytes().await.map(|body| ResponseView {
                    status,
                    headers,
                    body,
                    from_cache,
                })
            }
            Err(error) => Err(error),
        };
        let timing = CallTiming {
            waited,
            attempts,
            first_byte: round_trips.last(),
            total: clock.now().since(began),
        };
        Self { ended, timing }
    }

    /// Returns the exit code, which depends on the status only with `--check-status`.
    pub(super) fn exit(&self, output: &OutputArgs) -> Exit {
        let check_status = output.check_status;
        match &self.ended {
            Ok(response) if check_status && response.status.is_client_error() => Exit::RefusedByServer,
            Ok(response) if check_status && response.status.is_server_error() => Exit::ServerFailed,
            Ok(_) => Exit::Done,
            Err(error) if error.is_invalid_request() || is_permanent(error) => Exit::Usage,
            Err(error) if is_blocked(error) => Exit::Blocked,
            Err(_) => Exit::Failed,
        }
    }

    /// Prints the result in the requested form.
    pub(super) fn print(&self, output: &OutputArgs, explanation: Option<&CallExplanation>) -> anyhow::Result<()> {
        if output.json {
            return answer_json(&self.to_json(explanation));
        }
        match &self.ended {
            Ok(response) => response.print(output)?,
            Err(error) => say!("error: {error}"),
        }
        if output.timing {
            show(&self.timing.to_text());
        }
        Ok(())
    }

    fn to_json(&self, explanation: Option<&CallExplanation>) -> Value {
        let mut document = match &self.ended {
            Ok(response) => json!({
                "status": response.status.as_u16(),
                "headers": headers_json(&response.headers),
                "cache": response.from_cache.map(CacheLabel::name),
                "body": body_json(&response.body),
            }),
            Err(error) => json!({
                "error": error.to_string(),
                "blocked": is_blocked(error),
                "retry_after_ms": error.retry_after().map(millis),
            }),
        };
        if let Value::Object(fields) = &mut document {
            fields.insert("timing".to_owned(), self.timing.to_json());
            if let Some(explanation) = explanation {
                fields.insert("explain".to_owned(), explanation.to_json());
            }
        }
        document
    }
}

/// Returns true if a limit or a health state blocked the call, which may succeed later.
fn is_blocked(error: &Error) -> bool {
    (error.is_refused() && !is_permanent(error)) || error.is_cache_miss()
}

/// Returns true for a refusal that time does not change: an unknown group, or a cost above a limit.
fn is_permanent(error: &Error) -> bool {
    let cause = error.refusal().map(|refusal| &refusal.reason);
    matches!(
        cause,
        Some(RefusalReason::UnknownGroup(_) | RefusalReason::Never { .. })
    )
}

impl CallTiming {
    fn to_text(&self) -> String {
        let first = self
            .first_byte
            .map_or_else(|| "no response".to_owned(), |span| format!("{} ms", millis(span)));
        format!(
            "waited      {} ms for a permit\nattempts    {}\nfirst byte  {first}\ntotal       {} ms\n",
            millis(self.waited),
            self.attempts,
            millis(self.total)
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "waited_ms": millis(self.waited),
            "attempts": self.attempts,
            "first_byte_ms": self.first_byte.map(millis),
            "total_ms": millis(self.total),
        })
    }
}

fn format_head(response: &ResponseView) -> String {
    let mut text = format!("HTTP {}\n", response.status);
    for (name, value) in &response.headers {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    text.push('\n');
    text
}

/// Returns all headers with secrets masked. The log masks more values than this explicit request.
fn headers_json(headers: &HeaderMap) -> Value {
    let mut fields = Map::new();
    for (name, value) in headers {
        let text = if may_hold_a_secret(name.as_str()) {
            "[redacted]".into()
        } else {
            String::from_utf8_lossy(value.as_bytes())
        };
        let entry = fields.entry(name.as_str()).or_insert(Value::Null);
        *entry = match entry.as_str() {
            Some(before) => Value::from(format!("{before}, {text}")),
            None => Value::from(text),
        };
    }
    Value::Object(fields)
}

fn may_hold_a_secret(name: &str) -> bool {
    let secret_parts = ["auth", "cookie", "key", "secret", "session", "signature", "token"];
    // Token counts of rate limits are no secrets.
    let is_count = name.contains("ratelimit");
    !is_count && secret_parts.iter().any(|part| name.contains(part))
}

/// Returns JSON unchanged, text as a string, and the length of any other body.
fn body_json(body: &Bytes) -> Value {
    if let Ok(value) = serde_json::from_slice(body) {
        return value;
    }
    match std::str::from_utf8(body) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "bytes": body.len() }),
    }
}

/// Observer that keeps the last time to the first byte.
#[derive(Default)]
struct RoundTripTimes(Mutex<Option<Duration>>);

impl RoundTripTimes {
    fn last(&self) -> Option<Duration> {
        *self.0.lock()
    }
}

impl Observer for RoundTripTimes {
    fn observe(&self, event: &Event) {
        if let EventKind::Settled {
            round_trip: Some(span), ..
        } = event.what
        {
            *self.0.lock() = Some(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn limits_are_printed_and_secrets_are_masked() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("set-cookie", "id=7"),
            ("x-api-key", "k"),
            ("anthropic-ratelimit-tokens-limit", "30000"),
            ("via", "1.1 a"),
            ("via", "1.1 b"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let json = headers_json(&headers);
        assert_eq!(json["set-cookie"], "[redacted]");
        assert_eq!(json["x-api-key"], "[redacted]");
        assert_eq!(json["anthropic-ratelimit-tokens-limit"], "30000");
        assert_eq!(json["via"], "1.1 a, 1.1 b");
    }
}
