//! What the embedded store knows without reading: whose turn it is, who works on what, and all counts.
//!
//! The order and the claims live here under one lock; the disk has the same in a form that is small to
//! write. Whatever changes here is told in [`StoreState::pending`], in the same order, and nothing is told
//! that did not happen. Every job is counted three times, for all, for its tenant and for its action,
//! always by the same function.

pub(crate) mod action;
pub(crate) mod claims;
pub(crate) mod class_queue;
pub(crate) mod id_ranges;
pub(crate) mod job_entry;
pub(crate) mod priority_classes;
pub(crate) mod tenant;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outflow_core::{FairQueue, Nanos, Priority, WallTime, Weight};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::disk::write_op::{WriteOp, WriteStep};
use super::ops::audit::RecountAsk;
use super::ops::poison_isolation::IsolationDrain;
use super::ops::transitions::DelayedJob;
use crate::action::JobCounts;
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::TenantRule;
use action::ActionEntry;
use claims::ClaimTable;
use class_queue::{ClassQueue, LaneTenant};
use id_ranges::OpenRuns;
use job_entry::JobPosition;
use tenant::TenantState;

/// Everything, under one lock.
#[derive(Debug)]
pub(crate) struct StoreState {
    /// Reads what is not in memory. Others wait meanwhile, which is shorter than handing it over.
    pub(crate) reader: Connection,
    pub(crate) lanes: BTreeMap<u32, LaneState>,
    pub(crate) lane_ids: HashMap<Name, u32>,
    pub(crate) tenants: HashMap<u32, TenantState>,
    pub(crate) tenant_ids: BTreeMap<Name, u32>,
    /// What a tenant is served by that has no rule of its own.
    pub(crate) usual: TenantRule,
    pub(crate) places: HashMap<u32, JobPosition>,
    pub(crate) actions: HashMap<u32, ActionEntry>,
    pub(crate) action_ids: BTreeMap<Name, u32>,
    pub(crate) claims: ClaimTable,
    /// Somebody is to go alone, and others wait for it.
    pub(crate) drain: Option<IsolationDrain>,
    pub(crate) waiting: HashMap<u64, DelayedJob>,
    /// Jobs that wait for a span to pass.
    pub(crate) due: BTreeSet<(Nanos, u64)>,
    /// Jobs that wait for a civil time.
    pub(crate) starts: BTreeSet<(WallTime, u64)>,
    pub(crate) runs: OpenRuns,
    pub(crate) total: JobCounts,
    /// How many tenants have work.
    pub(crate) active: u64,
    /// Where it was last looked for jobs that are too late: a lane, and a place in it.
    pub(crate) looked_at: (u32, usize),
    /// Bytes of payloads that are here.
    pub(crate) weight: usize,
    /// How often this store was opened.
    pub(crate) epoch: u64,
    /// What the names begin with that nobody gave.
    pub(crate) mint: String,
    /// The last job that memory heard of.
    pub(crate) last_seq: u64,
    /// The last number that was given to a lane, tenant, line or action.
    pub(crate) last_id: u32,
    pub(crate) pending: Vec<WriteStep>,
    pub(crate) waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    pub(crate) recounts: Vec<RecountAsk>,
    /// Whether anything pending must be on the disk before its answer.
    pub(crate) urgent: bool,
    /// Whether a claim may find something that it did not find before.
    pub(crate) rings: bool,
    pub(crate) phase: StorePhase,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum StorePhase {
    Open,
    /// The disk refused, and what is here may be ahead of it: it has to be read anew.
    Astray,
    Closed,
}

/// One lane: its tenants in fair order.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) name: Name,
    pub(crate) order: FairQueue,
    pub(crate) seats: HashMap<u32, LaneTenant>,
    /// Whose place in the order a slot is.
    pub(crate) slots: Vec<u32>,
    /// Nobody goes before.
    pub(crate) shut_until: Nanos,
    /// Jobs that wait or are under way.
    pub(crate) open: u64,
}

impl LaneState {
    pub(crate) fn new(name: Name) -> Self {
        Self {
            name,
            order: FairQueue::new(),
            seats: HashMap::new(),
            slots: Vec::new(),
            shut_until: Nanos::ZERO,
            open: 0,
        }
    }
}

impl StoreState {
    /// Whether there is nothing to write and nothing to count.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.waiters.is_empty() && self.recounts.is_empty()
    }

    /// Tells what happened.
    pub(crate) fn record(&mut self, change: WriteOp) {
        self.pending.push(WriteStep::from(change));
    }

    /// Something that is to be on the disk before the answer.
    pub(crate) fn record_synced(&mut self, change: WriteOp) {
        self.urgent = true;
        self.record(change);
    }

    /// A number for a lane, a tenant, a line or an action.
    pub(crate) const fn fresh_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn lane_of(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.lane_ids.get(name) {
            return *id;
        }
        let id = self.fresh_id();
        self.lane_ids.insert(name.clone(), id);
        self.lanes.insert(id, LaneState::new(name.clone()));
        self.record(WriteOp::Lane(id, name.clone()));
        id
    }

    pub(crate) fn tenant_of(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.tenant_ids.get(name) {
            return *id;
        }
        let id = self.fresh_id();
        self.tenant_ids.insert(name.clone(), id);
        let tenant = TenantState::new(name.clone(), self.usual.clone());
        self.tenants.insert(id, tenant);
        self.record(WriteOp::Tenant(id, name.clone()));
        id
    }

    /// The line of a class of a tenant in a lane.
    pub(crate) fn place_of(&mut self, lane: u32, tenant: u32, class: Priority) -> JobPosition {
        let seat = self.lane_tenant_mut(lane, tenant);
        let known = seat.map_or(0, |seat| seat.lines.get(class).id);
        let mut place = JobPosition {
            line: known,
            lane,
            tenant,
            class,
        };
        if known != 0 {
            return place;
        }
        place.line = self.fresh_id();
        self.add_place(place);
        self.record(WriteOp::Line(place));
        place
    }

    /// Makes room for a line, and for its tenant in its lane.
    pub(crate) fn add_place(&mut self, place: JobPosition) {
        self.places.insert(place.line, place);
        let (Some(lane), Some(tenant)) = (
            self.lanes.get_mut(&place.lane),
            self.tenants.get_mut(&place.tenant),
        ) else {
            return;
        };
        tenant.idle_since = None;
        let seat = lane.seats.entry(place.tenant).or_insert_with(|| {
            let handle = lane.order.join(claim_of(&tenant.rule), Priority::Normal);
            let slot = usize::try_from(handle.slot()).unwrap_or(usize::MAX);
            if lane.slots.len() <= slot {
                lane.slots.resize(slot + 1, 0);
            }
            if let Some(of) = lane.slots.get_mut(slot) {
                *of = place.tenant;
            }
            tenant.lanes.push(place.lane);
            LaneTenant::new(handle)
        });
        seat.lines.get_mut(place.class).id = place.line;
        self.arrange(place.tenant);
    }

    pub(crate) fn lane_tenant_mut(&mut self, lane: u32, tenant: u32) -> Option<&mut LaneTenant> {
        self.lanes.get_mut(&lane)?.seats.get_mut(&tenant)
    }

    pub(crate) fn line(&self, place: JobPosition) -> Option<&ClassQueue> {
        let seat = self.lanes.get(&place.lane)?.seats.get(&place.tenant)?;
        Some(seat.lines.get(place.class))
    }

    pub(crate) fn line_mut(&mut self, place: JobPosition) -> Option<&mut ClassQueue> {
        let seat = self.lane_tenant_mut(place.lane, place.tenant)?;
        Some(seat.lines.get_mut(place.class))
    }

    /// Puts a tenant aside in a lane until an instant.
    pub(crate) fn park(&mut self, lane: u32, tenant: u32, until: Nanos) {
        let lane = self.lanes.get_mut(&lane);
        let seat = lane.and_then(|lane| Some((lane.seats.get(&tenant)?.handle, lane)));
        if let Some((handle, lane)) = seat {
            lane.order.block_until(handle, until);
        }
    }

    /// Stops or lets go a tenant in all lanes, by what holds it.
    pub(crate) fn arrange(&mut self, tenant: u32) {
        let Some(state) = self.tenants.get(&tenant) else {
            return;
        };
        let held = state.is_held();
        for id in &state.lanes {
            let Some(lane) = self.lanes.get_mut(id) else {
                continue;
            };
            let Some(seat) = lane.seats.get(&tenant) else {
                continue;
            };
            if held {
                lane.order.pause(seat.handle);
            } else {
                lane.order.resume(seat.handle);
                self.rings = true;
            }
        }
    }

    /// Puts a tenant's seat in a lane in order after its lines changed: whether it has work, and with
    /// which claim.
    pub(crate) fn update_lane_tenant(&mut self, lane: u32, tenant: u32) {
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return;
        };
        let Some(seat) = lane.seats.get_mut(&tenant) else {
            return;
        };
        match seat.best_waiting() {
            Some(best) => {
                if best != seat.best
                    && let Some(tenant) = self.tenants.get(&tenant)
                {
                    seat.best = best;
                    lane.order
                        .reweight(seat.handle, claim_of(&tenant.rule), best);
                }
                lane.order.enter(seat.handle);
            }
            None => lane.order.set_idle(seat.handle),
        }
    }
}

/// A tenant's weight times its priority; the class of its best job multiplies it once more, by the order
/// itself.
pub(crate) fn claim_of(rule: &TenantRule) -> Weight {
    let factor = match rule.priority {
        Priority::Low => 1,
        Priority::Normal => 4,
        Priority::High => 16,
    };
    Weight::new(rule.weight.as_u32().saturating_mul(factor)).unwrap_or(Weight::ONE)
}
