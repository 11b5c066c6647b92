//! Drops a future at every possible point.
//!
//! A future is only dropped between two polls, so the number of points equals the number of polls
//! to finish. [`PollPoints`] visits them one by one: never polled, polled once and dropped, polled
//! twice, until it finishes. A timeout or a `select!` would reach these points only by luck.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Number of polls after which a future is dropped, from zero upwards.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use outflow_testkit::PollPoints;
///
/// let mut points = PollPoints::new();
/// while let Some(point) = points.next_point() {
///     let work = async { tokio::task::yield_now().await };
///     let cut = point.drive(work).await;
///     // Everything that `work` had taken must be returned by now.
///     points.record(&cut);
/// }
/// assert_eq!(points.polls_to_finish(), Some(2));
/// # }
/// ```
#[derive(Debug, Default)]
pub struct PollPoints {
    next: u32,
    finished: Option<u32>,
}

impl PollPoints {
    /// Starts with a drop before the first poll.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the next point, until one run has finished.
    ///
    /// # Panics
    /// After a hundred thousand points: the future never finishes.
    pub fn next_point(&mut self) -> Option<PollPoint> {
        if self.finished.is_some() {
            return None;
        }
        assert!(self.next < MAX_POLLS, "not finished after {MAX_POLLS} polls");
        let point = PollPoint { most: self.next };
        self.next += 1;
        Some(point)
    }

    /// Records the result of a run, so that the sequence ends with the one that finished.
    pub fn record<T>(&mut self, run: &Run<T>) {
        if let Run::Finished { polls, .. } = run {
            self.finished = Some(*polls);
        }
    }

    /// Returns the number of polls of the finished run.
    pub fn polls_to_finish(&self) -> Option<u32> {
        self.finished
    }
}

/// Point at which a future is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollPoint {
    most: u32,
}

/// End of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run<T> {
    /// The future was dropped after this many polls.
    Dropped {
        /// Number of polls.
        polls: u32,
    },
    /// It finished before it could be dropped.
    Finished {
        /// Output of the future.
        output: T,
        /// Number of polls.
        polls: u32,
    },
}

impl<T> Run<T> {
    /// Returns the output of the future, if it finished.
    pub fn output(self) -> Option<T> {
        match self {
            Self::Dropped { .. } => None,
            Self::Finished { output, .. } => Some(output),
        }
    }
}

impl PollPoint {
    /// Builds the point after this many polls.
    pub const fn after(polls: u32) -> Self {
        Self { most: polls }
    }

    /// Returns the number of polls it allows.
    pub const fn polls(self) -> u32 {
        self.most
    }

    /// Polls the future inside of the current task, on every wake, and drops it at this point.
    pub async fn drive<F: Future>(self, future: F) -> Run<F::Output> {
        let mut future = Box::pin(future);
        let mut polls = 0;
        poll_fn(move |context| self.step(&mut polls, future.as_mut(), context)).await
    }

    /// Polls without a runtime: polls again only if the future was woken in between. A future that
    /// no waker will wake is dropped early, and the run reports its polls.
    pub fn drive_here<F: Future>(self, future: F) -> Run<F::Output> {
        let wake_count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&wake_count));
        let mut context = Context::from_waker(&waker);
        let (mut future, mut polls) = (pin!(future), 0);
        loop {
            let wakes_before = wake_count.wakes();
            if let Poll::Ready(run) = self.step(&mut polls, future.as_mut(), &mut context) {
                return run;
            }
            if wake_count.wakes() == wakes_before {
                return Run::Dropped { polls };
            }
        }
    }

    fn step<F: Future>(self, polls: &mut u32, future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<Run<F::Output>> {
        if *polls == self.most {
            return Poll::Ready(Run::Dropped { polls: *polls });
        }
        *polls += 1;
        match future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Run::Finished { output, polls: *polls }),
            Poll::Pending if *polls == self.most => Poll::Ready(Run::Dropped { polls: *polls }),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Waker that counts its wakes, for a test that polls by hand.
#[derive(Debug, Default)]
pub struct WakeCount {
    wakes: AtomicU32,
}

impl WakeCount {
    /// Returns the number of wakes.
    pub fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::Acquire)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::AcqRel);
    }
}

/// Far more than any path through the product, so that reaching it means an endless future.
const MAX_POLLS: u32 = 100_000;
