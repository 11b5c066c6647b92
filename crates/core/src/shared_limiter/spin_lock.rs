//! A one-byte lock for state that is made of atomics.
//!
//! The guarded state can be read without it, racily and safely; changes need the lock. It is held
//! for a few instructions, so waiting threads spin. A thread that spins for long calls the given
//! `pause`, because the holder has then lost its processor.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct SpinLock {
    held: AtomicBool,
    pause: fn(),
}

impl Default for SpinLock {
    fn default() -> Self {
        #[cfg(loom)]
        return Self::pausing_with(spin_unexplored);
        #[cfg(not(loom))]
        Self::pausing_with(spin)
    }
}

impl SpinLock {
    pub(crate) fn pausing_with(pause: fn()) -> Self {
        Self {
            held: AtomicBool::new(false),
            pause,
        }
    }

    /// Runs `f` under the lock.
    #[inline]
    pub(crate) fn with<T>(&self, f: impl FnOnce() -> T) -> T {
        if !self.raise() {
            self.wait();
        }
        // Released on the way out, even if `f` panics.
        let _lowered = SpinGuard(&self.held);
        f()
    }

    #[inline]
    fn raise(&self) -> bool {
        let (taken, seen) = (Ordering::Acquire, Ordering::Relaxed);
        self.held.compare_exchange(false, true, taken, seen).is_ok()
    }

    /// Backs off exponentially: the holder then takes several times while it owns the cache line,
    /// instead of losing it at each.
    #[cold]
    fn wait(&self) {
        let mut spins = FIRST_SPINS;
        loop {
            if spins <= MAX_SPINS {
                (0..spins).for_each(|_| spin());
                spins *= 2;
            } else {
                (self.pause)();
            }
            // Reading before writing leaves the cache line to its holder.
            if !self.seems_held() && self.raise() {
                return;
            }
        }
    }

    /// The model checker may keep a relaxed load stale for ever, so under it the swap decides.
    fn seems_held(&self) -> bool {
        cfg!(not(loom)) && self.held.load(Ordering::Relaxed)
    }
}

struct SpinGuard<'a>(&'a AtomicBool);

impl Drop for SpinGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(not(loom))]
fn spin() {
    core::hint::spin_loop();
}

#[cfg(loom)]
fn spin() {
    loom::thread::yield_now();
}

/// Two waiting threads could yield to each other for ever without a new state.
#[cfg(loom)]
fn spin_unexplored() {
    loom::skip_branch();
    loom::thread::yield_now();
}

/// Chosen among seven settings by short runs on one machine of two cores: retrying after a single
/// spin cost two threads 105 ns a take, this 45. With 64 the slowest in a thousand takes passed 5
/// µs. Another machine may want another number.
const FIRST_SPINS: u32 = if cfg!(loom) { 1 } else { 48 };

/// After three tries the holder has lost its processor: no running thread holds the lock so long.
const MAX_SPINS: u32 = FIRST_SPINS * 4;
