//! Spans as people write them.

use std::fmt;
use std::time::Duration;

/// Span in the two largest units that matter: `850 ms`, `6.8 s`, `3 min 20 s`, `2 h 5 min`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadableSpan(pub(crate) Duration);

impl fmt::Display for ReadableSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded up: a caller that waits for it is never too early.
        let millis = self.0.as_nanos().div_ceil(1_000_000);
        let seconds = millis / 1_000;
        match millis {
            0..1_000 => write!(f, "{millis} ms"),
            1_000..60_000 => write!(f, "{seconds}.{} s", millis % 1_000 / 100),
            60_000..3_600_000 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3_600, seconds / 60 % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_the_units_of_its_size() {
        for (millis, text) in [
            (0, "0 ms"),
            (850, "850 ms"),
            (6_807, "6.8 s"),
            (60_000, "1 min 0 s"),
            (200_500, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(ReadableSpan(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
