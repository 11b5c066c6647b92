//! Refusals of a strict server, for every shape of network, limit and accounting.
//!
//! The limits have the defaults of a configuration: `auto` accounting and a guard of 2 ms.

use std::time::Duration;

use outflow_core::{Accounting, Rate};
use outflow_testkit::zero429::{CallWeights, CellFigures, LIMITS, NetworkShape, OracleCell};

/// Calls of a run. The promise is about as many.
const CALLS: usize = 10_000;

fn cells(accounting: fn(Rate) -> Accounting) -> impl Iterator<Item = OracleCell> {
    let shapes = NetworkShape::ALL.into_iter();
    let limits = shapes.flat_map(|shape| LIMITS.map(|limits| (shape, limits)));
    let weights = [CallWeights::Unit, CallWeights::OneToFive];
    let cells = limits.flat_map(move |(shape, limits)| weights.map(|weights| (shape, limits, weights)));
    cells.map(move |(shape, limits, weights)| OracleCell {
        shape,
        limits,
        weights,
        accounting,
        calls: CALLS,
        seed: 0,
    })
}

fn refused(cell: OracleCell, seeds: u64) -> usize {
    let run = |seed| OracleCell { seed, ..cell }.run().refused;
    (0..seeds).map(run).sum()
}

/// One refusal in ten thousand calls, and after a sudden drop two windows' worth.
fn defaults_keep_their_promise(seeds: u64) {
    for cell in cells(Accounting::for_window) {
        let refused = refused(cell, seeds);
        let largest = cell
            .limits
            .iter()
            .filter_map(|rate| rate.parse().ok())
            .map(Rate::quantity)
            .max();
        let per_run = if cell.shape.drops_suddenly() {
            2 * largest.unwrap_or(0)
        } else {
            1
        };
        assert!(
            u64::try_from(refused).is_ok_and(|refused| refused <= per_run * seeds),
            "{refused} in {seeds} runs: {cell:?}"
        );
    }
}

fn safe_is_never_refused(seeds: u64) {
    for cell in cells(|_| Accounting::Safe) {
        assert_eq!(refused(cell, seeds), 0, "{cell:?}");
    }
}

// Five runs a cell: the first fast response of a path may be refused in each.
#[test]
fn defaults_are_refused_at_most_once_in_ten_thousand_calls() {
    defaults_keep_their_promise(5);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_defaults_are_refused_at_most_once_in_ten_thousand_calls() {
    defaults_keep_their_promise(100);
}

#[test]
fn safe_accounting_is_never_refused_on_any_network() {
    safe_is_never_refused(1);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_safe_accounting_is_never_refused_on_any_network() {
    safe_is_never_refused(100);
}

fn steady(shape: NetworkShape, limits: &'static [&'static str], accounting: fn(Rate) -> Accounting) -> CellFigures {
    let cell = OracleCell {
        shape,
        limits,
        weights: CallWeights::Unit,
        accounting,
        calls: CALLS,
        seed: 0,
    };
    cell.run()
}

// The oracle can see a violation: counted from sending, jitter alone is refused again and again.
#[test]
fn counting_from_sending_is_refused() {
    let send = |_| Accounting::Send;
    assert!(steady(NetworkShape::Jitter, &["10/s"], send).refused > 100);
}

// A round trip of 40 ms costs safe counting 4 % of a second; defaults lose nothing of it.
#[test]
fn defaults_use_nearly_all_of_a_short_window_on_a_quiet_path() {
    for limits in [&["10/s"], &["50/s"]] {
        let auto = steady(NetworkShape::Quiet, limits, Accounting::for_window);
        let safe = steady(NetworkShape::Quiet, limits, |_| Accounting::Safe);
        assert!(auto.goodput > 0.995, "{auto:?} of {limits:?}");
        assert!((0.95..0.97).contains(&safe.goodput), "{safe:?} of {limits:?}");
    }
}

// The two figures of `tight` in long windows that once were 36 and 120 in ten thousand.
#[test]
fn tight_accounting_withstands_thin_traffic_and_drift() {
    let tight = |_| Accounting::Tight;
    assert_eq!(steady(NetworkShape::WideJitter, &["20/min"], tight).refused, 0);
    let drift = NetworkShape::Drift(Duration::from_mins(10));
    assert_eq!(steady(drift, &["10/s", "100/min"], tight).refused, 0);
}
