//! Ends of claims that lead to different states.

use std::time::Duration;

use outflow_store::{Defer, JobEnd};

/// Returns the ends delayed, dead, deferred, and queued again.
pub(crate) fn different_ends() -> [JobEnd; 4] {
    let hour = Duration::from_hours(1);
    let message = || "no".to_owned();
    [
        JobEnd::Retry {
            after: hour,
            message: message(),
            result: None,
        },
        JobEnd::Failed {
            message: message(),
            result: None,
        },
        JobEnd::Deferred(Defer::Fixed(hour)),
        JobEnd::Returned,
    ]
}
