//! A race: all tasks at once, until the last one has its permit.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::case::Case;
use super::wait_limit::WaitLimit;
use crate::clock;
use crate::measure::approx;
use crate::tasks;

/// Measurements of a race.
pub(crate) struct Outcome {
    /// Time from the first task that asked to the last that resumed, over the shortest possible.
    pub(crate) makespan: f64,
    /// Most tasks that resumed within one window, over the limit.
    pub(crate) max_window: f64,
    pub(crate) polls_per_grant: f64,
    /// Largest distance of a task from its position in the order of asking.
    pub(crate) displacement: u64,
    pub(crate) cpu_us_per_grant: f64,
}

/// Runs one; `None` without a runtime, or after a refusal.
pub(crate) fn race<L: WaitLimit>(case: Case) -> Option<Outcome> {
    let runtime = case.flavour.runtime().ok()?;
    let course = Arc::new(Course::new(case.tasks));
    let before = clock::process_time();
    runtime.block_on(async {
        let line = L::new(case.limit);
        for _ in 0..case.tasks {
            tasks::start(run(line.clone(), Arc::clone(&course)));
        }
        course.over.notified().await;
    });
    let cpu = clock::process_time().saturating_sub(before);
    let all_went = course.refused.load(Ordering::Relaxed) == 0;
    all_went.then(|| course.outcome(case, cpu))
}

async fn run<L: WaitLimit>(line: L, course: Arc<Course>) {
    let number = course.asked.fetch_add(1, Ordering::Relaxed);
    if number == 0 {
        course.first.store(course.time(), Ordering::Relaxed);
    }
    let mut waiting = pin!(line.wait());
    let mut woken = 0;
    let counted = poll_fn(|context| {
        course.polls.fetch_add(1, Ordering::Relaxed);
        woken = course.time();
        waiting.as_mut().poll(context)
    });
    let permit = counted.await;
    course.resumed(number, woken);
    course.settle(L::settle(permit));
}

/// State that all tasks write to.
struct Course {
    opened: Instant,
    asked: AtomicU64,
    first: AtomicU64,
    polls: AtomicU64,
    left: AtomicU32,
    refused: AtomicU32,
    /// Instants of resuming, in the order of asking.
    resumed: Vec<Stamp>,
    over: Notify,
}

impl Course {
    fn new(tasks: u32) -> Self {
        Self {
            opened: clock::read(),
            asked: AtomicU64::new(0),
            first: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            left: AtomicU32::new(tasks),
            refused: AtomicU32::new(0),
            resumed: (0..tasks).map(|_| Stamp::default()).collect(),
            over: Notify::new(),
        }
    }

    fn time(&self) -> u64 {
        nanos(clock::read().duration_since(self.opened))
    }

    fn resumed(&self, number: u64, woken: u64) {
        let index = usize::try_from(number).ok();
        if let Some(stamp) = index.and_then(|index| self.resumed.get(index)) {
            stamp.woken.store(woken, Ordering::Relaxed);
            stamp.settle.store(self.time(), Ordering::Relaxed);
        }
    }

    fn settle(&self, had_leave: bool) {
        self.refused.fetch_add(u32::from(!had_leave), Ordering::Relaxed);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.notify_one();
        }
    }

    fn outcome(&self, case: Case, cpu: Duration) -> Outcome {
        let spans: Vec<(u64, u64)> = self.resumed.iter().map(Stamp::span).collect();
        let stamps: Vec<u64> = spans.iter().map(|(_, settle)| *settle).collect();
        let last = stamps.iter().copied().max().unwrap_or(0);
        let first = self.first.load(Ordering::Relaxed);
        let grants = approx(stamps.len());
        Outcome {
            makespan: approx(last - first) / approx(nanos(case.ideal()).max(1)),
            max_window: approx(most_within(&spans, nanos(case.limit.window))) / approx(case.limit.quantity),
            polls_per_grant: approx(self.polls.load(Ordering::Relaxed)) / grants,
            displacement: displacement(&stamps),
            cpu_us_per_grant: cpu.as_secs_f64() * 1e6 / grants,
        }
    }
}

/// Time span in which a task resumed: from its wake-up to its continuation. The limiter's own instant lies
/// between the two.
#[derive(Default)]
struct Stamp {
    woken: AtomicU64,
    settle: AtomicU64,
}

impl Stamp {
    fn span(&self) -> (u64, u64) {
        let read = |stamp: &AtomicU64| stamp.load(Ordering::Relaxed);
        (read(&self.woken), read(&self.settle))
    }
}

/// Returns the most that certainly started within one window: a task that the system preempts while it resumes
/// does not count against its limiter.
fn most_within(spans: &[(u64, u64)], window: u64) -> u64 {
    let (mut woken, mut settle): (Vec<u64>, Vec<u64>) = spans.iter().copied().unzip();
    woken.sort_unstable();
    settle.sort_unstable();
    let mut before = woken.iter().peekable();
    let (mut held, mut most) = (0_u64, 0);
    for settle in &settle {
        held += 1;
        while before.next_if(|woken| **woken + window <= *settle).is_some() {
            held = held.saturating_sub(1);
        }
        most = most.max(held);
    }
    most
}

/// Returns the largest distance between the order of resuming and the order of asking.
fn displacement(stamps: &[u64]) -> u64 {
    let mut order: Vec<usize> = (0..stamps.len()).collect();
    order.sort_by_key(|index| stamps.get(*index));
    let away = order.iter().enumerate().map(|(place, index)| place.abs_diff(*index));
    away.max().and_then(|away| u64::try_from(away).ok()).unwrap_or(0)
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
