//! The rows of the table about Redis.

use super::life::{Life, Lives};
use super::ours::OURS;
use crate::figure::{Figure, Goal};
use crate::measure::Series;

/// Returns the results of all contenders, with our goals.
pub(super) fn figures(lives: &Lives) -> Vec<Figure> {
    let mut figures = rates(lives);
    for (name, goal, part) in ROWS {
        figures.extend(with_peers(lives, (name, goal), |who| lives.values_of(who, part)));
    }
    let trips = ("redis_round_trips_per_job", Goal::Own(0.03));
    figures.extend(with_peers(lives, trips, |who| lives.trips_of(who)));
    let missing = lives.missing.iter();
    figures.extend(
        missing.map(|peer| Figure::missing("redis_life_per_s", peer, "missing: it does not run here, or gave up")),
    );
    figures
}

/// Lives a second have goals as multiples of the peers'.
fn rates(lives: &Lives) -> Vec<Figure> {
    let series = |name| Series {
        name,
        nanos: lives.values_of(name, |life| life.per_second),
        strays: 0.0,
    };
    let ours = series(OURS);
    let peers = lives.names().into_iter().filter(|name| *name != OURS);
    peers
        .map(|peer| {
            let goal = match peer {
                "bee-queue" => Goal::RatioAtLeast(15.0),
                "BullMQ" => Goal::RatioAtLeast(40.0),
                _ => Goal::ShownHigher,
            };
            Figure::against("redis_life_per_s", goal, &ours, &series(peer))
        })
        .collect()
}

fn with_peers(lives: &Lives, (name, goal): (&str, Goal), part: impl Fn(&str) -> Vec<f64>) -> Vec<Figure> {
    let peers = lives.names().into_iter().filter(|name| *name != OURS);
    let theirs: Vec<_> = peers.map(|peer| (peer, part(peer))).collect();
    let theirs: Vec<_> = theirs.iter().map(|(peer, all)| (*peer, &all[..])).collect();
    Figure::with_peers(name, goal, &part(OURS), &theirs)
}

/// A figure's name, its goal, and its value of a life.
type Row = (&'static str, Goal, fn(&Life) -> f64);

const ROWS: [Row; 5] = [
    ("redis_enqueue_per_s", Goal::ShownHigher, |l| l.enqueued),
    ("redis_process_per_s", Goal::ShownHigher, |l| l.processed),
    ("redis_us_per_job", Goal::Own(6.0), |l| l.micros),
    ("redis_commands_per_job", Goal::Own(0.5), |l| l.commands),
    ("redis_bytes_per_job", Goal::Own(150.0), |l| l.bytes),
];
