//! Other work on the host while a contender is at its own.
//!
//! Threads that only compute, one for each core, at no lower priority than the contender: whatever a
//! contender wants to do at an instant, it finds the cores taken. Nothing else is done to it; memory and disk
//! stay its own.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use crate::tasks;

/// The work, until this is dropped.
pub(super) struct Load {
    over: Arc<AtomicBool>,
}

impl Load {
    /// A thread for each core.
    ///
    /// # Errors
    /// If the system gives no thread, or does not tell how many cores there are.
    pub(super) fn on_every_core() -> io::Result<Self> {
        let load = Self {
            over: Arc::new(AtomicBool::new(false)),
        };
        for _ in 0..available_parallelism()?.get() {
            let over = Arc::clone(&load.over);
            tasks::beside("load", move || compute(&over))?;
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn compute(over: &AtomicBool) {
    let mut number = 0_u64;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..A_FEW {
            number = black_box(number.wrapping_mul(3).wrapping_add(1));
        }
    }
}

/// Microseconds of work between two looks at whether it is over.
const A_FEW: u32 = 1_024;
