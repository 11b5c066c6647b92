//! The figures, each family in its file.

use std::time::Duration;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

mod bytes;
mod designs;
mod door;
mod exact;
mod fair;
mod growth;
mod health;
mod keyed;
mod multi;
mod tail;

/// Everything that the core promises.
pub(crate) fn core(plan: Plan) -> Vec<Figure> {
    // The budget runs from here.
    clock::since_begin();
    let mut figures = exact::figures(plan);
    figures.extend(multi::figures(plan));
    figures.extend(keyed::figures(plan));
    figures.extend(health::figures(plan));
    figures.extend(door::figures(plan));
    figures.extend(tail::figures(plan));
    figures.extend(growth::figures(plan));
    figures.extend(bytes::figures());
    figures.extend(fair::figures(plan));
    // Promises nothing, so it is not worth a part of the quick minute.
    if plan.is_thorough() {
        figures.extend(designs::figures(plan));
    }
    figures
}

/// Ours against each peer, all in the same rounds.
fn versus<'a>(
    plan: Plan,
    name: &str,
    ours: Contender<'a>,
    peers: Vec<(Goal, Contender<'a>)>,
) -> Vec<Figure> {
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

/// Why a peer is missing from a table it belongs to.
const REFUSED: &str = "missing: it refused the configuration";
/// governor on the clock that ours is given.
const GOVERNOR: &str = "governor, OS clock";
/// governor on the clock it takes if not told otherwise.
const GOVERNOR_TSC: &str = "governor, its default clock";
/// 100 in a microsecond is more than a machine asks for: all are allowed.
const ALLOWING: Duration = Duration::from_micros(1);
/// 100 in a day, all taken before the race: none is allowed.
const REFUSING: Duration = Duration::from_hours(24);
