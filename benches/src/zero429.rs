//! `zero429`: a mock API that counts requests as they arrive, behind a network with delays.
//!
//! The server is the mock API over in-memory connections, in virtual time; a full run repeats one cell over
//! real sockets in real time. A sender waits for its permit, starts the call and continues, so calls overlap as
//! in a busy program; four senders share one limiter. (Four processes that share a limit are not measured
//! here.) Throttled calls are not retried.
//!
//! The best result without a throttle: an oracle that knows every delay sends each call so that it arrives when
//! there is quota, a whole window's quantity at once and again when the window is over. So its goodput is the
//! quantity per window for all delays and all three kinds of server. No client without that knowledge reaches
//! this under jitter, because the arrival between send and response is unseen. So each accounting is also
//! compared with its own bound, computed from the round trips of the run. A slot is reused one window after the
//! response (safe), or one window after the response less the lowest round trip (tight).

mod bound;
mod cell;
mod limiters;
mod route;
mod run;
mod server;
mod shapes;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use cell::Cell;
use limiters::Entrant;
use run::Trip;

/// Measures all figures of counting by arrival.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    // The budget starts here.
    clock::since_begin();
    let entrants = limiters::all();
    let cells = Cell::all();
    let mut trips: Vec<Vec<Trip>> = entrants.iter().map(|_| Vec::new()).collect();
    for cell in &cells {
        for (entrant, trips) in entrants.iter().zip(&mut trips) {
            trips.extend((entrant.run)(*cell, windows(plan)));
        }
    }
    let mut figures = refusals(&entrants, &trips);
    figures.extend(goodputs(&entrants, &trips));
    figures.extend(route::figures(windows(plan)));
    figures.extend(shapes::figures(runs(plan)));
    if plan.is_thorough() {
        figures.extend(real(&entrants));
    }
    figures
}

/// Returns the windows that each cell sends. With 36 cells of 10 and 50 a window these are 32,400 requests for
/// each contender in a quick run, and 200,880 otherwise.
fn windows(plan: Plan) -> u64 {
    if plan.is_thorough() { 186 } else { 30 }
}

/// Returns the runs of each cell of other shapes, 10,000 calls each.
fn runs(plan: Plan) -> u64 {
    if plan.is_thorough() { 50 } else { 5 }
}

fn refusals(entrants: &[Entrant], trips: &[Vec<Trip>]) -> Vec<Figure> {
    let jitters = Cell::JITTERS.map(Some);
    let parts = std::iter::once(None).chain(jitters);
    parts
        .flat_map(|jitter| {
            let refused: Vec<Vec<f64>> = trips
                .iter()
                .map(|trips| vec![per_10k(trips.iter().filter(|trip| trip.has(jitter)))])
                .collect();
            let suffix = Cell::suffix(jitter);
            OURS.into_iter()
                .flat_map(move |index| {
                    let name = entrants.get(index).map_or("", |entrant| entrant.short);
                    let peers: Vec<(&str, &[f64])> = entrants
                        .iter()
                        .zip(&refused)
                        .skip(OURS.len())
                        .map(|(entrant, refused)| (entrant.name, &**refused))
                        .collect();
                    let ours = refused.get(index).map_or(&[][..], |refused| refused);
                    let name = format!("refused_per_10k_{name}{suffix}");
                    Figure::with_peers(&name, Goal::Own(0.0), ours, &peers)
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn per_10k<'a>(trips: impl Iterator<Item = &'a Trip>) -> f64 {
    let (refused, asked) = trips.fold((0, 0), |(refused, asked), trip| {
        (refused + trip.refused, asked + trip.asked)
    });
    approx(refused) * 10_000.0 / approx(asked.max(1))
}

fn goodputs(entrants: &[Entrant], trips: &[Vec<Trip>]) -> Vec<Figure> {
    let ours = entrants.iter().zip(trips).take(OURS.len());
    ours.flat_map(|(entrant, trips)| {
        Cell::JITTERS.into_iter().flat_map(move |jitter| {
            let suffix = Cell::suffix(Some(jitter));
            let of = |read: fn(&Trip) -> f64| -> Vec<f64> {
                let trips = trips.iter().filter(|trip| trip.has(Some(jitter)));
                trips.map(read).collect()
            };
            let best = format!("goodput_{}{suffix}", entrant.short);
            let bound = format!("goodput_{}_of_bound{suffix}", entrant.short);
            [
                Figure::alone(&best, entrant.goodput, &of(|trip| trip.goodput)),
                Figure::alone(&bound, Goal::AtLeast(0.98), &of(entrant.of_bound)),
            ]
        })
    })
    .collect()
}

/// Runs one cell with the kernel, its timers and real sockets.
fn real(entrants: &[Entrant]) -> Vec<Figure> {
    let ours = entrants.iter().take(OURS.len());
    ours.map(|entrant| {
        let name = format!("refused_per_10k_{}_sockets", entrant.short);
        match (entrant.run_for_real)(Cell::REAL, REAL_WINDOWS) {
            Some(trip) => Figure::alone(&name, Goal::Own(0.0), &[per_10k([&trip].into_iter())]),
            None => Figure::missing(&name, "", "missing: no socket, or no runtime"),
        }
    })
    .collect()
}

/// Ours come first: safe, then tight.
const OURS: [usize; 2] = [0, 1];
/// Ten seconds each.
const REAL_WINDOWS: u64 = 10;
