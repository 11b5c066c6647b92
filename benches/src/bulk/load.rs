//! Other load on the host during a run.
//!
//! Threads that only compute, one for each core, at the contender's priority: it finds the cores busy at any
//! instant. Memory and disk are not loaded.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use crate::tasks;

/// The load, until this is dropped.
pub(super) struct Load {
    over: Arc<AtomicBool>,
}

impl Load {
    /// Starts a thread for each core.
    ///
    /// # Errors
    /// If the system cannot start a thread, or does not report the number of cores.
    pub(super) fn on_every_core() -> io::Result<Self> {
        let load = Self {
            over: Arc::new(AtomicBool::new(false)),
        };
        for _ in 0..available_parallelism()?.get() {
            let over = Arc::clone(&load.over);
            tasks::spawn_thread("load", move || compute(&over))?;
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

/// Microseconds of work between two checks for the end.
const A_FEW: u32 = 1_024;
