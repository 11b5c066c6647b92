//! The latest possible arrival of a job's call.
//!
//! A shared store counts a call against its tenant's rate from its arrival at the API, and only the worker knows the
//! send, the response and the lowest round trip.

use outflow::{Error, Response, Upstream};
use outflow_core::{Limit, Nanos, RequestTiming};

/// Latest possible arrival of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallArrival {
    /// Nothing was sent.
    Unsent,
    /// It was sent, and may arrive until it is given up.
    Pending,
    /// It arrived by this instant.
    By(Nanos),
}

impl CallArrival {
    /// Returns the arrival of a call that was sent after `sent`, and ended now.
    pub(super) fn of_call(
        upstream: Option<&Upstream>,
        limit: Option<&Limit>,
        (sent, now): (Nanos, Nanos),
        end: &Result<Response, Error>,
    ) -> Self {
        match end {
            Ok(response) => {
                // An error may come from a gateway on the way and says nothing about the path.
                let from_api = upstream.filter(|_| !response.status().is_server_error());
                let timing = RequestTiming::Answered { sent, answered: now };
                let by = limit.map(|limit| timing.counts_from(limit, from_api.and_then(Upstream::min_rtt)));
                Self::By(by.unwrap_or(now))
            }
            Err(error) if error.attempts() == 0 => Self::Unsent,
            Err(_) => Self::Pending,
        }
    }

    /// Returns the instant from which the call counts; `None` if it does not.
    pub(super) const fn counts_from(self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::Unsent => None,
            Self::Pending => Some(now),
            Self::By(at) => Some(at),
        }
    }
}
