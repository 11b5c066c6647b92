//! Limiters by name, created on first use.
//!
//! Groups and tenants have names that become known with their requests. Looking up a known name takes no
//! lock: names are never removed, so the slots of a table are filled once, and a full table is followed by
//! one twice as large. (A shared lock costs about 20 ns even without contention.) For frequent use,
//! [resolve](LimiterRegistry::resolve) a name once and store the [`LimiterHandle`], which skips the hash.
//!
//! The registry has a bound and never forgets: a name beyond the bound gets [`RegistryFull`], because
//! dropping a limiter in use would allow its next request too early.

mod table;

use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::quality::RandomState;
use outflow_core::{Cost, Decision, Nanos, Receipt, SharedLimiter};
use outflow_sync::Mutex;
use smol_str::SmolStr;

use table::LimiterTable;

/// Limiters by name.
///
/// ```
/// use outflow::LimiterRegistry;
/// use outflow::core::{Cost, Nanos, Rate, SharedLimiter};
///
/// let rate: Rate = "10/s".parse()?;
/// SharedLimiter::sliding(rate)?;
/// let tenants = LimiterRegistry::new(move |_| SharedLimiter::sliding(rate).expect("checked above"));
/// assert!(tenants.take("alice", Nanos::ZERO, Cost::new(10))?.is_allow());
/// assert!(tenants.take("bob", Nanos::ZERO, Cost::new(10))?.is_allow(), "each has its own");
///
/// let alice = tenants.resolve("alice")?;
/// assert!(!alice.take(Nanos::ZERO, Cost::ONE).is_allow());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LimiterRegistry {
    /// Each twice as large as the one before; all names are in the newest.
    tables: [OnceLock<LimiterTable>; TABLES],
    /// The newest table. Only a hint: a missed name is looked up again under the lock.
    newest: AtomicUsize,
    names: AtomicUsize,
    /// Held while a name is added.
    growing: Mutex<()>,
    max_names: usize,
    hasher: RandomState,
    make: Box<dyn Fn(&str) -> SharedLimiter + Send + Sync>,
}

impl LimiterRegistry {
    /// Creates an empty registry of at most [`DEFAULT_MAX_NAMES`] names. It calls `make` once for each
    /// name, on first use. `make` must not add a name to this registry: it would wait for itself.
    pub fn new(make: impl Fn(&str) -> SharedLimiter + Send + Sync + 'static) -> Self {
        Self {
            tables: [const { OnceLock::new() }; TABLES],
            newest: AtomicUsize::new(0),
            names: AtomicUsize::new(0),
            growing: Mutex::new(()),
            max_names: DEFAULT_MAX_NAMES,
            hasher: RandomState::default(),
            make: Box::new(make),
        }
    }

    /// Sets the maximum number of names. Choose it by memory: a sliding limit uses 8 bytes for each of its
    /// units.
    #[must_use]
    pub fn with_max_names(mut self, names: usize) -> Self {
        self.max_names = names;
        self
    }

    /// Returns the limiter of a name, to be stored and used directly.
    ///
    /// # Errors
    /// If the name is new and the registry is full.
    pub fn resolve(&self, name: &str) -> Result<LimiterHandle, RegistryFull> {
        self.with(name, LimiterHandle::clone)
    }

    /// Takes `cost` from the limiter of a name.
    ///
    /// # Errors
    /// If the name is new and the registry is full.
    #[inline]
    pub fn take(&self, name: &str, now: Nanos, cost: Cost) -> Result<Decision<Receipt>, RegistryFull> {
        self.with(name, |handle| handle.take(now, cost))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    /// Returns true until the first name is used.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn with<T>(&self, name: &str, f: impl FnOnce(&LimiterHandle) -> T) -> Result<T, RegistryFull> {
        let hash = self.hasher.hash_one(name);
        match self.find(hash, name) {
            Some(handle) => Ok(f(handle)),
            None => self.add_name(hash, name).map(|handle| f(&handle)),
        }
    }

    #[inline]
    fn find(&self, hash: u64, name: &str) -> Option<&LimiterHandle> {
        let newest = self.tables.get(self.newest.load(Ordering::Acquire))?;
        newest.get()?.find(hash, name)
    }

    #[cold]
    fn add_name(&self, hash: u64, name: &str) -> Result<LimiterHandle, RegistryFull> {
        let _growing = self.growing.lock();
        // Another thread may have added it before this one got the lock.
        if let Some(handle) = self.find(hash, name) {
            return Ok(handle.clone());
        }
        let full = RegistryFull {
            max_names: self.max_names,
        };
        if self.len() >= self.max_names {
            return Err(full);
        }
        let handle = LimiterHandle(Arc::new(NamedLimiter {
            name: name.into(),
            limiter: (self.make)(name),
        }));
        let table = self.spacious_table().ok_or(full)?;
        table.insert(hash, handle.clone());
        self.names.fetch_add(1, Ordering::Relaxed);
        Ok(handle)
    }

    /// Returns the newest table, or its successor if it is half full. The caller holds the lock.
    fn spacious_table(&self) -> Option<&LimiterTable> {
        let newest = self.newest.load(Ordering::Acquire);
        let table = self.tables.get(newest)?.get_or_init(LimiterTable::first);
        if table.has_space_for(self.len() + 1) {
            return Some(table);
        }
        let larger = self.tables.get(newest + 1)?.get_or_init(|| table.doubled());
        self.newest.store(newest + 1, Ordering::Release);
        Some(larger)
    }
}

impl fmt::Debug for LimiterRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterRegistry")
            .field("names", &self.len())
            .field("max_names", &self.max_names)
            .finish_non_exhaustive()
    }
}

/// A limiter and its name. Clones share it.
#[derive(Clone, Debug)]
pub struct LimiterHandle(Arc<NamedLimiter>);

impl LimiterHandle {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl Deref for LimiterHandle {
    type Target = SharedLimiter;

    fn deref(&self) -> &SharedLimiter {
        &self.0.limiter
    }
}

/// Name and limiter next to each other: one is read right after the other.
#[derive(Debug)]
struct NamedLimiter {
    name: SmolStr,
    limiter: SharedLimiter,
}

/// Error for a new name beyond the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegistryFull {
    max_names: usize,
}

impl fmt::Display for RegistryFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the registry is full with {} names: raise the maximum, or let names share a limiter",
            self.max_names
        )
    }
}

impl std::error::Error for RegistryFull {}

/// More doublings than any memory allows.
const TABLES: usize = 40;

/// More tenants than one process usually serves; a million limits of 10/s use 250 MB.
pub const DEFAULT_MAX_NAMES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn ten_per_second() -> SharedLimiter {
        SharedLimiter::sliding("10/s".parse().expect("valid")).expect("small")
    }

    // Eight threads race for each of 100 new names: a second limiter would allow more than ten.
    #[test]
    fn concurrent_first_use_creates_one_limiter() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let registry = LimiterRegistry::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            ten_per_second()
        });
        for round in 0..100 {
            let name = format!("tenant {round}");
            assert_eq!(allowed_by_eight_threads(&registry, &name), 10, "{name}");
        }
        assert_eq!(made.load(Ordering::Relaxed), 100);
        assert_eq!(registry.len(), 100);
    }

    fn allowed_by_eight_threads(registry: &LimiterRegistry, name: &str) -> usize {
        let barrier = Barrier::new(8);
        let take_five = || {
            barrier.wait();
            let take = |_: &i32| registry.take(name, Nanos::ZERO, Cost::ONE).expect("not full");
            (0..5).filter(|n| take(n).is_allow()).count()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take_five)).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).sum()
        })
    }

    #[test]
    fn a_name_beyond_the_bound_is_refused_and_the_known_ones_stay() {
        let registry = LimiterRegistry::new(|_| ten_per_second()).with_max_names(2);
        registry.resolve("a").expect("not full");
        registry.resolve("b").expect("not full");
        assert_eq!(registry.resolve("c").map(drop), Err(RegistryFull { max_names: 2 }));
        assert!(registry.resolve("a").is_ok(), "a known name needs no space");
        assert_eq!(registry.len(), 2);
    }

    // Eight threads add 400 names to a registry of 100.
    #[test]
    fn the_bound_holds_for_concurrent_names() {
        let registry = LimiterRegistry::new(|_| ten_per_second()).with_max_names(100);
        let fifty_names = |thread: usize| {
            let known = |n: &usize| registry.resolve(&format!("{thread}/{n}")).is_ok();
            (0..50).filter(known).count()
        };
        let known: usize = std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || fifty_names(thread));
            let threads: Vec<_> = (0..8).map(spawn).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).sum()
        });
        assert_eq!((known, registry.len()), (100, 100));
    }

    // A thousand names exceed the first table four times.
    #[test]
    fn growing_keeps_every_limiter() {
        let registry = LimiterRegistry::new(|_| ten_per_second());
        let handles: Vec<_> = (0..1_000)
            .map(|n| registry.resolve(&format!("tenant {n}")).expect("not full"))
            .collect();
        for (n, handle) in handles.iter().enumerate() {
            let name = format!("tenant {n}");
            assert!(handle.take(Nanos::ZERO, Cost::new(10)).is_allow(), "{name}");
            let again = registry.take(&name, Nanos::ZERO, Cost::ONE).expect("not full");
            assert!(!again.is_allow(), "{name} got a second limiter");
            assert_eq!(handle.name(), name);
        }
        assert_eq!(registry.len(), 1_000);
    }

    #[test]
    fn a_handle_and_its_name_share_one_limit() {
        let registry = LimiterRegistry::new(|_| ten_per_second());
        let handle = registry.resolve("shared").expect("not full");
        assert!(handle.take(Nanos::ZERO, Cost::new(10)).is_allow());
        let by_name = registry.take("shared", Nanos::ZERO, Cost::ONE).expect("not full");
        assert_eq!(by_name, Decision::WaitUntil(Nanos::from_secs(1)));
    }

    #[test]
    fn each_name_gets_its_own_limit() {
        let registry = LimiterRegistry::new(|name| match name {
            "small" => SharedLimiter::sliding("1/s".parse().expect("valid")).expect("small"),
            _ => ten_per_second(),
        });
        let remaining = |name| registry.resolve(name).expect("not full").remaining(Nanos::ZERO);
        assert_eq!((remaining("small"), remaining("large")), (1, 10));
    }
}
