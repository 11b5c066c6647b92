//! Dropping a future wherever it can be dropped.
//!
//! A future is only ever dropped between two polls, so there are as many places to test as it takes
//! polls to finish. [`PollPoints`] goes through them one by one: never polled, polled once and
//! dropped, polled twice, until it finishes. A timeout or a `select!` would reach the same places by
//! luck.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The number of polls after which a future is dropped, from none upwards.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use outflow_testkit::PollPoints;
///
/// let mut points = PollPoints::new();
/// while let Some(point) = points.next_point() {
///     let work = async { tokio::task::yield_now().await };
///     let cut = point.drive(work).await;
///     // Whatever `work` had taken must be back by now.
///     points.learn(&cut);
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
    /// Begins with dropping before the first poll.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next place to drop at, until one run has finished.
    ///
    /// # Panics
    /// After a hundred thousand places: the future never finishes.
    pub fn next_point(&mut self) -> Option<PollPoint> {
        if self.finished.is_some() {
            return None;
        }
        assert!(
            self.next < MOST_POLLS,
            "not finished after {MOST_POLLS} polls"
        );
        let point = PollPoint { most: self.next };
        self.next += 1;
        Some(point)
    }

    /// Tells how the run went, so that it ends with the one that finished.
    pub fn learn<T>(&mut self, run: &Run<T>) {
        if let Run::Finished { polls, .. } = run {
            self.finished = Some(*polls);
        }
    }

    /// How many polls the run that finished took.
    pub fn polls_to_finish(&self) -> Option<u32> {
        self.finished
    }
}

/// One place to drop a future at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollPoint {
    most: u32,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run<T> {
    /// The future was dropped, having been polled so often.
    Dropped {
        /// How often.
        polls: u32,
    },
    /// It finished before it could be dropped.
    Finished {
        /// What it said.
        output: T,
        /// How many polls that took.
        polls: u32,
    },
}

impl<T> Run<T> {
    /// What the future said, if it finished.
    pub fn output(self) -> Option<T> {
        match self {
            Self::Dropped { .. } => None,
            Self::Finished { output, .. } => Some(output),
        }
    }
}

impl PollPoint {
    /// After so many polls.
    pub const fn after(polls: u32) -> Self {
        Self { most: polls }
    }

    /// How many polls it allows.
    pub const fn polls(self) -> u32 {
        self.most
    }

    /// Polls the future inside of the current task, whenever it is woken, and drops it as soon as it
    /// has been polled so often.
    pub async fn drive<F: Future>(self, future: F) -> Run<F::Output> {
        let mut future = Box::pin(future);
        let mut polls = 0;
        poll_fn(move |context| self.step(&mut polls, future.as_mut(), context)).await
    }

    /// The same without a runtime: polls again only if it was woken in between. Where it waits for
    /// something that nobody else will bring, it is dropped early, and the run tells after how many
    /// polls.
    pub fn drive_here<F: Future>(self, future: F) -> Run<F::Output> {
        let bell = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut context = Context::from_waker(&waker);
        let (mut future, mut polls) = (pin!(future), 0);
        loop {
            let heard = bell.wakes();
            if let Poll::Ready(run) = self.step(&mut polls, future.as_mut(), &mut context) {
                return run;
            }
            if bell.wakes() == heard {
                return Run::Dropped { polls };
            }
        }
    }

    fn step<F: Future>(
        self,
        polls: &mut u32,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<Run<F::Output>> {
        if *polls == self.most {
            return Poll::Ready(Run::Dropped { polls: *polls });
        }
        *polls += 1;
        match future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Run::Finished {
                output,
                polls: *polls,
            }),
            Poll::Pending if *polls == self.most => Poll::Ready(Run::Dropped { polls: *polls }),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A waker that counts how often it was used, for a test that polls by hand.
#[derive(Debug, Default)]
pub struct WakeCount {
    wakes: AtomicU32,
}

impl WakeCount {
    /// How often it was woken.
    pub fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::Acquire)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::AcqRel);
    }
}

/// Far more than any path through the product, so that reaching it means one that never ends.
const MOST_POLLS: u32 = 100_000;
