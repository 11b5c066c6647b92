//! One contender in one cell.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::bound;
use super::cell::Cell;
use super::limiters::{Limiter, Time};
use super::server::Site;
use crate::tasks;

/// Measurements of a run.
pub(crate) struct Trip {
    cell: Cell,
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    /// Goodput, as a share of the oracle's.
    pub(crate) goodput: f64,
    /// Goodput, as a share of that of a sender that counts from the response.
    pub(crate) of_safe: f64,
    /// Goodput, as a share of that of a sender that knows the lowest round trip.
    pub(crate) of_tight: f64,
}

impl Trip {
    /// Returns true if the run has this jitter; `None` matches all.
    pub(crate) fn has(&self, jitter: Option<Duration>) -> bool {
        jitter.is_none_or(|jitter| self.cell.jitter == jitter)
    }
}

/// Runs in virtual time and memory; `None` if the setup failed.
pub(crate) fn virtually<L: Limiter>(
    cell: Cell,
    windows: u64,
    make: impl FnOnce(Cell, Time) -> Option<L>,
) -> Option<Trip> {
    let runtime = virtual_runtime().ok()?;
    runtime.block_on(async {
        let site = Site::in_memory(cell)?;
        let limiter = make(cell, Time::Virtual)?;
        Some(drive(cell, windows, site, limiter).await.trip(cell))
    })
}

/// Runs in real time and over sockets.
pub(crate) fn really<L: Limiter>(cell: Cell, windows: u64, make: impl FnOnce(Cell, Time) -> Option<L>) -> Option<Trip> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let site = Site::on_a_socket(cell).await?;
        let limiter = make(cell, Time::Real)?;
        Some(drive(cell, windows, site, limiter).await.trip(cell))
    })
}

/// Creates a runtime with virtual time.
pub(crate) fn virtual_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().start_paused(true).build()
}

/// Sends this many windows' worth and waits for the last response.
pub(crate) async fn drive<L: Limiter>(cell: Cell, windows: u64, site: Site, limiter: L) -> Arc<Log> {
    let total = windows * u64::from(cell.quantity);
    let log = Arc::new(Log {
        started: Instant::now(),
        total,
        asked: AtomicU64::new(0),
        calls: Mutex::default(),
        over: Notify::new(),
    });
    for _ in 0..cell.senders {
        tasks::start(send(limiter.clone(), site.clone(), Arc::clone(&log)));
    }
    log.over.notified().await;
    log
}

async fn send<L: Limiter>(limiter: L, site: Site, log: Arc<Log>) {
    while log.asked.fetch_add(1, Ordering::Relaxed) < log.total {
        let mut leave = limiter.wait().await;
        let (site, log) = (site.clone(), Arc::clone(&log));
        tasks::start(async move {
            let sent = log.started.elapsed();
            L::sending(&mut leave);
            // A broken call is distinct from a throttle, and voids the run like one.
            let status = site.call().await.unwrap_or(BROKEN);
            L::answered(leave, status);
            log.note(Call {
                sent,
                took: log.started.elapsed().saturating_sub(sent),
                status,
            });
        });
    }
}

/// All calls of a run.
pub(crate) struct Log {
    pub(crate) started: Instant,
    total: u64,
    asked: AtomicU64,
    calls: Mutex<Vec<Call>>,
    over: Notify,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) sent: Duration,
    took: Duration,
    status: u16,
}

impl Call {
    pub(crate) fn is_refused(&self) -> bool {
        self.status != 200
    }
}

impl Log {
    fn note(&self, call: Call) {
        let mut calls = self.calls.lock();
        calls.push(call);
        if u64::try_from(calls.len()).is_ok_and(|all| all >= self.total) {
            self.over.notify_one();
        }
    }

    /// Returns the calls in the order in which they were sent.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let calls = self.calls.lock();
        let mut calls = calls.clone();
        calls.sort_by_key(|call| call.sent);
        calls
    }

    fn trip(&self, cell: Cell) -> Trip {
        let calls = self.calls();
        let refused = calls.iter().filter(|call| call.is_refused()).count();
        let sends: Vec<Duration> = calls.iter().map(|call| call.sent).collect();
        let took: Vec<Duration> = calls.iter().map(|call| call.took).collect();
        let floor = took.iter().min().copied().unwrap_or_default();
        let pace = |sends: &[Duration]| bound::pace(sends, cell.quantity);
        let bound =
            |held: &dyn Fn(Duration) -> Duration| pace(&bound::sends(cell.quantity, &took, held)) / pace(&sends);
        Trip {
            cell,
            asked: self.total,
            refused: u64::try_from(refused).unwrap_or(u64::MAX),
            goodput: Cell::window().as_secs_f64() / pace(&sends),
            of_safe: bound(&|took| took + Cell::window()),
            of_tight: bound(&|took| took.saturating_sub(floor) + Cell::window()),
        }
    }
}

/// A status that no server uses.
const BROKEN: u16 = 599;
