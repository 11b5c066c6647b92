//! `zero429`: a strict API that counts requests as they arrive, behind a network with delays.
//!
//! The server is the strict API over connections in memory, in virtual time; a full run repeats one
//! cell over real sockets in real time. A sender waits for its permit, starts the call and goes on, so
//! calls overlap as they do in a busy program; four senders share one limiter. (Four processes that
//! share a limit are another matter and not measured here.) What was refused is not repeated.
//!
//! The best that can be done without a refusal: an oracle that knows every delay sends each call so
//! that it arrives when there is room, a whole window's quantity at once and again when the window is
//! over. So its goodput is the quantity per window whatever the delays are, for all three kinds of
//! server. Nobody without that knowledge gets there under jitter: between sending and answer lies an
//! arrival that nobody saw. So each accounting is also held against its own bound, which is computed
//! from the round trips of the very run: a place is taken again one window after the response (safe),
//! or one window after the response less the lowest round trip (tight).

mod bound;
mod cell;
mod limiters;
mod route;
mod run;
mod server;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};
use cell::Cell;
use limiters::Entrant;
use run::Trip;

/// Everything that counting by arrival promises.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    // The budget runs from here.
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
    if plan.is_thorough() {
        figures.extend(real(&entrants));
    }
    figures
}

/// How many windows' worth each cell sends. With 36 cells of 10 and 50 a window these are 32,400
/// requests for each contender in a hurry, and 200,880 otherwise.
fn windows(plan: Plan) -> u64 {
    if plan.is_thorough() { 186 } else { 30 }
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
                .flat_map(move |seat| {
                    let name = entrants.get(seat).map_or("", |entrant| entrant.short);
                    let peers: Vec<(&str, &[f64])> = entrants
                        .iter()
                        .zip(&refused)
                        .skip(OURS.len())
                        .map(|(entrant, refused)| (entrant.name, &**refused))
                        .collect();
                    let ours = refused.get(seat).map_or(&[][..], |refused| refused);
                    let name = format!("refused_per_10k_{name}{suffix}");
                    Figure::beside(&name, Goal::Own(0.0), ours, &peers)
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

/// One cell where the kernel, its timers and real sockets have their say.
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
