//! `shapes`: networks of other shapes than jitter, limits of several windows, and weights.
//!
//! The core alone runs against a strict server in memory, with a backlog that never ends, because these runs last
//! hours of virtual time. A figure is the worst of all limits and weights: refusals in 10,000 calls, the mean
//! of several runs.

use outflow_core::{Accounting, Rate};
use outflow_testkit::zero429::{CallWeights, CellFigures, LIMITS, NetworkShape, OracleCell};

use crate::figure::{Figure, Goal};
use crate::measure::approx;

/// Measures each shape with the default accounting and with safe accounting.
pub(crate) fn figures(runs: u64) -> Vec<Figure> {
    let shapes = NetworkShape::ALL.into_iter();
    shapes.flat_map(|shape| shape_figures(shape, runs)).collect()
}

fn shape_figures(shape: NetworkShape, runs: u64) -> [Figure; 2] {
    let name = name(shape);
    let default = worst(shape, Accounting::for_window, runs);
    let safe = worst(shape, |_| Accounting::Safe, runs);
    let goal = if shape.drops_suddenly() {
        Goal::Shown
    } else {
        Goal::Own(1.0)
    };
    [
        Figure::alone(&format!("refused_per_10k_default_{name}"), goal, &[default]),
        Figure::alone(&format!("refused_per_10k_safe_{name}"), Goal::Own(0.0), &[safe]),
    ]
}

/// Returns the refusals in 10,000 calls, in the cell that has the most.
fn worst(shape: NetworkShape, accounting: fn(Rate) -> Accounting, runs: u64) -> f64 {
    let weights = [CallWeights::Unit, CallWeights::OneToFive];
    let cells = LIMITS
        .into_iter()
        .flat_map(|limits| weights.map(|weights| (limits, weights)));
    let refused = cells.map(|(limits, weights)| {
        let run = |seed| OracleCell {
            shape,
            limits,
            weights,
            accounting,
            calls: 10_000,
            seed,
        };
        let all = (0..runs).map(|seed| run(seed).run());
        approx(all.map(|CellFigures { refused, .. }| refused).sum::<usize>()) / approx(runs)
    });
    refused.fold(0.0, f64::max)
}

fn name(shape: NetworkShape) -> String {
    match shape {
        NetworkShape::Drift(period) => format!("drift_{}_min", period.as_secs() / 60),
        other => snake_case(&format!("{other:?}")),
    }
}

fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
