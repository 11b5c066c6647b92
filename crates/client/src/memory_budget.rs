//! Memory budget: one bound for the bytes that a process holds on behalf of others.
//!
//! A client that reads nothing, or a call that waits for hours, costs its sender a few bytes and the process a
//! whole body. A bound for each body does not help: there are many. So all of them take their bytes from one
//! budget. What cannot be left out, a connection or a request, may use all of it. A buffer, which only makes a
//! call better, may not use the last quarter: otherwise a few large bodies would keep every caller out.
//!
//! A cache has its own bound. A response that leaves the cache stays in memory while a slow reader has it. So the
//! body of a stored response counts as a buffer while it is read, and the content of the cache leaves less room
//! for buffers. Both together stay within three quarters, unless the cache alone is larger.
//!
//! The budget counts what its users reserve. It allocates nothing and decides nothing about a refusal.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use outflow_sync::Mutex;

use crate::cache::Cache;

/// Bound for bytes in memory. Clones share one budget.
///
/// ```
/// use outflow::MemoryBudget;
///
/// let budget = MemoryBudget::new(1_000);
/// let request = budget.reserve(900).expect("it is empty");
/// assert!(budget.reserve(200).is_none());
/// drop(request);
/// assert_eq!(budget.used(), 0);
/// ```
#[derive(Clone)]
pub struct MemoryBudget {
    state: Arc<BudgetState>,
}

struct BudgetState {
    limit: AtomicU64,
    used: AtomicU64,
    refused: AtomicU64,
    unbuffered: AtomicU64,
    /// Cache beside the budget.
    cache: Option<Cache>,
    /// Shares of bodies with several readers, by the address of the bytes. Readers hold them, so no address is
    /// used again while its share lives.
    bodies: Mutex<HashMap<usize, Weak<MemoryShare>>>,
}

/// Bytes taken from a budget, until it is dropped.
pub struct MemoryShare {
    state: Arc<BudgetState>,
    bytes: u64,
}

impl MemoryBudget {
    /// Returns a budget of this many bytes.
    pub fn new(limit: u64) -> Self {
        Self::beside_cache(limit, None)
    }

    /// Returns a budget of this many bytes in a process with a cache, whose content leaves less room for buffers.
    pub fn beside_cache(limit: u64, cache: Option<Cache>) -> Self {
        let state = BudgetState {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unbuffered: AtomicU64::new(0),
            cache,
            bodies: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// Changes the limit. Bytes above a lower limit stay until they are dropped.
    pub fn set_limit(&self, limit: u64) {
        self.state.limit.store(limit, Ordering::Relaxed);
    }

    /// Takes bytes for something that cannot be left out, such as a request.
    pub fn reserve(&self, bytes: u64) -> Option<MemoryShare> {
        self.reserve_within(bytes, self.limit())
    }

    /// Takes bytes for something that is refused if they do not fit.
    fn reserve_within(&self, bytes: u64, bound: u64) -> Option<MemoryShare> {
        let taken = self.take(bytes, bound);
        if taken.is_none() {
            self.state.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Takes bytes for a buffer, which the caller can leave out.
    pub fn reserve_buffer(&self, bytes: u64) -> Option<MemoryShare> {
        let taken = self.take(bytes, self.state.buffer_limit());
        if taken.is_none() {
            self.state.unbuffered.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.state.limit.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        self.state.used.load(Ordering::Relaxed)
    }

    /// Returns the number of requests and connections that did not fit.
    pub fn refused(&self) -> u64 {
        self.state.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of buffers that did not fit.
    pub fn unbuffered(&self) -> u64 {
        self.state.unbuffered.load(Ordering::Relaxed)
    }

    /// Returns a share without bytes, which grows with its buffer.
    pub fn empty_share(&self) -> MemoryShare {
        MemoryShare {
            state: Arc::clone(&self.state),
            bytes: 0,
        }
    }

    fn take(&self, bytes: u64, bound: u64) -> Option<MemoryShare> {
        self.state.add(bytes, bound).then(|| MemoryShare {
            state: Arc::clone(&self.state),
            bytes,
        })
    }

    /// Takes the bytes of a body once for all its readers: cached and shared bodies have many. They count as a
    /// buffer, so that slow readers keep no caller out.
    pub(crate) fn reserve_body(&self, body: &Bytes) -> Option<Arc<MemoryShare>> {
        let mut bodies = self.state.bodies.lock();
        let address = body.as_ptr().addr();
        if let Some(known) = bodies.get(&address).and_then(Weak::upgrade) {
            return Some(known);
        }
        let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
        let share = Arc::new(self.reserve_within(length, self.state.buffer_limit())?);
        insert(&mut bodies, address, &share);
        Some(share)
    }

    /// Makes a share, taken while a body was read, the share of all its readers.
    pub(crate) fn share_body(&self, body: &Bytes, share: MemoryShare) -> Arc<MemoryShare> {
        let share = Arc::new(share);
        insert(&mut self.state.bodies.lock(), body.as_ptr().addr(), &share);
        share
    }
}

impl BudgetState {
    /// Returns the bound for buffers: three quarters without the content of the cache, and at least one quarter.
    fn buffer_limit(&self) -> u64 {
        let limit = self.limit.load(Ordering::Relaxed);
        let cached = self.cache.as_ref().map_or(0, Cache::bytes);
        limit - limit / 4 - cached.min(limit / 2)
    }

    fn add(&self, bytes: u64, bound: u64) -> bool {
        let grow = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= bound);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow)
            .is_ok()
    }
}

impl MemoryShare {
    /// Takes more bytes for a buffer, up to this size. Returns false if they do not fit.
    pub fn grow_buffer(&mut self, size: u64) -> bool {
        let more = size.saturating_sub(self.bytes);
        let fits = self.state.add(more, self.state.buffer_limit());
        if fits {
            self.bytes = self.bytes.saturating_add(more);
        } else {
            self.state.unbuffered.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    /// Takes more bytes for something that cannot be left out, up to this size. Returns false if they do not fit.
    pub fn grow(&mut self, size: u64) -> bool {
        let more = size.saturating_sub(self.bytes);
        let fits = self.state.add(more, self.state.limit.load(Ordering::Relaxed));
        if fits {
            self.bytes = self.bytes.saturating_add(more);
        } else {
            self.state.refused.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    /// Returns the bytes above this size.
    pub fn shrink(&mut self, size: u64) {
        let unused = self.bytes.saturating_sub(size);
        self.bytes -= unused;
        self.state.used.fetch_sub(unused, Ordering::Relaxed);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.state.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Lists a share, and forgets ended ones before the table would grow.
fn insert(bodies: &mut HashMap<usize, Weak<MemoryShare>>, address: usize, share: &Arc<MemoryShare>) {
    if bodies.len() == bodies.capacity() {
        bodies.retain(|_, share| share.strong_count() > 0);
    }
    bodies.insert(address, Arc::downgrade(share));
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("used", &self.used())
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryShare")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Shares of up to 400 of 1,000 bytes, kept or dropped in any order, against a sum by hand.
    proptest! {
        #[test]
        fn the_budget_is_never_exceeded_and_comes_back(
            steps in prop::collection::vec((0_u64..400, 0_u8..3, 0_usize..8), 1..200)
        ) {
            let budget = MemoryBudget::new(1_000);
            let mut held: Vec<(u64, MemoryShare)> = Vec::new();
            for (bytes, what, which) in steps {
                let sum: u64 = held.iter().map(|(bytes, _)| bytes).sum();
                match what {
                    0 => {
                        let taken = budget.reserve(bytes);
                        prop_assert_eq!(taken.is_some(), sum + bytes <= 1_000);
                        held.extend(taken.map(|share| (bytes, share)));
                    }
                    1 => {
                        let taken = budget.reserve_buffer(bytes);
                        prop_assert_eq!(taken.is_some(), sum + bytes <= 750);
                        held.extend(taken.map(|share| (bytes, share)));
                    }
                    _ if which < held.len() => drop(held.swap_remove(which)),
                    _ => {}
                }
                let sum: u64 = held.iter().map(|(bytes, _)| bytes).sum();
                prop_assert_eq!(budget.used(), sum);
            }
            held.clear();
            prop_assert_eq!(budget.used(), 0);
        }
    }

    // A hundred readers of one body of 600 bytes fit into 1,000; a second body of 600 does not. Nor does a body of 760,
    // which would leave less than a quarter for requests.
    #[test]
    fn readers_of_one_body_count_once() {
        let budget = MemoryBudget::new(1_000);
        let (one, other) = (Bytes::from(vec![1; 600]), Bytes::from(vec![2; 600]));
        let readers: Vec<_> = (0..100).map(|_| budget.reserve_body(&one)).collect();
        assert!(readers.iter().all(Option::is_some));
        assert_eq!(budget.used(), 600);
        assert!(budget.reserve_body(&other).is_none());
        drop(readers);
        assert!(budget.reserve_body(&other).is_some());
        assert_eq!(budget.refused(), 1);
        assert!(budget.reserve_body(&Bytes::from(vec![3; 760])).is_none());
        assert!(budget.reserve(760).is_some());
    }
}
