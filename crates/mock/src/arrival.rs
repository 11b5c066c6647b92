//! One request as the server saw it.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use outflow_core::{Cost, Nanos};

/// Request that arrived, and its result.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Number of the request from 0 on, in the order of arrival.
    pub number: u64,
    /// Time at which its head was read, before the delay of the way to the server.
    pub received: Nanos,
    /// Time of arrival, which limits count.
    pub at: Nanos,
    /// Number of its connection.
    pub connection: u64,
    /// Credential of its caller, empty without one.
    pub caller: Arc<str>,
    /// Name of its route.
    pub route: Arc<str>,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: Box<str>,
    /// Its cost.
    pub cost: Cost,
    /// Decision of the server.
    pub verdict: ArrivalVerdict,
    /// Status of the response; `None` if there was none, or none by HTTP.
    pub status: Option<u16>,
    /// Received part of its body.
    pub body: Received,
    /// Its `Idempotency-Key`.
    pub idempotency_key: Option<HeaderValue>,
    /// Headers that the audit records.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Arrival {
    /// Builds an allowed GET of `/` at this instant without a caller, for histories made by hand.
    ///
    /// ```
    /// use outflow_core::Nanos;
    /// use outflow_mock::{Arrival, Audit};
    ///
    /// let at = |secs| Arrival::at(Nanos::from_secs(secs));
    /// let audit = Audit::from_arrivals(vec![at(0), at(1), at(2)]);
    /// assert_eq!(audit.most_in_any_window(std::time::Duration::from_secs(2)), 2);
    /// ```
    pub fn at(at: Nanos) -> Self {
        Self {
            number: 0,
            received: at,
            at,
            connection: 0,
            caller: "".into(),
            route: crate::route::DEFAULT_ROUTE.into(),
            method: Method::GET,
            path: "/".into(),
            cost: Cost::ONE,
            verdict: ArrivalVerdict::Allowed,
            status: Some(200),
            body: Received::Whole(0),
            idempotency_key: None,
            headers: Vec::new(),
        }
    }
}

/// Decision of the server about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArrivalVerdict {
    /// It passed all limits and got its response.
    Allowed,
    /// The limit of this name refused it.
    Refused(Arc<str>),
    /// Its caller was banned.
    Banned,
    /// It had no valid key.
    Unauthorized,
    /// It passed all limits, and the script decided.
    Scripted,
}

/// Received part of a request's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// All of it, with its length.
    Whole(u64),
    /// A part of this length, before it broke off or the server stopped reading.
    Cut(u64),
}
