//! An adaptive limit that finds the server's real limit by being throttled.

mod evidence;
mod growth;
mod laws;
mod long_windows;
mod rate_evidence;
mod simulated_server;
mod storms;

use outflow_core::{AdaptiveLimit, AdaptiveMode, Evidence, Nanos, PassedUnits, Rate};

fn guard(configured: Rate) -> AdaptiveLimit {
    AdaptiveLimit::new(AdaptiveMode::Guard, configured, Nanos::ZERO)
}

fn per_second(quantity: u64) -> Rate {
    Rate::per_second(quantity).expect("valid")
}

/// A throttle while all of the limit was in use.
fn throttled(sent: u64, admitted: u64) -> Evidence {
    Evidence::Throttled {
        sent: Nanos::from_millis(sent),
        admitted,
        used: u64::MAX,
    }
}

/// A success that was sent at this millisecond, with sharp counts.
fn passed(sent: u64, units: u64) -> PassedUnits {
    PassedUnits {
        sent: Nanos::from_millis(sent),
        surely: units,
        possibly: units,
    }
}

/// A success that was sent and returned at this second.
fn clean_at(learned: &mut AdaptiveLimit, secs: u64, units: u64) {
    learned.clean(Nanos::from_secs(secs), passed(secs * 1_000, units));
}
