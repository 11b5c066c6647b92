//! Counters of background tasks.
//!
//! Tasks are not configured, so their names are unknown in advance: the first [`MAX_TASKS`] names
//! get counters of their own, and the rest share one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::OTHER;
use crate::event::TaskState;

/// Counters of all tasks.
#[derive(Debug)]
pub(super) struct TaskCells {
    named: [OnceLock<TaskCounters>; MAX_TASKS],
    rest: TaskCounters,
}

/// Counters of one task.
#[derive(Debug)]
pub(super) struct TaskCounters {
    pub(super) name: &'static str,
    restarts: AtomicU64,
    running: AtomicU32,
}

impl TaskCells {
    pub(super) fn count(&self, name: &'static str, state: TaskState) {
        let task = self.named.iter().find_map(|slot| {
            let task = slot.get_or_init(|| TaskCounters::new(name));
            (task.name == name).then_some(task)
        });
        task.unwrap_or(&self.rest).count(state);
    }

    /// Returns the tasks seen so far.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TaskCounters> {
        let rest = Some(&self.rest).filter(|rest| rest.restarts() > 0);
        self.named.iter().filter_map(OnceLock::get).chain(rest)
    }
}

impl Default for TaskCells {
    fn default() -> Self {
        Self {
            named: [const { OnceLock::new() }; MAX_TASKS],
            rest: TaskCounters::new(OTHER),
        }
    }
}

impl TaskCounters {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            restarts: AtomicU64::new(0),
            running: AtomicU32::new(0),
        }
    }

    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(super) fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    fn count(&self, state: TaskState) {
        if let TaskState::Restarting { .. } = state {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
        let running = u32::from(state == TaskState::Running);
        self.running.store(running, Ordering::Relaxed);
    }
}

/// A process has a handful of tasks; more than 32 is a bug that must not fill the page.
const MAX_TASKS: usize = 32;
