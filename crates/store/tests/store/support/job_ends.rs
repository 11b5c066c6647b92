//! Ends of claims that lead to different states.

use std::time::Duration;

use outflow_store::{Defer, JobEnd};

/// Returns the ends delayed, dead, deferred, and queued again.
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
