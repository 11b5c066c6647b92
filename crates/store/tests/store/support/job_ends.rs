//! Ends of claims after which jobs stand in different places.

use std::time::Duration;

use outflow_store::{Defer, JobEnd};

/// Delayed, dead, put off, and in line again.
pub(crate) fn unlike_ends() -> [JobEnd; 4] {
    let hour = Duration::from_hours(1);
    let words = || "no".to_owned();
    [
        JobEnd::Retry {
            after: hour,
            words: words(),
            result: None,
        },
        JobEnd::Failed {
            words: words(),
            result: None,
        },
        JobEnd::PutOff(Defer::Fixed(hour)),
        JobEnd::Returned,
    ]
}
