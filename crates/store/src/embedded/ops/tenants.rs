//! Tenants: their claims, their pauses and how they stand.

use std::time::Duration;

use outflow_core::ClockPair;

use super::actions::names_after;
use super::transitions::JobCountState;
use crate::embedded::disk::int_codec::length;
use crate::embedded::disk::write_op::{JobMark, MarkState, PauseWrite, WriteOp};
use crate::embedded::state::tenant::TenantState;
use crate::embedded::state::{StoreState, claim_of};
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::{CongestionSample, ControlScope, PageRequest, TenantReport, TenantRule};

impl StoreState {
    /// Sets the claim of all tenants that have none of their own. In memory alone: whoever opens the
    /// store says it first.
    pub(crate) fn set_usual(&mut self, rule: TenantRule) {
        let others = self.tenants.iter().filter(|(_, tenant)| !tenant.ruled);
        let others: Vec<u32> = others.map(|(id, _)| *id).collect();
        for id in others {
            self.entitle(id, rule.clone());
        }
        self.usual = rule;
    }

    /// Gives a tenant a claim of its own.
    pub(crate) fn set_rule(&mut self, name: &Name, rule: TenantRule) {
        let id = self.tenant_of(name);
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.ruled = true;
        }
        self.entitle(id, rule.clone());
        self.record_synced(WriteOp::Rule(id, Some(Box::new(rule))));
    }

    /// Serves a tenant as all others.
    pub(crate) fn unset_rule(&mut self, name: &Name) {
        let Some(id) = self.tenant_ids.get(name).copied() else {
            return;
        };
        if let Some(tenant) = self.tenants.get_mut(&id).filter(|tenant| tenant.ruled) {
            tenant.ruled = false;
            self.entitle(id, self.usual.clone());
            self.record_synced(WriteOp::Rule(id, None));
        }
    }

    /// Changes a tenant's claim in all lanes.
    fn entitle(&mut self, id: u32, rule: TenantRule) {
        let Some(tenant) = self.tenants.get_mut(&id) else {
            return;
        };
        tenant.rule = rule;
        let weight = claim_of(&tenant.rule);
        for lane in &tenant.lanes {
            let Some(lane) = self.lanes.get_mut(lane) else {
                continue;
            };
            if let Some(seat) = lane.seats.get(&id) {
                lane.order.reweight(seat.handle, weight, seat.best);
            }
        }
        self.arrange(id);
    }

    /// Stops or lets go a tenant or an action.
    pub(crate) fn set_pause(
        &mut self,
        scope: &ControlScope,
        pause: PauseWrite,
    ) -> Result<(), StoreError> {
        match scope {
            ControlScope::Tenant(name) => self.pause_tenant(name, pause),
            ControlScope::Action(name) => self.pause_action(name, pause)?,
        }
        Ok(())
    }

    fn pause_tenant(&mut self, name: &Name, pause: PauseWrite) {
        let id = self.tenant_of(name);
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.paused = pause == PauseWrite::Stopped;
        }
        self.arrange(id);
        self.record_synced(WriteOp::Paused(id, pause));
    }

    fn pause_action(&mut self, name: &Name, pause: PauseWrite) -> Result<(), StoreError> {
        let (id, action) = self.known_action(name)?;
        action.state.paused = pause == PauseWrite::Stopped;
        let held = match pause {
            PauseWrite::Stopped => std::collections::BTreeMap::new(),
            PauseWrite::Running => std::mem::take(&mut action.held),
        };
        self.urgent = true;
        self.record_action(id);
        for (seq, entry) in held {
            self.stand(seq, entry);
        }
        Ok(())
    }

    /// Lets jobs that were put off stand in line. Answers how many still are.
    pub(crate) fn release(&mut self, name: &Name, most: u64, moment: ClockPair) -> u64 {
        self.catch_up(moment);
        let Some(id) = self.tenant_ids.get(name).copied() else {
            return 0;
        };
        let put_off = |seq: &u64| {
            let waiting = self.waiting.get(seq);
            waiting.is_some_and(|waiting| {
                waiting.standing == JobCountState::PutOff && waiting.entry.place.tenant == id
            })
        };
        let mut freed: Vec<u64> = self.due.iter().map(|(_, seq)| *seq).collect();
        freed.retain(put_off);
        freed.truncate(length(most));
        for seq in freed {
            let tries = self.waiting.get(&seq).map(|waiting| waiting.entry.tries);
            self.line_up(seq);
            self.record_synced(WriteOp::Mark(JobMark {
                seq,
                state: MarkState::Back,
                tries: tries.unwrap_or_default(),
                due: None,
                span: None,
            }));
        }
        let tenant = self.tenants.get(&id);
        tenant.map_or(0, |tenant| tenant.tally.non_ready)
    }

    pub(crate) fn tenant_report(&self, name: &Name) -> Option<TenantReport> {
        let id = self.tenant_ids.get(name)?;
        self.tenants.get(id).map(TenantState::report)
    }

    pub(crate) fn tenant_reports(&self, page: &PageRequest) -> Vec<TenantReport> {
        names_after(&self.tenant_ids, page)
            .filter_map(|id| self.tenants.get(id).map(TenantState::report))
            .collect()
    }

    /// Remembers how congested tenants with work are. In memory alone: it tells of the last hour, and a
    /// new process has none.
    pub(crate) fn snapshot(&mut self, keep: Duration, moment: ClockPair) {
        self.catch_up(moment);
        for tenant in self.tenants.values_mut() {
            if tenant.tally.open() > 0 {
                tenant.history.push_back(CongestionSample {
                    at: moment.wall,
                    non_ready: tenant.tally.non_ready,
                    speed: tenant.speed,
                    backoff: tenant.last_backoff,
                });
            }
            while tenant.history.len() > 1
                && let Some(oldest) = tenant.history.front()
                && moment.wall.since(oldest.at) >= keep
            {
                tenant.history.pop_front();
            }
        }
    }

    pub(crate) fn history(&self, name: &Name, most: usize) -> Vec<CongestionSample> {
        let id = self.tenant_ids.get(name);
        let Some(tenant) = id.and_then(|id| self.tenants.get(id)) else {
            return Vec::new();
        };
        let skipped = tenant.history.len().saturating_sub(most);
        tenant.history.iter().skip(skipped).copied().collect()
    }

    /// Forgets a tenant's statistics.
    pub(crate) fn reset(&mut self, name: &Name, moment: ClockPair) -> Result<(), StoreError> {
        self.catch_up(moment);
        let Some(id) = self.tenant_ids.get(name).copied() else {
            return Ok(());
        };
        let Some(tenant) = self.tenants.get_mut(&id) else {
            return Ok(());
        };
        if tenant.tally.non_ready > 0 {
            return Err(StoreError::refused(format!(
                "{} jobs of {name} are put off: release them first",
                tenant.tally.non_ready
            )));
        }
        tenant.reset();
        self.record_synced(WriteOp::Reset(id));
        Ok(())
    }

    /// A tenant that had nothing to do, and has now, begins its counts anew.
    pub(crate) fn awake(&mut self, id: u32) {
        let rests = |tenant: &&mut TenantState| tenant.tally.open() == 0;
        let Some(tenant) = self.tenants.get_mut(&id).filter(rests) else {
            return;
        };
        let before = (tenant.tally, tenant.last_update);
        tenant.recount();
        if before != (tenant.tally, tenant.last_update) {
            self.record(WriteOp::Reset(id));
        }
    }

    /// The lanes that have work.
    pub(crate) fn busy_lanes(&self) -> Vec<Name> {
        let busy = self.lanes.values().filter(|lane| lane.open > 0);
        let mut names: Vec<Name> = busy.map(|lane| lane.name.clone()).collect();
        names.sort();
        names
    }
}

impl TenantState {
    fn report(&self) -> TenantReport {
        TenantReport {
            name: self.name.clone(),
            rule: self.rule.clone(),
            ruled: self.ruled,
            paused: self.paused,
            tally: self.tally,
            last_backoff: self.last_backoff,
            speed: self.speed,
            last_update: self.last_update,
        }
    }

    fn reset(&mut self) {
        self.recount();
        self.history.clear();
    }

    /// Jobs that are there stay counted, dead letters too.
    fn recount(&mut self) {
        let tally = &mut self.tally;
        (tally.done, tally.failed, tally.cancelled) = (0, 0, 0);
        (tally.throttles, tally.busy) = (0, Duration::ZERO);
        (self.last_backoff, self.speed) = (Duration::ZERO, 0);
        self.last_update = None;
    }
}
