//! The form of a refusal: its status, and the format of its wait.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use outflow_core::{ClockPair, HttpDate};

/// Scripted refusal: a status, a wait, and the format of the wait.
///
/// ```
/// use std::time::Duration;
/// use outflow_mock::{RetryAfterForm, ThrottleResponse};
///
/// let busy = ThrottleResponse::new(503, Duration::from_secs(2)).with_retry_after(RetryAfterForm::Date);
/// # let _ = busy;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThrottleResponse {
    pub(crate) status: u16,
    pub(crate) wait: Duration,
    pub(crate) form: RetryAfterForm,
}

impl ThrottleResponse {
    /// Builds a refusal with this status and wait, in seconds.
    pub fn new(status: u16, wait: Duration) -> Self {
        Self {
            status,
            wait,
            form: RetryAfterForm::Seconds,
        }
    }

    /// Builds a 429 with these bytes as `Retry-After`.
    pub fn with_bytes(value: impl Into<Bytes>) -> Self {
        Self::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Exactly(value.into()))
    }

    /// Sets the format of the wait.
    #[must_use]
    pub fn with_retry_after(mut self, form: RetryAfterForm) -> Self {
        self.form = form;
        self
    }
}

/// Format of `Retry-After`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RetryAfterForm {
    /// No header.
    Nothing,
    /// Whole seconds, rounded up: `2`.
    #[default]
    Seconds,
    /// Seconds with a fraction of milliseconds, rounded up: `1.250`.
    Fraction,
    /// A date, rounded up to the next whole second.
    Date,
    /// These bytes; invalid header bytes are left out. The audit expects no caller to wait for
    /// them.
    Exactly(Bytes),
}

/// Wait as it is sent.
#[derive(Default)]
pub(crate) struct FormattedWait {
    /// The header, if there is one.
    pub(crate) value: Option<HeaderValue>,
    /// Duration from the moment on; `None` if the value has no meaning for the audit.
    pub(crate) wait: Option<Duration>,
}

impl RetryAfterForm {
    /// Formats the wait at a moment. Rounding only makes it longer.
    pub(crate) fn format(&self, wait: Duration, moment: ClockPair) -> FormattedWait {
        match self {
            Self::Nothing => FormattedWait::default(),
            Self::Seconds => {
                let secs = whole_seconds(wait);
                FormattedWait::value(secs.to_string().as_bytes(), Some(Duration::from_secs(secs)))
            }
            Self::Fraction => {
                let millis = wait.as_nanos().div_ceil(1_000_000);
                let text = format!("{}.{:03}", millis / 1_000, millis % 1_000);
                let span = u64::try_from(millis).map_or(wait, Duration::from_millis);
                FormattedWait::value(text.as_bytes(), Some(span))
            }
            Self::Date => {
                let secs = whole_seconds(moment.wall.as_duration().saturating_add(wait));
                let at = outflow_core::WallTime::from_unix_secs(secs);
                let text = HttpDate::from_wall(at).to_string();
                FormattedWait::value(text.as_bytes(), Some(at.since(moment.wall)))
            }
            Self::Exactly(bytes) => FormattedWait::value(bytes, None),
        }
    }
}

impl FormattedWait {
    fn value(text: &[u8], wait: Option<Duration>) -> Self {
        Self {
            value: HeaderValue::from_bytes(text).ok(),
            wait,
        }
    }
}

/// Returns the seconds, rounded up.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use outflow_core::{Nanos, WallTime};

    use super::*;

    // 1,250.5 ms from half past a second: every form rounds up and none down.
    #[test]
    fn every_form_names_at_least_the_wait() {
        let wait = Duration::from_micros(1_250_500);
        let moment = ClockPair {
            now: Nanos::ZERO,
            wall: WallTime::since_epoch(Duration::from_millis(784_111_775_500)),
        };
        for (form, text, formatted) in [
            (RetryAfterForm::Seconds, "2", 2_000),
            (RetryAfterForm::Fraction, "1.251", 1_251),
            (RetryAfterForm::Date, "Sun, 06 Nov 1994 08:49:37 GMT", 1_500),
        ] {
            let said = form.format(wait, moment);
            assert_eq!(said.value.expect("a value"), text);
            assert_eq!(said.wait, Some(Duration::from_millis(formatted)), "{form:?}");
        }
        assert!(RetryAfterForm::Nothing.format(wait, moment).value.is_none());
        let odd = RetryAfterForm::Exactly(Bytes::from_static(b"\xff soon")).format(wait, moment);
        assert_eq!(odd.value.expect("a value").as_bytes(), b"\xff soon");
        assert_eq!(odd.wait, None);
    }
}
