//! A one-byte lock for state that is made of atomics.
//!
//! What it guards can be read without it, racily and safely; whoever changes it holds the flag. It
//! is held for a few instructions, so waiting threads spin; a thread that spins for long calls the
//! `pause` it was given, because the holder has then lost its processor.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Flag {
    held: AtomicBool,
    pause: fn(),
}

impl Default for Flag {
    fn default() -> Self {
        Self::pausing_with(spin)
    }
}

impl Flag {
    pub(crate) fn pausing_with(pause: fn()) -> Self {
        Self {
            held: AtomicBool::new(false),
            pause,
        }
    }

    /// Runs `f` while no other thread runs one under this flag.
    #[inline]
    pub(crate) fn with<T>(&self, f: impl FnOnce() -> T) -> T {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        // Lowered on the way out, even if `f` should panic.
        let _lowered = Lower(&self.held);
        f()
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0_u32;
        loop {
            // Reading before writing leaves the cache line to its holder.
            while self.held.load(Ordering::Relaxed) {
                spins = spins.saturating_add(1);
                if spins < SPINS {
                    spin()
                } else {
                    (self.pause)()
                }
            }
            if !self.held.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

struct Lower<'a>(&'a AtomicBool);

impl Drop for Lower<'_> {
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

/// A few microseconds: many times longer than the flag is ever held by a running thread.
const SPINS: u32 = 200;
