//! `used_under_cancel`: half of those who wait leave before their turn.
//!
//! Every other one of 10,000 tasks gives up after a quarter of the time that all would take. What
//! those who stay are granted from then on shows whether the permits of those who left are lost.

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
use super::line::Line;
use super::lines::{self, Ours};
use super::race::nanos;
use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use crate::tasks;

/// The share of the permits that was used, and what leaving costs.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let entrants = lines::all();
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
    let mut figures = Figure::beside("used_under_cancel", Goal::AtLeast(0.95), ours, &peers);
    if let (Some(first), Err(why)) = (figures.first_mut(), conserved()) {
        first.void(&why);
    }
    figures.push(growth(plan));
    figures
}

/// The share of what the limit offered, from the first grant to the last, that was taken.
pub(crate) fn used<L: Line>() -> Option<f64> {
    let case = Case::HEADLINE;
    let runtime = case.flavour.runtime().ok()?;
    let crowd = Arc::new(Crowd {
        opened: clock::read(),
        left: AtomicU32::new(case.tasks),
        granted: AtomicU64::new(0),
        last: AtomicU64::new(0),
        over: Notify::new(),
    });
    runtime.block_on(async {
        let line = L::new(case.limit);
        for number in 0..case.tasks {
            let patience = (number % 2 == 1).then_some(case.ideal() / 4);
            tasks::start(stand(line.clone(), Arc::clone(&crowd), patience));
        }
        crowd.over.notified().await;
    });
    let granted = approx(crowd.granted.load(Ordering::Relaxed));
    let windows = approx(crowd.last.load(Ordering::Relaxed)) / approx(nanos(case.limit.window));
    Some(granted / (approx(case.limit.quantity) * (windows + 1.0)))
}

async fn stand<L: Line>(line: L, crowd: Arc<Crowd>, patience: Option<Duration>) {
    let permit = match patience {
        None => Some(line.wait().await),
        Some(patience) => timeout(patience, line.wait()).await.ok(),
    };
    let now = nanos(clock::read().duration_since(crowd.opened));
    if permit.is_some_and(L::gone) {
        crowd.granted.fetch_add(1, Ordering::Relaxed);
        crowd.last.fetch_max(now, Ordering::Relaxed);
    }
    if crowd.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        crowd.over.notify_one();
    }
}

struct Crowd {
    opened: Instant,
    left: AtomicU32,
    granted: AtomicU64,
    last: AtomicU64,
    over: Notify,
}

/// Whether what was given back can be taken again, all of it and no more: a thousand wait on an
/// exhausted limit, one half leaves, and later so many go as the limit says.
fn conserved() -> Result<(), String> {
    let limit = Limit::new(100, Duration::from_millis(50));
    let line = Ours::new(limit);
    let mut taken = take_all(&line);
    let context = &mut Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..1_000)
        .map(|_| Box::pin(line.door().acquire(line.ask())))
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
    let again = take_all(&line).len();
    let report = line.door().report();
    if again == 100 && report.waiting == 0 {
        return Ok(());
    }
    Err(format!(
        "{again} of 100 permits were there after all had left, {} still wait",
        report.waiting
    ))
}

fn take_all(line: &Ours) -> Vec<outflow::Permit> {
    std::iter::from_fn(|| line.door().try_acquire(line.ask()).ok()).collect()
}

/// What joining and leaving costs each of a hundred thousand, over what it costs each of a thousand.
fn growth(plan: Plan) -> Figure {
    let limit = Limit::new(1, Duration::from_mins(10));
    let line = Ours::new(limit);
    let _kept = take_all(&line);
    let ratios: Vec<f64> = (0..if plan.is_thorough() { 15 } else { 5 })
        .map(|_| come_and_go(&line, 100_000) / come_and_go(&line, 1_000))
        .collect();
    Figure::alone("cancel_growth", Goal::Own(LOGARITHMIC), &ratios)
}

/// Nanoseconds for each of so many who all wait and then all leave.
fn come_and_go(line: &Ours, crowd: u32) -> f64 {
    let context = &mut Context::from_waker(Waker::noop());
    let rounds = 100_000 / crowd;
    let mut waited = 0;
    let start = clock::processor_time();
    for _ in 0..rounds {
        let mut waiting: Vec<_> = (0..crowd).map(|_| line.door().acquire(line.ask())).collect();
        for one in &mut waiting {
            waited += u32::from(Pin::new(one).poll(context).is_pending());
        }
    }
    let time = clock::processor_time().saturating_sub(start);
    time.as_secs_f64() * 1e9 / approx(waited)
}

/// A hundred times as many, and the caches are left behind: the logarithm grows by less than two.
const LOGARITHMIC: f64 = 4.0;
