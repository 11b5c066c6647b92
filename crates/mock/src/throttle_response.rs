//! How the server says no: with which status, and in which form the wait is told.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use outflow_core::{ClockPair, HttpDate};

/// A scripted refusal: a status, a wait, and how it is told.
///
/// ```
/// use std::time::Duration;
/// use outflow_mock::{Refusal, Tell};
///
/// let busy = Refusal::new(503, Duration::from_secs(2)).told_as(Tell::Date);
/// # let _ = busy;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThrottleResponse {
    pub(crate) status: u16,
    pub(crate) wait: Duration,
    pub(crate) tell: RetryAfterForm,
}

impl ThrottleResponse {
    /// Refuses with this status and asks to wait so long, in seconds.
    pub fn new(status: u16, wait: Duration) -> Self {
        Self {
            status,
            wait,
            tell: RetryAfterForm::Seconds,
        }
    }

    /// A 429 with these bytes for `Retry-After`, whatever they mean.
    pub fn with_bytes(value: impl Into<Bytes>) -> Self {
        Self::new(429, Duration::ZERO).with_retry_after(RetryAfterForm::Exactly(value.into()))
    }

    /// Tells the wait in another form.
    #[must_use]
    pub fn with_retry_after(mut self, tell: RetryAfterForm) -> Self {
        self.tell = tell;
        self
    }
}

/// The form of `Retry-After`.
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
    /// These bytes, whatever they mean; bytes that no header may hold are left out. The audit
    /// expects nobody to wait for them.
    Exactly(Bytes),
}

/// A wait as it was told.
pub(crate) struct Told {
    /// The header, if there is one.
    pub(crate) value: Option<HeaderValue>,
    /// How long it says, from the moment on; `None` if it says nothing that the audit knows.
    pub(crate) wait: Option<Duration>,
}

impl RetryAfterForm {
    /// Says it at a moment. Rounding only makes the wait longer.
    pub(crate) fn say(&self, wait: Duration, moment: ClockPair) -> Told {
        match self {
            Self::Nothing => Told::nothing(),
            Self::Seconds => {
                let secs = whole_seconds(wait);
                Told::value(secs.to_string().as_bytes(), Some(Duration::from_secs(secs)))
            }
            Self::Fraction => {
                let millis = wait.as_nanos().div_ceil(1_000_000);
                let text = format!("{}.{:03}", millis / 1_000, millis % 1_000);
                let span = u64::try_from(millis).map_or(wait, Duration::from_millis);
                Told::value(text.as_bytes(), Some(span))
            }
            Self::Date => {
                let secs = whole_seconds(moment.wall.as_duration().saturating_add(wait));
                let at = outflow_core::WallTime::from_unix_secs(secs);
                let text = HttpDate::from_wall(at).to_string();
                Told::value(text.as_bytes(), Some(at.since(moment.wall)))
            }
            Self::Exactly(bytes) => Told::value(bytes, None),
        }
    }
}

impl Told {
    fn nothing() -> Self {
        Self {
            value: None,
            wait: None,
        }
    }

    fn value(text: &[u8], wait: Option<Duration>) -> Self {
        Self {
            value: HeaderValue::from_bytes(text).ok(),
            wait,
        }
    }
}

/// Seconds, rounded up.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0))
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
        for (tell, text, told) in [
            (RetryAfterForm::Seconds, "2", 2_000),
            (RetryAfterForm::Fraction, "1.251", 1_251),
            (RetryAfterForm::Date, "Sun, 06 Nov 1994 08:49:37 GMT", 1_500),
        ] {
            let said = tell.say(wait, moment);
            assert_eq!(said.value.expect("a value"), text);
            assert_eq!(said.wait, Some(Duration::from_millis(told)), "{tell:?}");
        }
        assert!(RetryAfterForm::Nothing.say(wait, moment).value.is_none());
        let odd = RetryAfterForm::Exactly(Bytes::from_static(b"\xff soon")).say(wait, moment);
        assert_eq!(odd.value.expect("a value").as_bytes(), b"\xff soon");
        assert_eq!(odd.wait, None);
    }
}
