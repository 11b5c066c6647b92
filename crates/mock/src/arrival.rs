//! One request as the server saw it.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use outflow_core::{Cost, Nanos};

/// A request that arrived, and what became of it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its number, from 0 on, in the order of arrival.
    pub number: u64,
    /// When its head came out of the connection, before the delay of the way there.
    pub received: Nanos,
    /// When it arrived: what limits count.
    pub at: Nanos,
    /// The number of the connection it came on.
    pub connection: u64,
    /// The credential of its caller, empty without one.
    pub caller: Arc<str>,
    /// The name of its route.
    pub route: Arc<str>,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: Box<str>,
    /// What it cost.
    pub cost: Cost,
    /// What the server decided.
    pub verdict: ArrivalVerdict,
    /// The status that it was answered with; `None` if it was not, or not by HTTP.
    pub status: Option<u16>,
    /// How much of its body came.
    pub body: Received,
    /// Its `Idempotency-Key`.
    pub idempotency_key: Option<HeaderValue>,
    /// The headers that the audit was asked to note.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Arrival {
    /// An allowed GET of `/` at this instant, by nobody, for histories made by hand.
    ///
    /// ```
    /// use outflow_core::Nanos;
    /// use outflow_mock::{Arrival, Audit};
    ///
    /// let at = |secs| Arrival::at(Nanos::from_secs(secs));
    /// let audit = Audit::of(vec![at(0), at(1), at(2)]);
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

/// What the server decided about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArrivalVerdict {
    /// It passed all limits and got its answer.
    Allowed,
    /// The limit of this name refused it.
    Refused(Arc<str>),
    /// Its caller was banned.
    Banned,
    /// It passed all limits, and the script took over.
    Scripted,
}

/// How much of a request's body came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// All of it: so many bytes.
    Whole(u64),
    /// So many bytes, and then it broke off or nobody read on.
    Cut(u64),
}
