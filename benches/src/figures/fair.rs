//! `fair_pick`: selects the next tenant and charges it, among few and many tenants.
//!
//! No peer keeps such an order; the goal is that a pick grows slowly with the tenants.

use outflow_core::{Cost, FairQueue, Nanos, Priority, Weight};

use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

/// Measures the growth of a pick from 10 to 100,000 tenants with jobs, and both picks in nanoseconds.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let series = contest(plan, vec![among(FEW, "10 tenants"), among(MANY, "100,000 tenants")]);
    let [few, many] = series.as_slice() else {
        return Vec::new();
    };
    let growth: Vec<f64> = many
        .nanos
        .iter()
        .zip(&few.nanos)
        .map(|(many, few)| many / few)
        .collect();
    vec![
        Figure::alone("fair_pick", Goal::Own(4.0), &growth),
        Figure::alone("fair_pick_10", Goal::Shown, &few.nanos),
        Figure::alone("fair_pick_100k", Goal::Shown, &many.nanos),
    ]
}

fn among(tenants: u32, name: &'static str) -> Contender<'static> {
    let mut order = FairQueue::new();
    for _ in 0..tenants {
        let tenant = order.join(Weight::ONE, Priority::Normal);
        order.enter(tenant);
    }
    Contender::alone(name, move || {
        let next = order.next(Nanos::ZERO);
        next.is_some_and(|tenant| order.charge(tenant, Cost::ONE).is_some())
    })
}

const FEW: u32 = 10;
const MANY: u32 = 100_000;
