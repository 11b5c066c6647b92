//! `used_under_cancel`: half of the waiters leave before their permit.
//!
//! Every other one of 10,000 tasks gives up after a quarter of the time that all would take. The grants of the
//! others from then on show whether the permits of cancelled waiters are lost.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::Limit;
use super::case::Case;
use super::contenders::{self, Ours};
use super::race::nanos;
use super::wait_limit::WaitLimit;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use crate::tasks;

/// Measures the share of used permits, and the cost of leaving.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let entrants = contenders::all();
    let mut shares: Vec<Vec<f64>> = entrants.iter().map(|_| Vec::new()).collect();
    for _ in 0..if plan.is_thorough() { 5 } else { 1 } {
        for (entrant, shares) in entrants.iter().zip(&mut shares) {
            shares.extend((entrant.under_cancel)());
        }
    }
    let Some((ours, peers)) = shares.split_first() else {
        return Vec::new();
    };
    let names = entrants.iter().skip(1).map(|entrant| entrant.name);
    let peers: Vec<(&str, &[f64])> = names.zip(peers.iter().map(|shares| &**shares)).collect();
    let mut figures = Figure::with_peers("used_under_cancel", Goal::AtLeast(0.95), ours, &peers);
    if let (Some(first), Err(why)) = (figures.first_mut(), conserved()) {
        first.void(&why);
    }
    figures.push(growth(plan));
    figures
}

/// Returns the share of the limit that was used, from the first grant to the last.
pub(crate) fn used<L: WaitLimit>() -> Option<f64> {
    let case = Case::HEADLINE;
    let runtime = case.flavour.runtime().ok()?;
    let group = Arc::new(WaiterGroup {
        opened: clock::read(),
        left: AtomicU32::new(case.tasks),
        granted: AtomicU64::new(0),
        last: AtomicU64::new(0),
        over: Notify::new(),
    });
    runtime.block_on(async {
        let limit = L::new(case.limit);
        for number in 0..case.tasks {
            let patience = (number % 2 == 1).then_some(case.ideal() / 4);
            tasks::start(wait_or_leave(limit.clone(), Arc::clone(&group), patience));
        }
        group.over.notified().await;
    });
    let granted = approx(group.granted.load(Ordering::Relaxed));
    let windows = approx(group.last.load(Ordering::Relaxed)) / approx(nanos(case.limit.window));
    Some(granted / (approx(case.limit.quantity) * (windows + 1.0)))
}

async fn wait_or_leave<L: WaitLimit>(limit: L, group: Arc<WaiterGroup>, patience: Option<Duration>) {
    let permit = match patience {
        None => Some(limit.wait().await),
        Some(patience) => timeout(patience, limit.wait()).await.ok(),
    };
    let now = nanos(clock::read().duration_since(group.opened));
    if permit.is_some_and(L::settle) {
        group.granted.fetch_add(1, Ordering::Relaxed);
        group.last.fetch_max(now, Ordering::Relaxed);
    }
    if group.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        group.over.notify_one();
    }
}

struct WaiterGroup {
    opened: Instant,
    left: AtomicU32,
    granted: AtomicU64,
    last: AtomicU64,
    over: Notify,
}

/// Checks that exactly the refunded quota can be taken again: a thousand wait on an exhausted limit, one half
/// leaves, and later exactly the limit starts.
fn conserved() -> Result<(), String> {
    let limit = Limit::new(100, Duration::from_millis(50));
    let limit = Ours::new(limit);
    let mut taken = take_all(&limit);
    let context = &mut Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..1_000)
        .map(|_| Box::pin(limit.upstream().acquire(limit.target())))
        .collect();
    for one in &mut waiting {
        let _waits = one.as_mut().poll(context);
    }
    let mut number = 0;
    waiting.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    taken.drain(..).for_each(drop);
    drop(waiting);
    let again = take_all(&limit).len();
    let report = limit.upstream().report();
    if again == 100 && report.waiting == 0 {
        return Ok(());
    }
    Err(format!(
        "{again} of 100 permits were available after all had left, {} still wait",
        report.waiting
    ))
}

fn take_all(limit: &Ours) -> Vec<outflow::Permit> {
    std::iter::from_fn(|| limit.upstream().try_acquire(limit.target()).ok()).collect()
}

/// Compares joining and leaving of a hundred thousand waiters with that of a thousand.
fn growth(plan: Plan) -> Figure {
    let limit = Limit::new(1, Duration::from_mins(10));
    let limit = Ours::new(limit);
    let _kept = take_all(&limit);
    let ratios: Vec<f64> = (0..if plan.is_thorough() { 15 } else { 5 })
        .map(|_| join_and_leave(&limit, 100_000) / join_and_leave(&limit, 1_000))
        .collect();
    Figure::alone("cancel_growth", Goal::Own(LOGARITHMIC), &ratios)
}

/// Returns the nanoseconds for each of this many waiters that all join and then all leave.
fn join_and_leave(limit: &Ours, waiters: u32) -> f64 {
    let context = &mut Context::from_waker(Waker::noop());
    let rounds = 100_000 / waiters;
    let mut waited = 0;
    let start = clock::processor_time();
    for _ in 0..rounds {
        let mut waiting: Vec<_> = (0..waiters).map(|_| limit.upstream().acquire(limit.target())).collect();
        for one in &mut waiting {
            waited += u32::from(Pin::new(one).poll(context).is_pending());
        }
    }
    let time = clock::processor_time().saturating_sub(start);
    time.as_secs_f64() * 1e9 / approx(waited)
}

/// With a hundred times as many the caches no longer suffice: the logarithm grows by less than two.
const LOGARITHMIC: f64 = 4.0;
