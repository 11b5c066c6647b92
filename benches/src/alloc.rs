//! An allocator that counts held bytes, to measure the size of a log.
//!
//! It counts per thread, because other threads of the harness allocate during a measurement.

#![expect(
    unsafe_code,
    reason = "a global allocator is an unsafe trait; this one only forwards and counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocator that forwards to the system and keeps the balance.
pub(crate) struct Counting;

/// Returns the bytes that this thread allocated during `work`, less freed ones, and the result of `work`.
pub(crate) fn weigh<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = HELD.get();
    let built = work();
    (built, HELD.get() - before)
}

/// Returns the bytes that this thread holds now.
pub(crate) fn held() -> i64 {
    HELD.get()
}

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: usize, sign: i64) {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // A thread that exits has no balance left.
    let _ = HELD.try_with(|held| held.set(held.get() + sign * bytes));
}

// SAFETY: every call is forwarded unchanged to the system allocator; counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: `ptr` came from `System` with this very layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(new_size, 1);
        // SAFETY: `ptr` came from `System` with this very layout.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
