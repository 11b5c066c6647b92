//! A limiter per name, made on first use.
//!
//! Groups and tenants are known by name, and their names are found out as requests come. Looking a
//! known name up takes no lock: names are never removed, so the table is made of slots that are
//! filled once, and a full table is followed by one twice as large. (Taking and releasing a lock that
//! readers share costs about 20 ns even if nobody else wants it.) Whoever asks often
//! [resolves](Registry::resolve) a name once and keeps the [`LimiterHandle`]: it then pays not even the hash.
//!
//! It never grows past its bound and never forgets: a name beyond the bound is answered with
//! [`RegistryFull`], because to drop a limiter that still counts would let its next request through too
//! early.

mod table;

use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::quality::RandomState;
use outflow_core::{Cost, Decision, Nanos, Receipt, SharedLimiter};
use smol_str::SmolStr;

use table::LimiterTable;

/// Limiters by name.
///
/// ```
/// use outflow::Registry;
/// use outflow::core::{Cost, Limiter, Nanos, Rate};
///
/// let rate: Rate = "10/s".parse()?;
/// Limiter::sliding(rate)?;
/// let tenants = Registry::new(move |_| Limiter::sliding(rate).expect("tried above"));
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
    /// The newest table. Only a hint: who misses a name looks again where no table can be added.
    newest: AtomicUsize,
    names: AtomicUsize,
    /// Held by whoever brings a new name.
    growing: Mutex<()>,
    most: usize,
    hasher: RandomState,
    make: Box<dyn Fn(&str) -> SharedLimiter + Send + Sync>,
}

impl LimiterRegistry {
    /// An empty registry of at most [`DEFAULT_MOST_NAMES`]. `make` is called once for each name, at
    /// its first use, and must not ask this registry for a new name: it would wait for itself.
    pub fn new(make: impl Fn(&str) -> SharedLimiter + Send + Sync + 'static) -> Self {
        Self {
            tables: [const { OnceLock::new() }; TABLES],
            newest: AtomicUsize::new(0),
            names: AtomicUsize::new(0),
            growing: Mutex::new(()),
            most: DEFAULT_MOST_NAMES,
            hasher: RandomState::default(),
            make: Box::new(make),
        }
    }

    /// The same registry with another bound. Choose what memory allows: a sliding limit keeps 8
    /// bytes for each of its units.
    #[must_use]
    pub fn holding_at_most(mut self, names: usize) -> Self {
        self.most = names;
        self
    }

    /// The limiter of that name, to be kept and asked directly.
    ///
    /// # Errors
    /// If the name is new and the registry holds as many as it may.
    pub fn resolve(&self, name: &str) -> Result<LimiterHandle, RegistryFull> {
        self.with(name, LimiterHandle::clone)
    }

    /// Takes `cost` from the limiter of that name.
    ///
    /// # Errors
    /// If the name is new and the registry holds as many as it may.
    #[inline]
    pub fn take(
        &self,
        name: &str,
        now: Nanos,
        cost: Cost,
    ) -> Result<Decision<Receipt>, RegistryFull> {
        self.with(name, |handle| handle.take(now, cost))
    }

    /// How many names it holds.
    pub fn len(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    /// True until the first name is used.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn with<T>(&self, name: &str, f: impl FnOnce(&LimiterHandle) -> T) -> Result<T, RegistryFull> {
        let hash = self.hasher.hash_one(name);
        match self.find(hash, name) {
            Some(handle) => Ok(f(handle)),
            None => self.first_use(hash, name).map(|handle| f(&handle)),
        }
    }

    #[inline]
    fn find(&self, hash: u64, name: &str) -> Option<&LimiterHandle> {
        let newest = self.tables.get(self.newest.load(Ordering::Acquire))?;
        newest.get()?.find(hash, name)
    }

    #[cold]
    fn first_use(&self, hash: u64, name: &str) -> Result<LimiterHandle, RegistryFull> {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first while nobody held the lock.
        if let Some(handle) = self.find(hash, name) {
            return Ok(handle.clone());
        }
        let full = RegistryFull { most: self.most };
        if self.len() >= self.most {
            return Err(full);
        }
        let handle = LimiterHandle(Arc::new(NamedLimiter {
            name: name.into(),
            limiter: (self.make)(name),
        }));
        let table = self.table_with_room().ok_or(full)?;
        table.insert(hash, handle.clone());
        self.names.fetch_add(1, Ordering::Relaxed);
        Ok(handle)
    }

    /// The newest table, or its successor if it is half full. Called with the lock held.
    fn table_with_room(&self) -> Option<&LimiterTable> {
        let newest = self.newest.load(Ordering::Acquire);
        let table = self.tables.get(newest)?.get_or_init(LimiterTable::first);
        if table.has_room_for(self.len() + 1) {
            return Some(table);
        }
        let larger = self.tables.get(newest + 1)?.get_or_init(|| table.doubled());
        self.newest.store(newest + 1, Ordering::Release);
        Some(larger)
    }
}

impl fmt::Debug for LimiterRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("names", &self.len())
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// A limiter that was looked up. Clones share it.
#[derive(Clone, Debug)]
pub struct LimiterHandle(Arc<NamedLimiter>);

impl LimiterHandle {
    /// The name it was looked up by.
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

/// Name and limiter side by side: one is read right after the other.
#[derive(Debug)]
struct NamedLimiter {
    name: SmolStr,
    limiter: SharedLimiter,
}

/// A new name that finds no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegistryFull {
    most: usize,
}

impl fmt::Display for RegistryFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no room for another name beside {}: allow more, or let several share one",
            self.most
        )
    }
}

impl std::error::Error for RegistryFull {}

/// More doublings than any memory allows.
const TABLES: usize = 40;

/// About as many tenants as one process serves; a million limits of 10/s weigh 250 MB.
pub const DEFAULT_MOST_NAMES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn ten_per_second() -> SharedLimiter {
        SharedLimiter::sliding("10/s".parse().expect("valid")).expect("small")
    }

    // Eight threads meet at each of 100 new names: more than one limiter would let more than ten pass.
    #[test]
    fn concurrent_first_use_makes_one_limiter() {
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
            let take = |_: &i32| registry.take(name, Nanos::ZERO, Cost::ONE).expect("room");
            (0..5).filter(|n| take(n).is_allow()).count()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take_five)).collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .sum()
        })
    }

    #[test]
    fn a_name_beyond_the_bound_is_refused_and_the_known_ones_stay() {
        let registry = LimiterRegistry::new(|_| ten_per_second()).holding_at_most(2);
        registry.resolve("a").expect("room");
        registry.resolve("b").expect("room");
        assert_eq!(
            registry.resolve("c").map(drop),
            Err(RegistryFull { most: 2 })
        );
        assert!(registry.resolve("a").is_ok(), "a known name needs no room");
        assert_eq!(registry.len(), 2);
    }

    // Eight threads bring 400 names to 100 places: the bound holds across shards.
    #[test]
    fn the_bound_holds_when_many_names_come_at_once() {
        let registry = LimiterRegistry::new(|_| ten_per_second()).holding_at_most(100);
        let fifty_names = |thread: usize| {
            let known = |n: &usize| registry.resolve(&format!("{thread}/{n}")).is_ok();
            (0..50).filter(known).count()
        };
        let known: usize = std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || fifty_names(thread));
            let threads: Vec<_> = (0..8).map(spawn).collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .sum()
        });
        assert_eq!((known, registry.len()), (100, 100));
    }

    // A thousand names outgrow the first table four times.
    #[test]
    fn growing_keeps_every_limiter() {
        let registry = LimiterRegistry::new(|_| ten_per_second());
        let handles: Vec<_> = (0..1_000)
            .map(|n| registry.resolve(&format!("tenant {n}")).expect("room"))
            .collect();
        for (n, handle) in handles.iter().enumerate() {
            let name = format!("tenant {n}");
            assert!(handle.take(Nanos::ZERO, Cost::new(10)).is_allow(), "{name}");
            let again = registry.take(&name, Nanos::ZERO, Cost::ONE).expect("room");
            assert!(!again.is_allow(), "{name} got a second limiter");
            assert_eq!(handle.name(), name);
        }
        assert_eq!(registry.len(), 1_000);
    }

    #[test]
    fn a_handle_and_its_name_share_one_limit() {
        let registry = LimiterRegistry::new(|_| ten_per_second());
        let handle = registry.resolve("shared").expect("room");
        assert!(handle.take(Nanos::ZERO, Cost::new(10)).is_allow());
        let by_name = registry
            .take("shared", Nanos::ZERO, Cost::ONE)
            .expect("room");
        assert_eq!(by_name, Decision::WaitUntil(Nanos::from_secs(1)));
    }

    #[test]
    fn names_make_their_own_limits() {
        let registry = LimiterRegistry::new(|name| match name {
            "small" => SharedLimiter::sliding("1/s".parse().expect("valid")).expect("small"),
            _ => ten_per_second(),
        });
        let remaining = |name| registry.resolve(name).expect("room").remaining(Nanos::ZERO);
        assert_eq!((remaining("small"), remaining("large")), (1, 10));
    }
}
