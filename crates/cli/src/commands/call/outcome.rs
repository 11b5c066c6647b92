//! What came of a call, and how it is shown.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use outflow::event::{CacheLabel, Event, EventKind};
use outflow::{Call, Error, Observer, Outflow, RefusalReason, SystemClock};
use outflow_core::Clock;
use serde_json::{Map, Value, json};

use super::OutputArgs;
use super::explain::CallExplanation;
use crate::exit::Exit;
use crate::terminal::{answer, answer_bytes, answer_json, say, show};

/// An answer or an error, and what it took.
pub(super) struct CallOutcome {
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
    fn show(&self, shown: &OutputArgs) -> anyhow::Result<()> {
        if shown.include {
            answer(&head(self))?;
        }
        match &shown.output {
            Some(file) => std::fs::write(file, &self.body)
                .with_context(|| format!("`{}` cannot be written", file.display())),
            None => answer_bytes(&self.body),
        }
    }
}

struct CallTiming {
    waited: Duration,
    attempts: u32,
    /// From sending to the first byte of the last attempt that was answered.
    first_byte: Option<Duration>,
    total: Duration,
}

impl CallOutcome {
    /// Makes the call.
    pub(super) async fn new(client: &Outflow, call: Call) -> Self {
        let (clock, trips) = (SystemClock::new(), Arc::new(RoundTripTimes::default()));
        client.events().subscribe(trips.clone());
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
            first_byte: trips.last(),
            total: clock.now().since(began),
        };
        Self { ended, timing }
    }

    /// How the program ends. A status is only looked at if the caller wants that.
    pub(super) fn exit(&self, shown: &OutputArgs) -> Exit {
        let check_status = shown.check_status;
        match &self.ended {
            Ok(answer) if check_status && answer.status.is_client_error() => Exit::RefusedByServer,
            Ok(answer) if check_status && answer.status.is_server_error() => Exit::ServerFailed,
            Ok(_) => Exit::Done,
            Err(error) if error.is_invalid_request() || can_never_go(error) => Exit::Usage,
            Err(error) if is_blocked(error) => Exit::Blocked,
            Err(_) => Exit::Failed,
        }
    }

    /// Prints it as it was asked for.
    pub(super) fn show(
        &self,
        shown: &OutputArgs,
        explained: Option<&CallExplanation>,
    ) -> anyhow::Result<()> {
        if shown.json {
            return answer_json(&self.json(explained));
        }
        match &self.ended {
            Ok(answer) => answer.show(shown)?,
            Err(error) => say!("error: {error}"),
        }
        if shown.timing {
            show(&self.timing.text());
        }
        Ok(())
    }

    fn json(&self, explained: Option<&CallExplanation>) -> Value {
        let mut document = match &self.ended {
            Ok(answer) => json!({
                "status": answer.status.as_u16(),
                "headers": shown_headers(&answer.headers),
                "cache": answer.from_cache.map(CacheLabel::name),
                "body": shown_body(&answer.body),
            }),
            Err(error) => json!({
                "error": error.to_string(),
                "blocked": is_blocked(error),
                "retry_after_ms": error.retry_after().map(millis),
            }),
        };
        if let Value::Object(fields) = &mut document {
            fields.insert("timing".to_owned(), self.timing.json());
            if let Some(explained) = explained {
                fields.insert("explain".to_owned(), explained.json());
            }
        }
        document
    }
}

/// Whether a limit or a state stood in the way: the same call may pass later.
fn is_blocked(error: &Error) -> bool {
    (error.is_refused() && !can_never_go(error)) || error.is_cache_miss()
}

/// Whether it was refused for what no other time will change: a group that there is not, or a cost that
/// is more than a limit ever allows.
fn can_never_go(error: &Error) -> bool {
    let cause = error.refusal().map(|refusal| &refusal.cause);
    matches!(
        cause,
        Some(RefusalReason::UnknownGroup(_) | RefusalReason::Never { .. })
    )
}

impl CallTiming {
    fn text(&self) -> String {
        let first = self.first_byte.map_or_else(
            || "none was sent".to_owned(),
            |span| format!("{} ms", millis(span)),
        );
        format!(
            "waited      {} ms for its turn\nattempts    {}\nfirst byte  {first}\ntotal       {} ms\n",
            millis(self.waited),
            self.attempts,
            millis(self.total)
        )
    }

    fn json(&self) -> Value {
        json!({
            "waited_ms": millis(self.waited),
            "attempts": self.attempts,
            "first_byte_ms": self.first_byte.map(millis),
            "total_ms": millis(self.total),
        })
    }
}

fn head(answer: &ResponseView) -> String {
    let mut text = format!("HTTP {}\n", answer.status);
    for (name, value) in &answer.headers {
        // Writing to a string cannot fail.
        let _whole = writeln!(
            text,
            "{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        );
    }
    text.push('\n');
    text
}

/// Every header; a value that may be a secret is masked. The log masks more: there nobody asked for it.
fn shown_headers(headers: &HeaderMap) -> Value {
    let mut shown = Map::new();
    for (name, value) in headers {
        let text = if may_hold_a_secret(name.as_str()) {
            "[redacted]".into()
        } else {
            String::from_utf8_lossy(value.as_bytes())
        };
        let entry = shown.entry(name.as_str()).or_insert(Value::Null);
        *entry = match entry.as_str() {
            Some(before) => Value::from(format!("{before}, {text}")),
            None => Value::from(text),
        };
    }
    Value::Object(shown)
}

fn may_hold_a_secret(name: &str) -> bool {
    let telling = [
        "auth",
        "cookie",
        "key",
        "secret",
        "session",
        "signature",
        "token",
    ];
    // Counts of tokens are what limits are made of.
    let is_count = name.contains("ratelimit");
    !is_count && telling.iter().any(|part| name.contains(part))
}

/// JSON as it is, text as text, and of anything else how long it is.
fn shown_body(body: &Bytes) -> Value {
    if let Ok(value) = serde_json::from_slice(body) {
        return value;
    }
    match std::str::from_utf8(body) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "bytes": body.len() }),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Hears how long answers took to begin.
#[derive(Default)]
struct RoundTripTimes(Mutex<Option<Duration>>);

impl RoundTripTimes {
    fn last(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for RoundTripTimes {
    fn observe(&self, event: &Event) {
        if let EventKind::Settled {
            round_trip: Some(span),
            ..
        } = event.what
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn limits_are_shown_and_secrets_are_not() {
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
        let shown = shown_headers(&headers);
        assert_eq!(shown["set-cookie"], "[redacted]");
        assert_eq!(shown["x-api-key"], "[redacted]");
        assert_eq!(shown["anthropic-ratelimit-tokens-limit"], "30000");
        assert_eq!(shown["via"], "1.1 a, 1.1 b");
    }
}
