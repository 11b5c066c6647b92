//! Response cache: an RFC 9111 cache per caller, in memory and on disk.
//!
//! A library decides what may be stored, for how long, and when it must be revalidated. This module
//! decides whose response it is. The caller's credentials are part of the key, so callers never see
//! each other's responses. Only keyed hashes of a request are stored: no file and no file name
//! holds an address, a token or a cookie. If the request identifies its caller, its part of the
//! cache is private in the RFC's sense; otherwise it is shared by all anonymous callers, with the
//! stricter rules for that.
//!
//! Memory is authoritative and the disk follows: a response is available when [`Cache::offer`]
//! returns, and on disk after [`Cache::flush`]. Without a flush, with a full disk or a directory in
//! use elsewhere, the cache works from memory and [`Cache::report`] says so. This module reads no
//! clock and spawns nothing. It stores only complete responses to GET and HEAD without cookies.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use outflow_core::WallTime;

pub use self::cache_status::{CacheStatus, ForwardReason};
pub use self::disk_load::DiskEntry;
pub use self::error::CacheError;
pub use self::freshness::Freshness;
pub use self::key::FlightKey;
pub use self::lookup::{CacheLookup, CacheableResponse, CachedResponse, NotStored, StoreDecision};
pub use self::query::{BypassReason, CacheQuery};
pub use self::report::{CacheReport, DiskState};
pub use self::single_flight::{FlightBounds, FlightRole, FollowFuture, FollowResult, LeadGuard, SingleFlight};

use self::entry::{CacheEntry, EntrySlot};
use self::freshness::FreshnessCheck;
use self::store::CacheStore;
use crate::api::StaleOffline;

mod cache_control;
mod cache_status;
mod codec;
mod disk;
mod disk_index;
mod disk_load;
mod entry;
mod error;
mod freshness;
mod invalidation;
mod key;
mod lookup;
mod memory;
mod packed_head;
mod query;
mod report;
mod secret_leak;
mod single_flight;
mod storable;
mod store;
mod write_queue;

/// Location and size of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSettings {
    /// Directory, created if missing. It should hold nothing else. Without one, responses live as
    /// long as the program.
    pub dir: Option<PathBuf>,
    /// Bytes for responses in memory. Choose what the program can spare: the largest stored
    /// response is a sixteenth of it.
    pub memory: u64,
    /// Bytes for responses on disk.
    pub disk: u64,
}

impl Default for CacheSettings {
    /// Memory only, 32 MiB; 256 MiB on disk once a directory is set.
    fn default() -> Self {
        Self {
            dir: None,
            memory: 32 << 20,
            disk: 256 << 20,
        }
    }
}

/// Response cache. Clones share one cache.
///
/// ```
/// use bytes::Bytes;
/// use http::{HeaderMap, Method, StatusCode, Uri, header};
/// use outflow::core::WallTime;
/// use outflow::CacheMode;
/// use outflow::cache::{Cache, CacheLookup, CacheQuery, CacheSettings, CacheableResponse, StoreDecision};
///
/// let cache = Cache::open(CacheSettings::default())?;
/// let (uri, headers) = (Uri::from_static("https://api.example.com/rates"), HeaderMap::new());
/// let query = CacheQuery {
///     api: "rates",
///     method: &Method::GET,
///     uri: &uri,
///     headers: &headers,
///     credential: Some(b"a key"),
///     mode: CacheMode::Standard,
/// };
/// let now = WallTime::from_unix_secs(1_760_000_000);
/// assert!(matches!(cache.lookup(&query, now), CacheLookup::Missing));
///
/// let mut headers = HeaderMap::new();
/// headers.insert(header::CACHE_CONTROL, "max-age=60".parse()?);
/// let response = CacheableResponse {
///     status: StatusCode::OK,
///     headers: &headers,
///     body: Bytes::from_static(b"1.08"),
///     delay: std::time::Duration::ZERO,
/// };
/// assert_eq!(cache.offer(&query, response, now), StoreDecision::Stored);
///
/// let later = WallTime::from_unix_secs(1_760_000_030);
/// let CacheLookup::Fresh(stored) = cache.lookup(&query, later) else { panic!("30 s are left") };
/// assert_eq!(stored.cache_status().to_string(), "outflow; hit; ttl=30");
///
/// let other_caller = CacheQuery { credential: Some(b"another"), ..query };
/// assert!(matches!(cache.lookup(&other_caller, later), CacheLookup::Missing));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cache {
    store: Arc<CacheStore>,
    stale_if_error: Duration,
    stale_offline: StaleOffline,
}

impl Cache {
    /// Opens a cache with the content of its directory.
    ///
    /// A directory that is not writable, or that another process uses, is no error: the cache then
    /// works from memory, and its [report](Cache::report) says why.
    ///
    /// # Errors
    /// If the memory is too small, or the directory is a link, not a directory, owned by another
    /// user, or accessible to others with foreign files in it.
    pub fn open(settings: CacheSettings) -> Result<Self, CacheError> {
        Ok(Self {
            stale_if_error: Duration::ZERO,
            stale_offline: StaleOffline::default(),
            store: Arc::new(CacheStore::open(&settings)?),
        })
    }

    /// Returns the cache with stale responses allowed for this time while the server fails. A
    /// response that allows more may be served longer; one with `must-revalidate` is never served
    /// stale. Choose the age at which a response is still better than none.
    #[must_use]
    pub fn stale_if_error(&self, max_stale: Duration) -> Self {
        Self {
            stale_if_error: max_stale,
            ..self.clone()
        }
    }

    /// Returns the cache with another choice of the stale responses that serve calls while none may be sent.
    #[must_use]
    pub fn stale_offline(&self, stale_offline: StaleOffline) -> Self {
        Self {
            stale_offline,
            ..self.clone()
        }
    }

    /// Looks a request up. Reads a file if the response is only on disk.
    pub fn lookup(&self, query: &CacheQuery<'_>, now: WallTime) -> CacheLookup {
        self.find(query, now, CacheStore::slot)
    }

    /// Looks a request up in memory. Never reads a file: code that must not block calls this, and
    /// [`Cache::find_on_disk`] first.
    pub fn lookup_in_memory(&self, query: &CacheQuery<'_>, now: WallTime) -> CacheLookup {
        self.find(query, now, CacheStore::slot_in_memory)
    }

    fn find(&self, query: &CacheQuery<'_>, now: WallTime, slot: SlotReader) -> CacheLookup {
        if let Some(bypass) = query.bypass() {
            return CacheLookup::NotCacheable(bypass);
        }
        let Some(entry) = self.store.find(query, slot) else {
            return CacheLookup::Missing;
        };
        let check = FreshnessCheck::new(query, &entry);
        let stored = CachedResponse::from_check(&entry, &check, now);
        if check.is_fresh(now) {
            return CacheLookup::Fresh(stored);
        }
        CacheLookup::Stale {
            stored,
            revalidate: check.conditions(),
            usable_on_error: check.may_serve_on_error(now, self.stale_if_error),
        }
    }

    /// Returns the stored response, however stale, for when nothing may be sent. It states its age. A
    /// response that requires revalidation is served stale only with [`StaleOffline::Any`].
    pub fn lookup_any(&self, query: &CacheQuery<'_>, now: WallTime) -> Option<CachedResponse> {
        self.find_any(query, now, CacheStore::slot)
    }

    /// Returns the stored response, however stale, if it is in memory. Never reads a file.
    pub fn lookup_any_in_memory(&self, query: &CacheQuery<'_>, now: WallTime) -> Option<CachedResponse> {
        self.find_any(query, now, CacheStore::slot_in_memory)
    }

    fn find_any(&self, query: &CacheQuery<'_>, now: WallTime, slot: SlotReader) -> Option<CachedResponse> {
        if let Some(BypassReason::Off | BypassReason::Method) = query.bypass() {
            return None;
        }
        let entry = self.store.find(query, slot)?;
        let check = FreshnessCheck::new(query, &entry);
        let is_allowed = self.stale_offline == StaleOffline::Any || check.may_serve_offline(now);
        is_allowed.then(|| CachedResponse::from_check(&entry, &check, now))
    }

    /// Stores a response if it may be stored. A good response that may not be stored still removes
    /// an older one, which is out of date.
    pub fn offer(&self, query: &CacheQuery<'_>, response: CacheableResponse<'_>, now: WallTime) -> StoreDecision {
        let status = response.status;
        match storable::build_entry(&self.store, query, response, now) {
            Ok(entry) => {
                self.store.put(query, Arc::new(entry));
                StoreDecision::Stored
            }
            Err(reason) => {
                if proves_outdated(reason, status) {
                    self.store.remove(query);
                }
                StoreDecision::Not(reason)
            }
        }
    }

    /// Removes the stored response if a new one, which is not buffered and so not stored, replaces it.
    pub fn outdate(&self, query: &CacheQuery<'_>, status: StatusCode) {
        if proves_outdated(NotStored::TooLarge, status) {
            self.store.remove(query);
        }
    }

    /// Returns the response that a 304 confirmed, with the headers of the 304.
    ///
    /// `None` if the 304 is about another response: the caller then sends the request without
    /// conditions.
    pub fn revalidate(
        &self,
        query: &CacheQuery<'_>,
        stored: &CachedResponse,
        not_modified: &CacheableResponse<'_>,
        now: WallTime,
    ) -> Option<CachedResponse> {
        let Some(entry) = storable::refresh_entry(&stored.entry, not_modified, now) else {
            self.store.remove(query);
            return None;
        };
        let storable = FreshnessCheck::new(query, &entry).is_storable(query);
        let is_personal = storable::sets_cookie(&entry.headers);
        let allowed = query.bypass().is_none() && storable && !is_personal;
        // A 304 may vary by other headers than the stored response, and repeat a secret.
        let vary = storable::selectors(&entry.headers);
        match (storable::set_scope(query, entry.clone()), vary) {
            (Ok(entry), Some(vary)) if allowed => {
                let selected = self.store.selection(&vary, query);
                if selected != entry.selected {
                    self.store.remove(query);
                }
                self.store.put(
                    query,
                    Arc::new(CacheEntry {
                        vary,
                        selected,
                        ..entry
                    }),
                );
            }
            _ => self.store.remove(query),
        }
        Some(CachedResponse::new(query, &Arc::new(entry), now))
    }

    /// Removes the responses that a write made obsolete, for all callers: at its address and at
    /// those of the same origin that the response names. Reads and failures make nothing obsolete.
    pub fn invalidate(&self, query: &CacheQuery<'_>, status: StatusCode, headers: &HeaderMap) {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
        if safe.contains(query.method) || !(status.is_success() || status.is_redirection()) {
            return;
        }
        self.store.remove_resource(query.api, query.uri);
        for uri in invalidation::related_uris(query.uri, headers) {
            self.store.remove_resource(query.api, &uri);
        }
    }

    /// Returns the key that equal requests share; `None` if the request may not be shared.
    pub fn flight_key(&self, query: &CacheQuery<'_>) -> Option<FlightKey> {
        query.bypass().is_none().then(|| self.store.flight_key(query))
    }

    /// Returns true if the response may also go to equal concurrent requests. It need not be
    /// storable: a failure may be shared, too. A private response is not: equal credentials do not
    /// prove one user. Nor is one that states to be stale on arrival.
    pub fn may_share(&self, query: &CacheQuery<'_>, headers: &HeaderMap, now: WallTime) -> bool {
        query.bypass().is_none() && storable::is_shareable(query, headers, now)
    }

    /// Finds a response that is only on disk: a lookup would read a file.
    pub fn find_on_disk(&self, query: &CacheQuery<'_>) -> Option<DiskEntry> {
        let key = self.store.find_on_disk(query)?;
        Some(DiskEntry::new(&self.store, key))
    }

    /// Waits until there is something to write.
    pub async fn wait_for_writes(&self) {
        self.store.wait_for_writes().await;
    }

    /// Writes all pending responses and returns their number. Blocks as long as the disk does; one
    /// call at a time does the work.
    pub fn flush(&self) -> usize {
        std::iter::repeat_with(|| self.flush_one())
            .take_while(|written| *written)
            .count()
    }

    /// Writes the next response. Returns false if there was none.
    pub fn flush_one(&self) -> bool {
        self.store.write_next()
    }

    /// Returns the bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Returns the content and the error counts.
    pub fn report(&self) -> CacheReport {
        self.store.report()
    }
}

/// Returns true if a response that is not stored proves the stored one out of date. Failures do
/// not, nor do responses that say nothing about the resource.
fn proves_outdated(reason: NotStored, status: StatusCode) -> bool {
    let about_the_resource = !matches!(reason, NotStored::Bypassed(_) | NotStored::Incomplete);
    let is_conclusive = status.is_success()
        || status.is_redirection() && status != StatusCode::NOT_MODIFIED
        || status == StatusCode::NOT_FOUND
        || status == StatusCode::GONE;
    about_the_resource && is_conclusive
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

/// Lookup of a slot, with or without the disk.
type SlotReader = fn(&CacheStore, &CacheQuery<'_>) -> Option<Arc<EntrySlot>>;

impl CacheStore {
    /// Finds the stored response that matches a request.
    fn find(&self, query: &CacheQuery<'_>, slot: SlotReader) -> Option<Arc<CacheEntry>> {
        slot(self, query)?.find(|entry| self.matches(query, entry)).cloned()
    }
}
