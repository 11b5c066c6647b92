//! Tenants in memory.

use std::collections::VecDeque;
use std::time::Duration;

use outflow_core::{Nanos, WallTime};

use super::StoreState;
use super::named_table::NamedEntry;
use crate::action::JobCounts;
use crate::name::Name;
use crate::tenant::{CongestionRecord, CongestionSample, LaneBacklog, TenantReport, TenantRule};

/// One tenant.
#[derive(Debug)]
pub(crate) struct TenantState {
    pub(crate) name: Name,
    /// Its own rule, or the default rule.
    pub(crate) rule: TenantRule,
    /// The rule is its own: garbage collection keeps such a tenant.
    pub(crate) has_own_rule: bool,
    pub(crate) paused: bool,
    pub(crate) counts: JobCounts,
    pub(crate) last_backoff: Duration,
    pub(crate) speed: u64,
    pub(crate) last_update: Option<WallTime>,
    pub(crate) history: VecDeque<CongestionSample>,
    /// The lanes in which it has queues.
    pub(crate) lanes: Vec<u32>,
    /// A cancellation is ending its jobs up to this number.
    pub(crate) cancelled_to: u64,
    /// The instant since which it has no work and got no new queue.
    pub(crate) idle_since: Option<Nanos>,
}

impl TenantState {
    pub(crate) fn new(name: Name, default_rule: TenantRule) -> Self {
        Self {
            name,
            rule: default_rule,
            has_own_rule: false,
            paused: false,
            counts: JobCounts::default(),
            last_backoff: Duration::ZERO,
            speed: 0,
            last_update: None,
            history: VecDeque::new(),
            lanes: Vec::new(),
            cancelled_to: 0,
            idle_since: None,
        }
    }

    /// Returns true if a pause or its own in-flight limit stops it.
    pub(crate) fn is_held(&self) -> bool {
        let limit = self.rule.in_flight.map(u64::from);
        self.paused || limit.is_some_and(|limit| self.counts.in_flight >= limit)
    }

    pub(crate) fn report(&self, lanes: Vec<LaneBacklog>, latest: Option<WallTime>) -> TenantReport {
        TenantReport {
            name: self.name.clone(),
            rule: self.rule,
            ruled: self.has_own_rule,
            paused: self.paused,
            counts: self.counts,
            last_backoff: self.last_backoff,
            speed: self.speed,
            last_update: self.last_update,
            latest,
            lanes,
        }
    }

    /// Clears the statistics. Open jobs and dead letters stay counted.
    pub(crate) const fn reset_counts(&mut self) {
        let counts = &mut self.counts;
        (counts.done, counts.failed, counts.cancelled) = (0, 0, 0);
        (counts.throttles, counts.busy) = (0, Duration::ZERO);
        (self.last_backoff, self.speed) = (Duration::ZERO, 0);
        self.last_update = None;
    }

    /// Records its congestion if it has work, and drops samples older than `keep`.
    pub(crate) fn sample(&mut self, sample: &CongestionRecord, keep: Duration, at: WallTime) {
        if self.counts.open() > 0 {
            self.history.push_back(CongestionSample {
                at,
                non_ready: sample.non_ready,
                speed: sample.speed,
                backoff: sample.backoff,
            });
        }
        while self.history.len() > 1
            && let Some(oldest) = self.history.front()
            && at.since(oldest.at) >= keep
        {
            self.history.pop_front();
        }
    }
}

impl NamedEntry for TenantState {
    fn name(&self) -> &Name {
        &self.name
    }
}

impl StoreState {
    /// Changes the counts of a tenant, and the number of tenants with work. Returns true if the change may
    /// start or end a hold by the tenant's in-flight limit.
    pub(crate) fn count_tenant(&mut self, id: u32, change: impl Fn(&mut JobCounts)) -> bool {
        let Some(tenant) = self.tenants.get_mut(id) else {
            return false;
        };
        let before = tenant.counts;
        change(&mut tenant.counts);
        match (before.open() > 0, tenant.counts.open() > 0) {
            (false, true) => {
                self.active_tenants += 1;
                tenant.idle_since = None;
            }
            (true, false) => self.active_tenants -= 1,
            _ => {}
        }
        tenant.rule.in_flight.is_some() && before.in_flight != tenant.counts.in_flight
    }
}
