//! A limiter per name, made on first use.
//!
//! Groups and tenants are known by name, and their names are found out as requests come. The names
//! are spread over shards, each a hash table behind a lock that readers share; a name is hashed once
//! for both. Whoever asks often [resolves](Registry::resolve) a name once and keeps the
//! [`Handle`]: it then pays neither the hash nor the lock.
//!
//! It never grows past its bound and never forgets: a name beyond the bound is answered with
//! [`Full`], because to drop a limiter that still counts would let its next request through too
//! early.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use outflow_core::{Cost, Decision, Limiter, Nanos, Receipt};
use std::hash::BuildHasher;

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
pub struct Registry {
    shards: Box<[Shard]>,
    hasher: RandomState,
    names: AtomicUsize,
    most: usize,
    make: Box<dyn Fn(&str) -> Limiter + Send + Sync>,
}

impl Registry {
    /// An empty registry of at most [`DEFAULT_MOST_NAMES`]. `make` is called once for each name, at
    /// its first use, and must not ask this registry for anything: it would wait for itself.
    pub fn new(make: impl Fn(&str) -> Limiter + Send + Sync + 'static) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: RandomState::default(),
            names: AtomicUsize::new(0),
            most: DEFAULT_MOST_NAMES,
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
    pub fn resolve(&self, name: &str) -> Result<Handle, Full> {
        self.with(name, Handle::clone)
    }

    /// Takes `cost` from the limiter of that name.
    ///
    /// # Errors
    /// If the name is new and the registry holds as many as it may.
    #[inline]
    pub fn take(&self, name: &str, now: Nanos, cost: Cost) -> Result<Decision<Receipt>, Full> {
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
    fn with<T>(&self, name: &str, f: impl Fn(&Handle) -> T) -> Result<T, Full> {
        let hash = self.hasher.hash_one(name);
        let shard = self.shard(hash)?;
        let table = shard.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = table.find(hash, |entry| *entry.name == *name) {
            return Ok(f(&entry.handle));
        }
        drop(table);
        self.first_use(shard, hash, name).map(|handle| f(&handle))
    }

    #[cold]
    fn first_use(&self, shard: &Shard, hash: u64, name: &str) -> Result<Handle, Full> {
        let mut table = shard.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first while nobody held the lock.
        if let Some(entry) = table.find(hash, |entry| *entry.name == *name) {
            return Ok(entry.handle.clone());
        }
        if self.len() >= self.most {
            return Err(self.full());
        }
        // Made before it is counted: if making it panics, no place is lost.
        let handle = Handle(Arc::new((self.make)(name)));
        self.count_one_more()?;
        let entry = Entry {
            name: name.into(),
            handle: handle.clone(),
        };
        table.insert_unique(hash, entry, |entry| self.hasher.hash_one(&*entry.name));
        Ok(handle)
    }

    /// Counts a name unless other shards filled the last place meanwhile.
    fn count_one_more(&self) -> Result<usize, Full> {
        let more = |names| (names < self.most).then_some(names + 1);
        self.names
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| self.full())
    }

    fn full(&self) -> Full {
        Full { most: self.most }
    }

    /// The table itself uses the lowest and the highest bits; the shard takes some from between.
    fn shard(&self, hash: u64) -> Result<&Shard, Full> {
        let place = usize::try_from(hash >> 40).unwrap_or(0) % SHARDS;
        self.shards.get(place).ok_or_else(|| self.full())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("names", &self.len())
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// A limiter that was looked up. Clones share it.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Limiter>);

impl Deref for Handle {
    type Target = Limiter;

    fn deref(&self) -> &Limiter {
        &self.0
    }
}

/// A new name that finds no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    most: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no room for another name beside {}: allow more, or let several share one",
            self.most
        )
    }
}

impl std::error::Error for Full {}

/// Each on its own cache lines, so that readers of one do not disturb the next.
#[derive(Default)]
#[repr(align(128))]
struct Shard(RwLock<HashTable<Entry>>);

struct Entry {
    name: Box<str>,
    handle: Handle,
}

/// Several for each core of a large machine: two threads rarely meet in one.
const SHARDS: usize = 256;

/// About as many tenants as one process serves; a million limits of 10/s weigh 250 MB.
pub const DEFAULT_MOST_NAMES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn ten_per_second() -> Limiter {
        Limiter::sliding("10/s".parse().expect("valid")).expect("small")
    }

    // Eight threads meet at each of 100 new names: more than one limiter would let more than ten pass.
    #[test]
    fn concurrent_first_use_makes_one_limiter() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let registry = Registry::new(move |_| {
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

    fn allowed_by_eight_threads(registry: &Registry, name: &str) -> usize {
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
        let registry = Registry::new(|_| ten_per_second()).holding_at_most(2);
        registry.resolve("a").expect("room");
        registry.resolve("b").expect("room");
        assert_eq!(registry.resolve("c").map(drop), Err(Full { most: 2 }));
        assert!(registry.resolve("a").is_ok(), "a known name needs no room");
        assert_eq!(registry.len(), 2);
    }

    // Eight threads bring 400 names to 100 places: the bound holds across shards.
    #[test]
    fn the_bound_holds_when_many_names_come_at_once() {
        let registry = Registry::new(|_| ten_per_second()).holding_at_most(100);
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

    #[test]
    fn a_handle_and_its_name_share_one_limit() {
        let registry = Registry::new(|_| ten_per_second());
        let handle = registry.resolve("shared").expect("room");
        assert!(handle.take(Nanos::ZERO, Cost::new(10)).is_allow());
        let by_name = registry
            .take("shared", Nanos::ZERO, Cost::ONE)
            .expect("room");
        assert_eq!(by_name, Decision::WaitUntil(Nanos::from_secs(1)));
    }

    #[test]
    fn names_make_their_own_limits() {
        let registry = Registry::new(|name| match name {
            "small" => Limiter::sliding("1/s".parse().expect("valid")).expect("small"),
            _ => ten_per_second(),
        });
        let remaining = |name| registry.resolve(name).expect("room").remaining(Nanos::ZERO);
        assert_eq!((remaining("small"), remaining("large")), (1, 10));
    }
}
