//! `bytes_per_waiter`: size of one more waiter, its task and its future included.
//!
//! Measured on the thread of all tasks. Memory that a limiter holds on its own thread (the timers of governor)
//! is not counted, to the advantage of governor.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::wait_limit::WaitLimit;
use super::{Limit, contenders};
use crate::alloc;
use crate::figure::{Figure, Goal};
use crate::measure::approx;
use crate::tasks::{self, Flavour};

/// Measures ten thousand waiters, as the goal was set, and a hundred thousand.
pub(crate) fn figures() -> Vec<Figure> {
    [("bytes_per_waiter", 10_000), ("bytes_per_waiter_100k", 100_000)]
        .into_iter()
        .flat_map(|(name, waiters)| weigh(name, waiters))
        .collect()
}

fn weigh(name: &str, waiters: u32) -> Vec<Figure> {
    let all: Vec<(&str, Vec<f64>)> = contenders::all()
        .into_iter()
        .map(|entrant| (entrant.name, (entrant.bytes)(waiters).into_iter().collect()))
        .collect();
    let Some(((_, ours), peers)) = all.split_first() else {
        return Vec::new();
    };
    let peers: Vec<(&str, &[f64])> = peers.iter().map(|(name, bytes)| (*name, &**bytes)).collect();
    Figure::with_peers(name, Goal::Own(450.0), ours, &peers)
}

/// Lets this many wait and measures them.
pub(crate) fn per_waiter<L: WaitLimit>(waiters: u32) -> Option<f64> {
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

async fn wait<L: WaitLimit>(line: L, arrived: Arc<AtomicU32>) {
    let mut waiting = pin!(line.wait());
    let mut counted = false;
    let permit = poll_fn(|context| {
        let answer = waiting.as_mut().poll(context);
        if !std::mem::replace(&mut counted, true) {
            arrived.fetch_add(1, Ordering::Relaxed);
        }
        answer
    });
    // A permit that is dropped unsent would go to the next waiter.
    let _had_leave = L::settle(permit.await);
}

/// One starts at once; the rest wait for longer than the measurement.
const NEVER: Limit = Limit::new(1, Duration::from_mins(10));
