//! Limits against a strict server behind a network of a given shape, in virtual time.
//!
//! The server counts a request when it arrives and refuses each request that exceeds a limit in any window.
//! The client drives the limits and the lowest round trip as the real one does, with a backlog that
//! never ends, so that every limit is always full. Nothing else of the client takes part: an
//! adaptive limit would hide refusals by slowing down after the first.

mod network;
mod server;
mod simulation;

use std::time::Duration;

use outflow_core::{Accounting, Limit, Rate};

pub use network::NetworkShape;
use simulation::Simulation;

/// One cell of the table: a network, the limits, and how both are used.
#[derive(Clone, Copy, Debug)]
pub struct OracleCell {
    /// Network between the client and the server.
    pub shape: NetworkShape,
    /// Limits of the server, which the client knows.
    pub limits: &'static [&'static str],
    /// Cost of the calls.
    pub weights: CallWeights,
    /// Accounting of each limit.
    pub accounting: fn(Rate) -> Accounting,
    /// Number of calls.
    pub calls: usize,
    /// Seed of delays and weights.
    pub seed: u64,
}

/// Cost of the calls of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallWeights {
    /// One each.
    Unit,
    /// One to five, at random.
    OneToFive,
}

/// Result of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CellFigures {
    /// Calls that the server refused.
    pub refused: usize,
    /// Units that the server accepted, as a share of what the limits allow in the time.
    pub goodput: f64,
}

/// Limits of the table.
pub const LIMITS: [&[&str]; 4] = [&["10/s"], &["50/s"], &["10/s", "100/min"], &["20/min"]];

impl OracleCell {
    /// Runs the cell.
    ///
    /// # Panics
    /// If a limit cannot be parsed, or is smaller than a call.
    pub fn run(self) -> CellFigures {
        Simulation::new(self).run()
    }

    /// Returns the limits of the client.
    ///
    /// # Panics
    /// If one cannot be parsed.
    pub(crate) fn client_limits(self) -> Vec<Limit> {
        let limit = |rate| Limit::sliding(rate).counted((self.accounting)(rate));
        self.rates().map(limit).collect()
    }

    #[expect(clippy::expect_used, reason = "limits are constants of a test")]
    pub(crate) fn rates(self) -> impl Iterator<Item = Rate> {
        self.limits.iter().map(|text| text.parse().expect("a rate"))
    }

    /// Returns the units that all limits together allow in a time.
    pub(crate) fn allowed_in(self, time: Duration) -> f64 {
        let per_second = Rate::as_per_second;
        time.as_secs_f64() * self.rates().map(per_second).fold(f64::INFINITY, f64::min)
    }
}
