//! Where the cache stands on the way of a call.

use super::Trip;
use crate::client::{CacheUse, Response};
use crate::error::{Error, Kind};

/// An answer from the cache, or from the server.
pub(super) async fn answered_or_fetched(trip: &mut Trip<'_>) -> Result<Response, Error> {
    if trip.order.cache == CacheUse::Only {
        return Err(Error::new(Kind::CacheMiss));
    }
    trip.fetched().await
}
