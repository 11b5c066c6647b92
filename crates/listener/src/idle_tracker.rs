//! Detection of idle connections.
//!
//! A connection is idle while it has no request in progress, however long a request takes. The tracker polls
//! at intervals, because a timer that each request resets would cost time per request. The table of connections
//! may evict an idle one; the task that serves it waits for that.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Counter of the requests of one connection.
#[derive(Clone, Debug, Default)]
pub struct IdleTracker {
    counts: Arc<RequestCounts>,
}

#[derive(Debug)]
struct RequestCounts {
    open: AtomicUsize,
    begun: AtomicUsize,
    created: Instant,
    /// End of the last request, in nanoseconds since the creation.
    last_end: AtomicU64,
    is_evicted: AtomicBool,
    evicted: Notify,
}

impl Default for RequestCounts {
    fn default() -> Self {
        Self {
            open: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            created: Instant::now(),
            last_end: AtomicU64::new(0),
            is_evicted: AtomicBool::new(false),
            evicted: Notify::new(),
        }
    }
}

impl RequestCounts {
    fn age(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Reference to a tracker that does not keep it.
#[derive(Debug)]
pub(crate) struct WeakTracker(Weak<RequestCounts>);

impl WeakTracker {
    pub(crate) fn upgrade(&self) -> Option<IdleTracker> {
        self.0.upgrade().map(|counts| IdleTracker { counts })
    }
}

/// Request in progress; dropping it ends the request.
#[derive(Debug)]
pub struct ActiveRequest(Arc<RequestCounts>);

impl IdleTracker {
    /// Counts the begin of a request.
    pub fn begin(&self) -> ActiveRequest {
        self.counts.open.fetch_add(1, Ordering::AcqRel);
        self.counts.begun.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(&self.counts))
    }

    /// Waits until the connection has been idle for this time, or up to a quarter longer.
    pub async fn wait_idle(&self, idle: Duration) {
        let (mut idle_polls, mut begun) = (0, self.begun());
        while idle_polls < POLLS {
            tokio::time::sleep(idle / POLLS).await;
            let now = self.begun();
            let is_idle = now == begun && self.is_idle();
            idle_polls = if is_idle { idle_polls + 1 } else { 0 };
            begun = now;
        }
    }

    /// Waits until the connection has to leave its place to another one.
    pub async fn evicted(&self) {
        self.counts.evicted.notified().await;
    }

    /// Returns true while no request is in progress.
    pub fn is_idle(&self) -> bool {
        self.counts.open.load(Ordering::Acquire) == 0
    }

    /// Returns the time since the last request, or since the connection began; `None` during a request.
    pub(crate) fn idle_time(&self) -> Option<Duration> {
        let idle = self
            .counts
            .age()
            .saturating_sub(self.counts.last_end.load(Ordering::Relaxed));
        self.is_idle().then_some(Duration::from_nanos(idle))
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.counts.is_evicted.load(Ordering::Acquire)
    }

    pub(crate) fn evict(&self) {
        self.counts.is_evicted.store(true, Ordering::Release);
        self.counts.evicted.notify_one();
    }

    pub(crate) fn downgrade(&self) -> WeakTracker {
        WeakTracker(Arc::downgrade(&self.counts))
    }

    fn begun(&self) -> usize {
        self.counts.begun.load(Ordering::Relaxed)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.last_end.store(self.0.age(), Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Polls of an idle connection before it is closed.
const POLLS: u32 = 4;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::{sleep, timeout};

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
