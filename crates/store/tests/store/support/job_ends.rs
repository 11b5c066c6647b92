//! Ends of claims after which jobs stand in different places.

use std::time::Duration;

use outflow_store::{End, PutOff};

/// Delayed, dead, put off, and in line again.
pub(crate) fn unlike_ends() -> [End; 4] {
    let hour = Duration::from_hours(1);
    let words = || "no".to_owned();
    [
        End::Retry {
            after: hour,
            words: words(),
            result: None,
        },
        End::Failed {
            words: words(),
            result: None,
        },
        End::PutOff(PutOff::Fixed(hour)),
        End::Returned,
    ]
}
