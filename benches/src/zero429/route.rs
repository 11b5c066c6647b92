//! `route_change`: the base latency drops by half midway.
//!
//! Tight counting relies on the lowest round trip of the path. When a shorter route appears, calls arrive
//! earlier than expected until the first response over it is back: one window's worth may be throttled, and
//! nothing after. Safe counting relies on nothing.

use std::time::Duration;

use super::cell::{BASE, Cell, Kept};
use super::limiters::{Ours, Time};
use super::run;
use super::server::Site;
use crate::figure::{Figure, Goal};
use crate::measure::approx;
use crate::tasks;

/// Measures the throttles of safe and tight, as a share of one window's quantity, and the late ones of tight.
pub(crate) fn figures(windows: u64) -> Vec<Figure> {
    let safe = changes(windows, Ours::safe);
    let tight = changes(windows, Ours::tight);
    let share = |seen: &[Seen]| -> Vec<f64> {
        let refused = seen.iter().map(|seen| approx(seen.refused));
        refused.map(|refused| refused / approx(QUANTITY)).collect()
    };
    let later = |seen: &[Seen]| -> Vec<f64> { seen.iter().map(|seen| approx(seen.late)).collect() };
    vec![
        worst("route_change_safe", 0.0, &share(&safe)),
        worst("route_change_tight", 1.0, &share(&tight)),
        worst("route_change_tight_later", 0.0, &later(&tight)),
    ]
}

fn worst(name: &str, most: f64, seen: &[f64]) -> Figure {
    let worst = seen.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Figure::alone(name, Goal::Own(most), &[worst])
}

struct Seen {
    refused: usize,
    /// Throttles of calls that were sent more than two windows after the change.
    late: usize,
}

fn changes(windows: u64, make: fn(Cell, Time) -> Option<Ours>) -> Vec<Seen> {
    let cells = Cell::JITTERS.into_iter().map(|jitter| Cell {
        server: Kept::SlidingLog,
        quantity: QUANTITY,
        jitter,
        senders: 4,
    });
    cells.filter_map(|cell| change(cell, windows, make)).collect()
}

fn change(cell: Cell, windows: u64, make: fn(Cell, Time) -> Option<Ours>) -> Option<Seen> {
    let runtime = run::virtual_runtime().ok()?;
    runtime.block_on(async {
        let site = Site::in_memory(cell)?;
        let limiter = make(cell, Time::Virtual)?;
        // In the middle of a window, so that one is in progress.
        let midway = Cell::window() * u32::try_from(windows / 2).ok()? + Cell::window() / 2;
        let ways = cell.latency(BASE / 2);
        let api = site.api().clone();
        tasks::start(async move {
            tokio::time::sleep(midway).await;
            api.delay(ways, ways);
        });
        let log = run::drive(cell, windows, site, limiter).await;
        let refused: Vec<Duration> = log
            .calls()
            .iter()
            .filter(|call| call.is_refused())
            .map(|call| call.sent)
            .collect();
        let late = refused.iter().filter(|sent| **sent > midway + 2 * Cell::window());
        Some(Seen {
            late: late.count(),
            refused: refused.len(),
        })
    })
}

const QUANTITY: u32 = 50;
