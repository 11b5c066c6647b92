//! The server: exact sliding windows by arrival.

use std::collections::VecDeque;
use std::time::Duration;

use outflow_core::{Nanos, Rate};

/// Server that accepts a request if every limit has quota when it arrives.
#[derive(Debug)]
pub(super) struct StrictServer {
    windows: Vec<StrictWindow>,
    pub(super) refused: usize,
    pub(super) accepted: u64,
}

/// Accepted requests of one window.
#[derive(Debug)]
struct StrictWindow {
    quantity: u64,
    length: Duration,
    used: u64,
    accepted: VecDeque<(Nanos, u64)>,
}

impl StrictServer {
    pub(super) fn new(rates: impl Iterator<Item = Rate>) -> Self {
        let window = |rate: Rate| StrictWindow {
            quantity: rate.quantity(),
            length: rate.per(),
            used: 0,
            accepted: VecDeque::new(),
        };
        Self {
            windows: rates.map(window).collect(),
            refused: 0,
            accepted: 0,
        }
    }

    /// Counts an arrival. Returns false if it is refused; then it uses nothing.
    pub(super) fn accept(&mut self, now: Nanos, cost: u64) -> bool {
        let fits = self.windows.iter_mut().all(|window| window.fits(now, cost));
        if !fits {
            self.refused += 1;
            return false;
        }
        self.accepted += cost;
        for window in &mut self.windows {
            window.used += cost;
            window.accepted.push_back((now, cost));
        }
        true
    }
}

impl StrictWindow {
    fn fits(&mut self, now: Nanos, cost: u64) -> bool {
        while let Some((_, expired)) = self.accepted.pop_front_if(|(at, _)| now.since(*at) >= self.length) {
            self.used -= expired;
        }
        self.used + cost <= self.quantity
    }
}
