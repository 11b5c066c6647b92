//! Prints the table of refusals: every network shape, limit and accounting.
//!
//! `cargo run --release -p outflow-testkit --example zero429 -- 10000 5`: calls of a cell, and its seeds.

use outflow_core::{Accounting, Rate};
use outflow_testkit::zero429::{CallWeights, LIMITS, NetworkShape, OracleCell};

fn main() {
    let words: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let calls = words.first().copied().unwrap_or(10_000);
    let seeds = words.get(1).copied().unwrap_or(1);
    println!("refused in {calls} calls (mean and worst of {seeds} seeds), goodput: auto | tight | safe");
    for limits in LIMITS {
        for weights in [CallWeights::Unit, CallWeights::OneToFive] {
            for shape in NetworkShape::ALL {
                let rows = ACCOUNTINGS.map(|accounting| OracleCell {
                    shape,
                    limits,
                    weights,
                    accounting,
                    calls,
                    seed: 0,
                });
                let [auto, tight, safe] = rows.map(|cell| figures(cell, seeds));
                let name = format!("{shape:?}");
                println!(
                    "{:12} {weights:9?} {name:14} {auto} | {tight} | {safe}",
                    limits.join("+")
                );
            }
        }
    }
}

/// Runs a cell with several seeds.
fn figures(cell: OracleCell, seeds: usize) -> String {
    let seeds = u32::try_from(seeds).unwrap_or(1);
    let runs: Vec<_> = (0..seeds)
        .map(|seed| {
            OracleCell {
                seed: u64::from(seed),
                ..cell
            }
            .run()
        })
        .collect();
    let refused = runs.iter().map(|run| u32::try_from(run.refused).unwrap_or(u32::MAX));
    let worst = refused.clone().max().unwrap_or(0);
    let mean = f64::from(refused.sum::<u32>()) / f64::from(seeds);
    let goodput = runs.iter().map(|run| run.goodput).sum::<f64>() / f64::from(seeds);
    format!("{mean:6.2} {worst:4} {goodput:.3}")
}

const ACCOUNTINGS: [fn(Rate) -> Accounting; 3] = [Accounting::for_window, |_| Accounting::Tight, |_| Accounting::Safe];
