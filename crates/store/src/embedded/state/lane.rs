//! Lanes, their tenants in fair order, and the queues of each tenant.

use std::collections::{BTreeMap, HashMap};

use outflow_core::{FairQueue, Nanos, Priority, Weight};

use super::class_queue::{ClassQueue, LaneTenant};
use super::job_entry::JobPosition;
use super::priority_classes::CLASSES;
use super::tenant::TenantState;
use crate::claim::LaneLoad;
use crate::name::Name;
use crate::tenant::TenantRule;

/// One lane: its tenants in fair order.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) name: Name,
    pub(crate) order: FairQueue,
    pub(crate) tenants: HashMap<u32, LaneTenant>,
    /// The tenant of each slot of the order.
    pub(crate) slots: Vec<u32>,
    /// The lane hands out nothing before.
    pub(crate) cooldown_until: Nanos,
    /// Jobs that wait or are in flight.
    pub(crate) open_jobs: u64,
}

impl LaneState {
    fn new(name: Name) -> Self {
        Self {
            name,
            order: FairQueue::new(),
            tenants: HashMap::new(),
            slots: Vec::new(),
            cooldown_until: Nanos::ZERO,
            open_jobs: 0,
        }
    }

    /// Returns the tenant that is next in fair order.
    pub(crate) fn next_tenant(&mut self, now: Nanos) -> Option<u32> {
        let handle = self.order.next(now)?;
        let slot = usize::try_from(handle.slot()).unwrap_or(usize::MAX);
        Some(self.slots.get(slot).copied().unwrap_or(0))
    }

    fn join(&mut self, id: u32, rule: &TenantRule) -> LaneTenant {
        let handle = self.order.join(fair_weight(rule), Priority::Normal);
        let slot = usize::try_from(handle.slot()).unwrap_or(usize::MAX);
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, 0);
        }
        if let Some(tenant) = self.slots.get_mut(slot) {
            *tenant = id;
        }
        LaneTenant::new(handle)
    }
}

/// All lanes, and the position of each queue on the disk.
#[derive(Debug, Default)]
pub(crate) struct LaneTable {
    lanes: BTreeMap<u32, LaneState>,
    ids: HashMap<Name, u32>,
    positions: HashMap<u32, JobPosition>,
    /// The lane and slot at which the next search for expired jobs starts.
    expiry_cursor: (u32, usize),
}

impl LaneTable {
    pub(crate) fn find(&self, name: &Name) -> Option<u32> {
        self.ids.get(name).copied()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&LaneState> {
        self.lanes.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut LaneState> {
        self.lanes.get_mut(&id)
    }

    pub(crate) fn insert(&mut self, id: u32, name: Name) {
        self.ids.insert(name.clone(), id);
        self.lanes.insert(id, LaneState::new(name));
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &LaneState> {
        self.lanes.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut LaneState)> {
        self.lanes.iter_mut().map(|(id, lane)| (*id, lane))
    }

    /// Lists the lanes that have work.
    pub(crate) fn busy_names(&self) -> Vec<Name> {
        let busy = self.lanes.values().filter(|lane| lane.open_jobs > 0);
        let mut names: Vec<Name> = busy.map(|lane| lane.name.clone()).collect();
        names.sort();
        names
    }

    /// Counts the tenants of each lane that has work.
    pub(crate) fn loads(&self) -> Vec<LaneLoad> {
        let busy = self.lanes.values().filter(|lane| lane.open_jobs > 0);
        let load = |lane: &LaneState| {
            let waiting = lane.tenants.values().filter(|tenant| tenant.queued > 0).count();
            LaneLoad {
                lane: lane.name.clone(),
                tenants: u64::try_from(waiting).unwrap_or(u64::MAX).max(1),
            }
        };
        busy.map(load).collect()
    }

    pub(crate) fn position(&self, queue: u32) -> Option<JobPosition> {
        self.positions.get(&queue).copied()
    }

    #[cfg(test)]
    pub(crate) fn queue_count(&self) -> usize {
        self.positions.len()
    }

    /// Counts the jobs of each queue that has some.
    pub(crate) fn queue_lengths(&self) -> HashMap<u32, u64> {
        let lengths = self.positions.iter().filter_map(|(id, position)| {
            let live = self.queue(*position)?.live;
            (live > 0).then_some((*id, live))
        });
        lengths.collect()
    }

    /// Adds a queue, and its tenant to its lane.
    pub(crate) fn add_queue(&mut self, position: JobPosition, tenant: Option<&mut TenantState>) {
        self.positions.insert(position.queue, position);
        let (Some(lane), Some(tenant)) = (self.lanes.get_mut(&position.lane), tenant) else {
            return;
        };
        tenant.idle_since = None;
        if !lane.tenants.contains_key(&position.tenant) {
            let joined = lane.join(position.tenant, &tenant.rule);
            lane.tenants.insert(position.tenant, joined);
            tenant.lanes.push(position.lane);
        }
        if let Some(queue) = self.queue_mut(position) {
            queue.id = position.queue;
        }
    }

    pub(crate) fn tenant(&self, lane: u32, tenant: u32) -> Option<&LaneTenant> {
        self.lanes.get(&lane)?.tenants.get(&tenant)
    }

    pub(crate) fn tenant_mut(&mut self, lane: u32, tenant: u32) -> Option<&mut LaneTenant> {
        self.lanes.get_mut(&lane)?.tenants.get_mut(&tenant)
    }

    pub(crate) fn queue(&self, position: JobPosition) -> Option<&ClassQueue> {
        let tenant = self.tenant(position.lane, position.tenant)?;
        Some(tenant.queues.get(position.class))
    }

    pub(crate) fn queue_mut(&mut self, position: JobPosition) -> Option<&mut ClassQueue> {
        let tenant = self.tenant_mut(position.lane, position.tenant)?;
        Some(tenant.queues.get_mut(position.class))
    }

    /// Counts one more job in a queue and its lane.
    pub(crate) fn add_job(&mut self, position: JobPosition) {
        if let Some(queue) = self.queue_mut(position) {
            queue.live += 1;
        }
        if let Some(lane) = self.lanes.get_mut(&position.lane) {
            lane.open_jobs += 1;
        }
        self.start_wait(position);
    }

    /// Counts one job less in a queue and its lane.
    pub(crate) fn remove_job(&mut self, position: JobPosition) {
        if let Some(queue) = self.queue_mut(position) {
            queue.live = queue.live.saturating_sub(1);
        }
        if let Some(lane) = self.lanes.get_mut(&position.lane) {
            lane.open_jobs = lane.open_jobs.saturating_sub(1);
        }
    }

    /// Sets the length of a loaded queue: all its jobs count as waiting.
    pub(crate) fn set_length(&mut self, position: JobPosition, jobs: u64) {
        if let Some(lane) = self.lanes.get_mut(&position.lane) {
            lane.open_jobs += jobs;
        }
        if let Some(tenant) = self.tenant_mut(position.lane, position.tenant) {
            tenant.queued += jobs;
            tenant.queues.get_mut(position.class).live = jobs;
        }
    }

    /// Counts a job that waits.
    pub(crate) fn start_wait(&mut self, position: JobPosition) {
        if let Some(tenant) = self.tenant_mut(position.lane, position.tenant) {
            tenant.queued += 1;
        }
    }

    /// Counts a job that no longer waits.
    pub(crate) fn end_wait(&mut self, position: JobPosition) {
        if let Some(tenant) = self.tenant_mut(position.lane, position.tenant) {
            tenant.queued = tenant.queued.saturating_sub(1);
        }
    }

    /// Counts a waiting job of a paused action.
    pub(crate) fn start_hold(&mut self, position: JobPosition) {
        if let Some(tenant) = self.tenant_mut(position.lane, position.tenant) {
            tenant.held += 1;
        }
    }

    /// Counts a job that its action no longer holds.
    pub(crate) fn end_hold(&mut self, position: JobPosition) {
        if let Some(tenant) = self.tenant_mut(position.lane, position.tenant) {
            tenant.held = tenant.held.saturating_sub(1);
        }
    }

    /// Blocks a tenant in a lane until an instant.
    pub(crate) fn block_tenant(&mut self, lane: u32, tenant: u32, until: Nanos) {
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return;
        };
        if let Some(tenant) = lane.tenants.get(&tenant) {
            lane.order.block_until(tenant.handle, until);
        }
    }

    /// Applies a tenant's rule to its place in the order of each lane.
    pub(crate) fn reweight(&mut self, id: u32, tenant: &TenantState) {
        for lane in &tenant.lanes {
            let Some(lane) = self.lanes.get_mut(lane) else {
                continue;
            };
            if let Some(member) = lane.tenants.get(&id) {
                let weight = fair_weight(&tenant.rule);
                lane.order.reweight(member.handle, weight, member.best);
            }
        }
    }

    /// Removes a tenant and returns the ids of its queues. Searching all queues for them would take time
    /// in proportion to all queues, for each removed tenant.
    pub(crate) fn remove_tenant(&mut self, id: u32, tenant: &TenantState) -> Vec<u32> {
        let mut queues = Vec::new();
        for lane in &tenant.lanes {
            let Some(lane) = self.lanes.get_mut(lane) else {
                continue;
            };
            if let Some(member) = lane.tenants.remove(&id) {
                lane.order.leave(member.handle);
                let ids = CLASSES.map(|class| member.queues.get(class).id);
                queues.extend(ids.into_iter().filter(|queue| *queue != 0));
            }
        }
        for queue in &queues {
            self.positions.remove(queue);
        }
        queues
    }

    /// Returns the queues of the next tenants to search for expired jobs, `limit` tenants at most.
    pub(crate) fn next_to_expire(&mut self, limit: usize) -> Vec<JobPosition> {
        let (mut positions, mut left) = (Vec::new(), limit);
        let (from, mut slot) = self.expiry_cursor;
        self.expiry_cursor = (0, 0);
        for (id, lane) in self.lanes.range(from..) {
            for (at, tenant) in lane.slots.iter().enumerate().skip(slot) {
                if left == 0 {
                    self.expiry_cursor = (*id, at);
                    return positions;
                }
                left -= 1;
                let Some(member) = lane.tenants.get(tenant) else {
                    continue;
                };
                positions.extend(CLASSES.map(|class| JobPosition {
                    queue: member.queues.get(class).id,
                    lane: *id,
                    tenant: *tenant,
                    class,
                }));
            }
            slot = 0;
        }
        positions
    }
}

/// Multiplies a tenant's weight with its priority. The order itself multiplies the class of the best job.
pub(crate) fn fair_weight(rule: &TenantRule) -> Weight {
    let weight = u64::from(rule.weight.as_u32()) * rule.priority.factor();
    Weight::new(u32::try_from(weight).unwrap_or(u32::MAX)).unwrap_or(Weight::ONE)
}
