//! Liveness of a streamed body.
//!
//! A response is good if its body is: a truncated one counts against the API. But an event stream
//! may never end, and a probe that reads one must not count as a failure. So a body that still
//! flows after a few seconds settles as good; later errors concern only its two ends.

use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::PendingBody;

/// Liveness of one body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLiveness {
    since: Option<Instant>,
}

impl StreamLiveness {
    /// Starts with the head of the response.
    pub(crate) fn new() -> Self {
        Self {
            since: Some(Instant::now()),
        }
    }

    /// Notes a piece of the body.
    pub(crate) fn on_data(&mut self, pending_body: Option<&mut PendingBody>) {
        let is_alive = self.since.is_some_and(|since| since.elapsed() >= ALIVE_AFTER);
        if let (true, Some(pending_body)) = (is_alive, pending_body) {
            self.since = None;
            pending_body.mark_alive();
        }
    }
}

/// Longer than an ordinary body takes, and a third of a probe's timeout.
const ALIVE_AFTER: Duration = Duration::from_secs(5);
