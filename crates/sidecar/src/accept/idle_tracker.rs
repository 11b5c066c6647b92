//! Whether anything goes on over a connection.
//!
//! A connection is idle when it has no request under way, however long one may take. Looking at that
//! now and then costs nothing while requests come in; a timer that each of them resets would.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleTracker {
    counts: Arc<RequestCounts>,
}

#[derive(Debug, Default)]
struct RequestCounts {
    open: AtomicUsize,
    begun: AtomicUsize,
}

/// A request that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<RequestCounts>);

impl IdleTracker {
    /// A request begins.
    pub(crate) fn begin(&self) -> ActiveRequest {
        self.counts.open.fetch_add(1, Ordering::AcqRel);
        self.counts.begun.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(&self.counts))
    }

    /// Waits until nothing has gone on for so long, or up to a quarter of it longer.
    pub(crate) async fn stopped(&self, idle: Duration) {
        let (mut quiet, mut begun) = (0, self.begun());
        while quiet < LOOKS {
            tokio::time::sleep(idle / LOOKS).await;
            let now = self.begun();
            let still = now == begun && self.is_quiet();
            quiet = if still { quiet + 1 } else { 0 };
            begun = now;
        }
    }

    fn begun(&self) -> usize {
        self.counts.begun.load(Ordering::Relaxed)
    }

    fn is_quiet(&self) -> bool {
        self.counts.open.load(Ordering::Acquire) == 0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How often an idle connection is looked at before it is closed.
const LOOKS: u32 = 4;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    // Idle for 4 s, looked at every second: a request from 1.5 s to 9.5 s puts the end off to 14 s.
    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_without_a_request() {
        let pulse = IdleTracker::default();
        let start = Instant::now();
        let mut stopped = pin!(pulse.stopped(Duration::from_secs(4)));
        let request = async {
            sleep(Duration::from_millis(1_500)).await;
            let beat = pulse.begin();
            sleep(Duration::from_secs(8)).await;
            drop(beat);
        };
        tokio::select! {
            () = &mut stopped => panic!("closed under a request"),
            () = request => {}
        }
        timeout(Duration::from_secs(10), stopped)
            .await
            .expect("an end");
        assert_eq!(start.elapsed(), Duration::from_secs(13));
    }
}
