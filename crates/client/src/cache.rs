//! Answers that are kept: a private HTTP cache per caller, in memory and on disk.
//!
//! What may be kept, for how long, and when it must be asked about again is RFC 9111's business, and a
//! library's; whose it is, is ours. Callers with different credentials never see one another's
//! answers, because who asks is part of the key; and of a request nothing is kept but keyed hashes, so
//! that no file and no file name holds an address, a token or a cookie. Where something names the
//! caller, its part of the cache is a private one in the RFC's sense; where nothing does, it is shared
//! by all who come without a name, with the stricter rules for that.
//!
//! Memory is what counts and the disk follows: an answer is there when [`Cache::offer`] returns, and
//! written when somebody calls [`Cache::flush`]. If nobody does, if the disk is full or another process
//! has the directory, everything works from memory, and [`Cache::report`] says so. No clock is read and
//! nothing is spawned here. Only complete answers to GET and HEAD are kept, never one with a cookie.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use outflow_core::WallTime;

pub use self::cache_status::{CacheStatus, ForwardReason};
pub use self::disk_load::DiskEntry;
pub use self::error::CacheError;
pub use self::freshness::Freshness;
pub use self::key::FlightKey;
pub use self::lookup::{CacheLookup, CacheableResponse, CachedResponse, NotStored, StoreDecision};
pub use self::query::{BypassReason, CacheQuery};
pub use self::report::{CacheReport, DiskState};
pub use self::single_flight::{
    FlightBounds, FlightRole, FollowFuture, FollowResult, LeadGuard, SingleFlight,
};

use self::entry::{CacheEntry, EntrySlot};
use self::freshness::FreshnessCheck;
use self::store::CacheStore;

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
mod query;
mod report;
mod secret_leak;
mod single_flight;
mod storable;
mod store;
mod write_queue;

/// Where answers are kept, and how many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSettings {
    /// The directory, made if there is none. It should hold nothing else. Without one, answers live
    /// as long as the program.
    pub dir: Option<PathBuf>,
    /// The bytes that answers may take in memory. Choose what the program can spare: a sixteenth of it
    /// is the largest answer that is kept.
    pub memory: u64,
    /// The bytes that they may take on disk.
    pub disk: u64,
}

impl Default for CacheSettings {
    /// In memory, 32 MiB; 256 MiB once a directory is named.
    fn default() -> Self {
        Self {
            dir: None,
            memory: 32 << 20,
            disk: 256 << 20,
        }
    }
}

/// Kept answers. Clones are the same cache.
///
/// ```
/// use bytes::Bytes;
/// use http::{HeaderMap, Method, StatusCode, Uri, header};
/// use outflow::core::WallTime;
/// use outflow::CacheMode;
/// use outflow::cache::{Answer, Cache, CacheSettings, Found, Kept, Query};
///
/// let cache = Cache::open(CacheSettings::default())?;
/// let (uri, headers) = (Uri::from_static("https://api.example.com/rates"), HeaderMap::new());
/// let query = Query {
///     api: "rates",
///     method: &Method::GET,
///     uri: &uri,
///     headers: &headers,
///     credential: Some(b"a key"),
///     mode: CacheMode::Standard,
/// };
/// let now = WallTime::from_unix_secs(1_760_000_000);
/// assert!(matches!(cache.lookup(&query, now), Found::Missing));
///
/// let mut said = HeaderMap::new();
/// said.insert(header::CACHE_CONTROL, "max-age=60".parse()?);
/// let answer = Answer {
///     status: StatusCode::OK,
///     headers: &said,
///     body: Bytes::from_static(b"1.08"),
///     delay: std::time::Duration::ZERO,
/// };
/// assert_eq!(cache.offer(&query, answer, now), Kept::Stored);
///
/// let later = WallTime::from_unix_secs(1_760_000_030);
/// let Found::Fresh(stored) = cache.lookup(&query, later) else { panic!("30 s are left") };
/// assert_eq!(stored.cache_status().to_string(), "outflow; hit; ttl=30");
///
/// let somebody_else = Query { credential: Some(b"another"), ..query };
/// assert!(matches!(cache.lookup(&somebody_else, later), Found::Missing));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cache {
    store: Arc<CacheStore>,
    stale_if_error: Duration,
}

impl Cache {
    /// Opens a cache, with what its directory holds.
    ///
    /// A directory that cannot be written, or that another process uses, is no error: the cache then
    /// works from memory, and its [report](Cache::report) says why.
    ///
    /// # Errors
    /// If there is too little memory to keep anything, or the directory is a link, not a directory,
    /// somebody else's, or open to others and full of other things.
    pub fn open(settings: CacheSettings) -> Result<Self, CacheError> {
        Ok(Self {
            stale_if_error: Duration::ZERO,
            store: Arc::new(CacheStore::open(&settings)?),
        })
    }

    /// The same kept answers, of which those past their time may be given for so long when the server
    /// fails, as if they said so themselves. An answer that allows more may be given for longer; one
    /// that must be confirmed is never given. Choose how old an answer may be and still be better than
    /// none.
    #[must_use]
    pub fn stale_if_error(&self, longest: Duration) -> Self {
        Self {
            store: Arc::clone(&self.store),
            stale_if_error: longest,
        }
    }

    /// What there is for a request. Reads a file if the answer is only on disk.
    pub fn lookup(&self, query: &CacheQuery<'_>, now: WallTime) -> CacheLookup {
        self.found(query, now, CacheStore::slot)
    }

    /// What there is for a request in memory. Never reads a file: who must not wait for a disk asks
    /// here, and [`Cache::cold`] before it.
    pub fn lookup_in_memory(&self, query: &CacheQuery<'_>, now: WallTime) -> CacheLookup {
        self.found(query, now, CacheStore::slot_in_memory)
    }

    fn found(&self, query: &CacheQuery<'_>, now: WallTime, slot: Reader) -> CacheLookup {
        if let Some(bypass) = query.bypass() {
            return CacheLookup::NotCacheable(bypass);
        }
        let Some(entry) = self.store.find(query, slot) else {
            return CacheLookup::Missing;
        };
        let judgement = FreshnessCheck::new(query, &entry);
        let stored = CachedResponse::judged(&entry, &judgement, now);
        if judgement.is_fresh(now) {
            return CacheLookup::Fresh(stored);
        }
        CacheLookup::Stale {
            stored,
            revalidate: judgement.conditions(),
            usable_on_error: judgement.serves_errors(now, self.stale_if_error),
        }
    }

    /// The kept answer however stale it is, for when nothing may be sent. It says how stale.
    pub fn any(&self, query: &CacheQuery<'_>, now: WallTime) -> Option<CachedResponse> {
        self.anything(query, now, CacheStore::slot)
    }

    /// The same, if it is in memory. Never reads a file.
    pub fn any_in_memory(&self, query: &CacheQuery<'_>, now: WallTime) -> Option<CachedResponse> {
        self.anything(query, now, CacheStore::slot_in_memory)
    }

    fn anything(
        &self,
        query: &CacheQuery<'_>,
        now: WallTime,
        slot: Reader,
    ) -> Option<CachedResponse> {
        match query.bypass() {
            Some(BypassReason::Off | BypassReason::Method) => None,
            _ => Some(CachedResponse::new(
                query,
                &self.store.find(query, slot)?,
                now,
            )),
        }
    }

    /// Keeps the server's answer to a request, if it may be kept. A good answer that may not be takes
    /// the place of an older one all the same: that one is not true any more.
    pub fn offer(
        &self,
        query: &CacheQuery<'_>,
        answer: CacheableResponse<'_>,
        now: WallTime,
    ) -> StoreDecision {
        let status = answer.status;
        match storable::examined(&self.store, query, answer, now) {
            Ok(entry) => {
                self.store.put(query, Arc::new(entry));
                StoreDecision::Stored
            }
            Err(why) => {
                if outdates(why, status) {
                    self.store.displace(query);
                }
                StoreDecision::Not(why)
            }
        }
    }

    /// The answer that the server has just confirmed with a 304, with the headers that it sent along.
    ///
    /// `None` if the 304 is about another answer than this one: then it must be asked for again,
    /// without conditions.
    pub fn revalidated(
        &self,
        query: &CacheQuery<'_>,
        stored: &CachedResponse,
        not_modified: &CacheableResponse<'_>,
        now: WallTime,
    ) -> Option<CachedResponse> {
        let Some(entry) = storable::renewed(&stored.entry, not_modified, now) else {
            self.store.displace(query);
            return None;
        };
        let storable = FreshnessCheck::new(query, &entry).is_storable(query);
        let allowed = query.bypass().is_none() && storable;
        // A 304 has headers, and they may repeat a secret like any others.
        match storable::placed(query, entry.clone()) {
            Ok(placed) if allowed => self.store.put(query, Arc::new(placed)),
            _ => self.store.displace(query),
        }
        Some(CachedResponse::new(query, &Arc::new(entry), now))
    }

    /// Forgets what a write has made obsolete, whoever it was kept for: what is at its address, and at
    /// those of the same origin that the answer names. Reads and failures make nothing obsolete.
    pub fn invalidate(&self, query: &CacheQuery<'_>, status: StatusCode, headers: &HeaderMap) {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
        if safe.contains(query.method) || !(status.is_success() || status.is_redirection()) {
            return;
        }
        self.store.forget(query.api, query.uri);
        for uri in invalidation::named_in(query.uri, headers) {
            self.store.forget(query.api, &uri);
        }
    }

    /// What equal requests have in common, if equal ones may share an answer at all.
    pub fn flight_key(&self, query: &CacheQuery<'_>) -> Option<FlightKey> {
        query.bypass().is_none().then(|| self.store.flight(query))
    }

    /// Whether the answer to a request may also be given to equal ones that came while it was under
    /// way. It need not be one that is kept: a failure is as good for all.
    pub fn may_share(&self, query: &CacheQuery<'_>, headers: &HeaderMap) -> bool {
        let Some(control) = cache_control::CacheControl::from_headers(headers) else {
            return false;
        };
        let own = control.has("private") && !query.is_personal();
        let varies =
            storable::selectors(headers).is_none_or(|names| names.iter().any(key::is_noise));
        let cookie = headers.contains_key(header::SET_COOKIE);
        query.bypass().is_none() && !own && !varies && !cookie && !control.has("no-store")
    }

    /// The answer to a request, if it is on disk alone: looking it up would read a file.
    pub fn cold(&self, query: &CacheQuery<'_>) -> Option<DiskEntry> {
        let key = self.store.cold(query)?;
        Some(DiskEntry::new(&self.store, key))
    }

    /// Waits until something is to be written.
    pub async fn pending(&self) {
        self.store.pending().await;
    }

    /// Writes what is to be written, and says how many answers that were. It blocks as long as the
    /// disk does; one call at a time does the work.
    pub fn flush(&self) -> usize {
        std::iter::repeat_with(|| self.flush_one())
            .take_while(|wrote| *wrote)
            .count()
    }

    /// Writes the next answer, and says whether there was one.
    pub fn flush_one(&self) -> bool {
        self.store.write_next()
    }

    /// What is kept, and what went wrong.
    pub fn report(&self) -> CacheReport {
        self.store.report()
    }
}

/// Whether an answer that is not kept shows that the kept one is no longer true. A failure does not,
/// nor does one that says nothing about the resource.
fn outdates(why: NotStored, status: StatusCode) -> bool {
    let about_the_resource = !matches!(why, NotStored::Bypassed(_) | NotStored::Incomplete);
    let final_word = status.is_success()
        || status.is_redirection() && status != StatusCode::NOT_MODIFIED
        || status == StatusCode::NOT_FOUND
        || status == StatusCode::GONE;
    about_the_resource && final_word
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}

/// How far one goes for what is under a request's key.
type Reader = fn(&CacheStore, &CacheQuery<'_>) -> Option<Arc<EntrySlot>>;

impl CacheStore {
    /// The kept answer that fits a request.
    fn find(&self, query: &CacheQuery<'_>, slot: Reader) -> Option<Arc<CacheEntry>> {
        slot(self, query)?
            .find(|entry| self.fits(query, entry))
            .cloned()
    }
}
