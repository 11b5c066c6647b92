//! Durations of steps, for display.
//!
//! This file alone reads a clock in the task runner; no decision depends on it.

use std::time::{Duration, Instant};

/// Time since a start.
pub(crate) struct StopWatch(Instant);

impl StopWatch {
    /// Starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "a duration for display; no decision depends on it"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the span since the start.
    #[expect(
        clippy::disallowed_methods,
        reason = "a duration for display; no decision depends on it"
    )]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Formats a span as `4.2 s`, `40 s` or `3 min 20 s`.
pub(crate) fn format_span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_minutes_and_seconds() {
        for (millis, shown) in [
            (4_240, "4.2 s"),
            (40_900, "40 s"),
            (180_000, "3 min"),
            (200_000, "3 min 20 s"),
        ] {
            assert_eq!(format_span(Duration::from_millis(millis)), shown);
        }
    }
}
