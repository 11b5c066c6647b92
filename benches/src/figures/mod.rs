//! The figures, each family in its file.

use std::time::Duration;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

mod bytes;
mod designs;
mod exact;
mod fair;
mod growth;
mod health;
mod keyed;
mod multi;
mod tail;
mod upstream;

/// Measures all figures of the core.
pub(crate) fn core(plan: Plan) -> Vec<Figure> {
    // The budget starts here.
    clock::since_begin();
    let mut figures = exact::figures(plan);
    figures.extend(multi::figures(plan));
    figures.extend(keyed::figures(plan));
    figures.extend(health::figures(plan));
    figures.extend(upstream::figures(plan));
    figures.extend(tail::figures(plan));
    figures.extend(growth::figures(plan));
    figures.extend(bytes::figures());
    figures.extend(fair::figures(plan));
    // It has no goal, so a quick run skips it.
    if plan.is_thorough() {
        figures.extend(designs::figures(plan));
    }
    figures
}

/// Compares ours with each peer, all in the same rounds.
fn versus<'a>(plan: Plan, name: &str, ours: Contender<'a>, peers: Vec<(Goal, Contender<'a>)>) -> Vec<Figure> {
    let (goals, peers): (Vec<Goal>, Vec<Contender<'a>>) = peers.into_iter().unzip();
    let all = std::iter::once(ours).chain(peers).collect();
    let series = contest(plan, all);
    let Some((ours, peers)) = series.split_first() else {
        return Vec::new();
    };
    goals
        .iter()
        .zip(peers)
        .map(|(goal, peer)| Figure::against(name, *goal, ours, peer))
        .collect()
}

/// Reason for a peer that is missing from its table.
const REFUSED: &str = "missing: it refused the configuration";
/// governor on the clock of ours.
const GOVERNOR: &str = "governor, OS clock";
/// governor on its default clock.
const GOVERNOR_TSC: &str = "governor, its default clock";
/// 100 in a microsecond is more than a machine sends: all are allowed.
const ALLOWING: Duration = Duration::from_micros(1);
/// 100 in a day, all taken before the measurement: none is allowed.
const REFUSING: Duration = Duration::from_hours(24);
