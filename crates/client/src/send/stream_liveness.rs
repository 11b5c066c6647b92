//! A body that has flowed for a while.
//!
//! An answer is good when its body is: one that breaks off counts against the API. But a stream of
//! events may never end, and a probe that reads one must not be taken for a failure. So a body that
//! still flows after a few seconds is told as good, and what becomes of it later is between the two
//! ends.

use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::PendingBody;

/// Watches whether a body flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLiveness {
    since: Option<Instant>,
}

impl StreamLiveness {
    /// A body whose head has just come.
    pub(crate) fn new() -> Self {
        Self {
            since: Some(Instant::now()),
        }
    }

    /// A piece of it came.
    pub(crate) fn moved(&mut self, tail: Option<&mut PendingBody>) {
        let long = self.since.is_some_and(|since| since.elapsed() >= A_WHILE);
        if let (true, Some(tail)) = (long, tail) {
            self.since = None;
            tail.mark_alive();
        }
    }
}

/// Longer than an ordinary body takes, and a third of what a probe may take.
const A_WHILE: Duration = Duration::from_secs(5);
