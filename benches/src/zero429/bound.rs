//! Highest rate of a sender that learns of an arrival only by its response.
//!
//! It has one slot for each unit of the limit. A call takes the first free slot and holds it until one window
//! after its latest possible arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Returns the earliest send times of calls with these round trips, if a slot is held for `held(round trip)`.
pub(crate) fn sends(places: u32, round_trips: &[Duration], held: impl Fn(Duration) -> Duration) -> Vec<Duration> {
    let mut free: BinaryHeap<Reverse<Duration>> = (0..places).map(|_| Reverse(Duration::ZERO)).collect();
    let mut sends = Vec::with_capacity(round_trips.len());
    for round_trip in round_trips {
        let Some(Reverse(at)) = free.pop() else {
            break;
        };
        sends.push(at);
        free.push(Reverse(at + held(*round_trip)));
    }
    sends
}

/// Returns the time to send a window's quantity, after the first third of all calls: before that the lowest
/// round trip of a path is unknown, and the first window is free.
pub(crate) fn pace(sends: &[Duration], quantity: u32) -> f64 {
    let quantity = usize::try_from(quantity).unwrap_or(1).max(1);
    let whole = sends.len() / quantity;
    let (from, to) = (whole / 3, whole.saturating_sub(1));
    let at = |window: usize| sends.get(window * quantity);
    match (at(from), at(to)) {
        (Some(begin), Some(end)) if to > from => {
            let windows = u32::try_from(to - from).unwrap_or(u32::MAX);
            end.saturating_sub(*begin).as_secs_f64() / f64::from(windows)
        }
        _ => f64::NAN,
    }
}
