//! Collapsing of equal concurrent requests into one.
//!
//! The first request leads, the others follow. If the leader gives up, fails or is dropped, one
//! follower is woken and leads; if that one is dropped first, the next. A leader with a response
//! shares or withholds it; in the second case the followers send their own requests. Dropping the
//! future ends a follower's wait. A follower can see if the leader still waits for its permit, in
//! case it has less time. Flights and followers are bounded; a request beyond the bounds goes
//! alone, which is always correct.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use followers::{FlightResult, Followers};
use outflow_sync::Mutex;

use super::key::FlightKey;

mod followers;

/// Requests in flight, by the key that equal ones share. Clones share the flights.
///
/// ```
/// use http::{HeaderMap, Method, Uri};
/// use outflow::CacheMode;
/// use outflow::cache::{Cache, CacheQuery, CacheSettings, FlightRole, SingleFlight};
///
/// let cache = Cache::open(CacheSettings::default())?;
/// let (uri, headers) = (Uri::from_static("https://api.example.com/rates"), HeaderMap::new());
/// let query = CacheQuery {
///     api: "rates",
///     method: &Method::GET,
///     uri: &uri,
///     headers: &headers,
///     credential: None,
///     mode: CacheMode::Standard,
/// };
/// let key = cache.flight_key(&query).expect("a plain GET is shared");
///
/// let flights: SingleFlight<&str> = SingleFlight::new();
/// let FlightRole::Lead(leader) = flights.join(key) else { unreachable!() };
/// assert!(matches!(flights.join(key), FlightRole::Follow(_)));
/// leader.share("the response");
/// # Ok::<(), outflow::CacheError>(())
/// ```
pub struct SingleFlight<T> {
    table: Arc<FlightTable<T>>,
}

struct FlightTable<T> {
    flights: Mutex<HashMap<FlightKey, Arc<Followers<T>>>>,
    bounds: FlightBounds,
}

/// Maximum of flights and followers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlightBounds {
    /// Maximum of concurrent flights.
    pub flights: usize,
    /// Maximum of followers per flight.
    pub followers: usize,
}

/// More equal calls than a program has tasks, and more different ones than it has connections.
impl Default for FlightBounds {
    fn default() -> Self {
        Self {
            flights: 4096,
            followers: 1024,
        }
    }
}

/// Role of a request.
pub enum FlightRole<T> {
    /// First: it is sent and its response may be shared.
    Lead(LeadGuard<T>),
    /// An equal request is in flight: wait for it.
    Follow(FollowFuture<T>),
    /// Beyond the bounds: it is sent and not shared.
    Alone,
}

/// Result of following.
pub enum FollowResult<T> {
    /// Response of the leader.
    Shared(T),
    /// The leader is gone: this request leads.
    Lead(LeadGuard<T>),
    /// The leader withholds its response: send this request.
    Alone,
}

impl<T: Clone> SingleFlight<T> {
    /// Returns an empty table with the default bounds.
    pub fn new() -> Self {
        Self::with_bounds(FlightBounds::default())
    }

    /// Returns an empty table with these bounds.
    pub fn with_bounds(bounds: FlightBounds) -> Self {
        let flights = Mutex::default();
        Self {
            table: Arc::new(FlightTable { flights, bounds }),
        }
    }

    /// Leads, or follows an equal request in flight.
    pub fn join(&self, key: FlightKey) -> FlightRole<T> {
        let mut flights = self.table.flights.lock();
        if let Some(followers) = flights.get(&key) {
            let followers = Arc::clone(followers);
            if followers.try_lead() {
                return FlightRole::Lead(self.lead(key, followers));
            }
            return match followers.add(self.table.bounds.followers) {
                Some(id) => FlightRole::Follow(FollowFuture {
                    table: Arc::clone(&self.table),
                    key,
                    followers,
                    id,
                }),
                None => FlightRole::Alone,
            };
        }
        if flights.len() >= self.table.bounds.flights {
            return FlightRole::Alone;
        }
        let followers = Arc::new(Followers::new());
        flights.insert(key, Arc::clone(&followers));
        FlightRole::Lead(self.lead(key, followers))
    }

    /// Returns the number of requests in flight.
    pub fn len(&self) -> usize {
        self.table.flights.lock().len()
    }

    /// Returns true if no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lead(&self, key: FlightKey, followers: Arc<Followers<T>>) -> LeadGuard<T> {
        let table = Arc::clone(&self.table);
        LeadGuard { table, key, followers }
    }
}

impl<T> FlightTable<T> {
    /// Removes this flight, if it is still listed.
    fn remove(&self, key: &FlightKey, followers: &Arc<Followers<T>>) {
        let mut flights = self.flights.lock();
        if flights.get(key).is_some_and(|known| Arc::ptr_eq(known, followers)) {
            flights.remove(key);
        }
    }

    /// Removes this flight if it has neither leader nor followers.
    fn remove_if_empty(&self, key: &FlightKey, followers: &Arc<Followers<T>>) {
        let mut flights = self.flights.lock();
        let known = flights.get(key).is_some_and(|known| Arc::ptr_eq(known, followers));
        if known && followers.is_empty() {
            flights.remove(key);
        }
    }
}

/// Duty to send the request and serve the followers. On drop it passes to a follower.
#[must_use = "dropped, it passes the lead to a follower"]
pub struct LeadGuard<T> {
    table: Arc<FlightTable<T>>,
    key: FlightKey,
    followers: Arc<Followers<T>>,
}

impl<T> LeadGuard<T> {
    /// Marks the request as sent: it no longer waits for a permit.
    pub fn mark_sent(&self) {
        self.followers.mark_sent();
    }

    /// Gives every follower the response.
    pub fn share(self, response: T) {
        self.table.remove(&self.key, &self.followers);
        self.followers.finish(FlightResult::Shared(response));
    }

    /// Has every follower send its own request: the response is not for others.
    pub fn withhold(self) {
        self.table.remove(&self.key, &self.followers);
        self.followers.finish(FlightResult::Withheld);
    }
}

impl<T> Drop for LeadGuard<T> {
    fn drop(&mut self) {
        self.followers.release_lead();
        self.table.remove_if_empty(&self.key, &self.followers);
    }
}

/// Wait of a follower.
#[must_use = "a follower that is not awaited never gets the response"]
pub struct FollowFuture<T> {
    table: Arc<FlightTable<T>>,
    key: FlightKey,
    followers: Arc<Followers<T>>,
    id: u64,
}

impl<T> FollowFuture<T> {
    /// Returns true if the leader's request was sent. An unsent one may wait for its permit longer
    /// than the follower would.
    pub fn is_sent(&self) -> bool {
        self.followers.is_sent()
    }
}

impl<T: Clone> Future for FollowFuture<T> {
    type Output = FollowResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FollowResult<T>> {
        let polled = self.followers.poll(self.id, context.waker());
        polled.map(|result| match result {
            Some(FlightResult::Shared(response)) => FollowResult::Shared(response),
            Some(FlightResult::Withheld) => FollowResult::Alone,
            None => FollowResult::Lead(LeadGuard {
                table: Arc::clone(&self.table),
                key: self.key,
                followers: Arc::clone(&self.followers),
            }),
        })
    }
}

impl<T> Drop for FollowFuture<T> {
    fn drop(&mut self) {
        self.followers.remove(self.id);
        self.table.remove_if_empty(&self.key, &self.followers);
    }
}

impl<T> Clone for SingleFlight<T> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
        }
    }
}

impl<T: Clone> Default for SingleFlight<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for SingleFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight")
            .field("in_flight", &self.table.flights.lock().len())
            .finish()
    }
}

impl<T> fmt::Debug for FlightRole<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lead(_) => "Lead",
            Self::Follow(_) => "Follow",
            Self::Alone => "Alone",
        })
    }
}

impl<T> fmt::Debug for FollowResult<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "Shared",
            Self::Lead(_) => "Lead",
            Self::Alone => "Alone",
        })
    }
}

impl<T> fmt::Debug for LeadGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeadGuard").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for FollowFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowFuture").finish_non_exhaustive()
    }
}
