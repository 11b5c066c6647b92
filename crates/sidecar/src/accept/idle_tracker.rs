//! Detection of idle connections.
//!
//! A connection is idle while it has no request in progress, however long a request takes. The tracker polls
//! at intervals, because a timer that each request resets would cost time per request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counter of the requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleTracker {
    counts: Arc<RequestCounts>,
}

#[derive(Debug, Default)]
struct RequestCounts {
    open: AtomicUsize,
    begun: AtomicUsize,
}

/// Request in progress; dropping it ends the request.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<RequestCounts>);

impl IdleTracker {
    /// Counts the begin of a request.
    pub(crate) fn begin(&self) -> ActiveRequest {
        self.counts.open.fetch_add(1, Ordering::AcqRel);
        self.counts.begun.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(&self.counts))
    }

    /// Waits until the connection has been idle for this time, or up to a quarter longer.
    pub(crate) async fn wait_idle(&self, idle: Duration) {
        let (mut idle_polls, mut begun) = (0, self.begun());
        while idle_polls < POLLS {
            tokio::time::sleep(idle / POLLS).await;
            let now = self.begun();
            let is_idle = now == begun && self.counts.open.load(Ordering::Acquire) == 0;
            idle_polls = if is_idle { idle_polls + 1 } else { 0 };
            begun = now;
        }
    }

    fn begun(&self) -> usize {
        self.counts.begun.load(Ordering::Relaxed)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Polls of an idle connection before it is closed.
const POLLS: u32 = 4;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    // Idle after 4 s, polled every second: a request from 1.5 s to 9.5 s delays the close to 13 s.
    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_without_a_request() {
        let tracker = IdleTracker::default();
        let start = Instant::now();
        let mut idle = pin!(tracker.wait_idle(Duration::from_secs(4)));
        let request = async {
            sleep(Duration::from_millis(1_500)).await;
            let active = tracker.begin();
            sleep(Duration::from_secs(8)).await;
            drop(active);
        };
        tokio::select! {
            () = &mut idle => panic!("closed during a request"),
            () = request => {}
        }
        timeout(Duration::from_secs(10), idle).await.expect("an end");
        assert_eq!(start.elapsed(), Duration::from_secs(13));
    }
}
