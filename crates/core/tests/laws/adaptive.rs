//! An adaptive limit that finds the server's real limit by being throttled.

mod evidence;
mod laws;
mod simulated_server;

use outflow_core::{Evidence, Nanos, Rate};

fn per_second(quantity: u64) -> Rate {
    Rate::per_second(quantity).expect("valid")
}

fn throttled(sent: u64, admitted: u64) -> Evidence {
    Evidence::Throttled {
        sent: Nanos::from_millis(sent),
        admitted,
    }
}
