//! Who works, and how it goes.
//!
//! Each piece of work holds a [`TaskSlot`] on the board and gives it up by being dropped, so that an
//! end is seen however it came: a return, an abort, or a runtime that went away. The lock is held
//! for table work only, never while something is told, aborted or dropped, since any of them may
//! come back here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use outflow_core::{Clock, Nanos};
use smol_str::SmolStr;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::cancel::{self, CancelToken};
use super::supervision::caught_here;
use crate::event::{Event, EventKind, Events, TaskState};

/// How one piece of background work is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskReport {
    /// Its name.
    pub name: &'static str,
    /// What became of it.
    pub state: TaskState,
    /// How often it was started again.
    pub restarts: u32,
    /// Since when it is in this state.
    pub since: Nanos,
}

/// Whether the end of work is worth remembering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskKind {
    /// It should not end, so that it did is shown until work of the same name is started.
    Lasting,
    /// There may be millions of them.
    Once,
}

/// The table of all work.
pub(super) struct TaskRegistry {
    api: SmolStr,
    events: Events,
    clock: Arc<dyn Clock + Send + Sync>,
    table: Mutex<TaskTable>,
    tell: watch::Sender<bool>,
    stop: CancelToken,
    /// How many have not ended.
    alive: watch::Sender<usize>,
}

#[derive(Default)]
struct TaskTable {
    next: u64,
    rows: BTreeMap<u64, TaskRow>,
    gate: SpawnGate,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum SpawnGate {
    #[default]
    Open,
    /// Nothing new is let in.
    Stopping,
    /// And what was let in just before is aborted as soon as it can be.
    Aborting,
}

struct TaskRow {
    kind: TaskKind,
    report: TaskReport,
    abort: Option<AbortHandle>,
    thread: Option<Thread>,
}

impl TaskRegistry {
    pub(super) fn new(api: SmolStr, events: Events, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        let (tell, stop) = cancel::channel();
        Self {
            api,
            events,
            clock,
            table: Mutex::default(),
            tell,
            stop,
            alive: watch::channel(0).0,
        }
    }

    /// A place for new work, unless a shutdown has begun.
    pub(super) fn place(board: &Arc<Self>, name: &'static str, kind: TaskKind) -> Option<TaskSlot> {
        let id = board.enter(name, kind)?;
        board.emit(name, TaskState::Running);
        let board = Arc::clone(board);
        Some(TaskSlot(SlotHandle { board, id }))
    }

    pub(super) fn stop(&self) -> CancelToken {
        self.stop.clone()
    }

    pub(super) fn report(&self) -> Vec<TaskReport> {
        self.table().rows.values().map(|row| row.report).collect()
    }

    /// Gives the word, and wakes the threads that are parked.
    pub(super) fn cancel_all(&self) {
        let threads: Vec<_> = {
            let mut table = self.table();
            table.gate = table.gate.max(SpawnGate::Stopping);
            let rows = table.rows.values();
            rows.filter_map(|row| row.thread.clone()).collect()
        };
        self.tell.send_replace(true);
        threads.iter().for_each(Thread::unpark);
    }

    /// Waits until all work has ended.
    pub(super) async fn empty(&self) {
        let mut alive = self.alive.subscribe();
        // The sender is our own, so it is there for as long as we wait.
        let _never_gone = alive.wait_for(|alive| *alive == 0).await;
    }

    /// Aborts what has not ended, and names it.
    pub(super) fn abort_all(&self) -> Vec<&'static str> {
        let (names, handles): (Vec<_>, Vec<_>) = {
            let mut table = self.table();
            table.gate = SpawnGate::Aborting;
            let alive = table.rows.values_mut().filter(|row| row.is_alive());
            alive.map(|row| (row.report.name, row.abort.take())).unzip()
        };
        handles.iter().flatten().for_each(AbortHandle::abort);
        names
    }

    fn enter(&self, name: &'static str, kind: TaskKind) -> Option<u64> {
        let since = self.clock.now();
        let mut table = self.table();
        if table.gate != SpawnGate::Open {
            return None;
        }
        let id = table.next;
        table.next += 1;
        table
            .rows
            .retain(|_, row| row.is_alive() || row.report.name != name);
        table.rows.insert(id, TaskRow::new(name, kind, since));
        self.alive.send_modify(|alive| *alive += 1);
        Some(id)
    }

    fn turn(&self, id: u64, state: TaskState) {
        let since = self.clock.now();
        let name = {
            let mut table = self.table();
            let Some(row) = table.rows.get_mut(&id) else {
                return;
            };
            row.report.turn(state, since);
            row.report.name
        };
        self.emit(name, state);
    }

    fn leave(&self, id: u64) {
        self.turn(id, TaskState::Ended);
        {
            let mut table = self.table();
            if let Some(row) = table.rows.get_mut(&id) {
                (row.abort, row.thread) = (None, None);
                if row.kind == TaskKind::Once {
                    table.rows.remove(&id);
                }
            }
        }
        self.alive.send_modify(|alive| *alive -= 1);
    }

    /// An observer that panics must not end what it observes.
    fn emit(&self, name: &'static str, state: TaskState) {
        caught_here(|| {
            self.events.emit(|| Event {
                api: self.api.clone(),
                at: self.clock.now(),
                what: EventKind::Task { name, state },
            });
        });
    }

    fn table(&self) -> MutexGuard<'_, TaskTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskRow {
    fn new(name: &'static str, kind: TaskKind, since: Nanos) -> Self {
        let report = TaskReport {
            name,
            state: TaskState::Running,
            restarts: 0,
            since,
        };
        Self {
            kind,
            report,
            abort: None,
            thread: None,
        }
    }

    fn is_alive(&self) -> bool {
        self.report.state != TaskState::Ended
    }
}

impl TaskReport {
    fn turn(&mut self, state: TaskState, since: Nanos) {
        if let TaskState::Restarting { restarts, .. } = state {
            self.restarts = restarts;
        }
        (self.state, self.since) = (state, since);
    }
}

/// The place of one piece of work, which ends with it.
pub(super) struct TaskSlot(SlotHandle);

impl TaskSlot {
    pub(super) fn stop(&self) -> CancelToken {
        self.0.board.stop()
    }

    pub(super) fn handle(&self) -> SlotHandle {
        self.0.clone()
    }

    pub(super) fn turns(&self, state: TaskState) {
        self.0.board.turn(self.0.id, state);
    }
}

impl Drop for TaskSlot {
    fn drop(&mut self) {
        self.0.board.leave(self.0.id);
    }
}

/// Where a place is, for those who only have something to put there.
#[derive(Clone)]
pub(super) struct SlotHandle {
    board: Arc<TaskRegistry>,
    id: u64,
}

impl SlotHandle {
    /// Remembers how to abort the work, and does so if that was asked for in the meantime.
    pub(super) fn is_aborted_by(&self, handle: AbortHandle) {
        let late = {
            let mut table = self.board.table();
            let aborting = table.gate == SpawnGate::Aborting;
            match table.rows.get_mut(&self.id) {
                Some(row) if row.is_alive() && !aborting => {
                    row.abort = Some(handle);
                    return;
                }
                _ => handle,
            }
        };
        late.abort();
    }

    /// Remembers which thread to wake for the word to stop.
    pub(super) fn is_taken_by(&self, thread: Thread) {
        if let Some(row) = self.board.table().rows.get_mut(&self.id) {
            row.thread = Some(thread);
        }
    }
}
