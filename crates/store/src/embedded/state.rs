//! State of the embedded store in memory: order, claims and counts.
//!
//! The state lives under one lock; the disk has the same data in a form that is small to write. Every
//! change is recorded in [`WriteLog`], in the order in which it happens. Each table owns the data that
//! changes together. The operations of [`ops`](super::ops) change several tables in one step.

pub(crate) mod action;
pub(crate) mod claims;
pub(crate) mod class_queue;
pub(crate) mod delayed;
pub(crate) mod id_allocator;
pub(crate) mod id_ranges;
pub(crate) mod job_entry;
pub(crate) mod lane;
pub(crate) mod named_table;
pub(crate) mod priority_classes;
pub(crate) mod tenant;
pub(crate) mod write_log;

use outflow_core::Priority;
use rusqlite::Connection;

use super::disk::write_op::WriteOp;
use super::ops::poison_isolation::IsolationDrain;
use crate::action::JobCounts;
use crate::name::Name;
use crate::tenant::TenantRule;
use action::ActionEntry;
use claims::ClaimTable;
use delayed::DelayedJobs;
use id_allocator::IdAllocator;
use id_ranges::OpenRuns;
use job_entry::JobPosition;
use lane::{LaneTable, fair_weight};
use named_table::NamedTable;
use tenant::TenantState;
use write_log::WriteLog;

/// The state under the store's lock.
#[derive(Debug)]
pub(crate) struct StoreState {
    /// Reads rows that are not in memory. Callers wait meanwhile, which is shorter than a handover.
    pub(crate) reader: Connection,
    pub(crate) lanes: LaneTable,
    pub(crate) tenants: NamedTable<TenantState>,
    /// The rule of tenants without their own.
    pub(crate) default_rule: TenantRule,
    /// The number of tenants that have work.
    pub(crate) active_tenants: u64,
    /// The interval of the last congestion samples.
    pub(crate) sampled: Option<u128>,
    pub(crate) actions: NamedTable<ActionEntry>,
    pub(crate) claims: ClaimTable,
    pub(crate) delayed: DelayedJobs,
    pub(crate) runs: OpenRuns,
    pub(crate) ids: IdAllocator,
    pub(crate) log: WriteLog,
    /// Counts of all jobs.
    pub(crate) counts: JobCounts,
    /// Lanes wait until this job can run alone.
    pub(crate) drain: Option<IsolationDrain>,
    /// Bytes of the payloads in memory.
    pub(crate) payload_bytes: usize,
    /// A claim may now find a job that it did not find before.
    pub(crate) has_news: bool,
    pub(crate) phase: StorePhase,
}

/// Life of the state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum StorePhase {
    Open,
    /// The disk failed and the state may be ahead of it: it must be loaded again.
    OutOfSync,
    Closed,
}

impl StoreState {
    pub(crate) fn new(reader: Connection) -> Self {
        Self {
            reader,
            lanes: LaneTable::default(),
            tenants: NamedTable::new(),
            default_rule: TenantRule::default(),
            active_tenants: 0,
            sampled: None,
            actions: NamedTable::new(),
            claims: ClaimTable::default(),
            delayed: DelayedJobs::default(),
            runs: OpenRuns::default(),
            ids: IdAllocator::default(),
            log: WriteLog::default(),
            counts: JobCounts::default(),
            drain: None,
            payload_bytes: 0,
            has_news: false,
            phase: StorePhase::Open,
        }
    }

    /// Returns the id of a lane, and adds an unknown lane.
    pub(crate) fn lane_id(&mut self, name: &Name) -> u32 {
        self.lanes.find(name).unwrap_or_else(|| {
            let id = self.ids.next_id();
            self.lanes.insert(id, name.clone());
            self.log.record(WriteOp::Lane(id, name.clone()));
            id
        })
    }

    /// Returns the id of a tenant, and adds an unknown tenant.
    pub(crate) fn tenant_id(&mut self, name: &Name) -> u32 {
        self.tenants.find(name).unwrap_or_else(|| {
            let id = self.ids.next_id();
            let tenant = TenantState::new(name.clone(), self.default_rule);
            self.tenants.insert(id, tenant);
            self.log.record(WriteOp::Tenant(id, name.clone()));
            id
        })
    }

    /// Returns the queue of a class of a tenant in a lane, and adds a missing queue.
    pub(crate) fn position(&mut self, lane: u32, tenant: u32, class: Priority) -> JobPosition {
        let known = self.lanes.tenant(lane, tenant);
        let mut position = JobPosition {
            queue: known.map_or(0, |known| known.queues.get(class).id),
            lane,
            tenant,
            class,
        };
        if position.queue == 0 {
            position.queue = self.ids.next_id();
            self.add_queue(position);
            self.log.record(WriteOp::Queue(position));
        }
        position
    }

    /// Adds a queue, and its tenant to its lane.
    pub(crate) fn add_queue(&mut self, position: JobPosition) {
        let tenant = self.tenants.get_mut(position.tenant);
        self.lanes.add_queue(position, tenant);
        self.update_hold(position.tenant);
    }

    /// Pauses or resumes a tenant in the order of all its lanes, as its state demands.
    pub(crate) fn update_hold(&mut self, tenant: u32) {
        let Some(state) = self.tenants.get(tenant) else {
            return;
        };
        let held = state.is_held();
        for id in &state.lanes {
            let Some(lane) = self.lanes.get_mut(*id) else {
                continue;
            };
            let Some(member) = lane.tenants.get(&tenant) else {
                continue;
            };
            if held {
                lane.order.pause(member.handle);
            } else {
                lane.order.resume(member.handle);
                self.has_news = true;
            }
        }
    }

    /// Updates a tenant's place in the order of a lane after a change of its queues.
    pub(crate) fn update_order(&mut self, lane: u32, tenant: u32) {
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        let Some(member) = lane.tenants.get_mut(&tenant) else {
            return;
        };
        let Some(best) = member.best_waiting() else {
            lane.order.set_idle(member.handle);
            return;
        };
        if best != member.best
            && let Some(tenant) = self.tenants.get(tenant)
        {
            member.best = best;
            let weight = fair_weight(&tenant.rule);
            lane.order.reweight(member.handle, weight, best);
        }
        lane.order.enter(member.handle);
    }
}
