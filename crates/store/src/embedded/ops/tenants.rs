//! Tenants: rules, pauses and congestion.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use outflow_core::ClockPair;

use super::actions::record_action;
use super::transitions::{catch_up, enqueue, enqueue_delayed};
use crate::embedded::disk::int_codec::to_len;
use crate::embedded::disk::write_op::{JobMark, MarkState, PauseWrite, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::tenant::TenantState;
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::{CongestionRecord, CongestionSample, ControlScope, LaneBacklog, TenantReport, TenantRule};

/// Sets the rule of all tenants without their own. It is not written: every process sets it at its start.
pub(crate) fn set_default_rule(state: &mut StoreState, rule: TenantRule) {
    let tenants = state.tenants.iter();
    let others = tenants.filter(|(_, tenant)| !tenant.has_own_rule);
    let others: Vec<u32> = others.map(|(id, _)| id).collect();
    for id in others {
        apply_rule(state, id, rule);
    }
    state.default_rule = rule;
}

/// Gives a tenant its own rule.
pub(crate) fn set_rule(state: &mut StoreState, name: &Name, rule: TenantRule) {
    let id = state.tenant_id(name);
    if let Some(tenant) = state.tenants.get_mut(id) {
        tenant.has_own_rule = true;
    }
    apply_rule(state, id, rule);
    let op = WriteOp::Rule(id, Some(Box::new(rule)));
    state.log.record_synced(op);
}

/// Applies the default rule to a tenant again.
pub(crate) fn remove_rule(state: &mut StoreState, name: &Name) {
    let tenant = state.tenants.find_mut(name);
    if let Some((id, tenant)) = tenant.filter(|(_, tenant)| tenant.has_own_rule) {
        tenant.has_own_rule = false;
        let rule = state.default_rule;
        apply_rule(state, id, rule);
        state.log.record_synced(WriteOp::Rule(id, None));
    }
}

fn apply_rule(state: &mut StoreState, id: u32, rule: TenantRule) {
    if let Some(tenant) = state.tenants.get_mut(id) {
        tenant.rule = rule;
        state.lanes.reweight(id, tenant);
        state.update_hold(id);
    }
}

/// Pauses or resumes a tenant or an action.
pub(crate) fn set_pause(state: &mut StoreState, scope: &ControlScope, pause: PauseWrite) -> Result<(), StoreError> {
    match scope {
        ControlScope::Tenant(name) => {
            pause_tenant(state, name, pause);
            Ok(())
        }
        ControlScope::Action(name) => pause_action(state, name, pause),
    }
}

fn pause_tenant(state: &mut StoreState, name: &Name, pause: PauseWrite) {
    let id = state.tenant_id(name);
    if let Some(tenant) = state.tenants.get_mut(id) {
        tenant.paused = pause == PauseWrite::Paused;
    }
    state.update_hold(id);
    state.log.record_synced(WriteOp::Paused(id, pause));
}

fn pause_action(state: &mut StoreState, name: &Name, pause: PauseWrite) -> Result<(), StoreError> {
    let (id, action) = state.actions.known_mut(name)?;
    action.state.paused = pause == PauseWrite::Paused;
    let held = match pause {
        PauseWrite::Paused => BTreeMap::new(),
        PauseWrite::Running => mem::take(&mut action.held),
    };
    state.log.needs_sync = true;
    record_action(state, id);
    for (seq, entry) in held {
        state.lanes.end_hold(entry.position);
        enqueue(state, seq, entry);
    }
    Ok(())
}

/// Queues deferred jobs, and returns the number that is still deferred.
pub(crate) fn release_deferred(state: &mut StoreState, name: &Name, limit: u64, moment: ClockPair) -> u64 {
    catch_up(state, moment);
    let Some(id) = state.tenants.find(name) else {
        return 0;
    };
    let deferred = state.delayed.deferred_of(id).take(to_len(limit));
    let marks = deferred.map(|(seq, job)| JobMark::new(seq, MarkState::Returned, job.entry.history));
    for mark in marks.collect::<Vec<_>>() {
        enqueue_delayed(state, mark.seq);
        state.log.record_synced(WriteOp::Mark(mark));
    }
    let tenant = state.tenants.get(id);
    tenant.map_or(0, |tenant| tenant.counts.non_ready)
}

/// Reports a tenant, with the lanes in which its jobs wait.
pub(crate) fn report(state: &StoreState, id: u32, moment: ClockPair) -> Option<TenantReport> {
    let tenant = state.tenants.get(id)?;
    let lanes = tenant.lanes.iter().filter_map(|lane| state.lanes.get(*lane));
    let backlogs = lanes.filter_map(|lane| {
        let own = lane.tenants.get(&id)?;
        let jobs = own.queued.saturating_sub(own.held);
        let lane = lane.name.clone();
        (jobs > 0).then_some(LaneBacklog { lane, jobs })
    });
    let latest = match tenant.counts.delayed {
        0 => None,
        _ => state
            .delayed
            .last_end(DELAY_SAMPLE, moment, |entry| entry.position.tenant == id),
    };
    Some(tenant.report(backlogs.collect(), latest))
}

/// Returns true for the first caller in each interval of this length.
pub(crate) fn begin_sampling(state: &mut StoreState, every: Duration, moment: ClockPair) -> bool {
    let interval = moment.wall.as_duration().as_nanos() / every.as_nanos().max(1);
    state.sampled.replace(interval) != Some(interval)
}

/// Records the congestion of tenants with work. It is not written: it covers the last hour of this
/// process.
pub(crate) fn record_congestion(
    state: &mut StoreState,
    samples: Vec<CongestionRecord>,
    keep: Duration,
    moment: ClockPair,
) {
    catch_up(state, moment);
    for sample in samples {
        if let Some((_, tenant)) = state.tenants.find_mut(&sample.tenant) {
            tenant.sample(&sample, keep, moment.wall);
        }
    }
}

/// Returns the last samples of a tenant.
pub(crate) fn congestion_history(state: &StoreState, name: &Name, limit: usize) -> Vec<CongestionSample> {
    let Some((_, tenant)) = state.tenants.find_entry(name) else {
        return Vec::new();
    };
    let skipped = tenant.history.len().saturating_sub(limit);
    tenant.history.iter().skip(skipped).copied().collect()
}

/// Clears a tenant's statistics.
pub(crate) fn reset_congestion(state: &mut StoreState, name: &Name, moment: ClockPair) -> Result<(), StoreError> {
    catch_up(state, moment);
    let Some((id, tenant)) = state.tenants.find_mut(name) else {
        return Ok(());
    };
    if tenant.counts.non_ready > 0 {
        return Err(StoreError::refused(format!(
            "{} jobs of {name} are deferred: release them, or wait until they have run",
            tenant.counts.non_ready
        )));
    }
    tenant.reset_counts();
    tenant.history.clear();
    state.log.record_synced(WriteOp::Reset(id));
    Ok(())
}

/// Clears the statistics of a tenant that gets work after it had none.
pub(crate) fn wake_tenant(state: &mut StoreState, id: u32) {
    let is_idle = |tenant: &&mut TenantState| tenant.counts.open() == 0;
    let Some(tenant) = state.tenants.get_mut(id).filter(is_idle) else {
        return;
    };
    let before = (tenant.counts, tenant.last_update);
    tenant.reset_counts();
    if before != (tenant.counts, tenant.last_update) {
        state.log.record(WriteOp::Reset(id));
    }
}

/// The last delays may belong to other tenants, but seldom this many of them.
const DELAY_SAMPLE: usize = 1_000;
