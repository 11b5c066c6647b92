//! Registry of all tasks and their states.
//!
//! Each task holds a [`TaskSlot`] and releases it by drop, so that every end is seen: a return, an
//! abort, or the end of the runtime. The lock guards only the table. It is never held while
//! observers run or a task is aborted or dropped, since these may call back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Thread;

use outflow_core::{Clock, Nanos};
use outflow_sync::Mutex;
use smol_str::SmolStr;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::CancelToken;
use super::supervision::catch_panic;
use crate::event::{Event, EventKind, Events, TaskState};

/// Report of one background task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskReport {
    /// Name.
    pub name: &'static str,
    /// State.
    pub state: TaskState,
    /// Number of restarts.
    pub restarts: u32,
    /// Start of this state.
    pub since: Nanos,
}

/// Kind of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskKind {
    /// Should not end, so the report shows its end until a task of this name starts.
    Lasting,
    /// Ends by design; there may be millions.
    Once,
}

/// Table of all tasks.
pub(super) struct TaskRegistry {
    api: SmolStr,
    events: Events,
    clock: Arc<dyn Clock + Send + Sync>,
    table: Mutex<TaskTable>,
    cancel: CancelToken,
    /// Number of running tasks.
    alive: watch::Sender<usize>,
}

#[derive(Default)]
struct TaskTable {
    next: u64,
    rows: BTreeMap<u64, TaskRow>,
    stage: RegistryStage,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum RegistryStage {
    #[default]
    Open,
    /// Nothing new is admitted.
    Stopping,
    /// Tasks admitted just before are aborted as soon as possible.
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
        Self {
            api,
            events,
            clock,
            table: Mutex::default(),
            cancel: CancelToken::new(),
            alive: watch::channel(0).0,
        }
    }

    /// Adds a task, unless a shutdown has started.
    pub(super) fn add(registry: &Arc<Self>, name: &'static str, kind: TaskKind) -> Option<TaskSlot> {
        let id = registry.insert(name, kind)?;
        registry.emit(name, TaskState::Running);
        let registry = Arc::clone(registry);
        Some(TaskSlot(SlotHandle { registry, id }))
    }

    pub(super) fn cancel_token(&self) -> CancelToken {
        self.cancel.child_token()
    }

    pub(super) fn report(&self) -> Vec<TaskReport> {
        self.table.lock().rows.values().map(|row| row.report).collect()
    }

    /// Cancels all tasks and wakes parked threads.
    pub(super) fn cancel_all(&self) {
        let threads: Vec<_> = {
            let mut table = self.table.lock();
            table.stage = table.stage.max(RegistryStage::Stopping);
            let rows = table.rows.values();
            rows.filter_map(|row| row.thread.clone()).collect()
        };
        self.cancel.cancel();
        threads.iter().for_each(Thread::unpark);
    }

    /// Waits until all tasks have ended.
    pub(super) async fn wait_empty(&self) {
        let mut alive = self.alive.subscribe();
        // The sender is a field, so it outlives the wait.
        let _never_gone = alive.wait_for(|alive| *alive == 0).await;
    }

    /// Aborts all running tasks and returns their names.
    pub(super) fn abort_all(&self) -> Vec<&'static str> {
        let (names, handles): (Vec<_>, Vec<_>) = {
            let mut table = self.table.lock();
            table.stage = RegistryStage::Aborting;
            let alive = table.rows.values_mut().filter(|row| row.is_alive());
            alive.map(|row| (row.report.name, row.abort.take())).unzip()
        };
        handles.iter().flatten().for_each(AbortHandle::abort);
        names
    }

    fn insert(&self, name: &'static str, kind: TaskKind) -> Option<u64> {
        let since = self.clock.now();
        let mut table = self.table.lock();
        if table.stage != RegistryStage::Open {
            return None;
        }
        let id = table.next;
        table.next += 1;
        table.rows.retain(|_, row| row.is_alive() || row.report.name != name);
        table.rows.insert(id, TaskRow::new(name, kind, since));
        self.alive.send_modify(|alive| *alive += 1);
        Some(id)
    }

    fn set_state(&self, id: u64, state: TaskState) {
        let since = self.clock.now();
        let name = {
            let mut table = self.table.lock();
            let Some(row) = table.rows.get_mut(&id) else {
                return;
            };
            row.report.set_state(state, since);
            row.report.name
        };
        self.emit(name, state);
    }

    fn remove(&self, id: u64) {
        self.set_state(id, TaskState::Ended);
        {
            let mut table = self.table.lock();
            if let Some(row) = table.rows.get_mut(&id) {
                (row.abort, row.thread) = (None, None);
                if row.kind == TaskKind::Once {
                    table.rows.remove(&id);
                }
            }
        }
        self.alive.send_modify(|alive| *alive -= 1);
    }

    /// Emits a state change. A panic of an observer must not end its task.
    fn emit(&self, name: &'static str, state: TaskState) {
        catch_panic(|| {
            self.events.emit(|| Event {
                api: self.api.clone(),
                at: self.clock.now(),
                trace: crate::trace::TraceId::NONE,
                what: EventKind::Task { name, state },
            });
        });
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
    fn set_state(&mut self, state: TaskState, since: Nanos) {
        if let TaskState::Restarting { restarts, .. } = state {
            self.restarts = restarts;
        }
        (self.state, self.since) = (state, since);
    }
}

/// Entry of one task, removed on drop.
pub(super) struct TaskSlot(SlotHandle);

impl TaskSlot {
    pub(super) fn cancel_token(&self) -> CancelToken {
        self.0.registry.cancel_token()
    }

    pub(super) fn handle(&self) -> SlotHandle {
        self.0.clone()
    }

    pub(super) fn set_state(&self, state: TaskState) {
        self.0.registry.set_state(self.0.id, state);
    }
}

impl Drop for TaskSlot {
    fn drop(&mut self) {
        self.0.registry.remove(self.0.id);
    }
}

/// Reference to a slot, without its lifetime.
#[derive(Clone)]
pub(super) struct SlotHandle {
    registry: Arc<TaskRegistry>,
    id: u64,
}

impl SlotHandle {
    /// Stores the abort handle, or aborts if that was requested in the meantime.
    pub(super) fn set_abort(&self, handle: AbortHandle) {
        let handle = {
            let mut table = self.registry.table.lock();
            let is_aborting = table.stage == RegistryStage::Aborting;
            match table.rows.get_mut(&self.id) {
                Some(row) if row.is_alive() && !is_aborting => {
                    row.abort = Some(handle);
                    return;
                }
                _ => handle,
            }
        };
        handle.abort();
    }

    /// Stores the thread to wake on cancellation.
    pub(super) fn set_thread(&self, thread: Thread) {
        if let Some(row) = self.registry.table.lock().rows.get_mut(&self.id) {
            row.thread = Some(thread);
        }
    }
}
