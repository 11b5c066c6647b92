//! `bytes_per_waiter`: what one more who waits costs, its task and its future included.
//!
//! Weighed on the thread that all tasks live on; what a limiter keeps on a thread of its own (the
//! timers of governor) is not seen, which is to the advantage of governor.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::line::Line;
use super::{Limit, lines};
use crate::alloc;
use crate::figure::{Figure, Goal};
use crate::measure::approx;
use crate::tasks::{self, Flavour};

/// At ten thousand waiters, as the goal was set, and at a hundred thousand.
pub(crate) fn figures() -> Vec<Figure> {
    [
        ("bytes_per_waiter", 10_000),
        ("bytes_per_waiter_100k", 100_000),
    ]
    .into_iter()
    .flat_map(|(name, waiters)| weigh(name, waiters))
    .collect()
}

fn weigh(name: &str, waiters: u32) -> Vec<Figure> {
    let all: Vec<(&str, Vec<f64>)> = lines::all()
        .into_iter()
        .map(|entrant| (entrant.name, (entrant.bytes)(waiters).into_iter().collect()))
        .collect();
    let Some(((_, ours), peers)) = all.split_first() else {
        return Vec::new();
    };
    let peers: Vec<(&str, &[f64])> = peers
        .iter()
        .map(|(name, bytes)| (*name, &**bytes))
        .collect();
    Figure::beside(name, Goal::Own(450.0), ours, &peers)
}

/// Lets so many wait and weighs them.
pub(crate) fn per_waiter<L: Line>(waiters: u32) -> Option<f64> {
    let runtime = Flavour::Current.runtime().ok()?;
    let weight = runtime.block_on(async {
        let line = L::new(NEVER);
        let arrived = Arc::new(AtomicU32::new(0));
        let before = alloc::held();
        for _ in 0..waiters {
            tasks::start(wait(line.clone(), Arc::clone(&arrived)));
        }
        while arrived.load(Ordering::Relaxed) < waiters {
            tokio::task::yield_now().await;
        }
        alloc::held() - before
    });
    Some(approx(weight) / approx(waiters))
}

async fn wait<L: Line>(line: L, arrived: Arc<AtomicU32>) {
    let mut waiting = pin!(line.wait());
    let mut counted = false;
    let permit = poll_fn(|context| {
        let answer = waiting.as_mut().poll(context);
        if !std::mem::replace(&mut counted, true) {
            arrived.fetch_add(1, Ordering::Relaxed);
        }
        answer
    });
    // Dropped unsent, it would be the next one's.
    let _had_leave = L::gone(permit.await);
}

/// One goes at once, the rest wait for longer than anybody looks.
const NEVER: Limit = Limit::new(1, Duration::from_mins(10));
