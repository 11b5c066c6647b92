//! Equal requests at the same time are one request.
//!
//! The first to come leads and the others follow. A leader that gives up, fails or is dropped harms
//! nobody: one follower is woken and leads in its place, and if that one is dropped before it notices,
//! the next. A leader that gets an answer shares it, or says that it is its own; then the followers go
//! by themselves. Followers wait as long as they like: dropping the future is giving up. Whether the
//! leader still waits for its own turn can be seen, for followers with less patience than that. The
//! number of flights and of followers is bounded; whoever finds no seat goes alone, which is always
//! right.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use followers::{FlightResult, Followers};

use super::key::FlightKey;

mod followers;

/// The requests that are under way, by what equal ones have in common. Clones are the same flights.
///
/// ```
/// use http::{HeaderMap, Method, Uri};
/// use outflow::CacheMode;
/// use outflow::cache::{Cache, CacheSettings, Flight, Flights, Query};
///
/// let cache = Cache::open(CacheSettings::default())?;
/// let (uri, headers) = (Uri::from_static("https://api.example.com/rates"), HeaderMap::new());
/// let query = Query {
///     api: "rates",
///     method: &Method::GET,
///     uri: &uri,
///     headers: &headers,
///     credential: None,
///     mode: CacheMode::Standard,
/// };
/// let key = cache.flight_key(&query).expect("a plain GET is shared");
///
/// let flights: Flights<&str> = Flights::new();
/// let Flight::Lead(leader) = flights.join(key) else { unreachable!() };
/// assert!(matches!(flights.join(key), Flight::Follow(_)));
/// leader.share("the answer");
/// # Ok::<(), outflow::CacheError>(())
/// ```
pub struct SingleFlight<T> {
    sky: Arc<FlightTable<T>>,
}

struct FlightTable<T> {
    flights: Mutex<HashMap<FlightKey, Arc<Followers<T>>>>,
    bounds: FlightBounds,
}

/// How many requests may be under way and followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlightBounds {
    /// The most flights at a time.
    pub flights: usize,
    /// The most followers of one.
    pub followers: usize,
}

/// More equal calls than a program has tasks for, and more different ones than it has connections.
impl Default for FlightBounds {
    fn default() -> Self {
        Self {
            flights: 4096,
            followers: 1024,
        }
    }
}

/// How a request goes.
pub enum FlightRole<T> {
    /// It is the first: it goes, and tells the others.
    Lead(LeadGuard<T>),
    /// An equal one is under way: it waits for that.
    Follow(FollowFuture<T>),
    /// There is no seat: it goes, and tells nobody.
    Alone,
}

/// What a follower ends with.
pub enum FollowResult<T> {
    /// The leader's answer.
    Shared(T),
    /// The leader is gone: it leads now.
    Lead(LeadGuard<T>),
    /// The leader's answer is not for others: it goes by itself.
    Alone,
}

impl<T: Clone> SingleFlight<T> {
    /// No request is under way.
    pub fn new() -> Self {
        Self::bounded(FlightBounds::default())
    }

    /// No request is under way, and no more than these may be.
    pub fn bounded(bounds: FlightBounds) -> Self {
        let flights = Mutex::default();
        Self {
            sky: Arc::new(FlightTable { flights, bounds }),
        }
    }

    /// Leads, if no equal request is under way, or follows the one that is.
    pub fn join(&self, key: FlightKey) -> FlightRole<T> {
        let mut flights = self.sky.locked();
        if let Some(seats) = flights.get(&key) {
            let seats = Arc::clone(seats);
            if seats.take_the_lead() {
                return FlightRole::Lead(self.lead(key, seats));
            }
            return match seats.sit(self.sky.bounds.followers) {
                Some(seat) => FlightRole::Follow(FollowFuture {
                    sky: Arc::clone(&self.sky),
                    key,
                    seats,
                    seat,
                }),
                None => FlightRole::Alone,
            };
        }
        if flights.len() >= self.sky.bounds.flights {
            return FlightRole::Alone;
        }
        let seats = Arc::new(Followers::led());
        flights.insert(key, Arc::clone(&seats));
        FlightRole::Lead(self.lead(key, seats))
    }

    /// How many requests are under way.
    pub fn len(&self) -> usize {
        self.sky.locked().len()
    }

    /// Whether no request is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lead(&self, key: FlightKey, seats: Arc<Followers<T>>) -> LeadGuard<T> {
        let sky = Arc::clone(&self.sky);
        LeadGuard { sky, key, seats }
    }
}

impl<T> FlightTable<T> {
    fn locked(&self) -> MutexGuard<'_, HashMap<FlightKey, Arc<Followers<T>>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a flight off the board, if it is still this one.
    fn clear(&self, key: &FlightKey, seats: &Arc<Followers<T>>) {
        let mut flights = self.locked();
        if flights
            .get(key)
            .is_some_and(|known| Arc::ptr_eq(known, seats))
        {
            flights.remove(key);
        }
    }

    /// Takes a flight off the board if nobody leads or follows it.
    fn clear_if_empty(&self, key: &FlightKey, seats: &Arc<Followers<T>>) {
        let mut flights = self.locked();
        let known = flights
            .get(key)
            .is_some_and(|known| Arc::ptr_eq(known, seats));
        if known && seats.is_empty() {
            flights.remove(key);
        }
    }
}

/// The duty to go and to tell the others. Dropped, it passes to the next.
#[must_use = "dropped, it passes the lead to a follower"]
pub struct LeadGuard<T> {
    sky: Arc<FlightTable<T>>,
    key: FlightKey,
    seats: Arc<Followers<T>>,
}

impl<T> LeadGuard<T> {
    /// Tells whoever asks that it is on its way: it has waited for its turn and has it.
    pub fn depart(&self) {
        self.seats.depart();
    }

    /// Gives every follower the answer.
    pub fn share(self, answer: T) {
        self.sky.clear(&self.key, &self.seats);
        self.seats.land(FlightResult::Shared(answer));
    }

    /// Tells every follower to go by itself: the answer is not for others.
    pub fn keep(self) {
        self.sky.clear(&self.key, &self.seats);
        self.seats.land(FlightResult::Apart);
    }
}

impl<T> Drop for LeadGuard<T> {
    fn drop(&mut self) {
        self.seats.leave_the_lead();
        self.sky.clear_if_empty(&self.key, &self.seats);
    }
}

/// A follower's wait.
#[must_use = "a follower that is not awaited never learns the answer"]
pub struct FollowFuture<T> {
    sky: Arc<FlightTable<T>>,
    key: FlightKey,
    seats: Arc<Followers<T>>,
    seat: u64,
}

impl<T> FollowFuture<T> {
    /// Whether the leader is on its way. One that is not may wait for its turn longer than a follower
    /// would.
    pub fn has_departed(&self) -> bool {
        self.seats.has_departed()
    }
}

impl<T: Clone> Future for FollowFuture<T> {
    type Output = FollowResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FollowResult<T>> {
        let seen = self.seats.poll(self.seat, context.waker());
        seen.map(|landed| match landed {
            Some(FlightResult::Shared(answer)) => FollowResult::Shared(answer),
            Some(FlightResult::Apart) => FollowResult::Alone,
            None => FollowResult::Lead(LeadGuard {
                sky: Arc::clone(&self.sky),
                key: self.key,
                seats: Arc::clone(&self.seats),
            }),
        })
    }
}

impl<T> Drop for FollowFuture<T> {
    fn drop(&mut self) {
        self.seats.stand_up(self.seat);
        self.sky.clear_if_empty(&self.key, &self.seats);
    }
}

impl<T> Clone for SingleFlight<T> {
    fn clone(&self) -> Self {
        Self {
            sky: Arc::clone(&self.sky),
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
        let under_way = self.sky.locked().len();
        f.debug_struct("Flights")
            .field("under_way", &under_way)
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
